/* SPDX-License-Identifier: MIT
 *
 * Layer 2: copies of keys: when they take lanes, and when they are counted.
 *
 * A copy of a key takes a lane while fewer than max_lanes_per_key() lanes match the key.  So if few
 * keys are added twice, no memory goes into counts, and false positives have a lane of their own.
 * If many keys are added twice, their copies fill the segment.  Then the segment is folded: all
 * equal entries of a bucket pair become one entry with a count.  From then on this segment counts
 * each copy at once, and so do the segments that replace it in splits and joins.
 */
#ifndef TAMIS_LIB_CUCKOO_FOLD_H
#define TAMIS_LIB_CUCKOO_FOLD_H

#include "cuckoo/directory.h"

/* A flag in segment->copying: the segment counts copies.  The other bits of `copying` are the
 * approximate number of lanes that copies have taken. */
enum { COUNTS_COPIES = 1 << 30 };

/* Returns true if the segment counts copies.  Relaxed: a copy may take a lane or be counted. */
static inline bool segment_counts_copies(const struct segment *segment)
{
  return atomic_load_explicit(&segment->copying, memory_order_relaxed) & COUNTS_COPIES;
}

/* Makes a segment count copies.  Called before a fold, and after a search has found no lane for a
 * copy, so that later copies need no search. */
static inline void segment_start_counting(struct segment *segment)
{
  atomic_fetch_or_explicit(&segment->copying, COUNTS_COPIES, memory_order_relaxed);
}

/* Returns false if the segment counts copies, and no copy has taken a lane since the last fold. */
static inline bool segment_may_fold(const struct segment *segment)
{
  return atomic_load_explicit(&segment->copying, memory_order_relaxed) != COUNTS_COPIES;
}

/* Returns true if new segments count copies.  Relaxed: see segment_counts_copies(). */
static inline bool filter_counts_copies(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->counts_copies, memory_order_relaxed);
}

/* The number of lanes of a pair that may match a key.  Once so many do, later copies are counted.
 * The number is at least two, because two keys whose entries match may share the pair. */
static inline unsigned max_lanes_per_key(const struct cuckoo_geometry *g)
{
  return g->shape.lanes < 3 ? g->shape.lanes : 3;
}

/* Records that a copy has taken a lane. */
void tamis__note_copy_in_lane(struct segment *segment);

/* Returns true if the segment should be folded, not split: copies have taken more lanes than false
 * positives would.  (Segments fill up together, so a few copies could make all of them split.) */
bool tamis__should_fold(const struct cuckoo_geometry *g, const struct segment *segment);

/* Folds a segment.  Returns TAMIS_EFULL or TAMIS_ENOMEM if memory for counts was refused; a later
 * call may then fold the other entries.  The caller must hold a growth stripe of the segment. */
int tamis__fold(struct cuckoo *c, struct generation *generation, struct segment *segment);

#endif
