/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the cuckoo filter, for the library and its tests.
 */
#ifndef TAMIS_LIB_CUCKOO_H
#define TAMIS_LIB_CUCKOO_H

#include "base/filter.h"
#include "cuckoo/geometry.h"

extern const struct filter_kind tamis__cuckoo_kind;

/* For tests: creates a filter with the given geometry of the first generation. */
int tamis__cuckoo_create_with(const tamis_options *options, const struct tamis_filter *head,
                              const struct cuckoo_geometry *g, tamis_filter **out);

#endif
