/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the counts of a table, lane by lane.  A count says how many copies of the entry in a lane
 * there are beyond the one that stands there: a duplicate count.
 *
 *    struct table_counts ──► block 0    the counts of 256 buckets
 *                            block 1    NULL: none of its lanes has a count
 *                            ...
 *
 * Keys that come twice, or a thousand times, mostly have similar counts.  So a block has a code of a
 * few bits for each lane, and
 *
 *    code 0         no count, or one that is an exception
 *    code c         the count c
 *    exceptions     counts that have no code, in order of their lanes
 *
 * The width of the codes is chosen for the counts that there are (choose_frame() in counts.c).
 * With codes of no bits, a block is a list of exceptions, as befits a few counts.  When no further
 * exception fits, and from time to time, a block is encoded anew.
 *
 * A count that falls needs no more room than before: so a remove never needs memory.
 *
 * Nothing here knows of threads, and memory comes from functions of the owner's.
 */
#ifndef TAMIS_LIB_TABLE_COUNTS_H
#define TAMIS_LIB_TABLE_COUNTS_H

#include "base/small.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  COUNTS_BUCKETS = SMALL(256, 2), /* of a block */
  COUNTS_MAX_LANES = 8,
  COUNTS_POSITIONS = COUNTS_BUCKETS * COUNTS_MAX_LANES
};

struct count_block;

struct table_counts {
  uint64_t buckets; /* of the table */
  uint64_t live;    /* lanes with a count */
  uint32_t lanes;   /* of a bucket */
  struct count_block *block[];
};

/* Where blocks come from: zeroed memory, or NULL.  What does not fit is refused in any case; `fits`
 * may be NULL, if that cannot be said beforehand. */
struct counts_memory {
  bool (*fits)(void *context, uint64_t size);
  void *(*allocate)(void *context, uint64_t size);
  void (*release)(void *context, void *block, uint64_t size);
  void *context;
};

/* The size of the object for a segment, without its blocks. */
uint64_t tamis__counts_bytes(uint64_t buckets);

/* Makes an object without counts of zeroed memory of that size. */
void tamis__counts_init(struct table_counts *d, uint64_t buckets, uint32_t lanes);

/* Releases all blocks: no lane has a count any more. */
void tamis__counts_clear(struct table_counts *d, const struct counts_memory *memory);

/* The count of a lane; 0: it has none. */
uint64_t tamis__counts_get(const struct table_counts *d, uint64_t bucket, unsigned lane);

/* Gives a lane another count, below 2^53, instead of the one that it has, `from`.  False: memory was
 * refused, and nothing has changed.  A lower count needs no memory. */
bool tamis__counts_change(struct table_counts *d, const struct counts_memory *memory,
                          uint64_t bucket, unsigned lane, uint64_t from, uint64_t to);

/* Adds to the count of a lane, modulo 2^64, where that is simple: the sum has a code, and so has the
 * old count, or it is seen at once to be 0.  False: it is not, and nothing has changed. */
bool tamis__counts_step(struct table_counts *d, uint64_t bucket, unsigned lane, uint64_t more);

unsigned tamis__counts_blocks(const struct table_counts *d);

/* How many lanes a block has. */
static inline size_t counts_positions(const struct table_counts *d)
{
  size_t buckets = d->buckets < COUNTS_BUCKETS ? (size_t) d->buckets : COUNTS_BUCKETS;
  return buckets * d->lanes;
}

/* Where the counts that a block is to have come from.  They are read a few at a time, as a call on keys
 * has no room for all of them on a small stack.  The index of a lane of the block's bucket b is
 * b * lanes + lane. */
struct counts_source {
  /* NULL, or all counts, by index; then nothing else is read. */
  const uint64_t *array;
  /* NULL: all counts are 0; or a block, of this object or of another one, whose counts they are, but for
   * two changes: */
  const struct count_block *block;
  const uint64_t *kept;  /* NULL, or a bit for each lane; the counts of lanes without it become 0 */
  const uint64_t *count; /* NULL, or the count of the lane with the index `at` */
  size_t at;
};

static inline struct counts_source counts_of_array(const uint64_t counts[COUNTS_POSITIONS])
{
  return (struct counts_source){.array = counts};
}

/* Encodes a block.  `spare`: with room for further exceptions.  False: memory was refused, and
 * nothing has changed. */
bool tamis__counts_write(struct table_counts *d, const struct counts_memory *memory, unsigned block,
                         const struct counts_source *from, bool spare);

/* A copy of the object, blocks included, in one piece of memory of that size.  It is only to be
 * read. */
uint64_t tamis__counts_copy_bytes(const struct table_counts *d);
void tamis__counts_copy(const struct table_counts *d, struct table_counts *to);

/* Whether the object is whole; for tests. */
bool tamis__counts_validate(const struct table_counts *d);

#endif
