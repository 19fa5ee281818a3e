/* SPDX-License-Identifier: MIT
 *
 * Layer 2: growing and shrinking, one segment at a time.
 *
 *    create   The first key of a root comes to the newest generation, and gets a segment of depth 0.
 *    split    A full segment of depth d leaves the directory.  Two segments of depth d + 1 replace
 *             it, each with the entries whose next fingerprint bit is its own, in the same buckets
 *             and lanes.
 *    open     A segment that must not split any more is full.  A new generation takes the new keys.
 *    fold     Copies of keys have filled a segment.  They become counts (fold.h).
 *    join     Two siblings that hold little become one segment again.
 *    drop     An empty segment of an older generation leaves the directory.
 *
 * tamis__grow() takes one of the first four steps, which step_for() chooses, and a fold as its last
 * one if a limit refuses a split or a generation; tamis__split_to() takes a create or a split for a
 * union; tamis__shrink() takes the other two.
 *
 * Look-ups never wait for any of this.  A writer that finds room waits for a split or a join of its
 * own segment while the stripes of the segment are held, which is the time that it takes to copy
 * one segment and, if it has counts of copies, to allocate memory for these.  A writer that must
 * make room also waits for the growth stripe.
 *
 * The growth stripe.  A call that changes the directory entries of a root holds one of the
 * GROWTH_STRIPES growth stripes, which the root shares with others.  So a growth stripe keeps the
 * segments of its roots alive without an RCU read section: while a call holds it, no other call can
 * take them out of the directory.
 *
 * How a segment leaves:
 *
 *    0. The growth stripe is taken, and the new segments are allocated.
 *    1. All its stripes are taken: from now on nobody changes it.
 *    2. Its entries are copied into segments that no other thread knows yet, and the counts of
 *       copies with them.
 *    3. Its stripes are marked as having left.
 *    4. Its directory entries are changed to the new segments.
 *    5. Its stripes are released.
 *    6. The growth stripe is released, and the segment is retired.
 *
 *    For each key, one change leads calls from the old segment to the new one.  It is that of the
 *    key's own directory entry or, if the root becomes a single segment, that of the root's first
 *    entry, which is changed before the others and which every call reads before the key's own.
 *    From the mark until this change, nobody changes the old segment, and nobody finds the new one.
 *    So until the change the old segment holds the true state of the key.
 *
 *    A reader that finds the old segment has read the root's first entry before this change.  If it
 *    reads the buckets before the mark, what it reads is true at that instant.  If it reads them
 *    after the mark, it finds what the segment held when it was marked.  This was true from the
 *    mark until the change, and so at an instant after the reader's call began.
 *
 *    A writer that has waited for one of its stripes finds the mark and begins again at the
 *    directory.
 *
 *    The segment is retired after the growth stripe is released, because retiring may pause
 *    (reclaim.h).
 *
 * docs/growth.md has a picture of all of this, the table of rules that step_for() follows, and a
 * walk through all functions in the order in which they run ("Walk-through").
 */
#include "cuckoo/growth.h"

#include "cuckoo/evict.h"
#include "cuckoo/fill.h"
#include "cuckoo/fold.h"
#include "cuckoo/generation.h"
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "cuckoo/snapshot.h"

#include <time.h>

/* Siblings join when both together would fill at most this part of one segment's lanes.  Right
 * after a split they fill nearly all of them.  So a segment must lose more than a third of its keys
 * before it joins, and gain as many before it splits again.  Small segments may split long before
 * they are full. */
static const double join_load = 0.6, small_join_load = 0.3;

/* A segment that is emptier than 1 / SKEW_DIVISOR and has no room all the same holds many copies of
 * keys, or keys that were chosen with knowledge of the seed.  It is not worth a split.  (Tiny
 * segments can be unlucky.) */
enum { SKEW_DIVISOR = 2, SKEW_MIN_LANES = 256, SMALL_LANES = SMALL(1024, 64) };

enum {
  SPARE_BACKLOG = SMALL(256 * 1024, 2048)
}; /* bytes that may wait however small the filter is */

/* ---- a change of the directory ---- */

/* What a call does with the directory entries of a root, whose growth stripe it holds. */
struct change {
  struct cuckoo *c;
  struct generation *generation;
  uint64_t index;       /* one of these directory entries */
  struct retired *left; /* segments that have left the directory, chained by retired.next */
  uint32_t rooms;       /* c->rooms before the change, plus what the change itself has added: a mark
                           with this number holds until others add to c->rooms */
};

static struct change begin_change(struct cuckoo *c, struct generation *generation, uint64_t index)
{
  struct change change = {.c = c, .generation = generation, .index = index};
  stripe_lock(growth_stripe(generation, index));
  change.rooms = fullness_counted(&c->rooms);
  return change;
}

static void end_change(const struct change *change)
{
  stripe_unlock(growth_stripe(change->generation, change->index));
  for (struct retired *next, *each = change->left; each; each = next) {
    next = each->next;
    tamis__segment_retire(change->c, &change->generation->geometry, (struct segment *) each);
  }
}

static void note_left(struct change *change, struct segment *segment)
{
  segment->retired.next = change->left;
  change->left = &segment->retired;
}

/* The segment that the directory entry leads to; NULL: the root has none.  It stays while the
 * growth stripe is held.  (The first entry of a root decides whether the others say anything: see
 * directory.h.) */
static struct segment *segment_now(const struct change *change)
{
  const struct generation *generation = change->generation;
  uint64_t root = cuckoo_root_of_index(&generation->geometry, change->index);
  directory_value value =
      directory_load(generation_root_entry(&generation->geometry, generation, root, 0));
  if (directory_depth(value) > 0)
    value = directory_load(generation_directory_entry(generation, change->index));
  return directory_segment(value);
}

/* (Without other entries, a segment of depth 0 has a single one.) */
static void publish(struct generation *generation, struct directory_range range,
                    directory_value value)
{
  if (!generation_others(generation))
    range.count = 1;
  for (uint64_t i = 0; i < range.count; i++) {
    directory_publish(generation_directory_entry(generation, range.first + i), value);
    HOOK(cuckoo_directory_published);
  }
}

/* The caller holds all stripes of the segment. */
static void mark_left_locked(const struct cuckoo_geometry *g, struct segment *segment)
{
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    version_leave(&segment_stripes(segment)[i]);
}

static void count(_Atomic uint64_t *figure, uint64_t more)
{
  atomic_fetch_add_explicit(figure, more, memory_order_relaxed); /* a figure */
}

/* ---- split ---- */

/* What a split may need.  The counts of one child may take as much memory as the parent's. */
static uint64_t most_bytes_of_split(const struct generation *generation, struct segment *parent)
{
  return 2 * (cuckoo_segment_bytes(&generation->geometry) + tamis__segment_counts_bytes(parent)) +
         tamis__generation_others_bytes(generation);
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

/* Memory is allocated before the stripes are taken, but for duplicate counts, whose size is known
 * under them only.  What stays if the split fails comes last: the other directory entries, which
 * the next split uses.  The caller holds the growth stripe. */
static int split_locked(struct change *change, struct segment *parent)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = &generation->geometry;
  unsigned depth = parent->depth;
  struct segment *child[2] = {NULL, NULL};
  bool fits = tamis__cuckoo_fits(c, most_bytes_of_split(generation, parent));
  int result = TAMIS_OK;
  for (unsigned bit = 0; bit < 2 && result == TAMIS_OK; bit++)
    child[bit] = tamis__segment_create_unfilled(
        c, generation, parent->prefix | (uint64_t) bit << (63 - depth), depth + 1, &result);
  if (result == TAMIS_OK)
    result = try_counts(c, parent);
  if (result == TAMIS_OK)
    result = tamis__generation_provide_others(c, generation);
  if (result == TAMIS_OK) {
    tamis__segment_touch(g, child[0]);
    tamis__segment_touch(g, child[1]);
    segment_lock_all(g, parent);
    result = tamis__fill_split(c, g, parent, child);
    if (result == TAMIS_OK) {
      HOOK(cuckoo_split_copied);
      mark_left_locked(g, parent);
      struct directory_range range = directory_range_of(g, change->index, depth);
      range.count /= 2;
      publish(generation, range, directory_value_of(child[0]));
      range.first += range.count;
      publish(generation, range, directory_value_of(child[1]));
    }
    segment_unlock_all(g, parent);
  }
  if (result == TAMIS_OK) {
    note_left(change, parent);
    count(&generation->segments, 1);
    count(&cuckoo_growth(c)->splits, 1);
  } else {
    tamis__segment_destroy(c, g, child[0]);
    tamis__segment_destroy(c, g, child[1]);
    /* Another call wanted the memory at the same time, and both may have been refused: the marks
     * that others set because of this one are outdated, so they try again. */
    if (fits && result == TAMIS_EFULL) {
      change->rooms++;
      fullness_count(&c->rooms);
    }
  }
  return result;
}

/* ---- create a segment ---- */

static bool is_newest(const struct cuckoo *c, const struct generation *generation)
{
  return generation->number == cuckoo_generations(c) - 1;
}

/* Creates the first segment of a root, only in the newest generation, which stays the newest
 * meanwhile.  So a root of an older generation that has no segment never gets one, and look-ups
 * and unique adds that have seen it without one rely on that.  The caller holds the growth
 * stripe. */
static int create_segment_locked(struct change *change)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = &generation->geometry;
  int result = tamis__growth_provide(c); /* a filter may be loaded that has no segment at all */
  if (result != TAMIS_OK)
    return result;
  struct segment *segment = tamis__segment_create(c, generation, 0, 0, &result);
  if (!segment)
    return result;
  tamis__prepare_copying(c, segment);
  struct stripe *opening = &cuckoo_growth(c)->opening;
  stripe_lock(opening);
  bool newest = is_newest(c, generation);
  if (newest) {
    generation_mark_root(generation, cuckoo_root_of_index(g, change->index));
    publish(generation, directory_range_of(g, change->index, 0), directory_value_of(segment));
    count(&generation->segments, 1);
  }
  stripe_unlock(opening);
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
  const struct cuckoo_geometry *g = &generation->geometry;
  bool newest = is_newest(change->c, generation);
  if (!segment)
    return newest ? CREATE : REFUSE;
  if (tamis__should_fold(g, segment))
    return FOLD;
  if (is_skewed(change->c, g, segment))
    return last_step(segment);
  if (segment->depth < generation_split_limit(generation) && (newest || for_union))
    return SPLIT;
  return newest && change->c->growable && !for_union ? OPEN : last_step(segment);
}

/* The caller holds the growth stripe. */
static int take_step_locked(struct change *change, struct segment *segment, enum step step)
{
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
  bool limit = result == TAMIS_EFULL && !(for_union && is_newest(change->c, change->generation));
  fullness_mark(&segment->fullness, &segment->vacated,
                limit && backlog_is_empty(change->c) ? FULLNESS_FULL : FULLNESS_NO_PATH,
                change->rooms, fullness_of(&change->generation->geometry, segment));
}

/* Whether there is a path by now: since the caller has searched in vain, another call may have
 * made room.  The search is announced, as a mark may follow it (base/fullness.h).  The caller
 * holds the growth stripe. */
static bool has_path_locked(const struct bucket_pair *full)
{
  if (fullness_has_no_path(&full->segment->fullness))
    return false;
  fullness_begin_search(&full->segment->fullness);
  HOOK(cuckoo_full_search_begins);
  return tamis__path_exists(&full->generation->geometry, full->segment, full->lower, full->upper);
}

/* The caller holds the growth stripe. */
static int grow_locked(struct change *change, const struct bucket_pair *full, bool for_union)
{
  struct segment *segment = full->segment;
  if (segment && has_path_locked(full))
    return TAMIS_OK;
  enum step step = step_for(change, segment, for_union);
  int result = take_step_locked(change, segment, step);
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

/* The caller's read section has ended, so the segment may have been released, and its memory used
 * again for another segment.  If the directory still leads to it, it is the segment of this key all
 * the same, and what is done is right for it. */
int tamis__grow(struct cuckoo *c, const struct bucket_pair *full, unsigned generations,
                bool for_union)
{
  if (cuckoo_has_growth(c))
    tamis__backlog_drain(&cuckoo_growth(c)->backlog);
  struct change change = begin_change(c, full->generation, full->index);
  uint64_t began = now();
  bool current = pair_is_current(full) && cuckoo_generations(c) == generations;
  int result = current ? grow_locked(&change, full, for_union) : TAMIS_OK;
  uint64_t took = now() - began;
  end_change(&change);
  const struct counters counters = generation_counters(&c->first);
  tamis__counter_raise(&counters, LONGEST_GROWTH, took);
  return result;
}

void tamis__split_to(struct cuckoo *c, struct generation *generation, uint64_t index,
                     unsigned depth)
{
  struct change change = begin_change(c, generation, index);
  unsigned limit = generation_split_limit(generation);
  struct segment *segment = segment_now(&change);
  int result = segment || is_newest(c, generation) ? TAMIS_OK : TAMIS_EFULL;
  if (!segment && result == TAMIS_OK)
    result = create_segment_locked(&change);
  while (result == TAMIS_OK && (segment = segment_now(&change)) && segment->depth < depth &&
         segment->depth < limit)
    result = split_locked(&change, segment);
  end_change(&change);
}

/* ---- join ---- */

/* The segment of depth `depth` (at least 1) that a directory entry leads to, and its sibling. */
struct siblings {
  struct directory_range range; /* of both */
  struct segment *child[2];
};

/* False: they are not both there.  The caller holds the growth stripe, or is a reader. */
static bool siblings_at(const struct generation *generation, uint64_t index, unsigned depth,
                        struct siblings *siblings)
{
  struct directory_range range = directory_range_of(&generation->geometry, index, depth - 1);
  directory_value value[2] = {
      directory_load(generation_directory_entry(generation, range.first)),
      directory_load(generation_directory_entry(generation, range.first + range.count / 2))};
  *siblings = (struct siblings){range, {directory_segment(value[0]), directory_segment(value[1])}};
  return directory_depth(value[0]) == depth && directory_depth(value[1]) == depth;
}

/* Whether siblings are small enough to join, even with `less` entries less. */
static bool are_small(const struct cuckoo_geometry *g, const struct siblings *siblings,
                      uint64_t less)
{
  double lanes = (double) cuckoo_lanes(g);
  uint64_t used = segment_used(g, siblings->child[0]) + segment_used(g, siblings->child[1]);
  return (double) used - (double) less <=
         lanes * (lanes < SMALL_LANES ? small_join_load : join_load);
}

/* Joins a segment with its sibling, if both are small.  Returns whether it has.  The caller
 * holds the growth stripe. */
static bool join_locked(struct change *change, unsigned depth)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = &generation->geometry;
  struct siblings siblings;
  if (!siblings_at(generation, change->index, depth, &siblings) || !are_small(g, &siblings, 0))
    return false;
  struct segment **child = siblings.child;
  int result;
  struct segment *parent =
      tamis__segment_create(c, generation, child[0]->prefix, depth - 1, &result);
  if (!parent)
    return false;
  segment_lock_all(g, child[0]);
  segment_lock_all(g, child[1]);
  bool copied = tamis__snapshot_lets_join(c, generation, siblings.range) &&
                tamis__fill_joined(c, g, child, parent);
  if (copied) {
    HOOK(cuckoo_join_copied);
    mark_left_locked(g, child[0]);
    mark_left_locked(g, child[1]);
    publish(generation, siblings.range, directory_value_of(parent));
  }
  segment_unlock_all(g, child[1]);
  segment_unlock_all(g, child[0]);
  if (copied) {
    note_left(change, child[0]);
    note_left(change, child[1]);
    count(&generation->segments, (uint64_t) -1);
    count(&cuckoo_growth(c)->joins, 1);
  } else {
    tamis__segment_destroy(c, g, parent);
  }
  return copied;
}

/* ---- drop ---- */

/* Takes the segment of a root out of the directory, if it is empty.  The caller holds the growth
 * stripe. */
static void drop_locked(struct change *change, struct segment *segment)
{
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = &generation->geometry;
  segment_lock_all(g, segment);
  bool empty = segment_used(g, segment) == 0;
  if (empty) {
    mark_left_locked(g, segment);
    publish(generation, directory_range_of(g, change->index, 0), NULL);
  }
  segment_unlock_all(g, segment);
  if (empty) {
    note_left(change, segment);
    count(&generation->segments, (uint64_t) -1);
  }
}

/* ---- shrink ---- */

/* This takes no lock, so it may read counts that other threads are just lowering.  Each stripe has
 * one such thread at most, and the last of them must not find that it is not the last one. */
bool tamis__may_shrink(const struct cuckoo *c, const struct bucket_pair *sparse)
{
  if (!c->growable)
    return false;
  const struct cuckoo_geometry *g = &sparse->generation->geometry;
  unsigned depth = directory_depth(sparse->own_value);
  uint64_t lowering = g->stripe_mask + UINT64_C(1);
  struct siblings siblings;
  if (depth == 0)
    return !is_newest(c, sparse->generation) && segment_used(g, sparse->segment) <= lowering;
  return siblings_at(sparse->generation, sparse->index, depth, &siblings) &&
         are_small(g, &siblings, 2 * lowering);
}

/* Whether what waits for readers is little, or no more than all the rest.  A split adds as much to
 * the one as to the other.  So as long as shrinking is put off until this is true, a reader that
 * stands still cannot make the backlog outgrow the filter, and adds are never put off for that. */
static bool may_retire(const struct cuckoo *c)
{
  uint64_t held = atomic_load_explicit(&cuckoo_growth(c)->backlog.held, memory_order_relaxed);
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed); /* figures, both */
  return 2 * held <= bytes + SPARE_BACKLOG;
}

/* If it is put off, a later remove tries again. */
void tamis__shrink(struct cuckoo *c, const struct bucket_pair *sparse)
{
  struct generation *generation = sparse->generation;
  tamis__backlog_drain(&cuckoo_growth(c)->backlog); /* there is something to join, or to drop */
  if (!may_retire(c))
    return;
  struct change change = begin_change(c, generation, sparse->index);
  struct segment *segment = segment_now(&change);
  while (segment && segment->depth > 0 && join_locked(&change, segment->depth))
    segment = segment_now(&change);
  if (segment && segment->depth == 0 && !is_newest(c, generation) &&
      segment_used(&generation->geometry, segment) == 0)
    drop_locked(&change, segment);
  end_change(&change);
}
