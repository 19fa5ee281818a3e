/* SPDX-License-Identifier: MIT
 *
 * Where the chosen lines go.  Each write is one piece to the other threads: lines are never torn.
 *
 * One thread writes at a time; the others do not wait for it.  They leave their chunk in a queue,
 * take an empty one for it, and go on; whoever writes goes on writing until the queue is empty.  They
 * wait only when the queue is full, which is when writing is what takes the time.
 */
#ifndef TAMIS_TOOL_OUTPUT_H
#define TAMIS_TOOL_OUTPUT_H

#include "inputs.h"
#include "lines.h"

#include <pthread.h>

enum { OUTPUT_QUEUE = 4 };

struct output {
  pthread_mutex_t lock;
  pthread_cond_t room;
  struct chunk queue[OUTPUT_QUEUE]; /* to be written, in this order */
  unsigned queued;
  struct chunk spare[OUTPUT_QUEUE]; /* buffers without contents, for those who queue theirs */
  unsigned spares;
  bool busy; /* a thread is writing, and will look at the queue before it stops */
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

/* Writes the chunk, or has another thread write it that is writing now; the chunk may then have got
 * another buffer.  What cannot be written is recorded with fail(); nothing is written after that.
 * When the last of several threads has returned from it, all is written.
 *   Threads  any      Blocks  for the system, and for the writing thread when the queue is full */
void output_write(struct output *output, struct chunk *chunk);

/* Some file systems say only here that the disk was full. */
void output_close(struct output *output);

#endif
