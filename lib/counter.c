/* SPDX-License-Identifier: MIT */
#include "counter.h"

#include <unistd.h>

unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned least, unsigned most)
{
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned n = least;
  while (n < most && (long) n < (long) per_core * cores)
    n *= 2;
  return n;
}

unsigned tamis__counter_shards(void)
{
  return tamis__power_of_two_per_core(2, 2, 64);
}

unsigned tamis__thread_number(void)
{
  /* Relaxed: the numbers need to differ, nothing else. */
  static _Atomic unsigned next = 0;
  /* initial-exec: a direct access instead of a function call, at the price of four bytes of the
   * space that every process keeps for libraries loaded at run time. */
  static _Thread_local unsigned number __attribute__((tls_model("initial-exec"))) = 0;

  if (number == 0)
    number = (atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) & 0xffffffu) + 1;
  return number;
}

uint64_t tamis__counter_sum(const struct counters *counters, unsigned kind)
{
  uint64_t sum = 0;
  for (unsigned i = 0; i <= counters->mask; i++)
    sum += atomic_load_explicit(&counters->shards[i].value[kind], memory_order_relaxed);
  return sum;
}
