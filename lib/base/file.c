/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
  MOST_LINKS = 40,
  MOST_NAMES = 10000, /* the most names that open_new() tries */
  MOST_ABSENT = 4,    /* the search for leftovers ends after so many absent names in a row */
  MOST_LOST = 4       /* open_locked() gives up after so many of its new files were removed */
};

int tamis__file_above_standard(int fd)
{
  if (fd < 0 || fd > STDERR_FILENO)
    return fd;
  int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
  close(fd);
  (void) lseek(above, 0, SEEK_SET); /* a thread may have read or written meanwhile */
  errno = error;
  return above;
}

/* ---- paths ---- */

/* Returns the length of the part of a path that names its folder, including the slash. */
static size_t folder_length(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? (size_t) (slash + 1 - path) : 0;
}

/* Replaces the part of the path after its first `kept` bytes by a name of `length` bytes. */
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

/* Follows symbolic links at the end of the path, even to a file that does not exist. */
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
    (void) put_name(folder, 0, path, length); /* cannot fail: the folder's path fits */
  return UNINTERRUPTED(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* ---- the new file ---- */

/* New files with this in their names may be removed by other saves as leftovers. */
static const char unfinished[] = "unfinished-";

/* Makes the new file's name: that of the file to replace, then `more` and `number`. */
static void put_beside(struct new_file *file, const char *more, unsigned number)
{
  const char *name = file->path + folder_length(file->path);
  (void) snprintf(file->beside, sizeof file->beside, "%.*s.tamis-%s%u", FILE_NAME_KEPT, name, more,
                  number);
}

static int open_named(const struct new_file *file, int flags)
{
  return tamis__file_above_standard(
      UNINTERRUPTED(openat(file->folder, file->beside, flags | O_WRONLY | O_CLOEXEC, file->mode)));
}

static int lock(int fd)
{
  return UNINTERRUPTED(flock(fd, LOCK_EX | LOCK_NB));
}

/* Returns true if all processes that can reach the folder see each other's locks: if machines
 * cannot share its file system.  Otherwise another machine might remove a file in use. */
static bool locks_hold(int folder)
{
  static const uint32_t local[] = {
      /* the numbers are from statfs(2) and linux/magic.h */
      0xEF53 /* ext2 to ext4 */,  0x58465342 /* xfs */,   0x9123683E /* btrfs */,
      0xF2F52010 /* f2fs */,      0x01021994 /* tmpfs */, 0x858458F6 /* ramfs */,
      0x794C7630 /* overlayfs */, 0x2FC12FC1 /* ZFS */,   0xCA451A4E /* bcachefs */};
  struct statfs system;
  bool found = false;
  if (fstatfs(folder, &system))
    return false;
  for (unsigned i = 0; i < sizeof local / sizeof *local; i++)
    found |= (uint32_t) system.f_type == local[i];
  return found;
}

/* Returns true if the new file's name still leads to the open file. */
static bool is_named(const struct new_file *file, int fd)
{
  struct stat named, opened;
  return fstatat(file->folder, file->beside, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         fstat(fd, &opened) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

static bool is_own(int fd)
{
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

/* Removes a leftover, unless a process has locked it.  Returns true if there was a file. */
static bool remove_leftover(const struct new_file *file)
{
  int fd = open_named(file, O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return errno == EACCES;
  if (is_own(fd) && lock(fd) == 0 && is_named(file, fd))
    unlinkat(file->folder, file->beside, 0);
  close(fd);
  return true;
}

static void remove_leftovers(struct new_file *file)
{
  for (unsigned i = 0, absent = 0; i < MOST_NAMES && absent < MOST_ABSENT; i++) {
    put_beside(file, unfinished, i);
    absent = remove_leftover(file) ? 0 : absent + 1;
  }
}

static int open_new(struct new_file *file, const char *more)
{
  for (unsigned i = 0; i < MOST_NAMES; i++) {
    put_beside(file, more, i);
    file->fd = open_named(file, O_CREAT | O_EXCL);
    if (file->fd >= 0 || errno != EEXIST)
      break;
  }
  return file->fd < 0 ? TAMIS_EIO : TAMIS_OK;
}

/* The process's number is in the new file's name, so no save takes the file for a leftover. */
static int open_unlocked(struct new_file *file)
{
  char process[32];
  (void) snprintf(process, sizeof process, "%ld-", (long) getpid());
  return open_new(file, process);
}

/* Makes a new file and locks it.  Tries again if another save removes the file as a leftover. */
static int open_locked(struct new_file *file)
{
  bool lost = true;
  for (unsigned i = 0; i < MOST_LOST && lost; i++) {
    if (open_new(file, unfinished) != TAMIS_OK)
      return TAMIS_EIO;
    bool locked = lock(file->fd) == 0;
    lost = locked || errno == EWOULDBLOCK;
    if (locked && is_named(file, file->fd))
      return TAMIS_OK;
    if (!lost)
      unlinkat(file->folder, file->beside, 0);
    close(file->fd);
  }
  return open_unlocked(file);
}

static int open_beside(struct new_file *file)
{
  bool locks = locks_hold(file->folder);
  if (locks)
    remove_leftovers(file);
  if ((locks ? open_locked(file) : open_unlocked(file)) != TAMIS_OK)
    return TAMIS_EIO;
  if (file->mode == FILE_OWNER_ONLY)
    (void) fchmod(file->fd, file->mode); /* the umask must not change this mode */
  file->lock = fcntl(file->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return file->lock < 0 ? TAMIS_EIO : TAMIS_OK;
}

static int begin_beside(struct new_file *file, const char *path)
{
  int result = put_name(file->path, 0, path, strlen(path));
  if (result == TAMIS_OK)
    result = follow_links(file->path);
  if (result != TAMIS_OK)
    return result;
  if (!file->path[folder_length(file->path)]) { /* if the path ends with a slash */
    errno = ENOENT;
    return TAMIS_EIO;
  }
  file->folder = open_folder(file->path);
  if (file->folder < 0)
    return TAMIS_EIO;
  return open_beside(file);
}

static int begin_directly(struct new_file *file, const char *path)
{
  file->fd = tamis__file_above_standard(UNINTERRUPTED(open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)));
  return file->fd < 0 ? TAMIS_EIO : TAMIS_OK;
}

int tamis__file_begin(struct new_file *file, const char *path, mode_t mode)
{
  struct stat old;
  *file = (struct new_file){.fd = -1, .lock = -1, .folder = -1, .mode = mode};
  bool exists = stat(path, &old) == 0;
  if (!exists && errno != ENOENT)
    return TAMIS_EIO;
  int result =
      exists && !S_ISREG(old.st_mode) ? begin_directly(file, path) : begin_beside(file, path);
  if (result != TAMIS_OK)
    tamis__file_abandon(file);
  return result;
}

int tamis__file_give(int fd, const tamis_file_access *access)
{
  struct stat status;
  if (!access || (fstat(fd, &status) == 0 && !S_ISREG(status.st_mode)))
    return TAMIS_OK;
  if (access->group >= 0 && fchown(fd, (uid_t) -1, (gid_t) access->group))
    return TAMIS_EIO;
  return fchmod(fd, access->mode) ? TAMIS_EIO : TAMIS_OK;
}

bool tamis__file_again(int fd, short events)
{
  struct pollfd ready = {.fd = fd, .events = events};
  if (errno == EAGAIN) /* if `fd` is a non-blocking pipe */
    (void) poll(&ready, 1, -1);
  else if (errno != EINTR)
    return false;
  return true;
}

int tamis__file_write(void *context, const void *data, size_t size)
{
  const struct new_file *file = context;
  const char *from = data;
  if (file->folder >= 0 && file_is_limited((uint64_t) lseek(file->fd, 0, SEEK_CUR) + size))
    return TAMIS_EIO;
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

/* ---- naming or abandoning the new file ---- */

static int sync_file(int fd)
{
  return UNINTERRUPTED(fsync(fd));
}

/* Calls close() only once, because it closes the descriptor even if it fails. */
static int close_file(struct new_file *file)
{
  int result = close(file->fd);
  file->fd = -1;
  return result && errno != EINTR ? TAMIS_EIO : TAMIS_OK;
}

int tamis__file_take_name(struct new_file *file)
{
  const char *name = file->path + folder_length(file->path);
  int result = UNINTERRUPTED(renameat(file->folder, file->beside, file->folder, name));
  if (!result)
    file->beside[0] = '\0';
  return result ? TAMIS_EIO : TAMIS_OK;
}

/* Gives the file its name.  Fails with EEXIST if another file has the name. */
static int take_free_name(struct new_file *file)
{
  const char *name = file->path + folder_length(file->path);
  int result = UNINTERRUPTED(linkat(file->folder, file->beside, file->folder, name, 0));
  return result ? TAMIS_EIO : TAMIS_OK; /* tamis__file_abandon() removes the name file->beside */
}

/* EINVAL from fsync() is no error: it says that the file system cannot synchronise folders. */
int tamis__file_sync_name(const struct new_file *file)
{
  return sync_file(file->folder) && errno != EINVAL ? TAMIS_EIO : TAMIS_OK;
}

int tamis__file_commit(struct new_file *file)
{
  if (file->folder < 0)
    return close_file(file);
  if (sync_file(file->fd) || close_file(file) != TAMIS_OK ||
      tamis__file_take_name(file) != TAMIS_OK)
    return TAMIS_EIO;
  int result = tamis__file_sync_name(file);
  tamis__file_abandon(file);
  return result;
}

int tamis__file_commit_new(struct new_file *file)
{
  if (file->folder < 0) { /* if the path leads to something other than a regular file */
    errno = EEXIST;
    return TAMIS_EIO;
  }
  return sync_file(file->fd) || take_free_name(file) != TAMIS_OK ? TAMIS_EIO
                                                                 : tamis__file_sync_name(file);
}

static void close_if_open(int *fd)
{
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

void tamis__file_abandon(struct new_file *file)
{
  int error = errno;
  bool made = file->fd >= 0 || file->lock >= 0;
  if (file->folder >= 0 && file->beside[0] && made)
    unlinkat(file->folder, file->beside, 0);
  close_if_open(&file->fd);
  close_if_open(&file->lock);
  close_if_open(&file->folder);
  errno = error;
}
