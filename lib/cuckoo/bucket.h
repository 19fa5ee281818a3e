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
 *     f f f f f f f 1        new: w − 1 bits of the fingerprint, and the marker
 *     f f f f f f 1 0        after one step: the first bit has moved into the segment's prefix
 *     f f f f f 1 0 0        the marker is the lowest set bit: the bits above it are known
 *
 * An entry matches every fingerprint that begins with its known bits.  Because of the marker, a
 * lane in use is never 0.  In a fixed filter, entries do not age and have no marker.  Another bit
 * of the fingerprint is in the marker's position, and an entry that would be 0 is stored as 1.
 *
 * Lanes and sets of lanes: table/lanes.h.
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

/* A new entry for a fingerprint that begins at bit 63. */
static inline uint64_t bucket_entry(const struct lane_shape *s, uint64_t fingerprint)
{
  uint64_t entry = fingerprint >> (s->shift & 63);
  return s->ages ? entry | 1 : entry + (entry == 0);
}

/* The number of steps that an entry has aged; 0 where entries do not age. */
static inline unsigned bucket_age(const struct lane_shape *s, uint64_t entry)
{
  return s->ages ? (unsigned) __builtin_ctzll(entry) : 0;
}

/* The set of lanes whose entry matches a key.  `entry` is a new entry for the key.  A lane matches
 * if it equals `entry` in all bits that the lane still knows.
 *
 * In each lane, x ^ (x - 1) selects the marker and the bits below it, which are the unknown bits.
 * Each lane's highest bit is set before the subtraction, so no lane borrows from the next one.  An
 * empty lane has no known bits and so never differs from `entry`; lanes_in_use(s, value) excludes
 * it.  (If entries do not age, `entry` is never 0, so lanes_equal() selects no empty lane.) */
static inline uint64_t bucket_match(const struct lane_shape *s, uint64_t value, uint64_t entry)
{
  if (!s->ages)
    return lanes_equal(s, value, entry);
  uint64_t x = value | s->high, known = ~(x ^ (x - s->low));
  uint64_t difference = (value ^ s->low * entry) & known;
  return lanes_in_use(s, value) & ~lanes_in_use(s, difference);
}

/* Returns 0 only if no lane matches.  Takes half as many steps as bucket_match().  Every entry in
 * `value` must know at least one bit.
 *
 * In each lane, `unknown` has the marker and the bits below it (in an empty lane, all bits); it is
 * 0 if entries do not age.  `differs` also has the bits in which the lane differs from `entry`.  So
 * `differs` - `unknown` is 0 if the lane matches or is empty.  Only then does the subtraction of 1
 * borrow, and set the lane's highest bit.  `& ~differs` excludes empty lanes, and lanes whose entry
 * differs in the highest bit.
 *
 * A lane that borrows takes 1 from the next lane, besides the 1 that is subtracted there.  If
 * entries age, this changes no result: bit 0 of every lane is unknown, so the next lane's value is
 * even, and borrows only if it is 0.  If entries do not age, only the lowest lane in the result is
 * certain to match. */
FORCE_INLINE uint64_t bucket_has_match(const struct lane_shape *s, uint64_t value, uint64_t entry)
{
  uint64_t x = value | s->high;
  uint64_t unknown = s->ages ? x ^ (x - s->low) : 0;
  uint64_t differs = (value ^ s->low * entry) | unknown;
  return (differs - unknown - s->low) & ~differs & s->high;
}

/* The lanes whose entries a split puts into child 1: the first bit of these entries is 1. */
static inline uint64_t bucket_ones(const struct lane_shape *s, uint64_t value)
{
  return value & s->high;
}

/* The bucket that a split writes into child `bit`: the entries whose first bit is `bit`, in their
 * lanes, one step older.  Each entry must know at least one bit. */
static inline uint64_t bucket_split(const struct lane_shape *s, uint64_t value, unsigned bit)
{
  uint64_t ones = bucket_ones(s, value), rest = value ^ ones; /* `rest`: without highest bits */
  uint64_t of_ones = ones - (ones >> (s->width - 1));
  return (rest & (bit ? of_ones : ~of_ones)) << 1;
}

#endif
