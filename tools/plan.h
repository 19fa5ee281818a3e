/* SPDX-License-Identifier: MIT
 *
 * Chooses the filter of a run: its capacity, its rate, and its form.
 *
 * Without --memory, the rate is given and the memory follows.  With --memory it is the other way
 * round if the number of lines is known or can be estimated.  The number of lines in a pipe is
 * unknown.  Then the filter takes all of the memory, for as many lines as that holds at the given
 * rate; its pages are touched as lines come.
 */
#ifndef TAMIS_TOOL_PLAN_H
#define TAMIS_TOOL_PLAN_H

#include "chain.h"
#include "inputs.h"
#include "options.h"

struct plan {
  tamis_options filter;
  uint64_t lines; /* expected; 0: unknown */
  bool holds;     /* the memory holds them at the rate that was asked */
};

/* Plans a filter for the lines of these inputs.  False after fail(). */
bool plan_make(struct plan *plan, const struct shared_options *options, const struct input *inputs,
               size_t count);

/* Prints what --memory buys, unless --quiet. */
void plan_announce(const struct plan *plan, const struct shared_options *options);

/* Prints that there were more lines than planned for, if that raised the rate.  `lines` names
 * them. */
void plan_note_load(const struct plan *plan, const struct chain_figures *figures,
                    const char *lines);

/* The least memory for which there is a rate, with the other options as they are. */
uint64_t least_memory(const tamis_options *filter);

/* The largest capacity whose filter takes no more than `memory`, with the other options as they
 * are; 0 if there is none. */
uint64_t capacity_for(const tamis_options *filter, uint64_t memory);

#endif
