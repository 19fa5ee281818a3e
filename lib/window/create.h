/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a sliding window from a plan.
 */
#ifndef TAMIS_LIB_WINDOW_CREATE_H
#define TAMIS_LIB_WINDOW_CREATE_H

#include "window/table.h"

struct window_plan {
  struct window_spec spec;
  struct window_geometry geometry; /* of the first layer */
  unsigned index;                  /* of its share of the rate */
  bool renews;
  unsigned stripes_wanted;
  uint64_t max_bytes;
};

/* An empty filter, or NULL: there is no memory.  max_bytes has been checked. */
struct window *tamis__window_create(const struct tamis_filter *head,
                                    const struct window_plan *plan);

#endif
