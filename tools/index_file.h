/* SPDX-License-Identifier: MIT
 *
 * An index: a saved filter of the keys of each of many files, all in one file.
 *
 *    "tamis index\n" | version | where the last part ends | checksum of these | parts
 *    part: bytes of its head | checksum of the head | head | filters
 *    head: in the first part the rule of the keys, seed, and rate; number of files; for each file, but
 *          not in the first part, which of all files it is; its name, its stamp, the number of its
 *          keys, and the bytes of its filter
 *
 * Numbers are of 64 bits, little-endian.  Each filter is as tamis_save() writes it, but for runs of
 * zeros.  Whatever is in the file, reading it is safe: a head that is not whole is an error, and so is
 * a filter that is not, when it is loaded.
 *
 * A run that adds files, or reads some again, writes one more part, and when the disk has it, where that
 * ends.  Until then, nobody reads it.  A file that there is already takes the place of what was there.
 */
#ifndef TAMIS_TOOL_INDEX_FILE_H
#define TAMIS_TOOL_INDEX_FILE_H

#include "keys.h"
#include "output.h"
#include "unpack.h"

#include <tamis/tamis.h>

struct index_entry {
  char *path; /* as it was given */
  struct stamp stamp;
  uint64_t keys;         /* distinct ones */
  unsigned char *filter; /* saved; NULL also if it has not been read yet */
  uint64_t filter_bytes; /* 0: it could not be made, so the file may hold any key */
  uint64_t at;           /* where it is in the file that was read */
  bool owned;            /* the filter was made now; otherwise it is a part of `data` */
  bool stale;            /* it is to be read */
  bool fresh;            /* the file that was read does not have this */
};

struct index_file {
  int fd;              /* of the file that was read, or of its folder; -1: none */
  uint64_t end, dead;  /* bytes of that file, and of entries in it that others have replaced */
  unsigned char *data; /* its contents, for filters */
  char *regex;         /* of the rule */
  struct key_rule rule;
  uint64_t seed;
  double fpp;
  struct index_entry *entries;
  size_t count, room;
};

/* Opens an index for reading.  False after fail(), with the status of what cannot be used, as of the
 * next two. */
bool index_open(struct index_file *index, const char *path);

/* The same for a change, for which it waits until no other run changes it, or makes it.  `exists` says
 * whether there is one. */
bool index_open_alone(struct index_file *index, const char *path, bool *exists);

/* Reads all but the filters of an open index. */
bool index_read(struct index_file *index, const char *path);

/* Reads the filters, too.  False after fail(). */
bool index_read_filters(struct index_file *index, const char *path);

/* Puts a fresh entry at the end, with a copy of the path.  NULL after fail(). */
struct index_entry *index_append(struct index_file *index, const char *path);

/* Writes the index, whose filters were read, to an output that was opened for it.  False after fail(). */
bool index_write(const struct index_file *index, struct output *output);

/* Whether half of the file is of no use any more. */
bool index_is_sparse(const struct index_file *index);

/* Writes fresh entries to the file that was opened for a change.  False after fail(): then that is as it
 * was. */
bool index_extend(const struct index_file *index, const char *path);

/* The filter of an entry; NULL: it is damaged, or there is no memory. */
tamis_filter *index_load(const struct index_entry *entry, int *result);

/* Saves a filter into an entry.  False after fail(). */
bool index_keep(struct index_entry *entry, const tamis_filter *filter);

void index_free(struct index_file *index);

#endif
