/* SPDX-License-Identifier: MIT
 *
 * The state of tamis dedup: a saved filter with what was seen in earlier runs.
 *
 * What is promised.  Whenever the state is read, also after kill -9 or a loss of power, each line
 * in it has been written to the output.  So a run that ends early may repeat lines in the next one,
 * but none is lost.
 *
 * How.  A line gets into the filter before it is written.  A save while the run goes on therefore
 * has three steps:
 *   1. The filter is saved to a new file beside the state.
 *   2. The thread that saves waits until the gate is empty.  Each other one is in from the first add
 *      of a chunk until the chunk's lines are written.  So by now the lines of all keys that the new
 *      file can contain have been written, or fail() was called.
 *   3. The output is synchronised, then the new file, which then takes the place of the state.
 * An output file that is replaced at the end has its name before the state is saved, and only then
 * is the state saved at all.
 *
 * One run at a time uses a state.  It holds a lock on a file beside it, whose name is that of the
 * state with ".lock" appended, and removes that file at the end.
 */
#ifndef TAMIS_TOOL_STATE_H
#define TAMIS_TOOL_STATE_H

#include "chain.h"
#include "gate.h"
#include "options.h"
#include "output.h"

struct state {
  const char *path;
  struct replacement place; /* its path has no symbolic links, and no file is beside it */
  char *lock_path;
  int lock; /* -1: not held */
  bool exists;
  struct gate gate;
  double every; /* seconds between saves; 0: only at the end */
  double next;
  uint64_t saved_count;       /* the keys in the file */
  bool window;                /* which changes though its number of keys stays */
  const tamis_filter *filter; /* NULL before state_begin */
  struct output *lines;
};

/* Locks the state.  Refuses one that is also an input or the output, or that another run uses.
 * False after fail(); state_close is to be called in any case. */
bool state_open(struct state *state, const char *path, const struct inputs *inputs,
                const char *output);

/* Loads the filter, which the state has if state->exists.  Refuses it if it is of another kind, or
 * has another rate or capacity than the options ask for.  NULL after fail(). */
tamis_filter *state_load(const struct state *state, const struct shared_options *options);

/* The filter and the output whose lines it remembers; `every` is in seconds, 0 for never. */
void state_begin(struct state *state, const tamis_filter *filter, struct output *lines,
                 double every);

/* Saves the state, which is the argument, if it is time for it.  Threads may go on to add, and to
 * write while they are in the gate. */
void state_tick(void *argument);

/* Saves the state if there is something new, after the lines were written and the output closed. */
void state_end(struct state *state);

void state_close(struct state *state);

#endif
