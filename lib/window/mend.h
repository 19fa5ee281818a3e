/* SPDX-License-Identifier: MIT
 *
 * Layer 2: mends what a killed process has left in a sliding window: [K] in shared.h.
 */
#ifndef TAMIS_LIB_WINDOW_MEND_H
#define TAMIS_LIB_WINDOW_MEND_H

#include "window/table.h"

/* After a failure of power: clears the lanes whose stamp is not live, and mends all stripes.  No
 * other process uses the window.  (Locks that are still held have dead owners.) */
void tamis__window_mend_all(struct window *w);

#endif
