/* SPDX-License-Identifier: MIT
 *
 * Layer 2: grows and shrinks filters, one segment at a time.
 */
#ifndef TAMIS_LIB_CUCKOO_GROWTH_H
#define TAMIS_LIB_CUCKOO_GROWTH_H

#include "cuckoo/directory.h"

/* Makes room for a key whose bucket pair was full, or whose root had no segment, unless another
 * thread has done so.  `generations` is the number of generations that the caller has read.  If
 * `for_union`, the room is for an entry of a union: segments of older generations may split, too,
 * but no generation is opened.  The caller must hold no stripe, and must not be a reader.
 *   TAMIS_OK      the caller must try again
 *   TAMIS_EFULL   a limit is reached
 *   TAMIS_ENOMEM  memory was refused */
int tamis__grow(struct cuckoo *c, const struct bucket_pair *full, unsigned generations,
                bool for_union);

/* Splits the segment at a directory index until it has this depth, or a limit is reached.  Reports
 * no failures.  The caller must hold no stripe, and must not be a reader. */
void tamis__split_to(struct cuckoo *c, struct generation *generation, uint64_t index,
                     unsigned depth);

/* Whether tamis__shrink() may have something to do after an entry has left the pair `sparse`.  The
 * caller must be a reader and hold no stripe. */
bool tamis__may_shrink(const struct cuckoo *c, const struct bucket_pair *sparse);

/* Gives memory back: joins the segment at an index with its sibling while the two have few entries,
 * and drops an empty segment unless the filter has one generation.  Puts the work off while the
 * backlog is large.  Reports no failures.  The caller must hold no stripe and not be a reader. */
void tamis__shrink(struct cuckoo *c, struct generation *generation, uint64_t index);

/* Shrinks all segments of the filter, if tamis__shrink() has put work off. */
void tamis__shrink_late(struct cuckoo *c);

/* ---- for growth.c and shrink.c: a change of the directory ---- */

/* A change holds growth stripes from tamis__change_begin() to tamis__change_end().  A function that
 * replaces a root's segment or array, or joins segments, requires all growth stripes of the root.
 * Other functions require the growth stripes of the segment. */
struct change {
  struct cuckoo *c;
  struct generation *generation;
  uint64_t index; /* a directory index of the segment or root that changes */
  struct growth_stripes held;
  /* The blocks that have left the directory: a list of segments (retired.next), and an array. */
  struct retired *segments;
  struct directory_array *array;
  unsigned bits;  /* the k of `array` (directory.h) */
  uint32_t rooms; /* for full marks: c->rooms at the beginning, plus the change's additions */
};

/* Takes the growth stripes of the segment that has this depth and index (for depth 0, all growth
 * stripes of the root).  The caller must hold no stripe, and must not be a reader. */
struct change tamis__change_begin(struct cuckoo *c, struct generation *generation, uint64_t index,
                                  unsigned depth);

/* Releases the growth stripes, and retires the blocks of the change.  May pause the thread. */
void tamis__change_end(const struct change *change);

/* The segment at change->index, or NULL if the root has none.  It lives until the change ends. */
static inline struct segment *change_segment(const struct change *change)
{
  return directory_segment(directory_at(change->generation, change->index));
}

/* The root's array, or NULL.  Sets *bits to the k of the array (directory.h), or to 0. */
static inline struct directory_array *change_array(const struct change *change, unsigned *bits)
{
  return directory_array_of(directory_load(root_entry(change->generation, change->index)), bits);
}

/* Marks a segment as having left the directory.  For this function and the next one, the caller
 * must hold all stripes of the segments that leave. */
void tamis__change_leaves(struct change *change, struct segment *segment);

/* Makes the root lead to a segment of depth 0, or to an array, or to nothing (NULL). */
void tamis__change_root(struct change *change, directory_value value);

/* Returns a copy of the root's array, with 2 * 2^bits entries, or NULL with *result. */
struct directory_array *tamis__change_resized_array(const struct change *change, unsigned bits,
                                                    int *result);

/* Adds 1 to *figure, the number of splits or of joins, and updates the numbers of segments.
 * `direction` is 1 for a split, -1 for a join.  `depth` is the depth of the children. */
void tamis__change_count(const struct change *change, _Atomic uint64_t *figure, unsigned depth,
                         int direction);

#endif
