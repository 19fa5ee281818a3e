/* SPDX-License-Identifier: MIT
 *
 * Layer 1: a *plane*: a pointer to a table's counts, or NULL while no lane has a count.
 *
 * A filter has a lock for each of its planes.  The caller of these functions must hold the plane's
 * lock, or other locks that exclude all other callers.
 */
#ifndef TAMIS_LIB_TABLE_PLANE_H
#define TAMIS_LIB_TABLE_PLANE_H

#include "table/counts.h"

#include <stdatomic.h>

typedef _Atomic(struct table_counts *) plane;

/* The size of the table that a plane belongs to. */
struct plane_size {
  uint64_t buckets;
  uint32_t lanes;
};

/* Returns the counts, or NULL.  The load is relaxed, like the stores of the pointer, because the
 * plane's lock orders all uses of the struct.
 *
 * A caller that holds only the lock of a bucket may only compare the pointer with NULL.  It is not
 * NULL if a lane of the bucket has a count: the count was set later, under that lock. */
static inline struct table_counts *plane_counts(const plane *p)
{
  return atomic_load_explicit(p, memory_order_relaxed);
}

static inline uint64_t plane_get(const plane *p, uint64_t bucket, unsigned lane)
{
  const struct table_counts *counts = plane_counts(p);
  return counts ? tamis__counts_get(counts, bucket, lane) : 0;
}

/* Adds `more` to a count if no allocation is needed: see tamis__counts_step(). */
static inline bool plane_step(plane *p, uint64_t bucket, unsigned lane, uint64_t more)
{
  struct table_counts *counts = plane_counts(p);
  return counts && tamis__counts_step(counts, bucket, lane, more);
}

/* Sets a lane's count: see tamis__counts_change(). */
bool tamis__plane_set(plane *p, struct plane_size size, const struct counts_memory *memory,
                      uint64_t bucket, unsigned lane, uint64_t count);

/* Sets the counts of all lanes of a block: see tamis__counts_write(). */
bool tamis__plane_write(plane *p, struct plane_size size, const struct counts_memory *memory,
                        unsigned block, const struct counts_source *from, bool spare);

void tamis__plane_clear(plane *p, const struct counts_memory *memory);

#endif
