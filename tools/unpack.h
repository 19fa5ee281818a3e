/* SPDX-License-Identifier: MIT
 *
 * The lines of a file, which may be compressed: then the program that decompresses its kind runs
 * beside this one, and its output is read through a pipe.  It may be a member of an archive, too (tar.h).
 */
#ifndef TAMIS_TOOL_UNPACK_H
#define TAMIS_TOOL_UNPACK_H

#include "tar.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* What tells that a file has not been changed.  Times are in nanoseconds.  (Numbers of devices differ
 * after a restart of the system, and say nothing.) */
struct stamp {
  uint64_t inode, bytes;
  int64_t modified, changed;
};

bool stamp_equal(const struct stamp *a, const struct stamp *b);

/* That of a member is its archive's.  False with errno set; EISDIR and EINVAL: no regular file. */
bool stamp_of_path(const char *path, struct stamp *stamp);

struct unpacked {
  const char *path;
  int fd; /* of the file itself */
  FILE *lines;
  const char *program; /* NULL: it is not compressed */
  pid_t child;
  char *line; /* for unpacked_line() */
  size_t room;
  int error; /* errno, where unpacked_line() has found no further line */
};

/* Opens a regular file.  If it is a member of an archive, that is opened as `tar`, or is it already.  False
 * after fail(). */
bool unpacked_open(struct unpacked *u, const char *path, struct tar *tar);

/* Whether the open file is still at the instant of the stamp, and anything that is written to it later
 * will get another one: waits up to a tenth of a second for the clock of the file system. */
bool unpacked_is_settled(const struct unpacked *u, const struct stamp *stamp);

/* The next line without its newline, which is a 0 now.  NULL: there is none. */
char *unpacked_line(struct unpacked *u, size_t *length);

/* Closes it, of which all was read if `whole`.  False after fail(): not all could be read. */
bool unpacked_close(struct unpacked *u, bool whole);

#endif
