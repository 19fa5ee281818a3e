/* SPDX-License-Identifier: MIT */
#include "histogram.h"

#include <inttypes.h>
#include <stdio.h>

/* Values below HISTOGRAM_PARTS have a bucket each; then there are HISTOGRAM_PARTS buckets for each
 * power of two. */
static unsigned bucket_of(uint64_t value)
{
  if (value < HISTOGRAM_PARTS)
    return (unsigned) value;
  unsigned power = 63 - (unsigned) __builtin_clzll(value), shift = power - 5;
  return (shift + 1) * HISTOGRAM_PARTS + (unsigned) (value >> shift) % HISTOGRAM_PARTS;
}

/* The largest value of a bucket. */
static uint64_t last_of(unsigned bucket)
{
  if (bucket < HISTOGRAM_PARTS)
    return bucket;
  unsigned shift = bucket / HISTOGRAM_PARTS - 1;
  uint64_t first = (uint64_t) (HISTOGRAM_PARTS + bucket % HISTOGRAM_PARTS) << shift;
  return first + (UINT64_C(1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t nanoseconds)
{
  h->count[bucket_of(nanoseconds)]++;
  h->all++;
  if (nanoseconds > h->longest)
    h->longest = nanoseconds;
}

void histogram_move(struct histogram *to, struct histogram *from)
{
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
    to->count[i] += from->count[i];
  to->all += from->all;
  if (from->longest > to->longest)
    to->longest = from->longest;
  *from = (struct histogram){0};
}

uint64_t histogram_quantile(const struct histogram *h, double part)
{
  double below = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    below += (double) h->count[i];
    if (h->count[i] && below >= part * (double) h->all)
      return last_of(i) < h->longest ? last_of(i) : h->longest;
  }
  return h->longest;
}

void histogram_print(const struct histogram *h)
{
  static const double parts[] = {0.5, 0.9, 0.99, 0.999, 0.9999};
  printf("calls in microseconds:");
  for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
    printf("  P%g %.2f", 100 * parts[i], 1e-3 * (double) histogram_quantile(h, parts[i]));
  printf("  longest %.1f  (of %" PRIu64 " timed)\n", 1e-3 * (double) h->longest, h->all);
}
