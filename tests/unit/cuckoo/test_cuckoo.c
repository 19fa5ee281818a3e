/* SPDX-License-Identifier: MIT
 *
 * The cuckoo filter as a whole: its calls, in any mix, and its figures.
 */
#include "unit.h"

#include "cuckoo_unit.h"

#include <math.h>

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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_estimate_is_near_the_rate),
      cmocka_unit_test(occupancy_is_of_all_lanes),
  };
  return cmocka_run_group_tests_name("cuckoo", tests, NULL, NULL);
}
