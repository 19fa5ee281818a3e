/* SPDX-License-Identifier: MIT
 *
 * Layer 0: turns a key into 64 well-mixed bits.  Only this file uses xxHash.
 */
#ifndef TAMIS_LIB_HASH_H
#define TAMIS_LIB_HASH_H

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

/* Makes xxHash read words by memcpy(), which takes no longer.  Old versions, if compiled by gcc,
 * would read them through a pointer to another type.  Then gcc might move the read of a key before
 * the caller's write of the key.  https://github.com/Cyan4973/xxHash/pull/1013 */
#define XXH_FORCE_MEMORY_ACCESS 0
#define XXH_INLINE_ALL
#include <xxhash.h>

struct hash_keys {
  uint64_t seed;
  uint64_t mix[2];
};

/* In bytes: the size of XXH3's secret, and the longest key that XXH3 hashes without a secret. */
enum { HASH_SECRET_BYTES = XXH_SECRET_DEFAULT_SIZE, HASH_MEDIUM = 240 };

static inline void hash_make_secret(uint64_t seed, unsigned char secret[HASH_SECRET_BYTES])
{
  XXH3_generateSecret_fromSeed(secret, seed);
}

/* Mixes a 64-bit value: every bit of the result depends on every bit of the value and the keys.
 *
 * A single bit of the result looks random.  Groups of bits still show the regularity of regular
 * input, such as consecutive numbers (docs/internals/bloom.md).  So code that needs groups of bits,
 * for instance to choose a line, uses hash_spread(), or the top bits of another product.
 *
 * Both halves of a product are used: high bits of the input change low bits of the product's high
 * half, and low bits change high bits of the low half.  Two inputs get equal results with
 * probability 2^-64.  Source: Wang Yi's wyhash (2019); the multiplier is from Pelle Evensen's
 * "moremur" (2019). */
#define HASH_FOLD_MULTIPLIER UINT64_C(0x3C79AC492BA7B653)

static inline uint64_t hash_fold(uint64_t x, uint64_t key0, uint64_t key1)
{
  uint128 product = (uint128) HASH_FOLD_MULTIPLIER * (x ^ key0);
  return ((uint64_t) (product >> 64) ^ (uint64_t) product) + key1;
}

/* hash_spread() is a bijection.  If single bits of x look random, so does any group of neighbouring
 * bits of the result.  Source: multiplier from Steele and Vigna, "Computationally easy, spectrally
 * good multipliers for congruential pseudorandom number generators" (2022) */
#define HASH_MULTIPLIER UINT64_C(0xD1342543DE82EF95)

static inline uint64_t hash_spread(uint64_t x)
{
  return (x ^ x >> 32) * HASH_MULTIPLIER;
}

static inline struct hash_keys hash_keys_from_seed(uint64_t seed)
{
  /* Mixes the seed with two constants, so that the keys of related seeds are unrelated. */
  return (struct hash_keys){.seed = seed,
                            .mix = {hash_spread(hash_fold(seed, UINT64_C(0x9E3779B97F4A7C15), 0)),
                                    hash_spread(hash_fold(seed, UINT64_C(0x3C6EF372FE94F82A), 0))}};
}

/* Computes checksums, not hashes of keys. */
static inline uint64_t hash_sum(const void *data, size_t len, uint64_t seed)
{
  return XXH3_64bits_withSeed(data, len, seed);
}

enum { HASH_SHORT = 16 }; /* bytes; XXH3 has separate code for keys up to this length */

/* Computes XXH3 for short keys.  The compiler knows that len is small, so it drops most code. */
__attribute__((flatten)) static inline uint64_t hash_short(uint64_t seed, const void *key,
                                                           size_t len)
{
  if (len > HASH_SHORT)
    __builtin_unreachable();
  return XXH3_64bits_withSeed(key, len, seed);
}

/* Computes XXH3 for keys of any length.  `secret` saves time for keys longer than HASH_MEDIUM, but
 * does not change the result.  NULL: no secret. */
static inline uint64_t hash_long(uint64_t seed, const unsigned char *secret, const void *key,
                                 size_t len)
{
  return secret ? XXH3_64bits_withSecretandSeed(key, len, secret, HASH_SECRET_BYTES, seed)
                : XXH3_64bits_withSeed(key, len, seed);
}

/* Returns the false-positive rate that equal hashes cause in a filter of `keys` keys.  Two keys can
 * have equal hashes, or hashes that are equal after mixing: each happens at the rate keys * 2^-64.
 * The result is twice the sum of both rates, as a reserve for other false hits. */
static inline double hash_collision_rate(uint64_t keys)
{
  return 4 * (double) keys * 0x1p-64;
}

static inline uint64_t hash_mix(const struct hash_keys *keys, uint64_t hash)
{
  return hash_fold(hash, keys->mix[0], keys->mix[1]);
}

#endif
