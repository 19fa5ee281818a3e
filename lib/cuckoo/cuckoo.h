/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what tamis.c and tests use of the cuckoo filter.
 */
#ifndef TAMIS_LIB_CUCKOO_H
#define TAMIS_LIB_CUCKOO_H

#include "cuckoo/geometry.h"
#include "base/filter.h"

int tamis__cuckoo_create(const tamis_options *options, const struct tamis_filter *head,
                         tamis_filter **out);
int tamis__cuckoo_bytes(const tamis_options *options, uint64_t *bytes);
int tamis__cuckoo_fpp(const tamis_options *options, uint64_t bytes, double *fpp);

/* For tests: a filter with a first generation of their choice. */
int tamis__cuckoo_create_with(const tamis_options *options, const struct tamis_filter *head,
                              const struct cuckoo_geometry *g, tamis_filter **out);

/* Whether the structure is whole, while no other call runs; *reason says what is wrong. */
bool tamis__cuckoo_validate(const tamis_filter *f, const char **reason);

#endif
