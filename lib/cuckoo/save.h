/* SPDX-License-Identifier: MIT
 *
 * Layer 2: saved cuckoo filters.  docs/format.md describes what these write and read.
 *
 *    a filter that grows    the segments of the first generation, each with its counts │ a later
 *                           generation, its segments │ ...; and, anywhere among them, keys that
 *                           have been removed meanwhile
 *    one that does not      a segment, as an array │ its counts │ the next segment │ ...
 *                           and at the end, where each segment is
 */
#ifndef TAMIS_LIB_CUCKOO_SAVE_H
#define TAMIS_LIB_CUCKOO_SAVE_H

#include "cuckoo/table.h"
#include "table/image.h"

/* Types of blocks, and what their four numbers mean. */
enum {
  /* A later generation begins: number, 0, 0, 0.  Its figures follow: enum saved_figure. */
  SAVED_GENERATION = SAVED_KIND_BLOCKS,
  /* Of a filter that grows: generation and depth (from bit 32 on), first directory index, copying
   * (set_copying() in load.c), lanes in use.  The words follow, and then the blocks of its counts,
   * with the first directory index as the number of the table. */
  SAVED_SEGMENT,
  /* Hashes of keys that are to be removed from what the file holds. */
  SAVED_REMOVED,
  /* Of a filter that does not grow, at the end: a row that says for each root where in the file its
   * segment begins. */
  SAVED_PLACES = SAVED_COUNTS + 1,
  /* Of a filter that grows, and that others have been united with, the last block: the excess of
   * its rate (a double), 0, 0, 0.  The split limit of each generation follows. */
  SAVED_LIMITS
};

/* The figures of a generation; the first one's are in the header's geometry. */
enum saved_figure {
  SAVED_WIDTH,
  SAVED_PAIR_BITS,
  SAVED_DEPTH_LIMIT,
  SAVED_STRIPES,
  SAVED_RATE, /* a double */
  SAVED_ROOT_SHIFT,
  SAVED_UNEVEN_AT, /* 1 more than the depth of the uneven split; 0: there is none */
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

/* Of a filter that does not grow, a segment is in a file as it is in memory, but only copying, the
 * lanes in use of each stripe, and the words are not zero. */
enum { SAVED_COPYING_AT = offsetof(struct segment, copying) };
_Static_assert(SAVED_COPYING_AT == 44 && offsetof(struct stripe, used) == 4,
               "docs/format.md says so");

static inline void put_segment_head(const struct cuckoo_geometry *g, uint32_t copying,
                                    const uint32_t used[CUCKOO_FIXED_STRIPES],
                                    unsigned char *segment)
{
  memset(segment, 0, g->words_offset);
  saved_put32(segment + SAVED_COPYING_AT, copying);
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    saved_put32(segment + CUCKOO_SEGMENT_HEADER + (size_t) i * CUCKOO_STRIPE_BYTES +
                    offsetof(struct stripe, used),
                used[i]);
}

void tamis__cuckoo_describe(const tamis_filter *f, struct saved_head *out);
int tamis__cuckoo_save(const tamis_filter *f, struct saved_writer *w);
uint64_t tamis__cuckoo_saved_beside(const struct saved_head *saved);

void tamis__cuckoo_put_figures(const struct cuckoo_geometry *g, uint64_t *to);

/* False: no filter has it.  `before`: the generation before it, or NULL. */
bool tamis__cuckoo_read_geometry(const struct saved_head *saved, const uint64_t *figures,
                                 const struct cuckoo_geometry *before, struct cuckoo_geometry *g);
bool tamis__cuckoo_read_first_geometry(const struct saved_head *saved, struct cuckoo_geometry *g);

/* As load() in struct filter_kind, but the filter has no operations yet. */
int tamis__cuckoo_load(struct saved_reader *r, const struct saved_head *saved,
                       const struct tamis_filter *head, struct cuckoo **out);

#endif
