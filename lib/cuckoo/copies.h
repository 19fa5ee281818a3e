/* SPDX-License-Identifier: MIT
 *
 * Layer 2: count, how many copies of a key are in.  copies.c explains what that is.
 *
 * These functions are members of the tables of operations, and take hashes that are not mixed.
 */
#ifndef TAMIS_LIB_CUCKOO_COPIES_H
#define TAMIS_LIB_CUCKOO_COPIES_H

#include "base/filter.h"

uint64_t tamis__cuckoo_count(const tamis_filter *f, uint64_t hash);

/* At most FILTER_GROUP hashes. */
void tamis__cuckoo_count_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                              uint64_t *counts);

#endif
