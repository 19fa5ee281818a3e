/* SPDX-License-Identifier: MIT
 *
 * Layer 2: copies of keys, in lanes and in counts.
 *
 * A copy of a key takes a lane as long as fewer than three (or two) match the key.  So if few keys
 * come twice, nothing is spent on counts, and keys that only seem to be in have a lane of their
 * own.  If many keys come twice, their copies fill the segment.  Then it is folded, successfully at
 * most once: all equal entries of a bucket pair become one, with a count.  From then on the segment
 * counts each copy when it comes, and so do the segments that it becomes in splits and joins.
 */
#ifndef TAMIS_LIB_CUCKOO_FOLD_H
#define TAMIS_LIB_CUCKOO_FOLD_H

#include "cuckoo/directory.h"

/* The figure of duplicates_lock: about how many lanes copies have taken, and whether the segment
 * counts copies. */
enum { COUNTS_COPIES = 1 << 30 };

/* Whether the segment counts copies.  Relaxed: either way a copy is in. */
static inline bool segment_counts_copies(const struct segment *segment)
{
  return atomic_load_explicit(&segment->copying, memory_order_relaxed) & COUNTS_COPIES;
}

/* Whether segments of the filter have been folded because of many copies.  Relaxed: as above. */
static inline bool filter_counts_copies(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->counts_copies, memory_order_relaxed);
}

/* How many lanes of a pair may match a key before its further copies are counted: two keys of one
 * pair must both be able to have theirs. */
static inline unsigned max_lanes_per_key(const struct cuckoo_geometry *g)
{
  return g->shape.lanes < 3 ? g->shape.lanes : 3;
}

/* A copy has taken a lane. */
void tamis__note_copy_in_lane(struct segment *segment);

/* A copy has been counted because a search for a lane failed.  After a few of these, the segment
 * counts copies at once, so that not every copy searches. */
void tamis__note_copy_without_room(struct cuckoo *c, const struct cuckoo_geometry *g,
                                   struct segment *segment);

/* Whether copies have taken so many lanes that a segment is better folded than split: more than may
 * be taken by keys that only seem to be in.  (Segments split at about the same time, so few copies
 * may double the memory of a filter.) */
bool tamis__should_fold(const struct cuckoo_geometry *g, const struct segment *segment);

/* A new segment of a filter in which there are many copies counts them from the start. */
void tamis__prepare_copying(const struct cuckoo *c, struct segment *segment);

/* What a segment that another thread does not know yet takes over from one that it replaces.
 * `part`: the part of the other's lanes that it takes over, as a divisor. */
void tamis__inherit_fold_state(const struct segment *from, struct segment *to, unsigned part);

/* Folds a segment.  TAMIS_EFULL, TAMIS_ENOMEM: memory for counts was refused; what has been folded
 * by then stays folded, and the segment is to be folded again.  The caller holds the growth
 * stripe. */
int tamis__fold(struct cuckoo *c, struct generation *generation, struct segment *segment);

#endif
