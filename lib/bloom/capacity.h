/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what an add to a Bloom filter counts, and when it is refused.
 */
#ifndef TAMIS_LIB_BLOOM_CAPACITY_H
#define TAMIS_LIB_BLOOM_CAPACITY_H

#include "bloom/bloom.h"

/* While a filter is OPEN, an add checks whether the filter is near its capacity with every 64th key
 * that a shard of the counters gets.  Summing the shards in every add would be slow. */
enum { WATCH_PERIOD = 64 };

/* The counted keys decide: there are never fewer keys than that.  There may be more, as keys that a
 * false positive hid are not counted, but not by more than the set bits allow. */
static inline bool at_capacity(const struct bloom *b)
{
  return tamis__counter_sum(&b->counters, KEYS) >= b->geometry.capacity ||
         (double) tamis__counter_sum(&b->counters, BITS) >= b->max_bits;
}

/* Whether the keys that are added before the counters are summed up again might exceed the
 * capacity. */
static inline bool near_capacity(const struct bloom *b)
{
  uint64_t keys = WATCH_PERIOD * (b->counters.mask + UINT64_C(1));
  double bits = (double) keys * bloom_geometry_bits_per_key(&b->geometry);
  return tamis__counter_sum(&b->counters, KEYS) + keys >= b->geometry.capacity ||
         (double) tamis__counter_sum(&b->counters, BITS) + bits >= b->max_bits;
}

static inline void watch_capacity(struct bloom *b)
{
  if (near_capacity(b)) {
    int open = OPEN;
    atomic_compare_exchange_strong_explicit(&b->fullness, &open, NEAR, memory_order_relaxed,
                                            memory_order_relaxed);
  }
}

/* Relaxed: a thread that still reads OPEN after it has become NEAR only lets a few more keys in.
 * The state publishes no other data, so it has no partner.  That a refusal is final does not follow
 * from this function alone: operations.c and word_layout.h say how their unique adds ensure it. */
static inline bool refuses(struct bloom *b)
{
  if (!b->limited)
    return false;
  int fullness = atomic_load_explicit(&b->fullness, memory_order_relaxed);
  if (fullness == NEAR && at_capacity(b)) {
    atomic_store_explicit(&b->fullness, FULL, memory_order_relaxed);
    fullness = FULL;
  }
  return fullness == FULL;
}

/* Counts an add that is refused.  (A function that returned TAMIS_EFULL as well would cost the adds
 * that are not refused an instruction.) */
void tamis__bloom_note_refusal(const struct bloom *b);

struct bits_set {
  unsigned all;  /* bits that this call has set */
  unsigned last; /* those in the last gap */
};

/* Only filters that refuse keys by their number count bits. */
FORCE_INLINE void count(struct bloom *b, struct bits_set bits)
{
  if (b->limited && bits.all)
    counter_add(&b->counters, BITS, bits.all);
  if (!bits.last)
    return;
  uint64_t keys = counter_add(&b->counters, KEYS, 1);
  if (b->limited && keys % WATCH_PERIOD == 0)
    watch_capacity(b);
}

#endif
