/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the duplicate counts of a table.  A lane's count is the number of copies of its entry in
 * addition to the one in the lane.  A lane whose count is 0 has no count.
 *
 *    struct table_counts ──► block 0    the counts of 256 buckets
 *                            block 1    NULL: no lane has a count ...
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
 *
 * The caller must serialize the calls.
 */
#ifndef TAMIS_LIB_TABLE_COUNTS_H
#define TAMIS_LIB_TABLE_COUNTS_H

#include "base/compiler.h"

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

/* The caller's allocator.  allocate() returns zeroed memory, or NULL if it refuses.  fits(), which
 * may be NULL, returns false if allocate() would refuse this size now. */
struct counts_memory {
  bool (*fits)(void *context, uint64_t size);
  void *(*allocate)(void *context, uint64_t size);
  void (*release)(void *context, void *block, uint64_t size);
  void *context;
};

/* The size in bytes of a struct table_counts without its blocks. */
uint64_t tamis__counts_bytes(uint64_t buckets);

/* Initializes *d in zeroed memory. */
void tamis__counts_init(struct table_counts *d, uint64_t buckets, uint32_t lanes);

void tamis__counts_clear(struct table_counts *d, const struct counts_memory *memory);

uint64_t tamis__counts_get(const struct table_counts *d, uint64_t bucket, unsigned lane);

/* Changes the count of a lane from `from` to `to`.  `to` must be below 2^53.  Returns false, and
 * changes nothing, if memory was refused.  If `to` is below `from`, no memory is needed. */
bool tamis__counts_change(struct table_counts *d, const struct counts_memory *memory,
                          uint64_t bucket, unsigned lane, uint64_t from, uint64_t to);

/* Adds `more`, modulo 2^64, to the count of a lane if the sum fits into the lane's code or
 * exception, or the lane has no count and the sum has a code.  Otherwise only returns false. */
bool tamis__counts_step(struct table_counts *d, uint64_t bucket, unsigned lane, uint64_t more);

unsigned tamis__counts_blocks(const struct table_counts *d);

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

/* Encodes a block.  `spare`: with room for more exceptions.  Returns false, and changes nothing, if
 * memory was refused. */
bool tamis__counts_write(struct table_counts *d, const struct counts_memory *memory, unsigned block,
                         const struct counts_source *from, bool spare);

/* tamis__counts_copy_bytes() returns the size of a read-only copy of *d and its blocks, in bytes.
 * tamis__counts_copy() makes the copy in `to`. */
uint64_t tamis__counts_copy_bytes(const struct table_counts *d);
void tamis__counts_copy(const struct table_counts *d, struct table_counts *to);

#endif
