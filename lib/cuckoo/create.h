/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates and takes down cuckoo filters.
 */
#ifndef TAMIS_LIB_CUCKOO_CREATE_H
#define TAMIS_LIB_CUCKOO_CREATE_H

#include "cuckoo/table.h"

/* The bytes of a filter whose first generation has a segment at each root. */
uint64_t tamis__cuckoo_total_bytes(const struct cuckoo_geometry *g);

/* A filter without generations, or NULL: there is no memory. */
struct cuckoo *tamis__cuckoo_begin(const struct tamis_filter *head, const struct cuckoo_spec *spec,
                                   uint64_t max_bytes);

/* Appends the first generation. */
void tamis__cuckoo_append_first(struct cuckoo *c, struct generation *generation);

/* Takes down a filter, whatever is there of it. */
void tamis__cuckoo_destroy(struct cuckoo *c);

#endif
