/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the layers of a Bloom filter that grows.
 */
#ifndef TAMIS_LIB_BLOOM_LAYERS_H
#define TAMIS_LIB_BLOOM_LAYERS_H

#include "bloom/bloom.h"

/* The calls of struct filter_operations, for a filter that needs a further layer or may have
 * several. */
bool tamis__layered_contains(const tamis_filter *f, uint64_t hash);
size_t tamis__layered_contains_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                    bool *found);
int tamis__layered_add(tamis_filter *f, uint64_t hash);
int tamis__layered_add_unique(tamis_filter *f, uint64_t hash);

/* A unique add has completed its key in the first layer, and has then seen that this is not alone
 * any more.  Returns what the add returns. */
int tamis__layers_settle(struct bloom *first, uint64_t hash);

/* Opens a layer after `full`, unless there is one.  With a `number`: all up to the one with that
 * number, or none; and `full` need not be full.
 *   Errors  TAMIS_EFULL: max_bytes, or 64-bit hashes cannot give the rate; final.  TAMIS_ENOMEM */
int tamis__layers_open(struct bloom *first, struct bloom *full, unsigned number);

/* The geometry of the layer after one of this number and geometry.  TAMIS_EUNSUPPORTED: there can be
 * none. */
int tamis__layers_plan_after(tamis_layout layout, double fpp, unsigned number,
                             const struct bloom_geometry *before, struct bloom_geometry *out);

/* Whether the layers that come after `newest` will fit together with other ones, up to the n-th. */
bool tamis__layers_will_fit(const struct bloom *newest, struct bloom *const *others, unsigned n);

/* Puts a layer after the newest one of a filter that is not shared yet. */
void tamis__layers_append(struct bloom *first, struct bloom *layer);

#endif
