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
 * A process that is killed leaves the new file behind.  So whoever writes one holds a lock on it,
 * and the next save removes those that nobody has locked: a *leftover*.  The names of such files are
 * numbered, so it need not read the folder.  Whoever has locked a file that still has its name may
 * remove it, or rename it.  A new file is not locked yet when it is made: who then finds that its
 * name leads elsewhere makes another one.  The lock is held until the file has been renamed.  A file
 * of another user is no leftover.  Where a lock may not be seen by everybody (locks_hold()), names
 * have the number of the process, and what a killed one leaves stays.
 *
 * A path that leads to anything but a regular file is written to directly.
 *
 * The command has its output files from here, too.
 *
 * All functions are cancellation points.  They return a result, and errno says why. */
#ifndef TAMIS_LIB_FILE_H
#define TAMIS_LIB_FILE_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { FILE_OWNER_ONLY = 0600 };

struct new_file {
  int fd;
  int lock;   /* the same file */
  int folder; /* -1: the path is written to directly */
  mode_t mode;
  char path[PATH_MAX];       /* of the file to replace, with symbolic links followed */
  char beside[NAME_MAX + 1]; /* the name of the new file in the folder */
};

/* Whether no file of this process may reach so far; then errno is EFBIG.  The kernel says so by
 * SIGXFSZ, which ends the process, so no file is written or extended unless this is false. */
static inline bool file_is_limited(uint64_t end)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur)
    return false;
  errno = EFBIG;
  return true;
}

/* After a read or a write that has failed: whether to call it again.  If it must wait for that, it
 * does.  `events`: POLLIN or POLLOUT. */
bool tamis__file_again(int fd, short events);

/* The new file has the mode less the umask, but FILE_OWNER_ONLY whatever the umask is. */
int tamis__file_begin(struct new_file *file, const char *path, mode_t mode);
int tamis__file_write(const struct new_file *file, const void *data, size_t size);

/* After an error, the file is still to be abandoned. */
int tamis__file_commit(struct new_file *file);
void tamis__file_abandon(struct new_file *file);

/* A commit that does not replace a file: if there is one by now, errno is EEXIST.  The file is still
 * to be abandoned. */
int tamis__file_commit_new(struct new_file *file);

/* The steps of a commit, for who has synchronised and closed the file: it takes the name, which the
 * folder is then to be synchronised for. */
int tamis__file_take_name(struct new_file *file);
int tamis__file_sync_name(const struct new_file *file);

#endif
