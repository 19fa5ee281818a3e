/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the end of a period of a sliding window.
 */
#ifndef TAMIS_LIB_WINDOW_ADVANCE_H
#define TAMIS_LIB_WINDOW_ADVANCE_H

#include "base/filter.h"

/* `to`: the number of the period that is to run, or ADVANCE_BY_ONE. */
int tamis__window_advance(tamis_filter *f, uint64_t to);

#endif
