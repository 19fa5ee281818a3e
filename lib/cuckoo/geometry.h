/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the sizes of a cuckoo filter, and the address of a key.
 *
 * A key's hash string is an endless string of bits, computed from the key's mixed hash.  In every
 * generation, root, pair and fingerprint of a key are pieces of this one string:
 *
 *    hash_spread(hash) × roots of the first generation = root0 (the integer part) · the fraction
 *
 *    first generation:   root = root0          │ pair: m bits │ fingerprint: all bits that follow
 *    later generation:   root = root0 · k bits │ pair: m bits │ fingerprint: all bits that follow
 *
 *    index  = root · the first D bits of the path     (in the directory; D: the greatest depth)
 *    path   = the first P bits of the fingerprint · class · its other bits         (P: see below)
 *    lower  = pair      upper = M/2 + (pair xor g)     (two of M = 2^(m+1) buckets; g: see below)
 *    entry  = w - 1 bits of the fingerprint, which follow the prefix of the segment
 *
 * g is a hash of the first w - 1 bits of the fingerprint, where w is the lane width of segments
 * that have not split.  Every entry knows these bits, because the bits that it loses become the
 * prefix of its segment.  So an entry and its present bucket determine its other bucket, as in
 * partial-key cuckoo hashing.
 * Source: Fan et al., "Cuckoo filter: practically better than Bloom", CoNEXT 2014
 *
 * The class of a key is a bit computed from the same bits as g.  It is 1 for 41 % of the keys.  The
 * *uneven split* is the split of a segment of depth P.  It separates the keys by class, and moves
 * no bit of the fingerprint into the prefix.  In generation 0 the children may have wider lanes.
 *
 * The root, lower bucket, prefix and known bits of an entry are the first bits of a hash string.
 * The entry matches all keys whose hash string begins with these bits.  If two entries match a key,
 * the entry that knows more bits matches a subset of the keys of the other entry.
 */
#ifndef TAMIS_LIB_CUCKOO_GEOMETRY_H
#define TAMIS_LIB_CUCKOO_GEOMETRY_H

#include "base/compiler.h"
#include "base/hash.h"
#include "cuckoo/bucket.h"
#include "tamis/tamis.h"

#include <stddef.h>

enum {
  CUCKOO_MAX_GENERATIONS = 24, /* enough: each holds several times the keys of all earlier ones */
  CUCKOO_GROWING_STRIPES = 16, /* the greatest number of stripes in a segment that may split */
  CUCKOO_FIXED_STRIPES = 32,   /* the greatest number of stripes in a fixed filter's segment */
  /* The bytes of a struct segment and of a stripe; table.h checks these numbers. */
  CUCKOO_SEGMENT_HEADER = 64,
  CUCKOO_STRIPE_BYTES = 16,
  CUCKOO_HASH_BITS = SMALL(64, 30) /* how many bits of the hash string one hash gives */
};

enum { NEVER_UNEVEN = UINT8_MAX }; /* the value of `uneven_at` if no split is uneven */

/* The geometry of a generation, which never changes. */
struct cuckoo_geometry {
  struct lane_shape shape; /* the lanes of segments whose depth is at most `uneven_at` */
  uint64_t first_roots;    /* the number of roots of the first generation */
  /* The number of bits of root0.  (So many low bits of hash × first_roots are not random.) */
  uint8_t root0_bits;
  uint8_t root_shift;      /* the number of bits of a root after root0 (k) */
  uint8_t pair_bits;       /* the number of bits of a pair (m) */
  uint8_t depth_limit;     /* the greatest depth of a segment (D) */
  uint8_t uneven_at;       /* the depth of segments that split unevenly (P), or NEVER_UNEVEN */
  uint8_t fixed_shift;     /* shape.shift of segments that have not split */
  bool later;              /* false in the first generation, true in all others */
  bool needs_second_hash;  /* root, pair and entry need more bits than one hash gives */
  uint16_t stripes_wanted; /* the user's number of stripes per segment; 0: the plan chooses it */
  uint16_t words_offset;   /* the offset of the buckets in a segment, in bytes */
  uint32_t stripe_mask;    /* the number of stripes of a segment (a power of two) minus 1 */
  double rate; /* false-positive rate when all segments are full and have split D times */
};

/* Plans the first generation for the options' capacity, rate, `growable` and stripes.
 *   Errors  TAMIS_EUNSUPPORTED: the rate is too low; TAMIS_EINVAL: the capacity is too large */
int cuckoo_geometry_plan(const tamis_options *options, struct cuckoo_geometry *out);

/* Plans a later generation, for a filter with `keys` keys.  `before` is the newest generation, and
 * `left` is the part of the promised rate that no earlier generation uses.
 *   Errors  TAMIS_EFULL: the rate is used up */
int cuckoo_geometry_next(const struct cuckoo_geometry *before, uint64_t keys, double left,
                         struct cuckoo_geometry *out);

/* Whether a generation with geometry `g` may follow one with geometry `before`: all entries of `g`
 * must know at least cuckoo_least_bits(before) bits.  So an entry shows to which segment of each
 * earlier generation its keys belong, as [E] in snapshot.c requires. */
bool cuckoo_geometry_may_follow(const struct cuckoo_geometry *before,
                                const struct cuckoo_geometry *g);

/* Returns a copy of `g` with the shape that segments have after the uneven split. */
struct cuckoo_geometry cuckoo_geometry_after(const struct cuckoo_geometry *g);

/* The false-positive rate of a generation whose segments are full and have split `depth` times. */
double cuckoo_geometry_rate(const struct cuckoo_geometry *g, unsigned depth);

/* Completes a geometry from a file.  The caller must have set shape.width, shape.ages, first_roots,
 * root_shift, pair_bits, depth_limit, uneven_at, stripes_wanted, stripe_mask and rate.  `before` is
 * the geometry of the preceding generation, or NULL.  Returns false if no plan makes `g`. */
bool cuckoo_geometry_restore(const struct cuckoo_geometry *before, struct cuckoo_geometry *g);

/* The lowest rate above `rate` that allows narrower lanes than `rate` does, or 1 if no rate does.
 * If `rate` is 0, the result is the lowest rate that can be planned. */
double cuckoo_geometry_next_rate(double rate, bool growable);

/* The mean load factor of full segments, and the standard deviation of their load factor. */
double cuckoo_geometry_full_load(const struct cuckoo_geometry *g);
double cuckoo_geometry_full_deviation(const struct cuckoo_geometry *g);

/* The mean number of keys in a growable filter's segments when the first of them is full. */
double cuckoo_geometry_full_keys(const struct cuckoo_geometry *g);

static inline uint64_t cuckoo_buckets(const struct cuckoo_geometry *g)
{
  return UINT64_C(2) << g->pair_bits;
}

static inline uint64_t cuckoo_used_bytes(const struct cuckoo_geometry *g)
{
  return g->words_offset + cuckoo_buckets(g) * sizeof(uint64_t);
}

/* The bytes of a segment, rounded up so that the next segment begins a cache line. */
static inline uint64_t cuckoo_segment_bytes(const struct cuckoo_geometry *g)
{
  return (cuckoo_used_bytes(g) + 63) & ~(size_t) 63;
}

/* The bytes of a small filter's home (table.h); in a fixed filter rounded up, as in saved files. */
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

/* How many bits of the hash string after root0 select a bucket pair. */
static inline unsigned cuckoo_place_bits(const struct cuckoo_geometry *g)
{
  return g->root_shift + g->pair_bits;
}

/* How many bits of the hash string after root0 every entry always knows. */
static inline unsigned cuckoo_least_bits(const struct cuckoo_geometry *g)
{
  return cuckoo_place_bits(g) + 63 - g->fixed_shift;
}

static inline uint64_t cuckoo_directory_size(const struct cuckoo_geometry *g)
{
  return cuckoo_roots(g) << g->depth_limit;
}

/* A large directory of a growable filter has a bit, or *mark*, for each group of MARKED_ROOTS
 * roots.  The mark is set when a root of the group gets a segment.  Traversals skip groups without
 * a mark, to touch no unused pages: in a filter with few keys, nearly all pages are unused. */
enum { MARKED_ROOTS = SMALL(512, 2), FEW_ROOTS = SMALL(1 << 16, 3) };

static inline uint64_t cuckoo_mark_words(const struct cuckoo_geometry *g)
{
  uint64_t roots = cuckoo_roots(g);
  return g->shape.ages && roots > FEW_ROOTS ? (roots - 1) / (MARKED_ROOTS * 64) + 1 : 0;
}

/* The bytes of the roots' words, and of the marks that follow them. */
static inline uint64_t cuckoo_directory_bytes(const struct cuckoo_geometry *g)
{
  return (cuckoo_roots(g) + cuckoo_mark_words(g)) * sizeof(uint64_t);
}

static inline uint64_t cuckoo_root_of_index(const struct cuckoo_geometry *g, uint64_t index)
{
  return index >> g->depth_limit;
}

/* The first n bits of x as a number; n is 0 to 63.  (C does not define x >> (64 - 0).) */
static inline uint64_t cuckoo_top_bits(uint64_t x, unsigned n)
{
  return x >> 1 >> (~shift_count(n) & 63);
}

/* ---- the path to a segment ---- */

/* The number of bits of a segment's prefix: its depth, minus 1 after the uneven split. */
static inline unsigned cuckoo_prefix_bits(const struct cuckoo_geometry *g, unsigned depth)
{
  return depth - (depth > g->uneven_at);
}

/* Returns the directory index of keys with this root, fingerprint and class. */
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

/* Returns the fingerprint bits in an index, without the class, from bit 63 down. */
static inline uint64_t cuckoo_prefix(const struct cuckoo_geometry *g, uint64_t index)
{
  uint64_t of_root = index & ((UINT64_C(1) << g->depth_limit) - 1);
  uint64_t path = of_root << 1 << (63 - g->depth_limit);
  if (g->uneven_at >= g->depth_limit)
    return path;
  uint64_t after = UINT64_MAX >> g->uneven_at;
  return (path & ~after) | (path << 1 & after);
}

/* The first index of the segment of depth `depth` to which `index` leads. */
static inline uint64_t cuckoo_first_index(const struct cuckoo_geometry *g, uint64_t index,
                                          unsigned depth)
{
  return index >> (g->depth_limit - depth) << (g->depth_limit - depth);
}

static inline bool cuckoo_class_of_index(const struct cuckoo_geometry *g, uint64_t index)
{
  return g->uneven_at < g->depth_limit && index >> (g->depth_limit - 1 - g->uneven_at) & 1;
}

struct cuckoo_address {
  uint64_t root;
  uint64_t fingerprint; /* the fingerprint's bits, from bit 63 down */
  uint64_t lower, upper;
  bool class;
};

/* 2^64 / the golden ratio (Knuth, TAOCP 3, 6.4).  Its product with the first w - 1 fingerprint bits
 * (w: the lane width at depth 0) gives the class, and the mask that leads to the other bucket. */
#define CUCKOO_OTHER_MULTIPLIER UINT64_C(0x9E3779B97F4A7C15)

FORCE_INLINE uint64_t cuckoo_mixed(const struct cuckoo_geometry *g, uint64_t fingerprint)
{
  return (fingerprint >> (g->fixed_shift & 63) >> 1) * CUCKOO_OTHER_MULTIPLIER;
}

/* The xor of an entry's two bucket numbers: a bit for the other half of the segment, followed by
 * the first pair_bits bits of `mixed` (the hash g at the head of this file). */
FORCE_INLINE uint64_t cuckoo_other_mask_of(const struct cuckoo_geometry *g, uint64_t mixed)
{
  return (UINT64_C(1) << 63 | mixed >> 1) >> (~shift_count(g->pair_bits) & 63);
}

FORCE_INLINE uint64_t cuckoo_other_mask(const struct cuckoo_geometry *g, uint64_t fingerprint)
{
  return cuckoo_other_mask_of(g, cuckoo_mixed(g, fingerprint));
}

/* The class is 1 if bits 12 to 43 of `mixed`, as a fraction of 2^32, are below sqrt(2) - 1.  (The
 * product spreads these bits as evenly as its first bits, even for consecutive fingerprints.  So
 * each class has its usual share of the keys of any prefix.) */
#define CUCKOO_CLASS_SHARE UINT32_C(0x6A09E667)

FORCE_INLINE bool cuckoo_class_of(uint64_t mixed)
{
  return (uint32_t) (mixed >> 12) < CUCKOO_CLASS_SHARE;
}

static inline bool cuckoo_class(const struct cuckoo_geometry *g, uint64_t fingerprint)
{
  return cuckoo_class_of(cuckoo_mixed(g, fingerprint));
}

/* Returns the part of the hash string that begins at the fingerprint, if keys need a second hash.
 * The second hash replaces the lowest bits of hash × first_roots, which are not random.  Not
 * inlined: the compiler would otherwise compute the second hash in every look-up. */
uint64_t cuckoo_string_with_second_hash(const struct cuckoo_geometry *g, uint64_t hash,
                                        uint64_t bits);

/* The part of a key's hash string that comes from one hash.  It is the same in all generations. */
struct cuckoo_hash_string {
  uint64_t root0;
  uint64_t bits; /* the bits after root0, from bit 63 down */
};

FORCE_INLINE struct cuckoo_hash_string cuckoo_hash_string(const struct cuckoo_geometry *g,
                                                          uint64_t hash)
{
  uint128 product = (uint128) hash_spread(hash) * g->first_roots;
  return (struct cuckoo_hash_string){(uint64_t) (product >> 64), (uint64_t) product};
}

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

/* The known bits of an entry's fingerprint, at least w - 1 bits, from bit 63 down. */
static inline uint64_t cuckoo_fingerprint(const struct cuckoo_geometry *g, uint64_t entry,
                                          uint64_t prefix, unsigned depth)
{
  return prefix | entry << (64 - g->shape.width) >> cuckoo_prefix_bits(g, depth);
}

static inline unsigned cuckoo_most_age(const struct cuckoo_geometry *g, unsigned depth)
{
  return cuckoo_prefix_bits(g, depth) + g->fixed_shift - g->shape.shift;
}

/* The number of fingerprint bits that an entry of this age knows in a segment of this depth. */
static inline unsigned cuckoo_known_of_fingerprint(const struct cuckoo_geometry *g, unsigned depth,
                                                   unsigned age)
{
  return cuckoo_prefix_bits(g, depth) + g->shape.width - 1U - age;
}

/* The number of bits after root0 that an entry of this age knows in a segment of this depth. */
static inline unsigned cuckoo_known_bits(const struct cuckoo_geometry *g, unsigned depth,
                                         unsigned age)
{
  return cuckoo_place_bits(g) + cuckoo_known_of_fingerprint(g, depth, age);
}

static inline uint64_t cuckoo_lower_bucket(const struct cuckoo_geometry *g, uint64_t bucket,
                                           uint64_t fingerprint)
{
  return bucket < cuckoo_buckets(g) / 2 ? bucket : bucket ^ cuckoo_other_mask(g, fingerprint);
}

/* The address that the keys of an entry have in geometry `g`.  The entry's own geometry is `own`,
 * its lower bucket `lower`, and cuckoo_fingerprint() has returned `fingerprint`.  Only the parts of
 * the address that follow from the entry's known bits, at most 64 after root0, are valid. */
struct cuckoo_address cuckoo_address_in(const struct cuckoo_geometry *g,
                                        const struct cuckoo_geometry *own, uint64_t root,
                                        uint64_t lower, uint64_t fingerprint);

/* The entry that knows the first `known` bits of a fingerprint in a segment of this depth or, if a
 * new entry knows fewer bits there, a new entry. */
static inline uint64_t cuckoo_entry(const struct cuckoo_geometry *g, uint64_t fingerprint,
                                    unsigned known, unsigned depth)
{
  uint64_t entry = bucket_entry(&g->shape, fingerprint << cuckoo_prefix_bits(g, depth));
  unsigned as_new = cuckoo_known_of_fingerprint(g, depth, 0);
  unsigned age = g->shape.ages && as_new > known ? as_new - known : 0;
  return age ? (entry >> age | 1) << age : entry;
}

/* ---- geometries with constant members ----
 *
 * The straight paths of look-up and insert copy a geometry, and put constants into the members
 * whose values they know.  The compiler folds these constants. */

/* Copies the geometry of a first generation that needs only one hash. */
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
