/* SPDX-License-Identifier: MIT */
#include "base/counter.h"

#include "base/cores.h"

#include <pthread.h>
#include <stdbool.h>

/* ---- shards ---- */

enum { MIN_SHARDS = 2, MAX_SHARDS = 64, BYTES_PER_SHARD = 512 };

/* Several times the threads that can run at once: threads that wait own shards too. */
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

/* ---- thread indices ----
 *
 * One word says which indices are in use.  It is changed without a lock, so a fork finds it whole
 * at any moment.  In the child the calling thread keeps its index.  The indices of the other
 * threads, which the child does not have, stay in use.
 *
 * When a thread ends, its index is released by a destructor of thread-specific data
 * (pthread_key_create).  Destructors that run later may still add to counters.  By then the thread
 * has no index, and it must not take another one, because no destructor might be left to release
 * it.  (A thread whose very first add is made by the last of all destructors never releases its
 * index.  Nothing is miscounted then; one more thread has to share shard 0.) */

/* More than the mask of any set: the thread is never to have an index. */
enum { NEVER = MAX_SHARDS };

_Thread_local unsigned tamis__thread_index = 0;

/* Bit n is set if index n is in use.  Index 0 always is, as no thread owns shard 0.  Before the key
 * exists, all are. */
static _Atomic uint64_t used_indices = UINT64_MAX;

static pthread_key_t key; /* the data is not NULL for threads that have an index */
static _Atomic bool key_made;

/* ORDER index.release (release)
 *   pairs with     index.acquire
 *   makes visible  what the thread has counted
 *   if weakened    the next owner adds to an older value: adds are lost
 *   checked by     negative/index_kept_at_the_end, negative/index_released_relaxed */
static void release_index(unsigned index)
{
  atomic_fetch_and_explicit(&used_indices, ~(UINT64_C(1) << index), memory_order_release);
}

static void at_thread_end(void *unused)
{
  (void) unused;
  unsigned index = tamis__thread_index;
  tamis__thread_index = NEVER;
  release_index(index);
}

/* Makes the key, once.  Until it exists, no index can be acquired.  A thread that calls this
 * meanwhile does not wait for it; it shares shard 0 for now.
 * Relaxed for `begun`: exactly one thread makes the key, and it does not matter which.  Release for
 * the rest: a thread that acquires an index sees the key. */
static void make_key_once(void)
{
  static _Atomic bool begun = false;
  if (atomic_load_explicit(&begun, memory_order_relaxed) ||
      atomic_exchange_explicit(&begun, true, memory_order_relaxed))
    return;
  if (pthread_key_create(&key, at_thread_end) != 0)
    return;
  atomic_store_explicit(&key_made, true, memory_order_release);
  atomic_store_explicit(&used_indices, 1, memory_order_release); /* 1 to 63 are free */
}

/* For a library that is part of a plugin which is unloaded: threads that end later must not call a
 * destructor whose code is gone.  (Release and acquire: the key is written before the flag.) */
__attribute__((destructor)) static void at_unload(void)
{
  atomic_fetch_or_explicit(&used_indices, UINT64_MAX, memory_order_relaxed); /* none is free now */
  if (atomic_load_explicit(&key_made, memory_order_acquire))
    pthread_key_delete(key);
}

/* Returns a free index, or 0 if there is none.
 * After make_key_once() only read-modify-writes change `used_indices`.  So this one synchronizes
 * with every earlier release of an index, also if other indices have been acquired in between
 * (release sequence).
 * ORDER index.acquire (acquire)
 *   pairs with     index.release
 *   makes visible  what the previous owner has counted
 *   if weakened    the new owner adds to an older value: adds are lost
 *   checked by     negative/index_acquired_relaxed */
static unsigned acquire_index(void)
{
  uint64_t used = atomic_load_explicit(&used_indices, memory_order_relaxed);
  unsigned index;
  do {
    if (used == UINT64_MAX)
      return 0;
    index = (unsigned) __builtin_ctzll(~used);
  } while (!atomic_compare_exchange_weak_explicit(&used_indices, &used, used | UINT64_C(1) << index,
                                                  memory_order_acquire, memory_order_relaxed));
  return index;
}

/* The thread's later adds use the index.  If none is free, its next add asks again. */
static void request_index(void)
{
  make_key_once();
  unsigned index = acquire_index();
  if (!index)
    return;
  tamis__thread_index =
      NEVER; /* in case the next line allocates, and the allocator uses a filter */
  if (pthread_setspecific(key, &key) == 0)
    tamis__thread_index = index;
  else
    release_index(index);
}

/* ---- counters ---- */

uint64_t tamis__counter_add_shared(const struct counters *counters, unsigned kind, uint64_t amount)
{
  if (!tamis__thread_index)
    request_index();
  /* Release: as counter.add.  Each add continues the release sequences of those before it. */
  return atomic_fetch_add_explicit(&counters->shards->value[kind], amount, memory_order_release) +
         amount;
}

/* ORDER counter.sum (acquire)
 *   pairs with     counter.add
 *   makes visible  see there
 *   if weakened    see there
 *   checked by     negative/counter_summed_relaxed */
uint64_t tamis__counter_sum(const struct counters *counters, unsigned kind)
{
  uint64_t sum = 0;
  for (unsigned i = 0; i <= counters->mask; i++)
    sum += atomic_load_explicit(&counters->shards[i].value[kind], memory_order_acquire);
  return sum;
}
