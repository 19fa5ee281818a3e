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

/* With TAMIS_TEST=PATTERN in the environment a program runs those of its tests only whose names
 * match. */
__attribute__((constructor)) static void choose_tests(void)
{
  const char *pattern = getenv("TAMIS_TEST"); /* NOLINT(concurrency-mt-unsafe) */
  if (pattern)
    cmocka_set_test_filter(pattern);
}

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
