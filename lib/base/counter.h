/* SPDX-License-Identifier: MIT
 *
 * Layer 1: counters that many threads add to without sharing a hot cache line.
 *
 * A set of counters is an array of shards, one cache line each.  A shard holds one part of every
 * counter of the set, and the value of a counter is the sum over the shards.  A sum includes every
 * add that happened before the sum, and is exact while no thread adds.
 *
 *    shard    0            1         2         3
 *    thread   all others   index 1   index 2   index 3
 *
 * A live thread has an index, a small number that no other live thread has.  In a set of S shards
 * the threads with index 1 to S - 1 own one shard each.  Only the owner writes to a shard, and adds
 * by a load and a store.  All other threads add to shard 0 by a locked instruction.
 */
#ifndef TAMIS_LIB_COUNTER_H
#define TAMIS_LIB_COUNTER_H

#include "base/compiler.h"
#include "base/cores.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { COUNTER_KINDS = 8 };

/* In a set of several shards, each shard is aligned to its size.  If a set has only one shard, the
 * shard has no owner, can have any address, and can end after the last counter in use. */
struct counter_shard {
  _Atomic uint64_t value[COUNTER_KINDS];
};

struct counters {
  WIDE struct counter_shard *shards;
  WIDE unsigned mask; /* the number of shards, a power of two, minus 1 */
};

/* The index of the calling thread, at least 1.  0: the thread has no index yet.
 * MAX_SHARDS: the thread never gets an index again. */
extern _Thread_local unsigned tamis__thread_index DIRECT_TLS;

/* Does what counter_add() does, for a thread that owns no shard of the set, or has no index yet. */
uint64_t tamis__counter_add_shared(const struct counters *counters, unsigned kind, uint64_t amount);

uint64_t tamis__counter_sum(const struct counters *counters, unsigned kind);
uint64_t tamis__counter_sum_both(const struct counters *counters, unsigned a, unsigned b);

/* A *figure* is a counter on which no other data depends, and which only slow steps change:
 * tamis__counter_note() adds 1, and tamis__counter_raise() sets a figure below `least` to `least`.
 * Neither function gives the thread an index, so neither allocates: look-ups may call both. */
void tamis__counter_note(const struct counters *counters, unsigned kind);
void tamis__counter_raise(const struct counters *counters, unsigned kind, uint64_t least);

FORCE_INLINE bool counter_is_owned(const struct counters *counters)
{
  return __builtin_expect(tamis__thread_index - 1 < counters->mask, 1); /* index 0 wraps round */
}

/* As counter_is_owned(), for a mask of 8 bits.  (Index 0 minus 1 is 255, which no mask exceeds.) */
FORCE_INLINE bool counter_is_owned_by_mask(uint8_t mask)
{
  return __builtin_expect((uint8_t) (tamis__thread_index - 1) < mask, 1);
}

/* Adds to a counter in the thread's own shard, and returns the counter's new value there.  The load
 * is relaxed, because only the owner writes to a shard.  (index.acquire makes visible what the
 * shard's previous owner wrote.)
 * ORDER counter.add (release)
 *   pairs with     counter.sum
 *   makes visible  what was written before, such as the bits of the counted key
 *   if weakened    a save might count a key but miss its bits.  Then a filter loaded from the save
 *                  refuses keys too early
 *   checked by     mutants/counter_added_relaxed */
FORCE_INLINE uint64_t counter_add_owned(struct counter_shard *shards, unsigned kind,
                                        uint64_t amount)
{
  _Atomic uint64_t *value = &shards[tamis__thread_index].value[kind];
  uint64_t sum = atomic_load_explicit(value, memory_order_relaxed) + amount;
  atomic_store_explicit(value, sum, memory_order_release);
  return sum;
}

FORCE_INLINE uint64_t counter_add(const struct counters *counters, unsigned kind, uint64_t amount)
{
  return counter_is_owned(counters) ? counter_add_owned(counters->shards, kind, amount)
                                    : tamis__counter_add_shared(counters, kind, amount);
}

#endif
