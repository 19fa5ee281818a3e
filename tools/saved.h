/* SPDX-License-Identifier: MIT
 *
 * Saved filters: reading and writing them, with messages that name the file.
 *
 * A saved filter that cannot be used ends the program with status 2.
 */
#ifndef TAMIS_TOOL_SAVED_H
#define TAMIS_TOOL_SAVED_H

#include "output.h"

#include <tamis/tamis.h>

/* Reads the figures at the beginning of the file; "-" is standard input.  False after fail(). */
bool saved_describe(const char *path, tamis_stats *stats);

/* The filter in the file; "-" is standard input.  NULL after fail(). */
tamis_filter *saved_load(const char *path, uint64_t max_bytes);

/* The same for look-ups only: the file is mapped if it can be.  A mapped file is read as a whole
 * only if `check_all`. */
tamis_filter *saved_map(const char *path, bool check_all);

/* From now on the process ends with a message if a mapped file has become shorter. */
void saved_watch_files(void);

/* Whether processes share the filter in the file, which has been described.  False also if that is
 * unknown, as of standard input. */
bool saved_is_live(const char *path);

/* What is wrong with a file, if anything, and what its header says beside the figures. */
struct saved_report {
  int described; /* the result of reading the figures */
  int checked;   /* that of reading all of the file, if that was possible */
  int error;     /* errno, of TAMIS_EIO */
  bool magic;    /* whether the file begins as a saved filter does; if not, the rest is 0 */
  uint32_t version, hash, growable, stripes;
  uint64_t features, max_bytes;
};

/* Finds this out of a file that is not standard input, without a message. */
void saved_examine(const char *path, tamis_stats *stats, struct saved_report *report);

/* Writes the filter to the output.  False after fail(). */
bool saved_write(struct output *output, const tamis_filter *filter);

#endif
