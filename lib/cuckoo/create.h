/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates and takes down cuckoo filters.
 */
#ifndef TAMIS_LIB_CUCKOO_CREATE_H
#define TAMIS_LIB_CUCKOO_CREATE_H

#include "cuckoo/table.h"

/* The bytes that a filter takes for what few filters have: struct filter_more, or its beginning. */
uint64_t tamis__cuckoo_more_bytes(bool own_allocator, bool own_hash);

/* The bytes of a filter whose first generation has a segment at each root. */
uint64_t tamis__cuckoo_total_bytes(const struct cuckoo_geometry *g, uint64_t more_bytes);

/* A filter whose first generation has no segments, and not even a directory if it is to have
 * several roots; or NULL with the reason in *result.  `apart`: its segments are part of a file
 * that is mapped, so there is no home. */
struct cuckoo *tamis__cuckoo_begin(const struct tamis_filter *head, const struct cuckoo_spec *spec,
                                   const struct cuckoo_geometry *g, bool apart, uint64_t max_bytes,
                                   int *result);

/* Takes down a filter, whatever is there of it. */
void tamis__cuckoo_destroy(struct cuckoo *c);

#endif
