/* SPDX-License-Identifier: MIT
 *
 * Layer 0: lanes, the equal parts of a 64-bit word that hold entries: b lanes of w bits each.
 *
 *     63                                                             0
 *    ┌──┬─────────────────────┬─ ─ ─ ─ ─┬─────────────────────┐
 *    │ 0│    lane b - 1       │         │       lane 0        │
 *    └──┴─────────────────────┴─ ─ ─ ─ ─┴─────────────────────┘
 *
 * An empty lane is 0.  A lane in use is not 0.
 *
 * A *set of lanes* is a word, too: the highest bit of each lane says whether the lane is in the
 * set.  The functions here compare all lanes of a word at once, and ignore the bits above them.
 *
 * Source: Warren, "Hacker's Delight", 6-1 (zero bytes in a word)
 */
#ifndef TAMIS_LIB_LANES_H
#define TAMIS_LIB_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum { LANE_MAX_WIDTH = 32 };

struct lane_shape {
  uint8_t width;       /* w: bits of a lane */
  uint8_t lanes;       /* b: lanes in a word */
  uint8_t shift;       /* 64 - w: shifts the upper w bits of a word right to lane 0 */
  bool ages;           /* entries have a marker and an age: cuckoo/bucket.h */
  uint16_t reciprocal; /* 2^16 / w, rounded up: if n < 2^6, then n * reciprocal >> 16 is n / w */
  uint64_t low, high;  /* the lowest and the highest bit of each lane */
};

static inline struct lane_shape lane_shape(unsigned width, unsigned lanes, bool ages)
{
  struct lane_shape s = {.width = (uint8_t) width,
                         .lanes = (uint8_t) lanes,
                         .shift = (uint8_t) (64 - width),
                         .ages = ages,
                         .reciprocal = (uint16_t) (65535 / width + 1)};
  for (unsigned i = 0; i < lanes; i++)
    s.low |= UINT64_C(1) << i * width;
  s.high = s.low << (width - 1);
  return s;
}

static inline uint64_t lane_bits(unsigned width)
{
  return UINT64_MAX >> (64 - width);
}

static inline uint64_t lane_get(const struct lane_shape *s, uint64_t value, unsigned lane)
{
  return value >> lane * s->width & lane_bits(s->width);
}

static inline uint64_t lane_put(const struct lane_shape *s, uint64_t value, unsigned lane,
                                uint64_t entry)
{
  unsigned shift = lane * s->width;
  return (value & ~(lane_bits(s->width) << shift)) | entry << shift;
}

/* The number of the lowest lane in a set.  The set must not be empty. */
static inline unsigned lanes_first(const struct lane_shape *s, uint64_t set)
{
  return (unsigned) __builtin_ctzll(set) * s->reciprocal >> 16;
}

/* The bucket's value after `entry` is put into the lowest lane of the non-empty set `empty`. */
static inline uint64_t lanes_fill_first(const struct lane_shape *s, uint64_t value, uint64_t empty,
                                        uint64_t entry)
{
  return value | entry << ((unsigned) __builtin_ctzll(empty) + 1 - s->width);
}

static inline unsigned lanes_count(uint64_t set)
{
  return (unsigned) __builtin_popcountll(set);
}

/* The number of lanes in a set, by a multiplication: the highest lane of the product is the sum of
 * all lanes.  (This is faster on a processor without an instruction to count bits.) */
static inline unsigned lanes_number(const struct lane_shape *s, uint64_t set)
{
  return (unsigned) ((set >> (s->width - 1)) * s->low >> s->width * (s->lanes - 1U) &
                     lane_bits(s->width));
}

/* A mask of all bits of the lanes in a set. */
static inline uint64_t lanes_bits(const struct lane_shape *s, uint64_t set)
{
  return set - (set >> (s->width - 1)) + set;
}

/* The set of lanes that are not 0.  `units` has one bit in each lane, its *unit*.  The bits below
 * the unit are ignored.  `below` masks the bits from the unit up to the lane's second highest bit.
 * If a lane of `value` has a bit of this mask, adding `below` carries into the lane's highest bit.
 * No carry leaves a lane, because `below` excludes the highest bits. */
static inline uint64_t lanes_not_zero(uint64_t units, uint64_t high, uint64_t value)
{
  uint64_t below = high - units;
  return (((value & below) + below) | value) & high;
}

static inline uint64_t lanes_in_use(const struct lane_shape *s, uint64_t value)
{
  return lanes_not_zero(s->low, s->high, value);
}

static inline uint64_t lanes_empty(const struct lane_shape *s, uint64_t value)
{
  return lanes_in_use(s, value) ^ s->high;
}

static inline uint64_t lanes_equal(const struct lane_shape *s, uint64_t value, uint64_t entry)
{
  return lanes_empty(s, value ^ s->low * entry);
}

/* ---- sums ----
 *
 * lanes_as_ones() returns the number 1 in each lane in use.  To count the lanes in use in up to
 * LANES_ROWS buckets (more may overflow a lane), add up these words, then call lanes_sum(). */
enum { LANES_ROWS = 128 };

static inline uint64_t lanes_as_ones(const struct lane_shape *s, uint64_t value)
{
  return lanes_in_use(s, value) >> (s->width - 1);
}

static inline uint64_t lanes_sum(const struct lane_shape *s, uint64_t sums)
{
  uint64_t sum = 0;
  for (unsigned lane = 0; lane < s->lanes; lane++)
    sum += lane_get(s, sums, lane);
  return sum;
}

#endif
