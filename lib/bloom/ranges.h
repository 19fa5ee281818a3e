/* SPDX-License-Identifier: MIT
 *
 * Layer 0: shapes of Bloom filters for ranges of rates, and how the patterns of two keys overlap.
 */
#ifndef TAMIS_LIB_BLOOM_RANGES_H
#define TAMIS_LIB_BLOOM_RANGES_H

/* The shape of the keys in a range of rates.  In each table, the highest range comes first. */
struct shape_range {
  double min_fpp; /* the lower end of the range */
  unsigned probes, bits_per_probe, sections;
  double line_deviation; /* of one section's rate (see blocked_ranges); 0 for word layouts */
  double tries_next;     /* below this rate, plan_any() also tries the shape of the next range */
};

/* Of all shapes that need at most 3.5 % more bits than the best shape with as many sections, each
 * range has the one with the fewest words per key.  `line_deviation` describes how much the rate of
 * one section differs between filters, at the range's lower end: its standard deviation, divided by
 * its mean, times the square root of the number of lines (docs/internals/bloom.md). */
static const struct shape_range blocked_ranges[] = {
    {0.45, 1, 1, 1, 0.026, 0},      {0.17, 1, 2, 1, 0.053, 0},       {0.13, 1, 3, 1, 0.079, 0},
    {0.025, 2, 2, 1, 0.126, 0},     {0.006, 2, 3, 1, 0.29, 0},       {0.0006, 3, 3, 1, 0.76, 0},
    {2.5e-5, 4, 3, 1, 2.3, 1.1e-4}, {1.6e-7, 3, 3, 2, 0.82, 3.5e-7}, {6e-11, 3, 3, 3, 0.82, 0},
    {2.5e-14, 3, 3, 4, 0.82, 0},    {1e-17, 3, 3, 5, 0.82, 0},
};

/* `min_fpp` is the rate of one section at which `line_deviation` was simulated.  A filter has as
 * many sections of this shape as its rate needs. */
static const struct shape_range classic_range[] = {{0.17, 1, 2, 1, 0.053, 0}};

/* Chosen and simulated like the ranges of the blocked layout. */
static const struct shape_range counting_ranges[] = {
    {0.4, 1, 1, 1, 0.052, 0},  {0.2, 1, 2, 1, 0.117, 0}, {0.04, 2, 2, 1, 0.30, 0},
    {0.002, 3, 2, 1, 1.23, 0}, {2e-4, 4, 2, 1, 3.25, 0}, {5e-5, 5, 2, 1, 6.3, 0},
    {1e-5, 5, 2, 1, 9.3, 0},
};

static const struct shape_range word_ranges[] = {
    {0.36, 1, 1, 1, 0, 0},   {0.14, 1, 2, 1, 0, 0},   {0.047, 1, 3, 1, 0, 0},
    {0.0135, 1, 4, 1, 0, 0}, {0.0031, 1, 5, 1, 0, 0}, {0.0007, 1, 6, 1, 0, 0},
    {0.0001, 1, 7, 1, 0, 0},
};

/* A part of all pairs of patterns, of an added key and of an absent key.  `probability` is the
 * fraction of pairs in this part.  hits[a] is the mean number of rotations (of 64, or of 16 with
 * counters) in which the added key sets one of `a` given bits of the absent key. */
struct overlap {
  double probability;
  double hits[4];
};

enum { OVERLAPS = 8 };

static const struct overlap overlaps[][OVERLAPS] = {
    {{1, {0, 1}}},
    {{992 / 1024.0, {0, 2, 4}}, {31 / 1024.0, {0, 2, 3}}, {1 / 1024.0, {0, 2, 2}}},
    {{186114 / 262144.0, {0, 3, 18 / 3.0, 9}},
     {68330 / 262144.0, {0, 3, 17 / 3.0, 8}},
     {6214 / 262144.0, {0, 3, 16 / 3.0, 7}},
     {680 / 262144.0, {0, 3, 15 / 3.0, 7}},
     {638 / 262144.0, {0, 3, 15 / 3.0, 6}},
     {64 / 262144.0, {0, 3, 14 / 3.0, 6}},
     {64 / 262144.0, {0, 3, 14 / 3.0, 5}},
     {40 / 262144.0, {0, 3, 13 / 3.0, 5}}},
};

static const struct overlap counting_overlaps[][OVERLAPS] = {
    {{1, {0, 1}}},
    {{56 / 64.0, {0, 2, 4}}, {7 / 64.0, {0, 2, 3}}, {1 / 64.0, {0, 2, 2}}},
};

#endif
