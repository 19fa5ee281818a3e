/* SPDX-License-Identifier: MIT
 *
 * An index: a saved filter of the keys of each of many files, all in one file.
 *
 *    "tamis index\n" | version | bytes of the head | its checksum | head | filters
 *    head: rule of the keys, seed, rate, number of files; for each file its name, its stamp, the
 *          number of its keys, and where its filter is
 *
 * Numbers are of 64 bits, little-endian.  Each filter is as tamis_save() writes it, but for runs of
 * zeros.  Whatever is in the file, reading it is safe: a head that is not whole is an error, and so is
 * a filter that is not, when it is loaded.
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
  unsigned char *filter; /* saved; NULL: it could not be made, so the file may hold any key */
  uint64_t filter_bytes;
  bool owned; /* the filter was made now; otherwise it is a part of `data` */
};

struct index_file {
  unsigned char *data; /* of the file that was read */
  char *regex;         /* of the rule */
  struct key_rule rule;
  uint64_t seed;
  double fpp;
  struct index_entry *entries;
  size_t count, room;
};

/* Reads an index.  False after fail(), with the status of what cannot be used. */
bool index_read(struct index_file *index, const char *path);

/* Puts an entry at the end, with a copy of the path.  NULL after fail(). */
struct index_entry *index_append(struct index_file *index, const char *path);

/* Writes the index to an output that was opened for it.  False after fail(). */
bool index_write(const struct index_file *index, struct output *output);

/* The filter of an entry; NULL: it is damaged, or there is no memory. */
tamis_filter *index_load(const struct index_entry *entry, int *result);

/* Saves a filter into an entry.  False after fail(). */
bool index_keep(struct index_entry *entry, const tamis_filter *filter);

void index_free(struct index_file *index);

#endif
