/* SPDX-License-Identifier: MIT
 *
 * Members of tar archives as files: "logs.tar/a/b" is the member "a/b" of the archive "logs.tar".
 *
 * The library libarchive reads archives, also compressed ones.  The command may be built without it, and
 * run without it; then no file is taken for an archive.
 */
#ifndef TAMIS_TOOL_TAR_H
#define TAMIS_TOOL_TAR_H

#include "compressed.h"
#include "names.h"

#include <stdio.h>
#include <sys/stat.h>

/* An archive that is read from its beginning to its end, so whoever reads its members in their order
 * reads it once.  Begins with zeros. */
struct tar {
  struct archive *archive; /* NULL: none is open */
  char *path;
  int fd;
  struct stat status;
  char first[COMPRESSED_MAGIC]; /* of the member that is open */
  size_t got, given;            /* bytes of `first` */
  bool begun;                   /* it has a header */
  bool found;                   /* there is such a member */
};

/* Whether a file is taken for an archive, by its name. */
bool tar_has_name(const char *path);

/* TAR_NONE is no archive, or one without members; of TAR_PART not all could be read. */
enum tar_kind { TAR_NONE, TAR_PART, TAR_WHOLE };

/* Adds the names of the regular files in the archive.  Damage behind its beginning is recorded with fail(), and
 * so is a name that it has twice.  False after fail(): there is no memory. */
bool tar_list(struct names *names, const char *path, enum tar_kind *kind);

/* False after fail(): the file is an archive, so it is no file of lines. */
bool tar_is_none(const char *path);

/* How much of the path leads to the file that it goes through; 0 with ENOTDIR: to none that has such a
 * name. */
size_t tar_part(const char *path, struct stat *status);

/* The contents of a member, until the next call; those of one that is not there are empty.  NULL after
 * fail(). */
FILE *tar_open(struct tar *tar, const char *path, size_t part);

void tar_close(struct tar *tar);

#endif
