/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what an add to a Bloom filter counts, and when it is refused.
 */
#ifndef TAMIS_LIB_BLOOM_CAPACITY_H
#define TAMIS_LIB_BLOOM_CAPACITY_H

#include "bloom/bloom.h"

/* A check sums the counters to find out whether a layer is near its capacity.  A sum in every add
 * would be slow, so until the layer is NEAR, an add checks with every 64th key that a shard counts.
 * Far from the capacity, checks are rarer (tamis__bloom_watch()). */
enum { LEAST_WATCH_PERIOD = SMALL(64, 4), MOST_WATCH_PERIOD = SMALL(1 << 16, 32) };

/* Estimates from the bits how many keys were not counted.  The result is negative if too many were
 * counted, and 0 if the difference may be chance.  `counted` may be older than the bits, as adds
 * may run while a filter is saved; after a power failure, `counted` may be newer. */
double tamis__bloom_miscounted(const struct bloom_geometry *g, uint64_t bits, uint64_t counted);

/* Returns the `most_keys` of a fixed filter with `bits` set bits.  Some bits may belong to keys
 * that were not counted (a save missed them), or to no key (an intersection has them by chance). */
uint64_t tamis__bloom_most_beside(const struct bloom_geometry *g, uint64_t bits, uint64_t counted);

/* Returns the number of counted keys, plus the number of keys that unions brought. */
static inline uint64_t counted_keys(const struct bloom *b)
{
  const struct counters counters = bloom_counters(b);
  return tamis__counter_sum_both(&counters, KEYS, UNITED);
}

/* Returns the number of keys for which the layer still has room, according to the counted keys.
 * Keys that a false positive hid are not counted.  The plan of a growable filter allows for them
 * (geometry.c).  A fixed filter that hides many keys closes before it has counted `capacity` keys
 * (bloom_geometry_most_keys()).  All keys that unions brought take room. */
static inline uint64_t room_for_keys(const struct bloom *b)
{
  const uint64_t all = counted_keys(b), limit = bloom_most_keys(b);
  const uint64_t most = limit ? limit : bloom_closes_at(b), room = all < most ? most - all : 0;
  if (!b->limited)
    return room;
  const uint64_t own = bloom_counted(b, KEYS), capacity = bloom_capacity(b);
  const uint64_t of_own = own < capacity ? capacity - own : 0;
  return room < of_own ? room : of_own;
}

static inline bool at_capacity(const struct bloom *b)
{
  return !room_for_keys(b);
}

/* Returns true if an add may skip the check for room.  refuses() explains why relaxed suffices. */
static inline bool is_far(const struct bloom *b)
{
  return __builtin_expect(atomic_load_explicit(&b->fullness, memory_order_relaxed) == OPEN, 1);
}

/* Ends a live filter: from then on, no process adds a key to it.
 * ORDER live.end (seq_cst)
 *   pairs with     live.state, whose comment says why
 *   checked by     mutants/live_end_not_published */
static inline void end_live(struct bloom *b)
{
  atomic_fetch_or_explicit(&bloom_tally_of(bloom_live_first(b))->state, LIVE_ENDED,
                           memory_order_seq_cst);
}

/* Raises the fullness, which never falls.
 * ORDER layer.end (seq_cst)
 *   pairs with     layer.ended in has_ended()
 *   makes visible  that unique adds are refused from now on, whichever call has raised the fullness
 *   if weakened    a unique add could complete its key and miss the end, while another unique add
 *                  of that key is refused and misses the bits: one call wins, and the other is
 *                  refused for good
 *   checked by     mutants/end_set_relaxed (the store; the same argument holds for a load that
 *                  reads LAST, but no search shows it) */
static inline void raise_fullness(struct bloom *b, unsigned char fullness)
{
  if (b->live && (fullness == LAST || (fullness == FULL && b->limited)))
    end_live(b);
  unsigned char now = atomic_load_explicit(&b->fullness, memory_order_seq_cst);
  while (now < fullness &&
         !atomic_compare_exchange_weak_explicit(&b->fullness, &now, fullness, memory_order_seq_cst,
                                                memory_order_seq_cst))
    ;
}

/* Returns true if the layer takes no more keys and no layer can follow.
 * ORDER layer.ended (seq_cst)
 *   pairs with     layer.end in raise_fullness(), whose comment says why
 *   checked by     mutants/end_read_relaxed */
static inline bool has_ended(const struct bloom *b)
{
  if (b->live)
    return bloom_live_state(bloom_live_first(b)) & LIVE_ENDED;
  return atomic_load_explicit(&b->fullness, memory_order_seq_cst) == LAST;
}

/* Raises the fullness of a layer to what the state of its live filter says: the layer is closed if
 * another layer follows, or if the filter has ended.  A call that is refused or late counts no key,
 * so it never checks the counters.  Without this function, each such call would set bits. */
static inline void learn_live(struct bloom *b)
{
  const struct bloom *first = bloom_live_first(b);
  const bool ended = bloom_live_state(first) & LIVE_ENDED;
  const bool closed = ended || bloom_live_newest(first)->number > b->number;
  const unsigned char known = ended && !b->limited ? LAST : closed ? FULL : OPEN;
  unsigned char now = atomic_load_explicit(&b->fullness, memory_order_relaxed);
  while (now < known && !atomic_compare_exchange_weak_explicit(
                            &b->fullness, &now, known, memory_order_relaxed, memory_order_relaxed))
    ;
}

/* Returns true if the layer has no room.  Relaxed: a thread that still reads OPEN after the
 * fullness has become NEAR only lets a few more keys in.  The fullness publishes no other data, so
 * the load has no partner.  This function does not make a refusal final: layers.c and word_layout.h
 * say how unique adds do so. */
static inline bool refuses(struct bloom *b)
{
  int fullness = atomic_load_explicit(&b->fullness, memory_order_relaxed);
  if (__builtin_expect(fullness == OPEN, 1))
    return false;
  if (fullness == NEAR && (at_capacity(b) || (b->live && has_ended(b)))) {
    raise_fullness(b, FULL);
    fullness = FULL;
  }
  return fullness >= FULL;
}

/* Counts a refused add.  (A version that returned TAMIS_EFULL would cost all other adds one more
 * instruction.) */
void tamis__bloom_note_refusal(const struct bloom *b);

/* Does the work of count_key() if no thread owns a shard.  Returns TAMIS_OK. */
int tamis__bloom_count_shared(struct bloom *b);

/* Counts a key of a live filter.  All processes have the same period of checks: a process checks if
 * `unwatched` has all bits of the counted key's number.  Near the capacity, `unwatched` has all
 * bits, so each counted key leads to a check.  is_watched() explains why relaxed suffices. */
FORCE_INLINE int count_live(struct bloom *b, struct bloom_tally *tally)
{
  uint64_t keys = core_counter_add(tally->shards, KEYS, 1);
  bool look = !(keys & ~atomic_load_explicit(&tally->unwatched, memory_order_relaxed));
  return __builtin_expect(look, 0) ? tamis__bloom_watch(b) : TAMIS_OK;
}

/* Returns true if a check is due.  Relaxed: a thread that reads an old period only checks later. */
static inline bool is_watched(const struct bloom *b, uint64_t keys)
{
  return __builtin_expect(!(keys & atomic_load_explicit(&b->watch_mask, memory_order_relaxed)), 0);
}

/* Counts a key.  Returns TAMIS_OK, so that an add can end with this call and save no registers. */
FORCE_INLINE int count_key(struct bloom *b)
{
  if (!counter_is_owned_by_mask(b->counter_mask))
    return tamis__bloom_count_shared(b);
  uint64_t keys = counter_add_owned(bloom_shards(b), KEYS, 1);
  return is_watched(b, keys) ? tamis__bloom_watch(b) : TAMIS_OK;
}

#endif
