/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the life of a segment, and the duplicates that are counted in it.
 */
#ifndef TAMIS_LIB_CUCKOO_SEGMENT_H
#define TAMIS_LIB_CUCKOO_SEGMENT_H

#include "cuckoo/table.h"

/* An empty segment that no other thread knows yet, for the part of the directory of this depth to
 * which an index leads; or NULL with the reason in *result. */
struct segment *tamis__segment_create(struct cuckoo *c, struct generation *generation,
                                      uint64_t index, unsigned depth, int *result);

/* The same, but the caller must write every bucket: they have no value yet. */
struct segment *tamis__segment_create_unfilled(struct cuckoo *c, struct generation *generation,
                                               uint64_t index, unsigned depth, int *result);

/* Touches the pages of such a segment, for a caller that will hold stripes when it writes. */
void tamis__segment_touch(const struct cuckoo_geometry *g, struct segment *segment);

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
void tamis__segment_reclaim(void *owner, struct retired *block, uint64_t size);

/* Whether a call waits for one of its stripes. */
bool tamis__segment_in_use(const struct retired *block);

/* ---- waiting for stripes ----
 *
 * Who holds a stripe may be in the user's allocator, so nobody waits for one in a read section.  A
 * call that must wait says so in the segment, leaves its read section, and enters it again when it
 * has the stripe.  Meanwhile a segment that it waits for is not released, and those that it holds
 * stripes of cannot leave the directory, as that takes all their stripes.  A call that has the
 * stripes may likewise leave its read section for a while, for memory: what it holds stripes of is
 * in the directory when it comes back.  The call must use no other segments that it has found
 * before. */

/* Takes the lock of the counts.  The caller holds a stripe of the segment. */
void tamis__segment_wait_for_counts(struct segment *segment, bool inside);
static inline void segment_lock_counts(struct segment *segment, bool inside)
{
  if (!lock_try(&segment->duplicates_lock))
    tamis__segment_wait_for_counts(segment, inside);
}

/* ---- duplicate counts ----
 *
 * The caller holds the stripes of the buckets named, or no other thread knows the segment.  Where a
 * count changes, the call leaves the read section that the caller is in (`inside`), as above, and
 * memory may be refused; then nothing has changed, and the result is
 *   TAMIS_EFULL   max_bytes is reached
 *   TAMIS_ENOMEM  the allocator refuses */

struct lane {
  uint64_t bucket;
  unsigned lane;
};

/* Counts `n` more copies of the entry in a lane. */
int tamis__segment_add_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                              struct segment *segment, struct lane lane, uint64_t n, bool inside);

/* Takes one counted copy of the entry in a lane out.  TAMIS_ABSENT: none is counted. */
int tamis__segment_remove_copy(struct cuckoo *c, const struct cuckoo_geometry *g,
                               struct segment *segment, struct lane lane);

/* Gives lanes of 256 buckets, from a multiple of 256 on, their counts, as in
 * tamis__counts_write().  No other thread knows the segment. */
int tamis__segment_set_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                              struct segment *segment, uint32_t first_bucket,
                              const uint64_t counts[COUNTS_POSITIONS], bool spare);

/* Adds the count of one lane, and `more`, to that of another.  The first one then has none. */
int tamis__segment_move_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                               struct segment *segment, struct lane from, struct lane to,
                               uint64_t more, bool inside);

/* The bytes of all counts.  The caller holds no duplicates lock. */
uint64_t tamis__segment_counts_bytes(struct segment *segment);

/* The count of a lane. */
uint64_t tamis__segment_copies(const struct segment *segment, struct lane lane);

/* Gives a segment that no other thread knows the counts of another one, for those lanes that it has
 * entries in.  The caller holds all stripes of the other one. */
int tamis__segment_inherit_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                                  const struct segment *from, struct segment *to);

#endif
