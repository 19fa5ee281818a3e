/* SPDX-License-Identifier: MIT
 *
 * Layer 1: replaces a file by another one, so that at any moment its path leads to a whole file:
 * the old one or the new one.
 *
 *    begin    a new file beside the old one
 *    write    to the new file
 *    commit   synchronises the new file, gives it the old file's name, and synchronises the folder
 *    abandon  removes the new file
 *
 * The folder is synchronised last because its entry must not lead to the new file before the new
 * file is on the disk; and the file is synchronised before it is renamed for the same reason.
 *
 * A process that is killed leaves its new file behind.  So a process that writes a new file holds a
 * lock on it until it is renamed.  The next save removes *leftovers*: new files that no process has
 * locked.  Names of new files are numbered, so a save need not read the folder.  Only a process
 * that has locked a file, and then finds that the file still has its name, may remove or rename it.
 * A new file is created before it is locked.  If its name then leads to another file, the process
 * creates one more.  A file of another user is not a leftover.  Where other machines may not see a
 * lock (see locks_hold()), names contain the process's number, and leftovers stay.
 *
 * A path that leads to anything but a regular file is written to directly.
 *
 * The command writes its output files by these functions, too.
 *
 * All functions are cancellation points.  They return a result, and errno says why. */
#ifndef TAMIS_LIB_FILE_H
#define TAMIS_LIB_FILE_H

#include "tamis/tamis.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { FILE_OWNER_ONLY = 0600 };

/* A system call that is repeated when a signal has interrupted it. */
#define UNINTERRUPTED(call)             \
  __extension__({                       \
    __typeof__(call) got_;              \
    do                                  \
      got_ = (call);                    \
    while (got_ < 0 && errno == EINTR); \
    got_;                               \
  })

struct new_file {
  int fd;
  int lock;   /* the same open file as `fd`, with its lock */
  int folder; /* -1: `fd` is the file at the path itself */
  mode_t mode;
  char path[PATH_MAX];       /* the file to replace, after all symbolic links are resolved */
  char beside[NAME_MAX + 1]; /* the name of the new file in the folder */
};

/* Whether a limit of the process forbids a file that ends at `end`; if so, sets errno to EFBIG.
 * Without this check before each write, the kernel would send SIGXFSZ, which ends the process. */
static inline bool file_is_limited(uint64_t end)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur)
    return false;
  errno = EFBIG;
  return true;
}

/* Returns whether a failed read or write should be tried again.  If the descriptor was not ready,
 * first waits until it is ready for `events`: POLLIN or POLLOUT. */
bool tamis__file_again(int fd, short events);

/* Begins a new file.  Its mode is `mode` less the umask, or exactly FILE_OWNER_ONLY. */
int tamis__file_begin(struct new_file *file, const char *path, mode_t mode);

/* Gives an open file, if it is regular, the group and then the mode of `access` (unless NULL). */
int tamis__file_give(int fd, const tamis_file_access *access);
int tamis__file_write(const struct new_file *file, const void *data, size_t size);

/* After an error, the caller must still abandon the file. */
int tamis__file_commit(struct new_file *file);
void tamis__file_abandon(struct new_file *file);

/* Commits a file that must not replace another one: if there is one, errno is EEXIST.  The caller
 * must still abandon the file. */
int tamis__file_commit_new(struct new_file *file);

/* The last steps of a commit, for a caller that has synchronised and closed the file.  The first
 * function gives the file its name.  The second one synchronises the folder. */
int tamis__file_take_name(struct new_file *file);
int tamis__file_sync_name(const struct new_file *file);

#endif
