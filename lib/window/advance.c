/* SPDX-License-Identifier: MIT
 *
 * Layer 2: ends periods of a sliding window (steps 5 to 9 in table.h), and removes empty layers.
 */
#include "window/copies.h"
#include "window/layers.h"
#include "window/operations.h"

/* ---- the sweep: steps 6 and 8 ---- */

/* The layers that exist when a sweep begins.  While `advancing` is held, no layer leaves. */
struct swept {
  unsigned oldest, now; /* the sweep keeps the stamps from `oldest` to `now` */
  unsigned n;
  struct window_layer *layer[WINDOW_MOST_LAYERS]; /* the newest layer comes first */
  uint64_t left[WINDOW_MOST_LAYERS];              /* not 0: the layer still has entries */
};

/* Clears those lanes of a word whose stamps the sweep does not keep, and returns their number.
 * Sets bits in *left if other lanes are in use.  The caller must hold the word's stripe. */
static unsigned sweep_word_locked(struct window *w, const struct window_layer *layer,
                                  uint64_t index, unsigned oldest, unsigned now, uint64_t *left)
{
  const struct window_shape *s = &layer->geometry.whole;
  const uint64_t value = word_load(&layer->words[index]), used = window_used(s, value);
  const uint64_t gone = used & window_beyond(s, value, oldest, now);
  *left |= used ^ gone;
  if (!gone)
    return 0;
  for (uint64_t lanes = gone; lanes && window_has_counts(layer, index); lanes &= lanes - 1)
    window_forget_further(w, layer, (struct window_lane){index, lanes_first(&s->lane, lanes)});
  word_store(&layer->words[index], value & ~lanes_bits(&s->lane, gone));
  return lanes_count(gone);
}

static void sweep_block(struct window *w, struct swept *swept, unsigned i, uint64_t block)
{
  struct window_stripe *stripe = window_stripe_of_block(w, block);
  const struct window_layer *layer = swept->layer[i];
  const uint64_t end = (block + 1) << layer->block_shift, words = window_words(&layer->geometry);
  const unsigned oldest = swept->oldest, now = swept->now; /* copies, to be kept in registers */
  uint64_t left = 0;
  unsigned cleared = 0;
  window_lock(w, stripe);
  for (uint64_t index = block << layer->block_shift; index < end && index < words; index++)
    cleared += sweep_word_locked(w, layer, index, oldest, now, &left);
  window_use(stripe, -(int64_t) cleared);
  window_unlock(w, stripe);
  HOOK(window_block_swept);
  swept->left[i] |= left;
}

static void list_layers(const struct window *w, struct swept *swept)
{
  uint64_t epoch;
  do {
    epoch = epoch_read(&w->state->epoch);
    swept->n = 0;
    for (struct window_layer *layer = window_newest(w, epoch); layer;
         layer = window_next(layer, epoch)) {
      swept->layer[swept->n] = layer;
      swept->left[swept->n++] = 0;
    }
  } while (epoch_read(&w->state->epoch) != epoch); /* a layer may have been opened meanwhile */
}

/* Sweeps all layers.  Takes each stripe at least once, and sweeps the stripe's blocks if they have
 * lanes in use.  The caller must hold `advancing`. */
static void sweep(struct window *w, struct swept *swept)
{
  list_layers(w, swept);
  const uint64_t epoch = epoch_read(&w->state->epoch), stripes = w->stripes.mask + 1;
  swept->oldest = epoch_stamp_of_age(epoch, window_oldest_age(w, epoch), w->stamps);
  swept->now = epoch_now(epoch);
  for (uint64_t stripe = 0; stripe < stripes; stripe++) {
    window_lock(w, &w->stripes.all[stripe]);
    const bool used = window_stripe_lanes(&w->stripes.all[stripe]);
    window_unlock(w, &w->stripes.all[stripe]);
    if (!used)
      HOOK(window_block_swept);
    for (unsigned i = 0; i < swept->n && used; i++) {
      const struct window_layer *layer = swept->layer[i];
      const uint64_t last = (window_words(&layer->geometry) - 1) >> layer->block_shift;
      for (uint64_t block = stripe; block <= last; block += stripes)
        sweep_block(w, swept, i, block);
    }
  }
}

/* ---- the ends of periods ---- */

/* Publishes an epoch word whose period is n periods later.  The caller must hold `advancing`. */
static void publish(struct window *w, unsigned n)
{
  uint64_t epoch = epoch_read(&w->state->epoch);
  while (!epoch_publish(&w->state->epoch, &epoch, epoch_after_periods(epoch, n, w->stamps)))
    ;
  HOOK(window_published);
}

void tamis__window_lock_advancing(struct window *w)
{
  struct swept swept;
  if (!owned_lock(&w->state->advancing, &w->owner))
    return;
  sweep(w, &swept);
  const unsigned ahead = w->spec.periods - window_oldest_age(w, epoch_read(&w->state->epoch));
  if (ahead)
    publish(w, ahead);
}

/* Removes from the list the closed layers that the sweep has found empty: they stay empty. */
static void let_layers_leave(struct window *w, const struct swept *swept)
{
  struct window_layer *empty[WINDOW_MOST_LAYERS];
  unsigned n = 0;
  for (unsigned i = 1; i < swept->n; i++)
    if (!swept->left[i])
      empty[n++] = swept->layer[i];
  tamis__window_let_leave(w, empty, n);
}

/* Opens a smaller layer if the newest layer is too large for the keys that are present now, and
 * also for those that were present when the previous period ended. */
static void open_smaller(struct window *w)
{
  uint64_t used = window_lanes_in_use(w), before = w->used_before;
  tamis__window_open_smaller(w, used > before ? used : before);
  w->used_before = used;
}

static void end_one(struct window *w)
{
  struct swept swept;
  open_smaller(w);
  publish(w, 1);
  sweep(w, &swept);
  let_layers_leave(w, &swept);
}

/* Ends n periods at once (steps 7 to 9 in table.h).  n is at most G, the number of past periods. */
static void jump(struct window *w, unsigned n)
{
  struct swept swept;
  const uint64_t epoch = epoch_read(&w->state->epoch);
  const uint64_t numbers = numbers_load(&w->state->numbers);
  open_smaller(w);
  numbers_store(&w->state->numbers, epoch_numbers_ahead(epoch, numbers, n));
  HOOK(window_jump_begun);
  sweep(w, &swept);
  w->used_before = window_lanes_in_use(w);
  publish(w, n);
  let_layers_leave(w, &swept);
}

static void give_number(struct window *w, uint64_t number)
{
  numbers_store(&w->state->numbers, epoch_numbers(epoch_read(&w->state->epoch), number));
}

/* Ends n periods.  If n exceeds G + 1 (G: the number of past periods), ends only G + 1 periods,
 * after which all keys are forgotten, and then sets the number of the new period. */
static void end_periods(struct window *w, uint64_t n)
{
  const uint64_t to = window_period(w) + n;
  const unsigned most = w->spec.periods;
  if (n > 1)
    jump(w, n < most ? (unsigned) n : most);
  if (n == 1 || n > most)
    end_one(w);
  give_number(w, to & window_most_period);
}

int tamis__window_advance(tamis_filter *f, enum filter_period how, uint64_t number)
{
  struct window *w = window_of(f);
  if (number > window_most_period)
    return TAMIS_EINVAL;
  if (how == PERIODS_END && number <= window_period(w))
    return TAMIS_OK;
  int result = window_join(w);
  if (result != TAMIS_OK)
    return result;
  tamis__window_lock_advancing(w);
  tamis__backlog_drain(&w->backlog, false);
  const uint64_t now = window_period(w);
  if (how == PERIOD_IS_NAMED)
    give_number(w, number);
  else if (how == PERIOD_ENDS || number > now)
    end_periods(w, how == PERIOD_ENDS ? 1 : number - now);
  owned_unlock(&w->state->advancing, &w->owner);
  return TAMIS_OK;
}
