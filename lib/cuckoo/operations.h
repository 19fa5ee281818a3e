/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the operations of a cuckoo filter.  They take hashes that are not mixed.
 *
 * Filters of the *sorts* `growable` and `fixed` have one generation, which needs one hash of a key.
 * Functions of the sort `any` work on all filters.  A filter that opens a second generation gets
 * the operations of `any`.  The old operations, if still called, then take the general path.
 */
#ifndef TAMIS_LIB_CUCKOO_OPERATIONS_H
#define TAMIS_LIB_CUCKOO_OPERATIONS_H

#include "base/each.h"
#include "cuckoo/table.h"

#define CUCKOO_OPERATIONS(sort)                                                                \
  bool tamis__cuckoo_contains_##sort(const tamis_filter *f, uint64_t hash);                    \
  size_t tamis__cuckoo_contains_many_##sort(const tamis_filter *f, const uint64_t *hashes,     \
                                            size_t n, bool *found);                            \
  int tamis__cuckoo_add_##sort(tamis_filter *f, uint64_t hash);                                \
  int tamis__cuckoo_add_unique_##sort(tamis_filter *f, uint64_t hash);                         \
  void tamis__cuckoo_add_many_##sort(tamis_filter *f, const uint64_t *hashes, size_t n,        \
                                     int *results);                                            \
  void tamis__cuckoo_add_unique_many_##sort(tamis_filter *f, const uint64_t *hashes, size_t n, \
                                            int *results);                                     \
  int tamis__cuckoo_remove_##sort(tamis_filter *f, uint64_t hash); /* removes one copy */      \
  bool tamis__contains_mixed_##sort(const struct cuckoo *c, uint64_t mixed); /* a mixed hash */
CUCKOO_OPERATIONS(any)
CUCKOO_OPERATIONS(growable)
CUCKOO_OPERATIONS(fixed)
#undef CUCKOO_OPERATIONS

void tamis__cuckoo_prefetch(const tamis_filter *f, uint64_t hash);

size_t tamis__cuckoo_contains_each_growable(const tamis_filter *const *filters, size_t n,
                                            struct wanted *wanted, bool *found);
size_t tamis__cuckoo_contains_each_fixed(const tamis_filter *const *filters, size_t n,
                                         struct wanted *wanted, bool *found);

extern const struct filter_operations tamis__cuckoo_growable, tamis__cuckoo_fixed,
    tamis__cuckoo_any;

int tamis__cuckoo_remove_mixed(struct cuckoo *c, uint64_t mixed);

/* The number of copies of a key or, in counts[], of each of n <= FILTER_GROUP keys. */
uint64_t tamis__cuckoo_count(const tamis_filter *f, uint64_t hash);
void tamis__cuckoo_count_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                              uint64_t *counts);

/* Adds all keys of `from` to `into`.  Both filters may be in use. */
int tamis__cuckoo_merge(tamis_filter *into, const tamis_filter *from);

#endif
