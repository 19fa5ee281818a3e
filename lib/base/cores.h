/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the processor cores that the process may use: those of its affinity mask, but at most as
 * many as the CPU quota of its control groups allows.  A filter chooses its numbers of stripes and
 * shards by the number of these cores.
 */
#ifndef TAMIS_LIB_CORES_H
#define TAMIS_LIB_CORES_H

/* Returns the smallest power of two that is at least `per_core` times the number of the process's
 * cores, but at least `min` and at most `max`, which must be powers of two. */
unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned min, unsigned max);

/* Returns the number of cores that the quota allows, rounded up, or UINT_MAX if there is no quota.
 * `membership` is a file such as /proc/self/cgroup, and `root` a folder such as /sys/fs/cgroup.  A
 * file that cannot be read or understood sets no limit. */
unsigned tamis__quota_cores(const char *membership, const char *root);

/* Gives the calling thread the ordinary scheduling policy, and the cores of the process.  Without
 * this call a thread has the settings of its creator: perhaps a real-time policy, or one core. */
void tamis__schedule_as_the_process(void);

#endif
