/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the end of a period of a sliding window.
 */
#ifndef TAMIS_LIB_WINDOW_ADVANCE_H
#define TAMIS_LIB_WINDOW_ADVANCE_H

#include "base/filter.h"

int tamis__window_advance(tamis_filter *f, enum filter_period how, uint64_t number);

#endif
