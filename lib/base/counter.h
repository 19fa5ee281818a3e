/* SPDX-License-Identifier: MIT
 *
 * Layer 1: counters that many threads bump without sharing a hot cache line.
 *
 * A set of counters is an array of shards, one cache line each; a shard holds one part of every
 * counter of the set.  The value of a counter is the sum over the shards.  Sums are exact when nobody
 * adds, and never miss an add that happened before.
 *
 *    shard    0            1         2         3
 *    thread   all others   number 1  number 2  number 3
 *
 * Live threads have small numbers, each its own, which are given back when a thread ends.  Of a set
 * with S shards the threads 1 .. S - 1 own one each: nobody else writes it, so they add to it by a load
 * and a store, without a locked instruction.  All other threads share shard 0, and add atomically.
 */
#ifndef TAMIS_LIB_COUNTER_H
#define TAMIS_LIB_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

enum { COUNTER_KINDS = 8 };

struct counter_shard {
  _Alignas(64) _Atomic uint64_t value[COUNTER_KINDS];
};

struct counters {
  struct counter_shard *shards;
  unsigned mask; /* number of shards - 1; a power of two - 1 */
};

/* How many shards suit this machine and a filter of so many bytes, of which they should be a small
 * part: a power of two, 2 to 64. */
unsigned tamis__counter_shards(uint64_t bytes);

/* The number of the calling thread, from 1; 0 if it has none so far, and more than any shard's if it is
 * never to have one.
 * initial-exec: a direct access instead of a function call, at the price of four bytes of the space
 * that every process keeps for libraries loaded at run time. */
extern _Thread_local unsigned tamis__thread_index __attribute__((tls_model("initial-exec")));

/* counter_add() for a thread that owns no shard of the set, or has no number yet. */
uint64_t tamis__counter_add_shared(const struct counters *counters, unsigned kind, uint64_t amount);

uint64_t tamis__counter_sum(const struct counters *counters, unsigned kind);

/* Adds, and returns the new value of the shard's part.
 * Relaxed: counters order nothing; a reader that must see an add has synchronized with the adder
 * by other means, and coherence does the rest.  The owner's load sees its own last store, or that of the
 * owner before, see index.acquire. */
static inline uint64_t counter_add(const struct counters *counters, unsigned kind, uint64_t amount)
{
  unsigned number = tamis__thread_index;
  if (__builtin_expect(number - 1 >= counters->mask, 0)) /* 0 wraps round */
    return tamis__counter_add_shared(counters, kind, amount);
  _Atomic uint64_t *value = &counters->shards[number].value[kind];
  uint64_t sum = atomic_load_explicit(value, memory_order_relaxed) + amount;
  atomic_store_explicit(value, sum, memory_order_relaxed);
  return sum;
}

#endif
