/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the shape of a Bloom filter: how many bits a promise needs, and which bits belong to a
 * key.
 *
 * The bit array consists of 64-bit words, eight to a cache line ("line").  A key's bits are a short
 * sequence of probes, each a word and a mask:
 *
 *   classic   k probes of one bit each, anywhere in the array.
 *   blocked   all probes in one line, which is the key's hash scaled to the number of lines.  A key
 *             has `probes` words of the line, and `bits_per_probe` bits in each.  Several bits to a
 *             word save memory operations, as an atomic OR costs the same for one bit or three, and
 *             need a little more memory.  The words are start, start + stride, start + 2 stride ...
 *             mod 8 with an odd stride, so that keys that share one word rarely share the next.
 *   word      one probe, in one word.
 *   marked    the word layout of a filter that must not outgrow its capacity.  The highest bit of a
 *             word is no key's: it is the word's mark (word_layout.c).  It leaves 63 positions.
 *
 * All functions here are pure: values in, values out.
 */
#ifndef TAMIS_LIB_BLOOM_GEOMETRY_H
#define TAMIS_LIB_BLOOM_GEOMETRY_H

#include "base/compiler.h"
#include "base/hash.h"
#include "tamis/tamis.h"

enum { LINE_WORDS = 8, LINE_BITS = 512, LINE_BYTES = 64 };

/* -log2 of the lowest rate that 64-bit hashes can give. */
enum { BLOOM_MAX_PROBES = 64 };

/* What TAMIS_LAYOUT_WORD becomes in a filter that is not growable; of no public meaning. */
#define BLOOM_LAYOUT_MARKED ((tamis_layout) 3)

/* Marked layout: the bits of a word that keys use, and the one that they do not. */
enum { MARKED_POSITIONS = 63 };
#define WORD_MARK (UINT64_C(1) << MARKED_POSITIONS)

/* How a key's bits lie. */
struct bloom_shape {
  tamis_layout layout;
  unsigned probes;
  unsigned bits_per_probe; /* classic: 1 */
};

/* All shapes that a plan may choose for the blocked layout: probes, bits_per_probe. */
#define BLOOM_BLOCKED_SHAPES(SHAPE) \
  SHAPE(1, 1) SHAPE(1, 2) SHAPE(1, 3) SHAPE(2, 2) SHAPE(3, 2) SHAPE(3, 3) SHAPE(4, 3) SHAPE(5, 3)

/* The same for the word and the marked layout, which have one probe: bits_per_probe. */
#define BLOOM_WORD_SHAPES(SHAPE) SHAPE(1) SHAPE(2) SHAPE(3) SHAPE(4) SHAPE(5) SHAPE(6) SHAPE(7)

struct bloom_geometry {
  struct bloom_shape shape;
  uint64_t lines;
  uint64_t capacity;
  double fpp;
  uint64_t words; /* word layouts: LINE_WORDS * lines, ready for use */
};

/* Plans the smallest filter that keeps `fpp` with `capacity` keys in it.
 *   Errors  TAMIS_EINVAL: no address space holds it; TAMIS_EUNSUPPORTED: 64-bit hashes cannot give
 *           that rate, or the word layout would take more than twice the bits of the blocked one */
int bloom_geometry_plan(tamis_layout layout, uint64_t capacity, double fpp,
                        struct bloom_geometry *out);

/* The lowest rate that is planned for: the one that 64-bit hashes can give or, in the word layout,
 * the one from which on it takes at most twice the bits of the blocked layout.  (That one is found
 * by trying.) */
double bloom_geometry_lowest_rate(tamis_layout layout, uint64_t capacity);

/* The ranges of rates that have one shape each, from the lowest range up.  Returns the rate below
 * which the range ends; for the last one that is BLOOM_HIGHEST_RATE. */
#define BLOOM_HIGHEST_RATE 0.99
double bloom_geometry_range(tamis_layout layout, unsigned range);

/* The expected rate, and the expected number of set bits, with `keys` distinct keys. */
double bloom_geometry_rate(const struct bloom_geometry *g, double keys);
double bloom_geometry_bits_set(const struct bloom_geometry *g, double keys);

/* The number of distinct keys that set `bits_set` bits: the inverse of the above. */
double bloom_geometry_keys(const struct bloom_geometry *g, uint64_t bits_set);

static inline uint64_t bloom_geometry_bits(const struct bloom_geometry *g)
{
  return g->lines * LINE_BITS;
}

/* The bits of a word that keys use, and all such bits. */
static inline uint64_t bloom_geometry_key_bits(const struct bloom_geometry *g)
{
  return g->shape.layout == BLOOM_LAYOUT_MARKED ? ~WORD_MARK : UINT64_MAX;
}

static inline double bloom_geometry_usable_bits(const struct bloom_geometry *g)
{
  unsigned in_word = g->shape.layout == BLOOM_LAYOUT_MARKED ? MARKED_POSITIONS : 64;
  return (double) (g->lines * LINE_WORDS) * in_word;
}

/* Whether all bits of a key are in one word. */
FORCE_INLINE bool bloom_shape_is_word(struct bloom_shape shape)
{
  return shape.layout == TAMIS_LAYOUT_WORD || shape.layout == BLOOM_LAYOUT_MARKED;
}

static inline unsigned bloom_geometry_bits_per_key(const struct bloom_geometry *g)
{
  return g->shape.probes * g->shape.bits_per_probe;
}

/* Scales a hash to the range from 0 to n - 1 without a division: floor(hash * n / 2^64).
 * Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019) */
FORCE_INLINE uint64_t hash_to_range(uint64_t hash, uint64_t n)
{
  return (uint64_t) ((uint128) hash * n >> 64);
}

/* A key's probe sequence.
 *
 *   blocked   The line comes from the top of hash * multiplier, the rest from the mixed hash
 *             itself: 6 bits for each position, from the lowest bit up, and 6 bits for start and
 *             stride, from the highest bit down.
 *   classic   The positions are a multiplicative sequence.  Each comes from the top of the next
 *             product, which depends on all bits of the hash.
 *   word      The word comes from the top of hash * multiplier, as the blocked layout's line does.
 *             The positions are sums of 6 bits each, from the lowest bit up: a rotation moves all
 *             bits drawn so far, which takes fewer instructions than a shift for each bit, and
 *             leaves them independent.
 *   marked    As word.  If a position is the mark's, the mixed hash scaled to the 63 bits of keys
 *             replaces it.
 * Source: as in RocksDB's FastLocalBloom, with other multipliers. */
struct bloom_probes {
  uint64_t hash;
  uint64_t pattern;   /* the bits that are left for positions */
  unsigned bits_used; /* blocked: bits of the pattern that are used up */
  uint64_t line;      /* blocked: the key's line; otherwise 0 */
  unsigned word;      /* blocked: the next word in the line, mod 8 */
  unsigned stride;    /* blocked: odd, mod 8 */
};

struct bloom_probe {
  uint64_t word; /* the index in the bit array: that of the line's first word, plus offset */
  uint64_t offset;
  uint64_t positions; /* of the bits in the word, 6 bits each from the lowest up; more follows above
                  * (none in the word layouts) */
  uint64_t mask;      /* the bits at these positions */
};

enum { POSITION_BITS = 6, WORD_AND_STRIDE_BITS = 6 };

/* `shape` is that of the geometry.  A caller for which it is a constant gets straight-line code. */
FORCE_INLINE struct bloom_probes bloom_probes_begin(const struct bloom_geometry *g, uint64_t hash,
                                                    struct bloom_shape shape)
{
  struct bloom_probes probes = {.hash = hash, .pattern = hash};
  if (shape.layout == TAMIS_LAYOUT_BLOCKED) {
    probes.line = hash_to_range(hash * HASH_MULTIPLIER, g->lines);
    probes.word = (unsigned) (hash >> 61);
    probes.stride = (unsigned) (hash >> 58) | 1;
  }
  return probes;
}

/* Rotates left by n mod 64. */
FORCE_INLINE uint64_t rotate(uint64_t value, uint64_t n)
{
  return value << n % 64 | value >> -n % 64;
}

FORCE_INLINE struct bloom_probe bloom_probes_next(const struct bloom_geometry *g,
                                                  struct bloom_probes *probes,
                                                  struct bloom_shape shape)
{
  struct bloom_probe probe = {0};
  if (shape.layout == TAMIS_LAYOUT_BLOCKED) {
    unsigned bits = shape.bits_per_probe * POSITION_BITS;
    if (probes->bits_used + bits > 64 - WORD_AND_STRIDE_BITS) {
      /* The lowest bits of a product are not random enough. */
      probes->pattern = hash_spread(probes->hash) >> WORD_AND_STRIDE_BITS;
      probes->bits_used = 0;
    }
    probe.offset = probes->word % LINE_WORDS;
    probe.positions = probes->pattern;
    probes->word += probes->stride;
    probes->pattern >>= bits;
    probes->bits_used += bits;
  } else if (bloom_shape_is_word(shape)) {
    probe.word = probe.offset = hash_to_range(probes->hash * HASH_MULTIPLIER, g->words);
    for (unsigned i = 0; i < shape.bits_per_probe; i++, probes->pattern >>= POSITION_BITS) {
      probe.mask = rotate(probe.mask | 1, probes->pattern);
      FORGET_ORIGIN(probes->pattern); /* 34 instructions for a look-up instead of 41 */
    }
    if (shape.layout == BLOOM_LAYOUT_MARKED)
      probe.mask = (probe.mask & ~WORD_MARK) | (probe.mask >> MARKED_POSITIONS)
                                                   << hash_to_range(probes->hash, MARKED_POSITIONS);
    return probe;
  } else {
    probes->pattern *= HASH_MULTIPLIER;
    probe.positions = hash_to_range(probes->pattern, g->lines * LINE_BITS);
    probe.offset = probe.positions / 64;
  }
  probe.word = probes->line * LINE_WORDS + probe.offset;
  for (unsigned i = 0; i < shape.bits_per_probe; i++)
    probe.mask |= UINT64_C(1) << (probe.positions >> i * POSITION_BITS) % 64;
  return probe;
}

/* Bit 0 of the result says whether a word has all bits of a probe; the other bits are meaningless.
 * For a look-up in the blocked and the classic layout this is less work than the mask. */
FORCE_INLINE uint64_t bloom_probe_matches(uint64_t value, struct bloom_probe probe,
                                          struct bloom_shape shape)
{
  uint64_t all = 1;
  for (unsigned i = 0; i < shape.bits_per_probe; i++)
    all &= value >> (probe.positions >> i * POSITION_BITS) % 64;
  return all;
}

#endif
