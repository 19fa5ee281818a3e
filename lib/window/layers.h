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

/* Opens the layer after `full`, if `full` still is the newest one.  The caller holds `opening`, and
 * no stripe.
 *   Errors  TAMIS_EFULL: the filter may not grow any more; TAMIS_ENOMEM */
int tamis__window_open_layer(struct window *w, const struct window_layer *full);

/* The same for a filter that grows, if no moves make room for a key in `full`.  Errors are marked
 * there.  Nothing is done if the layers are not those of `epoch` any more, of which `full` was the
 * newest one.  The caller holds no lock. */
int tamis__window_grow(struct window *w, struct window_layer *full,
                       const struct window_buckets *place, uint64_t epoch);

/* Makes a layer with these words, which become its own; NULL: they are allocated.  Returns NULL if
 * there is no memory.  The caller counts its bytes. */
struct window_layer *tamis__window_make_layer(struct window *w, const struct window_geometry *g,
                                              unsigned index, word *words);

/* Puts a layer after all others: while nobody else knows the filter, or by whoever opens it. */
void tamis__window_append(struct window *w, struct window_layer *layer);

/* Opens a smaller layer, if the newest one is sparse, even if it gets so many keys.  The caller
 * holds `advancing`. */
void tamis__window_open_smaller(struct window *w, uint64_t most);

/* Takes layers out of the list, which were closed before a sweep that has found them empty, and
 * retires them.  The caller holds `advancing`. */
void tamis__window_let_leave(struct window *w, struct window_layer *const *empty, unsigned n);

/* The backlog_release() of a filter's layers. */
void tamis__window_reclaim(void *owner, struct retired *block, uint64_t size);

/* Releases all layers but the first, which is a part of the filter. */
void tamis__window_destroy_layers(struct window *w);

/* The words of a layer, all zero; NULL: no memory.  Those that come cleared from the allocator are
 * not touched. */
word *tamis__window_allocate_words(const tamis_allocator *from, uint64_t bytes,
                                   uint64_t cleared_from);

#endif
