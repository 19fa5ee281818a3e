/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the number of cores that the process may use, and the numbers of stripes and shards that
 * suit it.  The affinity mask and the CPU quota of the process's control groups limit the cores.
 */
#ifndef TAMIS_LIB_CORES_H
#define TAMIS_LIB_CORES_H

#include <stdint.h>

/* Returns the smallest power of two that is at least `per_core` times the number of the process's
 * cores, but at least `min` and at most `max`, which must be powers of two. */
unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned min, unsigned max);

/* Returns a number of stripes with which two running threads rarely need the same stripe. */
static inline unsigned usual_stripes(void)
{
  return tamis__power_of_two_per_core(32, 64, 1024);
}

enum { MIN_SHARDS = 2, MAX_SHARDS = 256, BYTES_PER_SHARD = 512 };

/* Returns a number of shards for the counters of a filter of `bytes` bytes: 16 for each core, but
 * from 32 to 64, or 2 for each core if that is more.  A small filter has at most one for each 512
 * bytes, but at least 2.  (Shards outnumber cores, as waiting threads own shards, too.) */
static inline unsigned usual_shards(uint64_t bytes)
{
  unsigned n = tamis__power_of_two_per_core(16, 32, 64);
  unsigned least = tamis__power_of_two_per_core(2, 32, MAX_SHARDS);
  for (n = n > least ? n : least; n > MIN_SHARDS && n > bytes / BYTES_PER_SHARD;)
    n /= 2;
  return n;
}

/* Returns the number of cores that the quota allows, rounded up, or UINT_MAX if there is no quota.
 * `membership` is a file such as /proc/self/cgroup, and `root` a folder such as /sys/fs/cgroup.  A
 * file that cannot be read or understood sets no limit. */
unsigned tamis__quota_cores(const char *membership, const char *root);

/* Gives the calling thread the ordinary scheduling policy, and the cores of the process.  Without
 * this call a thread has the settings of its creator: perhaps a real-time policy, or one core. */
void tamis__schedule_as_the_process(void);

#endif
