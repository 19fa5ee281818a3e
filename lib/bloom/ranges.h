/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the shapes of the keys of a Bloom filter, by its rate.  Only geometry.c includes this.
 */
#ifndef TAMIS_LIB_BLOOM_RANGES_H
#define TAMIS_LIB_BLOOM_RANGES_H

/* The shape for a range of rates, from the highest range down. */
struct shape_range {
  double min_fpp; /* the lower end of the range */
  unsigned probes, bits_per_probe, sections;
  double line_deviation; /* 0 in the word layouts, which compute it */
};

/* The blocked layout has the shape with the fewest words of those that need at most 3.5 % more bits
 * than the best one.  `line_deviation` is the standard deviation of the rate of a section over its
 * mean, times the root of the number of lines, at the lower end of the range (docs/bloom.md says
 * how it was simulated). */
static const struct shape_range blocked_ranges[] = {
    {0.45, 1, 1, 1, 0.026},   {0.17, 1, 2, 1, 0.053},  {0.13, 1, 3, 1, 0.079},
    {0.025, 2, 2, 1, 0.126},  {0.006, 2, 3, 1, 0.29},  {0.0006, 3, 3, 1, 0.76},
    {2.5e-5, 4, 3, 1, 2.3},   {1.6e-7, 3, 3, 2, 0.82}, {6e-11, 3, 3, 3, 0.82},
    {2.5e-14, 3, 3, 4, 0.82}, {1e-17, 3, 3, 5, 0.82},
};

/* The classic layout has this shape, and the number of sections that its rate needs: `min_fpp` is
 * the rate of one section at which the deviation was simulated. */
static const struct shape_range classic_range[] = {{0.17, 1, 2, 1, 0.053}};

/* The same for the counting layout. */
static const struct shape_range counting_ranges[] = {
    {0.4, 1, 1, 1, 0.052}, {0.2, 1, 2, 1, 0.117}, {0.04, 2, 2, 1, 0.30}, {0.002, 3, 2, 1, 1.23},
    {2e-4, 4, 2, 1, 3.25}, {5e-5, 5, 2, 1, 6.3},  {1e-5, 5, 2, 1, 9.3},
};

/* The same for the word layouts. */
static const struct shape_range word_ranges[] = {
    {0.36, 1, 1, 1, 0},   {0.14, 1, 2, 1, 0},   {0.047, 1, 3, 1, 0},  {0.0135, 1, 4, 1, 0},
    {0.0031, 1, 5, 1, 0}, {0.0007, 1, 6, 1, 0}, {0.0001, 1, 7, 1, 0},
};

#endif
