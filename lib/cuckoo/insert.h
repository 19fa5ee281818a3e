/* SPDX-License-Identifier: MIT
 *
 * Layer 2: add and unique add, which put a key into a cuckoo filter.  As in lookup.h, the hashes
 * are not mixed, and there is one set of functions for each sort of filter.
 */
#ifndef TAMIS_LIB_CUCKOO_INSERT_H
#define TAMIS_LIB_CUCKOO_INSERT_H

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

#endif
