/* SPDX-License-Identifier: MIT */
#include "unpack.h"

#include "compressed.h"
#include "report.h"
#include "retry.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- stamps ---- */

static int64_t nanoseconds(struct timespec t)
{
  return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct stamp stamp_of(const struct stat *s)
{
  return (struct stamp){.inode = s->st_ino,
                        .bytes = (uint64_t) s->st_size,
                        .modified = nanoseconds(s->st_mtim),
                        .changed = nanoseconds(s->st_ctim)};
}

bool stamp_equal(const struct stamp *a, const struct stamp *b)
{
  return a->inode == b->inode && a->bytes == b->bytes && a->modified == b->modified &&
         a->changed == b->changed;
}

static bool is_regular(const struct stat *status)
{
  if (!S_ISREG(status->st_mode))
    errno = S_ISDIR(status->st_mode) ? EISDIR : EINVAL;
  return S_ISREG(status->st_mode);
}

bool stamp_of_path(const char *path, struct stamp *stamp)
{
  struct stat status;
  if (stat(path, &status) != 0 ? errno != ENOTDIR || tar_part(path, &status) == 0
                               : !is_regular(&status))
    return false;
  *stamp = stamp_of(&status);
  return true;
}

/* ---- reading ---- */

enum { PIPE_READ, PIPE_WRITE, MOST_WORDS = 3 };

/* Starts the program, whose words are separated by blanks, with the file as its input. */
static bool start(struct unpacked *u, int output)
{
  char words[32], *argv[MOST_WORDS + 1] = {NULL}, *rest = words;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, pipe_signal;
  snprintf(words, sizeof words, "%s", u->program);
  for (unsigned i = 0; i < MOST_WORDS && rest != NULL; i++)
    argv[i] = strsep(&rest, " ");
  sigemptyset(&none);
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, u->fd, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &pipe_signal);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int error = posix_spawnp(&u->child, argv[0], &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    fail("cannot run %s for '%s': %s", argv[0], u->path, strerror(error));
  return error == 0;
}

static bool open_pipe(struct unpacked *u, int *output)
{
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    fail("cannot read '%s': %s", u->path, strerror(errno));
    return false;
  }
  bool started = start(u, ends[PIPE_WRITE]);
  close(ends[PIPE_WRITE]);
  if (!started)
    close(ends[PIPE_READ]);
  *output = ends[PIPE_READ];
  return started;
}

/* Waits for the program, if there is one.  Whether it has read all of the file. */
static bool has_ended_well(const struct unpacked *u)
{
  int status;
  if (u->program == NULL)
    return true;
  return TEMP_FAILURE_RETRY(waitpid(u->child, &status, 0)) == u->child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

static bool open_lines(struct unpacked *u)
{
  char magic[COMPRESSED_MAGIC];
  ssize_t got = pread(u->fd, magic, sizeof magic, 0);
  int lines;
  if (got > 0 && compressed_is_archive(magic, (size_t) got)) {
    fail("cannot read '%s': it is an archive of files; unpack it", u->path);
    return false;
  }
  u->program = got > 0 ? compressed_program(magic, (size_t) got) : NULL;
  if (u->program != NULL && !open_pipe(u, &lines))
    return false;
  if (u->program == NULL)
    lines = fcntl(u->fd, F_DUPFD_CLOEXEC, 0);
  u->lines = lines < 0 ? NULL : fdopen(lines, "r");
  if (u->lines != NULL)
    return true;
  fail("cannot read '%s': %s", u->path, strerror(errno));
  if (lines >= 0)
    close(lines);
  has_ended_well(u);
  return false;
}

static bool open_member(struct unpacked *u, size_t part, struct tar *tar)
{
  u->lines = tar_open(tar, u->path, part);
  u->fd = u->lines == NULL ? -1 : fcntl(tar->fd, F_DUPFD_CLOEXEC, 0);
  if (u->fd >= 0)
    return true;
  if (u->lines != NULL) {
    fail("cannot read '%s': %s", u->path, strerror(errno));
    fclose(u->lines);
  }
  return false;
}

bool unpacked_open(struct unpacked *u, const char *path, struct tar *tar)
{
  struct stat status;
  *u = (struct unpacked){.path = path};
  /* A FIFO is not waited for. */
  u->fd = (int) TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  size_t part = u->fd < 0 && errno == ENOTDIR ? tar_part(path, &status) : 0;
  if (part > 0)
    return open_member(u, part, tar);
  if (u->fd < 0 || fstat(u->fd, &status) != 0 || !is_regular(&status))
    fail("cannot open '%s': %s", path, errno == EINVAL ? "it is no regular file" : strerror(errno));
  else if (tar_is_none(path) && open_lines(u))
    return true;
  if (u->fd >= 0)
    close(u->fd);
  return false;
}

bool unpacked_is_settled(const struct unpacked *u, const struct stamp *stamp)
{
  const int64_t margin = 100000000; /* ten ticks of the slowest clock */
  struct timespec now, pause = {.tv_nsec = margin};
  struct stat status;
  clock_gettime(CLOCK_REALTIME, &now);
  if (nanoseconds(now) - stamp->changed < margin)
    nanosleep(&pause, NULL);
  clock_gettime(CLOCK_REALTIME, &now);
  if (fstat(u->fd, &status) != 0 || nanoseconds(now) - stamp->changed < margin)
    return false;
  struct stamp then = stamp_of(&status);
  return stamp_equal(stamp, &then);
}

char *unpacked_line(struct unpacked *u, size_t *length)
{
  ssize_t got = getline(&u->line, &u->room, u->lines);
  if (got <= 0) {
    u->error = errno;
    return NULL;
  }
  if (u->line[got - 1] == '\n')
    u->line[--got] = '\0';
  *length = (size_t) got;
  return u->line;
}

bool unpacked_close(struct unpacked *u, bool whole)
{
  /* A line that finds no memory ends the reading without an error of the stream. */
  bool failed_to_read = ferror(u->lines) || !feof(u->lines);
  int error = u->error;
  fclose(u->lines);
  close(u->fd);
  free(u->line);
  bool ended = has_ended_well(u);
  if (!whole)
    return true;
  if (failed_to_read)
    fail("cannot read '%s': %s", u->path, strerror(error));
  else if (!ended)
    fail("cannot read '%s': %s has failed", u->path, u->program);
  return !failed_to_read && ended;
}
