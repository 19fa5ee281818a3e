/* SPDX-License-Identifier: MIT
 *
 * Layer 0: a bucket of a sliding window, as the value of a 64-bit word, or of half of one.
 *
 *     ┌──┬─────────────────────┬─ ─ ─┬─────────────────────┐
 *     │ 0│      lane b - 1     │     │        lane 0       │    b lanes of w bits
 *     └──┴─────────────────────┴─ ─ ─┴─────────────────────┘
 *                                   ╱                       ╲
 *                                   f f f f f f f f  s s s s      w = f + e bits
 *
 * The entry in a lane has f bits of a fingerprint, which are not all 0, and a *stamp* of e bits:
 * the period of its key's last add, as a number from 1 to G + 2.  An empty lane is 0.  Of these
 * stamps, G + 1 are those of the periods that are remembered.  The remaining one is *dead*: an
 * entry that has it is forgotten, and its lane counts as free.
 *
 * A fingerprint is passed to these functions as it stands in a lane: its lowest e bits are 0.
 *
 * All lanes of a bucket are compared at once, without a branch.
 */
#ifndef TAMIS_LIB_WINDOW_BUCKET_H
#define TAMIS_LIB_WINDOW_BUCKET_H

#include "base/compiler.h"
#include "base/lanes.h"
#include "base/small.h"

#include <stdbool.h>

enum {
  WINDOW_MOST_PERIODS = 64, /* G */
  WINDOW_MAX_WIDTH = 32,    /* of a lane */
};

struct window_shape {
  unsigned width;        /* w */
  unsigned lanes;        /* b */
  unsigned stamp_bits;   /* e */
  unsigned reciprocal;   /* 2^16 / w, rounded up: divides numbers below 2^6 exactly */
  uint64_t low, high;    /* the lowest and the highest bit of each lane */
  uint64_t fingerprints; /* all bits of the fingerprints */
  uint64_t units;        /* the lowest bit of each fingerprint */
};

/* The number of stamps with which G periods, and the one that runs, are told from the one
 * before. */
static inline unsigned window_stamps(unsigned periods)
{
  return periods + 2;
}

/* The bits that these stamps take: 0 is none of them. */
static inline unsigned window_stamp_bits(unsigned periods)
{
  return 32 - (unsigned) __builtin_clz(window_stamps(periods));
}

static inline struct window_shape window_shape(unsigned width, unsigned lanes, unsigned stamp_bits)
{
  struct window_shape s = {
      .width = width, .lanes = lanes, .stamp_bits = stamp_bits, .reciprocal = 65535 / width + 1};
  for (unsigned i = 0; i < lanes; i++)
    s.low |= UINT64_C(1) << i * width;
  s.high = s.low << (width - 1);
  s.units = s.low << stamp_bits;
  s.fingerprints = s.high - s.units + s.high;
  return s;
}

static inline unsigned window_fingerprint_bits(const struct window_shape *s)
{
  return s->width - s->stamp_bits;
}

static inline uint64_t window_lane(const struct window_shape *s, uint64_t bucket, unsigned lane)
{
  return lane_value(bucket, s->width, lane);
}

static inline unsigned window_stamp_of(const struct window_shape *s, uint64_t entry)
{
  return (unsigned) entry & ((1u << s->stamp_bits) - 1);
}

static inline uint64_t window_fingerprint_of(const struct window_shape *s, uint64_t entry)
{
  return entry >> s->stamp_bits << s->stamp_bits;
}

/* ---- sets of lanes: lanes.h ---- */

/* The lowest lane of a set, which must not be empty. */
static inline unsigned window_first(const struct window_shape *s, uint64_t set)
{
  return (unsigned) __builtin_ctzll(set) * s->reciprocal >> 16;
}

static inline unsigned window_count(uint64_t set)
{
  return (unsigned) __builtin_popcountll(set);
}

/* The lanes that are not empty: the fingerprint of an entry is never 0. */
static inline uint64_t window_used(const struct window_shape *s, uint64_t bucket)
{
  return lanes_not_zero(s->low, s->high, bucket & s->fingerprints);
}

/* Those that have the dead stamp. */
static inline uint64_t window_dead(const struct window_shape *s, uint64_t bucket, unsigned dead)
{
  uint64_t stamps = s->units - s->low; /* their bits */
  return lanes_not_zero(s->low, s->high, (bucket ^ s->low * dead) & stamps) ^ s->high;
}

/* Those that are not empty, and have another stamp. */
static inline uint64_t window_live(const struct window_shape *s, uint64_t bucket, unsigned dead)
{
  return window_used(s, bucket) & ~window_dead(s, bucket, dead);
}

/* Those into which an entry may be written. */
static inline uint64_t window_free(const struct window_shape *s, uint64_t bucket, unsigned dead)
{
  return window_live(s, bucket, dead) ^ s->high;
}

/* Those that have a fingerprint, with whatever stamp. */
static inline uint64_t window_match(const struct window_shape *s, uint64_t bucket,
                                    uint64_t fingerprint)
{
  uint64_t differs = (bucket ^ s->low * fingerprint) & s->fingerprints;
  return lanes_not_zero(s->low, s->high, differs) ^ s->high;
}

/* The bits of all lanes of a set. */
static inline uint64_t window_bits(const struct window_shape *s, uint64_t set)
{
  return set - (set >> (s->width - 1)) + set;
}

/* ---- for look-ups ---- */

static inline uint64_t window_pattern(const struct window_shape *s, uint64_t fingerprint,
                                      unsigned dead)
{
  return s->low * (fingerprint | dead);
}

/* Whether a lane has the fingerprint, and a stamp that is not dead: not 0 if so.  `pattern` has the
 * fingerprint and the dead stamp in each lane.  There may be other bits above those of the lanes.
 *
 * A lane that has the fingerprint differs from the pattern by the xor of two stamps: by 1 to 2^e -
 * 1 if its stamp is not dead.  Less 1 that has no bit in the fingerprint.  Taking a unit from the
 * fingerprint's difference then borrows, which sets the lane's highest bit, and in no other lane
 * does it do so where that bit was 0.
 *
 * A lane that equals the pattern is forgotten.  It becomes all ones, and takes 1 more from the next
 * lane, which would be missed if it had the same fingerprint.  So of the lanes of a key's two
 * buckets only one may have a certain fingerprint, with whatever stamp.
 *
 * Two fingerprints that differ in the lowest bit are then sometimes taken for each other: that of a
 * lane whose stamp is dead, and that of the lane after one that equals the pattern.  This replaces
 * false positives that these lanes would cause if their stamps were live, so the rate is no
 * higher. */
FORCE_INLINE uint64_t window_has_live(const struct window_shape *s, uint64_t bucket,
                                      uint64_t pattern)
{
  uint64_t rest = ((bucket ^ pattern) - s->low) & s->fingerprints;
  return (rest - s->units) & ~rest & s->high;
}

#endif
