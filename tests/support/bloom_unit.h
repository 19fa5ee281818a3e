/* SPDX-License-Identifier: MIT
 *
 * What the unit tests of the Bloom filter share.
 */
#ifndef TAMIS_TESTS_BLOOM_UNIT_H
#define TAMIS_TESTS_BLOOM_UNIT_H

#include "bloom/bloom.h"
#include "filter_unit.h"

/* A test of each layout: EACH_LAYOUT(name) { ... }, with the parameter `layout`. */
#define EACH_LAYOUT(name) OF_EACH_LAYOUT(TEST, name)
#define EACH_LAYOUT_WITH_THREADS(name) OF_EACH_LAYOUT(TEST_WITH_THREADS, name)
#define OF_EACH_LAYOUT(MARKED_TEST, name) \
  static void name(tamis_layout layout);  \
  MARKED_TEST(name##_blocked)             \
  {                                       \
    name(TAMIS_LAYOUT_BLOCKED);           \
  }                                       \
  MARKED_TEST(name##_classic)             \
  {                                       \
    name(TAMIS_LAYOUT_CLASSIC);           \
  }                                       \
  MARKED_TEST(name##_word)                \
  {                                       \
    name(TAMIS_LAYOUT_WORD);              \
  }                                       \
  static void name(tamis_layout layout)

/* A rate at which hardly any key is hidden, of those that the layout allows in small filters. */
static inline double low_rate(tamis_layout layout)
{
  return layout == TAMIS_LAYOUT_WORD ? 0.0025 : 1e-6;
}

#endif
