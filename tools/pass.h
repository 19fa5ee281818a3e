/* SPDX-License-Identifier: MIT
 *
 * A pass over some files by a pool of threads.  Each takes a chunk of whole lines, has a callback
 * choose among them in batches, and writes the chosen ones.  With one thread, the lines keep their
 * order.
 */
#ifndef TAMIS_TOOL_PASS_H
#define TAMIS_TOOL_PASS_H

#include "gate.h"
#include "inputs.h"
#include "keys.h"
#include "output.h"
#include "progress.h"

#include <tamis/tamis.h>

/* Chooses which of n <= BATCH lines, given by the hashes of their keys, to write.  Several threads call it at
 * once.  False after fail(): then it has chosen none from the first line on that it could not
 * decide, and the pass writes no later line. */
typedef bool choose_call(void *context, const uint64_t *hashes, size_t n, bool *chosen);

struct pass {
  const struct input *inputs;
  size_t input_count;
  unsigned threads;
  const tamis_filter *hasher; /* its tamis_hash makes the hashes */
  choose_call *choose;
  void *context;
  const struct key_rule *keys;
  bool takes_keyless;    /* lines without a key are written */
  struct output *output; /* NULL: nothing is written */
  bool show_progress;
  /* NULL, or each thread is in it from the first add of a chunk until its lines are written.  So when
   * it is empty, all lines that were chosen have been written. */
  struct gate *gate;
  void (*tick)(void *context); /* NULL, or called by the main thread again and again */
  double tick_every;           /* seconds; 0: as often as the progress is drawn */
  void *tick_context;
  const int *stop; /* NULL, or a descriptor that ends the pass when it becomes readable */
  struct progress progress;

  struct tally done; /* set by pass_run, as is `seconds` */
  double seconds;
};

/* Runs the pass to its end, or to the first failure, which is recorded with fail(). */
void pass_run(struct pass *pass);

#endif
