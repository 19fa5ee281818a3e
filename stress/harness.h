/* SPDX-License-Identifier: MIT
 *
 * What the stress programs share: a command line, threads that start together, random numbers that a
 * seed replays, a deadline, a line of progress while it runs, a histogram of how long calls take, and a
 * summary.  One program, one harness.
 */
#ifndef TAMIS_STRESS_HARNESS_H
#define TAMIS_STRESS_HARNESS_H

#include "histogram.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- random numbers ---- */

/* SplitMix64.  Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014 */
static inline uint64_t random_next(uint64_t *state)
{
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

/* The i-th of a sequence of distinct random-looking values. */
static inline uint64_t random_at(uint64_t seed, uint64_t i)
{
  uint64_t state = seed + i * UINT64_C(0x9E3779B97F4A7C15);
  return random_next(&state);
}

/* ---- the command line ---- */

enum { MAX_THREADS = 64 };

/* What every program can be told. */
struct harness_settings {
  uint64_t seed;       /* 0: from the clock */
  uint64_t threads;    /* 1 to MAX_THREADS */
  uint64_t rounds;     /* each with new filters; not looked at if one of the next two is given */
  uint64_t seconds;    /* more rounds until so much time has passed; 0: not given */
  uint64_t operations; /* more rounds until so many calls were made; 0: not given */
};

/* An option of one program: one of the pointers says what it is and where it goes. */
struct harness_option {
  const char *name;
  int letter;
  const char *help;
  uint64_t *number;
  uint64_t least, most; /* of a number; most == 0: no limit */
  double *rate;         /* above 0 and below 1 */
  bool *flag;
  int *choice;                     /* index of a name */
  const char *const *choice_names; /* ends with NULL */
};

/* Parses the command line over the defaults in *settings; `options` ends with {0}.  Exits with status 2
 * and a message on errors. */
void harness_parse(const char *what, const struct harness_option *options, int argc, char **argv,
                   struct harness_settings *settings);

/* Whether there is time for round number `round`, the first being 0. */
bool harness_more(const struct harness_settings *settings, uint64_t round);

/* ---- threads ---- */

struct worker {
  unsigned index;
  uint64_t threads;
  uint64_t seed; /* different for each worker, derived from the run's seed */
  void *arg;
  uint64_t result; /* what the worker found; meaning is the program's */
  _Atomic uint64_t calls;
};

/* Runs `body` in `threads` threads that pass a barrier together; fills workers[0..threads-1] for the
 * caller to read results from.  Exits with a message if threads cannot be had. */
void harness_run(uint64_t threads, uint64_t seed, void (*body)(struct worker *), void *arg,
                 struct worker *workers);

/* The sum of the workers' results. */
uint64_t harness_results(const struct worker *workers, uint64_t threads);

/* Splits 0 .. n-1 among the workers. */
struct range {
  uint64_t begin, end;
};
struct range harness_share(const struct worker *worker, uint64_t n);

/* ---- time ---- */

double harness_seconds(void);       /* monotonic */
uint64_t harness_nanoseconds(void); /* monotonic */

/* One call of a worker: it is counted, and one in CALLS_PER_TIMED is timed, into the histogram of the
 * summary.  A batch counts as one call of many keys.
 *     uint64_t began = call_begins(worker);
 *     ...
 *     call_ends(worker, began);  */
enum { CALLS_PER_TIMED = 64 };

uint64_t call_begins(struct worker *worker);
void call_ends(const struct worker *worker, uint64_t began);

/* ---- what it says ---- */

/* printf of a round's result: always if the round was not good, otherwise only while little has been
 * said, so that long runs stay readable. */
void harness_tell(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints what was done, and "passed" or "FAILED" with the program's name and how to run it again;
 * returns an exit status. */
int harness_verdict(const struct harness_settings *settings, bool good);

#endif
