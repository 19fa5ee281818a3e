/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/hash.h"

/* How xxHash reads words; -1: it chooses. */
#ifdef XXH_FORCE_MEMORY_ACCESS
enum { MEMORY_ACCESS = XXH_FORCE_MEMORY_ACCESS };
#else
enum { MEMORY_ACCESS = -1 };
#endif

/* A constant would make gcc warn of reads that are not made. */
static const unsigned char *volatile none = NULL;

static uint64_t hash_bytes(const struct hash_keys *keys, const unsigned char *secret,
                           const void *key, size_t len)
{
  return len <= HASH_SHORT ? hash_short(keys->seed, key, len)
                           : hash_long(keys->seed, secret, key, len);
}

/* The precomputed secret must give what XXH3 gives with the seed alone, on both sides of the length
 * (240) at which XXH3 changes its method. */
TEST(hash_is_seeded_xxh3)
{
  unsigned char text[1000];
  for (unsigned i = 0; i < sizeof text; i++)
    text[i] = (unsigned char) (i * 7);
  struct hash_keys keys = hash_keys_from_seed(12345);
  unsigned char secret[HASH_SECRET_BYTES];
  hash_make_secret(12345, secret);
  for (size_t len = 0; len <= sizeof text; len++) {
    XXH64_hash_t hash = XXH3_64bits_withSeed(text, len, 12345);
    assert_int_equal(hash_bytes(&keys, secret, text, len), hash);
    assert_int_equal(hash_bytes(&keys, none, text, len), hash);
  }
  assert_int_equal(hash_bytes(&keys, secret, (const void *) none, 0),
                   XXH3_64bits_withSeed("", 0, 12345));
}

/* A key that was written as numbers of another type just before it is hashed.  (Compilers differ in
 * what they make of an access that may not alias; so the choice of the access is tested, too.) */
TEST(keys_are_read_as_they_were_written)
{
  const struct hash_keys keys = hash_keys_from_seed(3);
  assert_int_equal(MEMORY_ACCESS, 0);
  for (unsigned n = 1; n <= 3; n++)
    for (unsigned i = 0; i < 100; i++) {
      double written[3] = {0};
      unsigned char bytes[sizeof written];
      for (unsigned j = 0; j < n; j++)
        written[j] = i + j / 2.0;
      uint64_t hash = hash_bytes(&keys, none, written, n * sizeof *written);
      for (unsigned j = 0; j < n * sizeof *written; j++)
        bytes[j] = ((const volatile unsigned char *) written)[j];
      assert_int_equal(hash, hash_bytes(&keys, none, bytes, n * sizeof *written));
    }
}

static uint64_t spread(const struct hash_keys *keys, uint64_t hash)
{
  return hash_spread(hash_mix(keys, hash));
}

/* Regular input, of each sort that programs use as identifiers. */
enum { SORTS = 10 };

static uint64_t regular(unsigned sort, uint64_t i)
{
  double number = (double) i;
  uint64_t bits;
  switch (sort) {
  case 0:
    return i;
  case 1:
    return i << 32;
  case 2:
    return i << 40;
  case 3:
    return i * 16 + UINT64_C(0x7f0000000000); /* addresses */
  case 4:
    return i * 4096;
  case 5:
    return i ^ i >> 1;
  case 6:
    return __builtin_bswap64(i);
  case 7:
    memcpy(&bits, &number, sizeof bits);
    return bits;
  case 8:
    return i % 1000 << 32 | i / 1000; /* columns and rows */
  default:
    return i * HASH_MULTIPLIER;
  }
}

/* In any stretch of bits as many pairs of keys collide as among random numbers.  (With half of
 * the multiplications some sorts give no collision, or a hundred times as many.) */
TEST(stretches_of_spread_bits_collide_like_random_ones)
{
  enum { KEYS = 1 << 16, BITS = 20 };
  static uint8_t seen[1 << BITS];
  for (unsigned sort = 0; sort < SORTS; sort++)
    for (unsigned start = 0; start <= 64 - BITS; start += 11) {
      uint64_t pairs = 0;
      for (uint64_t seed = 1; seed <= 4; seed++) {
        struct hash_keys keys = hash_keys_from_seed(seed);
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < KEYS; i++)
          pairs += seen[spread(&keys, regular(sort, i)) << start >> (64 - BITS)]++;
      }
      double expected = 4 * 0.5 * KEYS * (KEYS - 1.0) / (1 << BITS);
      assert_in_range(pairs, 0.92 * expected, 1.08 * expected); /* seven standard deviations */
    }
}

/* If the keys were equal, chosen inputs could cancel both. */
TEST(the_keys_of_a_mix_differ)
{
  for (uint64_t seed = 0; seed < 1000; seed++) {
    struct hash_keys keys = hash_keys_from_seed(seed);
    assert_int_not_equal(keys.mix[0], keys.mix[1]);
  }
}
