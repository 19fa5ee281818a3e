/* SPDX-License-Identifier: MIT
 *
 * Layer 1: counters that many threads bump without sharing a hot cache line.
 *
 * A set of counters is an array of shards, one cache line each; a shard holds one part of every
 * counter of the set.  A thread adds to the shard of its own number; the value of a counter is the
 * sum over the shards.  Sums are exact when nobody adds, and never miss an add that happened
 * before.
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

/* The smallest power of two that is at least `per_core` times the online cores, within limits that are
 * powers of two themselves. */
unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned least, unsigned most);

/* How many shards suit this machine: a power of two, 2 to 64. */
unsigned tamis__counter_shards(void);

/* A small number of the calling thread, spread evenly over threads. */
unsigned tamis__thread_number(void);

uint64_t tamis__counter_sum(const struct counters *counters, unsigned kind);

/* Adds, and returns the new value of the shard's part.
 * Relaxed: counters order nothing; a reader that must see an add has synchronized with the adder
 * by other means, and coherence does the rest. */
static inline uint64_t counter_add(const struct counters *counters, unsigned kind, uint64_t amount)
{
  struct counter_shard *shard = &counters->shards[tamis__thread_number() & counters->mask];
  return atomic_fetch_add_explicit(&shard->value[kind], amount, memory_order_relaxed) + amount;
}

#endif
