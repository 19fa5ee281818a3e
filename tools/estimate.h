/* SPDX-License-Identifier: MIT
 *
 * Estimates the number of distinct keys of the lines of some files from a sample of a few MiB.
 */
#ifndef TAMIS_TOOL_ESTIMATE_H
#define TAMIS_TOOL_ESTIMATE_H

#include "inputs.h"
#include "keys.h"

/* The result is 1000 at least, and includes a margin; an input of unknown size counts as a million
 * lines.  An estimate that is too low costs speed; where memory is limited it may make a run
 * fail.  One that is too high costs memory.
 * Neither makes the output wrong.  *most is an upper bound: nearly all lines, as if none that are
 * far apart were equal. */
uint64_t estimate_distinct(const struct input *inputs, size_t count, const struct key_rule *keys,
                           uint64_t *most);

#endif
