/* SPDX-License-Identifier: MIT
 *
 * Layer 2: loads saved windows, which save.c writes.
 *
 * What is read may be anything.  So memory for words is asked for as they arrive, all numbers are
 * checked before they are used, and lanes are counted again.  The rule that look-ups rely on is
 * checked, too: of the lanes of two buckets that belong together, one has a fingerprint (bucket.h).
 */
#include "window/save.h"

#include "base/memory.h"
#include "window/copies.h"
#include "window/create.h"
#include "window/layers.h"
#include "window/window.h"

/* A layer that has been read. */
struct content {
  struct window_geometry geometry;
  unsigned index;
  uint64_t *words;  /* no other thread knows them yet */
  uint64_t *copied; /* in which period each segment was */
  struct saved_records records;
};

struct load {
  struct saved_reader *r;
  const struct saved_head *saved;
  struct window_spec spec;
  unsigned stamps;               /* G + 2 */
  uint64_t first, last;          /* periods in which the save began and ended */
  uint64_t lanes, bytes, copied; /* of all layers so far; bytes: with what is beside them */
  uint64_t beside;
  uint64_t further;        /* copies */
  struct saved_block next; /* that follows a layer */
  unsigned n;
  struct content layers[WINDOW_MOST_LAYERS];
};

/* ---- numbers ---- */

/* No layer has more keys than lanes; the next one would be made for twice as many. */
static bool read_layer_numbers(unsigned periods, const uint64_t *numbers, struct content *out)
{
  if (numbers[SAVED_LAYER_SHAPE] >= WINDOW_SHAPES || numbers[SAVED_LAYER_SEGMENTS] >> 53 ||
      numbers[SAVED_LAYER_HALF] >> 53 || numbers[SAVED_LAYER_CAPACITY] >> 53 ||
      !numbers[SAVED_LAYER_INDEX] || numbers[SAVED_LAYER_INDEX] > WINDOW_MOST_LAYERS)
    return false;
  *out = (struct content){.index = (unsigned) numbers[SAVED_LAYER_INDEX],
                          .geometry = {.shape_index = (unsigned) numbers[SAVED_LAYER_SHAPE],
                                       .segments = numbers[SAVED_LAYER_SEGMENTS],
                                       .half = numbers[SAVED_LAYER_HALF],
                                       .capacity = numbers[SAVED_LAYER_CAPACITY]}};
  return window_geometry_restore(periods, &out->geometry) &&
         out->geometry.capacity <= window_lanes(&out->geometry);
}

/* Of layers that exist at the same time, each is larger than those before it, and each has another
 * index. */
static bool fits_before(const struct load *l, const struct content *layer)
{
  for (unsigned i = 0; i < l->n; i++)
    if (l->layers[i].geometry.capacity >= layer->geometry.capacity ||
        l->layers[i].index == layer->index)
      return false;
  return true;
}

static bool read_numbers(const struct saved_head *saved, struct load *l)
{
  const uint64_t *g = saved->geometry;
  const tamis_options *o = &saved->options;
  for (unsigned i = SAVED_WINDOW_NUMBERS; i < SAVED_GEOMETRY; i++)
    if (g[i])
      return false;
  l->spec = (struct window_spec){.periods = (unsigned) g[SAVED_WINDOW_PERIODS],
                                 .capacity = o->capacity,
                                 .fpp = o->fpp,
                                 .growable = o->growable};
  l->stamps = window_stamps(l->spec.periods);
  l->first = g[SAVED_WINDOW_PERIOD];
  return g[SAVED_WINDOW_PERIODS] && g[SAVED_WINDOW_PERIODS] <= WINDOW_MOST_PERIODS &&
         g[SAVED_WINDOW_RENEWS] <= 1 && l->first <= saved_most_period && g[SAVED_WINDOW_STAMP] &&
         g[SAVED_WINDOW_STAMP] <= l->stamps && g[SAVED_WINDOW_LAYERS] &&
         g[SAVED_WINDOW_LAYERS] <= (o->growable ? WINDOW_MOST_LAYERS : 1) &&
         g[SAVED_WINDOW_GROWTHS] <= INT32_MAX &&
         (o->kind == TAMIS_CUCKOO || !g[SAVED_WINDOW_FURTHER]) &&
         o->layout == TAMIS_LAYOUT_BLOCKED &&
         read_layer_numbers(l->spec.periods, &g[SAVED_WINDOW_OLDEST], &l->layers[0]);
}

static uint64_t bytes_beside(const struct load *l)
{
  const tamis_options *o = &l->saved->options;
  return tamis__window_bytes_beside(&l->layers[0].geometry, o->stripes, o->kind == TAMIS_CUCKOO);
}

/* ---- words ---- */

/* The stamp of the period that ran in `period`. */
static unsigned stamp_of(const struct load *l, uint64_t period)
{
  uint64_t first = l->saved->geometry[SAVED_WINDOW_STAMP] - 1;
  return 1 + (unsigned) ((first + (period - l->first) % l->stamps) % l->stamps);
}

/* Whether there is nothing but lanes in a word, and in each of these nothing or a stamp that is not
 * dead with a fingerprint. */
static bool word_is_whole(const struct window_shape *s, uint64_t value, unsigned stamps,
                          unsigned dead)
{
  uint64_t used = window_used(s, value);
  if (value & ~lanes_bits(&s->lane, used))
    return false;
  for (; used; used &= used - 1) {
    unsigned stamp = window_stamp_of(s, lane_get(&s->lane, value, lanes_first(&s->lane, used)));
    if (!stamp || stamp > stamps || stamp == dead)
      return false;
  }
  return true;
}

static uint64_t bucket_at(const struct window_geometry *g, const uint64_t *words, uint64_t bucket)
{
  uint64_t value = words[window_word_of(g->bucket_shift, bucket)] >>
                   window_shift_of(&g->shape, g->bucket_shift, bucket);
  return value & lanes_bits(&g->shape.lane, g->shape.lane.high);
}

/* Whether each fingerprint is in one lane of its two buckets. */
static bool lanes_are_alone(const struct window_geometry *g, const uint64_t *words, uint64_t bucket)
{
  const struct window_shape *s = &g->shape;
  uint64_t value = bucket_at(g, words, bucket);
  for (uint64_t used = window_used(s, value); used; used &= used - 1) {
    uint64_t entry = lane_get(&s->lane, value, lanes_first(&s->lane, used)),
             fingerprint = window_fingerprint_of(s, entry),
             other = bucket_at(g, words, window_other_bucket(g, bucket, entry));
    if (lanes_count(window_match(s, value, fingerprint)) != 1 ||
        window_match(s, other, fingerprint))
      return false;
  }
  return true;
}

static bool check_segment(struct load *l, const struct content *c, uint64_t segment)
{
  const struct window_geometry *g = &c->geometry;
  uint64_t n = window_segment_words(g), buckets = window_segment_buckets(g);
  const uint64_t *words = c->words + segment * n;
  unsigned now = stamp_of(l, c->copied[segment]), dead = epoch_next_stamp(now, l->stamps);
  for (uint64_t i = 0; i < n; i++) {
    if (!word_is_whole(&g->whole, words[i], l->stamps, dead))
      return false;
    l->lanes += lanes_count(window_used(&g->whole, words[i]));
  }
  for (uint64_t i = segment * buckets; i < (segment + 1) * buckets; i++)
    if (!lanes_are_alone(g, c->words, i))
      return false;
  return true;
}

/* Clears what has been forgotten since a segment was copied. */
static void forget(const struct load *l, const struct content *c, uint64_t segment)
{
  const struct window_shape *s = &c->geometry.whole;
  uint64_t n = window_segment_words(&c->geometry), since = l->last - c->copied[segment];
  unsigned now = stamp_of(l, c->copied[segment]);
  for (uint64_t i = segment * n; i < (segment + 1) * n && since; i++)
    for (uint64_t used = window_used(s, c->words[i]); used; used &= used - 1) {
      unsigned stamp =
          window_stamp_of(s, lane_get(&s->lane, c->words[i], lanes_first(&s->lane, used)));
      unsigned age = now >= stamp ? now - stamp : now + l->stamps - stamp;
      if (age + since > l->spec.periods)
        c->words[i] &= ~lanes_bits(&s->lane, used & -used);
    }
}

/* ---- parts ---- */

/* NOLINTNEXTLINE(readability-non-const-parameter): on big-endian machines they are written */
static void swap_words(uint64_t *words, uint64_t n)
{
  (void) words, (void) n;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  for (uint64_t i = 0; i < n; i++)
    words[i] = saved_u64(words[i]);
#endif
}

static int load_words(struct load *l, struct content *c)
{
  uint64_t bytes = window_bytes(&c->geometry), begin;
  uint64_t limit = l->saved->limit;
  const void *at = NULL;
  l->bytes += l->n ? sizeof(struct window_layer) : 0;
  l->copied += c->geometry.segments * 8;
  /* What says when segments were copied is gone before what is beside the words is allocated. */
  if (limit && (bytes > limit || l->bytes > limit - bytes || l->copied > l->beside))
    return TAMIS_EFULL;
  struct saved_memory m = {.all = bytes, .limit = limit ? limit - l->bytes : 0};
  int result = tamis__saved_read_array(l->r, bytes, &m, &at, &begin);
  if (result != TAMIS_OK) {
    tamis__memory_release(&l->r->allocator, m.block, m.bytes);
    return result;
  }
  c->words = (uint64_t *) (void *) m.block;
  swap_words(c->words, bytes / 8);
  for (uint64_t i = window_words(&c->geometry); i < bytes / 8; i++)
    if (c->words[i])
      result = TAMIS_ECORRUPT;
  l->bytes += bytes;
  return result;
}

/* Reads in which periods the segments were copied, none of which came before the one before it. */
static int load_copied(struct load *l, struct content *c, unsigned number)
{
  uint64_t segments = c->geometry.segments;
  c->copied = tamis__memory_allocate_cleared(&l->r->allocator, segments * 8, 0);
  if (!c->copied)
    return TAMIS_ENOMEM;
  for (uint64_t done = 0, n; done < segments; done += n) {
    struct saved_block block;
    n = segments - done < SAVED_WINDOW_COPIES ? segments - done : SAVED_WINDOW_COPIES;
    int result = tamis__saved_read_block(l->r, &block);
    if (result != TAMIS_OK)
      return result;
    if (block.type != SAVED_WINDOW_COPIED || block.size != n * 8 || block.meanings[0] != number ||
        block.meanings[1] != done || block.meanings[2] || block.meanings[3])
      return TAMIS_ECORRUPT;
    for (uint64_t i = done; i < done + n; i++) {
      c->copied[i] = saved_get64(block.payload + (i - done) * 8);
      if (c->copied[i] < l->last || c->copied[i] > saved_most_period)
        return TAMIS_ECORRUPT;
      l->last = c->copied[i];
    }
  }
  return TAMIS_OK;
}

/* Room for `n` more records.  They take no more memory than the file has bytes for them, to a
 * factor of two; it is no memory of the filter's. */
static int make_room(struct load *l, struct saved_records *r, uint64_t n)
{
  uint64_t old = r->room * sizeof *r->all;
  if (r->n + n <= r->room)
    return TAMIS_OK;
  uint64_t room = r->n + n > 2 * r->room ? r->n + n : 2 * r->room, larger = room * sizeof *r->all;
  struct saved_record *all = tamis__memory_grow(&l->r->allocator, r->all, old, larger);
  if (!all)
    return TAMIS_ENOMEM;
  r->all = all;
  r->room = room;
  return TAMIS_OK;
}

/* Whether a record may follow those before it. */
static bool record_is_possible(const struct load *l, const struct content *c, uint64_t lane,
                               uint64_t further)
{
  const struct window_geometry *g = &c->geometry;
  const struct saved_records *r = &c->records;
  if (lane >= window_lanes(g) || (r->n && lane <= r->all[r->n - 1].lane) || !further ||
      further >= window_most_copies || further >= window_most_copies - l->further)
    return false;
  return lane_get(&g->whole.lane, c->words[lane / g->whole.lane.lanes],
                  (unsigned) (lane % g->whole.lane.lanes));
}

/* Reads the block of records that is the next one. */
static int load_records(struct load *l, struct content *c, unsigned number)
{
  const struct saved_block *block = &l->next;
  uint64_t n = block->size / SAVED_RECORD_BYTES;
  if (l->saved->options.kind != TAMIS_CUCKOO || block->size % SAVED_RECORD_BYTES || !n ||
      n > SAVED_RECORDS || block->meanings[0] != number || block->meanings[1] != c->records.n ||
      block->meanings[2] || block->meanings[3])
    return TAMIS_ECORRUPT;
  int result = make_room(l, &c->records, n);
  for (uint64_t i = 0; i < n && result == TAMIS_OK; i++) {
    const unsigned char *at = block->payload + i * SAVED_RECORD_BYTES;
    uint64_t lane = saved_get64(at), further = saved_get64(at + 8);
    if (!record_is_possible(l, c, lane, further))
      return TAMIS_ECORRUPT;
    c->records.all[c->records.n++] = (struct saved_record){lane, further};
    l->further += further;
  }
  return result;
}

/* Reads all blocks of records, and the one that follows them. */
static int load_all_records(struct load *l, struct content *c, unsigned number)
{
  int result;
  do
    result = tamis__saved_read_block(l->r, &l->next);
  while (result == TAMIS_OK && l->next.type == SAVED_WINDOW_RECORDS &&
         (result = load_records(l, c, number)) == TAMIS_OK);
  return result;
}

static int load_layer_numbers(struct load *l, struct content *c)
{
  const struct saved_block block = l->next;
  uint64_t numbers[SAVED_LAYER_NUMBERS];
  if (block.type != SAVED_WINDOW_LAYER || block.size != sizeof numbers ||
      block.meanings[0] != l->n || block.meanings[1] || block.meanings[2] || block.meanings[3])
    return TAMIS_ECORRUPT;
  for (unsigned i = 0; i < SAVED_LAYER_NUMBERS; i++)
    numbers[i] = saved_get64(block.payload + (size_t) i * 8);
  return read_layer_numbers(l->spec.periods, numbers, c) && fits_before(l, c) ? TAMIS_OK
                                                                              : TAMIS_ECORRUPT;
}

static int load_layer(struct load *l)
{
  struct content *c = &l->layers[l->n];
  int result = l->n ? load_layer_numbers(l, c) : TAMIS_OK;
  if (result == TAMIS_OK)
    result = load_words(l, c);
  if (result == TAMIS_OK)
    result = load_copied(l, c, l->n);
  l->n++; /* what it has is released with the others */
  for (uint64_t i = 0; i < c->geometry.segments && result == TAMIS_OK; i++)
    if (!check_segment(l, c, i))
      result = TAMIS_ECORRUPT;
  return result == TAMIS_OK ? load_all_records(l, c, l->n - 1) : result;
}

static int load_end(struct load *l)
{
  uint64_t totals[SAVED_TOTALS];
  int result = l->next.type == SAVED_END ? tamis__saved_read_end(l->r, totals) : TAMIS_ECORRUPT;
  if (result != TAMIS_OK)
    return result;
  if (totals[TOTAL_WINDOW_LANES] != l->lanes || totals[TOTAL_WINDOW_PERIOD] < l->last ||
      totals[TOTAL_WINDOW_PERIOD] > saved_most_period || totals[TOTAL_WINDOW_FURTHER] != l->further)
    return TAMIS_ECORRUPT;
  l->last = totals[TOTAL_WINDOW_PERIOD];
  for (unsigned i = 0; i < l->n; i++)
    for (uint64_t j = 0; j < l->layers[i].geometry.segments; j++)
      forget(l, &l->layers[i], j);
  return TAMIS_OK;
}

/* ---- the filter ---- */

static int append_layer(struct window *w, struct content *c)
{
  struct window_layer *layer = tamis__memory_allocate(filter_allocator(&w->head), sizeof *layer);
  if (!layer)
    return TAMIS_ENOMEM;
  struct window_layer *older = atomic_load_explicit(&w->newest, memory_order_relaxed);
  uint64_t bytes = tamis__window_prepare_layer(w, layer, &c->geometry) + sizeof *layer;
  layer->words = (word *) c->words;
  c->words = NULL; /* they are the layer's now */
  layer->index = c->index;
  layer->older = older;
  layer->number = older->number + 1;
  atomic_fetch_add_explicit(&w->bytes, bytes, memory_order_relaxed); /* not shared yet, both */
  tamis__window_append(w, layer);
  return TAMIS_OK;
}

/* Counts the lanes in use in the stripes of their blocks. */
static void count_lanes(struct window *w, const struct window_layer *layer)
{
  for (uint64_t i = 0; i < window_words(&layer->geometry); i++) {
    struct stripe *stripe = window_stripe_of_block(w, i >> layer->block_shift);
    uint64_t used = window_used(&layer->geometry.whole, word_load(&layer->words[i]));
    stripe_lock(stripe);
    window_use(stripe, (int64_t) lanes_count(used));
    stripe_unlock(stripe);
  }
}

/* The entry of a record; 0: it has been forgotten. */
static struct lane_place entry_of_record(const struct window_layer *layer,
                                         const struct saved_record *record)
{
  const struct window_geometry *g = &layer->geometry;
  uint64_t index = record->lane / g->whole.lane.lanes;
  return lane_place(g, word_load(&layer->words[index]), index,
                    (unsigned) (record->lane % g->whole.lane.lanes));
}

/* Calls for each record of an entry that has not been forgotten. */
static void for_each_record(struct load *l, struct window *w,
                            void (*call)(struct window_copies *, const struct window_name *,
                                         unsigned stamp, uint64_t further))
{
  struct window_layer *layer = atomic_load_explicit(&w->newest, memory_order_relaxed);
  for (; layer; layer = layer->older) {
    const struct window_shape *s = &layer->geometry.shape;
    const struct saved_records *r = &l->layers[layer->number].records;
    for (uint64_t i = 0; i < r->n; i++) {
      struct lane_place at = entry_of_record(layer, &r->all[i]);
      struct window_name name = window_name(layer, at.lower, window_fingerprint_of(s, at.entry));
      if (at.entry)
        call(window_copies_of(w, layer, at.lower), &name, window_stamp_of(s, at.entry),
             r->all[i].further);
    }
  }
}

static void expect_record(struct window_copies *c, const struct window_name *name, unsigned stamp,
                          uint64_t further)
{
  (void) name, (void) stamp, (void) further;
  c->used++; /* of a table that there is not yet */
}

static void write_record(struct window_copies *c, const struct window_name *name, unsigned stamp,
                         uint64_t further)
{
  (void) tamis__window_record(c, name, stamp, further); /* there is room for it */
}

/* Each table gets its size at once: so the filter takes no more than it did when it was saved. */
static int count_copies(struct load *l, struct window *w)
{
  int result = TAMIS_OK;
  if (!w->copies)
    return TAMIS_OK;
  for_each_record(l, w, expect_record);
  for (uint64_t i = 0; i <= w->stripes.mask; i++) {
    uint64_t records = w->copies[i].used;
    w->copies[i].used = 0;
    if (records && result == TAMIS_OK)
      result = tamis__window_fit_records(w, &w->copies[i], records);
  }
  if (result == TAMIS_OK)
    for_each_record(l, w, write_record);
  return result;
}

static int create(struct load *l, const struct tamis_filter *head, struct window **out)
{
  const tamis_options *o = &l->saved->options;
  struct window_plan plan = {.spec = l->spec,
                             .geometry = l->layers[0].geometry,
                             .index = l->layers[0].index,
                             .copies = o->kind == TAMIS_CUCKOO,
                             .renews = l->saved->geometry[SAVED_WINDOW_RENEWS],
                             .stripes_wanted = o->stripes,
                             .max_bytes = l->saved->limit,
                             .cleared_from = o->cleared_from,
                             .words = (word *) l->layers[0].words};
  struct window *w = *out = tamis__window_create(head, &plan);
  int result = w ? TAMIS_OK : TAMIS_ENOMEM;
  if (!w)
    return result;
  l->layers[0].words = NULL;
  w->growths = l->saved->geometry[SAVED_WINDOW_GROWTHS];
  uint64_t epoch = epoch_make(l->last, 0, 0, stamp_of(l, l->last), l->stamps);
  atomic_store_explicit(&w->epoch, epoch, memory_order_relaxed); /* not shared yet */
  for (unsigned i = 1; i < l->n && result == TAMIS_OK; i++)
    result = append_layer(w, &l->layers[i]);
  const struct window_layer *layer = atomic_load_explicit(&w->newest, memory_order_relaxed);
  for (; layer; layer = layer->older)
    count_lanes(w, layer);
  if (result == TAMIS_OK)
    result = count_copies(l, w);
  w->max_bytes = o->max_bytes;
  return result;
}

int tamis__window_load(struct saved_reader *r, const struct saved_head *saved,
                       const struct tamis_filter *head, tamis_filter **out)
{
  struct load l = {.r = r, .saved = saved};
  struct window *w = NULL;
  if (!read_numbers(saved, &l))
    return TAMIS_ECORRUPT;
  if (r->mapping)
    return TAMIS_EUNSUPPORTED; /* it could not forget */
  l.last = l.first;
  l.bytes = l.beside = bytes_beside(&l);
  int result = TAMIS_OK;
  for (uint64_t i = 0; i < saved->geometry[SAVED_WINDOW_LAYERS] && result == TAMIS_OK; i++)
    result = load_layer(&l);
  if (result == TAMIS_OK)
    result = load_end(&l);
  for (unsigned i = 0; i < l.n; i++)
    tamis__memory_release(&r->allocator, l.layers[i].copied, l.layers[i].geometry.segments * 8);
  if (result == TAMIS_OK)
    result = create(&l, head, &w);
  for (unsigned i = 0; i < l.n; i++)
    tamis__memory_release(&r->allocator, l.layers[i].records.all,
                          l.layers[i].records.room * sizeof(struct saved_record));
  if (result == TAMIS_OK) {
    *out = &w->head;
    return TAMIS_OK;
  }
  for (unsigned i = 0; i < l.n; i++)
    tamis__memory_release(&r->allocator, l.layers[i].words, window_bytes(&l.layers[i].geometry));
  if (w)
    operations_of(&w->head)->kind->destroy(&w->head);
  return result;
}

/* ---- what the header says ---- */

/* A header that no filter has brings no figures. */
void tamis__window_figures(const struct saved_head *saved, tamis_stats *out)
{
  struct load l = {.saved = saved};
  if (!read_numbers(saved, &l))
    return;
  out->layers = (unsigned) saved->geometry[SAVED_WINDOW_LAYERS];
  out->parts = l.spec.periods + 1;
  out->oldest_part_age = l.first < l.spec.periods ? l.first : l.spec.periods;
  out->estimated_count = (double) out->count;
  out->load = out->estimated_count / (double) out->capacity;
  if (out->layers == 1) {
    const struct window_geometry *g = &l.layers[0].geometry;
    uint64_t further = saved->geometry[SAVED_WINDOW_FURTHER];
    uint64_t used = out->count > further ? out->count - further : 0;
    out->fpp_estimate = 1 - (1 - window_geometry_rate(g, used)); /* as it is computed there */
    out->occupancy = (double) used / (double) window_lanes(g);
    return;
  }
  /* It does not say how full each layer is: then each has its part of the rate. */
  out->fpp_estimate = out->fpp;
}

/* What the oldest layer and those after it take beside their words. */
uint64_t tamis__window_saved_beside(const struct saved_head *saved)
{
  struct load l = {.saved = saved};
  if (!read_numbers(saved, &l))
    return 0;
  return bytes_beside(&l) +
         (saved->geometry[SAVED_WINDOW_LAYERS] - 1) * sizeof(struct window_layer);
}
