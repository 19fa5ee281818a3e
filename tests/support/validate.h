/* SPDX-License-Identifier: MIT
 *
 * Checks the whole structure of filters.  No other call may run meanwhile.
 */
#ifndef TAMIS_TESTS_VALIDATE_H
#define TAMIS_TESTS_VALIDATE_H

#include "base/filter.h"
#include "table/counts.h"

/* Returns true if the filter's structure is valid.  If not, sets *reason to what is wrong. */
bool filter_validate(const tamis_filter *f, const char **reason);

bool counts_are_whole(const struct table_counts *d);

#endif
