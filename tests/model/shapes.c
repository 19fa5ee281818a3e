/* SPDX-License-Identifier: MIT */
#include "shapes.h"

#include <stddef.h>

const struct shape *const shapes[] = {
    moves_shapes,  growth_shapes,   unique_shapes, reclaim_shapes, orders_shapes, duplicates_shapes,
    copies_shapes, snapshot_shapes, bloom_shapes,  window_shapes,  NULL};
