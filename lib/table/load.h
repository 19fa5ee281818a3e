/* SPDX-License-Identifier: MIT
 *
 * Layer 0: how full a segment of a table gets before an insert finds no room.
 *
 * The load factor is the part of the lanes that is in use then.  Over seeds it is normally
 * distributed, as measured; unit.planning fills filters, and compares.
 */
#ifndef TAMIS_LIB_LOAD_H
#define TAMIS_LIB_LOAD_H

#include <stdbool.h>

/* The probability, over seeds, with which a table that keeps its size finds no room for a key before
 * its capacity is 10^-9: half of it because of the load, half because a few buckets are overfull. */
static const double load_early = 0.5e-9;

/* The deviations of a normal distribution that are exceeded with the probability load_early. */
static const double load_early_deviations = 6.11;

struct table_load {
  double mean;      /* the load factor with 4096 buckets */
  double fall;      /* how much it falls when their number doubles */
  double deviation; /* the standard deviation of the load factor of a large segment */
};

/* For buckets of 2 to 8 lanes.  `thorough` is how room is searched for: table/search.h. */
struct table_load tamis__table_load(unsigned lanes, bool thorough);

/* After `doublings` of 4096 buckets, which may be negative. */
double tamis__table_load_of(const struct table_load *load, double doublings);

/* The standard deviation of the load factor of a segment with so many lanes in all, where buckets
 * have `lanes`: that of small segments is larger. */
double tamis__table_load_deviation(const struct table_load *load, unsigned lanes, double all);

#endif
