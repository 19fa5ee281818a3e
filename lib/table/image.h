/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the words and the counts of a table in a file (docs/reference/format.md).
 *
 * A word is written as 64 bits: in a block if a cuckoo filter can grow, otherwise in an array.
 *
 * Blocks of counts follow the words, each with the counts of IMAGE_COUNTED words.  A count is
 * written as two numbers: how many lanes lie between the previous count's lane (or the block's
 * beginning) and this count's lane, and the count.  Each byte of a number holds seven bits, the
 * lowest first.  All bytes but the last have the highest bit set.  A number is below 2^56; only the
 * number 0 ends with a byte 0.
 */
#ifndef TAMIS_LIB_TABLE_IMAGE_H
#define TAMIS_LIB_TABLE_IMAGE_H

#include "base/saved.h"
#include "table/counts.h"
#include "table/lanes.h"

enum {
  /* A block of counts.  Its four `meanings`: the table's number, the first word's index, 0, 0. */
  SAVED_COUNTS = SAVED_KIND_BLOCKS + 3,
  IMAGE_COUNTED = SMALL(4096, 8),        /* the number of words whose counts share a block */
  IMAGE_ROW = SMALL(SAVED_CHUNK / 8, 8), /* a block has at most this many numbers of a row */
  NUMBER_BYTES = 8,                      /* the most bytes of a number */
  IMAGE_COUNT_BYTES = 2 * NUMBER_BYTES,  /* the most bytes of a count */
  /* The most bytes of a count in a block: at most 3 bytes say how many lanes the count skips. */
  IMAGE_COUNT_IN_BLOCK = 3 + NUMBER_BYTES,
};

static const uint64_t saved_most_copies = UINT64_C(1) << 53; /* above all counts */

/* A union is refused if the two filters together have this many copies or more.  So even with other
 * unions and adds at the same time, no count reaches saved_most_copies. */
static const uint64_t saved_most_united = UINT64_C(1) << 48;

static inline void image_get(uint64_t *words, const unsigned char *from, uint64_t n)
{
  for (uint64_t i = 0; i < n; i++)
    words[i] = saved_get64(from + i * 8);
}

void tamis__image_block(struct saved_writer *w, uint32_t type,
                        const uint64_t meanings[SAVED_MEANINGS], const uint64_t *words, uint64_t n);

/* Whether a block has the given type, the given four numbers `meanings`, and n words. */
bool tamis__image_is(const struct saved_block *block, uint32_t type,
                     const uint64_t meanings[SAVED_MEANINGS], uint64_t n);

/* Writes a row of n numbers for a table, in blocks of IMAGE_ROW numbers.  The last block can be
 * shorter.  A block's `meanings`: the table's number, and the index of the block's first number. */
void tamis__image_row(struct saved_writer *w, uint32_t type, uint64_t table,
                      const uint64_t *numbers, uint64_t n);

/* Reads the next block of a row of n numbers, of which *done have been read.  Updates *done. */
int tamis__image_read_row(struct saved_reader *r, uint32_t type, uint64_t table, uint64_t n,
                          uint64_t *done, struct saved_block *block);

/* ---- the numbers as which counts are written ---- */

static inline unsigned char *number_put(unsigned char *to, uint64_t x)
{
  for (; x >= 0x80; x >>= 7)
    *to++ = (unsigned char) (x | 0x80);
  *to++ = (unsigned char) x;
  return to;
}

/* Reads a number, and advances *at.  Returns false if the number is invalid or cut off by `end`. */
static inline bool number_get(const unsigned char **at, const unsigned char *end, uint64_t *out)
{
  *out = 0;
  for (unsigned i = 0; i < NUMBER_BYTES && *at < end; i++) {
    unsigned char byte = *(*at)++;
    *out |= (uint64_t) (byte & 0x7f) << 7 * i;
    if (byte < 0x80)
      return byte || i == 0;
  }
  return false;
}

/* Counts in memory, encoded as in a file, in the order of their lanes. */
struct lane_counts {
  unsigned char *bytes;
  size_t size, room; /* bytes in use, and bytes allocated */
  uint64_t next;     /* the lane after the lane of the last count */
};

/* Appends a lane's count.  The caller must have reserved IMAGE_COUNT_BYTES bytes for it. */
static inline void lane_counts_add(struct lane_counts *counts, uint64_t lane, uint64_t count)
{
  unsigned char *to = counts->bytes + counts->size;
  to = number_put(number_put(to, lane - counts->next), count);
  counts->size = (size_t) (to - counts->bytes);
  counts->next = lane + 1;
}

/* Makes room for another `more` bytes.  Returns false if memory was refused. */
bool tamis__lane_counts_reserve(struct lane_counts *counts, const tamis_allocator *allocator,
                                size_t more);
void tamis__lane_counts_release(struct lane_counts *counts, const tamis_allocator *allocator);

struct lane_counts_reader {
  const unsigned char *at, *end; /* the bytes that have not been read yet */
  uint64_t next;                 /* the lane after the lane of the last count */
  uint64_t lane, count;          /* the lane whose count was read last, and that count */
  bool wrong;                    /* the bytes that were read last are not a valid count */
};

/* Reads from byte `from` on.  `next` is what counts->next was when counts->size was `from`. */
static inline struct lane_counts_reader lane_counts_read(const struct lane_counts *counts,
                                                         size_t from, uint64_t next)
{
  return (struct lane_counts_reader){
      .at = counts->bytes + from, .end = counts->bytes + counts->size, .next = next};
}

/* Reads the next count.  Returns false if none is left or, with r->wrong set, if it is invalid. */
static inline bool lane_counts_next(struct lane_counts_reader *r)
{
  uint64_t skip;
  if (r->at == r->end)
    return false;
  r->wrong = !number_get(&r->at, r->end, &skip) || !number_get(&r->at, r->end, &r->count) ||
             !r->count || r->count >= saved_most_copies;
  r->lane = r->next + (r->wrong ? 0 : skip);
  r->next = r->lane + 1;
  return !r->wrong;
}

/* Reads the counts of the next block of `lanes` lanes in which a lane has a count.  Sets *first to
 * the number of the block's first lane.  Returns false if no count is left.  All bytes must be
 * valid counts, and no other function may use *r. */
bool tamis__image_next(struct lane_counts_reader *r, unsigned lanes, uint64_t *first,
                       uint64_t counts[COUNTS_POSITIONS]);

/* ---- blocks of counts ---- */

/* A writer of blocks of counts.  Its caller sets the first four members, and zeros the others. */
struct image_counts {
  struct saved_writer *w;
  uint64_t table, words; /* the table's number, and how many words it has */
  unsigned lanes;
  uint64_t first;  /* index of the current block's first word */
  uint64_t copies; /* the sum of all counts that were written */
  struct lane_counts counts;
};

/* Writes the count of a lane.  Lanes must come in order, and tamis__image_counts_end() last. */
void tamis__image_count(struct image_counts *to, uint64_t lane, uint64_t count);
void tamis__image_counts_end(struct image_counts *to);

struct image_table {
  const struct lane_shape *shape;
  const uint64_t *words;
  uint64_t n;          /* how many words the table has */
  uint64_t table;      /* the table's number */
  uint64_t first, end; /* first word of the block read last, and the word after that block */
};

/* Reads the next block if it is a block of counts, otherwise returns TAMIS_ABSENT. */
int tamis__image_read_counts(struct saved_reader *r, struct image_table *t,
                             struct lane_counts_reader *out);

/* Reads the next block by tamis__image_read_counts(), and checks that all its counts are valid and
 * belong to lanes in use.  Adds their sum to *copies. */
int tamis__image_load_counts(struct saved_reader *r, struct image_table *t,
                             struct lane_counts_reader *out, uint64_t *copies);

/* Loads all counts of a table into an unshared plane or, if p is NULL, only checks the counts. */
int tamis__image_load_plane(struct saved_reader *r, struct image_table *t, plane *p,
                            struct budget *budget, bool spare, uint64_t *copies);

#endif
