/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the layers of a Bloom filter that grows.
 */
#ifndef TAMIS_LIB_BLOOM_LAYERS_H
#define TAMIS_LIB_BLOOM_LAYERS_H

#include "bloom/bloom.h"

/* The operations of filters that have several layers, or may need them. */
bool tamis__layered_contains(const tamis_filter *f, uint64_t hash);
size_t tamis__layered_contains_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                    bool *found);
int tamis__layered_add(tamis_filter *f, uint64_t hash);
int tamis__layered_add_unique(tamis_filter *f, uint64_t hash);

/* Ends a unique add that has set a bit in its last gap in the first layer, and has then read a
 * `newest` that is not NULL.  Returns the result of the add. */
int tamis__layers_settle(struct bloom *first, uint64_t hash);

/* Opens a layer after `full`, unless a layer follows already.  If `number` is not 0, opens all
 * layers up to layer `number`, or none of them; `full` may then still have room.
 *   Errors  TAMIS_EFULL: max_bytes or 64-bit hashes allow no layer, now or later; TAMIS_ENOMEM */
int tamis__layers_open(struct bloom *first, struct bloom *full, unsigned number);

/* Plans the geometry *out of the layer that follows layer `number`, whose own geometry is *before.
 * TAMIS_EUNSUPPORTED: none can follow. */
int tamis__layers_plan_after(tamis_layout layout, double fpp, unsigned number,
                             const struct bloom_geometry *before, struct bloom_geometry *out);

/* Returns true if a filter's later layers, from layer `have` + 1 to layer n, will have the sizes of
 * others[].  layers[] has its `have` open layers. */
bool tamis__layers_will_fit(struct bloom *const *layers, unsigned have, struct bloom *const *others,
                            unsigned n);

/* Appends a layer to a filter that no other thread has yet. */
void tamis__layers_append(struct bloom *first, struct bloom *layer);

#endif
