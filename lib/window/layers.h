/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the layers of a sliding window, and the memory of each.
 */
#ifndef TAMIS_LIB_WINDOW_LAYERS_H
#define TAMIS_LIB_WINDOW_LAYERS_H

#include "window/table.h"

/* Sets a layer's geometry, the members derived from it, and its planes: zeroed memory, or NULL. */
void tamis__window_prepare_layer(const struct window *w, struct window_layer *layer,
                                 const struct window_geometry *g, struct window_plane *planes);

/* Opens the next layer if `full` is still the newest.  The caller must hold only `opening`.
 *   Errors  TAMIS_EFULL: the filter must not grow any further; TAMIS_ENOMEM */
int tamis__window_open_layer(struct window *w, const struct window_layer *full);

/* Adds a layer, which becomes the newest and then owns `words`.  If `words` is NULL, allocates them.
 * The caller must hold `opening`, or be the only user of the filter.
 *   Errors  TAMIS_EFULL: max_bytes; TAMIS_ENOMEM */
int tamis__window_add_layer(struct window *w, const struct window_geometry *g, unsigned index,
                            word *words);

/* Opens a smaller layer if the newest is too large for `most` keys.  The caller must hold
 * `advancing`.  Waits for `opening` only if a layer will probably be opened. */
void tamis__window_open_smaller(struct window *w, uint64_t most);

/* Takes closed layers out of the list, and retires them.  A sweep that began after the closing must
 * have found them empty: table.h.  The caller must hold `advancing`. */
void tamis__window_let_leave(struct window *w, struct window_layer *const *empty, unsigned n);

void tamis__window_reclaim(void *owner, struct retired *block, uint64_t size);

void tamis__window_destroy_layers(struct window *w);

/* Allocates zeroed words.  `cleared_from`: see struct tamis_options. */
word *tamis__window_allocate_words(const tamis_allocator *from, uint64_t bytes,
                                   uint64_t cleared_from);

#endif
