/* SPDX-License-Identifier: MIT */
#include "base/counter.h"

#include "base/hook.h"

#include <stdbool.h>

/* ---- thread indices ----
 *
 * Threads change `used_indices` without a lock, so its words are valid at a fork.  In the child,
 * the thread that forked keeps its index, and all other indices of the parent stay in use.
 *
 * When a thread ends, a destructor (pthread_key_create) releases the thread's index.  The thread
 * gets no other index in destructors that run later, because it might never release that index.
 * (If the thread's first add comes from the last round of destructors, its index stays in use for
 * ever: one thread more must share a shard.) */

enum { NEVER = MAX_SHARDS };

_Thread_local unsigned tamis__thread_index = 0;

#ifdef TAMIS_WITHOUT_SYSTEM

static void request_index(void)
{
}

#else

#include <pthread.h>

enum { INDICES_PER_WORD = 64, INDEX_WORDS = MAX_SHARDS / INDICES_PER_WORD };

/* Bit n of word m is set if index 64 m + n is in use.  No thread owns shard 0, so the bit of index
 * 0 stays set.  Until `key` has been created, all bits are set. */
static _Atomic uint64_t used_indices[INDEX_WORDS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                                     UINT64_MAX};

static pthread_key_t key;
static _Atomic bool key_made;

/* ORDER index.release (release)
 *   pairs with     index.acquire
 *   makes visible  what the thread has counted
 *   if weakened    the index's next owner might add to an old value of its shard: adds are lost
 *   checked by     mutants/index_kept_at_the_end, mutants/index_released_relaxed */
static void release_index(unsigned index)
{
  atomic_fetch_and_explicit(&used_indices[index / INDICES_PER_WORD],
                            ~(UINT64_C(1) << index % INDICES_PER_WORD), memory_order_release);
}

static void at_thread_end(void *unused)
{
  (void) unused;
  unsigned index = tamis__thread_index;
  tamis__thread_index = NEVER;
  release_index(index);
}

/* Creates `key` at the first call.  While one thread creates `key`, other threads do not wait, but
 * share shard 0.  `begun` is relaxed: it does not matter which thread creates `key`.  The other
 * stores are release, so that a thread that acquires an index sees `key`. */
static void make_key_once(void)
{
  static _Atomic bool begun = false;
  if (atomic_load_explicit(&begun, memory_order_relaxed) ||
      atomic_exchange_explicit(&begun, true, memory_order_relaxed))
    return;
  if (pthread_key_create(&key, at_thread_end) != 0)
    return;
  atomic_store_explicit(&key_made, true, memory_order_release);
  for (unsigned i = 0; i < INDEX_WORDS; i++) /* frees all indices but 0 */
    atomic_store_explicit(&used_indices[i], i == 0, memory_order_release);
}

/* Deletes `key` when a plugin with the library is unloaded: threads that end later must not call
 * at_thread_end(), whose code is gone.  (The acquire load pairs with make_key_once().) */
__attribute__((destructor)) static void at_unload(void)
{
  for (unsigned i = 0; i < INDEX_WORDS; i++)
    atomic_fetch_or_explicit(&used_indices[i], UINT64_MAX, memory_order_relaxed);
  if (atomic_load_explicit(&key_made, memory_order_acquire))
    pthread_key_delete(key);
}

/* Acquires and returns the first free index of a word, or returns 0 if no index is free.  Only
 * read-modify-writes change the word after make_key_once().  So the acquire synchronizes with every
 * earlier release of an index of the word (release sequence).
 * ORDER index.acquire (acquire)
 *   pairs with     index.release, whose comment says why
 *   checked by     mutants/index_acquired_relaxed */
static unsigned acquire_index_of(unsigned word)
{
  uint64_t used = atomic_load_explicit(&used_indices[word], memory_order_relaxed);
  unsigned bit;
  do {
    if (used == UINT64_MAX)
      return 0;
    bit = (unsigned) __builtin_ctzll(~used);
    HOOK(index_found);
  } while (!atomic_compare_exchange_weak_explicit(&used_indices[word], &used,
                                                  used | UINT64_C(1) << bit, memory_order_acquire,
                                                  memory_order_relaxed));
  return word * INDICES_PER_WORD + bit;
}

/* Acquires the lowest free index: in a set of few shards, only low indices own a shard. */
static unsigned acquire_index(void)
{
  unsigned index = 0;
  for (unsigned word = 0; word < INDEX_WORDS && !index; word++)
    index = acquire_index_of(word);
  return index;
}

static void request_index(void)
{
  make_key_once();
  unsigned index = acquire_index();
  if (!index)
    return;
  tamis__thread_index = NEVER; /* pthread_setspecific() may call a malloc() that adds to a filter */
  if (pthread_setspecific(key, &key) == 0)
    tamis__thread_index = index;
  else
    release_index(index);
}

#endif

/* ---- counters ---- */

uint64_t tamis__counter_add_shared(const struct counters *counters, unsigned kind, uint64_t amount)
{
  if (!tamis__thread_index)
    request_index();
  /* Release, as counter.add requires.  A read-modify-write continues earlier release sequences. */
  return atomic_fetch_add_explicit(&counters->shards->value[kind], amount, memory_order_release) +
         amount;
}

/* Relaxed, as in tamis__counter_raise(): no other data depends on figures (counter.h).  Both
 * functions make read-modify-writes, because all threads that own no shard share shard 0. */
void tamis__counter_note(const struct counters *counters, unsigned kind)
{
  unsigned index = tamis__thread_index;
  bool owns = index - 1 < counters->mask; /* index 0 wraps round */
  atomic_fetch_add_explicit(&counters->shards[owns ? index : 0].value[kind], 1,
                            memory_order_relaxed);
}

/* Changes the figure in shard 0.  In all other shards the figure is 0. */
void tamis__counter_raise(const struct counters *counters, unsigned kind, uint64_t least)
{
  _Atomic uint64_t *value = &counters->shards->value[kind];
  uint64_t now = atomic_load_explicit(value, memory_order_relaxed);
  HOOK(counter_read);
  while (now < least && !atomic_compare_exchange_weak_explicit(
                            value, &now, least, memory_order_relaxed, memory_order_relaxed))
    ;
}

/* ORDER counter.sum (acquire)
 *   pairs with     counter.add, whose comment says why
 *   checked by     mutants/counter_summed_relaxed */
static inline uint64_t part_of(const struct counter_shard *shard, unsigned kind)
{
  return atomic_load_explicit(&shard->value[kind], memory_order_acquire);
}

uint64_t tamis__counter_sum(const struct counters *counters, unsigned kind)
{
  uint64_t sum = 0;
  for (unsigned i = 0; i <= counters->mask; i++)
    sum += part_of(&counters->shards[i], kind);
  return sum;
}

uint64_t tamis__counter_sum_both(const struct counters *counters, unsigned a, unsigned b)
{
  uint64_t sum = 0;
  for (unsigned i = 0; i <= counters->mask; i++)
    sum += part_of(&counters->shards[i], a) + part_of(&counters->shards[i], b);
  return sum;
}
