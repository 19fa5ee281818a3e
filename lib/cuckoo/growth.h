/* SPDX-License-Identifier: MIT
 *
 * Layer 2: grows and shrinks filters, one segment at a time.
 */
#ifndef TAMIS_LIB_CUCKOO_GROWTH_H
#define TAMIS_LIB_CUCKOO_GROWTH_H

#include "cuckoo/directory.h"

/* Makes room for a key whose bucket pair was full, or whose root had no segment, unless another
 * thread has done so.  The caller must hold no stripe, and must not be a reader.  `generations` is
 * the number of generations that the caller has read.  If `for_union`, the room is for an entry of
 * a union: segments of older generations may split, too, but no generation is opened.
 *   TAMIS_OK      the caller must try again
 *   TAMIS_EFULL   a limit is reached
 *   TAMIS_ENOMEM  memory was refused */
int tamis__grow(struct cuckoo *c, const struct bucket_pair *full, unsigned generations,
                bool for_union);

/* Splits the segment at an index until it has this depth, or reaches the split limit.  Reports no
 * failures.  The caller must hold no stripe, and must not be a reader. */
void tamis__split_to(struct cuckoo *c, struct generation *generation, uint64_t index,
                     unsigned depth);

/* Returns true if tamis__shrink() may have something to do, after an entry has left the pair
 * `sparse`.  The caller must be a reader and hold no stripe. */
bool tamis__may_shrink(const struct cuckoo *c, const struct bucket_pair *sparse);

/* Gives memory back: joins the pair's segment with its sibling while the two have few entries, and
 * drops an empty segment unless the filter has one generation.  Puts the work off while the backlog
 * is large.  Reports no failures.  The caller must hold no stripe, and must not be a reader. */
void tamis__shrink(struct cuckoo *c, const struct bucket_pair *sparse);

/* Shrinks all segments of the filter, if shrinking has been put off. */
void tamis__shrink_late(struct cuckoo *c);

#endif
