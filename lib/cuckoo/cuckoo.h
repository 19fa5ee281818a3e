/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the cuckoo filter as a kind of filter, and the creation of cuckoo filters.
 */
#ifndef TAMIS_LIB_CUCKOO_H
#define TAMIS_LIB_CUCKOO_H

#include "base/filter.h"
#include "cuckoo/geometry.h"
struct cuckoo;

extern const struct filter_kind tamis__cuckoo_kind;

/* For tests: creates a filter whose first generation has the given geometry. */
int tamis__cuckoo_create_with(const tamis_options *options, const struct tamis_filter *head,
                              const struct cuckoo_geometry *g, tamis_filter **out);

/* Returns the bytes that the user's hash function and allocator add to a small filter's block. */
uint64_t tamis__cuckoo_more_bytes(bool own_allocator, bool own_hash);

/* Returns the bytes of a filter that has one generation, and a segment at each root. */
uint64_t tamis__cuckoo_total_bytes(const struct cuckoo_geometry *g, uint64_t more_bytes);

/* Creates a filter whose first generation still lacks its segments and, if it has several roots,
 * its directory.  After an error, returns NULL with the reason in *result.  If `apart`, the
 * filter's block has no room for a segment, because the segments are in a mapped file. */
struct cuckoo *tamis__cuckoo_begin(const struct tamis_filter *head, const tamis_options *o,
                                   const struct cuckoo_geometry *g, bool apart, uint64_t max_bytes,
                                   int *result);

void tamis__cuckoo_destroy(tamis_filter *f);

#endif
