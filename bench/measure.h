/* SPDX-License-Identifier: MIT
 *
 * Takes the time.  An experiment is several subjects with a workload each, which take turns: each
 * round measures every one of them once, so that whatever else the machine does falls on all
 * alike.  What counts is the median over the rounds.
 */
#ifndef TAMIS_BENCH_MEASURE_H
#define TAMIS_BENCH_MEASURE_H

#include "workload.h"

enum { MAX_THREADS = 256, MAX_ENTRIES = 32, MAX_ROUNDS = 101 };

struct settings {
  unsigned rounds;
  double seconds; /* of one measurement, at least; if it begins with a new filter, about */
  bool cpu_time;  /* what threads had a core for counts, not what passed */
  bool quiet;     /* no table on the way */
};

/* What was measured for one subject, as nanoseconds a call: the time that all threads together
 * took, over the number of calls. */
struct series {
  double ns[MAX_ROUNDS];
  unsigned rounds;
  /* The part of the time that the threads had a core, if each could have one; well below 1 when
   * somebody else used the machine, or when the threads waited for each other asleep. */
  double busy;
  uint64_t wrong; /* answers that cannot be */
};

struct entry {
  const struct workload *workload;
  const struct subject *subject;
  unsigned threads;
  uint64_t capacity; /* that it is made for */
  uint64_t bytes;    /* of the machine's arrays */
  void *state;
  struct series series;
};

struct experiment {
  const char *title;
  uint64_t keys;
  double fpp;
  unsigned count;
  struct entry entries[MAX_ENTRIES];
};

struct experiment experiment(const char *title, uint64_t keys, double fpp);
/* Adds a workload on a subject, made for the experiment's number of keys; returns its number in it.
 * The names must exist, and the subject must be able to do it. */
unsigned with(struct experiment *x, const char *workload, const char *subject, unsigned threads);
/* The same, made for another number of keys. */
unsigned with_capacity(struct experiment *x, const char *workload, const char *subject,
                       unsigned threads, uint64_t capacity);
/* One of the machine's, with an array as large as that filter. */
unsigned with_array(struct experiment *x, const char *subject, unsigned threads, const char *like);

/* Runs it, and puts the result on record (record.h). */
void experiment_run(struct experiment *x, const struct settings *settings);

/* Quartiles of a series in nanoseconds a call; the median has number 2. */
double series_quartile(const struct series *series, unsigned number);
/* The median of an entry. */
double median_of(const struct experiment *x, unsigned entry);

/* How many cores this process may use. */
unsigned cores(void);
/* Keeps the calling thread on one of them. */
void pin(unsigned thread);

double now(void);
#endif
