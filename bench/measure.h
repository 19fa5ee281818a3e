/* SPDX-License-Identifier: MIT
 *
 * Measurement of times.  An experiment has several entries, each a subject with a workload, which
 * take turns: each round measures every entry once, so that whatever else the machine does affects
 * all of them alike.  The result is the median over the rounds.
 */
#ifndef TAMIS_BENCH_MEASURE_H
#define TAMIS_BENCH_MEASURE_H

#include "workload.h"

enum { MAX_THREADS = 256, MAX_ENTRIES = 32, MAX_ROUNDS = 101 };

struct settings {
  unsigned rounds;
  double seconds; /* the least duration of a measurement; with a new filter, about that */
  bool cpu_time;  /* measure the time that threads had a core, instead of the time that passed */
  bool quiet;     /* print no table of the experiment */
  bool builds;    /* there is another build to compare with */
};

/* The measurements of one entry, in nanoseconds a call: the duration of the pass, divided by the
 * number of calls of all threads. */
struct series {
  double ns[MAX_ROUNDS];
  unsigned rounds;
  /* The fraction of the time for which the threads had a core.  It is well below 1 if other
   * processes used the machine, or if the threads slept while they waited for each other. */
  double busy;
  uint64_t wrong; /* answers */
};

struct entry {
  const struct workload *workload;
  const struct subject *subject;
  unsigned threads;
  uint64_t capacity; /* for which the subject is created */
  double fpp;        /* the same */
  uint64_t bytes;    /* of a machine's array */
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
/* Adds a workload on a subject, created for the experiment's number of keys; returns the index of
 * the entry.  The names must exist, and the subject must be able to do the workload. */
unsigned add_entry(struct experiment *x, const char *workload, const char *subject,
                   unsigned threads);
/* The same, but the subject is created for another number of keys. */
unsigned add_entry_for(struct experiment *x, const char *workload, const char *subject,
                       unsigned threads, uint64_t capacity);
/* The same, but for another rate. */
unsigned add_entry_at(struct experiment *x, const char *workload, const char *subject,
                      unsigned threads, double fpp);
/* Adds a subject that measures the machine, with an array as large as the filter `like`. */
unsigned add_machine_entry(struct experiment *x, const char *subject, unsigned threads,
                           const char *like);

/* Runs the experiment and records its results (record.h). */
void experiment_run(struct experiment *x, const struct settings *settings);

/* A quartile of a series, in nanoseconds a call; the median has number 2. */
double series_quartile(const struct series *series, unsigned number);
double median_of(const struct experiment *x, unsigned entry);

/* How many cores this process may use. */
unsigned cores(void);
/* Keeps the calling thread on one of these cores. */
void pin(unsigned thread);

/* Seconds on a monotonic clock. */
double now(void);

#endif
