/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the duplicate counts of a table.  A lane's count is the number of copies of its entry in
 * addition to the one in the lane.  A lane whose count is 0 has no count.
 *
 *    plane ──► struct table_counts ──► block 0    the counts of 256 buckets
 *                                      block 1    NULL: no lane has a count ...
 *
 * A *plane* is a pointer to the counts, or NULL while no lane has a count.  A filter has a lock for
 * each of its planes.  The caller of the functions below must hold the plane's lock, or other locks
 * that exclude all other callers.
 *
 * The counts in a table are mostly similar: if each key is added twice, all counts are 1.  So a
 * block has a code of a few bits for each lane:
 *
 *    code 0         the lane has no count, or its count is an exception
 *    code c         the lane's count is c
 *    exceptions     the counts that have no code, sorted by lane
 *
 * Codes have the width with which the block takes the fewest bytes.  A block with few counts has a
 * width of 0: it has no codes, only exceptions.  A block is encoded again when another exception
 * does not fit, and after many changes.  A lower count needs no more bytes.
 */
#ifndef TAMIS_LIB_TABLE_COUNTS_H
#define TAMIS_LIB_TABLE_COUNTS_H

#include "base/compiler.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  COUNTS_BUCKETS = SMALL(256, 2), /* the number of buckets that share a block */
  COUNTS_MAX_LANES = 8,
  COUNTS_POSITIONS = COUNTS_BUCKETS * COUNTS_MAX_LANES
};

struct count_block;

struct table_counts {
  uint64_t buckets; /* the number of buckets in the table */
  uint64_t live;    /* the number of lanes that have a count */
  uint32_t lanes;   /* the number of lanes in a bucket */
  struct count_block *block[];
};

typedef _Atomic(struct table_counts *) plane;

/* The size of the table that a plane belongs to. */
struct plane_size {
  uint64_t buckets;
  uint32_t lanes;
};

static inline unsigned counts_blocks(uint64_t buckets)
{
  return (unsigned) ((buckets + COUNTS_BUCKETS - 1) / COUNTS_BUCKETS);
}

/* The number of lanes in a block. */
static inline size_t counts_positions(const struct table_counts *d)
{
  size_t buckets = d->buckets < COUNTS_BUCKETS ? (size_t) d->buckets : COUNTS_BUCKETS;
  return buckets * d->lanes;
}

/* The counts to encode in a block, which the encoder reads a few at a time, to save stack.  The
 * count of lane l of bucket b has index b * lanes + l. */
struct counts_source {
  /* all counts, by index; NULL: the counts are in the other members */
  const uint64_t *array;
  /* the block to read the counts from, which may be another table's; NULL: all counts are 0 */
  const struct count_block *block;
  const uint64_t *count; /* replaces the count that `block` has at index `at`; may be NULL */
  size_t at;
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

uint64_t tamis__counts_get(const struct table_counts *d, uint64_t bucket, unsigned lane);

static inline uint64_t plane_get(const plane *p, uint64_t bucket, unsigned lane)
{
  const struct table_counts *counts = plane_counts(p);
  return counts ? tamis__counts_get(counts, bucket, lane) : 0;
}

/* Adds `more`, modulo 2^64, to the count of a lane if the sum fits into the lane's code or
 * exception, or the lane has no count and the sum has a code.  Otherwise only returns false. */
bool tamis__plane_step(plane *p, uint64_t bucket, unsigned lane, uint64_t more);

/* Sets the count of a lane, which must be below 2^53.  Returns false, and changes nothing, if memory
 * was refused.  A lower count needs no memory. */
bool tamis__plane_set(plane *p, struct plane_size size, struct budget *budget, uint64_t bucket,
                      unsigned lane, uint64_t count);

/* Sets the counts of all lanes of a block.  `spare`: with room for more exceptions.  Returns false,
 * and changes nothing, if memory was refused. */
bool tamis__plane_write(plane *p, struct plane_size size, struct budget *budget, unsigned block,
                        const struct counts_source *from, bool spare);

void tamis__plane_clear(plane *p, struct budget *budget);

/* tamis__counts_copy_bytes() returns the size of a read-only copy of *d and its blocks, in bytes.
 * tamis__counts_copy() makes the copy in `to`. */
uint64_t tamis__counts_copy_bytes(const struct table_counts *d);
void tamis__counts_copy(const struct table_counts *d, struct table_counts *to);

#endif
