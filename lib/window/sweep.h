/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the sweep of a sliding window, which clears dead lanes: 6 of table.h.
 */
#ifndef TAMIS_LIB_WINDOW_SWEEP_H
#define TAMIS_LIB_WINDOW_SWEEP_H

#include "window/table.h"

/* The layers that there are when a sweep begins, the newest one first.  None leaves meanwhile. */
struct window_swept {
  const struct window_layer *open; /* the one that is not closed */
  unsigned n;
  struct window_layer *layer[WINDOW_MOST_LAYERS];
  uint64_t left[WINDOW_MOST_LAYERS]; /* 0: nothing is left in it */
};

/* The caller holds `advancing`. */
void tamis__window_sweep(struct window *w, struct window_swept *swept);

/* Takes `advancing`.  If its owner has been killed, the sweep of the period that runs is made first:
 * the owner may have ended a period and not swept it. */
void tamis__window_lock_advancing(struct window *w);

#endif
