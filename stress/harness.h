/* SPDX-License-Identifier: MIT
 *
 * What the stress programs share: threads that start together and return a status, random numbers
 * that a seed replays, and keys.
 */
#ifndef TAMIS_STRESS_HARNESS_H
#define TAMIS_STRESS_HARNESS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* The options that every program has: --threads and --seed.  A program's own settings begin with
 * these. */
enum { MAX_THREADS = 64 };

struct harness_settings {
  uint64_t seed;
  unsigned threads;
};

/* Parses the command line into *settings, which begins with struct harness_settings and holds the
 * defaults; a seed of 0 is taken from the clock.  Exits on errors. */
void harness_parse(const char *what, const struct argp_option *options, argp_parser_t parse,
                   int argc, char **argv, void *settings);

struct worker {
  unsigned index;
  unsigned threads;
  uint64_t seed; /* different for each worker, derived from the run's seed */
  void *arg;
  uint64_t result; /* what the worker found; meaning is the program's */
};

/* Runs `body` in `threads` threads that pass a barrier together; fills workers[0..threads-1] for the
 * caller to read results from.  Exits with a message if threads cannot be had. */
void harness_run(unsigned threads, uint64_t seed, void (*body)(struct worker *), void *arg,
                 struct worker *workers);

/* Splits 0 .. n-1 among the workers. */
struct range {
  uint64_t begin, end;
};
struct range harness_share(const struct worker *worker, uint64_t n);

double harness_seconds(void); /* monotonic */

/* Prints "passed" or "FAILED" with the program's name and the seed; returns an exit status. */
int harness_verdict(const char *program, uint64_t seed, bool good);

/* Strict numbers for command lines: exits with status 2 and a message on anything else. */
uint64_t harness_number(const char *text);
double harness_rate(const char *text);

#endif
