/* SPDX-License-Identifier: MIT
 *
 * Layer 2: joins and drops segments.  growth.c says how segments leave, and what keeps them alive.
 */
#include "cuckoo/growth.h"

#include "cuckoo/segment.h"
#include "cuckoo/snapshot.h"

/* Siblings join when their entries would fill at most this part of one segment's lanes.  So
 * siblings lose more than a third of their keys before they join, and the parent gains as many
 * before it splits again.  Small segments have a lower limit: they may split long before they are
 * full. */
static const double join_load = 0.6, small_join_load = 0.3;

enum { SMALL_LANES = SMALL(1024, 64) }; /* a segment with fewer lanes is small */

enum { SPARE_BACKLOG = SMALL(256 * 1024, 2048) }; /* bytes of backlog that any filter may have */

struct siblings {
  struct directory_range range; /* the directory indices of both segments */
  struct segment *child[2];
};

/* Finds the segment that has this depth (at least 1) and this index, and its sibling.  Returns
 * false if the directory does not have both. */
static bool siblings_at(const struct generation *generation, uint64_t index, unsigned depth,
                        struct siblings *siblings)
{
  struct directory_range range = directory_range_of(&generation->geometry, index, depth - 1);
  directory_value value[2] = {directory_at(generation, range.first),
                              directory_at(generation, range.first + range.count / 2)};
  *siblings = (struct siblings){range, {directory_segment(value[0]), directory_segment(value[1])}};
  return directory_depth(value[0]) == depth && directory_depth(value[1]) == depth;
}

/* Whether siblings could join with `less` fewer entries.  `g` is the parent's geometry. */
static bool are_small(const struct cuckoo_geometry *g, const struct siblings *siblings,
                      uint64_t less)
{
  double lanes = (double) cuckoo_lanes(g);
  uint64_t used =
      tamis__segment_used(g, siblings->child[0]) + tamis__segment_used(g, siblings->child[1]);
  return (double) used - (double) less <=
         lanes * (lanes < SMALL_LANES ? small_join_load : join_load);
}

/* Replaces siblings by their parent.  The caller must hold all stripes of the siblings. */
static void put_parent(struct change *change, struct segment *parent)
{
  unsigned bits;
  struct directory_array *array = change_array(change, &bits);
  if (parent->depth == 0)
    tamis__change_root(change, directory_value_of(parent));
  else
    directory_put(&change->generation->geometry, array, bits, parent);
}

/* Joins a segment with its sibling if both together are small.  Returns false if it cannot. */
static bool join_locked(struct change *change, unsigned depth)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = generation_geometry(generation, depth - 1);
  struct siblings siblings;
  if (!siblings_at(generation, change->index, depth, &siblings) || !are_small(g, &siblings, 0))
    return false;
  struct segment **child = siblings.child;
  int result;
  struct segment *parent = tamis__segment_create(c, generation, change->index, depth - 1, &result);
  if (!parent)
    return false;
  segment_lock_all(g, child[0]);
  segment_lock_all(g, child[1]);
  bool copied = tamis__snapshot_lets_change(c, generation, siblings.range) &&
                tamis__fill_joined(c, generation, child, parent);
  if (copied) {
    HOOK(cuckoo_join_copied);
    tamis__change_leaves(change, child[0]);
    tamis__change_leaves(change, child[1]);
    put_parent(change, parent);
  }
  segment_unlock_all(g, child[1]);
  segment_unlock_all(g, child[0]);
  if (copied)
    tamis__change_count(change, &cuckoo_growth(c)->joins, depth, -1);
  else
    tamis__segment_destroy(c, g, parent);
  return copied;
}

/* Whether empty segments may leave the directory.  (In a filter's only generation, they stay.) */
static bool may_drop(const struct cuckoo *c, const struct generation *generation)
{
  return generation->number > 0 || !generation_is_newest(c, generation);
}

static void drop_locked(struct change *change, struct segment *segment)
{
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = &generation->geometry;
  if (segment->depth > 0 || !may_drop(change->c, generation) || tamis__segment_used(g, segment) > 0)
    return;
  segment_lock_all(g, segment);
  bool empty = tamis__segment_used(g, segment) == 0;
  if (empty) {
    tamis__change_leaves(change, segment);
    tamis__change_root(change, NULL);
  }
  segment_unlock_all(g, segment);
  if (empty)
    atomic_fetch_sub_explicit(&generation->segments, 1, memory_order_relaxed); /* a statistic */
}

/* Whether the array has a segment that is too deep for an array of half the size. */
static bool is_needed(const struct cuckoo_geometry *g, const struct directory_array *array,
                      unsigned bits)
{
  for (uint64_t i = 0; i < UINT64_C(2) << bits; i++)
    if (cuckoo_prefix_bits(g, directory_depth(directory_load(&array->entry[i]))) == bits)
      return true;
  return false;
}

/* Replaces a root's array by one of half the size.  Returns false if a segment needs the present
 * size, the array has the smallest size, or memory was refused. */
static bool halve_locked(struct change *change)
{
  unsigned bits;
  int result;
  const struct directory_array *array = change_array(change, &bits);
  if (!array || bits == 1 || is_needed(&change->generation->geometry, array, bits))
    return false;
  struct directory_array *smaller = tamis__change_resized_array(change, bits - 1, &result);
  if (!smaller)
    return false;
  tamis__change_root(change, directory_value_of_array(smaller, bits - 1));
  return true;
}

/* Whether the segment of an index, with the directory entry `value`, might join or be dropped.
 * Reads each stripe's number of entries without locks, and ignores one entry of each stripe, which
 * a remove may be about to take.  Otherwise several simultaneous removes could count each other's
 * entries, and none would shrink the filter.  The caller must be a reader. */
static bool may_shrink_at(const struct cuckoo *c, const struct generation *generation,
                          uint64_t index, directory_value value)
{
  unsigned depth = directory_depth(value);
  const struct cuckoo_geometry *g = generation_geometry(generation, depth > 0 ? depth - 1 : 0);
  uint64_t lowering = g->stripe_mask + UINT64_C(1);
  struct siblings siblings;
  if (depth == 0)
    return may_drop(c, generation) && tamis__segment_used(g, directory_segment(value)) <= lowering;
  return siblings_at(generation, index, depth, &siblings) && are_small(g, &siblings, 2 * lowering);
}

bool tamis__may_shrink(const struct cuckoo *c, const struct bucket_pair *sparse)
{
  return may_shrink_at(c, sparse->generation, pair_index(sparse), sparse->own_value);
}

/* Whether a shrink may retire memory: the backlog is small, or at most half of the filter's bytes.
 * Otherwise the backlog could outgrow the filter while a thread stays in a read section.  (Splits
 * need no such check: a split adds as much to the memory in use as to the backlog.) */
static bool may_retire(const struct cuckoo *c)
{
  uint64_t held = atomic_load_explicit(&cuckoo_growth(c)->backlog.held, memory_order_relaxed);
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed); /* both are statistics */
  return 2 * held <= bytes + SPARE_BACKLOG;
}

/* Joins the segment at an index with its sibling, halves the root's array, or drops the root's
 * empty segment.  Returns false if no step can follow. */
static bool shrink_step(struct cuckoo *c, struct generation *generation, uint64_t index)
{
  struct change change = tamis__change_begin(c, generation, index, 0);
  struct segment *segment = change_segment(&change);
  bool stepped = segment && ((segment->depth > 0 && join_locked(&change, segment->depth)) ||
                             halve_locked(&change));
  if (segment && !stepped)
    drop_locked(&change, segment);
  tamis__change_end(&change);
  return stepped;
}

void tamis__shrink(struct cuckoo *c, struct generation *generation, uint64_t index)
{
  tamis__backlog_drain(&cuckoo_growth(c)->backlog, false);
  if (!may_retire(c))
    atomic_store_explicit(&cuckoo_growth(c)->put_off, true, memory_order_relaxed);
  else
    while (shrink_step(c, generation, index))
      ;
}

void tamis__shrink_late(struct cuckoo *c)
{
  struct cuckoo_growth *growth = cuckoo_growth(c);
  if (!may_retire(c) || !atomic_exchange_explicit(&growth->put_off, false, memory_order_relaxed))
    return;
  for (unsigned i = cuckoo_generations(c); i-- > 0;) {
    struct generation *generation = cuckoo_generation(c, i);
    struct segment_cursor cursor = {0}; /* after a join, cursor.index may be inside a segment */
    struct segment *segment;
    do {
      reader_token token = reader_enter();
      segment = segment_next(generation, &cursor);
      directory_value value = segment ? directory_value_of(segment) : NULL;
      bool sparse = segment && may_shrink_at(c, generation, cursor.first, value);
      reader_leave(token);
      if (sparse)
        tamis__shrink(c, generation, cursor.first);
    } while (segment);
  }
}
