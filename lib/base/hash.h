/* SPDX-License-Identifier: MIT
 *
 * Layer 0: from a key to 64 well-mixed bits.  The only user of xxHash.
 */
#ifndef TAMIS_LIB_HASH_H
#define TAMIS_LIB_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Holds the product of two 64-bit words.  C11 has no such type: __extension__ lets gcc and clang accept it
 * under -Wpedantic as well. */
__extension__ typedef unsigned __int128 uint128;

/* What a filter's seed is spread into, once, when the filter is created. */
struct hash_keys {
  uint64_t seed;
  uint64_t mix[2];
  unsigned char secret[XXH_SECRET_DEFAULT_SIZE]; /* for keys over 240 bytes, which would otherwise
                                                    derive it from the seed in every call */
};

/* Any 64-bit value in, 64 bits out, each of which depends on every bit of the input and of the keys.
 * That is enough for single bits; a group of them still shows the regularity of regular input, such as
 * counters, until it has been multiplied once more (docs/bloom.md: measured).  So geometry takes numbers
 * of lines and strings from hash_spread() or from the top of a product.
 *
 * Both halves of one product count: the high one brings the input's high bits down, the low one its low
 * bits up.  Two hashes become one with the probability of two random numbers, 2^-64.
 * Source: the folded multiplication is that of Wang Yi's wyhash (2019); the multiplier is from Pelle
 * Evensen's "moremur" (2019). */
static inline uint64_t hash_fold(uint64_t x, uint64_t key0, uint64_t key1)
{
  uint128 product = (uint128) UINT64_C(0x3C79AC492BA7B653) * (x ^ key0);
  return ((uint64_t) (product >> 64) ^ (uint64_t) product) + key1;
}

/* A bijection after which any stretch of bits looks random, if single bits did before.
 * Source: multiplier from Steele and Vigna, "Computationally easy, spectrally good multipliers for
 * congruential pseudorandom number generators" (2022) */
#define HASH_MULTIPLIER UINT64_C(0xD1342543DE82EF95)

static inline uint64_t hash_spread(uint64_t x)
{
  return (x ^ x >> 32) * HASH_MULTIPLIER;
}

static inline struct hash_keys hash_keys_from_seed(uint64_t seed)
{
  /* Two far-apart steps of a Weyl sequence, scrambled: unrelated keys from related seeds. */
  struct hash_keys keys = {.seed = seed,
                           .mix = {hash_spread(hash_fold(seed, UINT64_C(0x9E3779B97F4A7C15), 0)),
                                   hash_spread(hash_fold(seed, UINT64_C(0x3C6EF372FE94F82A), 0))}};
  XXH3_generateSecret_fromSeed(keys.secret, seed);
  return keys;
}

enum { HASH_SHORT = 16 }; /* bytes; XXH3 has a way of its own for keys up to that */

/* Nothing but that way: of the whole function the compiler would make a call that costs as much as the
 * hashing.  (flatten: inlines all that is called, of which little remains for such lengths.) */
__attribute__((flatten)) static inline uint64_t hash_short(uint64_t seed, const void *key,
                                                           size_t len)
{
  if (len > HASH_SHORT)
    __builtin_unreachable();
  return XXH3_64bits_withSeed(key, len, seed);
}

static inline uint64_t hash_bytes(const struct hash_keys *keys, const void *key, size_t len)
{
  if (len <= HASH_SHORT)
    return hash_short(keys->seed, key, len);
  return XXH3_64bits_withSecretandSeed(key, len, keys->secret, sizeof keys->secret, keys->seed);
}

/* The rate at which a key cannot be told from one of so many others because all that is known of both is
 * the same: their 64-bit hashes, or what mixing makes of them.  As much again, for what else may
 * coincide in a filter. */
static inline double hash_collisions(uint64_t keys)
{
  return 4 * (double) keys * 0x1p-64;
}

static inline uint64_t hash_mix(const struct hash_keys *keys, uint64_t hash)
{
  return hash_fold(hash, keys->mix[0], keys->mix[1]);
}

#endif
