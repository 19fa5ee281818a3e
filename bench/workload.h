/* SPDX-License-Identifier: MIT
 *
 * What subjects do when they are measured.  A workload is a row in a table; measure.c carries it
 * out.
 */
#ifndef TAMIS_BENCH_WORKLOAD_H
#define TAMIS_BENCH_WORKLOAD_H

#include "subject.h"

enum skew {
  NO_SKEW, /* each key in turn */
  ZIPF,    /* a few keys often, many rarely */
  ONE_KEY  /* always the same key */
};

struct workload {
  const char *name;
  const char *what;
  enum call call;
  double filled;      /* the fraction of the n keys that is in before */
  bool absent;        /* use keys that are never added */
  bool changes;       /* a measurement begins with a new filter, and ends after n keys */
  bool unpartitioned; /* each thread goes through all keys, instead of a share of them */
  enum skew skew;
};

/* Ends with an entry without a name. */
extern const struct workload workloads[];

/* NULL: no workload has that name. */
const struct workload *workload_find(const char *name);

/* HOT_KEYS indices below n, in static memory; NULL without skew.  Not for several threads. */
const uint32_t *hot_keys(enum skew skew, uint64_t n);

#endif
