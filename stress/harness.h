/* SPDX-License-Identifier: MIT
 *
 * What the stress programs share: a command line, threads that start together, random numbers that
 * follow from a seed, and a verdict.
 */
#ifndef TAMIS_STRESS_HARNESS_H
#define TAMIS_STRESS_HARNESS_H

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

/* From 0 to just below 1. */
static inline double random_uniform(uint64_t *state)
{
  return (double) (random_next(state) >> 11) * 0x1p-53;
}

/* The i-th value of a pseudo-random sequence in which no value repeats. */
static inline uint64_t random_at(uint64_t seed, uint64_t i)
{
  uint64_t state = seed + i * UINT64_C(0x9E3779B97F4A7C15);
  return random_next(&state);
}

/* ---- memory ---- */

/* Raises a number that other threads raise, too. */
static inline void raise_to(_Atomic uint64_t *at, uint64_t to)
{
  uint64_t old = atomic_load(at);
  while (old < to && !atomic_compare_exchange_weak(at, &old, to))
    ;
}

/* n objects that are 0.  Exits with status 2 and a message if there is no memory. */
void *harness_zeroes(size_t n, size_t size);

/* ---- the command line ---- */

enum { MAX_THREADS = 64 };

/* The options that every program has. */
struct harness_settings {
  uint64_t seed;    /* 0: from the clock */
  uint64_t threads; /* 1 to MAX_THREADS */
  uint64_t rounds;  /* ignored if `seconds` is given */
  uint64_t seconds; /* begin no round after this time; 0: not given */
};

/* An option of one program.  One of the pointers is set: it says what kind of option this is, and
 * where its value goes. */
struct harness_option {
  const char *name, *help;
  uint64_t *number;
  uint64_t least, most;            /* of a number; most == 0: no limit */
  int *choice;                     /* index of a name */
  const char *const *choice_names; /* ends with NULL */
};

/* Parses the command line into *settings, which holds the defaults, and into `options`, which end
 * with {0}; `doc` is what --help says first.  Exits with status 2 and a message on errors. */
void harness_parse(const char *doc, const struct harness_option *options, int argc, char **argv,
                   struct harness_settings *settings);

/* Whether to begin round number `round`, the first being 0. */
bool harness_more(const struct harness_settings *settings, uint64_t round);

/* ---- threads ---- */

struct worker {
  unsigned index;
  uint64_t threads;
  uint64_t seed; /* different for each worker, derived from the run's seed */
  void *arg;
  uint64_t result; /* what the worker found; each program defines the meaning */
};

/* Runs `body` in `threads` threads, which start together, and waits for all of them.  Fills
 * workers[0..threads-1], from which the caller reads the results.  Exits with a message if a thread
 * cannot be created. */
void harness_run(uint64_t threads, uint64_t seed, void (*body)(struct worker *), void *arg,
                 struct worker *workers);

/* The sum of the workers' results. */
uint64_t harness_results(const struct worker *workers, uint64_t threads);

/* ---- time ---- */

double harness_seconds(void);       /* monotonic */
uint64_t harness_nanoseconds(void); /* monotonic */

/* ---- messages ---- */

/* Prints "passed" or "FAILED", and after a failure how to run the program again.  Returns an exit
 * status. */
int harness_verdict(const struct harness_settings *settings, bool good);

#endif
