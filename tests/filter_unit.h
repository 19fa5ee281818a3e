/* SPDX-License-Identifier: MIT
 *
 * What the unit tests of filters share.
 */
#ifndef TAMIS_TESTS_FILTER_UNIT_H
#define TAMIS_TESTS_FILTER_UNIT_H

#include "unit.h"

#include "base/filter.h"

static inline void assert_valid(const tamis_filter *f)
{
  const char *reason;
  if (!filter_validate(f, &reason))
    fail_msg("%s", reason);
}

static inline void assert_broken(const tamis_filter *f, const char *expected)
{
  const char *reason;
  assert_false(filter_validate(f, &reason));
  assert_string_equal(reason, expected);
}

#endif
