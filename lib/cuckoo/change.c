/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a change of the directory.
 *
 * For each key, one store makes later calls find the new segment: the store to the directory entry
 * of the key or, if the array is replaced, the store to the root's word.  A new array is complete
 * before that store; an old array is not written after it.
 */
#include "cuckoo/change.h"

#include "cuckoo/memory.h"
#include "cuckoo/segment.h"

/* ---- begin and end of a change ---- */

struct change tamis__change_begin(struct cuckoo *c, struct generation *generation, uint64_t index)
{
  struct change change = {.c = c, .generation = generation, .index = index};
  change.held = growth_lock(c, generation, index);
  change.rooms = fullness_counted(&c->rooms);
  return change;
}

void tamis__change_end(const struct change *change)
{
  struct cuckoo *c = change->c;
  lock_release(change->held);
  for (struct retired *next, *each = change->segments; each; each = next) {
    next = each->next;
    tamis__segment_retire(c, &change->generation->geometry, (struct segment *) each);
  }
  if (change->array)
    tamis__backlog_retire(&cuckoo_growth(c)->backlog, &change->array->retired,
                          directory_array_bytes(change->bits) + RETIRED_ARRAY, false);
}

/* ---- what leaves the directory ---- */

void tamis__change_leaves(struct change *change, struct segment *segment)
{
  for (uint32_t i = 0; i <= change->generation->geometry.stripe_mask; i++)
    version_leave(&segment_stripes(segment)[i]);
  segment->retired.next = change->segments;
  change->segments = &segment->retired;
}

/* Changes the root's word.  The root's array, if there is one, leaves the directory. */
void tamis__change_root(struct change *change, directory_value value)
{
  change->array = change_array(change, &change->bits);
  directory_publish(root_entry(change->generation, change->index), value);
  HOOK(cuckoo_directory_published);
}

static void count(_Atomic uint64_t *figure, uint64_t more)
{
  atomic_fetch_add_explicit(figure, more, memory_order_relaxed); /* a statistic */
}

void tamis__change_count(const struct change *change, _Atomic uint64_t *figure, unsigned depth,
                         int direction)
{
  const struct cuckoo_geometry *g = &change->generation->geometry;
  count(figure, 1);
  count(&change->generation->segments, (uint64_t) (int64_t) direction);
  if (depth > g->uneven_at && !g->later)
    count(&cuckoo_growth(change->c)->after_segments,
          (uint64_t) (int64_t) (direction * (depth == g->uneven_at + 1U ? 2 : 1)));
}

/* ---- arrays of other sizes ---- */

struct directory_array *tamis__change_resized_array(const struct change *change, unsigned bits,
                                                    int *result)
{
  unsigned old_bits;
  const struct directory_array *old = change_array(change, &old_bits);
  struct directory_array *array =
      tamis__cuckoo_allocate(change->c, directory_array_bytes(bits), result);
  directory_value only = directory_load(root_entry(change->generation, change->index));
  for (uint64_t i = 0; array && i < UINT64_C(2) << bits; i++) {
    uint64_t prefix = bits > old_bits ? i / 2 >> (bits - old_bits) : i / 2 << (old_bits - bits);
    directory_value value = old ? directory_load(&old->entry[2 * prefix + i % 2]) : only;
    atomic_store_explicit(&array->entry[i], value, memory_order_relaxed); /* not published yet */
  }
  return array;
}
