/* SPDX-License-Identifier: MIT
 *
 * Layer 0: a bucket of a sliding window, as the value of a 64-bit word, or of half of one.  A lane
 * (table/lanes.h) has f bits of a fingerprint, which are not all 0, and e bits of a *stamp*:
 *
 *                                   ╱       lane        ╲
 *                                   f f f f f f f f  s s s s      w = f + e bits
 *
 * In a window of G periods, the stamp is a number from 1 to G + 2.  It names the period of the
 * key's last add or, for a key to be forgotten sooner, an earlier period (insert.c).  G + 1 stamps
 * name the remembered periods and the running one.  Entries with the other stamp, which is *dead*,
 * are forgotten, and their lanes are free.
 *
 * These functions take a fingerprint as it is stored in a lane: its lowest e bits are 0.
 */
#ifndef TAMIS_LIB_WINDOW_BUCKET_H
#define TAMIS_LIB_WINDOW_BUCKET_H

#include "base/compiler.h"
#include "table/lanes.h"

#include <stdbool.h>

enum { WINDOW_MOST_PERIODS = 64 /* the most periods, G, of a window */ };

struct window_shape {
  struct lane_shape lane;
  unsigned stamp_bits;   /* e: the number of bits in a stamp */
  uint64_t fingerprints; /* the fingerprint bits of all lanes */
  uint64_t units;        /* the lowest fingerprint bit of each lane */
};

static inline unsigned window_stamps(unsigned periods)
{
  return periods + 2;
}

static inline unsigned window_stamp_bits(unsigned periods)
{
  return 32 - (unsigned) __builtin_clz(window_stamps(periods));
}

static inline struct window_shape window_shape(unsigned width, unsigned lanes, unsigned stamp_bits)
{
  struct window_shape s = {.lane = lane_shape(width, lanes, false), .stamp_bits = stamp_bits};
  s.units = s.lane.low << stamp_bits;
  s.fingerprints = s.lane.high - s.units + s.lane.high;
  return s;
}

static inline unsigned window_fingerprint_bits(const struct window_shape *s)
{
  return s->lane.width - s->stamp_bits;
}

static inline unsigned window_stamp_of(const struct window_shape *s, uint64_t entry)
{
  return (unsigned) entry & ((1u << s->stamp_bits) - 1);
}

static inline uint64_t window_fingerprint_of(const struct window_shape *s, uint64_t entry)
{
  return entry >> s->stamp_bits << s->stamp_bits;
}

static inline uint64_t window_used(const struct window_shape *s, uint64_t bucket)
{
  return lanes_not_zero(s->units, s->lane.high, bucket);
}

/* The lanes that have this fingerprint, with any stamp. */
static inline uint64_t window_match(const struct window_shape *s, uint64_t bucket,
                                    uint64_t fingerprint)
{
  return window_used(s, bucket ^ s->lane.low * fingerprint) ^ s->lane.high;
}

static inline uint64_t window_dead(const struct window_shape *s, uint64_t bucket, unsigned dead)
{
  uint64_t stamps = s->units - s->lane.low; /* the bits of all stamps */
  return lanes_not_zero(s->lane.low, s->lane.high, (bucket ^ s->lane.low * dead) & stamps) ^
         s->lane.high;
}

/* The lanes whose stamp is at least `least`, which must not exceed 2^stamp_bits. */
static inline uint64_t window_from_stamp(const struct window_shape *s, uint64_t bucket,
                                         unsigned least)
{
  uint64_t stamps = s->units - s->lane.low;
  uint64_t from = (((bucket & stamps) | s->units) - s->lane.low * least) & s->units;
  return from << (s->lane.width - 1 - s->stamp_bits);
}

/* The lanes whose stamp is outside the range from `first` to `last`, which may wrap round to 1. */
static inline uint64_t window_beyond(const struct window_shape *s, uint64_t bucket, unsigned first,
                                     unsigned last)
{
  uint64_t from = window_from_stamp(s, bucket, first),
           after = window_from_stamp(s, bucket, last + 1);
  return (first <= last ? from & ~after : from | ~after) ^ s->lane.high;
}

static inline uint64_t window_live(const struct window_shape *s, uint64_t bucket, unsigned dead)
{
  return window_used(s, bucket) & ~window_dead(s, bucket, dead);
}

/* The lanes into which an entry may be written, because they are empty or have the dead stamp. */
static inline uint64_t window_free(const struct window_shape *s, uint64_t bucket, unsigned dead)
{
  return window_live(s, bucket, dead) ^ s->lane.high;
}

static inline uint64_t window_pattern(const struct window_shape *s, uint64_t fingerprint,
                                      unsigned dead)
{
  return s->lane.low * (fingerprint | dead);
}

/* Returns a number other than 0 if a lane has the fingerprint and a live stamp.  `pattern` comes
 * from window_pattern().  Bits above the lanes are ignored.
 *
 * 1. In a lane with the fingerprint and a live stamp, the xor with the pattern leaves 0 in the bits
 *    of the fingerprint, and 1 to 2^e - 1 in those of the stamp.  Subtracting 1 leaves the
 *    fingerprint's bits 0.  Subtracting the lane's unit then borrows, and so sets the lane's
 *    highest bit.
 * 2. In any other lane, the highest bit is set afterwards only if it was set before.
 * 3. In a lane with the fingerprint and the dead stamp, the xor is 0.  Subtracting 1 makes the lane
 *    all ones, and borrows 1 from the next lane.  If the next lane had the same fingerprint, the
 *    look-up would miss it.  So *only one lane of a key's two buckets has the key's fingerprint*,
 *    live or dead: an add that finds a dead lane with its key's fingerprint uses this lane.
 *
 * The result is also not 0 if a lane's fingerprint differs from the key's in the lowest bit, and
 * the lane has the dead stamp or follows a lane of case 3.  Such a lane matches the key's
 * fingerprint instead of its own, so the false-positive rate is no higher. */
FORCE_INLINE uint64_t window_has_live(const struct window_shape *s, uint64_t bucket,
                                      uint64_t pattern)
{
  uint64_t rest = ((bucket ^ pattern) - s->lane.low) & s->fingerprints;
  return (rest - s->units) & ~rest & s->lane.high;
}

#endif
