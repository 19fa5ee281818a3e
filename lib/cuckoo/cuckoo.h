/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what the library and its tests use of the cuckoo filter.
 */
#ifndef TAMIS_LIB_CUCKOO_H
#define TAMIS_LIB_CUCKOO_H

#include "base/filter.h"
#include "cuckoo/geometry.h"

extern const struct filter_kind tamis__cuckoo_kind;

/* For tests: creates a filter whose first generation has the geometry of their choice. */
int tamis__cuckoo_create_with(const tamis_options *options, const struct tamis_filter *head,
                              const struct cuckoo_geometry *g, tamis_filter **out);

#endif
