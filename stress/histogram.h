/* SPDX-License-Identifier: MIT
 *
 * How long calls take: a histogram with logarithmic buckets, which stress programs and the bench
 * share.
 */
#ifndef TAMIS_STRESS_HISTOGRAM_H
#define TAMIS_STRESS_HISTOGRAM_H

#include <stdint.h>

/* Counts, to 1/32: the bounds of a bucket are that close together. */
enum { HISTOGRAM_PARTS = 32, HISTOGRAM_BUCKETS = 64 * HISTOGRAM_PARTS };

struct histogram {
  uint64_t longest, all, count[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t nanoseconds);
/* Adds what `from` holds, and empties it. */
void histogram_move(struct histogram *to, struct histogram *from);
/* The value below which the part `part` of all lies, in nanoseconds; 0 if there are none. */
uint64_t histogram_quantile(const struct histogram *h, double part);
/* One line: P50 to the longest, in microseconds. */
void histogram_print(const struct histogram *h);

#endif
