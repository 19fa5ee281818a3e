/* SPDX-License-Identifier: MIT
 *
 * What the unit tests share.
 */
#ifndef TAMIS_TESTS_UNIT_H
#define TAMIS_TESTS_UNIT_H

/* cmocka wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tamis/tamis.h"

#include <stdlib.h>

/* Fewer keys in slow builds. */
#ifdef TAMIS_SLOW
enum { SCALE = 10 };
#else
enum { SCALE = 1 };
#endif

/* Whether tests are to be as long as they can be: script/test --all wants that, in builds that are not
 * slow. */
static inline bool is_long(void)
{
  return SCALE == 1 && getenv("TAMIS_LONG"); /* NOLINT(concurrency-mt-unsafe) */
}

/* For what comes by and by, such as memory that waits for readers: long, as the machine may be
 * busy. */
enum { PATIENCE_SECONDS = 30 };

/* With TAMIS_TEST=PATTERN in the environment a program runs those of its tests only whose names
 * match. */
__attribute__((constructor)) static void choose_tests(void)
{
  const char *pattern = getenv("TAMIS_TEST"); /* NOLINT(concurrency-mt-unsafe) */
  if (pattern)
    cmocka_set_test_filter(pattern);
}

/* The entry of a test that starts threads, in a program whose other tests start none.  Under
 * ThreadSanitizer, which can find nothing in one thread, such a program runs only these;
 * check_threads.py checks that no test lacks the mark. */
#define TEST_WITH_THREADS(f) TEST_WITH_THREADS_BETWEEN(f, NULL, NULL)
#define TEST_WITH_THREADS_BETWEEN(f, set_up, tear_down) \
  cmocka_unit_test_prestate_setup_teardown(f, set_up, tear_down, (void *) "starts threads")

#ifdef TAMIS_THREADS_ONLY
static inline int run_those_with_threads(const char *name, const struct CMUnitTest *tests, size_t n,
                                         CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
  struct CMUnitTest chosen[64];
  size_t marked = 0;
  for (size_t i = 0; i < n && marked < 64; i++)
    if (tests[i].initial_state)
      chosen[marked++] = tests[i];
  return _cmocka_run_group_tests(name, marked ? chosen : tests, marked ? marked : n, set_up,
                                 tear_down);
}
#undef cmocka_run_group_tests
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests(tests, set_up, tear_down) \
  cmocka_run_group_tests_name(#tests, tests, set_up, tear_down)
#define cmocka_run_group_tests_name(name, tests, set_up, tear_down) \
  run_those_with_threads(name, tests, sizeof(tests) / sizeof((tests)[0]), set_up, tear_down)
#endif

/* A filter with a fixed seed, or a failed test. */
static inline tamis_filter *make_filter(tamis_layout layout, uint64_t capacity, double fpp)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = layout;
  options.capacity = capacity;
  options.fpp = fpp;
  options.seed = 42;
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  assert_non_null(f);
  return f;
}

static inline tamis_stats stats_of(const tamis_filter *f)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  assert_int_equal(tamis_get_stats(f, &stats), TAMIS_OK);
  return stats;
}

#endif
