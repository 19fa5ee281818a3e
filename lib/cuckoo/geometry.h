/* SPDX-License-Identifier: MIT
 *
 * Layer 0: sizes of the cuckoo filter, and where a key belongs.
 *
 * Everything is a prefix of one bit string, the key's, which the mixed hash gives:
 *
 *    hash_spread(hash) × roots of the first generation
 *     └─► root0 · rest           root0: the integer part; rest: bits, without end
 *                  │
 *    of a generation with roots = first roots × 2^k:
 *         root = root0 · k bits │ pair: m bits │ fingerprint: all that follows
 *
 *    index   = root · the first D bits of the fingerprint         (the directory)
 *    lower  = pair            upper = M/2 + (pair xor g)         (the two buckets, of M = 2^(m+1))
 *    entry  = w - 1 bits of the fingerprint, after the `depth` bits that the segment stands for
 *
 * The number of first roots is any integer, so no capacity is rounded to a power of two.  g is made
 * from the first w - 1 bits of the fingerprint, which every entry of a segment knows for life: those
 * that it has lost are the segment's prefix.  So from either bucket and the entry the other bucket
 * follows.
 *
 * An entry of any generation thus stands for all keys whose string begins with its bits, and of two
 * entries that match a key the one that knows more stands for a part of what the other stands for.
 */
#ifndef TAMIS_LIB_CUCKOO_GEOMETRY_H
#define TAMIS_LIB_CUCKOO_GEOMETRY_H

#include "base/hash.h"
#include "cuckoo/bucket.h"

#include <stddef.h>

enum {
  CUCKOO_MAX_GENERATIONS = 24, /* each holds several times as many keys as all before it */
  /* Bytes of what precedes the buckets of a segment in memory: table.h checks them. */
  CUCKOO_SEGMENT_HEADER = 64,
  CUCKOO_STRIPE_BYTES = 16
};

/* Of one generation; nothing in it changes. */
struct cuckoo_geometry {
  struct bucket_shape shape;
  uint64_t first_roots; /* of the first generation */
  /* The product of a 64-bit hash and the roots has so many bits at its end that are not random. */
  unsigned first_root_bits;
  unsigned root_shift;     /* k */
  unsigned pair_bits;      /* m */
  unsigned depth_limit;    /* D */
  bool two_hashes;         /* 64 bits are not enough for root, pair and entry */
  unsigned stripes_wanted; /* by the user, of a segment; 0: what suits it */
  uint32_t stripe_mask;    /* stripes of a segment - 1; a power of two - 1 */
  size_t words_offset;     /* from the start of a segment to its buckets, in bytes */
  size_t segment_bytes;
  double rate; /* false-positive rate when all segments are full and have split D times */
};

/* What a filter is to be. */
struct cuckoo_spec {
  uint64_t capacity;
  double fpp;
  bool growable;
  unsigned stripes; /* of a segment; 0: what suits it */
};

/* The first generation.
 *   Errors  TAMIS_EUNSUPPORTED: no width gives such a rate; TAMIS_EINVAL: no address space holds it */
int cuckoo_geometry_plan(const struct cuckoo_spec *spec, struct cuckoo_geometry *out);

/* The generation after `first`, the first one, and perhaps others, when `keys` are in the filter, and
 * `left` is what the earlier generations leave of the rate asked.
 *   Errors  TAMIS_EFULL: the rate is used up */
int cuckoo_geometry_next(const struct cuckoo_geometry *first, uint64_t keys, double left,
                         struct cuckoo_geometry *out);

/* The shapes there are, by rising width, and the lowest rate that each can give, for a filter of any
 * size. */
unsigned cuckoo_geometry_shapes(void);
double cuckoo_geometry_lowest_rate(unsigned shape_index, bool growable);

/* The same with the largest segments that any generation of a filter that grows has. */
struct cuckoo_geometry cuckoo_geometry_largest(const struct cuckoo_geometry *g);

/* The part of its lanes that is in use when a segment is full, and how much that differs. */
double cuckoo_geometry_full_load(const struct cuckoo_geometry *g);
double cuckoo_geometry_full_deviation(const struct cuckoo_geometry *g);

static inline uint64_t cuckoo_buckets(const struct cuckoo_geometry *g)
{
  return UINT64_C(2) << g->pair_bits;
}

static inline uint64_t cuckoo_lanes(const struct cuckoo_geometry *g)
{
  return cuckoo_buckets(g) * g->shape.lanes;
}

static inline uint64_t cuckoo_roots(const struct cuckoo_geometry *g)
{
  return g->first_roots << g->root_shift;
}

static inline uint64_t cuckoo_directory_size(const struct cuckoo_geometry *g)
{
  return cuckoo_roots(g) << g->depth_limit;
}

static inline uint64_t cuckoo_root_of_index(const struct cuckoo_geometry *g, uint64_t index)
{
  return index >> g->depth_limit;
}

/* The first n bits of x, n from 0 to 63, as a number.  (~n is 63 - n, modulo 64.) */
static inline uint64_t cuckoo_top_bits(uint64_t x, unsigned n)
{
  return x >> 1 >> (~n & 63);
}

struct cuckoo_address {
  uint64_t root;
  uint64_t index;
  uint64_t fingerprint; /* from bit 63 on */
  uint32_t lower, upper;
};

/* What to xor to a bucket's index for the other bucket of an entry with these first w - 1 bits of
 * fingerprint: the bit that tells the halves apart, and g, the first m bits of a product. */
static inline uint32_t cuckoo_other_mask(const struct cuckoo_geometry *g, uint64_t fingerprint)
{
  uint64_t fixed = fingerprint >> (64 - g->shape.width) >> 1;
  uint64_t mixed = fixed * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t) ((UINT64_C(1) << 63 | mixed >> 1) >> (~g->pair_bits & 63));
}

/* The rest of a key's string from `used` bits on, when the hash alone does not give enough: the lowest
 * bits of the product follow from root0 and the others, so a second hash goes on where the random ones
 * end.  Not inlined: the compiler would do all this beforehand, for those who do not need it. */
uint64_t cuckoo_string_from_two_hashes(const struct cuckoo_geometry *g, uint64_t hash,
                                       uint64_t rest, unsigned used);

/* The beginning of a key's string, which is the same for all generations. */
struct cuckoo_hash_string {
  uint64_t root0, rest;
};

static inline struct cuckoo_hash_string cuckoo_hash_string(const struct cuckoo_geometry *g,
                                                           uint64_t hash)
{
  uint128 product = (uint128) hash_spread(hash) * g->first_roots;
  return (struct cuckoo_hash_string){(uint64_t) (product >> 64), (uint64_t) product};
}

static inline struct cuckoo_address
cuckoo_address_of(const struct cuckoo_geometry *g, struct cuckoo_hash_string string, uint64_t hash)
{
  uint64_t rest = string.rest, pairs = rest << g->root_shift;
  struct cuckoo_address address = {.root = string.root0 << g->root_shift |
                                           cuckoo_top_bits(rest, g->root_shift),
                                   .lower = (uint32_t) cuckoo_top_bits(pairs, g->pair_bits),
                                   .fingerprint = pairs << g->pair_bits};
  if (__builtin_expect(g->two_hashes, 0))
    address.fingerprint =
        cuckoo_string_from_two_hashes(g, hash, rest, g->root_shift + g->pair_bits);
  address.index =
      address.root << g->depth_limit | cuckoo_top_bits(address.fingerprint, g->depth_limit);
  address.upper = address.lower ^ cuckoo_other_mask(g, address.fingerprint);
  return address;
}

static inline struct cuckoo_address cuckoo_address(const struct cuckoo_geometry *g, uint64_t hash)
{
  return cuckoo_address_of(g, cuckoo_hash_string(g, hash), hash);
}

/* The first bits of an entry's fingerprint, from bit 63 on: w - 1 of them at least. */
static inline uint64_t cuckoo_fingerprint(const struct cuckoo_geometry *g, uint64_t entry,
                                          uint64_t prefix, unsigned depth)
{
  return prefix | entry << (64 - g->shape.width) >> depth;
}

/* How many bits of the string an entry stands for, after root0. */
static inline unsigned cuckoo_known_bits(const struct cuckoo_geometry *g, uint64_t entry,
                                         unsigned depth)
{
  return g->root_shift + g->pair_bits + depth + g->shape.width - bucket_age(&g->shape, entry);
}

#endif
