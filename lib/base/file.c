/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include "tamis/tamis.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  MOST_LINKS = 40,    /* as in the kernel */
  MOST_NAMES = 10000, /* that are tried for the new file */
  NAME_KEPT = 200,    /* bytes of the old name that the new one begins with */
  OWNER_ONLY = 0600
};

/* ---- paths ---- */

/* The length of the part of a path that names its folder, with the slash. */
static size_t folder_length(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? (size_t) (slash + 1 - path) : 0;
}

/* Replaces what follows the first `kept` bytes of the path. */
static int put_name(char path[PATH_MAX], size_t kept, const char *name, size_t length)
{
  if (kept + length >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return TAMIS_EIO;
  }
  memcpy(path + kept, name, length);
  path[kept + length] = '\0';
  return TAMIS_OK;
}

/* Follows symbolic links at the end of the path, also to a file that does not exist yet. */
static int follow_links(char path[PATH_MAX])
{
  char target[PATH_MAX];
  for (unsigned links = 0; links < MOST_LINKS; links++) {
    ssize_t length = readlink(path, target, sizeof target);
    if (length < 0)
      return errno == EINVAL || errno == ENOENT ? TAMIS_OK : TAMIS_EIO;
    size_t kept = length && target[0] == '/' ? 0 : folder_length(path);
    int result = put_name(path, kept, target, (size_t) length);
    if (result != TAMIS_OK)
      return result;
  }
  errno = ELOOP;
  return TAMIS_EIO;
}

static int open_folder(const char *path)
{
  char folder[PATH_MAX] = ".";
  size_t length = folder_length(path);
  if (length)
    (void) put_name(folder, 0, path, length); /* it is shorter than the path */
  int fd;
  do
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  return fd;
}

/* ---- the new file ---- */

/* Names that are in use are those of other saves, or of processes that were killed. */
static int open_beside(struct new_file *file)
{
  const char *name = file->path + folder_length(file->path);
  for (unsigned i = 0; i < MOST_NAMES; i++) {
    (void) snprintf(file->beside, sizeof file->beside, "%.*s.tamis-%ld-%u", NAME_KEPT, name,
                    (long) getpid(), i);
    do
      file->fd =
          openat(file->folder, file->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, OWNER_ONLY);
    while (file->fd < 0 && errno == EINTR);
    if (file->fd >= 0 || errno != EEXIST)
      break;
  }
  if (file->fd < 0)
    return TAMIS_EIO;
  (void) fchmod(file->fd, OWNER_ONLY); /* whatever the umask has left of it */
  return TAMIS_OK;
}

static int begin_beside(struct new_file *file, const char *path)
{
  int result = put_name(file->path, 0, path, strlen(path));
  if (result == TAMIS_OK)
    result = follow_links(file->path);
  if (result != TAMIS_OK)
    return result;
  if (!file->path[folder_length(file->path)]) { /* a folder that does not exist */
    errno = ENOENT;
    return TAMIS_EIO;
  }
  file->folder = open_folder(file->path);
  if (file->folder < 0)
    return TAMIS_EIO;
  result = open_beside(file);
  if (result != TAMIS_OK) {
    int error = errno;
    close(file->folder);
    errno = error;
  }
  return result;
}

static int begin_directly(struct new_file *file, const char *path)
{
  do
    file->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  while (file->fd < 0 && errno == EINTR);
  return file->fd < 0 ? TAMIS_EIO : TAMIS_OK;
}

int tamis__file_begin(struct new_file *file, const char *path)
{
  struct stat old;
  *file = (struct new_file){.fd = -1, .folder = -1};
  bool exists = stat(path, &old) == 0;
  if (!exists && errno != ENOENT)
    return TAMIS_EIO;
  return exists && !S_ISREG(old.st_mode) ? begin_directly(file, path) : begin_beside(file, path);
}

bool tamis__file_again(int fd, short events)
{
  struct pollfd ready = {.fd = fd, .events = events};
  if (errno == EAGAIN) /* a pipe, opened in a way that does not wait */
    (void) poll(&ready, 1, -1);
  else if (errno != EINTR)
    return false;
  return true;
}

int tamis__file_write(const struct new_file *file, const void *data, size_t size)
{
  const char *from = data;
  while (size) {
    ssize_t written = write(file->fd, from, size);
    if (written < 0 && tamis__file_again(file->fd, POLLOUT))
      continue;
    if (written < 0)
      return TAMIS_EIO;
    from += written;
    size -= (size_t) written;
  }
  return TAMIS_OK;
}

/* ---- the end ---- */

static int sync_file(int fd)
{
  int result;
  do
    result = fsync(fd);
  while (result && errno == EINTR);
  return result;
}

/* Some file systems have no folders that can be synchronised, and say so. */
static int sync_folder(int fd)
{
  return sync_file(fd) && errno != EINVAL ? TAMIS_EIO : TAMIS_OK;
}

/* The descriptor is closed in any case.  After a signal there is nothing that could be repeated. */
static int close_file(struct new_file *file)
{
  int result = close(file->fd);
  file->fd = -1;
  return result && errno != EINTR ? TAMIS_EIO : TAMIS_OK;
}

int tamis__file_commit(struct new_file *file)
{
  if (file->folder < 0)
    return close_file(file);
  const char *name = file->path + folder_length(file->path);
  if (sync_file(file->fd) || close_file(file) != TAMIS_OK ||
      renameat(file->folder, file->beside, file->folder, name))
    return TAMIS_EIO;
  file->beside[0] = '\0';
  int result = sync_folder(file->folder), error = errno;
  close(file->folder);
  file->folder = -1;
  errno = error;
  return result;
}

void tamis__file_abandon(struct new_file *file)
{
  int error = errno;
  if (file->folder >= 0 && file->beside[0])
    unlinkat(file->folder, file->beside, 0);
  if (file->fd >= 0)
    close(file->fd);
  if (file->folder >= 0)
    close(file->folder);
  errno = error;
}
