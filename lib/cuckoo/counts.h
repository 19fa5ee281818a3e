/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the blocks of saved cuckoo filters: duplicate counts as they are in them, and whether
 * words are possible.
 */
#ifndef TAMIS_LIB_CUCKOO_COUNTS_H
#define TAMIS_LIB_CUCKOO_COUNTS_H

#include "base/saved.h"
#include "cuckoo/geometry.h"
#include "table/duplicates.h"
#include "table/numbers.h"

/* Types of blocks, and what their four numbers mean. */
enum {
  /* A later generation begins: number, 0, 0, 0.  Its figures follow: enum saved_figure. */
  SAVED_GENERATION = SAVED_KIND_BLOCKS,
  /* Of a filter that grows: generation and depth (from bit 32 on), first directory index, copying
   * (set_copying() in load.c), lanes in use.  The words follow, then the duplicate counts. */
  SAVED_SEGMENT,
  /* Hashes of keys that are to be removed from what the file holds. */
  SAVED_REMOVED,
  /* Of a filter that does not grow: root, first bucket, copying, whether it is the segment's last
   * block.  The duplicate counts of SAVED_COUNTED buckets, or of all that are left. */
  SAVED_COUNTS,
  /* Of a filter that does not grow, at the end: first root, 0, 0, 0.  Where in the file the
   * segments begin, of SAVED_PLACED roots, or of all that are left. */
  SAVED_PLACES,
  /* Of a filter that grows, and that others have been united with, the last block: the excess of
   * its rate (a double), 0, 0, 0.  The split limit of each generation follows. */
  SAVED_LIMITS
};
enum { SAVED_COUNTED = SMALL(4096, 8), SAVED_PLACED = SMALL(SAVED_CHUNK / 8, 8) };

/* The figures of a generation; the first one's are in the header's geometry. */
enum saved_figure {
  SAVED_WIDTH,
  SAVED_PAIR_BITS,
  SAVED_DEPTH_LIMIT,
  SAVED_STRIPES,
  SAVED_RATE, /* a double */
  SAVED_ROOT_SHIFT,
  SAVED_FIGURES_OF_GENERATION,
  /* Only in the header: */
  SAVED_FIRST_ROOTS = SAVED_FIGURES_OF_GENERATION,
  SAVED_SPLITS,
  SAVED_JOINS,
  SAVED_COUNTS_COPIES, /* whether the segments of the filter are folded */
  SAVED_FIGURES_OF_FILTER
};

/* Lanes in use; copies that are counted; and of a filter that grows its segments, of another one
 * where in the file the first block of type SAVED_PLACES begins. */
enum { TOTAL_ENTRIES, TOTAL_COPIES, TOTAL_SEGMENTS, TOTAL_PLACES = TOTAL_SEGMENTS };

/* Duplicate counts are those of table/numbers.h; only lanes in use are skipped, so a skip takes at
 * most three bytes. */
enum { SAVED_BYTES_PER_COUNT = 3 + NUMBER_BYTES };

/* Unions bring no more than that: it leaves room for those that run at the same time, and for adds
 * without end. */
static const uint64_t saved_most_united = UINT64_C(1) << 48;

/* The counts of these buckets, `n` of them from a multiple of DUPLICATES_BUCKETS on.  Returns the
 * end; *copies is increased by what is counted. */
unsigned char *tamis__counts_put(const struct lane_shape *s, const uint64_t *words,
                                 const struct duplicates *duplicates, uint32_t first, uint32_t n,
                                 unsigned char *to, uint64_t *copies);

/* Reads the counts of DUPLICATES_BUCKETS buckets, or of those that are left.  False: they are not
 * possible. */
bool tamis__counts_spread(const struct lane_shape *s, const uint64_t *words, uint32_t buckets,
                          struct saved_counts *counts, uint64_t to[DUPLICATES_POSITIONS]);

/* Checks a block's counts of `n` buckets, and adds them to *copies.  False: they are not
 * possible. */
bool tamis__counts_sum(const struct lane_shape *s, const uint64_t *words, uint32_t n,
                       const struct saved_block *block, uint64_t *copies);

/* The blocks of counts that follow a segment in a mapped file.  `end` is where the segment ends.
 * The reader allocates nothing, and need not be closed. */
int tamis__counts_begin(struct saved_reader *r, const struct saved_mapping *file, const char *end);

/* The next of them; *block is zero before the first one.  TAMIS_ABSENT: there are no more. */
int tamis__counts_read_block(struct saved_reader *r, struct saved_block *block);

/* Counts the lanes in use of each stripe.  False: an entry is not possible in a segment of this
 * depth. */
bool tamis__words_check(const struct cuckoo_geometry *g, const uint64_t *words, unsigned depth,
                        uint32_t used[CUCKOO_FIXED_STRIPES]);

#endif
