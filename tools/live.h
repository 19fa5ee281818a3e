/* SPDX-License-Identifier: MIT
 *
 * Filters that several processes share (tamis_open_shared): those of --shared, with messages that
 * name the file.
 */
#ifndef TAMIS_TOOL_LIVE_H
#define TAMIS_TOOL_LIVE_H

#include "inputs.h"
#include "options.h"

#include <sys/stat.h>

struct live_options {
  const char *path; /* NULL: nothing is shared */
  tamis_layout layout;
  bool layout_given;
  uint64_t seed; /* of a new filter; 0: a random one */
  double period; /* of a window, in seconds; less than 0: not given */
};

#define LIVE_OPTIONS_INIT \
  {                       \
    .period = -1          \
  }

/* Parses --shared, --layout and --period; the input is a struct live_options. */
extern const struct argp live_argp;

/* usage_error() for options that a shared filter cannot have. */
void live_check(const struct live_options *live, const struct shared_options *options);

/* Opens the filter in the file, or creates it, for the lines of these inputs if no capacity is
 * given.  Options that are given, and are not those of the file, are an error.  NULL after fail().
 * From then on the process ends with a message if the file is made shorter. */
tamis_filter *live_open(const struct live_options *live, const struct shared_options *options,
                        const struct inputs *inputs);

/* Opens what the file has, which must exist.  NULL after fail(). */
tamis_filter *live_open_existing(const char *path);

/* Waits until the disk has what has been added.  False after fail(). */
bool live_sync(const struct live_options *live, tamis_filter *filter);

#endif
