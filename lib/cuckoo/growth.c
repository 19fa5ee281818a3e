/* SPDX-License-Identifier: MIT
 *
 * Layer 2: grows and shrinks filters, one segment at a time.
 *
 *    create   A root gets its first segment when its first key arrives in the newest generation.
 *    split    Two segments of depth d + 1 replace a full segment of depth d.  Each gets the entries
 *             with one value of the next fingerprint bit, or of the class.
 *    open     A full segment is at the split limit.  A new generation takes the new keys.
 *    fold     Copies of keys have filled a segment.  Counts replace the copies (segment.h).
 *
 * tamis__grow() takes the step that step_for() chooses (docs/internals/growth.md has its rules).
 * If a limit refuses a split or a new generation, tamis__grow() folds.  shrink.c joins two siblings
 * with few entries to one segment, and drops empty segments.
 *
 * Look-ups never wait for any of these steps.  A writer that finds room waits only while a split or
 * a join holds the stripes of the writer's segment: for the time to copy one segment and to
 * allocate duplicate counts.  A writer that must make room also waits for growth stripes.
 *
 * While a call holds one growth stripe of a segment (cuckoo.growth in table.h), no other call can
 * remove the segment, or the array that leads to it.  So both stay alive without a read section.
 *
 * How a segment S leaves:
 *
 *    0. The call takes the growth stripes of S, and allocates new segments and perhaps an array.
 *    1. It takes all stripes of S: from now on no thread changes S.
 *    2. It copies the entries of S, and their counts of copies, into the new, unpublished segments.
 *    3. It marks the stripes of S as having left.
 *    4. It changes the directory to lead to the new segments.
 *    5. It releases the stripes of S.
 *    6. It releases the growth stripes, and then retires S and a replaced array (this may pause).
 *
 * To show: every call finds the true state of a key.  For each key, one store leads calls from S to
 * the new segment: the store to the key's directory entry or, if the array is replaced, to the
 * root's word.  A new array is complete before this store; an old array is not written after it.
 * From the mark until this store, no thread changes S or finds the new segment.  So S holds the
 * true state of the key until the store.
 *
 *    A reader that finds S has read the root's word before the store: after the store, neither this
 *    word nor its array leads the key to S.  (An older array was replaced before the mark.)  If the
 *    reader reads the buckets before the mark, it finds the true state at that instant.  After the
 *    mark, it finds the state that is true from the mark until the store, and so during its call.
 *
 *    A writer that has waited for a stripe of S finds the mark, and begins again at the directory.
 */
#include "cuckoo/growth.h"

#include "cuckoo/generation.h"
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "cuckoo/snapshot.h"
#include "table/put.h"

#include <time.h>

/* If a segment has no room although less than 1 / SKEW_DIVISOR of its lanes are in use, it has many
 * copies of keys, or keys that were chosen with knowledge of the seed.  A split would not help.
 * (A segment with fewer than SKEW_MIN_LANES lanes may have no room by chance.) */
enum { SKEW_DIVISOR = 2, SKEW_MIN_LANES = 256 };

/* ---- a change of the directory ---- */

struct change tamis__change_begin(struct cuckoo *c, struct generation *generation, uint64_t index,
                                  unsigned depth)
{
  struct change change = {.c = c, .generation = generation, .index = index};
  change.held = growth_lock(c, generation, index, depth);
  change.rooms = fullness_counted(&c->rooms);
  return change;
}

void tamis__change_end(const struct change *change)
{
  struct cuckoo *c = change->c;
  growth_unlock(change->held);
  for (struct retired *next, *each = change->segments; each; each = next) {
    next = each->next;
    tamis__segment_retire(c, &change->generation->geometry, (struct segment *) each);
  }
  if (change->array)
    tamis__backlog_retire(&cuckoo_growth(c)->backlog, &change->array->retired,
                          directory_array_bytes(change->bits) + RETIRED_ARRAY, false);
}

void tamis__change_leaves(struct change *change, struct segment *segment)
{
  for (uint32_t i = 0; i <= change->generation->geometry.stripe_mask; i++)
    version_leave(&segment_stripes(segment)[i]);
  segment->retired.next = change->segments;
  change->segments = &segment->retired;
}

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

/* ---- split ---- */

/* The k (directory.h) of the larger array that a split at this depth needs; 0 if it needs none. */
static unsigned needs_array(const struct change *change, unsigned depth)
{
  unsigned bits, needed = directory_bits(&change->generation->geometry, depth + 1);
  (void) change_array(change, &bits);
  return bits < needed ? needed : 0;
}

/* The bytes that a split needs, without those for duplicate counts. */
static uint64_t bytes_of_split(const struct change *change, const struct segment *parent)
{
  unsigned bits = needs_array(change, parent->depth);
  return 2 * cuckoo_segment_bytes(&change->generation->geometry) +
         (bits ? directory_array_bytes(bits) : 0);
}

struct split {
  struct segment *child[2];
  struct directory_array *larger; /* NULL: the array is large enough */
  unsigned bits;
};

/* Allocates all memory that a split needs, except for duplicate counts, which may still change. */
static int allocate_split(struct change *change, struct segment *parent, struct split *split)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  unsigned depth = parent->depth;
  struct directory_range range = directory_range_of(&generation->geometry, change->index, depth);
  int result = TAMIS_OK;
  *split = (struct split){.bits = needs_array(change, depth)};
  for (unsigned i = 0; i < 2 && result == TAMIS_OK; i++)
    split->child[i] =
        tamis__segment_create(c, generation, range.first + i * range.count / 2, depth + 1, &result);
  if (result == TAMIS_OK && split->bits)
    split->larger = tamis__change_resized_array(change, split->bits, &result);
  return result;
}

/* Makes the directory lead to the children of a segment, all stripes of which the caller must hold.
 * `larger` is the new array, if the children need one. */
static void put_children(struct change *change, struct segment *child[2],
                         struct directory_array *larger)
{
  const struct cuckoo_geometry *g = &change->generation->geometry;
  unsigned bits;
  struct directory_array *array = change_array(change, &bits);
  if (larger) {
    bits++;
    array = larger;
  }
  directory_put(g, array, bits, child[0]);
  directory_put(g, array, bits, child[1]);
  if (larger)
    tamis__change_root(change, directory_value_of_array(larger, bits));
}

/* Splits a segment.  Returns NO_ROOM if a child with wider lanes has too few for its entries. */
static int split_locked(struct change *change, struct segment *parent)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = &generation->geometry;
  struct split split;
  /* Each child may need as many bytes for counts as the parent. */
  uint64_t most = bytes_of_split(change, parent) + 2 * tamis__segment_counts_bytes(parent);
  bool fits = cuckoo_fits(c, most);
  int result = allocate_split(change, parent, &split);
  if (result == TAMIS_OK) {
    segment_lock_all(g, parent);
    result = tamis__fill_split(c, generation, parent, split.child);
    if (result == TAMIS_OK) {
      HOOK(cuckoo_split_copied);
      tamis__change_leaves(change, parent);
      put_children(change, split.child, split.larger);
    }
    segment_unlock_all(g, parent);
  }
  if (result == TAMIS_OK) {
    tamis__change_count(change, &cuckoo_growth(c)->splits, parent->depth + 1U, 1);
    return TAMIS_OK;
  }
  tamis__segment_destroy(c, g, split.child[0]);
  tamis__segment_destroy(c, g, split.child[1]);
  tamis__cuckoo_release(c, split.larger, directory_array_bytes(split.bits));
  /* The split fitted into max_bytes when it began, so other calls have taken memory since.  The
   * split's own memory may have made such calls fail: their full marks must become invalid. */
  if (fits && result == TAMIS_EFULL) {
    change->rooms++;
    fullness_count(&c->rooms);
  }
  return result;
}

/* Creates the first segment of a root, unless the generation is no longer the newest.  A root of an
 * older generation never gets a first segment, because look-ups and unique adds rely on this.
 * While the function holds the lock `opening`, no generation is opened. */
static int create_segment_locked(struct change *change)
{
  struct cuckoo *c = change->c;
  struct generation *generation = change->generation;
  const struct cuckoo_geometry *g = &generation->geometry;
  int result;
  struct segment *segment = tamis__segment_create(c, generation, change->index, 0, &result);
  if (!segment)
    return result;
  if (filter_counts_copies(c))
    segment_start_counting(segment);
  struct lock *opening = &cuckoo_growth(c)->opening;
  lock_take(opening);
  bool newest = generation_is_newest(c, generation);
  if (newest) {
    generation_mark_root(generation, cuckoo_root_of_index(g, change->index));
    tamis__change_root(change, directory_value_of(segment));
    atomic_fetch_add_explicit(&generation->segments, 1, memory_order_relaxed); /* a statistic */
  }
  lock_release(opening);
  if (!newest)
    tamis__segment_destroy(c, g, segment);
  return result;
}

/* ---- grow ---- */

/* How full a segment is after a search in it has failed.  In a segment as full as planned, no
 * search finds room.  In an emptier one, searches for other keys may succeed. */
static enum fullness_degree fullness_of(const struct cuckoo_geometry *g,
                                        const struct segment *segment)
{
  const double nearly = 7.0 / 8;
  double full = cuckoo_geometry_full_load(g) - 6 * cuckoo_geometry_full_deviation(g);
  double load = (double) tamis__segment_used(g, segment) / (double) cuckoo_lanes(g);
  return load >= full            ? FULLNESS_AS_PLANNED
         : load >= full * nearly ? FULLNESS_NEARLY
                                 : FULLNESS_EMPTIER;
}

/* Whether a segment of a growable filter is too empty to split.  False in the target of a union: if
 * the source has more bucket pairs, the union fills the target's pairs one by one, so a pair may be
 * full in a nearly empty segment.  (Relaxed: a thread that has read an entry of the union also sees
 * `united`, as word_load() makes visible all that was stored before.) */
static bool is_skewed(const struct cuckoo *c, const struct cuckoo_geometry *g,
                      const struct segment *segment)
{
  const struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return c->growable && cuckoo_lanes(g) >= SKEW_MIN_LANES &&
         SKEW_DIVISOR * tamis__segment_used(g, segment) < cuckoo_lanes(g) &&
         !(growth && atomic_load_explicit(&growth->united, memory_order_relaxed));
}

static bool backlog_is_empty(const struct cuckoo *c)
{
  const struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return !growth || atomic_load_explicit(&growth->backlog.held, memory_order_relaxed) == 0;
}

/* The steps that the head of this file describes.  REFUSE: no step is left. */
enum step { CREATE, SPLIT, OPEN, FOLD, REFUSE };

/* The last step for a segment that must not split: FOLD or, if the segment counts copies and no
 * copy has taken a lane since the last fold, REFUSE. */
static enum step last_step(const struct segment *segment)
{
  uint32_t copying = atomic_load_explicit(&segment->copying, memory_order_relaxed);
  return copying == COUNTS_COPIES ? REFUSE : FOLD;
}

/* The step for a segment in which no path leads to room.  For an added key, only the newest
 * generation grows; for a union's entry, any segment may split, but no generation is opened. */
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
  if (segment->depth < generation_split_limit(generation) && (newest || for_union))
    return is_skewed(change->c, g, segment) ? last_step(segment) : SPLIT;
  return newest && change->c->growable && !for_union ? OPEN : last_step(segment);
}

/* Takes a step.  If the step needs a struct cuckoo_growth and none exists, only creates the struct
 * (if max_bytes has room for both).  Then the caller must try again, as other calls may now use the
 * struct's growth stripes.  `segment` may be NULL. */
static int take_step_locked(struct change *change, struct segment *segment, enum step step)
{
  if (step != FOLD && step != REFUSE && change->held.first == &change->c->first.own_growth) {
    uint64_t bytes = sizeof(struct cuckoo_growth) + (segment ? bytes_of_split(change, segment) : 0);
    return cuckoo_fits(change->c, bytes) ? tamis__growth_provide(change->c) : TAMIS_EFULL;
  }
  return step == CREATE  ? create_segment_locked(change)
         : step == SPLIT ? split_locked(change, segment)
         : step == OPEN  ? tamis__generation_open(change->c, change->generation, NULL)
         : step == FOLD  ? tamis__fold(change->c, change->generation, segment)
                         : TAMIS_EFULL;
}

/* Sets a full mark after all steps have failed.  The mark is FULL if a retry would fail: a limit,
 * not the allocator, refused the step, and the backlog holds no memory.  Otherwise it is NO_PATH.
 * A union sets only NO_PATH in the newest generation, as an add may still open a generation. */
static void mark_as_full(const struct change *change, struct segment *segment, bool for_union,
                         int result)
{
  bool limit =
      result == TAMIS_EFULL && !(for_union && generation_is_newest(change->c, change->generation));
  fullness_mark(&segment->fullness, &segment->vacated,
                limit && backlog_is_empty(change->c) ? FULLNESS_FULL : FULLNESS_NO_PATH,
                change->rooms, fullness_of(segment_geometry(change->generation, segment), segment));
}

/* Whether a path exists now: another call may have made room since the caller's search.  A full
 * mark may follow, so fullness_begin_search() announces the search (base/fullness.h).  The caller
 * must hold the growth stripes of the segment. */
static bool has_path_locked(const struct bucket_pair *full)
{
  if (fullness_has_no_path(&full->segment->fullness))
    return false;
  fullness_begin_search(&full->segment->fullness);
  HOOK(cuckoo_full_search_begins);
  return tamis__path_exists(full->geometry, full->segment, full->lower, full->upper);
}

static int grow_locked(struct change *change, const struct bucket_pair *full, bool for_union)
{
  struct segment *segment = full->segment;
  if (segment && has_path_locked(full))
    return TAMIS_OK;
  enum step step = step_for(change, segment, for_union);
  int result = take_step_locked(change, segment, step);
  if (result == NO_ROOM) { /* a child has too few lanes: do not split */
    enum step last = last_step(segment);
    result = take_step_locked(change, segment, last == REFUSE && !for_union ? OPEN : last);
  }
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

/* The depth for tamis__change_begin(): the segment's or, if a split needs a larger array, 0. */
static unsigned depth_to_lock(const struct bucket_pair *pair)
{
  unsigned depth = directory_depth(pair->own_value), bits = directory_depth(pair->root_value);
  bool larger = bits < directory_bits(&pair->generation->geometry, depth + 1);
  return larger ? 0 : depth;
}

/* The caller's read section has ended, so the segment of `full` may have been released, and its
 * memory may hold another segment.  This does no harm: if the directory still leads from the key to
 * this memory, the memory holds the key's present segment. */
int tamis__grow(struct cuckoo *c, const struct bucket_pair *full, unsigned generations,
                bool for_union)
{
  if (cuckoo_has_growth(c))
    tamis__backlog_drain(&cuckoo_growth(c)->backlog, false);
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

/* Takes a step towards `depth`.  Returns false if `depth` or a limit is reached, or on failure. */
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
