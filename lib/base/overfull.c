/* SPDX-License-Identifier: MIT */
#include "base/overfull.h"

#include "base/reals.h"

/* Keys that are too many for a set of buckets do not fit, however empty the other buckets are.
 * With M lower and M upper buckets, the n keys of a segment have both buckets in a given set of i
 * lower and j upper ones with a probability of i j / M^2 each.  So, by a union bound over all sets
 * of buckets and of keys, the expected number of sets with too many keys is at most, with k = (i +
 * j) b + 1,
 *
 *    M^i / i! M^j / j! C(n, k) (i j / M^2)^k,  and E C(n, k) <= m^k / k!
 *
 * Larger sets are part of the load at which a table is full, as it was measured. */
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
