/* SPDX-License-Identifier: MIT
 *
 * Layer 2: growing and shrinking, one segment at a time.
 */
#ifndef TAMIS_LIB_CUCKOO_GROWTH_H
#define TAMIS_LIB_CUCKOO_GROWTH_H

#include "cuckoo/directory.h"

/* Makes room for a key whose bucket pair had none, or no segment, unless another thread has done
 * so.  The caller holds no stripe and is not a reader.  `generations`: their number as the caller
 * knows it.  `for_union`: the key is that of an entry of a union, for which segments of older
 * generations may split, too, but no generation is opened.
 *   TAMIS_OK      try again
 *   TAMIS_EFULL   a limit is reached
 *   TAMIS_ENOMEM  memory was refused */
int tamis__grow(struct cuckoo *c, const struct bucket_pair *full, unsigned generations,
                bool for_union);

/* Splits the segment of a directory entry until it has this depth, or its limit.  A failure is
 * silent.  The caller is as for tamis__grow(). */
void tamis__split_to(struct cuckoo *c, struct generation *generation, uint64_t index,
                     unsigned depth);

/* Whether tamis__shrink() might have something to do, now that an entry has left a segment.  The
 * caller is a reader and holds no stripe. */
bool tamis__may_shrink(const struct cuckoo *c, const struct bucket_pair *sparse);

/* Gives memory back: joins a segment with its sibling while both together are small, and drops it
 * when it is empty, unless the filter has one generation.  The caller holds no stripe and is not a
 * reader.  A failure is silent, because nothing depends on it.  While much waits for readers, it is
 * put off. */
void tamis__shrink(struct cuckoo *c, const struct bucket_pair *sparse);

/* The same for all segments, if it has been put off. */
void tamis__shrink_late(struct cuckoo *c);

#endif
