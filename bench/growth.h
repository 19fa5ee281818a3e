/* SPDX-License-Identifier: MIT
 *
 * What a filter that grows is like while it grows: how long each single call takes, how many bits a
 * key takes, and how often it is wrong.
 */
#ifndef TAMIS_BENCH_GROWTH_H
#define TAMIS_BENCH_GROWTH_H

#include "subject.h"

#include <stdio.h>

struct growth {
  uint64_t from, to; /* keys that it is made for, and that are added */
  double fpp;
  unsigned rounds;
  FILE *times; /* CSV; NULL: none */
  FILE *rates;
  FILE *calls;     /* histogram of the single calls */
  FILE *quantiles; /* of the same */
  bool quiet;      /* prints nothing */
};

/* Adds the keys by one thread, each call timed, to each of the subjects in turn.  longest[i]: of
 * the calls on subjects[i], in nanoseconds, the median over the rounds. */
void growth_times(const struct growth *growth, const struct subject *const *subjects, unsigned n,
                  double *longest);

/* Adds the keys to a filter; looks now and then. */
void growth_rates(const struct growth *growth, const struct subject *subject);

/* The first lines of the files. */
void growth_heads(const struct growth *growth);

#endif
