/* SPDX-License-Identifier: MIT
 *
 * Cuckoo filters whose first generation is degenerate: segments of 2, 4 or 8 buckets under one
 * stripe or a stripe for each bucket, few roots, short fingerprints.  So moves, splits, joins,
 * duplicate counts and new generations happen all the time, and overlap.  Filters with an even
 * number of roots allocate slabs as if they were large.
 */
#ifndef TAMIS_STRESS_TINY_H
#define TAMIS_STRESS_TINY_H

#include "cuckoo/cuckoo.h"

/* Sizes and shapes follow from the round.  All combinations of them occur within 210 rounds. */
struct cuckoo_geometry tiny_geometry(uint64_t round);

/* Creates such a filter.  It sets the kind and the rate in a copy of the options, in which the seed
 * must not be 0.  Returns what tamis_create does. */
int tiny_create(const tamis_options *options, const struct cuckoo_geometry *g, tamis_filter **out);

#endif
