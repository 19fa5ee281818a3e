/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates, destroys and retires segments; changes their duplicate counts.
 */
#ifndef TAMIS_LIB_CUCKOO_SEGMENT_H
#define TAMIS_LIB_CUCKOO_SEGMENT_H

#include "cuckoo/table.h"
struct image_table;
struct saved_reader;

/* Creates an empty, unpublished segment that has this depth and the directory index `index`, or
 * returns NULL with the reason in *result. */
struct segment *tamis__segment_create(struct cuckoo *c, struct generation *generation,
                                      uint64_t index, unsigned depth, int *result);

/* Checks a segment's words.  Sets used[i] to stripe i's number of lanes in use.  Returns false if an
 * entry is invalid, or older than `most_age`. */
bool tamis__check_words(const struct cuckoo_geometry *g, const uint64_t *words, unsigned most_age,
                        uint32_t used[CUCKOO_FIXED_STRIPES]);

/* Initializes the stripes and the lock of a segment in zeroed memory. */
void tamis__segment_init(const struct cuckoo_geometry *g, struct segment *segment);

/* Undoes tamis__segment_init(), and releases the segment's duplicate counts, but not its memory. */
void tamis__segment_close(struct cuckoo *c, const struct cuckoo_geometry *g,
                          struct segment *segment);

/* Destroys a segment that no other thread uses.  `segment` may be NULL. */
void tamis__segment_destroy(struct cuckoo *c, const struct cuckoo_geometry *g,
                            struct segment *segment);

/* Retires a segment that has left the directory: its memory is released after a grace period. */
void tamis__segment_retire(struct cuckoo *c, const struct cuckoo_geometry *g,
                           struct segment *segment);

/* Releases a retired segment; the backlog calls this after the grace period. */
void tamis__segment_reclaim(void *owner, struct retired *block, uint64_t size);

/* Whether a call waits for a stripe of a retired segment. */
bool tamis__segment_in_use(const struct retired *block);

/* ---- waiting for stripes ----
 *
 * The holder of a stripe may be in the user's allocator, for any time.  To wait for the stripe in a
 * read section would delay grace periods.  So a call increments segment->waiting, leaves its read
 * section to wait, and enters it again when it has the stripe.  Until the call decrements the
 * number, the segment is not released.  A segment cannot leave the directory while a call holds one
 * of its stripes, because a writer must take them all before.  So a call that has its stripes may
 * also leave its read section to allocate memory.  Whenever a call leaves its read section, it must
 * not use other segments that it found before. */

/* Waits for a lock and takes it.  If the caller is `inside` a read section, leaves it meanwhile. */
void tamis__wait_outside(struct lock *lock, bool inside);

/* Takes duplicates_lock.  The caller must hold a stripe of the segment. */
static inline void segment_lock_counts(struct segment *segment, bool inside)
{
  if (!lock_try(&segment->duplicates_lock))
    tamis__wait_outside(&segment->duplicates_lock, inside);
}

/* ---- duplicate counts ----
 *
 * The caller must hold the stripes of the buckets, unless the segment is not published.  If the
 * caller is in a read section (`inside`), these functions leave it to change a count that needs
 * memory.  If memory is refused, they change nothing and return
 *   TAMIS_EFULL   max_bytes is reached
 *   TAMIS_ENOMEM  the allocator refuses */

struct lane {
  uint64_t bucket;
  unsigned lane;
};

/* Adds `n` to the count of copies of the entry in a lane.  `n` may be negative (modulo 2^64), which
 * needs no memory.  Returns TAMIS_ABSENT if the count would become negative. */
int tamis__segment_add_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                              struct segment *segment, struct lane lane, uint64_t n, bool inside);

/* Calls tamis__image_load_plane() for an unpublished segment.  If it is NULL, only checks. */
int tamis__segment_load_copies(struct cuckoo *c, struct segment *segment, struct saved_reader *r,
                               struct image_table *table, bool spare, uint64_t *copies);

/* Adds the count of lane `from`, and `more`, to the count of lane `to`.  Clears that of `from`. */
int tamis__segment_move_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                               struct segment *segment, struct lane from, struct lane to,
                               uint64_t more, bool inside);

/* The number of bytes of a copy of all counts.  The caller must not hold duplicates_lock. */
uint64_t tamis__segment_counts_bytes(struct segment *segment);

/* Returns the count of copies of a lane. */
static inline uint64_t segment_copies(const struct segment *segment, struct lane lane)
{
  return plane_get(&segment->duplicates, lane.bucket, lane.lane);
}

/* ---- filling unpublished segments: fill.c ---- */

/* Fills the two empty children of a split with the parent's entries and their counts of copies.
 * Child i gets the entries whose next fingerprint bit, or class, is i.  The caller must hold
 * all stripes of the parent, and must destroy the children after an error.
 *   Errors  TAMIS_EFULL, TAMIS_ENOMEM: memory for counts was refused; NO_ROOM: the entries do not
 *           fit in a child with wider lanes */
int tamis__fill_split(struct cuckoo *c, const struct generation *generation, struct segment *parent,
                      struct segment *child[2]);

/* Fills an empty segment with the entries of its two children.  The caller must hold all
 * stripes of both children.  Returns false if there is no room, or memory for counts is refused. */
bool tamis__fill_joined(struct cuckoo *c, const struct generation *generation,
                        struct segment *child[2], struct segment *parent);

#endif
