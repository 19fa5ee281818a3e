/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the encoding of a block of counts.
 *
 *     block     | head | codes, in words of 64 bits ... | exceptions, 32 or 64 bits each ... |
 *
 *     code      the count of one lane, or 0 if the lane has no count or its count is an exception
 *     exception | position of the lane | count |.  The exceptions are sorted by position.
 *
 * counts.h explains counts, codes and exceptions.  counts.c chooses the width of the codes.
 */
#ifndef TAMIS_LIB_TABLE_COUNT_CODES_H
#define TAMIS_LIB_TABLE_COUNT_CODES_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  /* How many bits of an exception hold a count: of one of 32 bits, and of one of 64 bits.  The
   * other bits hold the lane's position. */
  COUNT_BITS = SMALL(21, 3),
  WIDE_COUNT_BITS = 53
};

#ifdef TAMIS_SMALL
typedef uint8_t block_figure;
#else
typedef uint16_t block_figure;
#endif

struct count_block {
  block_figure bytes;   /* size of this struct and all that follows it */
  block_figure refused; /* size of the larger block that the allocator last refused; 0: none */
  block_figure live;    /* the number of lanes with a count */
  block_figure exceptions;
  block_figure changes; /* the number of changes since the block was last encoded */
  uint8_t bits;         /* the width of each code */
  bool wide;            /* an exception has 64 bits, not 32 */
  uint64_t words[];     /* the codes, then the exceptions */
};

static inline size_t code_words(unsigned bits, size_t positions)
{
  return (bits * positions + 63) / 64;
}

static inline size_t bytes_for(size_t positions, unsigned bits, bool wide, size_t slots)
{
  size_t bytes = sizeof(struct count_block) + code_words(bits, positions) * sizeof(uint64_t) +
                 slots * (wide ? sizeof(uint64_t) : sizeof(uint32_t));
  return (bytes + 7) & ~(size_t) 7;
}

static inline uint64_t code_mask(const struct count_block *b)
{
  return (UINT64_C(1) << b->bits) - 1;
}

/* Returns the i-th code.  `bits`, the width of a code, must not be 0. */
static inline uint64_t code_at(const uint64_t words[], unsigned bits, size_t i)
{
  size_t bit = i * bits, shift = bit % 64;
  const uint64_t *first = &words[bit / 64];
  uint64_t code = first[0] >> shift;
  if (shift + bits > 64)
    code |= first[1] << (64 - shift);
  return code & ((UINT64_C(1) << bits) - 1);
}

static inline uint64_t code_get(const struct count_block *b, size_t i)
{
  return b->bits ? code_at(b->words, b->bits, i) : 0;
}

static inline void codes_get(const struct count_block *b, size_t i, uint64_t codes[], size_t n)
{
  const unsigned bits = b->bits; /* loaded once: a store to codes[] might change *b */
  for (size_t j = 0; j < n; j++)
    codes[j] = bits ? code_at(b->words, bits, i + j) : 0;
}

static inline void code_set(struct count_block *b, size_t i, uint64_t code)
{
  if (!b->bits)
    return;
  size_t bit = i * b->bits, shift = bit % 64;
  uint64_t *first = &b->words[bit / 64];
  first[0] = (first[0] & ~(code_mask(b) << shift)) | code << shift;
  if (shift + b->bits > 64)
    first[1] = (first[1] & ~(code_mask(b) >> (64 - shift))) | code >> (64 - shift);
}

/* The code for a count, or 0 if the count has no code. */
static inline uint64_t code_for(const struct count_block *b, uint64_t count)
{
  return count <= code_mask(b) ? count : 0;
}

/* ---- exceptions: sorted numbers in *slots*, each with a position and a count ---- */

static inline void *slots_of(const struct count_block *b, size_t positions)
{
  return (void *) &b->words[code_words(b->bits, positions)];
}

static inline size_t slot_bytes(const struct count_block *b)
{
  return b->wide ? sizeof(uint64_t) : sizeof(uint32_t);
}

static inline size_t slots_in(const struct count_block *b, size_t positions)
{
  size_t codes = sizeof *b + code_words(b->bits, positions) * sizeof(uint64_t);
  return (b->bytes - codes) / slot_bytes(b);
}

static inline unsigned count_bits(bool wide)
{
  return wide ? WIDE_COUNT_BITS : COUNT_BITS;
}

static inline uint64_t slot_get(const struct count_block *b, const void *slots, size_t j)
{
  return b->wide ? ((const uint64_t *) slots)[j] : ((const uint32_t *) slots)[j];
}

static inline void slot_set(const struct count_block *b, void *slots, size_t j, size_t i,
                            uint64_t count)
{
  uint64_t slot = (uint64_t) i << count_bits(b->wide) | count;
  if (b->wide)
    ((uint64_t *) slots)[j] = slot;
  else
    ((uint32_t *) slots)[j] = (uint32_t) slot;
}

static inline size_t slot_position(const struct count_block *b, const void *slots, size_t j)
{
  return (size_t) (slot_get(b, slots, j) >> count_bits(b->wide));
}

static inline uint64_t slot_count(const struct count_block *b, const void *slots, size_t j)
{
  return slot_get(b, slots, j) & ((UINT64_C(1) << count_bits(b->wide)) - 1);
}

/* The index of the first exception whose position is at least i, or b->exceptions if none is. */
static inline size_t slot_seek(const struct count_block *b, const void *slots, size_t i)
{
  size_t first = 0, n = b->exceptions;
  while (n > 0) {
    size_t half = n / 2;
    bool below = slot_position(b, slots, first + half) < i;
    first = below ? first + half + 1 : first;
    n = below ? n - half - 1 : half;
  }
  return first;
}

static inline bool slot_is_at(const struct count_block *b, const void *slots, size_t j, size_t i)
{
  return j < b->exceptions && slot_position(b, slots, j) == i;
}

static inline void slots_move(const struct count_block *b, void *slots, size_t to, size_t from)
{
  size_t size = slot_bytes(b);
  memmove((char *) slots + to * size, (char *) slots + from * size, (b->exceptions - from) * size);
}

enum { COUNTS_AT_ONCE = 64 };

struct count_reader {
  const struct count_block *b;
  const void *slots;
  size_t exception, at, positions; /* the next exception, the next lane, and the number of lanes */
};

static inline struct count_reader count_reader_begin(const struct count_block *b, size_t positions)
{
  return (struct count_reader){.b = b, .slots = slots_of(b, positions), .positions = positions};
}

/* Reads the next counts.  Returns their number, or 0 if no count is left. */
size_t tamis__counts_read(struct count_reader *r, uint64_t counts[COUNTS_AT_ONCE]);

#endif
