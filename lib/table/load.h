/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the load factor: the part of a segment's lanes that are in use when an insert first
 * finds no room.  It is normally distributed over the seeds (test unit.planning).
 */
#ifndef TAMIS_LIB_LOAD_H
#define TAMIS_LIB_LOAD_H

#include <stdbool.h>

/* The probability that a low load factor makes a fixed table refuse a key below its capacity, and
 * the equal probability that overfull buckets (load.c) do. */
static const double load_early = 0.5e-9;

/* A normal distribution has a tail of load_early beyond this many standard deviations. */
static const double load_early_deviations = 6.11;

struct table_load {
  double mean;      /* the mean load factor of 4096 buckets */
  double fall;      /* the decrease of the mean with each doubling of the buckets */
  double deviation; /* the standard deviation in a large segment */
};

/* The load factor of buckets of 2 to 8 lanes, with thorough or with short searches (search.h). */
struct table_load tamis__table_load(unsigned lanes, bool thorough);

/* The mean load factor of 4096 * 2^doublings buckets.  `doublings` can be negative. */
double tamis__table_load_of(const struct table_load *load, double doublings);

/* The standard deviation of the load factor of a segment of `all` lanes, `lanes` in a bucket. */
double tamis__table_load_deviation(const struct table_load *load, unsigned lanes, double all);

/* The expected number of sets of a few buckets, in all segments, that get more keys than they have
 * lanes.  A segment gets `mean` keys on average, and has `half` lower and `half` upper buckets.
 * Each key has one lower and one upper bucket. */
double tamis__overfull_sets(unsigned lanes, double half, double segments, double mean);

#endif
