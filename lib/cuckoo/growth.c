/* SPDX-License-Identifier: MIT
 *
 * Layer 2: growing and shrinking, one segment at a time.
 *
 *    create   The first key of a root comes to the newest generation, and gets a segment of depth
 *             0.
 *    split    A full segment of depth d leaves the directory.  Two segments of depth d + 1 replace
 *             it, each with the entries whose next fingerprint bit, or whose class, is its own.
 *    open     A segment that must not split any more is full.  A new generation takes the new keys.
 *    fold     Copies of keys have filled a segment.  They become counts (fold.h).
 *    join     Two siblings that hold little become one segment again.
 *    drop     An empty segment leaves the directory, unless it is all that a filter has.
 *
 * tamis__grow() takes one of the first four steps, which step_for() chooses, and a fold as its last
 * one if a limit refuses a split or a generation; tamis__split_to() takes a create or a split for a
 * union; tamis__shrink() takes the other two.
 *
 * Look-ups never wait for any of this.  A writer that finds room waits for a split or a join of its
 * own segment while the stripes of the segment are held, which is the time that it takes to copy
 * one segment and, if it has counts of copies, to allocate memory for these.  A writer that must
 * make room also waits for the growth stripes.
 *
 * Growth stripes.  A call that changes the directory holds growth stripes: those of the segment
 * that it splits, or of the segments that it joins; and where an array is replaced, all of the
 * root.  (cuckoo.growth in table.h says what a stripe protects.)  One of the stripes of a segment
 * is enough to keep the segment alive without an RCU read section: while a call holds it, no other
 * call can take the segment out of the directory, nor the array that leads to it.
 *
 * How a segment leaves:
 *
 *    0. Its growth stripes are taken, and the new segments are allocated, and a larger array if the
 *       split needs one.
 *    1. All its stripes are taken: from now on nobody changes it.
 *    2. Its entries are copied into segments that no other thread knows yet, and the counts of
 *       copies with them.
 *    3. Its stripes are marked as having left.
 *    4. The directory is changed to lead to the new segments.
 *    5. Its stripes are released.
 *    6. The growth stripes are released, and what has left is retired: the segment, and an array
 *       that was replaced.
 *
 *    For each key, one store leads calls from the old segment to the new one (change.c).  From the
 *    mark until this store, nobody changes the old segment, and nobody finds the new one.  So until
 *    the store the old segment holds the true state of the key.
 *
 *    A reader that finds the old segment has read the root's word before this store: either it is
 *    this word that changes, or the array which this word leads to had not been replaced yet, or it
 *    was replaced before the mark, and the reader has the old one.  If it reads the buckets before
 *    the mark, what it reads is true at that instant.  If it reads them after the mark, it finds
 *    what the segment held when it was marked.  This was true from the mark until the store, and so
 *    at an instant after the reader's call began.
 *
 *    A writer that has waited for one of its stripes finds the mark and begins again at the
 *    directory.
 *
 *    What has left is retired after the growth stripes are released, because retiring may pause
 *    (reclaim.h).
 *
 * docs/growth.md has a picture of all of this, and the table of rules that step_for() follows.
 */
#include "cuckoo/growth.h"

#include "cuckoo/change.h"
#include "cuckoo/evict.h"
#include "cuckoo/fill.h"
#include "cuckoo/fold.h"
#include "cuckoo/generation.h"
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "cuckoo/snapshot.h"
#include "table/put.h"

#include <time.h>

/* A segment that is emptier than 1 / SKEW_DIVISOR and has no room all the same holds many copies of
 * keys, or keys that were chosen with knowledge of the seed.  It is not worth a split.  (Tiny
 * segments can be unlucky.) */
enum { SKEW_DIVISOR = 2, SKEW_MIN_LANES = 256 };

/* ---- split ---- */

/* What a split needs besides memory for counts. */
static uint64_t bytes_of_split(const struct change *change, const struct segment *parent)
{
  unsigned bits = tamis__change_needs_array(change, parent->depth);
  return 2 * cuckoo_segment_bytes(&change->generation->geometry) +
         (bits ? directory_array_bytes(bits) : 0);
}

/* What it may need.  The counts of one child may take as much memory as the parent's. */
static uint64_t most_bytes_of_split(const struct change *change, struct segment *parent)
{
  return bytes_of_split(change, parent) + 2 * tamis__segment_counts_bytes(parent);
}

/* Probes, by allocating and releasing them, whether the allocator has memory for the counts of
 * copies of two children, before much is done in vain.  It may refuse them later all the same.
 * (With max_bytes it is not asked: the blocks would count against the limit until they are
 * released, and another call could be refused because of them.) */
static int try_counts(struct cuckoo *c, struct segment *parent)
{
  uint64_t bytes = c->max_bytes ? 0 : tamis__segment_counts_bytes(parent);
  void *blocks[2] = {NULL, NULL};
  int result = TAMIS_OK;
  for (unsigned i = 0; bytes && i < 2 && result == TAMIS_OK; i++)
    blocks[i] = tamis__cuckoo_allocate_cleared(c, bytes, 0, &result);
  for (unsigned i = 0; i < 2; i++)
    tamis__cuckoo_release(c, blocks[i], bytes);
  return result;
}

/* What a split makes. */
struct split {
  struct segment *child[2];
  struct directory_array *larger; /* NULL: the array is large enough */
  unsigned bits;                  /* of the larger array */
};

/* Memory is allocated before the stripes are taken, but for duplicate counts, whose size is known
 * under them only. */
static int allocate_split(struct change *change, struct segment *parent, struct split *split)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  unsigned depth = parent->depth;
  struct directory_range range = directory_range_of(&generation->geometry, change->index, depth);
  int result = TAMIS_OK;
  *split = (struct split){.bits = tamis__change_needs_array(change, depth)};
  for (unsigned i = 0; i < 2 && result == TAMIS_OK; i++)
    split->child[i] = tamis__segment_create_unfilled(
        c, generation, range.first + i * range.count / 2, depth + 1, &result);
  if (result == TAMIS_OK)
    result = try_counts(c, parent);
  if (result == TAMIS_OK && split->bits)
    split->larger = tamis__change_larger_array(change, split->bits, &result);
  return result;
}

static void release_split(struct change *change, const struct split *split)
{
  const struct cuckoo_geometry *g = &change->generation->geometry;
  tamis__segment_destroy(change->c, g, split->child[0]);
  tamis__segment_destroy(change->c, g, split->child[1]);
  tamis__cuckoo_release(change->c, split->larger, directory_array_bytes(split->bits));
}

/* The caller holds the growth stripes.  NO_ROOM: children with wider lanes have no room. */
static int split_locked(struct change *change, struct segment *parent)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = &generation->geometry;
  struct split split;
  bool fits = tamis__cuckoo_fits(c, most_bytes_of_split(change, parent));
  int result = allocate_split(change, parent, &split);
  if (result == TAMIS_OK) {
    tamis__segment_touch(g, split.child[0]);
    tamis__segment_touch(g, split.child[1]);
    segment_lock_all(g, parent);
    result = tamis__fill_split(c, generation, parent, split.child);
    if (result == TAMIS_OK) {
      HOOK(cuckoo_split_copied);
      tamis__change_leaves(change, parent);
      tamis__change_to_children(change, parent, split.child, split.larger);
    }
    segment_unlock_all(g, parent);
  }
  if (result == TAMIS_OK) {
    tamis__change_count(change, &cuckoo_growth(c)->splits, parent->depth + 1U, 1);
    return TAMIS_OK;
  }
  release_split(change, &split);
  /* Another call wanted the memory at the same time, and both may have been refused: the marks that
   * others set because of this one are outdated, so they try again. */
  if (fits && result == TAMIS_EFULL) {
    change->rooms++;
    fullness_count(&c->rooms);
  }
  return result;
}

/* ---- create a segment ---- */

/* Creates the first segment of a root, only in the newest generation, which stays the newest
 * meanwhile.  So a root of an older generation that has no segment never gets one, and look-ups
 * and unique adds that have seen it without one rely on that.  The caller holds the growth
 * stripes of the root. */
static int create_segment_locked(struct change *change)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = &generation->geometry;
  int result;
  struct segment *segment = tamis__segment_create(c, generation, change->index, 0, &result);
  if (!segment)
    return result;
  tamis__prepare_copying(c, segment);
  struct lock *opening = &cuckoo_growth(c)->opening;
  lock_take(opening);
  bool newest = generation_is_newest(c, generation);
  if (newest) {
    generation_mark_root(generation, cuckoo_root_of_index(g, change->index));
    tamis__change_root(change, directory_value_of(segment));
    atomic_fetch_add_explicit(&generation->segments, 1, memory_order_relaxed); /* a figure */
  }
  lock_release(opening);
  if (!newest)
    tamis__segment_destroy(c, g, segment);
  return result;
}

/* ---- grow ---- */

/* How full the segment is.  If as full as planned, a failed search shows that there is no room.
 * One that fails in an emptier segment has met many keys of a few buckets, and others may find
 * room. */
static enum fullness_degree fullness_of(const struct cuckoo_geometry *g,
                                        const struct segment *segment)
{
  const double nearly = 7.0 / 8;
  double full = cuckoo_geometry_full_load(g) - 6 * cuckoo_geometry_full_deviation(g);
  double load = (double) segment_used(g, segment) / (double) cuckoo_lanes(g);
  return load >= full            ? FULLNESS_AS_PLANNED
         : load >= full * nearly ? FULLNESS_NEARLY
                                 : FULLNESS_EMPTIER;
}

/* A union may bring its entries in the order of their hashes, and so those of few pairs at first.
 * A segment that is met half way may split.  (Relaxed: who has not seen the union has seen none of
 * its entries, as word_load() makes visible what precedes them.) */
static bool is_skewed(const struct cuckoo *c, const struct cuckoo_geometry *g,
                      const struct segment *segment)
{
  const struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return cuckoo_lanes(g) >= SKEW_MIN_LANES &&
         SKEW_DIVISOR * segment_used(g, segment) < cuckoo_lanes(g) &&
         !(growth && atomic_load_explicit(&growth->unions, memory_order_relaxed));
}

static bool backlog_is_empty(const struct cuckoo *c)
{
  const struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return !growth || atomic_load_explicit(&growth->backlog.held, memory_order_relaxed) == 0;
}

/* The steps: see the head of this file.  REFUSE: none is left. */
enum step { CREATE, SPLIT, OPEN, FOLD, REFUSE };

/* A segment that may not be split is folded, successfully at most once, as copies may have taken
 * lanes. */
static enum step last_step(const struct segment *segment)
{
  return segment_counts_copies(segment) ? REFUSE : FOLD;
}

/* What the segment needs, in which no path leads to room.  For a key that is added, only the newest
 * generation grows; for an entry of a union any may split, but none is opened. */
static enum step step_for(const struct change *change, const struct segment *segment,
                          bool for_union)
{
  const struct generation *generation = change->generation;
  bool newest = generation_is_newest(change->c, generation);
  if (!segment)
    return newest ? CREATE : REFUSE;
  const struct cuckoo_geometry *g = segment_geometry(generation, segment);
  if (tamis__should_fold(g, segment))
    return FOLD;
  if (is_skewed(change->c, g, segment))
    return last_step(segment);
  if (segment->depth < generation_split_limit(generation) && (newest || for_union))
    return SPLIT;
  return newest && change->c->growable && !for_union ? OPEN : last_step(segment);
}

/* A filter that is to grow for the first time gets what it needs for that, unless max_bytes would
 * not let it grow all the same.  (One that has been loaded may have no segment to split.) */
static int begin_to_grow_locked(const struct change *change, const struct segment *segment)
{
  uint64_t bytes = sizeof(struct cuckoo_growth) + (segment ? bytes_of_split(change, segment) : 0);
  return tamis__cuckoo_fits(change->c, bytes) ? tamis__growth_provide(change->c) : TAMIS_EFULL;
}

/* Once there is growth, the caller tries again, as other calls may take growth stripes from now on.
 * The caller holds the growth stripes. */
static int take_step_locked(struct change *change, struct segment *segment, enum step step)
{
  if (step != FOLD && step != REFUSE && !change_has_growth(change))
    return begin_to_grow_locked(change, segment);
  return step == CREATE  ? create_segment_locked(change)
         : step == SPLIT ? split_locked(change, segment)
         : step == OPEN  ? tamis__generation_open(change->c, change->generation, NULL)
         : step == FOLD  ? tamis__fold(change->c, change->generation, segment)
                         : TAMIS_EFULL;
}

/* After all steps have failed.  Memory that the allocator refuses, or that waits for readers, may
 * be had later.  And a segment of the newest generation that may not split is no limit for a union:
 * an add may open a generation. */
static void mark_as_full(const struct change *change, struct segment *segment, bool for_union,
                         int result)
{
  bool limit =
      result == TAMIS_EFULL && !(for_union && generation_is_newest(change->c, change->generation));
  fullness_mark(&segment->fullness, &segment->vacated,
                limit && backlog_is_empty(change->c) ? FULLNESS_FULL : FULLNESS_NO_PATH,
                change->rooms, fullness_of(segment_geometry(change->generation, segment), segment));
}

/* Whether there is a path by now: since the caller has searched in vain, another call may have
 * made room.  The search is announced, as a mark may follow it (base/fullness.h).  The caller
 * holds the growth stripes. */
static bool has_path_locked(const struct bucket_pair *full)
{
  if (fullness_has_no_path(&full->segment->fullness))
    return false;
  fullness_begin_search(&full->segment->fullness);
  HOOK(cuckoo_full_search_begins);
  return tamis__path_exists(full->geometry, full->segment, full->lower, full->upper);
}

/* The caller holds the growth stripes. */
static int grow_locked(struct change *change, const struct bucket_pair *full, bool for_union)
{
  struct segment *segment = full->segment;
  if (segment && has_path_locked(full))
    return TAMIS_OK;
  enum step step = step_for(change, segment, for_union);
  int result = take_step_locked(change, segment, step);
  if (result == NO_ROOM) /* copies are folded, or else keys go to the next generation */
    result = take_step_locked(change, segment,
                              !segment_counts_copies(segment) ? FOLD
                              : for_union                     ? REFUSE
                                                              : OPEN);
  if (result == TAMIS_EFULL && (step == SPLIT || step == OPEN))
    result = take_step_locked(change, segment, last_step(segment));
  if (result != TAMIS_OK && segment)
    mark_as_full(change, segment, for_union, result);
  return result;
}

static uint64_t now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

/* For what tamis__change_begin() takes the stripes: a split that needs a larger array takes all of
 * the root. */
static unsigned depth_to_lock(const struct bucket_pair *pair)
{
  unsigned depth = directory_depth(pair->own_value), bits = directory_depth(pair->root_value);
  bool larger = bits < directory_bits(&pair->generation->geometry, depth + 1);
  return larger ? 0 : depth;
}

/* The caller's read section has ended, so the segment may have been released, and its memory used
 * again for another segment.  If the directory still leads to it, it is the segment of this key all
 * the same, and what is done is right for it. */
int tamis__grow(struct cuckoo *c, const struct bucket_pair *full, unsigned generations,
                bool for_union)
{
  if (cuckoo_has_growth(c))
    tamis__backlog_drain(&cuckoo_growth(c)->backlog);
  struct change change =
      tamis__change_begin(c, full->generation, pair_index(full), depth_to_lock(full));
  uint64_t began = now();
  bool current = pair_is_current(full) && cuckoo_generations(c) == generations;
  int result = current ? grow_locked(&change, full, for_union) : TAMIS_OK;
  uint64_t took = now() - began;
  tamis__change_end(&change);
  const struct counters counters = generation_counters(&c->first);
  tamis__counter_raise(&counters, LONGEST_GROWTH, took);
  return result;
}

/* One step towards a depth.  False: there is no more to do, or it failed. */
static bool step_to(struct cuckoo *c, struct generation *generation, uint64_t index, unsigned depth)
{
  unsigned limit = generation_split_limit(generation);
  struct change change = tamis__change_begin(c, generation, index, 0);
  struct segment *segment = change_segment(&change);
  enum step step = !segment ? (generation_is_newest(c, generation) ? CREATE : REFUSE)
                   : segment->depth < depth && segment->depth < limit ? SPLIT
                                                                      : REFUSE;
  bool stepped = take_step_locked(&change, segment, step) == TAMIS_OK;
  tamis__change_end(&change);
  return stepped;
}

void tamis__split_to(struct cuckoo *c, struct generation *generation, uint64_t index,
                     unsigned depth)
{
  while (step_to(c, generation, index, depth))
    ;
}
