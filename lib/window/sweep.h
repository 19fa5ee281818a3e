/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the sweep of a sliding window, which clears dead lanes: step 6 of table.h.
 */
#ifndef TAMIS_LIB_WINDOW_SWEEP_H
#define TAMIS_LIB_WINDOW_SWEEP_H

#include "window/table.h"

/* The layers that exist when a sweep begins, newest first.  No layer leaves during the sweep. */
struct window_swept {
  const struct window_layer *open; /* the newest layer, which is not closed */
  unsigned n;
  struct window_layer *layer[WINDOW_MOST_LAYERS];
  uint64_t left[WINDOW_MOST_LAYERS]; /* not 0 if the layer still has entries */
};

/* Sweeps all layers.  The caller must hold `advancing`. */
void tamis__window_sweep(struct window *w, struct window_swept *swept);

/* Publishes an epoch word whose period is n periods later.  The caller must hold `advancing`. */
void tamis__window_publish(struct window *w, unsigned n);

/* Takes `advancing`.  If a process was killed while it held this lock, the killed process may have
 * ended a period without a sweep, or begun a jump.  Then the function sweeps, and completes the
 * jump ([T]). */
void tamis__window_lock_advancing(struct window *w);

#endif
