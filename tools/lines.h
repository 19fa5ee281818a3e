/* SPDX-License-Identifier: MIT
 *
 * A source of chunks: it gives whole lines of a sequence of files to any number of threads.
 *
 * One mechanism serves files, pipes and devices.  A thread that needs work reads into its own
 * buffer, under the lock of the source.  It cuts the buffer after the last newline, and leaves the
 * partial line, the carry, to the next caller, whose buffer begins with it.  Only the read itself
 * is serialised.  Files are not mapped, since a mapped file that shrinks would kill the process.
 */
#ifndef TAMIS_TOOL_LINES_H
#define TAMIS_TOOL_LINES_H

#include "inputs.h"

#include <pthread.h>

/* Some whole lines.  The last byte is a newline, which is added if the file ends without one. */
struct chunk {
  char *data;
  size_t length;
  size_t size;      /* of the buffer at `data`, which the thread owns and uses again */
  const char *name; /* of the input */
};

struct source {
  pthread_mutex_t lock;
  const struct input *next; /* the input to open after the current one */
  const struct input *end;
  const struct input *current;
  int fd;   /* of the current input; -1: none is open */
  int stop; /* no more is read once this descriptor is readable; -1: there is none */
  bool stopped;
  bool at_start; /* nothing of the current input has been returned yet */
  char *carry;   /* the beginning of a line whose end has not been read yet */
  size_t carry_length;
  size_t carry_size;
};

/* `stop` is a descriptor that becomes readable when no more is to be read, or -1.  The beginning of
 * a line whose end has not been read by then is dropped. */
void source_init(struct source *source, const struct input *inputs, size_t count, int stop);
void source_destroy(struct source *source);

/* Fills `chunk` with at least one line.  False: there are no more lines, or the run has failed, as
 * it does if an input is compressed.  A read error is recorded with fail(); the whole lines before
 * it are still returned.  The function waits for input under the lock, so that a line typed at a
 * terminal becomes a chunk as soon as it ends. */
bool source_next(struct source *source, struct chunk *chunk);

void chunk_free(struct chunk *chunk);

#endif
