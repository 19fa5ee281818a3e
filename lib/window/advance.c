/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the end of a period of a sliding window: 5 and 6 of table.h, and layers that leave.
 */
#include "window/advance.h"

#include "window/layers.h"
#include "window/sweep.h"

/* What was left in the other layers than the open one is final: they were closed before the sweep
 * began. */
static void let_layers_leave(struct window *w, const struct window_swept *swept)
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

/* 5 and 6 of table.h, for the period with this number. */
static void begin_period(struct window *w, uint64_t period)
{
  struct window_swept swept = {.n = 0};
  uint64_t epoch = epoch_before(&w->state->epoch);
  open_smaller(w);
  while (!epoch_publish(&w->state->epoch, &epoch, epoch_with_period(epoch, period, w->stamps)))
    ;
  HOOK(window_published);
  tamis__window_sweep(w, &swept);
  let_layers_leave(w, &swept);
}

/* Of many periods that end at once, as many do that everything is forgotten; their numbers are
 * the last ones. */
int tamis__window_advance(tamis_filter *f, uint64_t to)
{
  struct window *w = window_of(f);
  const bool by_one = to == ADVANCE_BY_ONE;
  if (to > window_most_period && !by_one)
    return TAMIS_EINVAL;
  if (!by_one && to <= epoch_period(epoch_before(&w->state->epoch)))
    return TAMIS_OK;
  int result = window_join(w);
  if (result != TAMIS_OK)
    return result;
  tamis__window_lock_advancing(w);
  tamis__backlog_drain(&w->backlog);
  uint64_t now = epoch_period(epoch_before(&w->state->epoch));
  uint64_t n = by_one ? 1 : to <= now ? 0 : to - now < w->stamps ? to - now : w->stamps;
  for (uint64_t before = by_one ? now : to - n; n; n--)
    begin_period(w, ++before);
  owned_unlock(&w->state->advancing, &w->owner);
  return TAMIS_OK;
}
