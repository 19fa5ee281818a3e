/* SPDX-License-Identifier: MIT
 *
 * About how many distinct lines some files hold, from a sample of a few MiB.
 */
#ifndef TAMIS_TOOL_ESTIMATE_H
#define TAMIS_TOOL_ESTIMATE_H

#include "inputs.h"

/* At least 1000, with a margin; an input of unknown size counts as a million lines.  A guess
 * too low costs speed, or, where memory is limited, the rate (of a cuckoo filter: the run); one too
 * high costs memory; neither costs correctness. */
uint64_t estimate_distinct(const struct input *inputs, size_t count);

#endif
