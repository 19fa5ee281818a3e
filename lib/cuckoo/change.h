/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a change of the directory, which one call makes under growth stripes.
 */
#ifndef TAMIS_LIB_CUCKOO_CHANGE_H
#define TAMIS_LIB_CUCKOO_CHANGE_H

#include "cuckoo/directory.h"

struct change {
  struct cuckoo *c;
  struct generation *generation;
  uint64_t index; /* to which the change leads */
  struct growth_stripes held;
  /* What has left the directory: segments, chained by retired.next, and an array with its k. */
  struct retired *segments;
  struct directory_array *array;
  unsigned bits;
  uint32_t rooms; /* c->rooms before the change, plus what the change itself has added: a mark with
                     this number holds until others add to c->rooms */
};

/* Takes the growth stripes of the segment of depth `depth` to which an index leads; for 0, those of
 * the root.  The caller holds no stripe and is not a reader. */
struct change tamis__change_begin(struct cuckoo *c, struct generation *generation, uint64_t index,
                                  unsigned depth);

/* Releases the stripes, and retires what has left.  It may pause. */
void tamis__change_end(const struct change *change);

/* What the index leads to; NULL: the root has no segment.  It stays until the change ends. */
static inline struct segment *change_segment(const struct change *change)
{
  return directory_segment(directory_at(change->generation, change->index));
}

/* Whether the change may alter the directory: the filter has what its growth needs. */
static inline bool change_has_growth(const struct change *change)
{
  return change->held.first != NULL;
}

/* Marks a segment as having left.  The caller holds all its stripes; and in what follows, those of
 * the segments that leave. */
void tamis__change_leaves(struct change *change, struct segment *segment);

/* A root leads to a segment of depth 0, or to none. */
void tamis__change_root(struct change *change, directory_value value);

/* A segment is replaced by its children.  `larger`: the array that this needs. */
void tamis__change_to_children(struct change *change, const struct segment *parent,
                               struct segment *child[2], struct directory_array *larger);

/* Siblings are replaced by their parent. */
void tamis__change_to_parent(struct change *change, struct segment *parent,
                             struct segment *child[2]);

/* The k of the array that a split of a segment of this depth needs; 0: there is one. */
unsigned tamis__change_needs_array(const struct change *change, unsigned depth);

/* The array that such a split needs, with the entries that there are.  NULL: *result says why.  The
 * change holds all growth stripes of the root; so with the next. */
struct directory_array *tamis__change_larger_array(const struct change *change, unsigned bits,
                                                   int *result);

/* Counts a split or a join in `figure`, and the segments: those that come of a depth, less those of
 * the depth above (1), or the other way round (-1). */
void tamis__change_count(const struct change *change, _Atomic uint64_t *figure, unsigned depth,
                         int direction);

/* Replaces an array of which nothing needs the size by one of half of it.  False: there is none, or
 * no memory for that. */
bool tamis__change_halve(struct change *change);

#endif
