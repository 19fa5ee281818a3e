/* SPDX-License-Identifier: MIT
 *
 * Layer 2: removes and counts of copies, in a sliding window of the cuckoo kind.
 *
 * These functions are members of the tables of operations, and take hashes that are not mixed.
 */
#ifndef TAMIS_LIB_WINDOW_REMOVE_H
#define TAMIS_LIB_WINDOW_REMOVE_H

#include "base/filter.h"

int tamis__window_remove(tamis_filter *f, uint64_t hash);
uint64_t tamis__window_count_copies(const tamis_filter *f, uint64_t hash);

#endif
