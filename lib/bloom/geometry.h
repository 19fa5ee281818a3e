/* SPDX-License-Identifier: MIT
 *
 * Layer 0: how many bits a Bloom filter needs for a promised rate, and which bits belong to a key.
 *
 * The bit array consists of 64-bit words, eight to a cache line ("line").  A key's bits are a short
 * sequence of probes, each a word and a mask (docs/internals/bloom.md describes the layouts):
 *
 *   blocked   all probes in one line: `probes` words, with `bits_per_probe` bits in each.  Each
 *             later word depends on the word before it and on the key's *spread*, 0 to 3.  The bits
 *             form one pattern, which has another rotation in each word.  So a look-up rotates the
 *             words back, takes their AND, and tests the pattern once.  For low rates the array has
 *             several *sections*, in each of which another hash chooses the key's line.
 *   classic   like blocked, with one word and two bits in each of many sections.
 *   word      one probe, in one word.
 *   marked    the word layout of a fixed filter.  The highest bit of a word belongs to no key: it
 *             is the word's mark (word_layout.h).
 *   counting  the blocked layout with a counter of four bits in place of each bit: a line has 128
 *             positions, 16 in each word.  A mask has the lowest bit of each of the key's counters.
 *
 * All functions in this file read and write nothing but their arguments.
 */
#ifndef TAMIS_LIB_BLOOM_GEOMETRY_H
#define TAMIS_LIB_BLOOM_GEOMETRY_H

#include "base/compiler.h"
#include "base/hash.h"
#include "tamis/tamis.h"

enum { LINE_WORDS = 8, LINE_BITS = 512, LINE_BYTES = 64 };

/* Two bits in each of 32 sections give the rate 2^-64.  64-bit hashes allow no lower rate. */
enum { BLOOM_MAX_SECTIONS = 32, BLOOM_MAX_PROBES = 5 };

/* Layouts that the API does not name: of fixed word filters, and of counting Bloom filters. */
#define BLOOM_LAYOUT_MARKED ((tamis_layout) 3)
#define BLOOM_LAYOUT_COUNTING ((tamis_layout) 4)

/* The number of bits in a word that belong to keys in the marked layout: all but the mark. */
enum { MARKED_POSITIONS = 63 };
#define WORD_MARK (UINT64_C(1) << MARKED_POSITIONS)

/* How the bits of a key are spread over the array. */
struct bloom_shape {
  tamis_layout layout;
  unsigned probes; /* the number of a key's probes in each section */
  unsigned bits_per_probe;
  unsigned sections; /* above 1 only in the blocked and the classic layout */
};

/* SHAPE(probes, bits_per_probe) for all shapes of the blocked layout with one section. */
#define BLOOM_BLOCKED_SHAPES(SHAPE) \
  SHAPE(1, 1) SHAPE(1, 2) SHAPE(1, 3) SHAPE(2, 2) SHAPE(2, 3) SHAPE(3, 3) SHAPE(4, 3)

/* If there are several sections, the shape of each: in the blocked layout, and in the classic. */
enum { SECTION_PROBES = 3, SECTION_BITS = 3, MAX_BLOCKED_SECTIONS = 5 };
enum { CLASSIC_PROBES = 1, CLASSIC_BITS = 2 };

#define BLOOM_COUNTING_SHAPES(SHAPE) \
  SHAPE(1, 1) SHAPE(1, 2) SHAPE(2, 2) SHAPE(3, 2) SHAPE(4, 2) SHAPE(5, 2)

/* SHAPE(bits_per_probe) for all shapes of the word and the marked layout. */
#define BLOOM_WORD_SHAPES(SHAPE) SHAPE(1) SHAPE(2) SHAPE(3) SHAPE(4) SHAPE(5) SHAPE(6) SHAPE(7)

struct bloom_geometry {
  struct bloom_shape shape;
  uint64_t capacity;
  double fpp;         /* the promised rate */
  uint64_t words;     /* the number of words in all lines, a multiple of LINE_WORDS */
  uint64_t most_keys; /* the limit of a fixed filter: bloom_geometry_most_keys() */
};

/* Plans the smallest filter that keeps `fpp` with `capacity` keys.
 *   Errors  TAMIS_EINVAL: no address space holds the filter; TAMIS_EUNSUPPORTED: 64-bit hashes
 *           cannot give the rate, or the word layout would take more than twice the bits of the
 *           blocked one, or the counting layout has no range with the rate */
int bloom_geometry_plan(tamis_layout layout, uint64_t capacity, double fpp,
                        struct bloom_geometry *out);

/* Returns 6 / (pi i)^2, the share of layer i in the filter's rate.  All shares add up to 1. */
double bloom_geometry_share(unsigned layer);

/* Plans layer `layer` of a filter that keeps `fpp`.  The layer counts `capacity` keys within its
 * share of `fpp`.  In the word layout, later layers are blocked, because their rates are low.  A
 * first word layer may get too few bits, and then uses up its share with fewer keys.  If 64-bit
 * hashes cannot give the share of a first layer, the function plans this layer for all of `fpp`.
 *   Errors  those of bloom_geometry_plan(); for a first layer, those of a plan for all of `fpp` */
int bloom_geometry_plan_layer(tamis_layout layout, unsigned layer, uint64_t capacity, double fpp,
                              struct bloom_geometry *out);

/* Above this rate, a filter's first layer is planned for its share, and below it for the whole
 * rate, which takes fewer bytes. */
static inline double bloom_geometry_shared_above(uint64_t capacity)
{
  return hash_collision_rate(capacity) / bloom_geometry_share(1);
}

/* Returns the layout's lowest rate, or 0 if the layout has none (blocked and classic). */
double bloom_geometry_layout_begins(tamis_layout layout);

/* Returns the lower end of the next higher range of rates, or 1.  Each range has one shape. */
double bloom_geometry_next_shape(tamis_layout layout, double rate);

/* The expected rate, and the expected number of set bits, of a filter with `keys` keys. */
double bloom_geometry_rate(const struct bloom_geometry *g, double keys);
double bloom_geometry_bits_set(const struct bloom_geometry *g, double keys);

/* The inverse of bloom_geometry_bits_set(): returns how many distinct keys set `bits_set` bits. */
double bloom_geometry_keys(const struct bloom_geometry *g, uint64_t bits_set);

/* Computes the figures in *out that follow from out->bits_set. */
void bloom_geometry_estimate(const struct bloom_geometry *g, tamis_stats *out);

/* A position of a word has one bit or, in the counting layout, a counter of four bits. */
enum { COUNTER_BITS = 4 };
FORCE_INLINE unsigned bloom_shape_width(struct bloom_shape shape)
{
  return shape.layout == BLOOM_LAYOUT_COUNTING ? COUNTER_BITS : 1;
}

/* Returns a word in which the lowest bit of each position is set if the position is not 0. */
FORCE_INLINE uint64_t bloom_positions_set(uint64_t bits, tamis_layout layout)
{
  if (layout != BLOOM_LAYOUT_COUNTING)
    return bits;
  bits |= bits >> 1;
  return (bits | bits >> 2) & UINT64_C(0x1111111111111111);
}

/* The number of positions in the whole filter: bits or, in the counting layout, counters. */
static inline uint64_t bloom_geometry_bits(const struct bloom_geometry *g)
{
  return g->words * (64 / bloom_shape_width(g->shape));
}

static inline uint64_t bloom_key_bits(tamis_layout layout)
{
  return layout == BLOOM_LAYOUT_MARKED ? ~WORD_MARK : UINT64_MAX;
}

/* Returns the number of words in each section of a filter of `words` words.  If a key has several
 * words in a section, the section consists of whole lines. */
FORCE_INLINE uint64_t bloom_section_words(struct bloom_shape shape, uint64_t words)
{
  if (shape.sections == 1)
    return words;
  uint64_t each = words / shape.sections;
  return shape.probes > 1 ? each - each % LINE_WORDS : each;
}

static inline double bloom_geometry_usable_bits(const struct bloom_geometry *g)
{
  unsigned in_word =
      g->shape.layout == BLOOM_LAYOUT_MARKED ? MARKED_POSITIONS : 64 / bloom_shape_width(g->shape);
  return (double) (bloom_section_words(g->shape, g->words) * g->shape.sections) * in_word;
}

FORCE_INLINE bool bloom_shape_is_word(struct bloom_shape shape)
{
  return shape.layout == TAMIS_LAYOUT_WORD || shape.layout == BLOOM_LAYOUT_MARKED;
}

static inline tamis_layout bloom_geometry_public_layout(const struct bloom_geometry *g)
{
  return bloom_shape_is_word(g->shape)             ? TAMIS_LAYOUT_WORD
         : g->shape.layout == TAMIS_LAYOUT_CLASSIC ? TAMIS_LAYOUT_CLASSIC
                                                   : TAMIS_LAYOUT_BLOCKED;
}

static inline unsigned bloom_shape_bits_per_key(struct bloom_shape shape)
{
  return shape.sections * shape.probes * shape.bits_per_probe;
}

/* Scales a hash to the range from 0 to n - 1 without a division: floor(hash * n / 2^64).
 * Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019) */
FORCE_INLINE uint64_t hash_to_range(uint64_t hash, uint64_t n)
{
  return upper_half((uint128) hash * n);
}

/* A key's probe sequence.
 *
 *   blocked   The top bits of hash * multiplier choose the first word.  The mixed hash itself gives
 *             everything else: 6 bits for each rotation, from the lowest bit up; 5 bits for each
 *             distance in the pattern, from bit 30 up; and the highest 2 bits for the spread.
 *   counting  Like blocked, but rotations and distances are multiples of four, as a counter has
 *             four bits.  So a rotation depends on 4 bits of the hash, and a distance on 3.
 *   sections  Each later section uses hash_spread() of the hash of the section before it.
 *   word      The top bits of hash * multiplier choose the word, as in the blocked layout.  Each
 *             bit of the key takes 6 bits of the hash, from the lowest bit up: they rotate the mask
 *             of all bits so far.  This takes fewer instructions than a shift for each bit.
 *   marked    Like word, but a bit at the mark's position moves to hash_to_range(hash, 63).
 * Source: RocksDB's FastLocalBloom, which has other multipliers. */
struct bloom_probes {
  uint64_t hash;      /* the mixed hash of this section */
  uint64_t rotations; /* the bits of the hash that are left for later rotations */
  uint64_t pattern;   /* the bits of the key in a word, before the rotation */
  uint64_t word;      /* the next word of the key, counted from the start of the section */
  uint64_t spread;    /* the spread of the key: 0 to 3 */
  unsigned next;      /* the number of the next probe in the section */
  uint64_t begin;     /* the index of the section's first word */
};

struct bloom_probe {
  uint64_t word;     /* the index in the bit array */
  unsigned rotation; /* by how many bits the pattern is rotated to the left */
  uint64_t mask;
};

enum { ROTATION_BITS = 6, DISTANCE_BITS = 5, DISTANCES_FROM_BIT = 30, SPREAD_FROM_BIT = 62 };

/* For the words of a key: index[i + 1] = index[i] ^ (spread + bloom_steps[i]).  With these
 * constants the words differ for every spread, and all shapes had low rates in simulations. */
static const unsigned char bloom_steps[] = {2, 3, 4, 2};

FORCE_INLINE uint64_t rotate_left(uint64_t x, unsigned by)
{
  return x << by % 64 | x >> -by % 64;
}

FORCE_INLINE uint64_t rotate_right(uint64_t x, unsigned by)
{
  return x >> by % 64 | x << -by % 64;
}

/* The first bit of a pattern is bit 32.  The second is any of the 32 bits below it, so that their
 * distance, which rotation keeps, is any from 1 to 32.  The third is any odd-numbered bit above bit
 * 32.  (In the counting layout, the first counter is at bit 32, the second is any of the 8 counters
 * below it, and there is no third.) */
FORCE_INLINE unsigned second_bit(uint64_t hash, struct bloom_shape shape)
{
  const unsigned width = bloom_shape_width(shape);
  return (unsigned) (hash >> DISTANCES_FROM_BIT) % (32 / width) * width;
}

FORCE_INLINE unsigned third_bit(uint64_t hash) /* the bit's number, minus 32 */
{
  return (unsigned) (hash >> (DISTANCES_FROM_BIT + DISTANCE_BITS) | 1) % 32;
}

FORCE_INLINE uint64_t bloom_pattern(uint64_t hash, struct bloom_shape shape)
{
  uint64_t pattern = UINT64_C(1) << 32;
  if (shape.bits_per_probe > 1)
    pattern |= UINT64_C(1) << second_bit(hash, shape);
  if (shape.bits_per_probe > 2)
    pattern |= UINT64_C(1) << 32 << third_bit(hash);
  return pattern;
}

/* Bit 0 of the result is 1 if `bits` has all bits of the pattern; the other bits are meaningless.
 * (This is faster than to compute the pattern, and to compare it.) */
FORCE_INLINE uint32_t bloom_pattern_matches(uint64_t bits, uint64_t hash, struct bloom_shape shape)
{
  uint32_t low = (uint32_t) bits, high = (uint32_t) (bits >> 32), all = high;
  if (shape.bits_per_probe > 1)
    all &= low >> second_bit(hash, shape);
  if (shape.bits_per_probe > 2)
    all &= high >> third_bit(hash);
  return all;
}

FORCE_INLINE uint64_t bloom_word_mask(uint64_t hash, struct bloom_shape shape)
{
  uint64_t mask = 0, rotations = hash;
  for (unsigned i = 0; i < shape.bits_per_probe; i++, rotations >>= ROTATION_BITS) {
    mask = rotate_left(mask | 1, (unsigned) rotations);
    FORGET_ORIGIN(rotations); /* a look-up then takes 34 instructions, not 41 */
  }
  if (shape.layout == BLOOM_LAYOUT_MARKED)
    mask = (mask & ~WORD_MARK) | (mask >> MARKED_POSITIONS)
                                     << hash_to_range(hash, MARKED_POSITIONS);
  return mask;
}

FORCE_INLINE uint64_t bloom_first_word(uint64_t section_words, uint64_t hash)
{
  return hash_to_range(hash * HASH_MULTIPLIER, section_words);
}

/* Begins the probe sequence of a key whose first word is known. */
FORCE_INLINE struct bloom_probes bloom_probes_from(uint64_t first_word, uint64_t hash,
                                                   struct bloom_shape shape)
{
  return (struct bloom_probes){.hash = hash,
                               .rotations = hash,
                               .pattern = bloom_pattern(hash, shape),
                               .word = first_word,
                               .spread = hash >> SPREAD_FROM_BIT};
}

FORCE_INLINE struct bloom_probes bloom_probes_begin(uint64_t section_words, uint64_t hash,
                                                    struct bloom_shape shape)
{
  return bloom_probes_from(bloom_first_word(section_words, hash), hash, shape);
}

FORCE_INLINE struct bloom_probe bloom_probes_next(struct bloom_probes *probes,
                                                  struct bloom_shape shape)
{
  if (bloom_shape_is_word(shape))
    return (struct bloom_probe){.word = probes->word, .mask = bloom_word_mask(probes->hash, shape)};
  const unsigned width = bloom_shape_width(shape);
  struct bloom_probe probe = {.word = probes->begin + probes->word,
                              .rotation = (unsigned) probes->rotations % (64 / width) * width};
  probe.mask = rotate_left(probes->pattern, probe.rotation);
  probes->rotations >>= ROTATION_BITS;
  if (probes->next + 1 < shape.probes)
    probes->word ^= probes->spread + bloom_steps[probes->next++];
  return probe;
}

/* Goes on to the next section, after the last probe of a section. */
FORCE_INLINE void bloom_probes_next_section(uint64_t section_words, struct bloom_probes *probes,
                                            struct bloom_shape shape)
{
  const uint64_t begin = probes->begin + section_words;
  *probes = bloom_probes_begin(section_words, hash_spread(probes->hash), shape);
  probes->begin = begin;
}

#endif
