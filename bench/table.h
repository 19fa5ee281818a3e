/* SPDX-License-Identifier: MIT
 *
 * A table of ratios, each measured within one run, with the limits that the library should keep.
 */
#ifndef TAMIS_BENCH_TABLE_H
#define TAMIS_BENCH_TABLE_H

#include "measure.h"

struct table_sizes {
  uint64_t small;  /* keys whose filter fits into the caches */
  uint64_t medium; /* keys whose filter does not */
  uint64_t large;  /* many more keys; 0: leave them out */
  uint64_t bytes;  /* of a filter that is only created */
};

/* Measures the n sections named, or all if n is 0, and prints the table.  For Markdown the settings
 * should be quiet, so that nothing else is printed. */
void table_run(const struct table_sizes *sizes, const struct settings *settings, bool markdown,
               const char *const *sections, unsigned n);

/* The name of the n-th section; NULL: there are fewer. */
const char *table_section(unsigned n);

#endif
