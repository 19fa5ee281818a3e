/* SPDX-License-Identifier: MIT
 *
 * How many copies of a key are in.
 */
#include "unit.h"

#include "cuckoo_unit.h"

enum { FEW = 3000, MANY_COPIES = 70 };

/* How often a key is to be in: most of them 0 to 3 times, a few often. */
static unsigned wanted_copies(uint64_t key)
{
  return key % 97 == 0 ? MANY_COPIES : (unsigned) (key % 4);
}

static void assert_counts(const tamis_filter *f, const unsigned *copies, uint64_t n)
{
  static uint64_t hashes[FEW], counts[FEW + 1];
  uint64_t sum = 0, exact = 0;
  counts[n] = 77;
  for (uint64_t i = 0; i < n; i++)
    hashes[i] = i;
  uint64_t all = tamis_count_many_hash(f, hashes, n, counts);
  for (uint64_t i = 0; i < n; i++) {
    assert_int_equal(counts[i], tamis_count_hash(f, i));
    assert_true(counts[i] >= copies[i]);
    assert_int_equal(counts[i] > 0, tamis_contains_hash(f, i));
    sum += counts[i];
    exact += counts[i] == copies[i];
  }
  assert_int_equal(all, sum);
  assert_int_equal(tamis_count_many_hash(f, hashes, n, NULL), sum);
  assert_int_equal(counts[n], 77);
  assert_true((double) (n - exact) <= 2 * stats_of(f).fpp * (double) n + 5);
}

static tamis_options sort_of_options(unsigned sort)
{
  const double rates[] = {0.05, 0.001, 1e-6};
  const bool growable[] = {true, true, false};
  const uint64_t capacities[] = {10, 5000, 2 * FEW};
  tamis_options options = options_for(capacities[sort / 3], rates[sort % 3]);
  options.growable = growable[sort / 3];
  return options;
}

/* Each add makes one copy more, and each remove one less, whatever else matches the key. */
static void each_add_and_remove_counts_once(void **state)
{
  (void) state;
  static unsigned copies[FEW];
  for (unsigned sort = 0; sort < 9; sort++) {
    tamis_options options = sort_of_options(sort);
    tamis_filter *f = make_with(&options);
    memset(copies, 0, sizeof copies);
    for (unsigned round = 0; round < MANY_COPIES; round++)
      for (uint64_t key = 0; key < FEW; key++)
        if (copies[key] < wanted_copies(key)) {
          uint64_t before = tamis_count_hash(f, key);
          assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
          copies[key]++;
          assert_int_equal(tamis_count_hash(f, key), before + 1);
        }
    assert_counts(f, copies, FEW);
    assert_int_equal(tamis_count_hash(f, 97), copies[97]);
    for (uint64_t key = 0; key < FEW; key += 2)
      for (; copies[key]; copies[key]--) {
        uint64_t before = tamis_count_hash(f, key);
        assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
        assert_int_equal(tamis_count_hash(f, key), before - 1);
      }
    assert_counts(f, copies, FEW);
    for (uint64_t key = 1; key < FEW; key += 2)
      for (; copies[key]; copies[key]--)
        assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
    assert_int_equal(tamis_count_hash(f, 97), 0);
    assert_counts(f, copies, FEW);
    tamis_destroy(f);
  }
}

/* Copies that came early are in other generations than those that come late, also those that are
 * only counted.  Some keys come with each generation. */
static void count_in_generations(double fpp, unsigned generations)
{
  enum { COPIES = 5, KEYS = 40 };
  tamis_filter *f = make(10, fpp);
  uint64_t next = 1000;
  for (unsigned n = 1; n <= generations; n++) {
    while (stats_of(f).generations < n) {
      add_range(f, next, next + 100);
      next += 100;
    }
    for (uint64_t key = 0; key < KEYS * n; key++) {
      uint64_t before = tamis_count_hash(f, key);
      assert_true(fpp > 1e-5 || before == COPIES * (n - 1 - key / KEYS));
      for (unsigned i = 1; i <= COPIES; i++) {
        assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
        assert_int_equal(tamis_count_hash(f, key), before + i);
      }
    }
  }
  for (uint64_t key = 0; key < KEYS * generations; key++)
    for (uint64_t left = COPIES * (generations - key / KEYS); left > 0; left--) {
      uint64_t before = tamis_count_hash(f, key);
      assert_true(before >= left && (fpp > 1e-5 || before == left));
      assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
      assert_int_equal(tamis_count_hash(f, key), before - 1);
    }
  assert_valid(f);
  tamis_destroy(f);
}

static void copies_of_all_generations_are_counted(void **state)
{
  (void) state;
  count_in_generations(1e-6, 2);
  count_in_generations(0.1, 3);
}

/* The sums of both filters' copies grow like the Fibonacci numbers. */
static void copies_beyond_32_bits_are_counted(void **state)
{
  (void) state;
  const uint64_t hashes[] = {1, 2, 3, 1}, enough = UINT64_C(1) << 45;
  for (unsigned growable = 0; growable < 2; growable++) {
    tamis_options options = options_for(1000, 1e-4);
    options.growable = growable;
    tamis_filter *a = make_with(&options), *b = make_with(&options), *swap;
    uint64_t in_a = 1, in_b = 1, counts[4];
    assert_int_equal(tamis_add_hash(a, 1), TAMIS_OK);
    assert_int_equal(tamis_add_hash(b, 1), TAMIS_OK);
    assert_int_equal(tamis_add_hash(b, 2), TAMIS_OK);
    while (in_a < enough) {
      assert_int_equal(tamis_merge(a, b), TAMIS_OK);
      in_a += in_b;
      assert_true(tamis_count_hash(a, 1) == in_a && tamis_count_hash(b, 1) == in_b);
      assert_int_equal(tamis_add_hash(a, 1), TAMIS_OK);
      assert_true(tamis_count_hash(a, 1) == ++in_a);
      swap = a, a = b, b = swap;
      uint64_t more = in_a;
      in_a = in_b, in_b = more;
    }
    uint64_t of_2 = tamis_count_hash(a, 2);
    assert_true(of_2 > UINT32_MAX && of_2 < in_a);
    assert_true(tamis_count_many_hash(a, hashes, 4, counts) == 2 * in_a + of_2);
    assert_true(counts[0] == in_a && counts[1] == of_2 && counts[2] == 0 && counts[3] == in_a);
    assert_true(stats_of(a).count == in_a + of_2);
    assert_int_equal(tamis_remove_hash(a, 1), TAMIS_OK);
    assert_true(tamis_count_hash(a, 1) == in_a - 1);
    assert_valid(a);
    tamis_destroy(a);
    tamis_destroy(b);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_add_and_remove_counts_once),
      cmocka_unit_test(copies_of_all_generations_are_counted),
      cmocka_unit_test(copies_beyond_32_bits_are_counted),
  };
  return cmocka_run_group_tests_name("cuckoo_copies", tests, NULL, NULL);
}
