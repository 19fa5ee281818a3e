/* SPDX-License-Identifier: MIT
 *
 * The options that several commands have.
 */
#ifndef TAMIS_TOOL_OPTIONS_H
#define TAMIS_TOOL_OPTIONS_H

#include "keys.h"

#include <tamis/tamis.h>

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct shared_options {
  char **files; /* that the command line names, or other words */
  size_t file_count;
  FILE *discard;     /* for what argp prints after the line about an error */
  unsigned threads;  /* 1 to MAX_THREADS */
  uint64_t capacity; /* expected distinct lines; 0: not given */
  double fpp;        /* 0: not given */
  uint64_t memory;   /* of one filter; 0: not given */
  unsigned filters;  /* that are there at a time, and share what --memory gives */
  tamis_kind kind;
  bool kind_given;
  unsigned window; /* periods; 0: not given */
  bool renews;
  const char *output; /* NULL: standard output */
  bool stats;
  bool quiet;
  struct key_rule keys; /* of the lines */
};

/* At lower rates a counting Bloom filter is refused, or takes many more bits than others do; and so
 * is a large window. */
static inline double default_fpp(const struct shared_options *options)
{
  return options->kind == TAMIS_COUNTING_BLOOM ? 1e-4 : options->window > 0 ? 1e-5 : 1e-6;
}

#define SHARED_OPTIONS_INIT                          \
  {                                                  \
    .threads = 1, .filters = 1, .kind = TAMIS_BLOOM, \
  }

/* Parse the options above, into the struct that parse_command_line() is given: those of the filter, its
 * window, the keys of lines, those of a run over files, --output and --quiet of these, and --help and its
 * like, with the words that are no options. */
extern const struct argp filter_argp;
extern const struct argp window_argp;
extern const struct argp key_argp;
extern const struct argp run_argp;
extern const struct argp output_argp;
extern const struct argp help_argp;

/* argp_parse, but an error is one line, which names the help of the command. */
void parse_command_line(const struct argp *argp, int argc, char **argv,
                        struct shared_options *shared, void *input);

/* The filter to create for these options; its capacity is 0 if not given.  A cuckoo filter grows,
 * since it keeps its rate when it does, and so does a window.  Another Bloom filter is limited to
 * its capacity. */
tamis_options shared_filter(const struct shared_options *options);

const char *kind_name(tamis_kind kind);
const char *kind_word(tamis_kind kind); /* as --kind takes it */

/* The layout of this name; usage_error if there is none. */
tamis_layout parse_layout(const char *text);
const char *layout_name(tamis_layout layout);

#endif
