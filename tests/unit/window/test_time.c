/* SPDX-License-Identifier: MIT
 *
 * What a window promises in time: with a clock, its caller's, that is late, stopped, set back or wrong.
 */
#include "shared_unit.h"

#include "base/hash.h"

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
  tamis_filter *f = make_with_options(&options);
  assert_int_equal(tamis_advance_to(f, wrong[0] + 1), TAMIS_EINVAL);
  assert_int_equal(tamis_advance_to(f, UINT64_MAX), TAMIS_EINVAL);
  tamis_destroy(f);
  assert_int_equal(tamis_advance_to(NULL, 0), TAMIS_EINVAL);
  assert_int_equal(tamis_set_period(NULL, 0), TAMIS_EINVAL);
  options.window = 0;
  f = make_with_options(&options);
  assert_int_equal(tamis_advance_to(f, 1), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_set_period(f, 0), TAMIS_EUNSUPPORTED);
  tamis_destroy(f);
}

/* ---- clocks that are late ---- */

/* Adders go by the clock before they add; others come late, stopped, set back or never.  Each key is
 * remembered while the clock is at most G periods ahead of its add. */
static void adders_who_go_by_the_clock_first_are_remembered(void **state)
{
  (void) state;
  static const unsigned windows[] = {1, 2, 3, 4, 5, 6, 7, 8, 64};
  enum { KEYS = 500, STEPS = 20000 };
  for (unsigned i = 0; i < 2 * sizeof windows / sizeof *windows; i++) {
    const unsigned G = windows[i / 2];
    tamis_options options = window_options(G, KEYS);
    uint64_t random = i + 1, clock = 1000, added[KEYS];
    bool known[KEYS] = {false};
    tamis_filter *f = NULL;
    if (i % 2)
      assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    else
      f = open_shared(&options);
    for (unsigned step = 0; step < STEPS; step++) {
      random = random * HASH_MULTIPLIER + 1;
      const uint64_t key = (random >> 40) % KEYS, late = (random >> 20) % (3 * G);
      if (!((random >> 32) % 16))
        clock += late % 5 ? late % 3 : late; /* the machine was stopped */
      if (!((random >> 12) % 4))
        assert_int_equal(tamis_advance_to(f, clock - late), TAMIS_OK); /* a clock that is behind */
      if (!((random >> 50) % 4))
        continue;
      assert_int_equal(tamis_advance_to(f, clock), TAMIS_OK);
      const bool remembered = known[key] && clock <= added[key] + G;
      assert_int_equal(tamis_contains_hash(f, hash_of(key)), remembered);
      assert_int_equal(tamis_add_unique_hash(f, hash_of(key)),
                       remembered ? TAMIS_PRESENT : TAMIS_OK);
      if (!remembered)
        added[key] = clock;
      known[key] = true;
    }
    assert_valid(f);
    tamis_destroy(f);
    count_files(true);
  }
}

/* One tick ends one period, and the next tick comes a whole period of time after its return, however
 * late both are. */
static void a_timer_that_never_catches_up_forgets_nothing_early(void **state)
{
  (void) state;
  enum { PERIOD = 300, LATE = 7200 };
  for (unsigned G = 1; G <= 12; G++) {
    tamis_options options = window_options(G, 1000);
    tamis_filter *f;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    uint64_t random = G, next = PERIOD, won = 0;
    for (uint64_t now = 0; now < 400 * PERIOD; now += 10) {
      random = random * HASH_MULTIPLIER + 1;
      if (now >= next + (random >> 40) % LATE % (G * PERIOD)) {
        assert_int_equal(tamis_advance(f), TAMIS_OK);
        next = now + PERIOD;
      }
      if (tamis_add_unique_hash(f, hash_of(1)) == TAMIS_OK) {
        assert_true(!won || now - won >= G * PERIOD);
        won = now;
      }
    }
    tamis_destroy(f);
  }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(another_number_changes_no_age),
      TEST(adders_who_go_by_the_clock_first_are_remembered),
      TEST(a_timer_that_never_catches_up_forgets_nothing_early),
  };
  in_memory = true;
  return cmocka_run_group_tests_name("window_time", tests, NULL, NULL);
}
