/* SPDX-License-Identifier: MIT
 *
 * Layer 2: batches of look-ups in a cuckoo filter, eight keys at a time: see vectors.c.
 */
#ifndef TAMIS_LIB_CUCKOO_VECTORS_H
#define TAMIS_LIB_CUCKOO_VECTORS_H

#include "base/vector.h"
#include "cuckoo/lookup.h"

/* Members of the tables of operations if vectors_usable(); for the sorts of filter of lookup.h. */
#ifdef TAMIS_VECTORS
size_t tamis__cuckoo_contains_many_growable_by_vectors(const tamis_filter *f,
                                                       const uint64_t *hashes, size_t n,
                                                       bool *found);
size_t tamis__cuckoo_contains_many_fixed_by_vectors(const tamis_filter *f, const uint64_t *hashes,
                                                    size_t n, bool *found);
#else
#define tamis__cuckoo_contains_many_growable_by_vectors tamis__cuckoo_contains_many_growable
#define tamis__cuckoo_contains_many_fixed_by_vectors tamis__cuckoo_contains_many_fixed
#endif

#endif
