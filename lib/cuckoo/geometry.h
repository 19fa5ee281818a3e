/* SPDX-License-Identifier: MIT
 *
 * Layer 0: sizes of the cuckoo filter, and the address of a key.
 *
 * A key's hash string is an endless string of bits that the mixed hash gives.  All that the filter
 * knows of a key is a piece of this one string, in every generation:
 *
 *    hash_spread(hash) × roots of the first generation
 *     └─► root0 · bits           root0: the integer part; bits: the fraction, without end
 *                  │
 *    in the first generation:
 *         root = root0 │ pair: m bits │ fingerprint: all that follows
 *
 *    in a later generation, which has 2^k roots for each root0:
 *         root = root0 · k bits │ pair: m bits │ fingerprint: all that follows
 *
 *    index  = root · the first D bits of the path                (the directory)
 *    path   = the first P bits of the fingerprint · class · its other bits
 *    lower  = pair            upper = M/2 + (pair xor g)         (the two buckets, of M = 2^(m+1))
 *    entry  = w - 1 bits of the fingerprint, after those bits that the segment stands for
 *
 * The number of first roots is any integer, so no capacity is rounded to a power of two.
 *
 * g is a hash of the first w - 1 bits of the fingerprint, with the w of segments that have not
 * split.  Those bits are known of every entry as long as it lives: the bits that an entry has lost
 * are the prefix of its segment.  So the other bucket follows from either bucket and the entry, as
 * in partial-key cuckoo hashing.
 * Source: Fan et al., "Cuckoo filter: practically better than Bloom", CoNEXT 2014
 *
 * The class of a key is one more bit of that hash.  The *uneven split*, that of a segment of depth
 * P, goes by the class, and no bit of the fingerprint moves into the prefix.  One class has 41 % of
 * the keys, so from then on not all segments split at the same time (geometry.c).  In the first
 * generation the lanes of the children may be wider than those of the parent.
 *
 * An entry of any generation thus stands for all keys whose hash string begins with its bits.  Of
 * two entries that match a key, the one that knows more bits stands for a part of what the other
 * stands for.
 */
#ifndef TAMIS_LIB_CUCKOO_GEOMETRY_H
#define TAMIS_LIB_CUCKOO_GEOMETRY_H

#include "base/compiler.h"
#include "base/hash.h"
#include "cuckoo/bucket.h"

#include <stddef.h>

enum {
  CUCKOO_MAX_GENERATIONS = 24, /* each holds several times as many keys as all before it */
  CUCKOO_GROWING_STRIPES = 16, /* at most, of a segment that may split, which takes all of them */
  CUCKOO_FIXED_STRIPES = 32,   /* at most, of one that may not */
  /* Bytes of what precedes the buckets of a segment in memory; table.h checks these figures. */
  CUCKOO_SEGMENT_HEADER = 64,
  CUCKOO_STRIPE_BYTES = 16,
  CUCKOO_HASH_BITS = SMALL(64, 30) /* of the hash string that one hash gives, root0 included */
};

enum { NEVER_UNEVEN = UINT8_MAX };

/* The geometry of one generation; its shape is that of segments of a depth up to P.  It never
 * changes. */
struct cuckoo_geometry {
  struct lane_shape shape;
  uint64_t first_roots; /* of the first generation */
  /* Bits of root0.  As many at the end of the product of hash and first roots are not random. */
  uint8_t root0_bits;
  uint8_t root_shift;      /* k */
  uint8_t pair_bits;       /* m */
  uint8_t depth_limit;     /* D */
  uint8_t uneven_at;       /* P; NEVER_UNEVEN: no split is */
  uint8_t fixed_shift;     /* shape.shift of segments that have not split */
  bool later;              /* of another generation than the first one */
  bool needs_second_hash;  /* 64 bits are not enough for root, pair and entry */
  uint16_t stripes_wanted; /* of a segment, by the user; 0: chosen here */
  uint16_t words_offset;   /* from the start of a segment to its buckets, in bytes */
  uint32_t stripe_mask;    /* stripes of a segment - 1; a power of two - 1 */
  double rate; /* false-positive rate when all segments are full and have split D times */
};

/* What the user asks for. */
struct cuckoo_spec {
  uint64_t capacity;
  double fpp;
  bool growable;
  unsigned char cleared_bits; /* blocks of 2^so many bytes and more come cleared; 0: none do */
  unsigned stripes;           /* of a segment; 0: chosen here */
};

/* What cleared_from says (tamis_options), rounded up to a power of two. */
static inline unsigned char cuckoo_cleared_bits(uint64_t cleared_from)
{
  unsigned char bits = 1;
  while (bits < 63 && cleared_from > UINT64_C(1) << bits)
    bits++;
  return cleared_from ? bits : 0;
}

/* Plans the first generation.
 *   Errors  TAMIS_EUNSUPPORTED: no width gives the rate; TAMIS_EINVAL: no address space holds it */
int cuckoo_geometry_plan(const struct cuckoo_spec *spec, struct cuckoo_geometry *out);

/* Plans a later generation, for a filter with `keys` keys.  `before` is the generation before it,
 * and `left` is what all earlier generations leave of the rate that the user asked for.
 *   Errors  TAMIS_EFULL: the rate is used up */
int cuckoo_geometry_next(const struct cuckoo_geometry *before, uint64_t keys, double left,
                         struct cuckoo_geometry *out);

/* Whether a generation of this geometry may come after another one: its entries know for life what
 * those of that one do, and so to which segments of all earlier generations their keys lead.  (See
 * [E] in snapshot.c.) */
bool cuckoo_geometry_may_follow(const struct cuckoo_geometry *before,
                                const struct cuckoo_geometry *g);

/* The same for segments that come from the uneven split: with their shape. */
struct cuckoo_geometry cuckoo_geometry_after(const struct cuckoo_geometry *g);

/* The false-positive rate of a generation whose segments are full and have split `depth` times. */
double cuckoo_geometry_rate(const struct cuckoo_geometry *g, unsigned depth);

/* Derives the rest of a geometry that has been saved, of which these are given: the width of the
 * shape, and whether its entries age; first_roots, root_shift, pair_bits, depth_limit, uneven_at,
 * stripes_wanted, stripe_mask and rate.  `before` is the generation before it; NULL: it is the
 * first one.  False: no plan has it. */
bool cuckoo_geometry_restore(const struct cuckoo_geometry *before, struct cuckoo_geometry *g);

/* The lowest rate above this one from which on a filter of any size may be planned otherwise: with
 * a narrower shape.  1: there is none.  The first one above 0 is the lowest
 * rate that is planned for. */
double cuckoo_geometry_next_rate(double rate, bool growable);

/* The same geometry with the largest segments that any generation of a growing filter has. */
struct cuckoo_geometry cuckoo_geometry_largest(const struct cuckoo_geometry *g);

/* The load factor of a segment when it is full, and its standard deviation. */
double cuckoo_geometry_full_load(const struct cuckoo_geometry *g);
double cuckoo_geometry_full_deviation(const struct cuckoo_geometry *g);

static inline uint64_t cuckoo_buckets(const struct cuckoo_geometry *g)
{
  return UINT64_C(2) << g->pair_bits;
}

/* Of a segment, with its buckets, without what would round it up. */
static inline uint64_t cuckoo_used_bytes(const struct cuckoo_geometry *g)
{
  return g->words_offset + cuckoo_buckets(g) * sizeof(uint64_t);
}

/* Of a segment that is not alone: cache lines stay aligned. */
static inline uint64_t cuckoo_segment_bytes(const struct cuckoo_geometry *g)
{
  return (cuckoo_used_bytes(g) + 63) & ~(size_t) 63;
}

/* Of the home of a small filter.  What is loaded of one that does not grow comes rounded. */
static inline uint64_t cuckoo_home_bytes(const struct cuckoo_geometry *g)
{
  return g->shape.ages ? cuckoo_used_bytes(g) : cuckoo_segment_bytes(g);
}

static inline uint64_t cuckoo_lanes(const struct cuckoo_geometry *g)
{
  return cuckoo_buckets(g) * g->shape.lanes;
}

static inline uint64_t cuckoo_roots(const struct cuckoo_geometry *g)
{
  return g->first_roots << g->root_shift;
}

/* How many indices there are: see directory.h. */
static inline uint64_t cuckoo_directory_size(const struct cuckoo_geometry *g)
{
  return cuckoo_roots(g) << g->depth_limit;
}

/* A large directory of a filter that grows has a mark for each MARKED_ROOTS of its roots: whether
 * one of them ever had a segment.  So whoever looks for all segments does not touch what was never
 * used, which is nearly all of it while the filter has few keys. */
enum { MARKED_ROOTS = SMALL(512, 2), FEW_ROOTS = SMALL(1 << 16, 3) };

static inline uint64_t cuckoo_mark_words(const struct cuckoo_geometry *g)
{
  uint64_t roots = cuckoo_roots(g);
  return g->shape.ages && roots > FEW_ROOTS ? (roots - 1) / (MARKED_ROOTS * 64) + 1 : 0;
}

/* Of the words of the roots, and of the marks, which follow them. */
static inline uint64_t cuckoo_directory_bytes(const struct cuckoo_geometry *g)
{
  return (cuckoo_roots(g) + cuckoo_mark_words(g)) * sizeof(uint64_t);
}

static inline uint64_t cuckoo_root_of_index(const struct cuckoo_geometry *g, uint64_t index)
{
  return index >> g->depth_limit;
}

/* The first n bits of x as a number; n is 0 to 63.  (~n is 63 - n, modulo 64.) */
static inline uint64_t cuckoo_top_bits(uint64_t x, unsigned n)
{
  return x >> 1 >> (~shift_count(n) & 63);
}

/* ---- the path to a segment ---- */

/* How many bits of the fingerprint lead to a segment, and are its prefix: all but the class. */
static inline unsigned cuckoo_prefix_bits(const struct cuckoo_geometry *g, unsigned depth)
{
  return depth - (depth > g->uneven_at);
}

/* The index, with its root, of the fingerprints that begin with the bits of a prefix. */
static inline uint64_t cuckoo_index(const struct cuckoo_geometry *g, uint64_t root,
                                    uint64_t fingerprint, bool class)
{
  uint64_t path = fingerprint;
  if (g->uneven_at < g->depth_limit) {
    uint64_t after = UINT64_MAX >> g->uneven_at, first_bit = UINT64_C(1) << 63 >> g->uneven_at;
    path = (fingerprint & ~after) | (class ? first_bit : 0) | (fingerprint & after) >> 1;
  }
  return root << g->depth_limit | cuckoo_top_bits(path, g->depth_limit);
}

/* The fingerprint's bits in an index, from bit 63 on, without the class; 0 follows. */
static inline uint64_t cuckoo_prefix(const struct cuckoo_geometry *g, uint64_t index)
{
  uint64_t of_root = index & ((UINT64_C(1) << g->depth_limit) - 1);
  uint64_t path = of_root << 1 << (63 - g->depth_limit);
  if (g->uneven_at >= g->depth_limit)
    return path;
  uint64_t after = UINT64_MAX >> g->uneven_at;
  return (path & ~after) | (path << 1 & after);
}

/* The first of the indices that a segment of a depth has. */
static inline uint64_t cuckoo_first_index(const struct cuckoo_geometry *g, uint64_t index,
                                          unsigned depth)
{
  return index >> (g->depth_limit - depth) << (g->depth_limit - depth);
}

/* The class in an index. */
static inline bool cuckoo_class_of_index(const struct cuckoo_geometry *g, uint64_t index)
{
  return g->uneven_at < g->depth_limit && index >> (g->depth_limit - 1 - g->uneven_at) & 1;
}

struct cuckoo_address {
  uint64_t root;
  uint64_t fingerprint; /* from bit 63 on */
  uint64_t lower, upper;
  bool class;
};

/* A product of the first w - 1 bits of the fingerprint, of which the two buckets and the class are
 * parts.
 * Source: the multiplier is 2^64 over the golden ratio: Knuth, TAOCP 3, 6.4 */
#define CUCKOO_OTHER_MULTIPLIER UINT64_C(0x9E3779B97F4A7C15)

FORCE_INLINE uint64_t cuckoo_mixed(const struct cuckoo_geometry *g, uint64_t fingerprint)
{
  return (fingerprint >> (g->fixed_shift & 63) >> 1) * CUCKOO_OTHER_MULTIPLIER;
}

/* The two buckets of an entry differ by the exclusive or with this mask: the bit that distinguishes
 * the halves of a segment, and g, the first m bits of the product. */
FORCE_INLINE uint64_t cuckoo_other_mask_of(const struct cuckoo_geometry *g, uint64_t mixed)
{
  return (UINT64_C(1) << 63 | mixed >> 1) >> (~shift_count(g->pair_bits) & 63);
}

FORCE_INLINE uint64_t cuckoo_other_mask(const struct cuckoo_geometry *g, uint64_t fingerprint)
{
  return cuckoo_other_mask_of(g, cuckoo_mixed(g, fingerprint));
}

/* The class: whether some bits of the product, as a fraction, are below the square root of 2, less
 * 1.  (Multiples of the fraction that these bits of the multiplier are spread as evenly as those of
 * the golden ratio, so both classes have their share of any prefix.) */
#define CUCKOO_CLASS_SHARE UINT32_C(0x6A09E667)

FORCE_INLINE bool cuckoo_class_of(uint64_t mixed)
{
  return (uint32_t) (mixed >> 12) < CUCKOO_CLASS_SHARE;
}

static inline bool cuckoo_class(const struct cuckoo_geometry *g, uint64_t fingerprint)
{
  return cuckoo_class_of(cuckoo_mixed(g, fingerprint));
}

/* The hash string from where the fingerprint begins, for a geometry that needs a second hash.  The
 * lowest bits of the product follow from root0 and the other bits, so a second hash continues where
 * the random bits end.  This is not inlined, because the compiler would compute it in advance where
 * it is not needed. */
uint64_t cuckoo_string_with_second_hash(const struct cuckoo_geometry *g, uint64_t hash,
                                        uint64_t bits);

/* The part of a key's hash string that one hash gives.  It is the same for all generations. */
struct cuckoo_hash_string {
  uint64_t root0;
  uint64_t bits; /* those that follow, from bit 63 on */
};

FORCE_INLINE struct cuckoo_hash_string cuckoo_hash_string(const struct cuckoo_geometry *g,
                                                          uint64_t hash)
{
  uint128 product = (uint128) hash_spread(hash) * g->first_roots;
  return (struct cuckoo_hash_string){(uint64_t) (product >> 64), (uint64_t) product};
}

/* The hash string of the keys of an entry, as far as it knows it; what follows says nothing.
 * `pair` is the lower bucket, and `fingerprint` that of cuckoo_fingerprint(). */
struct cuckoo_hash_string cuckoo_string_of(const struct cuckoo_geometry *g, uint64_t root,
                                           uint64_t pair, uint64_t fingerprint);

FORCE_INLINE struct cuckoo_address
cuckoo_address_of(const struct cuckoo_geometry *g, struct cuckoo_hash_string string, uint64_t hash)
{
  uint64_t after_root = string.bits << g->root_shift;
  struct cuckoo_address address = {.root = string.root0 << g->root_shift |
                                           cuckoo_top_bits(string.bits, g->root_shift),
                                   .lower = cuckoo_top_bits(after_root, g->pair_bits),
                                   .fingerprint = after_root << g->pair_bits};
  if (__builtin_expect(g->needs_second_hash, 0))
    address.fingerprint = cuckoo_string_with_second_hash(g, hash, string.bits);
  const uint64_t mixed = cuckoo_mixed(g, address.fingerprint);
  address.class = cuckoo_class_of(mixed);
  address.upper = address.lower ^ cuckoo_other_mask_of(g, mixed);
  return address;
}

static inline uint64_t cuckoo_address_index(const struct cuckoo_geometry *g,
                                            const struct cuckoo_address *address)
{
  return cuckoo_index(g, address->root, address->fingerprint, address->class);
}

FORCE_INLINE struct cuckoo_address cuckoo_address(const struct cuckoo_geometry *g, uint64_t hash)
{
  return cuckoo_address_of(g, cuckoo_hash_string(g, hash), hash);
}

/* The bits of an entry's fingerprint that are known, from bit 63 on: at least w - 1. */
static inline uint64_t cuckoo_fingerprint(const struct cuckoo_geometry *g, uint64_t entry,
                                          uint64_t prefix, unsigned depth)
{
  return prefix | entry << (64 - g->shape.width) >> cuckoo_prefix_bits(g, depth);
}

/* How the first w0 - 1 bits of the fingerprint follow from an entry of a segment. */
struct cuckoo_fixed_bits {
  uint64_t of_prefix;
  unsigned shift;
};

static inline struct cuckoo_fixed_bits cuckoo_fixed_bits(const struct cuckoo_geometry *g,
                                                         uint64_t prefix, unsigned depth)
{
  return (struct cuckoo_fixed_bits){prefix >> g->fixed_shift >> 1,
                                    1U + g->fixed_shift - g->shape.shift +
                                        cuckoo_prefix_bits(g, depth)};
}

/* cuckoo_mixed() of an entry. */
FORCE_INLINE uint64_t cuckoo_mixed_of_entry(struct cuckoo_fixed_bits fixed, uint64_t entry)
{
  return (fixed.of_prefix | entry >> (fixed.shift & 63)) * CUCKOO_OTHER_MULTIPLIER;
}

/* How many steps an entry may have aged in a segment of this depth, whose geometry this is. */
static inline unsigned cuckoo_most_age(const struct cuckoo_geometry *g, unsigned depth)
{
  return cuckoo_prefix_bits(g, depth) + g->fixed_shift - g->shape.shift;
}

/* How many bits of the hash string after root0 an entry of this age knows in such a segment. */
static inline unsigned cuckoo_known_bits(const struct cuckoo_geometry *g, unsigned depth,
                                         unsigned age)
{
  return g->root_shift + g->pair_bits + cuckoo_prefix_bits(g, depth) + g->shape.width - 1U - age;
}

/* ---- geometries of which parts are constants ----
 *
 * The straight-line versions of look-up and insert copy a geometry and overwrite what is known of
 * it, so that the compiler can fold these parts. */

/* Of the first generation, unless it needs two hashes. */
FORCE_INLINE struct cuckoo_geometry cuckoo_first_geometry(const struct cuckoo_geometry *first,
                                                          bool growable)
{
  struct cuckoo_geometry g = *first;
  g.shape.ages = growable;
  g.needs_second_hash = false;
  g.later = false;
  g.root_shift = 0;
  if (!growable) {
    g.depth_limit = 0;
    g.uneven_at = NEVER_UNEVEN;
    g.fixed_shift = g.shape.shift;
  }
  return g;
}

#endif
