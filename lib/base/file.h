/* SPDX-License-Identifier: MIT
 *
 * Layer 1: replaces a file, so that at any moment its path leads to a whole file, old or new.
 *
 *    begin    a new file beside the old one
 *    write    to the new file
 *    commit   synchronises the new file, gives it the old file's name, and synchronises the folder
 *    abandon  removes the new file
 *
 * After a crash, the path must not lead to a new file that is not on the disk.  So the new file is
 * synchronised before it is renamed, and the folder after that.  If the path leads to something
 * other than a regular file, the process writes to it directly.
 *
 * A process that is killed leaves its new file behind.  The next save removes such *leftovers*: new
 * files of the same user that no process has locked.  So a process keeps its new file locked until
 * the file is renamed.  Another save may remove a new file that is not locked yet, so the process
 * checks, after it has locked the file, that the file still has its name.  Names of new files are
 * numbered, so a save need not read the folder.  If other machines might not see a lock
 * (locks_hold()), names contain the process's number, and leftovers stay.
 *
 * All functions are cancellation points.  After an error, errno has the cause.
 */
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
enum { FILE_NAME_KEPT = 200 }; /* the most bytes of the old file's name in the new file's name */

/* Repeats a system call that a signal has interrupted. */
#define UNINTERRUPTED(call)             \
  __extension__({                       \
    __typeof__(call) got_;              \
    do                                  \
      got_ = (call);                    \
    while (got_ < 0 && errno == EINTR); \
    got_;                               \
  })

/* Replaces a descriptor 0, 1 or 2 by a higher number: programs take these for standard streams. */
int tamis__file_above_standard(int fd);

struct new_file {
  int fd;
  int lock;   /* a duplicate of `fd`, which keeps the lock when `fd` is closed */
  int folder; /* descriptor of the folder; -1: `fd` is the file at the path itself */
  mode_t mode;
  char path[PATH_MAX];       /* the path of the file to replace, with symbolic links resolved */
  char beside[NAME_MAX + 1]; /* the name of the new file in the folder */
};

/* Returns true, and sets errno to EFBIG, if a limit of the process forbids a file that ends at
 * `end`.  A write beyond the limit would raise the fatal SIGXFSZ. */
static inline bool file_is_limited(uint64_t end)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur)
    return false;
  errno = EFBIG;
  return true;
}

/* Returns true if a failed read or write should be tried again, as errno says.  If `fd` was not
 * ready, first waits until it is ready for `events`: POLLIN or POLLOUT. */
bool tamis__file_again(int fd, short events);

/* Begins a new file for `path`.  The umask restricts `mode`, except for FILE_OWNER_ONLY. */
int tamis__file_begin(struct new_file *file, const char *path, mode_t mode);

/* If the open file is regular and `access` is not NULL, sets the file's group and mode. */
int tamis__file_give(int fd, const tamis_file_access *access);

/* A tamis_write_function whose context is a struct new_file. */
int tamis__file_write(void *context, const void *data, size_t size);

/* Ends a new file.  If tamis__file_commit() fails, the caller must still abandon the file. */
int tamis__file_commit(struct new_file *file);
void tamis__file_abandon(struct new_file *file);

/* Does what tamis__file_commit() does, but fails with EEXIST if another file has the name.  The
 * caller must abandon the file afterwards, even after success. */
int tamis__file_commit_new(struct new_file *file);

/* The last steps of a commit.  The first function names the file, which must be synchronised and
 * closed.  The second function synchronises the folder. */
int tamis__file_take_name(struct new_file *file);
int tamis__file_sync_name(const struct new_file *file);

#endif
