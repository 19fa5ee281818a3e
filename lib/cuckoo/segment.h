/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates, destroys and retires segments; changes their entries and duplicate counts.
 */
#ifndef TAMIS_LIB_CUCKOO_SEGMENT_H
#define TAMIS_LIB_CUCKOO_SEGMENT_H

#include "cuckoo/directory.h"
#include "table/put.h"

/* Creates an empty, unpublished segment that has this depth and the directory index `index`, or
 * returns NULL with the reason in *result. */
struct segment *tamis__segment_create(struct cuckoo *c, struct generation *generation,
                                      uint64_t index, unsigned depth, int *result);

/* Sets used[i] to stripe i's lanes in use.  Returns false if an entry is invalid or too old. */
bool tamis__check_words(const struct cuckoo_geometry *g, const uint64_t *words, unsigned most_age,
                        uint32_t used[CUCKOO_FIXED_STRIPES]);

/* Initializes the stripes and the lock of a segment in zeroed memory. */
void tamis__segment_init(const struct cuckoo_geometry *g, struct segment *segment);

/* Undoes tamis__segment_init(), and releases the segment's duplicate counts, but not its memory. */
void tamis__segment_close(struct cuckoo *c, const struct cuckoo_geometry *g,
                          struct segment *segment);

/* Destroys a segment that no other thread uses.  `segment` may be NULL. */
void tamis__segment_destroy(struct cuckoo *c, const struct cuckoo_geometry *g,
                            struct segment *segment);

/* Retires a segment that has left the directory: its memory is released after a grace period. */
void tamis__segment_retire(struct cuckoo *c, const struct cuckoo_geometry *g,
                           struct segment *segment);

/* Releases a retired segment or array; the backlog calls this after the grace period. */
void tamis__retired_release(void *owner, struct retired *block, uint64_t size);

/* Whether a retired block is a segment, and a call still waits for one of its stripes. */
bool tamis__retired_in_use(const struct retired *block);

/* ---- waiting for stripes ----
 *
 * The holder of a stripe may be in the user's allocator for any length of time.  So a call that
 * must wait for a stripe increments segment->waiting, leaves its read section (which would delay
 * grace periods), and enters it again when it has the stripe.  Until it decrements
 * segment->waiting, the segment stays.
 *
 * A call that has its stripes may also leave its read section to allocate memory: the segment
 * stays, because its remover must hold all stripes.  Other segments that it has found may leave. */

/* Waits for a lock and takes it.  If the caller is `inside` a read section, leaves it meanwhile. */
void tamis__wait_outside(struct lock *lock, bool inside);

/* Takes duplicates_lock.  The caller must hold a stripe of the segment. */
static inline void segment_lock_counts(struct segment *segment, bool inside)
{
  if (!lock_try(&segment->duplicates_lock))
    tamis__wait_outside(&segment->duplicates_lock, inside);
}

/* ---- duplicate counts ----
 *
 * The caller must hold the stripes of the buckets, unless the segment is not published.  If the
 * caller is `inside` a read section, these functions leave it to change a count that needs memory.
 * If memory is refused, they change nothing, and return TAMIS_EFULL or TAMIS_ENOMEM. */

struct lane {
  uint64_t bucket;
  unsigned lane;
};

/* Adds `n` to the count of copies of the entry in a lane.  `n` may be negative (modulo 2^64), which
 * needs no memory.  Returns TAMIS_ABSENT if the count would become negative. */
int tamis__segment_add_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                              struct segment *segment, struct lane lane, uint64_t n, bool inside);

/* Adds `more` and the count of lane `from` to that of lane `to`, and clears the count of `from`. */
int tamis__segment_move_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                               struct segment *segment, struct lane from, struct lane to,
                               uint64_t more, bool inside);

/* The bytes that a copy of all counts would take.  The caller must not hold duplicates_lock. */
uint64_t tamis__segment_counts_bytes(struct segment *segment);

static inline uint64_t segment_copies(const struct segment *segment, struct lane lane)
{
  return plane_get(&segment->duplicates, lane.bucket, lane.lane);
}

/* ---- making room in a full bucket pair: evict.c ---- */

/* Moves entries along a cuckoo path until one of the two buckets has a free lane.  Each move takes
 * two stripes.  The caller must hold no stripe.  If the segment is published, the caller must be in
 * a read section, and `inside` must be true.
 *   TAMIS_OK      there was a path, and now there is room, unless another thread has filled it; or
 *                 the segment has left the directory, and must not be touched again
 *   TAMIS_ABSENT  there is no path, or the segment is marked NO_PATH or FULL
 *   TAMIS_EFULL, TAMIS_ENOMEM
 *                 memory for the duplicate count of a moved entry was refused */
int tamis__evict(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *segment,
                 uint64_t lower, uint64_t upper, bool inside);

/* Calls tamis__evict() for a pair of a published segment.  Sets *no_path to whether it returns
 * TAMIS_ABSENT.  Returns RETRY or, if memory was refused, the error. */
static inline int evict_for(struct cuckoo *c, const struct bucket_pair *pair, bool *no_path)
{
  int evicted = tamis__evict(c, pair->geometry, pair->segment, pair->lower, pair->upper, true);
  *no_path = evicted == TAMIS_ABSENT;
  return evicted < 0 ? evicted : RETRY;
}

/* Returns true if a cuckoo path leads from one of the two buckets to a free lane now. */
bool tamis__path_exists(const struct cuckoo_geometry *g, const struct segment *segment,
                        uint64_t lower, uint64_t upper);

/* ---- copies of keys: when they take lanes, and when they are counted: fold.c ----
 *
 * A copy of a key takes a lane while fewer than max_lanes_per_key() lanes match the key.  So if few
 * keys are added twice, counts take no memory, and a new key that another key's entry matches gets
 * its own lane.  If the copies of many keys fill the segment, the segment is folded: all equal
 * entries of a bucket pair become one entry with a count.  From then on this segment counts each
 * copy at once, and so do the segments that replace it in splits and joins. */

/* A flag in segment->copying: the segment counts copies.  The other bits of `copying` are the
 * approximate number of lanes that copies have taken. */
enum { COUNTS_COPIES = 1 << 30 };

/* Whether the segment counts copies.  (Relaxed: it does no harm if a copy takes a lane.) */
static inline bool segment_counts_copies(const struct segment *segment)
{
  return atomic_load_explicit(&segment->copying, memory_order_relaxed) & COUNTS_COPIES;
}

/* Makes a segment count copies at once.  Called before a fold, or if a copy has found no lane. */
static inline void segment_start_counting(struct segment *segment)
{
  atomic_fetch_or_explicit(&segment->copying, COUNTS_COPIES, memory_order_relaxed);
}

/* Whether new segments count copies.  (Relaxed: it does no harm if a copy takes a lane.) */
static inline bool filter_counts_copies(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->counts_copies, memory_order_relaxed);
}

/* The number of lanes of a pair that may match a key; copies beyond this number are counted.  The
 * number is at least two, because two keys whose entries match may share the pair. */
static inline unsigned max_lanes_per_key(const struct cuckoo_geometry *g)
{
  return g->shape.lanes < 3 ? g->shape.lanes : 3;
}

void tamis__note_copy_in_lane(struct segment *segment);

/* Whether the segment should be folded, not split: copies take more lanes than false positives
 * would.  (Otherwise a few copies could split all segments, which fill up together.) */
bool tamis__should_fold(const struct cuckoo_geometry *g, const struct segment *segment);

/* Folds a segment.  Returns TAMIS_EFULL or TAMIS_ENOMEM if memory for counts was refused; a later
 * call may then fold the other entries.  The caller must hold a growth stripe of the segment. */
int tamis__fold(struct cuckoo *c, struct generation *generation, struct segment *segment);

/* ---- filling unpublished segments: fill.c ---- */

/* Fills the two empty children of a split with the parent's entries and their counts of copies.
 * Child i gets the entries whose next fingerprint bit is i (in an uneven split: whose class is i).
 * The caller must hold all stripes of the parent, and must destroy the children after an error.
 *   Errors  TAMIS_EFULL, TAMIS_ENOMEM: no memory for counts; NO_ROOM: a child has too few lanes */
int tamis__fill_split(struct cuckoo *c, const struct generation *generation, struct segment *parent,
                      struct segment *child[2]);

/* Fills an empty segment with the entries of its two children.  The caller must hold all
 * stripes of both children.  Returns false if there is no room, or memory for counts is refused. */
bool tamis__fill_joined(struct cuckoo *c, const struct generation *generation,
                        struct segment *child[2], struct segment *parent);

#endif
