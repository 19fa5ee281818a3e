/* SPDX-License-Identifier: MIT
 *
 * The situations that the model checker searches.
 */
#ifndef TAMIS_TESTS_MODEL_SHAPES_H
#define TAMIS_TESTS_MODEL_SHAPES_H

#include "model.h"

extern const struct shape shapes[];
extern const size_t shape_count;

#endif
