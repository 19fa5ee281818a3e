/* SPDX-License-Identifier: MIT */
#include "cuckoo/segment.h"

#include "cuckoo/memory.h"
#include "cuckoo/slabs.h"

/* Writers use the table only under the stripes of a segment that has not left the directory, and
 * readers never use it.  So it needs no grace period. */
static void release_duplicates(struct cuckoo *c, struct segment *segment)
{
  struct duplicate_table *table = atomic_load_explicit(&segment->duplicates, memory_order_relaxed);
  if (table)
    tamis__cuckoo_release(c, table, tamis__duplicates_bytes(tamis__duplicates_capacity(table)));
}

void tamis__segment_init(const struct cuckoo_geometry *g, struct segment *segment)
{
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    stripe_init(&segment_stripes(segment)[i]);
  stripe_init(&segment->duplicates_lock);
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

void tamis__segment_close(struct cuckoo *c, const struct cuckoo_geometry *g,
                          struct segment *segment)
{
  release_duplicates(c, segment);
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
  tamis__segment_init(g, segment);
  return segment;
}

void tamis__segment_destroy(struct cuckoo *c, const struct cuckoo_geometry *g,
                            struct segment *segment)
{
  if (!segment)
    return;
  tamis__segment_close(c, g, segment);
  tamis__segment_memory_release(c, segment, g->segment_bytes);
}

void tamis__segment_retire(struct cuckoo *c, const struct cuckoo_geometry *g,
                           struct segment *segment)
{
  release_duplicates(c, segment);
  tamis__backlog_retire(&c->backlog, &segment->retired, g->segment_bytes);
}

void tamis__segment_reclaim(void *owner, struct retired *block, size_t size)
{
  struct cuckoo *c = owner;
  struct segment *segment = (struct segment *) block;
  if (segment->slab) /* TSan forgets the stripes of other segments when their blocks are freed */
    destroy_stripes(c->slabs.stripe_mask, segment);
  tamis__segment_memory_release(c, segment, size);
}

/* ---- duplicates ---- */

int tamis__segment_reserve_duplicates(struct cuckoo *c, struct segment *segment, size_t n)
{
  struct duplicate_table *old = atomic_load_explicit(&segment->duplicates, memory_order_relaxed);
  size_t capacity = old ? tamis__duplicates_capacity(old) : 0, used = old ? old->used : 0;
  if (used + n <= capacity)
    return TAMIS_OK;
  int result;
  struct duplicate_table *new =
      tamis__cuckoo_allocate(c, tamis__duplicates_bytes(used + n), &result);
  if (!new)
    return result;
  tamis__duplicates_init(new, used + n);
  for (size_t i = 0; old && i <= old->mask; i++)
    if (old->slots[i].key)
      tamis__duplicates_add(new, old->slots[i].key, old->slots[i].count);
  atomic_store_explicit(&segment->duplicates, new, memory_order_relaxed); /* see has_duplicates() */
  if (old)
    tamis__cuckoo_release(c, old, tamis__duplicates_bytes(capacity));
  return TAMIS_OK;
}

int tamis__segment_add_duplicate(struct cuckoo *c, struct segment *segment, uint64_t key,
                                 size_t max)
{
  stripe_lock(&segment->duplicates_lock);
  struct duplicate_table *table = atomic_load_explicit(&segment->duplicates, memory_order_relaxed);
  bool known = table && tamis__duplicates_find(table, key);
  int result = TAMIS_OK;
  if (!known)
    result = table && table->used >= max ? TAMIS_EFULL
                                         : tamis__segment_reserve_duplicates(c, segment, 1);
  if (result == TAMIS_OK)
    tamis__duplicates_add(atomic_load_explicit(&segment->duplicates, memory_order_relaxed), key, 1);
  stripe_unlock(&segment->duplicates_lock);
  return result;
}

bool tamis__segment_remove_duplicate(struct segment *segment, uint64_t key)
{
  if (!has_duplicates(segment))
    return false;
  stripe_lock(&segment->duplicates_lock);
  struct duplicate_table *table = atomic_load_explicit(&segment->duplicates, memory_order_relaxed);
  struct duplicate_count *found = tamis__duplicates_find(table, key);
  if (found)
    tamis__duplicates_remove(table, found);
  stripe_unlock(&segment->duplicates_lock);
  return found;
}
