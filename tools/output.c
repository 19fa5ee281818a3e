/* SPDX-License-Identifier: MIT */
#include "output.h"

#include "access.h"
#include "interrupt.h"
#include "report.h"
#include "retry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 1000 }; /* a millisecond each */

static const char standard_output[] = "standard output";

static bool cannot_write(const char *name, int error)
{
  if (error == EPIPE && interrupt_by_closed_pipe())
    interrupt_end_by_closed_pipe();
  fail("cannot write '%s': %s", name, strerror(error));
  return false;
}

static bool check_not_an_input(const char *name, const struct stat *status,
                               const struct inputs *inputs)
{
  if (!S_ISREG(status->st_mode))
    return true; /* a terminal or /dev/null may be input and output */
  for (size_t i = 0; i < inputs->count; i++) {
    const struct input *input = &inputs->files[i];
    if (input->device != status->st_dev || input->inode != status->st_ino)
      continue;
    fail("'%s' is input and output at once: write to another file",
         input->path != NULL ? input->path : name);
    return false;
  }
  return true;
}

bool output_check(const char *path, const struct inputs *inputs)
{
  struct stat status;
  if (path == NULL) {
    if (fstat(STDOUT_FILENO, &status) != 0)
      return cannot_write(standard_output, errno);
    return check_not_an_input(standard_output, &status, inputs);
  }
  if (stat(path, &status) != 0)
    return errno == ENOENT || cannot_write(path, errno);
  return check_not_an_input(path, &status, inputs);
}

bool output_or_input_is(const struct replacement *place, const struct stat *status,
                        const struct inputs *inputs, const char *path)
{
  struct stat other;
  for (size_t i = 0; status != NULL && i < inputs->count; i++)
    if (inputs->files[i].device == status->st_dev && inputs->files[i].inode == status->st_ino)
      return true;
  const bool same = status != NULL &&
                    (path != NULL ? stat(path, &other) : fstat(STDOUT_FILENO, &other)) == 0 &&
                    is_same_file(&other, status);
  if (path == NULL || place == NULL)
    return same;
  struct replacement named; /* by another name, the file itself is written only in place */
  const bool replaced = replace_possible(&named, path, same ? &other : NULL);
  replace_end(&named);
  return (same && !replaced) || replace_is_name(place, path);
}

/* If one of the descriptors 0 to 2 was closed, open() may return it.  Then the file would get what
 * is meant for the standard stream, so it moves to another descriptor. */
static int move_above_standard(int fd)
{
  if (fd < 0 || fd > STDERR_FILENO)
    return fd;
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
  close(fd);
  errno = error;
  return moved;
}

/* Opens a file that stands already, and empties it. */
static bool open_in_place(struct output *output, const char *path, const struct inputs *inputs)
{
  struct stat status;
  output->fd = move_above_standard((int) TEMP_FAILURE_RETRY(
      open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, output->mode)));
  if (output->fd < 0 || fstat(output->fd, &status) != 0)
    return cannot_write(path, errno);
  /* The name may stand for another file since the first check, so the open file is checked
   * again. */
  if (!check_not_an_input(path, &status, inputs))
    return false;
  /* An empty file is not truncated: after a truncation ext4 writes out the whole file when it is
   * closed. */
  if (S_ISREG(status.st_mode) && status.st_size > 0 &&
      TEMP_FAILURE_RETRY(ftruncate(output->fd, 0)) != 0)
    return cannot_write(path, errno);
  return true;
}

/* /dev/stdout and its like: a file opened anew would have another position, and overwrite. */
static bool is_standard_output(const struct stat *status)
{
  struct stat standard;
  return fstat(STDOUT_FILENO, &standard) == 0 && is_same_file(&standard, status);
}

bool output_check_unfinished(const struct replacement *place, const struct inputs *inputs,
                             const char *path)
{
  for (size_t i = 0; i <= inputs->count + 1; i++) {
    const char *checked = i < inputs->count    ? inputs->files[i].path
                          : i == inputs->count ? inputs->filter
                                               : path;
    if (checked == NULL || !replace_is_unfinished(place, checked))
      continue;
    fail("'%s' is what an earlier run left of '%s', and would be removed: rename it", checked,
         place->path);
    return false;
  }
  return true;
}

static bool open_named(struct output *output, const char *path, const struct inputs *inputs)
{
  struct stat status;
  const struct stat *old = stat(path, &status) == 0 ? &status : NULL;
  if (old == NULL && errno != ENOENT)
    return cannot_write(path, errno);
  if (old != NULL && is_standard_output(old))
    return true;
  output->fd = -1;
  if (!replace_possible(&output->replacement, path, old))
    return open_in_place(output, path, inputs);
  if (!output_check_unfinished(&output->replacement, inputs, NULL))
    return false;
  output->fd = move_above_standard(
      replace_open(&output->replacement, old, output->mode, output->access != NULL));
  if (output->fd >= 0)
    return true;
  /* The folder may be closed to us where the file is not. */
  if (old != NULL && (errno == EACCES || errno == EPERM || errno == EROFS))
    return open_in_place(output, path, inputs);
  return cannot_write(path, errno);
}

static bool write_all(int fd, const char *data, size_t length)
{
  while (length > 0) {
    ssize_t done = write(fd, data, length);
    if (done >= 0) {
      data += done;
      length -= (size_t) done;
    } else if (errno == EAGAIN) {
      struct pollfd ready = {.fd = fd, .events = POLLOUT};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool output_write_bytes(struct output *output, const void *data, size_t size)
{
  return write_all(output->fd, data, size);
}

/* The length of the lines that one write has: as many as PIPE_BUF bytes hold, or one longer line.
 * The data end with a newline. */
static size_t lines_of_a_write(const char *data, size_t length)
{
  if (length <= PIPE_BUF)
    return length;
  const char *last = memrchr(data, '\n', PIPE_BUF);
  if (last == NULL)
    last = memchr(data + PIPE_BUF, '\n', length - PIPE_BUF);
  return (size_t) (last - data) + 1;
}

/* The kernel writes up to PIPE_BUF bytes to a pipe as a whole, and tears more than that if others
 * write too. */
static bool write_to_pipe(int fd, const char *data, size_t length)
{
  while (length > 0) {
    size_t part = lines_of_a_write(data, length);
    if (!write_all(fd, data, part))
      return false;
    data += part;
    length -= part;
  }
  return true;
}

/* Runs that append to a file lock it while they write.  Somebody who may only read the file can hold
 * the lock for ever, and so can a run that is stopped.  So the wait has an end. */
static bool lock_end(struct output *output)
{
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  const struct timespec pause = {.tv_nsec = 1000000};
  for (unsigned tries = 0; fcntl(output->fd, F_SETLK, &lock) != 0; tries++) {
    if ((errno != EAGAIN && errno != EACCES) || tries == LOCK_TRIES)
      return false;
    nanosleep(&pause, NULL);
  }
  return true;
}

static void unlock_end(struct output *output)
{
  struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  (void) fcntl(output->fd, F_SETLK, &lock);
}

static bool ends_within_line(const struct output *output)
{
  struct stat status;
  char last = '\n';
  return fstat(output->reader, &status) == 0 && status.st_size > 0 &&
         pread(output->reader, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

/* Each write appends whole lines, unless kill -9 or a full disk cuts it off.  What another run is
 * writing looks cut off, too, so the end is looked at under the lock alone.  Without the lock, the
 * kernel still keeps the writes apart. */
static bool append(struct output *output, const char *data, size_t length)
{
  if (!lock_end(output)) {
    close(output->reader);
    output->reader = -1;
    return write_all(output->fd, data, length);
  }
  bool good = (!ends_within_line(output) || write_all(output->fd, "\n", 1)) &&
              write_all(output->fd, data, length);
  unlock_end(output);
  return good;
}

/* How lines are to be written, of which other processes may write some, too. */
static void look_at_kind(struct output *output)
{
  char name[sizeof "/proc/self/fd/" + 3 * sizeof output->fd];
  struct stat status;
  int flags = fcntl(output->fd, F_GETFL);
  if (flags < 0 || fstat(output->fd, &status) != 0)
    return;
  output->pipe = S_ISFIFO(status.st_mode);
  if (!(flags & O_APPEND) || !S_ISREG(status.st_mode))
    return;
  snprintf(name, sizeof name, "/proc/self/fd/%d", output->fd);
  output->reader =
      move_above_standard((int) TEMP_FAILURE_RETRY(open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY)));
}

static bool write_lines(struct output *output, const struct chunk *chunk)
{
  if (output->reader >= 0)
    return append(output, chunk->data, chunk->length);
  return (output->pipe && output->others ? write_to_pipe : write_all)(output->fd, chunk->data,
                                                                      chunk->length);
}

static bool open_with_mode(struct output *output, mode_t mode, const tamis_file_access *access,
                           const char *path, const struct inputs *inputs)
{
  *output = (struct output){
      .fd = STDOUT_FILENO, .reader = -1, .name = standard_output, .mode = mode, .access = access};
  pthread_mutex_init(&output->lock, NULL);
  pthread_cond_init(&output->room, NULL);
  if (path == NULL)
    return true;
  output->name = path;
  return open_named(output, path, inputs);
}

bool output_open(struct output *output, const char *path, const struct inputs *inputs)
{
  if (!open_with_mode(output, MODE_OF_LINES, NULL, path, inputs))
    return false;
  look_at_kind(output);
  return true;
}

bool output_open_filter(struct output *output, const char *path, const struct inputs *inputs)
{
  bool good = open_with_mode(output, MODE_OF_FILTERS, access_given(), path, inputs);
  output->durable = true;
  if (!good || !output_replaces(output) || tamis__file_give(output->fd, output->access) == TAMIS_OK)
    return good;
  return cannot_write(path, errno);
}

bool output_replaces(const struct output *output)
{
  return output->replacement.begun;
}

bool output_failed(const struct output *output)
{
  return cannot_write(output->name, errno);
}

bool output_sync(struct output *output)
{
  if (TEMP_FAILURE_RETRY(fsync(output->fd)) == 0 || errno == EINVAL || errno == EROFS)
    return true; /* a pipe or a device has nothing to synchronise, and says so */
  return cannot_write(output->name, errno);
}

/* Only the thread that has set output->busy may call this. */
static void write_chunk(struct output *output, const struct chunk *chunk)
{
  if (output->broken || write_lines(output, chunk))
    return;
  output->broken = true;
  cannot_write(output->name, errno);
}

/* Moves the chunk's contents into the queue. */
static void enqueue_locked(struct output *output, struct chunk *chunk)
{
  output->queue[output->queued++] = *chunk;
  *chunk = output->spares > 0 ? output->spare[--output->spares] : (struct chunk){0};
}

static struct chunk dequeue_locked(struct output *output)
{
  struct chunk first = output->queue[0];
  output->queued--;
  memmove(output->queue, output->queue + 1, output->queued * sizeof output->queue[0]);
  return first;
}

/* Writes what other threads have queued, until the queue is empty. */
static void write_queue_locked(struct output *output)
{
  while (output->queued > 0) {
    struct chunk chunk = dequeue_locked(output);
    pthread_cond_signal(&output->room);
    pthread_mutex_unlock(&output->lock);
    write_chunk(output, &chunk);
    pthread_mutex_lock(&output->lock);
    if (output->spares < OUTPUT_QUEUE)
      output->spare[output->spares++] = chunk;
    else
      chunk_free(&chunk);
  }
}

void output_write(struct output *output, struct chunk *chunk)
{
  pthread_mutex_lock(&output->lock);
  while (output->busy && output->queued == OUTPUT_QUEUE)
    pthread_cond_wait(&output->room, &output->lock);
  if (output->busy) {
    enqueue_locked(output, chunk);
  } else {
    output->busy = true;
    pthread_mutex_unlock(&output->lock);
    write_chunk(output, chunk);
    pthread_mutex_lock(&output->lock);
    write_queue_locked(output);
    output->busy = false;
    /* A thread that waits for room may be here although the queue is empty: as many wait as were
     * not woken for a place in it.  The one that is woken now writes, and wakes the next. */
    pthread_cond_signal(&output->room);
  }
  pthread_mutex_unlock(&output->lock);
}

void output_close(struct output *output)
{
  while (output->spares > 0)
    chunk_free(&output->spare[--output->spares]);
  pthread_cond_destroy(&output->room);
  pthread_mutex_destroy(&output->lock);
  if (output->reader >= 0)
    close(output->reader);
  if (output->fd >= 0 && output->durable && (!failed() || output->keeps))
    output_sync(output);
  if (output->fd >= 0 && close(output->fd) != 0)
    cannot_write(output->name, errno);
  output->fd = -1;
  if (output_replaces(output) && (!failed() || output->keeps) &&
      !replace_commit(&output->replacement, output->durable))
    cannot_write(output->name, errno);
  replace_end(&output->replacement);
}
