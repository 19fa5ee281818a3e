/* SPDX-License-Identifier: MIT */
#include "base/counter.h"

#include "base/cores.h"

#include <pthread.h>
#include <stdbool.h>

/* ---- shards ---- */

enum { MIN_SHARDS = 2, MAX_SHARDS = 64, BYTES_PER_SHARD = 512 };

/* More than threads that run at once: others may have numbers too, and wait. */
static unsigned shards_of_machine(void)
{
  return tamis__power_of_two_per_core(16, 32, MAX_SHARDS);
}

unsigned tamis__counter_shards(uint64_t bytes)
{
  unsigned n = shards_of_machine();
  while (n > MIN_SHARDS && n > bytes / BYTES_PER_SHARD)
    n /= 2;
  return n;
}

/* ---- numbers of threads ----
 *
 * Which numbers are taken is in one word, without a lock, so that a fork finds it whole at any moment.
 * In the child the calling thread keeps its number; those of the threads that are gone stay taken.
 *
 * When a thread ends, a destructor of its own (of the kind that pthread_key_create() makes) gives the
 * number back.  Destructors that run later may still add: the thread has lost its number by then, and
 * takes no other, for which no destructor might come.  (One whose very first add is made by the last of
 * all destructors never gives its number back.  Nothing is miscounted; somebody else shares.) */

/* More than the mask of any set. */
enum { NEVER = MAX_SHARDS };

_Thread_local unsigned tamis__thread_index = 0;

/* Bit n: number n is taken.  Those that own nothing are never given out. */
static _Atomic uint64_t taken = UINT64_MAX;

static pthread_key_t key; /* not NULL for threads that have a number */
static _Atomic bool key_made;

/* ORDER index.release (release)
 *   pairs with     index.acquire
 *   makes visible  what the thread has counted
 *   if weakened    the next owner goes on from an older value: adds are lost
 *   checked by     negative/index_kept_at_the_end, negative/index_released_relaxed */
static void give(unsigned number)
{
  atomic_fetch_and_explicit(&taken, ~(UINT64_C(1) << number), memory_order_release);
}

static void before_end(void *unused)
{
  (void) unused;
  unsigned number = tamis__thread_index;
  tamis__thread_index = NEVER;
  give(number);
}

/* Makes the key, without which all numbers stay taken.  Once; who comes meanwhile goes without a number,
 * and does not wait.
 * Relaxed: one of them makes it, nothing hangs on who.  Release: who takes a number sees the key. */
static void begin(void)
{
  static _Atomic bool begun = false;
  if (atomic_load_explicit(&begun, memory_order_relaxed) ||
      atomic_exchange_explicit(&begun, true, memory_order_relaxed))
    return;
  if (pthread_key_create(&key, before_end) != 0)
    return;
  atomic_store_explicit(&key_made, true, memory_order_release);
  atomic_store_explicit(&taken, 1, memory_order_release); /* 1 to 63 may be had */
}

/* Where the library is a part of a plugin that is unloaded: threads that end later would call what is not
 * there any more.  (Release and acquire: the key comes before the flag.) */
__attribute__((destructor)) static void before_unload(void)
{
  atomic_fetch_or_explicit(&taken, UINT64_MAX, memory_order_relaxed); /* no numbers any more */
  if (atomic_load_explicit(&key_made, memory_order_acquire))
    pthread_key_delete(key);
}

/* After begin() `taken` is only changed by read-modify-writes, so this comes after all that gave a number
 * back before, also if others have been taken meanwhile (release sequences).
 * ORDER index.acquire (acquire)
 *   pairs with     index.release
 *   makes visible  see there
 *   if weakened    see there
 *   checked by     negative/index_acquired_relaxed */
static unsigned take(void)
{
  uint64_t before = atomic_load_explicit(&taken, memory_order_relaxed);
  unsigned number;
  do {
    if (before == UINT64_MAX)
      return 0;
    number = (unsigned) __builtin_ctzll(~before);
  } while (!atomic_compare_exchange_weak_explicit(&taken, &before, before | UINT64_C(1) << number,
                                                  memory_order_acquire, memory_order_relaxed));
  return number;
}

/* For the adds that follow; if all are taken, the next one asks again. */
static void request_index(void)
{
  begin();
  unsigned number = take();
  if (!number)
    return;
  tamis__thread_index = NEVER; /* if the next line allocates, and the allocator uses a filter */
  if (pthread_setspecific(key, &key) == 0)
    tamis__thread_index = number;
  else
    give(number);
}

/* ---- counters ---- */

uint64_t tamis__counter_add_shared(const struct counters *counters, unsigned kind, uint64_t amount)
{
  if (!tamis__thread_index)
    request_index();
  return atomic_fetch_add_explicit(&counters->shards->value[kind], amount, memory_order_relaxed) +
         amount;
}

uint64_t tamis__counter_sum(const struct counters *counters, unsigned kind)
{
  uint64_t sum = 0;
  for (unsigned i = 0; i <= counters->mask; i++)
    sum += atomic_load_explicit(&counters->shards[i].value[kind], memory_order_relaxed);
  return sum;
}
