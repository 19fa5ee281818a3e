/* SPDX-License-Identifier: MIT */
#include "table/load.h"

#include "base/reals.h"

#include <math.h>

enum { MOST_LANES = 8 };

static const struct table_load thorough_search[MOST_LANES + 1] = {
    [2] = {0.8900, 0.0008, 0.0035}, [3] = {0.9550, 0.0004, 0.0015}, [4] = {0.9760, 0.0005, 0.0015},
    [5] = {0.9875, 0.0002, 0.0010}, [6] = {0.9935, 0.0001, 0.0010}, [7] = {0.9960, 0.0001, 0.0010},
    [8] = {0.9980, 0.0000, 0.0010}};
static const struct table_load short_search[MOST_LANES + 1] = {
    [2] = {0.8790, 0.0017, 0.0040}, [3] = {0.9470, 0.0012, 0.0030}, [4] = {0.9695, 0.0010, 0.0025},
    [5] = {0.9810, 0.0008, 0.0020}, [6] = {0.9875, 0.0007, 0.0015}, [7] = {0.9915, 0.0005, 0.0015},
    [8] = {0.9935, 0.0004, 0.0015}};

struct table_load tamis__table_load(unsigned lanes, bool thorough)
{
  return (thorough ? thorough_search : short_search)[lanes];
}

double tamis__table_load_of(const struct table_load *load, double doublings)
{
  return fmin(1, load->mean - load->fall * doublings);
}

double tamis__table_load_deviation(const struct table_load *load, unsigned lanes, double all)
{
  double small = (lanes == 2 ? 0.72 : 0.45) / sqrt(all);
  return fmax(load->deviation, small);
}

/* A set of buckets is overfull if it gets more keys than it has lanes, however empty the other
 * buckets are.  A segment has M lower and M upper buckets of b lanes, and n keys, m on average.  A
 * set of i lower and j upper buckets has both buckets of a key with probability ij / M^2, and is
 * overfull with k = (i + j) b + 1 keys.  A union bound over all such sets, and all sets of k keys,
 * limits the expected number of overfull sets to the sum over i and j of
 *
 *    M^i / i! M^j / j! C(n, k) (i j / M^2)^k,  where the mean of C(n, k) is at most m^k / k!
 *
 * C(n, k) is the binomial coefficient.  Both i and j are at most FEW, because the measured load
 * factors include the effect of larger sets. */
double tamis__overfull_sets(unsigned lanes, double half, double segments, double mean)
{
  enum { FEW = 3 };
  static const double factorial[] = {1, 1, 2, 6};
  double sets = 0;
  for (unsigned i = 1; i <= FEW; i++)
    for (unsigned j = 1; j <= FEW; j++) {
      double keys = (i + j) * lanes + 1, product = i * j * mean / half / half;
      sets += real_exp((i + j) * real_log(half) + keys * real_log(product)) /
              real_factorial((unsigned) keys) / factorial[i] / factorial[j];
    }
  return segments * sets;
}
