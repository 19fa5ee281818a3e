/* SPDX-License-Identifier: MIT
 *
 * What a window promises in time: with a clock, its caller's, that is late, stopped, set back or wrong.
 */
#include "shared_unit.h"

static uint64_t period_of(const tamis_filter *f)
{
  return stats_of(f).period;
}

static tamis_options window_options(unsigned periods, uint64_t capacity)
{
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  options.window = periods;
  options.capacity = capacity;
  options.fpp = 1e-5;
  return options;
}

/* After a clock that was wrong, forwards or backwards, in a window that is shared, saved or private. */
static void another_number_changes_no_age(void **state)
{
  (void) state;
  enum { WINDOW = 4, NOW = 1000 };
  static const uint64_t wrong[] = {(UINT64_C(1) << 36) - 1, NOW + 3, NOW, 5, 0};
  tamis_options options = window_options(WINDOW, 1000);
  for (unsigned i = 0; i < 3 * sizeof wrong / sizeof *wrong; i++) {
    tamis_filter *f = NULL, *other;
    if (i % 3)
      assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    else
      f = open_shared(&options);
    assert_int_equal(tamis_advance_to(f, wrong[i / 3]), TAMIS_OK);
    for (uint64_t key = 0; key <= WINDOW; key++) { /* added in one period after the other */
      assert_int_equal(tamis_add_hash(f, hash_of(key)), TAMIS_OK);
      if (key < WINDOW)
        assert_int_equal(tamis_advance(f), TAMIS_OK);
    }
    assert_int_equal(tamis_set_period(f, NOW), TAMIS_OK);
    other = i % 3 ? NULL : open_shared(NULL);
    if (i % 3 == 2) {
      assert_int_equal(tamis_save_file(f, shared_path), TAMIS_OK);
      tamis_destroy(f);
      assert_int_equal(tamis_load_file(NULL, shared_path, &f), TAMIS_OK);
    }
    assert_int_equal(period_of(other ? other : f), NOW);
    for (uint64_t later = 0; later <= WINDOW + 1; later++) {
      assert_int_equal(tamis_advance_to(f, NOW + later), TAMIS_OK);
      assert_int_equal(period_of(f), NOW + later);
      for (uint64_t key = 0; key <= WINDOW; key++)
        assert_int_equal(tamis_contains_hash(other ? other : f, hash_of(key)), key >= later);
      assert_valid(f);
    }
    tamis_destroy(f);
    tamis_destroy(other);
    count_files(true);
  }
  tamis_filter *none;
  assert_int_equal(tamis_set_period(NULL, 0), TAMIS_EINVAL);
  options.window = 0;
  assert_int_equal(tamis_create(&options, &none), TAMIS_OK);
  assert_int_equal(tamis_set_period(none, 0), TAMIS_EUNSUPPORTED);
  tamis_destroy(none);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(another_number_changes_no_age),
  };
  in_memory = true;
  return cmocka_run_group_tests_name("window_time", tests, NULL, NULL);
}
