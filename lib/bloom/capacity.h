/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what an add to a Bloom filter counts, and when it is refused.
 */
#ifndef TAMIS_LIB_BLOOM_CAPACITY_H
#define TAMIS_LIB_BLOOM_CAPACITY_H

#include "bloom/bloom.h"

/* To check whether a layer is near its capacity, an add must sum the counters, which is slow.  So
 * until the layer is NEAR, an add checks only at every 64th key that its shard counts, or even more
 * rarely if there is much room (tamis__bloom_watch()). */
enum { LEAST_WATCH_PERIOD = SMALL(64, 4), MOST_WATCH_PERIOD = SMALL(1 << 16, 32) };

/* Estimates the number of keys from the bits, and returns it minus `counted`, or 0 if the
 * difference may be chance.  `counted` may be too small if adds ran while the filter was saved, and
 * too large after a power failure: the result is then negative. */
double tamis__bloom_miscounted(const struct bloom_geometry *g, uint64_t bits, uint64_t counted);

/* Returns the limit `most_keys` of a fixed filter with `bits` set bits and `counted` counted keys.
 * Bits that belong to no counted key lower it: after a save beside adds, or in an intersection. */
uint64_t tamis__bloom_most_beside(const struct bloom_geometry *g, uint64_t bits, uint64_t counted);

static inline uint64_t counted_keys(const struct bloom *b)
{
  const struct counters counters = bloom_counters(b);
  return tamis__counter_sum_both(&counters, KEYS, UNITED);
}

/* Returns how many more keys the layer may count.  Keys that unions brought take room.  Hidden keys
 * take none: plans (geometry.c) and the limits of fixed filters allow for them. */
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

/* Returns true if an add need not check for room.  Relaxed: see refuses(). */
static inline bool is_far(const struct bloom *b)
{
  return __builtin_expect(atomic_load_explicit(&b->fullness, memory_order_relaxed) == OPEN, 1);
}

/* Ends a live filter: no process adds a key to it from then on.
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
 *   if weakened    one unique add of a key could win although another is refused for good.  Thread
 *                  W sets the key's last bit, then reads an old fullness, not LAST: W wins.  Thread
 *                  R has set or read LAST, then reads old words, without W's bits: R is refused
 *   checked by     mutants/end_set_relaxed, for the compare-and-swap (no test shows that the load
 *                  before it, which may read LAST, needs the same order) */
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

/* Returns true if a fixed filter is full. */
static inline bool is_full(const struct bloom *b)
{
  return b->live ? has_ended(b) : atomic_load_explicit(&b->fullness, memory_order_relaxed) >= FULL;
}

/* Raises the fullness of a live filter's layer to what the filter's state says.  Needed by refused
 * and late calls (layers.c), which count no key, and so do not notice a closed layer. */
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

/* Returns true if the layer has no room.  The result makes no refusal final: see layers.c and
 * word_layout.h.  The relaxed load has no partner, because the fullness publishes no other data: a
 * thread that reads an outdated OPEN only lets a few more keys in. */
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

/* Counts a refused add.  To return TAMIS_EFULL, too, would cost each add an instruction. */
void tamis__bloom_note_refusal(const struct bloom *b);

/* Does the work of count_key() for a thread that owns no shard of the filter. */
int tamis__bloom_count_shared(struct bloom *b);

/* Counts a key of a live filter, and checks for room if the shard's new number of keys has no bit
 * of a mask.  The file has the complement of the mask, `unwatched`: all processes check equally
 * often.  Relaxed: see is_watched(). */
FORCE_INLINE int count_live(struct bloom *b, struct bloom_tally *tally)
{
  uint64_t keys = core_counter_add(tally->shards, KEYS, 1);
  bool look = !(keys & ~atomic_load_explicit(&tally->unwatched, memory_order_relaxed));
  return __builtin_expect(look, 0) ? tamis__bloom_watch(b) : TAMIS_OK;
}

/* Returns true if a check is due.  Relaxed: an outdated watch_mask only makes the check late. */
static inline bool is_watched(const struct bloom *b, uint64_t keys)
{
  return __builtin_expect(!(keys & atomic_load_explicit(&b->watch_mask, memory_order_relaxed)), 0);
}

/* Counts a key.  Returns TAMIS_OK, so that an add can end with this call. */
FORCE_INLINE int count_key(struct bloom *b)
{
  if (!counter_is_owned_by_mask(b->counter_mask))
    return tamis__bloom_count_shared(b);
  uint64_t keys = counter_add_owned(bloom_shards(b), KEYS, 1);
  return is_watched(b, keys) ? tamis__bloom_watch(b) : TAMIS_OK;
}

#endif
