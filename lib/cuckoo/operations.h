/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the operations of a cuckoo filter, except the look-ups (lookup.h).  The functions mix
 * the hashes that they are given.  Each sort of filter (lookup.h) has its own adds.
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

/* The operations of the general path, which work on every filter.  A filter uses them if it has
 * several generations, or if its first generation needs two hashes of a key. */
extern const struct filter_operations tamis__cuckoo_any;

/* Remove one copy of a key.  tamis__cuckoo_remove_mixed() takes a mixed hash. */
int tamis__cuckoo_remove_any(tamis_filter *f, uint64_t hash);
int tamis__cuckoo_remove_growable(tamis_filter *f, uint64_t hash);
int tamis__cuckoo_remove_fixed(tamis_filter *f, uint64_t hash);
int tamis__cuckoo_remove_mixed(struct cuckoo *c, uint64_t mixed);

/* Count the copies of a key, or of each of `n` keys (at most FILTER_GROUP): see copies.c. */
uint64_t tamis__cuckoo_count(const tamis_filter *f, uint64_t hash);
void tamis__cuckoo_count_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                              uint64_t *counts);

/* Adds all keys of `from` to `into`.  Both filters may be in use. */
int tamis__cuckoo_merge(tamis_filter *into, const tamis_filter *from);

/* For tests: checks the structure.  No other call may run.  If it is wrong, sets *reason. */
bool tamis__cuckoo_validate(const tamis_filter *f, const char **reason);

#endif
