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

/* What a filter's seed is spread into, once, when the filter is created. */
struct hash_keys {
  uint64_t seed;
  uint64_t mix[2];
  unsigned char secret[XXH_SECRET_DEFAULT_SIZE]; /* for keys over 240 bytes, which would otherwise
                                                    derive it from the seed in every call */
};

/* Any 64-bit value in, 64 bits out that look random to whoever lacks the keys: a bijection in which
 * every input bit reaches every output bit.  The second key goes in between the rounds, so that the
 * difference of two chosen inputs does not survive the first.
 * Source: rounds and constants are Pelle Evensen's "moremur" (2019), found by searching for those
 * that lose the fewest bits on low-entropy input such as counters. */
static inline uint64_t hash_mix_with(uint64_t x, uint64_t key0, uint64_t key1)
{
  x ^= key0;
  x ^= x >> 27;
  x *= UINT64_C(0x3C79AC492BA7B653);
  x ^= x >> 33;
  x += key1;
  x *= UINT64_C(0x1C69B3F74AC4AE35);
  return x ^ x >> 27;
}

static inline struct hash_keys hash_keys_from_seed(uint64_t seed)
{
  /* Two far-apart steps of a Weyl sequence, scrambled: unrelated keys from related seeds. */
  struct hash_keys keys = {.seed = seed,
                           .mix = {hash_mix_with(seed + UINT64_C(0x9E3779B97F4A7C15), 0, 0),
                                   hash_mix_with(seed + UINT64_C(0x3C6EF372FE94F82A), 0, 0)}};
  XXH3_generateSecret_fromSeed(keys.secret, seed);
  return keys;
}

static inline uint64_t hash_bytes(const struct hash_keys *keys, const void *key, size_t len)
{
  return XXH3_64bits_withSecretandSeed(key, len, keys->secret, sizeof keys->secret, keys->seed);
}

static inline uint64_t hash_mix(const struct hash_keys *keys, uint64_t hash)
{
  return hash_mix_with(hash, keys->mix[0], keys->mix[1]);
}

#endif
