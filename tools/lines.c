/* SPDX-License-Identifier: MIT */
#include "lines.h"

#include "compressed.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Large enough that the lock and the system calls cost almost nothing, small enough that the bytes
 * are still in the second-level cache when they are hashed and written. */
enum { CHUNK_BYTES = 256 << 10 };

void source_init(struct source *source, const struct input *inputs, size_t count, int stop)
{
  *source = (struct source){.next = inputs, .end = inputs + count, .fd = -1, .stop = stop};
  pthread_mutex_init(&source->lock, NULL);
}

static void close_current(struct source *s)
{
  if (s->fd >= 0)
    input_close(s->current, s->fd);
  s->fd = -1;
  s->carry_length = 0;
}

void source_destroy(struct source *source)
{
  close_current(source);
  free(source->carry);
  pthread_mutex_destroy(&source->lock);
}

void chunk_free(struct chunk *chunk)
{
  free(chunk->data);
  *chunk = (struct chunk){0};
}

static bool open_next(struct source *s)
{
  if (s->next == s->end)
    return false;
  const struct input *input = s->next++;
  s->fd = input_open(input);
  if (s->fd < 0) {
    fail("cannot open '%s': %s", input->name, strerror(errno));
    return false;
  }
  s->current = input;
  s->at_start = true;
  (void) posix_fadvise(s->fd, 0, 0,
                       POSIX_FADV_SEQUENTIAL); /* fails on a pipe, which does no harm */
  return true;
}

/* Makes room for `size` bytes, and keeps the contents. */
static bool reserve(char **data, size_t *allocated, size_t size)
{
  if (*allocated >= size)
    return true;
  char *larger = realloc(*data, size);
  if (larger == NULL)
    return false;
  *data = larger;
  *allocated = size;
  return true;
}

/* read(2), but it continues after signals, and waits even if the descriptor is non-blocking. */
static ssize_t read_some(int fd, char *data, size_t size)
{
  for (;;) {
    ssize_t got = read(fd, data, size);
    if (got >= 0)
      return got;
    if (errno == EAGAIN) {
      struct pollfd ready = {.fd = fd, .events = POLLIN};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return -1;
    }
  }
}

/* Waits until there is something to read, which the end of a file is too.  False: the source is to
 * stop. */
static bool wait_for_input(struct source *s)
{
  struct pollfd ready[2] = {{.fd = s->fd, .events = POLLIN}, {.fd = s->stop, .events = POLLIN}};
  if (s->stop < 0)
    return true;
  while (poll(ready, 2, -1) < 0 && errno == EINTR)
    continue;
  s->stopped = ready[1].revents != 0;
  return !s->stopped;
}

static void fail_too_long(const struct source *s, size_t length)
{
  char figure[FIGURE_BYTES];
  fail("out of memory for a line of more than %s in '%s'", bytes_figure(figure, (double) length),
       s->current->name);
}

/* Prepares the buffer, which begins with the carry.  A buffer that once held a huge line is freed,
 * as every thread may have one. */
static bool begin_chunk(struct source *s, struct chunk *c, size_t *target)
{
  *target = CHUNK_BYTES;
  while (*target <= s->carry_length)
    *target *= 2;
  if (c->size / 4 > *target)
    chunk_free(c);
  c->length = 0;
  c->name = s->current->name;
  if (!reserve(&c->data, &c->size, *target + 1)) { /* + 1: for a newline that the file lacks */
    fail_too_long(s, s->carry_length);
    return false;
  }
  if (s->carry_length > 0)
    memcpy(c->data, s->carry, s->carry_length);
  c->length = s->carry_length;
  s->carry_length = 0;
  return true;
}

/* Whether the chunk is the first one of a compressed input. */
static bool is_refused(struct source *s, const struct chunk *c)
{
  bool at_start = s->at_start;
  s->at_start = false;
  return at_start && compressed_refused(s->current, c->data, c->length);
}

/* Cuts the chunk after the newline at `last`, and keeps the rest as the carry. */
static bool end_chunk(struct source *s, struct chunk *c, const char *last)
{
  size_t whole = (size_t) (last - c->data) + 1, rest = c->length - whole;
  if (is_refused(s, c))
    return false;
  c->length = whole;
  if (!reserve(&s->carry, &s->carry_size, rest)) {
    fail_too_long(s, rest); /* the whole lines are still returned */
    return true;
  }
  if (rest > 0)
    memcpy(s->carry, c->data + whole, rest);
  s->carry_length = rest;
  return true;
}

/* At the end of a file, a last line without a newline gets one. */
static bool end_file(struct source *s, struct chunk *c)
{
  bool refused = is_refused(s, c);
  close_current(s);
  if (c->length == 0 || refused)
    return false;
  c->data[c->length++] = '\n';
  return true;
}

/* Reads lines of the current file, and closes it at its end.  False: there were none. */
static bool read_chunk(struct source *s, struct chunk *c)
{
  size_t target;
  if (!begin_chunk(s, c, &target))
    return false;
  for (;;) {
    if (!wait_for_input(s))
      return false;
    ssize_t got = read_some(s->fd, c->data + c->length, target - c->length);
    if (got == 0)
      return end_file(s, c);
    if (got < 0) {
      fail("cannot read '%s': %s", s->current->name, strerror(errno));
      return false; /* the buffer holds only part of a line: whole ones are returned at once */
    }
    char *fresh = c->data + c->length; /* there is no newline before it */
    c->length += (size_t) got;
    char *last = memrchr(fresh, '\n', (size_t) got);
    if (last != NULL)
      return end_chunk(s, c, last);
    if (c->length == target) {
      target *= 2;
      if (!reserve(&c->data, &c->size, target + 1)) {
        fail_too_long(s, c->length);
        return false;
      }
    }
  }
}

bool source_next(struct source *s, struct chunk *chunk)
{
  bool got = false;
  pthread_mutex_lock(&s->lock);
  while (!got && !failed() && !s->stopped && (s->fd >= 0 || open_next(s)))
    got = read_chunk(s, chunk);
  pthread_mutex_unlock(&s->lock);
  return got;
}
