/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what a process that was killed has left in a sliding window: [K] in shared.h.
 */
#ifndef TAMIS_LIB_WINDOW_MEND_H
#define TAMIS_LIB_WINDOW_MEND_H

#include "window/table.h"

/* After a failure of power: clears what is no entry of a period that is remembered, and mends all
 * stripes.  Nobody else uses the window.  (Locks of before are those of dead owners.) */
void tamis__window_mend_all(struct window *w);

#endif
