/* SPDX-License-Identifier: MIT
 *
 * Where the chosen lines go.  Each write is one piece to the other threads: lines are never torn.
 */
#ifndef TAMIS_TOOL_OUTPUT_H
#define TAMIS_TOOL_OUTPUT_H

#include "inputs.h"

#include <pthread.h>

struct output {
  pthread_mutex_t lock;
  const char *name;
  int fd;
  bool named; /* a file of ours, to be closed */
  bool broken;
};

/* Refuses, with fail(), an output that is one of the inputs: it would be cut to nothing, or grow
 * while it is read.  `path` NULL: standard output.  Changes nothing. */
bool output_check(const char *path, const struct inputs *inputs);

/* Opens it and, if it is a file that stands already, empties it. */
bool output_open(struct output *output, const char *path, const struct inputs *inputs);

/* Writes it all, or records with fail() why not; after that, does nothing.
 *   Threads  any      Blocks  for the other writers and the system */
void output_write(struct output *output, const char *data, size_t length);

/* Some file systems say only here that the disk was full. */
void output_close(struct output *output);

#endif
