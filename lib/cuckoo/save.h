/* SPDX-License-Identifier: MIT
 *
 * Layer 2: saved cuckoo filters.  docs/format.md describes what these write and read.
 *
 *    a filter that grows    the segments of the first generation │ a later generation, its segments │
 *                           ...; and, anywhere among them, keys that have been removed meanwhile
 *    one that does not      a segment, as an array │ its duplicate counts │ the next segment │ ...
 *                           and at the end, where each segment is
 */
#ifndef TAMIS_LIB_CUCKOO_SAVE_H
#define TAMIS_LIB_CUCKOO_SAVE_H

#include "base/saved.h"
#include "cuckoo/table.h"

/* Types of blocks, and what their four numbers mean. */
enum {
  /* A later generation begins: number, 0, 0, 0.  Its figures follow: enum saved_figure. */
  SAVED_GENERATION = SAVED_KIND_BLOCKS,
  /* Of a filter that grows: generation and depth (from bit 32 on), first directory index, copying
   * (segment_copying()), lanes in use.  The words follow, then the duplicate counts. */
  SAVED_SEGMENT,
  /* Hashes of keys that are to be removed from what the file holds. */
  SAVED_REMOVED,
  /* Of a filter that does not grow: root, first bucket, copying, whether it is the segment's last
   * block.  The duplicate counts of SAVED_COUNTED buckets, or of all that are left. */
  SAVED_COUNTS,
  /* Of a filter that does not grow, at the end: first root, 0, 0, 0.  Where in the file the segments
   * begin, of SAVED_PLACED roots, or of all that are left. */
  SAVED_PLACES
};
enum { SAVED_COUNTED = 4096, SAVED_PLACED = SAVED_CHUNK / 8 };

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

/* Duplicate counts are pairs of numbers: how many lanes in use have no count before the next one
 * that has, and its count.  A number has seven bits in each byte, the lowest ones first; all bytes
 * but its last one have the highest bit set.  No count takes more than eight bytes. */
enum { SAVED_BYTES_PER_COUNT = 11 };

/* Of a filter that does not grow, a segment is in a file as it is in memory, but only the lanes in
 * use of each stripe and the words are not zero. */
static inline void put_lanes_in_use(const struct cuckoo_geometry *g,
                                    const uint32_t used[CUCKOO_FIXED_STRIPES],
                                    unsigned char *segment)
{
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    saved_put32(segment + CUCKOO_SEGMENT_HEADER + (size_t) i * CUCKOO_STRIPE_BYTES +
                    offsetof(struct stripe, used),
                used[i]);
}

void tamis__cuckoo_describe(const tamis_filter *f, struct saved_head *out);
int tamis__cuckoo_save(const tamis_filter *f, struct saved_writer *w);

/* As load() in struct filter_kind, but the filter has no operations yet. */
int tamis__cuckoo_load(struct saved_reader *r, const struct saved_head *saved,
                       const struct tamis_filter *head, struct cuckoo **out);

#endif
