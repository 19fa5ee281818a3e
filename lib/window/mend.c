/* SPDX-License-Identifier: MIT
 *
 * Layer 2: mends a window after a kill ([K] in shared.h) or a power failure ([R] there).
 */
#include "base/compiler.h"
#include "window/counted.h"
#include "window/rooms.h"
#include "window/save.h"

struct in_use {
  uint64_t lanes, further;
};

/* Clears each entry in an upper bucket whose fingerprint is in its lower bucket, too.  Adds the
 * other entries of the word to *in_use.  The caller must hold the word's stripe. */
static void mend_word_locked(const struct window *w, uint64_t index, struct in_use *in_use)
{
  const struct window_layer *layer = &w->first;
  const struct window_geometry *g = &layer->geometry;
  const struct window_shape *s = &g->whole;
  uint64_t value = word_load(&layer->words[index]), used = window_used(s, value);
  for (uint64_t left = used; left; left &= left - 1) {
    struct lane_place at = lane_place(g, value, index, lanes_first(&s->lane, left));
    if (!stands_twice(g, layer->words, &at))
      continue;
    HOOK(shared_twin_found);
    window_version_bump(window_version(w, at.entry << (64 - s->lane.width) & g->top));
    value &= ~lanes_bits(&s->lane, left & -left);
    word_store(&layer->words[index], value);
    used &= ~(left & -left);
  }
  in_use->lanes += lanes_count(used);
  if (window_is_counted(w))
    in_use->further += counted_further(s, value);
}

NEVER_INLINE void tamis__window_mend(const struct window *w, struct window_stripe *stripe)
{
  const struct window_layer *layer = &w->first;
  const uint64_t words = window_words(&layer->geometry);
  const uint64_t last = (words - 1) >> layer->block_shift;
  struct in_use in_use = {0, 0};
  for (uint64_t block = (uint64_t) (stripe - w->stripes.all); block <= last;
       block += w->stripes.mask + 1) {
    const uint64_t end = (block + 1) << layer->block_shift;
    for (uint64_t i = block << layer->block_shift; i < end && i < words; i++)
      mend_word_locked(w, i, &in_use);
  }
  atomic_store_explicit(&stripe->lanes, in_use.lanes, memory_order_relaxed);
  atomic_store_explicit(&stripe->copies, in_use.further, memory_order_relaxed);
  window_vacate(stripe); /* the killed owner may have cleared a lane without counting it */
}

void tamis__window_mend_all(struct window *w)
{
  struct window_state *state = w->state;
  const struct window_layer *layer = &w->first;
  const uint64_t words = window_words(&layer->geometry);
  uint64_t epoch = epoch_read(&state->epoch);
  unsigned now = epoch_now(epoch) - 1U < w->stamps ? epoch_now(epoch) : 1;
  const uint64_t number = window_is_counted(w) ? 0 : window_period(w);
  epoch = window_is_counted(w) ? counted_epoch()
                               : epoch_make(epoch_period(epoch), 0, false, now, w->stamps);
  atomic_store_explicit(&state->epoch, epoch,
                        /* relaxed, here and below, as no other process uses the window. */
                        memory_order_relaxed);
  atomic_store_explicit(&state->numbers, epoch_numbers(epoch, number), memory_order_relaxed);
  for (uint64_t i = 0; i < words; i++) {
    const uint64_t value = word_load(&layer->words[i]);
    word_store(&layer->words[i],
               value & whole_lanes(&layer->geometry.whole, value, w->stamps, epoch_dead(epoch)));
  }
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    tamis__window_mend(w, &w->stripes.all[i]);
}
