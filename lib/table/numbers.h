/* SPDX-License-Identifier: MIT
 *
 * Layer 0: numbers in saved filters, in as many bytes as they need.
 *
 * A number has seven bits in each byte, the lowest ones first.  All bytes but its last one have the
 * highest bit set.  Numbers are below 2^56, and the last byte is 0 only if the number is.
 */
#ifndef TAMIS_LIB_TABLE_NUMBERS_H
#define TAMIS_LIB_TABLE_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

enum { NUMBER_BYTES = 8 };

static inline unsigned char *number_put(unsigned char *to, uint64_t x)
{
  for (; x >= 0x80; x >>= 7)
    *to++ = (unsigned char) (x | 0x80);
  *to++ = (unsigned char) x;
  return to;
}

/* Reads the number at *at, and moves *at behind it.  False: there is none before `end`. */
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

/* ---- counts ----
 *
 * A count is a pair of numbers: how many lanes have none before the one that has it, and the
 * count. */

/* What has not been read yet, and the next count: it follows `skip` lanes without one. */
struct saved_counts {
  const unsigned char *at, *end;
  uint64_t skip, count; /* count == 0: there are no more */
};

/* No count reaches it. */
static const uint64_t saved_most_copies = UINT64_C(1) << 53;

/* Reads the next count.  False: it is not possible. */
static inline bool saved_counts_next(struct saved_counts *counts)
{
  counts->count = 0;
  return counts->at == counts->end || (number_get(&counts->at, counts->end, &counts->skip) &&
                                       number_get(&counts->at, counts->end, &counts->count) &&
                                       counts->count && counts->count < saved_most_copies);
}

#endif
