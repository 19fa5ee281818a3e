/* SPDX-License-Identifier: MIT
 *
 * Layer 0: counts the set bits of many lines.
 *
 * Carry-save adders first sum the words of a line in each bit position.  So a line takes one
 * population count, not eight.  That is several times as fast on processors that lack the
 * instruction.  Source: Harley and Seal, in Warren, "Hacker's Delight" (2013), section 5-1
 */
#ifndef TAMIS_LIB_BLOOM_BITS_H
#define TAMIS_LIB_BLOOM_BITS_H

#include "bloom/geometry.h"

/* Each bit of `ones` counts 1, of `twos` 2, and of `fours` 4.  `eights` is a number of eights. */
struct set_bits {
  uint64_t ones, twos, fours, eights;
};

/* Adds *sum, a and b in each bit position.  Keeps the lower bits in *sum; returns the carries. */
static inline uint64_t add_bits(uint64_t *sum, uint64_t a, uint64_t b)
{
  uint64_t x = *sum ^ a, carry = (*sum & a) | (x & b);
  *sum = x ^ b;
  return carry;
}

static inline void set_bits_add(struct set_bits *set, const uint64_t line[LINE_WORDS])
{
  uint64_t two_a = add_bits(&set->ones, line[0], line[1]),
           two_b = add_bits(&set->ones, line[2], line[3]);
  uint64_t four_a = add_bits(&set->twos, two_a, two_b);
  two_a = add_bits(&set->ones, line[4], line[5]);
  two_b = add_bits(&set->ones, line[6], line[7]);
  uint64_t four_b = add_bits(&set->twos, two_a, two_b);
  set->eights += (unsigned) __builtin_popcountll(add_bits(&set->fours, four_a, four_b));
}

static inline uint64_t set_bits_sum(const struct set_bits *set)
{
  return 8 * set->eights + 4 * (uint64_t) (unsigned) __builtin_popcountll(set->fours) +
         2 * (uint64_t) (unsigned) __builtin_popcountll(set->twos) +
         (uint64_t) (unsigned) __builtin_popcountll(set->ones);
}

#endif
