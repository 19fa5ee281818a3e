/* SPDX-License-Identifier: MIT
 *
 * Every bit of a seed, in every form of filter.
 */
#include "saved_unit.h"

#include "harness.h"

#include <string.h>

static tamis_filter *make(const struct form *form, uint64_t seed)
{
  tamis_options o = form->options;
  o.seed = seed;
  return make_with_options(&o);
}

static void assert_same(const struct form *form, const tamis_filter *f, const tamis_filter *twin)
{
  struct bytes a = saved_bytes(f), b = saved_bytes(twin);
  if (stats_of(f).count != stats_of(twin).count || a.size != b.size ||
      memcmp(a.data, b.data, a.size) != 0)
    fail_msg("%s: batches leave another filter than single calls", form->name);
  free(a.data), free(b.data);
}

/* ---- every bit of a seed ---- */

/* XXH3 has a way of its own for each range of lengths, and here there is one for long keys. */
static const size_t lengths[] = {0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1000};
enum { LENGTHS = sizeof lengths / sizeof *lengths, KEYS = 96, BYTES = 1000 + KEYS };

static const unsigned char *bytes_of_keys(void)
{
  static unsigned char bytes[BYTES];
  for (size_t i = 0; i < BYTES; i++)
    bytes[i] = (unsigned char) (random_at(3, i) & 0xFF);
  return bytes;
}

/* Key number i: bytes from i on, so that no two are equal, but for the empty one. */
static tamis_key key_at(size_t i)
{
  return (tamis_key){bytes_of_keys() + i, lengths[i % LENGTHS]};
}

static tamis_filter *loaded(const struct bytes *saved, uint64_t seed)
{
  struct source source = source_of(saved), again = source;
  tamis_stats info = TAMIS_STATS_INIT;
  assert_int_equal(tamis_saved_info(read_source, &source, &info), TAMIS_OK);
  assert_int_equal(info.seed, seed);
  tamis_filter *f;
  assert_int_equal(tamis_load(NULL, read_source, &again, &f), TAMIS_OK);
  assert_int_equal(stats_of(f).seed, seed);
  return f;
}

/* Filters whose seeds differ have unlike hashes and places, and do not go together. */
static void assert_unlike(const struct form *form, tamis_filter *f, tamis_filter *other)
{
  unsigned hits = 0;
  tamis_filter *both = NULL;
  tamis_similarity_stats similarity = TAMIS_SIMILARITY_STATS_INIT;
  for (size_t i = 0; i < KEYS; i++) {
    tamis_key key = key_at(i);
    uint64_t hash = tamis_hash(f, key.data, key.len);
    if (hash == tamis_hash(other, key.data, key.len))
      fail_msg("%s: a key of %zu bytes has one hash with two seeds", form->name, key.len);
    hits += tamis_contains_hash(other, hash); /* what the hash is mixed with differs, too */
  }
  assert_in_range(hits, 0, KEYS / 8);
  assert_int_equal(tamis_merge(f, other), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(other, f), TAMIS_EINVAL);
  assert_true(tamis_intersect(f, other, &both) < 0 && !both);
  assert_true(tamis_similarity(f, other, &similarity) < 0);
}

/* A filter with these keys, by one batch or by single calls. */
static tamis_filter *filled(const struct form *form, uint64_t seed, bool batch)
{
  tamis_filter *f = make(form, seed);
  tamis_key keys[KEYS];
  for (size_t i = 0; i < KEYS; i++)
    keys[i] = key_at(i);
  if (batch)
    assert_int_equal(tamis_add_unique_many(f, keys, KEYS, NULL), TAMIS_OK);
  for (size_t i = 0; i < KEYS && !batch; i++)
    assert_true(tamis_add_unique(f, keys[i].data, keys[i].len) >= 0);
  return f;
}

static void every_bit_of_a_seed(void **state)
{
  (void) state;
  const uint64_t seed = UINT64_C(0x5DEECE66D2B89A71);
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_filter *f = filled(form, seed, true);
    for (unsigned bit = 0; bit<64; bit += SCALE> 1 ? 7 : 1) {
      uint64_t other_seed = seed ^ UINT64_C(1) << bit;
      tamis_filter *batch = filled(form, other_seed, true),
                   *single = filled(form, other_seed, false);
      tamis_filter *empty = make(form, other_seed);
      assert_same(form, batch, single);
      assert_unlike(form, f, batch);
      struct bytes saved = saved_bytes(batch);
      tamis_filter *same = loaded(&saved, other_seed);
      for (size_t i = 0; i < KEYS; i++) {
        tamis_key key = key_at(i);
        assert_true(tamis_contains(same, key.data, key.len));
        assert_int_equal(tamis_hash(same, key.data, key.len), tamis_hash(batch, key.data, key.len));
      }
      assert_unlike(form, f, same);
      assert_int_equal(tamis_merge(empty, same), TAMIS_OK);
      free(saved.data);
      tamis_destroy(batch), tamis_destroy(single), tamis_destroy(same), tamis_destroy(empty);
    }
    tamis_destroy(f);
  }
}

static uint64_t seed_as_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  (void) context, (void) key, (void) len;
  return seed;
}

static void a_users_hash_gets_every_bit_of_the_seed(void **state)
{
  (void) state;
  for (unsigned bit = 0; bit < 64; bit++) {
    tamis_options o = TAMIS_OPTIONS_INIT;
    o.capacity = 10, o.seed = UINT64_C(1) << bit, o.hash = seed_as_hash;
    tamis_filter *f;
    assert_int_equal(tamis_create(&o, &f), TAMIS_OK);
    assert_int_equal(tamis_hash(f, "key", 3), o.seed);
    const tamis_key keys[] = {{"key", 3}, {NULL, 0}};
    assert_int_equal(tamis_add_many(f, keys, 1, NULL), TAMIS_OK);
    assert_true(tamis_contains_hash(f, o.seed));
    assert_int_equal(tamis_contains_many(f, keys, 2, NULL), 2);
    tamis_destroy(f);
  }
}

static uint64_t hash_without_seed(void *context, const void *key, size_t len, uint64_t seed)
{
  (void) context, (void) key, (void) seed;
  return len;
}

/* What a hash is mixed with follows from the seed in any case. */
static void seeds_that_a_users_hash_ignores_are_compared(void **state)
{
  (void) state;
  for (unsigned bit = 0; bit < 64; bit++) {
    tamis_options o = TAMIS_OPTIONS_INIT;
    tamis_filter *f, *other;
    o.capacity = 10, o.seed = UINT64_C(0x5DEECE66D2B89A71), o.hash = hash_without_seed;
    assert_int_equal(tamis_create(&o, &f), TAMIS_OK);
    o.seed ^= UINT64_C(1) << bit;
    assert_int_equal(tamis_create(&o, &other), TAMIS_OK);
    assert_int_equal(tamis_merge(f, other), TAMIS_EINVAL);
    tamis_destroy(f), tamis_destroy(other);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_bit_of_a_seed),
      cmocka_unit_test(a_users_hash_gets_every_bit_of_the_seed),
      cmocka_unit_test(seeds_that_a_users_hash_ignores_are_compared),
  };
  return cmocka_run_group_tests_name("every", tests, NULL, NULL);
}
