/* SPDX-License-Identifier: MIT
 *
 * Layer 2: contains, the look-ups of a cuckoo filter.  lookup.c explains why their answers are
 * right.
 *
 * These functions are members of the tables of operations, and take hashes that are not mixed.
 * There is one for each sort of filter:  `any` is the general one, `growable` and `fixed` are for
 * filters whose first generation needs one hash.
 */
#ifndef TAMIS_LIB_CUCKOO_LOOKUP_H
#define TAMIS_LIB_CUCKOO_LOOKUP_H

#include "cuckoo/directory.h"

/* Keys of a batch that are looked up inside one read section.  Grace periods pass quickly only
 * while all read sections are short. */
enum { READER_BATCH = SMALL(512, 24) };

bool tamis__cuckoo_contains_any(const tamis_filter *f, uint64_t hash);
bool tamis__cuckoo_contains_growable(const tamis_filter *f, uint64_t hash);
bool tamis__cuckoo_contains_fixed(const tamis_filter *f, uint64_t hash);

void tamis__cuckoo_prefetch(const tamis_filter *f, uint64_t hash);
size_t tamis__cuckoo_contains_many_any(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                       bool *found);
size_t tamis__cuckoo_contains_many_growable(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                            bool *found);
size_t tamis__cuckoo_contains_many_fixed(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                         bool *found);

/* The same for hashes that are mixed, for unique adds. */
bool tamis__contains_mixed_any(const struct cuckoo *c, uint64_t hash);
bool tamis__contains_mixed_growable(const struct cuckoo *c, uint64_t hash);
bool tamis__contains_mixed_fixed(const struct cuckoo *c, uint64_t hash);

#endif
