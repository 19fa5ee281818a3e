/* SPDX-License-Identifier: MIT
 *
 * Layer 2: makes room in a full bucket pair.
 */
#ifndef TAMIS_LIB_CUCKOO_EVICT_H
#define TAMIS_LIB_CUCKOO_EVICT_H

#include "cuckoo/directory.h"
#include "table/put.h"

/* Moves entries along a cuckoo path until one of the two buckets has a free lane.  Each move takes
 * two stripes.  The caller must hold no stripe.  If the segment is published, the caller must be in
 * a read section, and `inside` must be true.
 *   TAMIS_OK      there was a path, and now there is room, unless another thread has filled it; or
 *                 the segment has left the directory, and must not be touched again
 *   TAMIS_ABSENT  there is no path, or the segment is marked NO_PATH or FULL
 *   TAMIS_EFULL, TAMIS_ENOMEM
 *                 memory for the copies of an entry in its new lane was refused */
int tamis__evict(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *segment,
                 uint64_t lower, uint64_t upper, bool inside);

/* Calls tamis__evict() for a pair of a published segment.  Sets *no_path to true if it returns
 * TAMIS_ABSENT, otherwise to false.  Returns RETRY or, if memory was refused, the error. */
static inline int evict_for(struct cuckoo *c, const struct bucket_pair *pair, bool *no_path)
{
  int evicted = tamis__evict(c, pair->geometry, pair->segment, pair->lower, pair->upper, true);
  *no_path = evicted == TAMIS_ABSENT;
  return evicted < 0 ? evicted : RETRY;
}

/* Returns true if a cuckoo path leads from one of the two buckets to a free lane now. */
bool tamis__path_exists(const struct cuckoo_geometry *g, const struct segment *segment,
                        uint64_t lower, uint64_t upper);

#endif
