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
 *     f f f f f 1 0 0        the lowest set bit is the marker, so it says how many bits are known
 *
 * An entry stands for every fingerprint that begins with its bits.  A lane in use is never 0, and
 * no fingerprint is forbidden.  In a filter that never grows, entries do not age.  Then one more
 * bit of the fingerprint takes the position of the marker, and a fingerprint of 0 is stored as 1.
 *
 * Lanes and sets of lanes: table/lanes.h.
 */
#ifndef TAMIS_LIB_BUCKET_H
#define TAMIS_LIB_BUCKET_H

#include "base/compiler.h"
#include "base/small.h"
#include "table/lanes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUCKET_MIN_WIDTH = 2 };

static inline struct lane_shape bucket_shape(unsigned width, bool ages)
{
  return lane_shape(width, 64 / width, ages);
}

/* ---- entries ---- */

/* A new entry for a fingerprint, whose first bit is bit 63. */
static inline uint64_t bucket_entry(const struct lane_shape *s, uint64_t fingerprint)
{
  uint64_t entry = fingerprint >> (s->shift & 63);
  return s->ages ? entry | 1 : entry + (entry == 0);
}

/* How many steps an entry has aged.  0 for entries that cannot. */
static inline unsigned bucket_age(const struct lane_shape *s, uint64_t entry)
{
  return s->ages ? (unsigned) __builtin_ctzll(entry) : 0;
}

/* The lanes whose entry stands for what the new entry `entry` stands for: those that are equal to
 * it in all bits that the lane still knows.
 *
 * x ^ (x - 1) has the marker and the bits below it: the part that is not known.  Before the
 * subtraction the highest bit of each lane is set, so that no lane borrows from another, not even
 * an empty one.  An empty lane then knows nothing, and so it matches; it is left out at the end.
 * (Where entries do not age, no entry is 0, so an empty lane does not match.) */
static inline uint64_t bucket_match(const struct lane_shape *s, uint64_t value, uint64_t entry)
{
  if (!s->ages)
    return lanes_equal(s, value, entry);
  uint64_t x = value | s->high, known = ~(x ^ (x - s->low));
  uint64_t difference = (value ^ s->low * entry) & known;
  return lanes_in_use(s, value) & ~lanes_in_use(s, difference);
}

/* Whether there are such lanes: not 0 if so.  It takes half as many steps as bucket_match().  Every
 * entry must know at least one bit.
 *
 * In each lane, the difference in the known bits is `differs` less `unknown`.  Taking 1 from it
 * borrows only if it is 0: then the lane matches, or it is empty.  The borrow sets the highest bit
 * of the lane.  Lanes in which `differs` has that bit are left out: either their entry differs in
 * it, or they are empty, and all of them is unknown.
 *
 * A lane that borrows takes 1 more from the next lane.  If entries age, bit 0 of every lane is
 * unknown, so the difference there is even, and 1 more borrows only if it is 0 in any case.  If
 * entries do not age, only a match borrows, and the answer is settled. */
FORCE_INLINE uint64_t bucket_has_match(const struct lane_shape *s, uint64_t value, uint64_t entry)
{
  uint64_t x = value | s->high;
  uint64_t unknown = s->ages ? x ^ (x - s->low) : 0;
  uint64_t differs = (value ^ s->low * entry) | unknown;
  return (differs - unknown - s->low) & ~differs & s->high;
}

/* ---- growing and shrinking ---- */

/* The lanes whose entries a split gives to the child for fingerprints beginning with 1. */
static inline uint64_t bucket_ones(const struct lane_shape *s, uint64_t value)
{
  return value & s->high;
}

/* What a split gives to the child for fingerprints beginning with `bit`.  Each entry is one step
 * older and stays in its lane; the other lanes are empty.  Every entry must know at least one
 * bit. */
static inline uint64_t bucket_split(const struct lane_shape *s, uint64_t value, unsigned bit)
{
  uint64_t ones = bucket_ones(s, value), rest = value ^ ones; /* but for the highest bits */
  uint64_t of_ones = ones - (ones >> (s->width - 1));
  return (rest & (bit ? of_ones : ~of_ones)) << 1;
}

/* An entry one step younger, for a join: `bit` is known again.  A new entry has no room for it, and
 * gives up its last bit. */
static inline uint64_t bucket_rejuvenate(const struct lane_shape *s, uint64_t entry, unsigned bit)
{
  return (uint64_t) bit << (s->width - 1) | entry >> 1 | (entry & 1);
}

#endif
