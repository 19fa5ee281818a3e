/* SPDX-License-Identifier: MIT
 *
 * What subjects are made to do.  A workload is a row in a table; what it needs beyond that is in
 * measure.c.
 */
#ifndef TAMIS_BENCH_WORKLOAD_H
#define TAMIS_BENCH_WORKLOAD_H

#include "subject.h"

enum heat {
  COLD, /* one key after the other */
  ZIPF, /* few keys often, many rarely */
  ONE   /* one key */
};

struct workload {
  const char *name;
  const char *what;
  enum call call;
  double filled;   /* part of the n keys that is in before */
  bool keys_out;   /* keys that are never added; otherwise those from the first on */
  bool changes;    /* a measurement begins with a new filter, and ends when n keys are through */
  bool all_do_all; /* each thread goes through all keys, not through a share of them */
  enum heat heat;
};

/* Ends with an entry without a name. */
extern const struct workload workloads[];

/* NULL: there is none of that name. */
const struct workload *workload_find(const char *name);

/* HOT_KEYS indices below n.  Static memory, made when first asked for; NULL for cold ones. */
const uint32_t *hot_keys(enum heat heat, uint64_t n);

#endif
