/* SPDX-License-Identifier: MIT
 *
 * Layer 0: a bucket of the cuckoo filter, as the value of one 64-bit word.
 *
 *      63                                                      0
 *     ┌──┬────────────┬────────────┬────────────┬─ ─ ─┬────────────┐
 *     │ 0│ lane b − 1 │  ...       │            │     │   lane 0   │    b = 64 / w lanes of w bits
 *     └──┴────────────┴────────────┴────────────┴─ ─ ─┴────────────┘
 *
 * An empty lane is 0.  The entry in a lane is a fingerprint that has aged by `age` steps:
 *
 *     f f f f f f f 1        new: w − 1 bits of the fingerprint, and a marker
 *     f f f f f f 1 0        after one step: the first bit has moved into the segment's prefix
 *     f f f f f 1 0 0        the lowest set bit always says how much is known
 *
 * So an entry stands for every fingerprint that begins with its bits, an occupied lane is never 0,
 * and no fingerprint is forbidden.  In a filter that never grows entries do not age: then the marker's
 * place holds one bit more of the fingerprint, and 0, which would be an empty lane, is stored as 1.
 *
 * All lanes are looked at at once, without a branch.  The width is a parameter of one body of code.
 */
#ifndef TAMIS_LIB_BUCKET_H
#define TAMIS_LIB_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

enum { BUCKET_MIN_WIDTH = 2, BUCKET_MAX_WIDTH = 32 };

struct bucket_shape {
  unsigned width;
  unsigned lanes;
  unsigned reciprocal; /* of the width, times 2^16, rounded up: exact for what is below 2^6 */
  bool ages;           /* entries have a marker and may age */
  uint64_t low;        /* the lowest bit of each lane */
  uint64_t high;       /* the highest bit of each lane */
};

static inline struct bucket_shape bucket_shape(unsigned width, bool ages)
{
  struct bucket_shape s = {
      .width = width, .lanes = 64 / width, .reciprocal = 65535 / width + 1, .ages = ages};
  for (unsigned i = 0; i < s.lanes; i++)
    s.low |= UINT64_C(1) << i * width;
  s.high = s.low << (width - 1);
  return s;
}

/* The bits of lane 0. */
static inline uint64_t bucket_lane_bits(const struct bucket_shape *s)
{
  return UINT64_MAX >> (64 - s->width);
}

static inline uint64_t bucket_lane(const struct bucket_shape *s, uint64_t value, unsigned lane)
{
  return value >> lane * s->width & bucket_lane_bits(s);
}

static inline uint64_t bucket_replace(const struct bucket_shape *s, uint64_t value, unsigned lane,
                                      uint64_t entry)
{
  unsigned shift = lane * s->width;
  return (value & ~(bucket_lane_bits(s) << shift)) | entry << shift;
}

/* ---- sets of lanes, as the highest bits of the lanes that are in ---- */

/* Lanes that are not 0.  Adding all ones below the highest bit carries into it unless they were 0;
 * nothing carries out of a lane, as the highest bit is left out of the sum. */
static inline uint64_t bucket_occupied(const struct bucket_shape *s, uint64_t value)
{
  uint64_t below = s->high - s->low; /* every bit but the highest one of each lane */
  return (((value & below) + below) | value) & s->high;
}

static inline uint64_t bucket_free(const struct bucket_shape *s, uint64_t value)
{
  return bucket_occupied(s, value) ^ s->high;
}

/* The first lane of a set that is not empty. */
static inline unsigned bucket_first(const struct bucket_shape *s, uint64_t set)
{
  return (unsigned) __builtin_ctzll(set) * s->reciprocal >> 16;
}

static inline unsigned bucket_count(uint64_t set)
{
  return (unsigned) __builtin_popcountll(set);
}

/* All bits of the lanes of a set: each highest bit, and what is below it. */
static inline uint64_t bucket_spread(const struct bucket_shape *s, uint64_t set)
{
  return set | (set - (set >> (s->width - 1)));
}

/* ---- entries ---- */

/* A new entry from the first bits of a fingerprint string, which begins at bit 63. */
static inline uint64_t bucket_entry(const struct bucket_shape *s, uint64_t fingerprint)
{
  uint64_t entry = fingerprint >> (64 - s->width);
  return s->ages ? entry | 1 : entry + (entry == 0);
}

/* How many steps an entry has aged.  0 for entries that cannot. */
static inline unsigned bucket_age(const struct bucket_shape *s, uint64_t entry)
{
  return s->ages ? (unsigned) __builtin_ctzll(entry) : 0;
}

/* Lanes whose entry stands for what the new entry `entry` stands for: equal in all bits that the lane
 * still knows.  x ^ (x - 1) is the marker and what is below it, the part that is not known; the highest
 * bit is set for it, so that the subtraction borrows from no other lane, empty ones neither.  (Of an
 * empty lane nothing is known then, so it matches, and is left out at the end.  Where entries do not age
 * it has something that no entry is.) */
static inline uint64_t bucket_match(const struct bucket_shape *s, uint64_t value, uint64_t entry)
{
  uint64_t difference = value ^ s->low * entry;
  if (!s->ages)
    return bucket_free(s, difference);
  uint64_t x = value | s->high;
  difference &= ~(x ^ (x - s->low));
  return bucket_occupied(s, value) & ~bucket_occupied(s, difference);
}

/* Not 0 if there are any, which takes half as many steps.  Every entry must know at least one bit.
 *
 * What differs in the known part of a lane, `differs` less `unknown`, has no bit 0.  So taking 1 from it
 * borrows only if it is 0, and that sets the highest bit, which `differs` does not have then.  Where
 * `differs` has it, either the entry differs there, or the lane is empty, so that all of it is unknown.
 * (A lane that borrows takes one more from the next, which the bit 0 that is missing there makes up for,
 * unless that one is 0 too, and borrows as well.) */
static inline uint64_t bucket_has_match(const struct bucket_shape *s, uint64_t value,
                                        uint64_t entry)
{
  uint64_t x = value | s->high;
  uint64_t unknown = s->ages ? x ^ (x - s->low) : 0;
  uint64_t differs = (value ^ s->low * entry) | unknown;
  return (differs - unknown - s->low) & ~differs & s->high;
}

/* ---- growing and shrinking ---- */

/* What moves to the sibling that takes fingerprints beginning with `bit`: those lanes, each one step
 * older, at their places; the other lanes are empty.  Every entry must know at least one bit. */
static inline uint64_t bucket_split(const struct bucket_shape *s, uint64_t value, unsigned bit)
{
  uint64_t ones = value & s->high;
  uint64_t mine = bit ? ones : bucket_occupied(s, value) ^ ones;
  return (value & bucket_spread(s, mine) & ~s->high) << 1;
}

/* An entry one step younger: `bit` is known again.  A new entry has no room for it and gives up its
 * last bit. */
static inline uint64_t bucket_rejuvenate(const struct bucket_shape *s, uint64_t entry, unsigned bit)
{
  return (uint64_t) bit << (s->width - 1) | entry >> 1 | (entry & 1);
}

#endif
