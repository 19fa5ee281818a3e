/* SPDX-License-Identifier: MIT
 *
 * The ratios that the library is to keep, each measured in one run, and whether it does.
 */
#ifndef TAMIS_BENCH_TABLE_H
#define TAMIS_BENCH_TABLE_H

#include "measure.h"

struct table_sizes {
  uint64_t small;  /* keys; a filter for as many fits into the caches */
  uint64_t medium; /* does not */
  uint64_t large;  /* 0: leave that out */
  uint64_t bytes;  /* of a filter that is only created */
};

/* The sections named, or all if n is 0.  As a Markdown table: that alone should be printed, so the
 * settings should be quiet. */
void table_run(const struct table_sizes *sizes, const struct settings *settings, bool markdown,
               const char *const *sections, unsigned n);

/* The n-th section's name; NULL: there are fewer. */
const char *table_section(unsigned n);

#endif
