/* SPDX-License-Identifier: MIT
 *
 * Layer 2: ends periods of a sliding window (steps 5 to 9 in table.h), and removes empty layers.
 */
#include "window/operations.h"

#include "window/layers.h"
#include "window/sweep.h"

/* Removes empty layers from the list.  A closed layer that the sweep found empty stays empty. */
static void let_layers_leave(struct window *w, const struct window_swept *swept)
{
  struct window_layer *empty[WINDOW_MOST_LAYERS];
  unsigned n = 0;
  for (unsigned i = 0; i < swept->n; i++)
    if (swept->layer[i] != swept->open && !swept->left[i])
      empty[n++] = swept->layer[i];
  tamis__window_let_leave(w, empty, n);
}

/* Opens a smaller layer if the newest one is too large both for the keys that are present now and
 * for those that were present at the end of the previous period. */
static void open_smaller(struct window *w)
{
  uint64_t used = window_lanes_in_use(w), before = w->used_before;
  tamis__window_open_smaller(w, used > before ? used : before);
  w->used_before = used;
}

/* Ends one period (steps 5 and 6 in table.h). */
static void end_one(struct window *w)
{
  struct window_swept swept = {.n = 0};
  open_smaller(w);
  tamis__window_publish(w, 1);
  tamis__window_sweep(w, &swept);
  let_layers_leave(w, &swept);
}

/* Ends n periods at once (steps 7 to 9 in table.h), at most G, the past periods of the window. */
static void jump(struct window *w, unsigned n)
{
  struct window_swept swept = {.n = 0};
  const uint64_t epoch = epoch_read(&w->state->epoch);
  const uint64_t numbers = numbers_load(&w->state->numbers);
  open_smaller(w);
  numbers_store(&w->state->numbers, epoch_numbers_ahead(epoch, numbers, n));
  HOOK(window_jump_begun);
  tamis__window_sweep(w, &swept);
  w->used_before = window_lanes_in_use(w);
  tamis__window_publish(w, n);
  let_layers_leave(w, &swept);
}

/* Changes the number of the running period. */
static void give_number(struct window *w, uint64_t number)
{
  numbers_store(&w->state->numbers, epoch_numbers(epoch_read(&w->state->epoch), number));
}

/* Ends n periods.  If n is above G + 1 (G: the window's past periods), ends only G + 1 of them,
 * which forgets all keys.  The new period gets the number that it would have if all n had ended. */
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
  tamis__backlog_drain(&w->backlog);
  const uint64_t now = window_period(w);
  if (how == PERIOD_IS_NAMED)
    give_number(w, number);
  else if (how == PERIOD_ENDS || number > now)
    end_periods(w, how == PERIOD_ENDS ? 1 : number - now);
  owned_unlock(&w->state->advancing, &w->owner);
  return TAMIS_OK;
}
