/* SPDX-License-Identifier: MIT
 *
 * A pass over some files with a pool of threads: each takes a chunk of whole lines, asks about them
 * a batch at a time, and writes those chosen.  With one thread, in their order.
 */
#ifndef TAMIS_TOOL_PASS_H
#define TAMIS_TOOL_PASS_H

#include "inputs.h"
#include "output.h"
#include "progress.h"

#include <tamis/tamis.h>

/* Says of n <= BATCH lines, given by their hashes, which to write.  False after fail(): it chose none
 * from the first line on that it could not decide, and no line after these is to be written.  Called
 * from several threads at once. */
typedef bool decide_call(void *context, const uint64_t *hashes, size_t n, bool *chosen);

struct pass {
  const struct input *inputs;
  size_t input_count;
  unsigned threads;
  const tamis_filter *hasher; /* whose tamis_hash makes the hashes */
  decide_call *decide;
  void *context;
  struct output *output; /* NULL: nothing is written */
  bool show_progress;
  struct progress progress;

  struct tally done; /* set by pass_run */
  double seconds;
};

/* Runs the pass to its end, or to the first failure, which is then recorded with fail(). */
void pass_run(struct pass *pass);

#endif
