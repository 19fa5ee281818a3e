/* SPDX-License-Identifier: MIT
 *
 * Measurements of a filter while it grows: the time of each single call, the bits per key, and the
 * false-positive rate.
 */
#ifndef TAMIS_BENCH_GROWTH_H
#define TAMIS_BENCH_GROWTH_H

#include "subject.h"

#include <stdio.h>

struct growth {
  uint64_t from, to; /* the initial capacity, and the number of keys to add */
  double fpp;
  unsigned rounds;
  FILE *times; /* this and the next three are CSV files, or NULL */
  FILE *rates;
  FILE *calls;     /* a histogram of single calls */
  FILE *quantiles; /* of the single calls */
  bool cpu_time;   /* of a call: the time for which the thread had a core */
  bool quiet;      /* print nothing */
};

struct growth_times {
  double longest; /* in nanoseconds: the median over the rounds */
  double p9999;   /* the 99.99th percentile of the calls of all rounds, in nanoseconds */
};

/* Adds the keys to each of the subjects in turn, by one thread, and times each call.  times[i] is
 * what the calls on subjects[i] took. */
void growth_times(const struct growth *growth, const struct subject *const *subjects, unsigned n,
                  struct growth_times *times);

struct growth_bits {
  double last, most; /* bits per key: at the end, and at most, from ten times the capacity on */
};

/* Adds the keys to a filter, and measures its size eight times for each doubling; its rate, too, if
 * `rates` is there. */
struct growth_bits growth_rates(const struct growth *growth, const struct subject *subject);

/* Writes the first lines of the files. */
void growth_write_headers(const struct growth *growth);

#endif
