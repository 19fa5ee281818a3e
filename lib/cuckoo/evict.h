/* SPDX-License-Identifier: MIT
 *
 * Layer 2: makes room in a full bucket pair.
 */
#ifndef TAMIS_LIB_CUCKOO_EVICT_H
#define TAMIS_LIB_CUCKOO_EVICT_H

#include "cuckoo/directory.h"
#include "table/put.h"

/* Moves entries along a cuckoo path until one of the two buckets has a free lane.  Each move takes
 * two stripes.  The caller holds no stripe.  It is in a read section (`inside`), unless the segment
 * is not published yet.
 *   TAMIS_OK      there was a path, and now there is room, unless another thread has filled it; or
 *                 the segment has left the directory, and must not be touched again
 *   TAMIS_ABSENT  there is no path, or the segment is marked NO_PATH or FULL
 *   TAMIS_EFULL, TAMIS_ENOMEM
 *                 memory for the copies of an entry in its new lane was refused */
int tamis__evict(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *segment,
                 uint64_t lower, uint64_t upper, bool inside);

/* Does the same for a pair of a published segment, and sets *no_path to whether there was no path.
 * Returns RETRY or, if memory was refused, the reason. */
static inline int evict_for(struct cuckoo *c, const struct bucket_pair *pair, bool *no_path)
{
  int evicted = tamis__evict(c, pair->geometry, pair->segment, pair->lower, pair->upper, true);
  *no_path = evicted == TAMIS_ABSENT;
  return evicted < 0 ? evicted : RETRY;
}

/* Whether a cuckoo path exists now. */
bool tamis__path_exists(const struct cuckoo_geometry *g, const struct segment *segment,
                        uint64_t lower, uint64_t upper);

#endif
