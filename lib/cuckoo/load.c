/* SPDX-License-Identifier: MIT
 *
 * Layer 2: loads and maps saved cuckoo filters, which save.c writes.
 *
 * The data may be damaged or made up.  So a load allocates a segment only when the segment's data
 * arrive, computes all counters, and uses no lock words, versions or addresses in the data.
 */
#include "cuckoo/save.h"

#include "base/memory.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "cuckoo/generation.h"
#include "cuckoo/memory.h"
#include "cuckoo/operations.h"
#include "cuckoo/segment.h"

struct load {
  struct saved_reader *r;
  const struct saved_head *saved;
  struct cuckoo *c;
  uint64_t totals[SAVED_TOTALS]; /* the totals (save.h) of the data read so far */
  /* Members for a growable filter: */
  struct retired *list; /* the segments of a root that is not complete yet */
  uint64_t next;        /* the least directory index that the next segment may have */
  uint64_t *removed;
  size_t removed_n, removed_room;
  /* Members for a fixed filter: */
  struct saved_memory memory; /* the block with the segments */
  uint64_t segments;
  uint64_t places; /* a digest of the segments' offsets in the file */
};

static struct generation *newest(const struct load *l)
{
  return cuckoo_generation(l->c, cuckoo_generations(l->c) - 1);
}

/* Sets segment->copying and each stripe's number of lanes in use, and returns the sum of these
 * numbers.  In a mapped filter, `segment` is NULL (also in load_counts()): nothing is set. */
static uint64_t set_figures(const struct cuckoo_geometry *g, struct segment *segment,
                            const uint32_t used[CUCKOO_FIXED_STRIPES], uint64_t copying)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i <= g->stripe_mask; i++) {
    if (segment) /* both stores are relaxed: the filter is not shared yet */
      atomic_store_explicit(&segment_stripes(segment)[i].used, g->shape.ages ? used[i] : 0,
                            memory_order_relaxed);
    sum += used[i];
  }
  if (segment)
    atomic_store_explicit(&segment->copying, (uint32_t) copying, memory_order_relaxed);
  return sum;
}

/* Reads the blocks of counts that follow a segment.  If the filter is mapped, only checks them. */
static int load_counts(struct load *l, const struct cuckoo_geometry *g, uint64_t index,
                       const uint64_t *words, struct segment *segment)
{
  struct image_table table = {
      .shape = &g->shape, .words = words, .n = cuckoo_buckets(g), .table = index};
  /* If max_bytes is set, allocates no spare room: a filter that was saved at its limit must fit. */
  const bool spare = l->saved->options.max_bytes == 0;
  struct budget budget = tamis__cuckoo_budget(l->c);
  return tamis__image_load_plane(l->r, &table, segment ? &segment->duplicates : NULL, &budget,
                                 spare, &l->totals[TOTAL_COPIES]);
}

/* ---- segments of a growable filter ---- */

/* Whether all segments of the root that was read last have been read. */
static bool root_is_complete(const struct load *l)
{
  return (l->next & ((UINT64_C(1) << newest(l)->geometry.depth_limit) - 1)) == 0;
}

static int load_generation(struct load *l, const struct saved_block *block)
{
  uint64_t figures[SAVED_FIGURES_OF_GENERATION];
  struct cuckoo_geometry g;
  unsigned n = cuckoo_generations(l->c);
  if (!tamis__image_is(block, SAVED_GENERATION, (uint64_t[SAVED_MEANINGS]){n},
                       SAVED_FIGURES_OF_GENERATION) ||
      n == CUCKOO_MAX_GENERATIONS || !root_is_complete(l))
    return TAMIS_ECORRUPT;
  image_get(figures, block->payload, SAVED_FIGURES_OF_GENERATION);
  if (!tamis__cuckoo_read_geometry(l->saved, figures, &newest(l)->geometry, &g))
    return TAMIS_ECORRUPT;
  int result = tamis__growth_provide(l->c);
  struct generation *generation =
      result == TAMIS_OK ? tamis__generation_create(l->c, &g, &result) : NULL;
  if (!generation)
    return result;
  tamis__generation_append(l->c, generation, n);
  l->next = 0;
  return TAMIS_OK;
}

/* Whether the next segment in the data may have this directory index and this depth. */
static bool is_in_its_place(const struct load *l, uint64_t index, unsigned depth)
{
  const struct cuckoo_geometry *g = &newest(l)->geometry;
  uint64_t of_root = index & ((UINT64_C(1) << g->depth_limit) - 1);
  return depth <= g->depth_limit && index < cuckoo_directory_size(g) &&
         directory_range_of(g, index, depth).first == index &&
         (index == l->next || (index > l->next && root_is_complete(l) && of_root == 0));
}

static int fill_segment(struct load *l, const struct cuckoo_geometry *g, struct segment *segment,
                        const struct saved_block *block)
{
  uint32_t used[CUCKOO_FIXED_STRIPES];
  uint64_t *words = (uint64_t *) (void *) segment_words(g, segment); /* not shared yet */
  image_get(words, block->payload, cuckoo_buckets(g));
  if (!tamis__check_words(g, words, cuckoo_most_age(g, segment->depth), used) ||
      block->meanings[2] > INT32_MAX ||
      set_figures(g, segment, used, block->meanings[2]) != block->meanings[3])
    return TAMIS_ECORRUPT;
  l->totals[TOTAL_ENTRIES] += block->meanings[3];
  return load_counts(l, g, block->meanings[1], words, segment);
}

/* Makes the directory lead to the segments of a root, all of which are in the list. */
static int publish_root(struct load *l, uint64_t index)
{
  struct generation *generation = newest(l);
  const struct cuckoo_geometry *g = &generation->geometry;
  directory_value value = directory_value_of((struct segment *) l->list);
  struct directory_array *array = NULL;
  unsigned bits = 0;
  for (const struct retired *each = l->list; each; each = each->next) {
    unsigned depth = ((const struct segment *) each)->depth, needed = directory_bits(g, depth);
    bits = depth > 0 && needed > bits ? needed : bits;
  }
  if (bits > 0) {
    int result;
    array = tamis__cuckoo_allocate(l->c, directory_array_bytes(bits), &result);
    if (!array)
      return result;
    value = directory_value_of_array(array, bits);
  }
  for (struct retired *each = l->list; array && each; each = each->next)
    directory_put(g, array, bits, (struct segment *) each);
  l->list = NULL;
  generation_mark_root(generation, cuckoo_root_of_index(g, index));
  directory_publish(root_entry(generation, index), value);
  return TAMIS_OK;
}

static int load_segment(struct load *l, const struct saved_block *block)
{
  struct generation *generation = newest(l);
  const struct cuckoo_geometry *g = &generation->geometry;
  unsigned number = (uint32_t) block->meanings[0];
  unsigned depth = (unsigned) (block->meanings[0] >> 32);
  uint64_t index = block->meanings[1], entries = l->totals[TOTAL_ENTRIES];
  uint64_t copies = l->totals[TOTAL_COPIES];
  int result;
  if (number != generation->number || !is_in_its_place(l, index, depth) ||
      block->size != cuckoo_buckets(g) * 8)
    return TAMIS_ECORRUPT;
  result = depth > 0 ? tamis__growth_provide(l->c) : TAMIS_OK; /* as after a split */
  if (result != TAMIS_OK)
    return result;
  struct segment *segment = tamis__segment_create(l->c, generation, index, depth, &result);
  if (!segment)
    return result;
  result = fill_segment(l, segment_geometry(generation, segment), segment, block);
  if (result != TAMIS_OK) {
    tamis__segment_destroy(l->c, g, segment);
    return result;
  }
  segment->retired.next = l->list;
  l->list = &segment->retired;
  l->next = index + directory_range_of(g, index, depth).count;
  l->totals[TOTAL_SEGMENTS]++;
  atomic_fetch_add_explicit(&generation->segments, 1, memory_order_relaxed); /* two statistics */
  if (depth > g->uneven_at && !g->later)
    atomic_fetch_add_explicit(&cuckoo_growth(l->c)->after_segments, 1, memory_order_relaxed);
  cuckoo_count_change(generation, ENTRIES, (int64_t) (l->totals[TOTAL_ENTRIES] - entries));
  cuckoo_count_change(generation, DUPLICATES, (int64_t) (l->totals[TOTAL_COPIES] - copies));
  return root_is_complete(l) ? publish_root(l, index) : TAMIS_OK;
}

static int load_removed(struct load *l, const struct saved_block *block)
{
  size_t n = block->size / 8;
  if (!n || !tamis__image_is(block, SAVED_REMOVED, (uint64_t[SAVED_MEANINGS]){0}, n))
    return TAMIS_ECORRUPT;
  if (l->removed_n + n > l->removed_room) {
    size_t room = 2 * l->removed_room > l->removed_n + n ? 2 * l->removed_room : l->removed_n + n;
    if (l->saved->limit && room * 8 > l->saved->limit)
      return TAMIS_EFULL;
    void *larger = tamis__memory_grow(&l->r->allocator, l->removed, l->removed_room * 8, room * 8);
    if (!larger)
      return TAMIS_ENOMEM;
    l->removed = larger;
    l->removed_room = room;
  }
  image_get(l->removed + l->removed_n, block->payload, n);
  l->removed_n += n;
  return TAMIS_OK;
}

static int load_limits(struct load *l, const struct saved_block *block)
{
  struct cuckoo *c = l->c;
  double excess = saved_to_double(block->meanings[0]);
  unsigned n = cuckoo_generations(c);
  if (!tamis__image_is(block, SAVED_LIMITS, (uint64_t[SAVED_MEANINGS]){block->meanings[0]}, n) ||
      !(excess >= 0 && excess < c->fpp)) /* also refuses NaN */
    return TAMIS_ECORRUPT;
  for (unsigned i = 0; i < n; i++) {
    uint64_t limit = saved_get64(block->payload + i * sizeof limit);
    if (limit > cuckoo_generation(c, i)->geometry.depth_limit)
      return TAMIS_ECORRUPT;
    atomic_store_explicit(&cuckoo_generation(c, i)->split_limit, (uint8_t) limit,
                          memory_order_relaxed);
  }
  int result = tamis__growth_provide(c);
  if (result == TAMIS_OK) /* relaxed: the filter is not shared yet */
    atomic_store_explicit(&cuckoo_growth(c)->excess, excess, memory_order_relaxed);
  return result;
}

static int load_blocks(struct load *l)
{
  struct saved_block block;
  bool last = false; /* true if only the end block may follow */
  int result = tamis__generation_provide_directory(l->c, &l->c->first);
  while (result == TAMIS_OK && (result = tamis__saved_read_block(l->r, &block)) == TAMIS_OK &&
         block.type != SAVED_END) {
    result = last                             ? TAMIS_ECORRUPT
             : block.type == SAVED_SEGMENT    ? load_segment(l, &block)
             : block.type == SAVED_GENERATION ? load_generation(l, &block)
             : block.type == SAVED_REMOVED    ? load_removed(l, &block)
             : block.type == SAVED_LIMITS     ? load_limits(l, &block)
                                              : TAMIS_ECORRUPT;
    last = block.type == SAVED_LIMITS;
  }
  return result == TAMIS_OK && !root_is_complete(l) ? TAMIS_ECORRUPT : result;
}

/* Removes the keys that calls removed during the save, as snapshot.c requires. */
static int remove_keys(struct load *l)
{
  for (size_t i = 0; i < l->removed_n; i++) {
    int result = tamis__cuckoo_remove_mixed(l->c, l->removed[i]);
    if (result != TAMIS_OK)
      return result == TAMIS_ABSENT ? TAMIS_ECORRUPT : result;
  }
  return TAMIS_OK;
}

/* ---- segments of a fixed filter ---- */

/* Whether a segment is as save.c writes it: all bytes before and after the words are 0, except for
 * `copying` and the stripes' numbers of lanes in use. */
static bool segment_is_whole(const struct cuckoo_geometry *g, const unsigned char *at,
                             uint32_t copying, uint32_t used[CUCKOO_FIXED_STRIPES])
{
  unsigned char head[CUCKOO_SEGMENT_HEADER + CUCKOO_FIXED_STRIPES * CUCKOO_STRIPE_BYTES], after = 0;
  const uint64_t *words = (const uint64_t *) (const void *) (at + g->words_offset);
  if (!tamis__check_words(g, words, 0, used) || copying > INT32_MAX)
    return false;
  put_segment_head(g, copying, used, head);
  for (uint64_t i = g->words_offset + cuckoo_buckets(g) * 8; i < cuckoo_segment_bytes(g); i++)
    after |= at[i];
  return memcmp(at, head, g->words_offset) == 0 && !after;
}

static uint64_t add_place(uint64_t digest, uint64_t place)
{
  return hash_spread(digest ^ place) + 1;
}

static bool adopt_place(struct load *l, uint64_t root, uint64_t place)
{
  const struct generation *generation = newest(l);
  if (place % SAVED_ARRAY_ALIGNMENT ||
      place > l->r->mapping_size - cuckoo_segment_bytes(&generation->geometry))
    return false;
  directory_publish(&generation->directory[root], (directory_value) (l->r->mapping + place));
  return true;
}

/* Reads the table of the segments' offsets in the file, and compares it with the offsets of the
 * segments that were read.  In a mapped filter, makes the directory lead to the offsets. */
static int read_places(struct load *l, const struct cuckoo_geometry *g)
{
  struct saved_block block;
  const uint64_t roots = cuckoo_roots(g);
  uint64_t digest = 0;
  int result = TAMIS_OK;
  if (l->r->mapping) {
    if (roots * cuckoo_segment_bytes(g) > l->r->mapping_size)
      return TAMIS_ECORRUPT;
    result = tamis__generation_provide_directory(l->c, newest(l));
  }
  l->totals[TOTAL_PLACES] = l->r->at - (l->r->have_next ? SAVED_UNIT : 0);
  for (uint64_t i = 0, done = 0; done < roots && result == TAMIS_OK;) {
    result = tamis__image_read_row(l->r, SAVED_PLACES, 0, roots, &done, &block);
    for (const unsigned char *at = block.payload; i < done && result == TAMIS_OK; i++, at += 8) {
      const uint64_t place = saved_get64(at);
      digest = add_place(digest, place);
      if (l->r->mapping && !adopt_place(l, i, place))
        result = TAMIS_ECORRUPT;
    }
  }
  return result == TAMIS_OK && digest != l->places && !l->r->jumped ? TAMIS_ECORRUPT : result;
}

static int load_fixed_segment(struct load *l, const struct cuckoo_geometry *g)
{
  const struct cuckoo *c = l->c;
  /* c->bytes already includes l->memory.all. */
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed); /* not shared yet */
  l->memory.limit = c->max_bytes ? c->max_bytes - (bytes - l->memory.all) : 0;
  int result = tamis__saved_read_array(l->r, cuckoo_segment_bytes(g), &l->memory);
  if (result != TAMIS_OK)
    return result;
  const void *at = l->memory.array;
  const bool mapped = l->r->mapping;
  struct segment *segment = mapped ? NULL : (struct segment *) at;
  uint32_t used[CUCKOO_FIXED_STRIPES];
  uint64_t *words = (uint64_t *) (void *) ((unsigned char *) at + g->words_offset);
  l->places = add_place(l->places, l->memory.begin);
  if (!mapped)
    saved_swap(words, cuckoo_buckets(g));
  const uint32_t copying = saved_get32((const unsigned char *) at + SAVED_COPYING_AT);
  if (!segment_is_whole(g, at, copying, used))
    return TAMIS_ECORRUPT;
  l->totals[TOTAL_ENTRIES] += set_figures(g, segment, used, copying);
  return load_counts(l, g, l->segments++, words, segment);
}

static int load_fixed_segments(struct load *l, const struct cuckoo_geometry *g)
{
  const bool skip = l->r->mapping && !l->r->check_all;
  int result = TAMIS_OK;
  if (skip) {
    result = tamis__saved_read_totals(l->r, l->totals);
    if (result == TAMIS_OK)
      result = tamis__saved_jump(l->r, l->totals[TOTAL_PLACES]);
  } else if (l->c->has_home) {
    uint64_t bytes = cuckoo_home_bytes(g);
    l->memory = (struct saved_memory){(void *) cuckoo_home(l->c), bytes, 0, bytes, 0, NULL, 0};
  } else if (!l->r->mapping) {
    l->memory.all = cuckoo_roots(g) * cuckoo_segment_bytes(g);
    atomic_fetch_add_explicit(&l->c->bytes, l->memory.all,
                              memory_order_relaxed); /* tamis__cuckoo_load() checked the limit */
  }
  while (result == TAMIS_OK && !skip && l->segments < cuckoo_roots(g))
    result = load_fixed_segment(l, g);
  return result == TAMIS_OK ? read_places(l, g) : result;
}

/* Makes the filter the owner of the block that contains the segments. */
static int publish_block(struct load *l, const struct cuckoo_geometry *g)
{
  struct generation *generation = newest(l);
  int result = TAMIS_OK;
  if (!l->r->mapping) {
    result = tamis__generation_provide_directory(l->c, generation);
    if (result != TAMIS_OK)
      return result;
    tamis__generation_use_block(l->c, l->memory.block);
    l->memory = (struct saved_memory){0};
  }
  generation->segments = cuckoo_roots(g);
  cuckoo_count_change(generation, ENTRIES, (int64_t) l->totals[TOTAL_ENTRIES]);
  cuckoo_count_change(generation, DUPLICATES, (int64_t) l->totals[TOTAL_COPIES]);
  return TAMIS_OK;
}

/* ---- the whole load ---- */

static int load_all(struct load *l)
{
  bool growable = l->saved->options.growable;
  const struct cuckoo_geometry *g = &l->c->first.geometry;
  uint64_t said[SAVED_TOTALS];
  int result = growable ? load_blocks(l) : load_fixed_segments(l, g);
  if (result == TAMIS_OK)
    result = tamis__saved_read_end(l->r, said);
  if (result == TAMIS_OK && memcmp(said, l->totals, sizeof said) != 0)
    result = TAMIS_ECORRUPT;
  if (result == TAMIS_OK && !growable)
    result = publish_block(l, g);
  return result == TAMIS_OK ? remove_keys(l) : result;
}

static void release_all(struct load *l)
{
  struct cuckoo *c = l->c;
  for (struct retired *next, *each = l->list; each; each = next) {
    next = each->next;
    tamis__segment_destroy(c, &newest(l)->geometry, (struct segment *) each);
  }
  for (uint64_t i = 0; l->memory.block && i < l->segments; i++) {
    const struct cuckoo_geometry *g = &cuckoo_generation(c, 0)->geometry;
    tamis__segment_close(
        c, g, (struct segment *) (void *) (l->memory.block + i * cuckoo_segment_bytes(g)));
  }
  if (!c->has_home)
    tamis__memory_release(&l->r->allocator, l->memory.block, l->memory.bytes);
}

static int restore_growths(struct cuckoo *c, const struct saved_head *saved)
{
  uint64_t splits = saved->geometry[SAVED_SPLITS], joins = saved->geometry[SAVED_JOINS];
  if (!splits && !joins)
    return TAMIS_OK;
  int result = c->growable ? tamis__growth_provide(c) : TAMIS_ECORRUPT;
  if (result != TAMIS_OK)
    return result;
  struct cuckoo_growth *growth = cuckoo_growth(c);
  atomic_store_explicit(&growth->splits, splits, memory_order_relaxed);
  atomic_store_explicit(&growth->joins, joins, memory_order_relaxed); /* not shared yet */
  return TAMIS_OK;
}

int tamis__cuckoo_load(struct saved_reader *r, const struct saved_head *saved,
                       const struct tamis_filter *head, tamis_filter **out)
{
  struct load l = {.r = r, .saved = saved};
  const tamis_options *o = &saved->options;
  struct cuckoo_geometry g;
  if (!tamis__cuckoo_read_first_geometry(saved, &g))
    return TAMIS_ECORRUPT;
  if (r->mapping && o->growable)
    return TAMIS_EUNSUPPORTED;
  if (saved->limit && !r->mapping && !o->growable &&
      tamis__cuckoo_total_bytes(&g, 0) > saved->limit)
    return TAMIS_EFULL;
  int result;
  struct cuckoo *c = l.c =
      tamis__cuckoo_begin(head, o, &g, r->mapping != NULL, saved->limit, &result);
  if (!c)
    return result;
  atomic_store_explicit(&c->counts_copies, saved->geometry[SAVED_COUNTS_COPIES] != 0,
                        memory_order_relaxed); /* not shared yet */
  result = restore_growths(c, saved);
  if (result == TAMIS_OK && r->mapping)
    c->mapped = tamis__cuckoo_allocate(c, sizeof *c->mapped, &result);
  if (result == TAMIS_OK)
    result = load_all(&l);
  tamis__memory_release(&r->allocator, l.removed, l.removed_room * 8);
  if (result == TAMIS_OK) {
    c->max_bytes = o->max_bytes;
    if (cuckoo_mapped(c)) {
      c->mapped->file = saved_mapping_of(r);
      c->mapped->operations = tamis__read_only(operations_of(&c->head));
      operations_begin(&c->head, &c->mapped->operations);
    }
    *out = &c->head;
    return TAMIS_OK;
  }
  release_all(&l);
  tamis__cuckoo_destroy(&c->head);
  return result;
}
