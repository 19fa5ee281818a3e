/* SPDX-License-Identifier: MIT
 *
 * Layer 2: look-ups in a sliding window.
 */
#ifndef TAMIS_LIB_WINDOW_LOOKUP_H
#define TAMIS_LIB_WINDOW_LOOKUP_H

#include "window/table.h"

/* WINDOW_MOVED: an entry has been moved during the search, so the answer is unknown. */
enum window_answer { WINDOW_MISS, WINDOW_HIT, WINDOW_MOVED };

/* The functions that are compiled for each shape, both for tables of one segment and of several. */
struct window_calls {
  bool (*contains)(const tamis_filter *f, uint64_t hash);
  size_t (*contains_many)(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found);
  /* Searches one layer.  `dead` is from the epoch word, which the caller must then read again. */
  enum window_answer (*find)(const struct window *w, const struct window_layer *layer,
                             uint64_t mixed, unsigned dead);
};

/* The `prefetch` of struct filter_operations. */
void tamis__window_prefetch(const tamis_filter *f, uint64_t hash);

const struct window_calls *tamis__window_calls(const struct window_geometry *g);

#endif
