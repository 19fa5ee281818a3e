/* SPDX-License-Identifier: MIT */
#include <sched.h>

/* Locks and counters are as many as suit the machine.  A table of sizes is that of a machine with
 * two cores, wherever it is printed.  (The linker is told to call this function: --wrap.) */
int __wrap_sched_getaffinity(pid_t process, size_t size, cpu_set_t *mask);
int __wrap_sched_getaffinity(pid_t process, size_t size, cpu_set_t *mask)
{
  (void) process, (void) size;
  CPU_ZERO(mask);
  CPU_SET(0, mask);
  CPU_SET(1, mask);
  return 0;
}
