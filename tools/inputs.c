/* SPDX-License-Identifier: MIT */
#include "inputs.h"

#include "compressed.h"
#include "report.h"
#include "retry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int input_open(const struct input *input)
{
  if (input->path == NULL)
    return STDIN_FILENO;
  return (int) TEMP_FAILURE_RETRY(open(input->path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
}

static bool cannot_open(const struct input *input, int error)
{
  fail("cannot open '%s': %s", input->name, strerror(error));
  return false;
}

/* Only regular files are opened for the check, others are checked by name.  To open a FIFO would
 * wait for a writer, and to close it again would break that writer's pipe. */
static bool check_special(const struct input *input, mode_t mode)
{
  if (input->path == NULL)
    return true;
  if (S_ISSOCK(mode))
    return cannot_open(input, ENXIO);
  return faccessat(AT_FDCWD, input->path, R_OK, AT_EACCESS) == 0 || cannot_open(input, errno);
}

/* A file of /proc has no size, but it has bytes. */
static void note_size(struct input *input, off_t size, ssize_t first)
{
  input->sized = size > (off_t) input->start || first == 0;
  if (size > (off_t) input->start)
    input->bytes = (uint64_t) size - input->start;
}

/* Errors of pread are left to the pass over the file. */
static bool check_regular(struct input *input, off_t size)
{
  char magic[COMPRESSED_MAGIC];
  int fd = input_open(input);
  if (fd < 0)
    return cannot_open(input, errno);
  off_t start = input->path == NULL ? lseek(fd, 0, SEEK_CUR) : 0;
  if (start > 0)
    input->start = (uint64_t) start;
  ssize_t got = start < 0 ? -1 : pread(fd, magic, sizeof magic, start);
  input_close(input, fd);
  note_size(input, size, got);
  return got <= 0 || !compressed_refused(input, magic, (size_t) got);
}

static bool check_one(struct input *input, const char *name)
{
  bool standard = strcmp(name, "-") == 0;
  input->name = standard ? "standard input" : name;
  input->path = standard ? NULL : name;

  struct stat status;
  if ((standard ? fstat(STDIN_FILENO, &status) : stat(name, &status)) != 0)
    return cannot_open(input, errno);
  if (S_ISDIR(status.st_mode))
    return cannot_open(input, EISDIR);
  input->device = status.st_dev;
  input->inode = status.st_ino;
  if (S_ISREG(status.st_mode))
    return check_regular(input, status.st_size);
  return check_special(input, status.st_mode);
}

bool inputs_check(struct inputs *inputs, char **names, size_t count)
{
  static char dash[] = "-";
  static char *standard[] = {dash};
  if (count == 0) {
    names = standard;
    count = 1;
  }
  inputs->files = calloc(count, sizeof *inputs->files);
  if (inputs->files == NULL) {
    fail("out of memory");
    return false;
  }
  inputs->count = count;
  for (size_t i = 0; i < count; i++)
    if (!check_one(&inputs->files[i], names[i]))
      return false;
  return true;
}

void inputs_free(struct inputs *inputs)
{
  free(inputs->files);
  inputs->files = NULL;
  inputs->count = 0;
}

void input_close(const struct input *input, int fd)
{
  if (input->path != NULL)
    close(fd);
}

uint64_t inputs_bytes(const struct input *inputs, size_t count)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    if (!inputs[i].sized)
      return 0;
    sum += inputs[i].bytes;
  }
  return sum;
}

bool inputs_sized(const struct input *inputs, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (!inputs[i].sized)
      return false;
  return true;
}
