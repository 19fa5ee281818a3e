/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the layers of a Bloom filter that grows.
 */
#ifndef TAMIS_LIB_BLOOM_LAYERS_H
#define TAMIS_LIB_BLOOM_LAYERS_H

#include "bloom/bloom.h"

/* Members of struct filter_operations, for filters that may need or have further layers. */
bool tamis__layered_contains(const tamis_filter *f, uint64_t hash);
size_t tamis__layered_contains_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                    bool *found);
int tamis__layered_add(tamis_filter *f, uint64_t hash);
int tamis__layered_add_unique(tamis_filter *f, uint64_t hash);

/* For a unique add that has completed its key in the first layer, and has then found `newest` set.
 * Returns what the add returns. */
int tamis__layers_settle(struct bloom *first, uint64_t hash);

/* Opens a layer after `full`, unless a layer follows already.  With a `number`, `full` need not be
 * full, and the call opens all layers up to that number, or none.
 *   Errors  TAMIS_EFULL: max_bytes, or 64-bit hashes cannot give the rate; final.  TAMIS_ENOMEM */
int tamis__layers_open(struct bloom *first, struct bloom *full, unsigned number);

/* Plans the layer after one of this number and geometry.  TAMIS_EUNSUPPORTED: none can follow. */
int tamis__layers_plan_after(tamis_layout layout, double fpp, unsigned number,
                             const struct bloom_geometry *before, struct bloom_geometry *out);

/* Whether the layers that will come after `newest` fit together with others[], up to the n-th. */
bool tamis__layers_will_fit(const struct bloom *newest, struct bloom *const *others, unsigned n);

/* Puts a layer after the newest one of a filter that no other thread has yet. */
void tamis__layers_append(struct bloom *first, struct bloom *layer);

#endif
