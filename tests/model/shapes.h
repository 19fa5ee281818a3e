/* SPDX-License-Identifier: MIT
 *
 * Small situations in which calls on one filter meet, and what must hold whatever their order was.
 *
 * Each file shapes_TOPIC.c has a table of them, which ends with a shape that has no name.
 */
#ifndef TAMIS_TESTS_MODEL_SHAPES_H
#define TAMIS_TESTS_MODEL_SHAPES_H

#include "model.h"

extern const struct shape moves_shapes[], growth_shapes[], unique_shapes[], reclaim_shapes[],
    orders_shapes[], duplicates_shapes[], copies_shapes[], snapshot_shapes[], bloom_shapes[],
    window_shapes[];

/* All these tables, and then NULL. */
extern const struct shape *const shapes[];

#endif
