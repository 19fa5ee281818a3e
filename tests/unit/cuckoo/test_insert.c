/* SPDX-License-Identifier: MIT
 *
 * Adds: unique ones, those to full filters, and batches of them.
 */
#include "unit.h"

#include "cuckoo_unit.h"

static uint64_t one_of_three(void *context, const void *key, size_t len, uint64_t seed)
{
  (void) context, (void) seed, (void) len;
  uint64_t number;
  memcpy(&number, key, sizeof number);
  return number % 3;
}

static void a_bad_hash_function_is_survived(void **state)
{
  (void) state;
  enum { N = 1000000 / SCALE };
  for (int growable = 0; growable < 2; growable++)
    for (uint64_t capacity = 10; capacity <= 100000; capacity *= 100) {
      tamis_options options = options_for(capacity, 0.001);
      options.hash = one_of_three;
      options.growable = growable;
      tamis_filter *f = make_with(&options);
      for (uint64_t i = 0; i < N; i++)
        assert_int_equal(tamis_add(f, &i, sizeof i), TAMIS_OK);
      tamis_stats s = stats_of(f);
      assert_int_equal(s.count, N);
      assert_true(s.growths < 20 && s.segments < 40);
      for (uint64_t i = 0; i < N; i++) {
        assert_true(tamis_contains(f, &i, sizeof i));
        assert_int_equal(tamis_remove(f, &i, sizeof i), TAMIS_OK);
      }
      for (uint64_t i = 0; i < 3; i++)
        assert_false(tamis_contains(f, &i, sizeof i));
      assert_int_equal(stats_of(f).count, 0);
      assert_valid(f);
      tamis_destroy(f);
    }
}

/* ---- filters that do not grow ---- */

static void fill_to_the_end(uint64_t n, double fpp, uint64_t seed)
{
  tamis_options options = options_for(n, fpp);
  options.growable = false;
  options.seed = seed;
  tamis_filter *f = make_with(&options);
  uint64_t bytes = stats_of(f).bytes, in = 0;
  for (; in < n; in++)
    if (tamis_add_hash(f, in) != TAMIS_OK)
      fail_msg("full at %lu of %lu, fpp %g, seed %lu", in, n, fpp, seed);
  while (tamis_add_hash(f, in) == TAMIS_OK)
    in++;
  assert_true(in < 3 * n + 1000);
  tamis_stats full = stats_of(f);
  assert_int_equal(full.count, in);
  assert_true(full.bytes <= bytes + bytes / 4 + 2048); /* duplicate counts */
  assert_all_in(f, 0, in);
  assert_int_equal(tamis_add_hash(f, in), TAMIS_EFULL);
  assert_int_equal(tamis_add_unique_hash(f, in),
                   tamis_contains_hash(f, in) ? TAMIS_PRESENT : TAMIS_EFULL);
  tamis_stats still = stats_of(f);
  assert_same_contents(&full, &still);
  assert_all_in(f, 0, in);
  assert_valid(f);
  /* An add fits again when enough other keys have been removed to make room in its segment. */
  uint64_t gone = 0;
  while (tamis_add_hash(f, in) == TAMIS_EFULL && gone < in)
    assert_int_equal(tamis_remove_hash(f, gone++), TAMIS_OK);
  assert_true(gone >= 1 && gone <= 1 + in / 4);
  assert_all_in(f, gone, in + 1);
  assert_int_equal(stats_of(f).count, in + 1 - gone);
  assert_valid(f);
  tamis_destroy(f);
}

static void capacity_is_held_when_not_growable(void **state)
{
  (void) state;
  const uint64_t capacities[] = {1, 2, 3, 5, 8, 10, 17, 33, 100, 1000, 33333, 250000};
  const double rates[] = {0.03, 0.01, 1e-3, 1e-4, 1e-6};
  for (unsigned c = 0; c < sizeof capacities / sizeof *capacities; c++)
    for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
      if (SCALE > 1 && capacities[c] > 50000)
        continue;
      unsigned seeds = capacities[c] <= 1000 ? 40 : capacities[c] <= 50000 ? 5 : 1;
      for (uint64_t seed = 1; seed <= (SCALE > 1 ? seeds / 5 + 1 : seeds); seed++)
        fill_to_the_end(capacities[c], rates[r], seed);
    }
}

/* ---- batches ---- */

/* A batch reports its first failure, whatever fails after it. */
static void a_batch_reports_its_first_failure(void **state)
{
  (void) state;
  enum { N = 5000 };
  struct bank bank = {0};
  tamis_allocator allocator = {bank_allocate, bank_release, &bank};
  tamis_options options = options_for(1000, 0.001);
  options.allocator = &allocator;
  uint64_t needed;
  assert_int_equal(tamis_bytes_for(&options, &needed), TAMIS_OK);
  options.max_bytes = 2 * needed;
  tamis_filter *f = make_with(&options);
  static uint64_t hashes[N];
  static int results[N];
  for (uint64_t i = 0; i < N; i++)
    hashes[i] = i;
  bank.fail_at = bank.calls + 1;
  assert_int_equal(tamis_add_many_hash(f, hashes, N, results), TAMIS_ENOMEM);
  uint64_t first = 0;
  while (results[first] == TAMIS_OK)
    first++;
  assert_int_equal(results[first], TAMIS_ENOMEM);
  /* Which keys are refused depends on the backlog; that some keys are does not. */
  uint64_t refused = 0;
  for (uint64_t i = first + 1; i < N; i++) {
    assert_true(results[i] == TAMIS_OK || results[i] == TAMIS_EFULL);
    refused += results[i] == TAMIS_EFULL;
  }
  assert_true(refused > 0);
  tamis_destroy(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bad_hash_function_is_survived),
      cmocka_unit_test(capacity_is_held_when_not_growable),
      cmocka_unit_test(a_batch_reports_its_first_failure),
  };
  return cmocka_run_group_tests_name("cuckoo_insert", tests, NULL, NULL);
}
