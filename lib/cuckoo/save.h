/* SPDX-License-Identifier: MIT
 *
 * Layer 2: saves, loads and maps cuckoo filters, in the format of docs/reference/format.md.
 *
 *    a growable filter      the segments of the first generation, each with its counts │ a later
 *                           generation, its segments │ ...; and, anywhere among them, keys that
 *                           were removed during the save
 *    a fixed filter         a segment, as an array │ its counts │ the next segment │ ...; at the
 *                           end, the offset of each segment
 */
#ifndef TAMIS_LIB_CUCKOO_SAVE_H
#define TAMIS_LIB_CUCKOO_SAVE_H

#include "cuckoo/table.h"
#include "table/image.h"

/* Types of blocks, each with its four `meanings` and its payload (struct saved_block). */
enum {
  /* A later generation.  Meanings: its number, 0, 0, 0.  Payload: the numbers of saved_figure. */
  SAVED_GENERATION = SAVED_KIND_BLOCKS,
  /* A segment of a growable filter.  Meanings: generation, plus depth × 2^32; first directory
   * index; `copying` (segment.h); lanes in use.  Payload: the words.  Blocks of counts follow,
   * whose table has the first directory index as its number. */
  SAVED_SEGMENT,
  /* Payload: hashes of keys that a load must remove from the filter. */
  SAVED_REMOVED,
  /* At the end of a fixed filter: a row of the offsets in the file at which the segments begin. */
  SAVED_PLACES = SAVED_COUNTS + 1,
  /* The last block of a growable filter that a union has changed.  Meanings: cuckoo_growth.excess
   * (a double), 0, 0, 0.  Payload: the split limit of each generation. */
  SAVED_LIMITS
};

/* The numbers that describe a generation.  The header has those of the first generation. */
enum saved_figure {
  SAVED_WIDTH,
  SAVED_PAIR_BITS,
  SAVED_DEPTH_LIMIT,
  SAVED_STRIPES,
  SAVED_RATE, /* the rate of the generation: the bits of a double */
  SAVED_ROOT_SHIFT,
  SAVED_UNEVEN_AT, /* 1 + the depth of the uneven split, or 0 for no such split */
  SAVED_FIGURES_OF_GENERATION,
  /* These numbers are only in the header: */
  SAVED_FIRST_ROOTS = SAVED_FIGURES_OF_GENERATION,
  SAVED_SPLITS,
  SAVED_JOINS,
  SAVED_COUNTS_COPIES, /* 1 if new segments count copies (segment.h), else 0 */
  SAVED_FIGURES_OF_FILTER
};

/* Three totals: the lanes in use, the counted copies, and a number that depends on `growable`. */
enum { TOTAL_ENTRIES, TOTAL_COPIES, TOTAL_OF_FORM };
enum growable_total { TOTAL_SEGMENTS = TOTAL_OF_FORM }; /* the number of segments */
enum fixed_total { TOTAL_PLACES = TOTAL_OF_FORM };      /* offset of the first block SAVED_PLACES */

/* In a file, the segments of a fixed filter have the same form as in memory.  All fields are 0
 * except `copying`, each stripe's number of lanes in use, and the words. */
enum { SAVED_COPYING_AT = offsetof(struct segment, copying) };
_Static_assert(SAVED_COPYING_AT == 44 && offsetof(struct stripe, used) == 4,
               "docs/reference/format.md says so");

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
int tamis__cuckoo_read_info(struct saved_reader *r, struct saved_head *saved);

void tamis__cuckoo_put_figures(const struct cuckoo_geometry *g, uint64_t *to);

/* Read a geometry; return false if no filter has it.  `before`: the previous geometry, or NULL. */
bool tamis__cuckoo_read_geometry(const struct saved_head *saved, const uint64_t *figures,
                                 const struct cuckoo_geometry *before, struct cuckoo_geometry *g);
bool tamis__cuckoo_read_first_geometry(const struct saved_head *saved, struct cuckoo_geometry *g);

int tamis__cuckoo_load(struct saved_reader *r, const struct saved_head *saved,
                       const struct tamis_filter *head, tamis_filter **out);

#endif
