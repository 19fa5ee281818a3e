/* SPDX-License-Identifier: MIT
 *
 * Batches of look-ups give the answers of single calls.
 */
#include "unit.h"

#include "cuckoo_unit.h"

static void batches_are_the_single_calls(void **state)
{
  (void) state;
  enum { N = 20000 };
  static uint64_t hashes[N];
  static int results[N];
  static bool found[N];
  const size_t lengths[] = {0, 1, 31, 32, 33, 64, 100, 739};
  tamis_filter *one = make(100, 0.01), *many = make(100, 0.01);
  uint64_t random = 5;
  for (unsigned i = 0; i < N; i++)
    hashes[i] = random_next(&random) % (N / 2); /* most of them twice */
  for (size_t at = 0, l = 0; at < N; l++) {
    size_t n = lengths[l % 8] < N - at ? lengths[l % 8] : N - at;
    bool unique = l / 8 % 2;
    assert_int_equal((unique ? tamis_add_unique_many_hash : tamis_add_many_hash)(many, hashes + at,
                                                                                 n, results + at),
                     TAMIS_OK);
    for (size_t i = at; i < at + n; i++)
      assert_int_equal(results[i],
                       (unique ? tamis_add_unique_hash : tamis_add_hash)(one, hashes[i]));
    assert_int_equal(tamis_contains_many_hash(many, hashes + at, n, NULL), n);
    at += n;
  }
  tamis_stats a = stats_of(one), b = stats_of(many);
  assert_same_contents(&a, &b);
  for (uint64_t i = 0; i < N; i++)
    hashes[i] = i;
  size_t hits = tamis_contains_many_hash(many, hashes, N, found);
  for (uint64_t i = 0; i < N; i++) {
    assert_int_equal(found[i], tamis_contains_hash(one, i));
    hits -= found[i];
  }
  assert_int_equal(hits, 0);
  assert_valid(many);
  tamis_destroy(one);
  tamis_destroy(many);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_are_the_single_calls),
  };
  return cmocka_run_group_tests_name("cuckoo_lookup", tests, NULL, NULL);
}
