/* SPDX-License-Identifier: MIT
 *
 * Layer 2: makes room in a full bucket pair.
 */
#ifndef TAMIS_LIB_CUCKOO_EVICT_H
#define TAMIS_LIB_CUCKOO_EVICT_H

#include "cuckoo/directory.h"

/* Moves entries along a cuckoo path until one of the two buckets has a free lane.  True: there was
 * a path, and unless another thread was faster, there is room now; or the segment is leaving the
 * directory.  False: there is no path.  It takes two stripes at a time.  The caller holds none, and
 * keeps the segment's memory from being released. */
bool tamis__evict(const struct cuckoo_geometry *g, struct segment *segment, uint32_t lower,
                  uint32_t upper);

/* Whether there is a cuckoo path at the moment. */
bool tamis__path_exists(const struct cuckoo_geometry *g, const struct segment *segment,
                        uint32_t lower, uint32_t upper);

/* Makes room where there is no path: in each bucket that an eviction would try, all but one of the
 * equal entries become counted duplicates.  TAMIS_EFULL: there are none, or max_bytes is reached;
 * TAMIS_ENOMEM.  The caller holds no stripe, and keeps the segment in the directory. */
int tamis__fold_duplicates(struct cuckoo *c, const struct bucket_pair *full);

#endif
