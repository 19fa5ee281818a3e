/* SPDX-License-Identifier: MIT
 *
 * Layer 2: room in a full bucket pair.
 */
#ifndef TAMIS_LIB_CUCKOO_EVICT_H
#define TAMIS_LIB_CUCKOO_EVICT_H

#include "cuckoo/directory.h"

/* Moves entries along a cuckoo path until one of the two buckets has a free lane.  It takes two
 * stripes at a time.  The caller holds none.  It is in a read section (`inside`), or no other
 * thread knows the segment.
 *   TAMIS_OK      there was a path, and unless another thread was faster, there is room now; or the
 *                 segment is leaving the directory, and must not be touched any more
 *   TAMIS_ABSENT  there is no path, or the segment is marked as having none
 *   TAMIS_EFULL, TAMIS_ENOMEM
 *                 an entry could not be moved, as there is no memory to count its copies in its new
 *                 lane */
int tamis__evict(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *segment,
                 uint64_t lower, uint64_t upper, bool inside);

/* Whether there is a cuckoo path at the moment. */
bool tamis__path_exists(const struct cuckoo_geometry *g, const struct segment *segment,
                        uint64_t lower, uint64_t upper);

#endif
