/* SPDX-License-Identifier: MIT
 *
 * Layer 0: lanes, the equal parts of a 64-bit word in which buckets keep their entries.
 *
 * `low` and `high` have the lowest and the highest bit of each lane.  A set of lanes is a word,
 * too: the highest bit of each lane says whether the lane is in the set.
 */
#ifndef TAMIS_LIB_LANES_H
#define TAMIS_LIB_LANES_H

#include <stdint.h>

static inline uint64_t lane_bits(unsigned width)
{
  return UINT64_MAX >> (64 - width);
}

static inline uint64_t lane_value(uint64_t value, unsigned width, unsigned lane)
{
  return value >> lane * width & lane_bits(width);
}

static inline uint64_t lane_replaced(uint64_t value, unsigned width, unsigned lane, uint64_t entry)
{
  unsigned shift = lane * width;
  return (value & ~(lane_bits(width) << shift)) | entry << shift;
}

/* The lanes that are not 0.  Below the highest bit of each lane, adding all ones carries into the
 * highest bit unless all these bits are 0.  Nothing carries out of a lane, because the highest bits
 * are left out of the sum. */
static inline uint64_t lanes_not_zero(uint64_t low, uint64_t high, uint64_t value)
{
  uint64_t below = high - low; /* every bit but the highest one of each lane */
  return (((value & below) + below) | value) & high;
}

#endif
