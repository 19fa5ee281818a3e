/* SPDX-License-Identifier: MIT
 *
 * The output of the chosen lines.  Threads write whole chunks one after the other, so lines are
 * never torn.  Nor are they where other processes append to the same file, or write lines of up to
 * PIPE_BUF bytes to the same pipe.  What is appended to a file begins on a new line, also if kill -9
 * has cut off the last one.
 *
 * One thread writes at a time, and the others do not wait for it.  They put their chunk into a
 * queue, take an empty one instead, and go on; the writing thread continues until the queue is
 * empty.  The others wait only if the queue is full, that is, if writing is the bottleneck.
 */
#ifndef TAMIS_TOOL_OUTPUT_H
#define TAMIS_TOOL_OUTPUT_H

#include "inputs.h"
#include "lines.h"
#include "replace.h"

#include <pthread.h>

enum { OUTPUT_QUEUE = 4 };

struct output {
  pthread_mutex_t lock;
  pthread_cond_t room;
  struct chunk queue[OUTPUT_QUEUE]; /* to be written, in this order */
  unsigned queued;
  struct chunk spare[OUTPUT_QUEUE]; /* empty buffers, for threads that queue theirs */
  unsigned spares;
  bool busy; /* a thread is writing, and will check the queue before it stops */
  const char *name;
  int fd;
  int reader;                      /* of the file that lines are appended to (O_APPEND); -1: none */
  const tamis_file_access *access; /* of a new file with a filter; NULL: its owner's alone */
  bool pipe;
  bool others;                    /* processes that write lines to the same pipe */
  bool broken;                    /* a write has failed */
  bool durable;                   /* the disk has it before its name changes */
  bool keeps;                     /* it takes its name after a failure, too */
  mode_t mode;                    /* of a new file */
  struct replacement replacement; /* not begun where the output is written in place */
};

/* Refuses, with fail(), an output that is also an input: where it is written in place it would be
 * emptied, or grow while it is read.  `path` NULL: standard output.  Changes nothing. */
bool output_check(const char *path, const struct inputs *inputs);

/* Whether a file is also an input, or the output at `path`.  `place` leads to it, if it is not NULL;
 * `status` is NULL if it does not exist. */
bool output_or_input_is(const struct replacement *place, const struct stat *status,
                        const struct inputs *inputs, const char *path);

/* Refuses, with fail(), an input, or the output at `path`, that is what a killed run has left of the file at
 * `place`: it would be removed.  `path` NULL: none. */
bool output_check_unfinished(const struct replacement *place, const struct inputs *inputs,
                             const char *path);

/* Opens the output.  A regular file keeps its contents until output_close.  False after fail(). */
bool output_open(struct output *output, const char *path, const struct inputs *inputs);

/* The same for a saved filter: it is synchronised, and nobody but its owner may read a new file. */
bool output_open_filter(struct output *output, const char *path, const struct inputs *inputs);

/* Whether the output takes the place of a file at the end. */
bool output_replaces(const struct output *output);

/* Writes these bytes at once.  False with errno set. */
bool output_write_bytes(struct output *output, const void *data, size_t size);

/* Calls fail() for errno; returns false. */
bool output_failed(const struct output *output);

/* Waits until the disk has what was written, if it is a file.  False after fail(). */
bool output_sync(struct output *output);

/* Writes the chunk, or leaves it to the thread that is writing now; then the chunk gets another
 * buffer.  After a failure, which is recorded with fail(), nothing more is written.  Everything is
 * written when the last of several threads has returned.
 *   Threads  any      Blocks  for the system, and for the writing thread when the queue is full */
void output_write(struct output *output, struct chunk *chunk);

/* Closes the output.  A named file appears now, if nothing has failed or the output `keeps`.  Some file systems report
 * only here that the disk was full. */
void output_close(struct output *output);

#endif
