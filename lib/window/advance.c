/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the end of a period of a sliding window: 5 and 6 of table.h, and layers that leave.
 */
#include "window/advance.h"

#include "base/compiler.h"
#include "window/copies.h"
#include "window/layers.h"

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

/* The layers that there are when a sweep begins, the newest one first.  None leaves meanwhile. */
struct swept {
  const struct window_layer *open; /* the one that is not closed */
  unsigned n;
  struct window_layer *layer[WINDOW_MOST_LAYERS];
  uint64_t left[WINDOW_MOST_LAYERS]; /* 0: nothing is left in it */
};

static void begin_sweep(const struct window *w, struct swept *swept)
{
  uint64_t epoch;
  do {
    epoch = epoch_before(&w->epoch);
    swept->n = 0;
    swept->open = window_newest(w, epoch);
    for (struct window_layer *layer = window_newest(w, epoch); layer;
         layer = window_next(layer, epoch)) {
      swept->layer[swept->n] = layer;
      swept->left[swept->n++] = 0;
    }
  } while (epoch_after(&w->epoch) != epoch); /* only another layer can have been opened */
}

/* Takes each stripe at least once, also those that have no block, and sweeps its blocks in all
 * layers. */
static void sweep(struct window *w, uint64_t epoch, struct swept *swept)
{
  uint64_t stripes = w->stripes.mask + 1;
  for (uint64_t stripe = 0; stripe < stripes; stripe++) {
    stripe_lock(&w->stripes.all[stripe].stripe);
    stripe_unlock(&w->stripes.all[stripe].stripe);
    for (unsigned i = 0; i < swept->n; i++) {
      const struct window_layer *layer = swept->layer[i];
      uint64_t last = (window_words(&layer->geometry) - 1) >> layer->block_shift;
      for (uint64_t block = stripe; block <= last; block += stripes)
        swept->left[i] |= sweep_block(w, layer, block, epoch_dead(epoch));
    }
  }
}

/* What was left in the other layers than the open one is final: they were closed before the sweep
 * began. */
static void let_layers_leave(struct window *w, const struct swept *swept)
{
  struct window_layer *empty[WINDOW_MOST_LAYERS];
  unsigned n = 0;
  for (unsigned i = 0; i < swept->n; i++)
    if (swept->layer[i] != swept->open && !swept->left[i])
      empty[n++] = swept->layer[i];
  tamis__window_let_leave(w, empty, n);
}

/* Looks at the end of a period whether the last two of them were more than the keys need. */
static void open_smaller(struct window *w)
{
  uint64_t used = window_lanes_in_use(w), before = w->used_before;
  tamis__window_open_smaller(w, used > before ? used : before);
  w->used_before = used;
}

int tamis__window_advance(tamis_filter *f)
{
  struct window *w = window_of(f);
  struct swept swept = {.n = 0};
  stripe_lock(&w->advancing);
  tamis__backlog_drain(&w->backlog);
  open_smaller(w);
  uint64_t epoch = epoch_before(&w->epoch), next;
  do
    next = epoch_with_next_period(epoch, w->stamps);
  while (!epoch_publish(&w->epoch, &epoch, next));
  HOOK(window_published);
  begin_sweep(w, &swept);
  sweep(w, next, &swept);
  let_layers_leave(w, &swept);
  stripe_unlock(&w->advancing);
  return TAMIS_OK;
}
