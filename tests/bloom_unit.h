/* SPDX-License-Identifier: MIT
 *
 * What the unit tests of the Bloom filter share.
 */
#ifndef TAMIS_TESTS_BLOOM_UNIT_H
#define TAMIS_TESTS_BLOOM_UNIT_H

#include "bloom/bloom.h"
#include "filter_unit.h"

/* Runs a test body on both layouts. */
#define BOTH_LAYOUTS(name)                 \
  static void name##_blocked(void **state) \
  {                                        \
    (void) state;                          \
    name(TAMIS_LAYOUT_BLOCKED);            \
  }                                        \
  static void name##_classic(void **state) \
  {                                        \
    (void) state;                          \
    name(TAMIS_LAYOUT_CLASSIC);            \
  }

#define BOTH(name) cmocka_unit_test(name##_blocked), cmocka_unit_test(name##_classic)

#endif
