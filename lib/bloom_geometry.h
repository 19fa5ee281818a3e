/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the shape of a Bloom filter.  How many bits a promise needs, and which bits a key has.
 *
 * The bit array is made of 64-bit words, eight to a cache line ("line").  A key's bits are a short
 * series of touches, each a word and a mask:
 *
 *   classic   k touches of one bit each, anywhere in the array
 *   blocked   all touches in one line: line = the key's hash scaled to the number of lines, then
 *             `touches` different words of it, `bits_per_touch` bits in each.  Several bits to a
 *             word save memory operations (an atomic OR costs the same for one bit or three) at
 *             1 to 3 % more memory; the words are start, start + stride, start + 2 stride ... mod 8
 *             with an odd stride, so that keys that share a word rarely share the next.
 *
 * Everything here is values in, values out.
 */
#ifndef TAMIS_LIB_BLOOM_GEOMETRY_H
#define TAMIS_LIB_BLOOM_GEOMETRY_H

#include "tamis/tamis.h"

enum { LINE_WORDS = 8, LINE_BITS = 512, LINE_BYTES = 64 };

/* -log2 of the lowest rate that 64-bit hashes allow. */
enum { BLOOM_MAX_TOUCHES = 64 };

/* How a key's bits lie. */
struct bloom_shape {
  tamis_layout layout;
  unsigned touches;        /* words looked at for a key */
  unsigned bits_per_touch; /* bits looked at in each; classic: 1 */
};

/* All shapes that a plan may choose for the blocked layout: touches, bits_per_touch. */
#define BLOOM_BLOCKED_SHAPES(SHAPE) \
  SHAPE(1, 1) SHAPE(1, 2) SHAPE(1, 3) SHAPE(2, 2) SHAPE(3, 2) SHAPE(3, 3) SHAPE(4, 3) SHAPE(5, 3)

struct bloom_geometry {
  struct bloom_shape shape;
  uint64_t lines;
  uint64_t capacity;
  double fpp;
};

/* The smallest shape that keeps `fpp` with `capacity` keys in it.  TAMIS_OK, TAMIS_EINVAL (no
 * address space holds it) or TAMIS_EUNSUPPORTED (hashes of 64 bits cannot give that rate). */
int bloom_geometry_plan(tamis_layout layout, uint64_t capacity, double fpp,
                        struct bloom_geometry *out);

/* The ranges of rates with one shape each, from the lowest up: range i ends below the rate that is
 * returned, the last one at BLOOM_HIGHEST_RATE. */
#define BLOOM_HIGHEST_RATE 0.99
double bloom_geometry_range(tamis_layout layout, unsigned range);

/* Expected rate, and expected number of set bits, with `keys` distinct keys added. */
double bloom_geometry_rate(const struct bloom_geometry *g, double keys);
double bloom_geometry_bits_set(const struct bloom_geometry *g, double keys);

/* How many distinct keys make `bits_set` set bits: the inverse of the above. */
double bloom_geometry_keys(const struct bloom_geometry *g, uint64_t bits_set);

static inline uint64_t bloom_geometry_bits(const struct bloom_geometry *g)
{
  return g->lines * LINE_BITS;
}

static inline unsigned bloom_geometry_bits_per_key(const struct bloom_geometry *g)
{
  return g->shape.touches * g->shape.bits_per_touch;
}

/* floor(hash * n / 2^64): a hash scaled to 0 .. n-1 without a division.
 * Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019) */
static inline uint64_t scale(uint64_t hash, uint64_t n)
{
  return (uint64_t) ((unsigned __int128) hash * n >> 64);
}

/* A key's bits, one touch after the other.  The pattern is a multiplicative sequence: each touch
 * uses the top bits of the next product, which depend on all bits of the hash.
 * Source: as in RocksDB's FastLocalBloom; multiplier from Steele and Vigna, "Computationally easy,
 * spectrally good multipliers for congruential pseudorandom number generators" (2022) */
struct bloom_walk {
  uint64_t pattern;
  uint64_t line;   /* blocked: first word of the key's line */
  unsigned word;   /* blocked: next word in the line, mod 8 */
  unsigned stride; /* blocked: odd, mod 8 */
};

struct bloom_touch {
  uint64_t word;
  uint64_t mask;
};

#define BLOOM_MULTIPLIER UINT64_C(0xD1342543DE82EF95)

/* The shape is that of the geometry; a caller that knows it as a constant gets straight code. */
static inline struct bloom_walk bloom_walk_begin(const struct bloom_geometry *g, uint64_t hash,
                                                 struct bloom_shape shape)
{
  struct bloom_walk walk = {.pattern = hash * BLOOM_MULTIPLIER};
  if (shape.layout == TAMIS_LAYOUT_BLOCKED) {
    walk.line = scale(hash, g->lines) * LINE_WORDS;
    walk.word = (unsigned) (walk.pattern >> 61);
    walk.stride = (unsigned) (walk.pattern >> 58) | 1;
    walk.pattern *= BLOOM_MULTIPLIER;
  }
  return walk;
}

static inline struct bloom_touch bloom_walk_next(const struct bloom_geometry *g,
                                                 struct bloom_walk *walk, struct bloom_shape shape)
{
  struct bloom_touch touch = {0, 0};
  if (shape.layout == TAMIS_LAYOUT_BLOCKED) {
    uint64_t positions = walk->pattern;
    for (unsigned i = 0; i < shape.bits_per_touch; i++, positions <<= 6)
      touch.mask |= UINT64_C(1) << (positions >> 58);
    touch.word = walk->line + walk->word % LINE_WORDS;
    walk->word += walk->stride;
  } else {
    uint64_t position = scale(walk->pattern, g->lines * LINE_BITS);
    touch.mask = UINT64_C(1) << position % 64;
    touch.word = position / 64;
  }
  walk->pattern *= BLOOM_MULTIPLIER;
  return touch;
}

#endif
