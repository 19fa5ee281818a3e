/* SPDX-License-Identifier: MIT
 *
 * A file that takes the place of another one only when it is complete.  It is written beside that
 * one, in the same folder, and is renamed at the end.  Until then, and after any error or signal,
 * the old file stands as it was.
 */
#ifndef TAMIS_TOOL_REPLACE_H
#define TAMIS_TOOL_REPLACE_H

#include "base/file.h"

#include <stdbool.h>
#include <sys/stat.h>

enum { MODE_OF_LINES = 0666, MODE_OF_FILTERS = FILE_OWNER_ONLY /* they hold a secret */ };

/* The folder of `path` as a string to be freed: "." if `path` has none. */
char *folder_of(const char *path);

bool is_same_file(const struct stat *a, const struct stat *b);

/* Whether `path` leads to the open file. */
bool leads_to(const char *path, int fd);

struct replacement {
  char *path; /* the name to take, without symbolic links */
  bool begun; /* there is a new file */
  struct new_file file;
};

/* Whether `path` can be replaced.  Not so a device, a FIFO, an open file under /proc (such as
 * /dev/fd/3), a mount point, or somebody else's file in a folder like /tmp.  Those are written in
 * place.  `old` is NULL if there is no file of this name. */
bool replace_possible(struct replacement *r, const char *path, const struct stat *old);

/* Whether `path` leads to the same name, be there a file or not. */
bool replace_is_name(const struct replacement *r, const char *path);

/* Whether it leads to what a run that was killed may have left beside the file, which replace_open removes. */
bool replace_is_unfinished(const struct replacement *r, const char *path);

/* Creates the new file, with the mode, the owner and the group of the old one, or with `mode` less
 * the umask; if `closed`, for its owner alone.  Returns a descriptor for writing, or -1 with errno
 * set. */
int replace_open(struct replacement *r, const struct stat *old, mode_t mode, bool closed);

/* Renames the new file, which is closed; if it is to be durable, waits until the disk has the new
 * name.  False with errno set. */
bool replace_commit(struct replacement *r, bool durable);

/* Removes the new file, unless it has been renamed, and frees the names. */
void replace_end(struct replacement *r);

#endif
