/* SPDX-License-Identifier: MIT
 *
 * Layer 2: look-ups and adds of a Bloom filter whose keys have all their bits in one word.
 *
 *   hash ──────► word: 0 . . M . M . . M . M ...
 *                      │
 *                      └ bit 63 is the mark.  In fixed filters it belongs to no key.  Once it is
 *                        set, no call changes the word any more
 *
 * One atomic access reads or changes all bits of a key.  So at every instant a key is either
 * present or absent, and all arguments follow from the order in which a single word changes:
 *
 * [A] No false negative, [D] no lock and [F] no write for a present key: as in operations.c.
 *
 * [B] One winner.  Of all ORs of a key's bits, at most one changes the word from lacking some of
 *     them to having all; none does if other keys have set the last of these bits.  The call that
 *     made this OR sees so by the old value, wins, counts the key, and takes effect with this OR.
 *     Each call has a bounded number of steps: on processors without a fetch-and-or, an OR is a
 *     loop, which repeats only when the word has gained a bit, so at most 64 times.
 *
 * [C] All or nothing.  In a fixed filter, TAMIS_EFULL from a unique add is final: the caller may
 *     give the refused key to another filter, and then no unique add of the key may win here.
 *     Suppose that a unique add R is about to be refused, while a call P has found room before the
 *     filter became full, and is about to set the key's bits.  The key's word decides:
 *
 *       P   sets the key's bits in the word, if the word has not changed since P read it
 *           (compare-and-swap)
 *       R   first sets the word's mark by an OR
 *
 *     1. If the mark comes first, P's compare-and-swap fails.  P then reads the mark, and is
 *        refused as well.
 *     2. If the bits come first, R's OR returns a word with the bits, and R returns TAMIS_PRESENT.
 *
 *     A refused call takes effect when it sets or reads the mark.  Marks are set only when the
 *     filter is FULL, which is final.  Look-ups and statistics ignore marks.  In a filter that
 *     grows, TAMIS_EFULL is final for the reason that layers.c gives.
 */
#ifndef TAMIS_LIB_BLOOM_WORD_LAYOUT_H
#define TAMIS_LIB_BLOOM_WORD_LAYOUT_H

#include "base/compiler.h"
#include "base/hook.h"
#include "bloom/bloom.h"
#include "bloom/capacity.h"
#include "bloom/layers.h"

static inline bool word_lookup(const word *at, uint64_t mask)
{
  return !(mask & ~word_load(at));
}

/* ---- adds; TAMIS_EFULL is final if `unique` is set ---- */

/* Adds to a fixed filter.  Returns TAMIS_PRESENT if the key was present. */
static inline int word_add_limited(struct bloom *b, word *at, uint64_t mask, bool unique)
{
  uint64_t old, now = word_load(at);
  do {
    old = now;
    if (!(mask & ~old))
      return TAMIS_PRESENT;
    if (old & WORD_MARK || refuses(b)) {
      HOOK(bloom_word_refused);
      if (unique && !(old & WORD_MARK))
        old = word_or(at, WORD_MARK);
      if (!(mask & ~old))
        return TAMIS_PRESENT;
      tamis__bloom_note_refusal(b);
      return TAMIS_EFULL;
    }
    HOOK(bloom_room_found);
    now = word_replace(at, old, old | mask);
  } while (now != old);
  return count_key(b);
}

/* Adds to a growable filter.  Returns TAMIS_PRESENT if the key was present and `unique` is set. */
FORCE_INLINE int word_add_growable(struct bloom *b, word *at, uint64_t mask, uint64_t hash,
                                   bool unique)
{
  const int present = unique ? TAMIS_PRESENT : TAMIS_OK;
  if (word_lookup(at, mask))
    return present;
  HOOK(bloom_key_missed);
  if (!is_far(b))
    return unique ? tamis__layered_add_unique(&b->head, hash) : tamis__layered_add(&b->head, hash);
  HOOK(bloom_room_found);
  if (!(mask & ~word_or(at, mask)))
    return present; /* other calls have just set the key's last bits */
  HOOK(bloom_word_set);
  return unique && !is_alone(b) ? tamis__layers_settle(b, hash) : count_key(b);
}

#endif
