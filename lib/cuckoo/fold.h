/* SPDX-License-Identifier: MIT
 *
 * Layer 2: copies of keys: when they take lanes, and when they are counted.
 *
 * A copy of a key takes a lane while fewer than three lanes (or two) match the key.  So if few keys
 * are added twice, no memory goes into counts, and false positives have a lane of their own.  If
 * many keys are added twice, their copies fill the segment.  Then the segment is folded,
 * successfully at most once: all equal entries of a bucket pair become one entry with a count.
 * From then on this segment, and those that replace it in splits and joins, count each copy at
 * once.
 */
#ifndef TAMIS_LIB_CUCKOO_FOLD_H
#define TAMIS_LIB_CUCKOO_FOLD_H

#include "cuckoo/directory.h"

/* The flag in segment->copying: the segment counts copies.  The other bits: about how many lanes
 * copies have taken. */
enum { COUNTS_COPIES = 1 << 30 };

/* Whether the segment counts copies.  Relaxed: a copy is correct in a lane and in a count. */
static inline bool segment_counts_copies(const struct segment *segment)
{
  return atomic_load_explicit(&segment->copying, memory_order_relaxed) & COUNTS_COPIES;
}

/* Whether segments of the filter were folded because of many copies.  Relaxed: as above. */
static inline bool filter_counts_copies(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->counts_copies, memory_order_relaxed);
}

/* How many lanes of a pair may match a key before further copies are counted.  At least two,
 * because two keys whose entries match may share the pair. */
static inline unsigned max_lanes_per_key(const struct cuckoo_geometry *g)
{
  return g->shape.lanes < 3 ? g->shape.lanes : 3;
}

/* Records that a copy has taken a lane. */
void tamis__note_copy_in_lane(struct segment *segment);

/* Records that a copy was counted because the search for a lane failed.  After a few such copies,
 * the segment counts copies at once, which saves their searches. */
void tamis__note_copy_without_room(struct cuckoo *c, const struct cuckoo_geometry *g,
                                   struct segment *segment);

/* Whether to fold a segment rather than split it: copies have taken more lanes than false positives
 * would.  (Segments split at about the same time, so a few copies could double a filter's
 * memory.) */
bool tamis__should_fold(const struct cuckoo_geometry *g, const struct segment *segment);

/* Makes a new segment count copies from the start if the filter has many copies. */
void tamis__prepare_copying(const struct cuckoo *c, struct segment *segment);

/* Copies the state of counting to an unpublished segment `to` from a segment that it replaces; `to`
 * takes over 1 / `part` of the lanes of `from`. */
void tamis__inherit_fold_state(const struct segment *from, struct segment *to, unsigned part);

/* Folds a segment.  TAMIS_EFULL, TAMIS_ENOMEM: memory for counts was refused; the entries folded so
 * far stay folded, and a later call may fold the rest.  The caller holds a growth stripe. */
int tamis__fold(struct cuckoo *c, struct generation *generation, struct segment *segment);

#endif
