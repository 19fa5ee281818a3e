/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the layers of a sliding window, and the memory of each.
 */
#ifndef TAMIS_LIB_WINDOW_LAYERS_H
#define TAMIS_LIB_WINDOW_LAYERS_H

#include "window/table.h"

/* Fills in a layer but for its words, of which it returns the bytes.  `planes`: zeros, or NULL. */
uint64_t tamis__window_prepare_layer(const struct window *w, struct window_layer *layer,
                                     const struct window_geometry *g, struct window_plane *planes);

/* A further layer that has been prepared but for its words; NULL: no memory. */
struct window_layer *tamis__window_create_layer(const struct window *w,
                                                const struct window_geometry *g);
void tamis__window_destroy_layer(struct window *w, struct window_layer *layer);

/* Opens the layer after `full`, if `full` still is the newest one.  The caller holds `opening`, and
 * no stripe.
 *   Errors  TAMIS_EFULL: the filter may not grow any more; TAMIS_ENOMEM */
int tamis__window_open_layer(struct window *w, const struct window_layer *full);

/* The same for a filter that grows, if no moves make room for a key in `full`.  Errors are marked
 * there.  The caller holds no lock. */
int tamis__window_grow(struct window *w, struct window_layer *full,
                       const struct window_place *place);

/* Puts a layer after all others: while nobody else knows the filter, or by whoever opens it. */
void tamis__window_append(struct window *w, struct window_layer *layer);

/* Releases all layers but the first, which is a part of the filter. */
void tamis__window_destroy_layers(struct window *w);

/* The words of a layer, all zero; NULL: no memory.  Those that come cleared from the allocator are
 * not touched. */
word *tamis__window_allocate_words(const tamis_allocator *from, uint64_t bytes,
                                   size_t cleared_from);

#endif
