/* SPDX-License-Identifier: MIT
 *
 * What the unit tests of the Bloom filter share.
 */
#ifndef TAMIS_TESTS_BLOOM_UNIT_H
#define TAMIS_TESTS_BLOOM_UNIT_H

#include "bloom/bloom.h"
#include "filter_unit.h"

/* Runs a test body on each layout. */
#define EACH_LAYOUT(name)                  \
  static void name##_blocked(void **state) \
  {                                        \
    (void) state;                          \
    name(TAMIS_LAYOUT_BLOCKED);            \
  }                                        \
  static void name##_classic(void **state) \
  {                                        \
    (void) state;                          \
    name(TAMIS_LAYOUT_CLASSIC);            \
  }                                        \
  static void name##_word(void **state)    \
  {                                        \
    (void) state;                          \
    name(TAMIS_LAYOUT_WORD);               \
  }

#define EACH(name) \
  cmocka_unit_test(name##_blocked), cmocka_unit_test(name##_classic), cmocka_unit_test(name##_word)
#define EACH_WITH_THREADS(name)                                         \
  TEST_WITH_THREADS(name##_blocked), TEST_WITH_THREADS(name##_classic), \
      TEST_WITH_THREADS(name##_word)

/* A rate at which hardly any key is hidden, of those that the layout allows in small filters. */
static inline double low_rate(tamis_layout layout)
{
  return layout == TAMIS_LAYOUT_WORD ? 0.0025 : 1e-6;
}

#endif
