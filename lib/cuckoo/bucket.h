/* SPDX-License-Identifier: MIT
 *
 * Layer 0: a bucket of the cuckoo filter, as the value of one 64-bit word.
 *
 *      63                                                      0
 *     ┌──┬────────────┬────────────┬────────────┬─ ─ ─┬────────────┐
 *     │ 0│ lane b − 1 │  ...       │            │     │   lane 0   │    b = 64 / w lanes of w bits
 *     └──┴────────────┴────────────┴────────────┴─ ─ ─┴────────────┘
 *
 * An empty lane is 0.  Every other lane has an entry: bits of a key's fingerprint, and a marker.
 * In a growable filter, entries age: a split of the segment takes the first bit of each entry.
 *
 *     f f f f f f f 1        age 0: w − 1 bits of the fingerprint, and the marker
 *     f f f f f f 1 0        age 1: the first bit has become part of the segment's prefix
 *     f f f f f 1 0 0        age 2: the marker is the lowest set bit; the bits above it are known
 *
 * An entry matches every fingerprint that begins with its known bits.  In a fixed filter, entries
 * do not age and have no marker: they have w bits of the fingerprint, and 1 is stored instead of 0.
 */
#ifndef TAMIS_LIB_BUCKET_H
#define TAMIS_LIB_BUCKET_H

#include "base/compiler.h"
#include "table/lanes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUCKET_MIN_WIDTH = 2 };

static inline struct lane_shape bucket_shape(unsigned width, bool ages)
{
  return lane_shape(width, 64 / width, ages);
}

/* Returns a new entry for a fingerprint, whose first bit is bit 63. */
static inline uint64_t bucket_entry(const struct lane_shape *s, uint64_t fingerprint)
{
  uint64_t entry = fingerprint >> (s->shift & 63);
  return s->ages ? entry | 1 : entry + (entry == 0);
}

/* Returns how many bits fewer an entry has than a new entry; 0 in a fixed filter. */
static inline unsigned bucket_age(const struct lane_shape *s, uint64_t entry)
{
  return s->ages ? (unsigned) __builtin_ctzll(entry) : 0;
}

/* Returns the set of lanes whose entries match a key.  `entry` is a new entry for the key.  A lane
 * matches if it equals `entry` in all bits above the lane's marker.
 *
 * In each lane, x ^ (x - 1) selects the marker and the bits below it, which are unknown.  Each
 * lane's highest bit is set before the subtraction, so no lane borrows from the next one.  An empty
 * lane has no known bit that could differ from `entry`; lanes_in_use(s, value) excludes it.  (If
 * s->ages is false, `entry` is never 0, so lanes_equal() selects no empty lane.) */
static inline uint64_t bucket_match(const struct lane_shape *s, uint64_t value, uint64_t entry)
{
  if (!s->ages)
    return lanes_equal(s, value, entry);
  uint64_t x = value | s->high, known = ~(x ^ (x - s->low));
  uint64_t difference = (value ^ s->low * entry) & known;
  return lanes_in_use(s, value) & ~lanes_in_use(s, difference);
}

/* Returns 0 if no lane matches, otherwise another number.  Takes half as many steps as
 * bucket_match().  Every entry in `value` must know at least one bit.
 *
 * In each lane, `unknown` has the marker and the bits below it (in an empty lane, all bits); it is
 * 0 if s->ages is false.  `differs` also has the bits in which the lane differs from `entry`.  So
 * `differs` - `unknown` is 0 if the lane matches or is empty.  Only then does the subtraction of 1
 * borrow, and set the lane's highest bit.  `& ~differs` excludes empty lanes, and entries that
 * differ in the highest bit.
 *
 * A lane that borrows also takes 1 from the lane above it.  If s->ages is true, this changes no
 * result: bit 0 of every lane is unknown, so `differs` - `unknown` is even there, and only 0
 * borrows.  If it is false, only the lowest lane in the result is certain to match. */
FORCE_INLINE uint64_t bucket_has_match(const struct lane_shape *s, uint64_t value, uint64_t entry)
{
  uint64_t x = value | s->high;
  uint64_t unknown = s->ages ? x ^ (x - s->low) : 0;
  uint64_t differs = (value ^ s->low * entry) | unknown;
  return (differs - unknown - s->low) & ~differs & s->high;
}

/* Returns the set of lanes whose entries begin with a 1: a split puts them into child 1. */
static inline uint64_t bucket_ones(const struct lane_shape *s, uint64_t value)
{
  return value & s->high;
}

/* Returns the bucket for child `bit` of a split: the entries whose first bit is `bit`, without that
 * bit, in the same lanes.  Each entry must know at least one bit. */
static inline uint64_t bucket_split(const struct lane_shape *s, uint64_t value, unsigned bit)
{
  uint64_t ones = bucket_ones(s, value), rest = value ^ ones;
  uint64_t of_ones = ones - (ones >> (s->width - 1));
  return (rest & (bit ? of_ones : ~of_ones)) << 1;
}

#endif
