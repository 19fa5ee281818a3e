/* SPDX-License-Identifier: MIT */
#include "counter.h"

#include <unistd.h>

enum { MAX_SHARDS = 64 };

unsigned tamis__counter_shards(void)
{
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned shards = 2;
  while (shards < MAX_SHARDS && (long) shards < 2 * cpus)
    shards *= 2;
  return shards;
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
