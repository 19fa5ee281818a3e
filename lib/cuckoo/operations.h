/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the calls of a cuckoo filter's tables, besides the look-ups (lookup.h), each in a file of
 * its own.  As there, the hashes are not mixed, and there is an add for each sort of filter.
 */
#ifndef TAMIS_LIB_CUCKOO_OPERATIONS_H
#define TAMIS_LIB_CUCKOO_OPERATIONS_H

#include "cuckoo/table.h"

#define CUCKOO_INSERT(sort)                                                                    \
  int tamis__cuckoo_add_##sort(tamis_filter *f, uint64_t hash);                                \
  int tamis__cuckoo_add_unique_##sort(tamis_filter *f, uint64_t hash);                         \
  void tamis__cuckoo_add_many_##sort(tamis_filter *f, const uint64_t *hashes, size_t n,        \
                                     int *results);                                            \
  void tamis__cuckoo_add_unique_many_##sort(tamis_filter *f, const uint64_t *hashes, size_t n, \
                                            int *results);
CUCKOO_INSERT(any)
CUCKOO_INSERT(growable)
CUCKOO_INSERT(fixed)
#undef CUCKOO_INSERT

/* Takes one copy of a key out; the second one is given a mixed hash. */
int tamis__cuckoo_remove(tamis_filter *f, uint64_t hash);
int tamis__cuckoo_remove_mixed(struct cuckoo *c, uint64_t mixed);

/* How many copies of a key are in: copies.c.  A group has at most FILTER_GROUP hashes. */
uint64_t tamis__cuckoo_count(const tamis_filter *f, uint64_t hash);
void tamis__cuckoo_count_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                              uint64_t *counts);

/* The union of two filters that are in use. */
int tamis__cuckoo_merge(tamis_filter *into, const tamis_filter *from);

/* For tests: reads all memory of the filter, while no other call runs.  If something is wrong,
 * *reason says what. */
bool tamis__cuckoo_validate(const tamis_filter *f, const char **reason);

#endif
