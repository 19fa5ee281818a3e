/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the shape of a Bloom filter.  How many bits a promise needs, and which bits a key has.
 *
 * The bit array is made of 64-bit words, eight to a cache line ("line").  A key's bits are a short
 * series of probes, each a word and a mask:
 *
 *   classic   k probes of one bit each, anywhere in the array
 *   blocked   all probes in one line: line = the key's hash scaled to the number of lines, then
 *             `probes` different words of it, `bits_per_probe` bits in each.  Several bits to a
 *             word save memory operations (an atomic OR costs the same for one bit or three) at
 *             1 to 3 % more memory; the words are start, start + stride, start + 2 stride ... mod 8
 *             with an odd stride, so that keys that share a word rarely share the next.
 *
 * Everything here is values in, values out.
 */
#ifndef TAMIS_LIB_BLOOM_GEOMETRY_H
#define TAMIS_LIB_BLOOM_GEOMETRY_H

#include "base/hash.h"
#include "tamis/tamis.h"

enum { LINE_WORDS = 8, LINE_BITS = 512, LINE_BYTES = 64 };

/* -log2 of the lowest rate that 64-bit hashes allow. */
enum { BLOOM_MAX_PROBES = 64 };

/* How a key's bits lie. */
struct bloom_shape {
  tamis_layout layout;
  unsigned probes;         /* words looked at for a key */
  unsigned bits_per_probe; /* bits looked at in each; classic: 1 */
};

/* All shapes that a plan may choose for the blocked layout: probes, bits_per_probe. */
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
  return g->shape.probes * g->shape.bits_per_probe;
}

/* floor(hash * n / 2^64): a hash scaled to 0 .. n-1 without a division.
 * Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019) */
static inline uint64_t scale(uint64_t hash, uint64_t n)
{
  return (uint64_t) ((uint128) hash * n >> 64);
}

/* A key's bits, one probe after the other.
 *
 *   blocked   the line is from the top of hash * multiplier, the rest from the mixed hash itself:
 *             6 bits a position from the lowest on, 6 for the words from the highest on
 *   classic   a multiplicative sequence: each position is from the top of the next product, which
 *             depends on all bits of the hash
 * Source: as in RocksDB's FastLocalBloom, with other multipliers. */
struct bloom_probes {
  uint64_t hash;
  uint64_t pattern; /* what is left for positions */
  unsigned taken;   /* blocked: bits of the pattern that are used up */
  uint64_t line;    /* blocked: the key's; classic: 0 */
  unsigned word;    /* blocked: next word in the line, mod 8 */
  unsigned stride;  /* blocked: odd, mod 8 */
};

struct bloom_probe {
  uint64_t word; /* line + offset */
  uint64_t offset;
  uint64_t positions; /* of the bits in the word, 6 bits each from the lowest on; more above */
  uint64_t mask;      /* the same bits, set */
};

enum { POSITION_BITS = 6, WORD_AND_STRIDE_BITS = 6 };

/* The shape is that of the geometry; a caller that knows it as a constant gets straight code. */
static inline struct bloom_probes bloom_probes_begin(const struct bloom_geometry *g, uint64_t hash,
                                                     struct bloom_shape shape)
{
  struct bloom_probes probes = {.hash = hash, .pattern = hash};
  if (shape.layout == TAMIS_LAYOUT_BLOCKED) {
    probes.line = scale(hash * HASH_MULTIPLIER, g->lines);
    probes.word = (unsigned) (hash >> 61);
    probes.stride = (unsigned) (hash >> 58) | 1;
  }
  return probes;
}

static inline struct bloom_probe bloom_probes_next(const struct bloom_geometry *g,
                                                   struct bloom_probes *probes,
                                                   struct bloom_shape shape)
{
  struct bloom_probe probe = {0};
  if (shape.layout == TAMIS_LAYOUT_BLOCKED) {
    unsigned bits = shape.bits_per_probe * POSITION_BITS;
    if (probes->taken + bits >
        64 - WORD_AND_STRIDE_BITS) { /* the low bits of a product are no good */
      probes->pattern = hash_spread(probes->hash) >> WORD_AND_STRIDE_BITS;
      probes->taken = 0;
    }
    probe.offset = probes->word % LINE_WORDS;
    probe.positions = probes->pattern;
    probes->word += probes->stride;
    probes->pattern >>= bits;
    probes->taken += bits;
  } else {
    probes->pattern *= HASH_MULTIPLIER;
    probe.positions = scale(probes->pattern, g->lines * LINE_BITS);
    probe.offset = probe.positions / 64;
  }
  probe.word = probes->line * LINE_WORDS + probe.offset;
  for (unsigned i = 0; i < shape.bits_per_probe; i++)
    probe.mask |= UINT64_C(1) << (probe.positions >> i * POSITION_BITS) % 64;
  return probe;
}

/* Whether a word has all bits of a probe, as the lowest bit; the others mean nothing.  For a look-up
 * this is less work than the mask. */
static inline uint64_t bloom_probe_matches(uint64_t value, struct bloom_probe probe,
                                           struct bloom_shape shape)
{
  uint64_t all = 1;
  for (unsigned i = 0; i < shape.bits_per_probe; i++)
    all &= value >> (probe.positions >> i * POSITION_BITS) % 64;
  return all;
}

#endif
