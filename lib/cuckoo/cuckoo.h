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

/* For tests: creates a filter with the given geometry of the first generation. */
int tamis__cuckoo_create_with(const tamis_options *options, const struct tamis_filter *head,
                              const struct cuckoo_geometry *g, tamis_filter **out);

/* The bytes of a filter_more if `own_hash`; of a tamis_allocator if only `own_allocator`; or 0. */
uint64_t tamis__cuckoo_more_bytes(bool own_allocator, bool own_hash);

/* The bytes of a filter whose first generation has a segment at each root. */
uint64_t tamis__cuckoo_total_bytes(const struct cuckoo_geometry *g, uint64_t more_bytes);

/* Creates a filter whose first generation still lacks its segments and, with several roots, its
 * directory.  After an error, returns NULL with the reason in *result.  If `apart` is set, the
 * segments are in a mapped file, so the filter's block has none. */
struct cuckoo *tamis__cuckoo_begin(const struct tamis_filter *head, const tamis_options *o,
                                   const struct cuckoo_geometry *g, bool apart, uint64_t max_bytes,
                                   int *result);

/* Destroys a filter, which may be incomplete. */
void tamis__cuckoo_destroy(tamis_filter *f);

#endif
