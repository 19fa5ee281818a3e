/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the life of a segment, and the duplicates that are counted in it.
 */
#ifndef TAMIS_LIB_CUCKOO_SEGMENT_H
#define TAMIS_LIB_CUCKOO_SEGMENT_H

#include "cuckoo/table.h"

/* An empty segment that no other thread knows yet, or NULL with the reason in *result. */
struct segment *tamis__segment_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                      uint64_t prefix, unsigned depth, int *result);

/* Makes a segment of memory that is zero: prepares its stripes. */
void tamis__segment_init(const struct cuckoo_geometry *g, struct segment *segment);

/* Undoes that and releases what belongs to the segment, but not the segment's own memory. */
void tamis__segment_close(struct cuckoo *c, const struct cuckoo_geometry *g,
                          struct segment *segment);

/* Releases a segment that no other thread has ever known, or knows any more.  NULL is fine. */
void tamis__segment_destroy(struct cuckoo *c, const struct cuckoo_geometry *g,
                            struct segment *segment);

/* Takes care of a segment that has left the directory: its memory is released after a grace
 * period. */
void tamis__segment_retire(struct cuckoo *c, const struct cuckoo_geometry *g,
                           struct segment *segment);

/* What the backlog calls for a retired segment after the grace period. */
backlog_release tamis__segment_reclaim;

/* Makes room for `n` more keys in the segment's duplicate table.  The caller holds duplicates_lock,
 * or no other thread knows the segment. */
int tamis__segment_reserve_duplicates(struct cuckoo *c, struct segment *segment, size_t n);

/* By what an entry is known to the duplicate table: the entry and the bucket pair that it belongs
 * to. */
static inline uint64_t duplicates_key(uint32_t lower, uint64_t entry)
{
  return (uint64_t) lower << 32 | entry;
}

/* Counts one more copy of an entry.  The caller holds a stripe of its bucket pair.
 *   TAMIS_EFULL   a limit on memory, or the table would have more than `max` keys */
int tamis__segment_add_duplicate(struct cuckoo *c, struct segment *segment, uint64_t key,
                                 size_t max);

/* Takes one counted copy of an entry out.  False: none was counted.  The caller as above. */
bool tamis__segment_remove_duplicate(struct segment *segment, uint64_t key);

#endif
