/* SPDX-License-Identifier: MIT
 *
 * The chunk source: hands whole lines of a sequence of files to any number of threads.
 *
 * One mechanism serves files, pipes and devices.  A thread that wants work reads straight into its
 * own buffer under the source's lock, cuts the buffer after the last newline, and leaves the
 * partial line behind (the carry) for the next caller, whose buffer begins with it.  Only the
 * read itself is serialised.  Input is not mapped: a file that shrinks meanwhile would kill us.
 */
#ifndef TAMIS_TOOL_LINES_H
#define TAMIS_TOOL_LINES_H

#include "inputs.h"

#include <pthread.h>

/* Some whole lines: the last byte is a newline, added if the file ends without one. */
struct chunk {
  char *data;
  size_t length;
  size_t size; /* of the buffer at data, which belongs to the thread and is used again */
};

struct source {
  pthread_mutex_t lock;
  const struct input *next; /* to open after the current one */
  const struct input *end;
  const struct input *current; /* NULL: none is open */
  int fd;
  char *carry; /* the start of a line whose end has not been read yet */
  size_t carry_length;
  size_t carry_size;
};

void source_init(struct source *source, const struct input *inputs, size_t count);
void source_destroy(struct source *source);

/* Fills `chunk` with at least one line; false: there is no more, or the run has failed.  A read
 * error is recorded with fail(), and the whole lines read before it are still handed out.  Waits
 * for input under the lock, so that a line typed at a terminal is a chunk as soon as it ends. */
bool source_next(struct source *source, struct chunk *chunk);

void chunk_free(struct chunk *chunk);

#endif
