/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "hash.h"

/* The precomputed secret must give what XXH3 gives with the seed alone, on both sides of the length
 * (240) at which XXH3 changes its method. */
static void hash_is_seeded_xxh3(void **state)
{
  (void) state;
  unsigned char text[1000];
  for (unsigned i = 0; i < sizeof text; i++)
    text[i] = (unsigned char) (i * 7);
  struct hash_keys keys = hash_keys_from_seed(12345);
  for (size_t len = 0; len <= sizeof text; len++)
    assert_int_equal(hash_bytes(&keys, text, len), XXH3_64bits_withSeed(text, len, 12345));
  assert_int_equal(hash_bytes(&keys, NULL, 0), XXH3_64bits_withSeed("", 0, 12345));
}

/* Every input bit flips every output bit about half of the time, also on counters. */
static void mix_avalanches(void **state)
{
  (void) state;
  enum { SAMPLES = 4000 };
  struct hash_keys keys = hash_keys_from_seed(1);
  for (unsigned in = 0; in < 64; in++) {
    unsigned flips[64] = {0};
    for (uint64_t i = 0; i < SAMPLES; i++) {
      uint64_t change = hash_mix(&keys, i) ^ hash_mix(&keys, i ^ UINT64_C(1) << in);
      for (unsigned out = 0; out < 64; out++)
        flips[out] += (unsigned) (change >> out & 1);
    }
    for (unsigned out = 0; out < 64; out++) /* about twelve standard deviations */
      assert_in_range(flips[out], SAMPLES * 0.4, SAMPLES * 0.6);
  }
}

/* A bijection: undone step by step it gives the input back. */
static uint64_t unshift(uint64_t x, unsigned n)
{
  uint64_t y = x;
  for (unsigned i = 0; i < 64 / n + 1; i++)
    y = x ^ y >> n;
  return y;
}

static uint64_t inverse(uint64_t odd)
{
  uint64_t x = odd;
  for (unsigned i = 0; i < 6; i++) /* Newton: doubles the correct low bits each time */
    x *= 2 - odd * x;
  return x;
}

static void mix_is_a_bijection(void **state)
{
  (void) state;
  struct hash_keys keys = hash_keys_from_seed(77);
  uint64_t inputs[] = {0, 1, 2, 0xff, UINT64_MAX, UINT64_C(1) << 63, 0x0123456789abcdef};
  for (unsigned i = 0; i < sizeof inputs / sizeof *inputs; i++) {
    uint64_t x = unshift(hash_mix(&keys, inputs[i]), 27) * inverse(UINT64_C(0x1C69B3F74AC4AE35));
    x = unshift(x - keys.mix[1], 33) * inverse(UINT64_C(0x3C79AC492BA7B653));
    assert_int_equal(unshift(x, 27) ^ keys.mix[0], inputs[i]);
  }
}

static void seeds_give_unrelated_mixes(void **state)
{
  (void) state;
  struct hash_keys a = hash_keys_from_seed(1), b = hash_keys_from_seed(2);
  unsigned differing = 0;
  for (uint64_t i = 0; i < 1000; i++)
    differing += (unsigned) __builtin_popcountll(hash_mix(&a, i) ^ hash_mix(&b, i));
  assert_in_range(differing, 31000, 33000);
}

/* Equal keys would let chosen inputs cancel both. */
static void the_keys_of_a_mix_differ(void **state)
{
  (void) state;
  for (uint64_t seed = 0; seed < 1000; seed++) {
    struct hash_keys keys = hash_keys_from_seed(seed);
    assert_int_not_equal(keys.mix[0], keys.mix[1]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hash_is_seeded_xxh3),      cmocka_unit_test(mix_avalanches),
      cmocka_unit_test(mix_is_a_bijection),       cmocka_unit_test(seeds_give_unrelated_mixes),
      cmocka_unit_test(the_keys_of_a_mix_differ),
  };
  return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
