/* SPDX-License-Identifier: MIT
 *
 * The cuckoo filter as a whole: its calls, in any mix, and its figures.
 */
#include "unit.h"

#include "cuckoo_unit.h"

#include <math.h>

/* ---- hashes ---- */

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

/* ---- figures ---- */

/* The estimate is between half of the measured rate and twice it, while the filter grows and
 * opens generations. */
static void the_estimate_is_near_the_rate(void **state)
{
  (void) state;
  enum { PROBES = 1000000 / SCALE };
  const double rates[] = {0.1, 0.01};
  for (unsigned r = 0; r < 2; r++) {
    tamis_filter *f = make(100, rates[r]);
    uint64_t in = 0;
    for (uint64_t n = 1000; n <= 100000; in = n, n = n * 3 / 2) {
      add_range(f, in, n);
      uint64_t hits = 0;
      for (uint64_t i = 0; i < PROBES; i++)
        hits += tamis_contains_hash(f, ~i);
      tamis_stats s = stats_of(f);
      double estimate = s.fpp_estimate * PROBES, chance = 5 * sqrt((double) hits);
      assert_true(estimate <= 2 * ((double) hits + chance));
      assert_true(estimate >= ((double) hits - chance) / 2);
    }
    assert_true(stats_of(f).generations > 1);
    tamis_destroy(f);
  }
}

/* The occupancy is the part of all lanes of all generations that is in use. */
static void occupancy_is_of_all_lanes(void **state)
{
  (void) state;
  tamis_filter *f = make(100, 0.03);
  for (uint64_t key = 0; key < 30000; key++) {
    assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
    if (key % 2000)
      continue;
    tamis_stats stats = stats_of(f);
    uint64_t lanes = 0, entries = 0;
    for (unsigned i = 0; i < stats.generations; i++) {
      struct generation *generation = cuckoo_generation(cuckoo_of(f), i);
      struct segment_cursor cursor = {0};
      for (struct segment *s; (s = segment_next(generation, &cursor));)
        lanes += cuckoo_lanes(segment_geometry(generation, s));
      entries += cuckoo_count(generation, ENTRIES);
    }
    assert_true(stats.occupancy == (double) entries / (double) lanes);
  }
  assert_true(stats_of(f).generations > 1);
  tamis_destroy(f);
}

/* tamis_fpp_for() gives the lowest rate that fits into some bytes: tamis_bytes_for() agrees for
 * that rate and for a lower one. */
static void bytes_buy_the_lowest_rate(void **state)
{
  (void) state;
  /* With 797 keys and this many stripes, a width takes fewer bytes at some rates than at lower
   * ones. */
  const uint64_t capacities[] = {1, 797, 100000};
  for (unsigned i = 0; i < 6; i++)
    for (double rate = 0.4; rate > 1e-7; rate /= 1.3) {
      tamis_options options = options_for(capacities[i / 2], rate);
      options.growable = i % 2;
      options.stripes = 16;
      uint64_t bytes, again;
      double fpp = 7;
      assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
      assert_int_equal(tamis_fpp_for(&options, bytes, &fpp), TAMIS_OK);
      assert_true(fpp <= rate * 1.001);
      options.fpp = fpp;
      assert_int_equal(tamis_bytes_for(&options, &again), TAMIS_OK);
      assert_true(again <= bytes);
      options.fpp = fpp * 0.99;
      int result = tamis_bytes_for(&options, &again);
      assert_true(result == TAMIS_EUNSUPPORTED || again > bytes);
      assert_int_equal(tamis_fpp_for(&options, 100, &fpp), TAMIS_EFULL);
    }
}

/* Segments of a large filter are created as keys come.  Few keys make a low rate, but some. */
static void the_rate_of_a_large_filter_is_estimated(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 50000000;
  options.fpp = 0.001;
  options.seed = 42;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  for (uint64_t keys = 1; keys <= 1000; keys *= 10) {
    for (uint64_t i = keys / 10; i < keys; i++)
      assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    double now = stats_of(f).fpp_estimate;
    assert_true(now > 0 && now < 0.001);
  }
  tamis_destroy(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bad_hash_function_is_survived),
      cmocka_unit_test(the_estimate_is_near_the_rate),
      cmocka_unit_test(occupancy_is_of_all_lanes),
      cmocka_unit_test(the_rate_of_a_large_filter_is_estimated),
      cmocka_unit_test(bytes_buy_the_lowest_rate),
  };
  return cmocka_run_group_tests_name("cuckoo", tests, NULL, NULL);
}
