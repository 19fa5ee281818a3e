/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the processor cores that the process may use: those of its affinity mask, but at most as
 * many as the CPU quota of its control groups allows.  A filter chooses its numbers of stripes and
 * shards by the number of these cores.
 */
#ifndef TAMIS_LIB_CORES_H
#define TAMIS_LIB_CORES_H

#include <sched.h>

/* Returns the smallest power of two that is at least `per_core` times the number of these cores,
 * but at least `min` and at most `max`, which must be powers of two. */
unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned min, unsigned max);

/* Returns the number of cores that the quota allows, rounded up, or UINT_MAX if there is no quota.
 * `membership` is a file such as /proc/self/cgroup, and `root` a folder such as /sys/fs/cgroup.  A
 * file that cannot be read or understood sets no limit. */
unsigned tamis__quota_cores(const char *membership, const char *root);

/* Gives the calling thread the ordinary scheduling policy, and the cores of the process.  Without
 * this call a thread has the settings of its creator: perhaps a real-time policy, or one core. */
void tamis__schedule_as_the_process(void);

/* Returns the number of the core that runs the thread.  The scheduler may move the thread at any
 * time.  glibc registers a restartable sequence for each thread, so the kernel keeps the number in
 * the thread's memory.  sched_getcpu() reads the number there, too, but takes a function call. */
#if defined(__GLIBC__) && defined(__x86_64__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

static inline unsigned current_core(void)
{
  const char *thread;
  __asm__("mov %%fs:0, %0" : "=r"(thread));
  return ((const volatile struct rseq *) (thread + __rseq_offset))->cpu_id_start;
}
#else
static inline unsigned current_core(void)
{
  return (unsigned) sched_getcpu();
}
#endif

#endif
