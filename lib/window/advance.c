/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the end of a period of a sliding window: 5 and 6 of table.h, and layers that leave.
 */
#include "window/advance.h"

#include "base/compiler.h"
#include "window/copies.h"

/* Forgets the copies of entries in a word. */
static void forget_lanes(struct window_memory *memory, const struct window_layer *layer,
                         uint64_t index, uint64_t lanes)
{
  for (; lanes && window_has_counts(layer, index); lanes &= lanes - 1) {
    unsigned lane = lanes_first(&layer->geometry.whole.lane, lanes);
    window_forget_further(memory, layer, (struct window_lane){index, lane});
  }
}

/* Clears the dead lanes of a word, and adds the others that are in use to *left.  Returns how many
 * were cleared.  The caller holds the word's stripe. */
static unsigned sweep_word_locked(struct window_memory *memory, const struct window_layer *layer,
                                  uint64_t index, unsigned dead, uint64_t *left)
{
  const struct window_shape *s = &layer->geometry.whole;
  word *at = &layer->words[index];
  uint64_t value = word_load(at);
  uint64_t used = window_used(s, value), gone = used & window_dead(s, value, dead);
  *left |= used ^ gone;
  if (!gone)
    return 0;
  forget_lanes(memory, layer, index, gone);
  word_store(at, value & ~lanes_bits(&s->lane, gone));
  return lanes_count(gone);
}

/* Returns which lanes are left in use, of all words together: 0 if none is. */
static uint64_t sweep_block(struct window *w, const struct window_layer *layer, uint64_t block,
                            unsigned dead)
{
  struct window_memory memory;
  window_memory_begin(&memory, w);
  struct stripe *stripe = window_stripe_of_block(w, block);
  uint64_t begin = block << layer->block_shift, end = (block + 1) << layer->block_shift, left = 0;
  uint64_t words = window_words(&layer->geometry);
  unsigned cleared = 0;
  stripe_lock(stripe);
  for (uint64_t i = begin; i < end && i < words; i++)
    cleared += sweep_word_locked(&memory, layer, i, dead, &left);
  window_use(stripe, -(int64_t) cleared);
  stripe_unlock(stripe);
  window_release_memory(&memory);
  HOOK(window_block_swept);
  return left;
}

/* Takes each stripe at least once, also those that have no block, and sweeps its blocks in all
 * layers.  left[i] is 0 if nothing is left in the layer with number oldest + i. */
static void sweep(struct window *w, uint64_t epoch, uint64_t left[WINDOW_MOST_LAYERS])
{
  uint64_t stripes = w->stripes.mask + 1;
  for (uint64_t stripe = 0; stripe < stripes; stripe++) {
    stripe_lock(&w->stripes.all[stripe].stripe);
    stripe_unlock(&w->stripes.all[stripe].stripe);
    for (const struct window_layer *layer = window_newest(w, epoch); layer;
         layer = window_next(layer, epoch)) {
      uint64_t last = (window_words(&layer->geometry) - 1) >> layer->block_shift;
      for (uint64_t block = stripe; block <= last; block += stripes)
        left[layer->number - epoch_oldest(epoch)] |=
            sweep_block(w, layer, block, epoch_dead(epoch));
    }
  }
}

/* `swept` is the epoch word for which the layers were swept.  What was left in a layer that is
 * older than its newest one is final: that layer was closed before the sweep began. */
static void let_layers_leave(struct window *w, uint64_t swept,
                             const uint64_t left[WINDOW_MOST_LAYERS])
{
  uint64_t epoch = epoch_before(&w->epoch);
  while (epoch_oldest(epoch) < epoch_newest(swept) &&
         !left[epoch_oldest(epoch) - epoch_oldest(swept)]) {
    uint64_t next =
        epoch_with_layers(epoch, epoch_oldest(epoch) + 1, epoch_newest(epoch), w->stamps);
    if (!epoch_publish(&w->epoch, &epoch, next))
      continue;
    epoch = next;
    fullness_count(&w->rooms);
  }
}

int tamis__window_advance(tamis_filter *f)
{
  struct window *w = window_of(f);
  uint64_t left[WINDOW_MOST_LAYERS] = {0};
  stripe_lock(&w->advancing);
  uint64_t epoch = epoch_before(&w->epoch), next;
  do
    next = epoch_with_next_period(epoch, w->stamps);
  while (!epoch_publish(&w->epoch, &epoch, next));
  HOOK(window_published);
  sweep(w, next, left);
  let_layers_leave(w, next, left);
  stripe_unlock(&w->advancing);
  return TAMIS_OK;
}
