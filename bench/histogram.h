/* SPDX-License-Identifier: MIT
 *
 * A histogram of the times of calls, with logarithmic buckets.
 */
#ifndef TAMIS_BENCH_HISTOGRAM_H
#define TAMIS_BENCH_HISTOGRAM_H

#include <stdint.h>

/* Each power of two is split into HISTOGRAM_PARTS buckets, so values are known to within 1/32. */
enum { HISTOGRAM_PARTS = 32, HISTOGRAM_BUCKETS = 64 * HISTOGRAM_PARTS };

struct histogram {
  uint64_t longest, all, count[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t nanoseconds);
/* Adds the contents of `from`, and empties it. */
void histogram_move(struct histogram *to, struct histogram *from);
/* The time, in nanoseconds, within which the fraction `part` of all calls ended; 0 if there are
 * none. */
uint64_t histogram_quantile(const struct histogram *h, double part);
/* Prints one line: quantiles from the median to the longest time, in microseconds. */
void histogram_print(const struct histogram *h);

#endif
