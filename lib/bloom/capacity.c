/* SPDX-License-Identifier: MIT */
#include "bloom/capacity.h"

/* All shards together get at most a half of the room before each of them looks again. */
int tamis__bloom_watch(struct bloom *b)
{
  uint64_t room = room_for_keys(b), shards = b->counter_mask + UINT64_C(1);
  unsigned period = LEAST_WATCH_PERIOD;
  unsigned char far = OPEN;
  if (room <= period * shards)
    atomic_compare_exchange_strong_explicit(&b->fullness, &far, NEAR, memory_order_relaxed,
                                            memory_order_relaxed);
  while (period < MOST_WATCH_PERIOD && 4 * period * shards <= room)
    period *= 2;
  if (atomic_load_explicit(&b->watch_mask, memory_order_relaxed) != period - 1)
    atomic_store_explicit(&b->watch_mask, (uint16_t) (period - 1), memory_order_relaxed);
  return TAMIS_OK;
}

uint64_t tamis__bloom_add_shared(const struct bloom *b, enum bloom_counter which, uint64_t amount)
{
  const struct counters counters = bloom_counters(b);
  return tamis__counter_add_shared(&counters, which, amount);
}

int tamis__bloom_count_shared(struct bloom *b)
{
  return is_watched(b, tamis__bloom_add_shared(b, KEYS, 1)) ? tamis__bloom_watch(b) : TAMIS_OK;
}

void tamis__bloom_note_refusal(const struct bloom *b)
{
  const struct counters counters = bloom_counters(b);
  tamis__counter_note(&counters, REFUSED);
}
