/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a change of the directory by one call, which holds growth stripes meanwhile.
 */
#ifndef TAMIS_LIB_CUCKOO_CHANGE_H
#define TAMIS_LIB_CUCKOO_CHANGE_H

#include "cuckoo/directory.h"

struct change {
  struct cuckoo *c;
  struct generation *generation;
  uint64_t index; /* an index of the segment or root that changes */
  struct growth_stripes held;
  /* The blocks that have left the directory: a list of segments (retired.next), and an array. */
  struct retired *segments;
  struct directory_array *array;
  unsigned bits;  /* the k of this array (directory.h) */
  uint32_t rooms; /* c->rooms before the change, plus the change's own additions: a full mark with
                     this number is valid until another call adds to c->rooms */
};

/* Takes the growth stripes of the segment that has this depth and index.  For depth 0, takes all
 * growth stripes of the root.  The caller must hold no stripe, and must not be a reader. */
struct change tamis__change_begin(struct cuckoo *c, struct generation *generation, uint64_t index,
                                  unsigned depth);

/* Releases the growth stripes, and retires the blocks of the change.  May pause the thread. */
void tamis__change_end(const struct change *change);

/* The segment at the index, or NULL if the root has none.  It stays alive until the change ends. */
static inline struct segment *change_segment(const struct change *change)
{
  return directory_segment(directory_at(change->generation, change->index));
}

/* Marks a segment as having left the directory.  For this function and the next ones, the caller
 * must hold all stripes of the segments that leave. */
void tamis__change_leaves(struct change *change, struct segment *segment);

/* Makes the root lead to a segment of depth 0, or to an array, or to nothing (NULL). */
void tamis__change_root(struct change *change, directory_value value);

/* Replaces a segment by its children.  `larger` is the new array, if the children need one. */
void tamis__change_to_children(struct change *change, struct segment *child[2],
                               struct directory_array *larger);

/* Replaces siblings by their parent. */
void tamis__change_to_parent(struct change *change, struct segment *parent);

/* The k of the larger array that a split of a segment of this depth needs; 0: it needs none. */
unsigned tamis__change_needs_array(const struct change *change, unsigned depth);

/* Creates a copy of the root's array with k = `bits`, or returns NULL with the reason in *result.
 * For this and for tamis__change_halve(), the change must hold all growth stripes of the root. */
struct directory_array *tamis__change_resized_array(const struct change *change, unsigned bits,
                                                    int *result);

/* Adds 1 to *figure for a split (`direction` 1) or a join (-1), and updates the numbers of
 * segments.  `depth` is the depth of the children. */
void tamis__change_count(const struct change *change, _Atomic uint64_t *figure, unsigned depth,
                         int direction);

/* Replaces the array by one of half the size.  Returns false if a segment needs the present size,
 * if the array has the smallest size, or if memory was refused. */
bool tamis__change_halve(struct change *change);

#endif
