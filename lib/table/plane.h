/* SPDX-License-Identifier: MIT
 *
 * Layer 1: a *plane*: the counts of a table, as an object that is there only while a lane has a
 * count.
 *
 * The owner has a lock for each plane, and holds it when it calls these functions, or other locks
 * that keep all calls away from the plane.
 */
#ifndef TAMIS_LIB_TABLE_PLANE_H
#define TAMIS_LIB_TABLE_PLANE_H

#include "table/counts.h"

#include <stdatomic.h>

/* NULL: no lane has a count. */
typedef _Atomic(struct table_counts *) plane;

/* The table that a plane belongs to. */
struct plane_size {
  uint64_t buckets;
  uint32_t lanes; /* of a bucket */
};

/* Relaxed, like the stores of the pointer: the lock orders whoever uses what it points to.
 *
 * Who holds the lock of a bucket may ask without the plane's lock whether there are counts at all.
 * If a lane of the bucket has a count, the answer is true: the object came before that count, which
 * was set under the same lock, and it stays while the lane has one. */
static inline struct table_counts *plane_counts(const plane *p)
{
  return atomic_load_explicit(p, memory_order_relaxed);
}

/* The count of a lane; 0: it has none. */
static inline uint64_t plane_get(const plane *p, uint64_t bucket, unsigned lane)
{
  const struct table_counts *counts = plane_counts(p);
  return counts ? tamis__counts_get(counts, bucket, lane) : 0;
}

/* Adds to a count, where that is simple: see tamis__counts_step(). */
static inline bool plane_step(plane *p, uint64_t bucket, unsigned lane, uint64_t more)
{
  struct table_counts *counts = plane_counts(p);
  return counts && tamis__counts_step(counts, bucket, lane, more);
}

/* Gives a lane another count, below 2^53.  False: memory was refused, and nothing has changed.  A
 * lower count needs no memory. */
bool tamis__plane_set(plane *p, struct plane_size size, const struct counts_memory *memory,
                      uint64_t bucket, unsigned lane, uint64_t count);

/* Gives all lanes of a block their counts: see tamis__counts_write(). */
bool tamis__plane_write(plane *p, struct plane_size size, const struct counts_memory *memory,
                        unsigned block, const struct counts_source *from, bool spare);

/* Encodes a block anew, so that it takes as little memory as it can. */
void tamis__plane_shrink(plane *p, const struct counts_memory *memory, unsigned block);

/* Releases all counts: no lane has one any more. */
void tamis__plane_clear(plane *p, const struct counts_memory *memory);

#endif
