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

/* Writes the filter to the output.  False after fail(). */
bool saved_write(struct output *output, const tamis_filter *filter);

#endif
