/* SPDX-License-Identifier: MIT
 *
 * Layer 1: replaces a file by another one, so that its path leads to the old file or to the new
 * one, whole, whatever happens meanwhile.
 *
 *    begin    a new file beside the old one
 *    write    to the new file
 *    commit   the new file is synchronised, then it takes the old one's name, then their folder is
 *             synchronised
 *    abandon  the new file is removed
 *
 * The folder is synchronised last because its entry must not lead to the new file before the new
 * file is on the disk; and the file is synchronised before it is renamed for the same reason.
 *
 * A process that is killed leaves its new file behind.  So a process that writes a new file holds a
 * lock on it, until it has been renamed, and the next save removes *leftovers*, which nobody has
 * locked.  Names of new files are numbered, so a save need not read the folder.  A process that has
 * locked a file which still has its name may remove or rename it.  As a new file is made first and
 * then locked, a process that then finds another file under the name makes one more.  A file of
 * another user is no leftover.  Where other machines may not see a lock (locks_hold()), names have
 * the number of the process, and leftovers stay.
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

/* A system call, which is made again when a signal has interrupted it. */
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
  int lock;   /* the same file, with its lock */
  int folder; /* -1: the path is written to directly */
  mode_t mode;
  char path[PATH_MAX];       /* of the file to replace, with symbolic links followed */
  char beside[NAME_MAX + 1]; /* the name of the new file in the folder */
};

/* Whether the process may not have a file that ends at `end`; then errno is EFBIG.  The kernel
 * would send SIGXFSZ, which ends the process.  So this is asked before each write. */
static inline bool file_is_limited(uint64_t end)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur)
    return false;
  errno = EFBIG;
  return true;
}

/* After a read or a write has failed: whether to call it again.  Waits for the file first.
 * `events`: POLLIN or POLLOUT. */
bool tamis__file_again(int fd, short events);

/* The new file has the mode less the umask, but FILE_OWNER_ONLY whatever the umask is. */
int tamis__file_begin(struct new_file *file, const char *path, mode_t mode);

/* Gives an open file its group, then its mode.  `access` may be NULL.  A file that is not regular
 * keeps its own. */
int tamis__file_give(int fd, const tamis_file_access *access);
int tamis__file_write(const struct new_file *file, const void *data, size_t size);

/* After an error, the file is still to be abandoned. */
int tamis__file_commit(struct new_file *file);
void tamis__file_abandon(struct new_file *file);

/* A commit that does not replace a file: if there is one, errno is EEXIST.  The file is still to be
 * abandoned. */
int tamis__file_commit_new(struct new_file *file);

/* The last steps of a commit, for a caller that has synchronised and closed the file: the file
 * takes the name; then its folder is synchronised. */
int tamis__file_take_name(struct new_file *file);
int tamis__file_sync_name(const struct new_file *file);

#endif
