/* SPDX-License-Identifier: MIT */
#include "bloom/capacity.h"

/* The counted keys decide: there are never fewer keys than that.  There may be more, as keys that a
 * false positive hid are not counted, but not by more than the set bits allow. */
bool tamis__bloom_at_capacity(const struct bloom *b)
{
  return tamis__counter_sum(&b->counters, KEYS) >= b->geometry.capacity ||
         (double) tamis__counter_sum(&b->counters, BITS) >= b->max_bits;
}

bool tamis__bloom_near_capacity(const struct bloom *b)
{
  uint64_t keys = WATCH_PERIOD * (b->counters.mask + UINT64_C(1));
  double bits = (double) keys * bloom_geometry_bits_per_key(&b->geometry);
  return tamis__counter_sum(&b->counters, KEYS) + keys >= b->geometry.capacity ||
         (double) tamis__counter_sum(&b->counters, BITS) + bits >= b->max_bits;
}

void tamis__bloom_watch_capacity(struct bloom *b)
{
  if (tamis__bloom_near_capacity(b)) {
    int open = OPEN;
    atomic_compare_exchange_strong_explicit(&b->fullness, &open, NEAR, memory_order_relaxed,
                                            memory_order_relaxed);
  }
}
