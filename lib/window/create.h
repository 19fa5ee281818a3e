/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates a sliding window from a plan.
 */
#ifndef TAMIS_LIB_WINDOW_CREATE_H
#define TAMIS_LIB_WINDOW_CREATE_H

#include "window/table.h"

struct window_plan {
  struct window_spec spec;
  struct window_geometry geometry; /* of the first layer */
  unsigned index;                  /* of its share of the rate */
  bool copies;                     /* it is of the cuckoo kind */
  bool renews;
  unsigned stripes_wanted;
  uint64_t max_bytes;
  size_t cleared_from; /* as in tamis_options; 0 without an allocator of the user's */
  word *words;         /* of the first layer, which become the filter's; NULL: they are allocated */
};

/* What a filter takes beside the words of its first layer. */
uint64_t tamis__window_bytes_beside(const struct window_geometry *g, unsigned stripes_wanted,
                                    bool copies);

/* An empty filter, or NULL: there is no memory.  max_bytes has been checked. */
struct window *tamis__window_create(const struct tamis_filter *head,
                                    const struct window_plan *plan);

#endif
