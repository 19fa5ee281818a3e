/* SPDX-License-Identifier: MIT
 *
 * Cuckoo filters whose first generation is degenerate: segments of 2, 4 or 8 buckets under one stripe
 * or a stripe for each bucket, few roots, short fingerprints.  So moves, splits, joins, copies and new
 * generations happen all the time, and meet.  Those with an even number of roots take slabs as if they
 * were large.
 */
#ifndef TAMIS_STRESS_TINY_H
#define TAMIS_STRESS_TINY_H

#include "cuckoo/cuckoo.h"

/* The size and the shape follow from the round; after 210 rounds each has met each. */
struct cuckoo_geometry tiny_geometry(uint64_t round);

/* Such a filter; of the options the kind and the rate are set here, the seed must not be 0.  Returns
 * what tamis_create does. */
int tiny_create(const tamis_options *options, const struct cuckoo_geometry *g, tamis_filter **out);

#endif
