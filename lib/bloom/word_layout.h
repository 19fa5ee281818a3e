/* SPDX-License-Identifier: MIT
 *
 * Layer 2: look-ups and adds of a Bloom filter whose keys have all their bits in one word.
 *
 *    hash ──────► word: 0 . . M . M . . M . M ...
 *                       │
 *                       └ bit 63 is the mark.  In fixed filters it belongs to no key.  Once it is
 *                         set, no call changes the word any more
 *
 * One atomic access reads or changes all bits of a key.  So at every instant a key is either
 * present or absent, and all arguments follow from the order in which a single word changes:
 *
 * [A] No false negative.  When an add returns, it has seen all bits of the key as 1, or has set
 *     them.  The bits of keys only change from 0 to 1.
 *
 * [B] One winner, without a lock.  Of all ORs of a key's bits, exactly one changes the word from
 *     lacking some of them to having all: the first one, unless other keys have set them before.
 *     The old value shows which OR it was.  The call that made this OR wins, and takes effect with
 *     this OR.  No call waits for another, and each call has a bounded number of steps.  A
 *     fetch-and-or is one step or, on processors without such an instruction, a loop.  The loop
 *     repeats only when the word has gained a bit, which happens at most 64 times.
 *
 *     The call that made this OR also counts the key.  So only hidden keys are not counted.
 *
 * [C] All or nothing.  In a fixed filter, TAMIS_EFULL from a unique add is final: the caller may
 *     give the refused key to another filter, and then no unique add of the key may win here.
 *     Suppose that a unique add R is about to be refused, while a call P has found room before the
 *     filter became full, and is about to set the key's bits.  P and R meet only in the key's word,
 *     so this word decides:
 *
 *        P   sets the key's bits in the word, if the word has not changed since P read it
 *            (compare-and-swap)
 *        R   first sets the word's mark by an OR
 *
 *     No call changes a word with a mark.  If the mark comes first, P's compare-and-swap fails.  P
 *     then reads the mark, and is refused as well.  If the bits come first, R's OR returns a word
 *     with the bits, and R returns TAMIS_PRESENT.  A refused call takes effect when it sets or
 *     reads the mark.
 *
 *     Marks are set only when the filter is FULL, which is final.  Look-ups and statistics ignore
 *     marks.  In a filter that grows, TAMIS_EFULL is final for the reason that layers.c gives.
 *
 * [D] No call takes a lock or waits.
 *
 * [F] Duplicates.  The add of a present key reads the key's word and writes nothing.
 */
#ifndef TAMIS_LIB_BLOOM_WORD_LAYOUT_H
#define TAMIS_LIB_BLOOM_WORD_LAYOUT_H

#include "base/compiler.h"
#include "base/hook.h"
#include "bloom/bloom.h"
#include "bloom/capacity.h"
#include "bloom/layers.h"

/* `at` is the key's word, and `mask` has the key's bits. */
static inline bool word_lookup(const word *at, uint64_t mask)
{
  return !(mask & ~word_load(at));
}

/* ---- adds ----
 *
 * Each of these functions returns TAMIS_PRESENT if the key was present.  Only word_add_growable()
 * then returns TAMIS_OK to a plain add.  If `unique` is set, TAMIS_EFULL is final. */

/* Adds to a fixed filter, which refuses keys past its capacity. */
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

/* Adds to a growable filter, which opens another layer when the newest is full. */
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
