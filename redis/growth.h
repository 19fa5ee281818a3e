/* SPDX-License-Identifier: MIT
 *
 * How far a Bloom filter grows within its limit of bytes.
 */
#ifndef TAMIS_REDIS_GROWTH_H
#define TAMIS_REDIS_GROWTH_H

#include "tamis/tamis.h"

/* How many items the layers are for that fit into options->max_bytes (0: into an address space), of a
 * growable filter without a window.  Stops at the first layer with which that reaches `enough`. */
uint64_t growth_capacity(const tamis_options *options, uint64_t enough);

#endif /* TAMIS_REDIS_GROWTH_H */
