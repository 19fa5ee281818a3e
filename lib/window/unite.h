/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the union of two sliding windows that are in use.
 */
#ifndef TAMIS_LIB_WINDOW_UNITE_H
#define TAMIS_LIB_WINDOW_UNITE_H

#include "base/filter.h"

int tamis__window_merge(tamis_filter *into, const tamis_filter *from);

/* The same; `checkpoint`: `from` is an earlier state of `into`, so keys that both have are not added
 * once more. */
int tamis__window_unite(tamis_filter *into, const tamis_filter *from, bool checkpoint);

#endif
