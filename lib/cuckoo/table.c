/* SPDX-License-Identifier: MIT */
#include "cuckoo/table.h"

#include "base/memory.h"

_Static_assert(sizeof(struct segment) == 64, "stripes follow, and keep to cache lines");

/* Relaxed: a sum, and a limit on it; no other data hangs on it. */
static bool take_bytes(struct cuckoo *c, size_t size)
{
  uint64_t limit = c->max_bytes ? c->max_bytes : UINT64_MAX;
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
  do {
    if (size > limit || bytes > limit - size)
      return false;
  } while (!atomic_compare_exchange_weak_explicit(&c->bytes, &bytes, bytes + size,
                                                  memory_order_relaxed, memory_order_relaxed));
  return true;
}

static void *try_allocate(struct cuckoo *c, size_t size, int *result)
{
  *result = TAMIS_EFULL;
  if (!take_bytes(c, size))
    return NULL;
  void *block = tamis__memory_allocate(&c->head.allocator, size);
  *result = block ? TAMIS_OK : TAMIS_ENOMEM;
  if (!block)
    atomic_fetch_sub_explicit(&c->bytes, size, memory_order_relaxed);
  return block;
}

void *tamis__cuckoo_allocate(struct cuckoo *c, size_t size, int *result)
{
  void *block = try_allocate(c, size, result);
  if (!block && tamis__backlog_drain(&c->backlog))
    block = try_allocate(c, size, result);
  return block;
}

void tamis__cuckoo_release(struct cuckoo *c, void *block, size_t size)
{
  if (!block)
    return;
  tamis__memory_release(&c->head.allocator, block, size);
  atomic_fetch_sub_explicit(&c->bytes, size, memory_order_relaxed);
}

/* ---- segments ---- */

static void init_segment(const struct cuckoo_geometry *g, struct segment *segment)
{
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    stripe_init(&segment_stripes(segment)[i]);
  stripe_init(&segment->duplicates_lock);
}

/* Writers look at them only under the stripes of a segment that has not left, readers never: no need to
 * wait for anybody. */
static void free_duplicates(struct cuckoo *c, struct segment *segment)
{
  struct duplicate_table *copies = atomic_load_explicit(&segment->copies, memory_order_relaxed);
  if (copies)
    tamis__cuckoo_release(c, copies, tamis__duplicates_bytes(tamis__duplicates_capacity(copies)));
}

static void destroy_stripes(uint32_t stripe_mask, struct segment *segment)
{
  (void) stripe_mask, (void) segment;
#ifdef TAMIS_TSAN
  for (uint32_t i = 0; i <= stripe_mask; i++)
    stripe_destroy(&segment_stripes(segment)[i]);
  stripe_destroy(&segment->duplicates_lock);
#endif
}

/* All but the memory of the segment itself. */
static void close_segment(struct cuckoo *c, const struct cuckoo_geometry *g,
                          struct segment *segment)
{
  free_duplicates(c, segment);
  destroy_stripes(g->stripe_mask, segment);
}

struct segment *tamis__segment_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                      uint64_t prefix, unsigned depth, int *result)
{
  struct segment *segment = tamis__segment_memory_allocate(c, g, result);
  if (!segment)
    return NULL;
  segment->prefix = prefix;
  segment->depth = depth;
  init_segment(g, segment);
  return segment;
}

void tamis__segment_destroy(struct cuckoo *c, const struct cuckoo_geometry *g,
                            struct segment *segment)
{
  if (!segment)
    return;
  close_segment(c, g, segment);
  tamis__segment_memory_release(c, segment, g->segment_bytes);
}

void tamis__segment_retire(struct cuckoo *c, const struct cuckoo_geometry *g,
                           struct segment *segment)
{
  free_duplicates(c, segment);
  tamis__backlog_retire(&c->backlog, &segment->retired, g->segment_bytes);
}

void tamis__segment_reclaim(void *owner, struct retired *block, size_t size)
{
  struct cuckoo *c = owner;
  struct segment *segment = (struct segment *) block;
  if (segment->slab) /* a block of its own is freed, by which TSan forgets them */
    destroy_stripes(c->slabs.stripe_mask, segment);
  tamis__segment_memory_release(c, segment, size);
}

uint64_t tamis__segment_used(const struct cuckoo_geometry *g, const struct segment *segment)
{
  uint64_t used = 0;
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    used += stripe_used(&segment_stripes(segment)[i]);
  return used;
}

int tamis__segment_reserve_duplicates(struct cuckoo *c, struct segment *segment, size_t n)
{
  struct duplicate_table *old = atomic_load_explicit(&segment->copies, memory_order_relaxed);
  size_t room = old ? tamis__duplicates_capacity(old) : 0, used = old ? old->used : 0;
  if (used + n <= room)
    return TAMIS_OK;
  int result;
  struct duplicate_table *new = tamis__cuckoo_allocate(c, tamis__duplicates_bytes(used + n), &result);
  if (!new)
    return result;
  tamis__duplicates_init(new, used + n);
  for (size_t i = 0; old && i <= old->mask; i++)
    if (old->entries[i].key)
      tamis__duplicates_add(new, old->entries[i].key, old->entries[i].count);
  atomic_store_explicit(&segment->copies, new, memory_order_relaxed); /* see has_duplicates() */
  if (old)
    tamis__cuckoo_release(c, old, tamis__duplicates_bytes(room));
  return TAMIS_OK;
}

int tamis__segment_add_duplicate(struct cuckoo *c, struct segment *segment, uint64_t key, size_t most)
{
  stripe_lock(&segment->duplicates_lock);
  struct duplicate_table *copies = atomic_load_explicit(&segment->copies, memory_order_relaxed);
  bool known = copies && tamis__duplicates_find(copies, key);
  int result = TAMIS_OK;
  if (!known)
    result =
        copies && copies->used >= most ? TAMIS_EFULL : tamis__segment_reserve_duplicates(c, segment, 1);
  if (result == TAMIS_OK)
    tamis__duplicates_add(atomic_load_explicit(&segment->copies, memory_order_relaxed), key, 1);
  stripe_unlock(&segment->duplicates_lock);
  return result;
}

/* ---- generations ---- */

static void destroy_segments(struct cuckoo *c, struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  struct segment *last = NULL;
  for (uint64_t i = 0; i < cuckoo_directory_size(g); i++) {
    struct segment *segment = directory_segment(directory_load(generation_directory_entry(generation, i)));
    if (segment == last) /* slots of one segment follow each other */
      continue;
    last = segment;
    if (!segment)
      continue;
    if (generation->slab)
      close_segment(c, g, segment);
    else
      tamis__segment_destroy(c, g, segment);
  }
}

void tamis__generation_destroy(struct cuckoo *c, struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  if (generation->slots)
    destroy_segments(c, generation);
  tamis__cuckoo_release(c, generation->slab, cuckoo_roots(g) * g->segment_bytes);
  tamis__cuckoo_release(c, generation->slots, cuckoo_directory_size(g) * sizeof(slot));
  tamis__cuckoo_release(c, generation->counters.shards,
                    (generation->counters.mask + 1) * sizeof(struct counter_shard));
  for (unsigned i = 0; i < GROWTH_STRIPES; i++)
    stripe_destroy(&generation->growth[i]);
  tamis__cuckoo_release(c, generation, sizeof *generation);
}

/* A filter that does not grow has all its segments from the start, in one block. */
static bool create_slab(struct cuckoo *c, struct generation *generation, int *result)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  uint64_t roots = cuckoo_roots(g);
  generation->slab = tamis__cuckoo_allocate(c, roots * g->segment_bytes, result);
  if (!generation->slab)
    return false;
  for (uint64_t i = 0; i < roots; i++) {
    struct segment *segment = (struct segment *) ((char *) generation->slab + i * g->segment_bytes);
#ifdef TAMIS_TSAN
    init_segment(g, segment); /* zeros are good but for TSan; so their pages are not touched */
#endif
    directory_publish(generation_directory_entry(generation, i), directory_value_of(segment));
  }
  generation->segments = roots;
  return true;
}

struct generation *tamis__generation_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                            int *result)
{
  struct generation *generation = tamis__cuckoo_allocate(c, sizeof *generation, result);
  if (!generation)
    return NULL;
  generation->geometry = *g;
  for (unsigned i = 0; i < GROWTH_STRIPES; i++)
    stripe_init(&generation->growth[i]);
  unsigned shards = cuckoo_shards(g);
  generation->counters.mask = shards - 1;
  generation->counters.shards = tamis__cuckoo_allocate(c, shards * sizeof(struct counter_shard), result);
  generation->slots = generation->counters.shards
                          ? tamis__cuckoo_allocate(c, cuckoo_directory_size(g) * sizeof(slot), result)
                          : NULL;
  bool good = generation->slots && (c->demand.growable || create_slab(c, generation, result));
  if (good)
    return generation;
  tamis__generation_destroy(c, generation);
  return NULL;
}
