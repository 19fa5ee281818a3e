/* SPDX-License-Identifier: MIT */
#include "window/sweep.h"

#include "base/compiler.h"
#include "window/copies.h"

/* Sets the counts of some lanes of a word to 0.  `lanes` is the set of these lanes. */
static void forget_lanes(struct window *w, const struct window_layer *layer, uint64_t index,
                         uint64_t lanes)
{
  for (; lanes && window_has_counts(layer, index); lanes &= lanes - 1) {
    unsigned lane = lanes_first(&layer->geometry.whole.lane, lanes);
    window_forget_further(w, layer, (struct window_lane){index, lane});
  }
}

/* The stamps that a sweep keeps: those from `oldest` to `now`, the stamp of the running period. */
struct kept {
  unsigned oldest, now;
};

/* Clears the lanes of a word whose stamp is not kept, and adds the lanes that stay in use to *left.
 * Returns the number of cleared lanes.  The caller must hold the word's stripe. */
static unsigned sweep_word_locked(struct window *w, const struct window_layer *layer,
                                  uint64_t index, const struct kept *kept, uint64_t *left)
{
  const struct window_shape *s = &layer->geometry.whole;
  word *at = &layer->words[index];
  uint64_t value = word_load(at);
  uint64_t used = window_used(s, value);
  uint64_t gone = used & window_beyond(s, value, kept->oldest, kept->now);
  *left |= used ^ gone;
  if (!gone)
    return 0;
  forget_lanes(w, layer, index, gone);
  word_store(at, value & ~lanes_bits(&s->lane, gone));
  return lanes_count(gone);
}

/* Sweeps a block.  Returns 0 if none of its lanes stays in use. */
static uint64_t sweep_block(struct window *w, const struct window_layer *layer, uint64_t block,
                            const struct kept *kept)
{
  struct window_stripe *stripe = window_stripe_of_block(w, block);
  uint64_t begin = block << layer->block_shift, end = (block + 1) << layer->block_shift, left = 0;
  uint64_t words = window_words(&layer->geometry);
  unsigned cleared = 0;
  window_lock(w, stripe);
  for (uint64_t i = begin; i < end && i < words; i++)
    cleared += sweep_word_locked(w, layer, i, kept, &left);
  window_use(stripe, -(int64_t) cleared);
  window_unlock(w, stripe);
  HOOK(window_block_swept);
  return left;
}

static void begin(const struct window *w, struct window_swept *swept)
{
  uint64_t epoch;
  do {
    epoch = epoch_read(&w->state->epoch);
    swept->n = 0;
    swept->open = window_newest(w, epoch);
    for (struct window_layer *layer = window_newest(w, epoch); layer;
         layer = window_next(layer, epoch)) {
      swept->layer[swept->n] = layer;
      swept->left[swept->n++] = 0;
    }
  } while (epoch_read(&w->state->epoch) != epoch); /* a layer may have been opened meanwhile */
}

/* Takes each stripe at least once.  Sweeps the blocks of a stripe if they have lanes in use. */
void tamis__window_sweep(struct window *w, struct window_swept *swept)
{
  begin(w, swept);
  const uint64_t epoch = epoch_read(&w->state->epoch), stripes = w->stripes.mask + 1;
  const unsigned oldest = window_oldest_age(w, epoch);
  const struct kept kept = {epoch_stamp_of_age(epoch, oldest, w->stamps), epoch_now(epoch)};
  for (uint64_t stripe = 0; stripe < stripes; stripe++) {
    window_lock(w, &w->stripes.all[stripe]);
    const bool used = window_stripe_lanes(&w->stripes.all[stripe]);
    window_unlock(w, &w->stripes.all[stripe]);
    if (!used)
      HOOK(window_block_swept);
    for (unsigned i = 0; i < swept->n && used; i++) {
      const struct window_layer *layer = swept->layer[i];
      uint64_t last = (window_words(&layer->geometry) - 1) >> layer->block_shift;
      for (uint64_t block = stripe; block <= last; block += stripes)
        swept->left[i] |= sweep_block(w, layer, block, &kept);
    }
  }
}

void tamis__window_publish(struct window *w, unsigned n)
{
  uint64_t epoch = epoch_read(&w->state->epoch);
  while (!epoch_publish(&w->state->epoch, &epoch, epoch_after_periods(epoch, n, w->stamps)))
    ;
  HOOK(window_published);
}

void tamis__window_lock_advancing(struct window *w)
{
  struct window_swept swept = {.n = 0};
  if (!owned_lock(&w->state->advancing, &w->owner))
    return;
  tamis__window_sweep(w, &swept);
  const uint64_t epoch = epoch_read(&w->state->epoch);
  const unsigned ahead = w->spec.periods - window_oldest_age(w, epoch);
  if (ahead)
    tamis__window_publish(w, ahead);
}
