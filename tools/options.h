/* SPDX-License-Identifier: MIT
 *
 * Options that both commands take, and strict readings of the numbers in them.
 */
#ifndef TAMIS_TOOL_OPTIONS_H
#define TAMIS_TOOL_OPTIONS_H

#include <tamis/tamis.h>

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct shared_options {
  char *command;     /* "tamis dedup": the name that --help shows */
  FILE *nowhere;     /* takes what argp would print after the line about an error */
  unsigned threads;  /* 1 to MAX_THREADS */
  uint64_t capacity; /* distinct lines expected; 0: not said */
  double fpp;        /* 0: not said */
  tamis_kind kind;
  const char *output; /* NULL: standard output */
  bool stats;
  bool quiet;
};

enum { MAX_THREADS = 1024 };
#define DEFAULT_FPP 1e-6
#define MAX_CAPACITY ((uint64_t) 1 << 40)

#define SHARED_OPTIONS_INIT                                \
  {                                                        \
    NULL, NULL, 1, 0, 0.0, TAMIS_BLOOM, NULL, false, false \
  }

/* Parses the options above; its input is a struct shared_options. */
extern const struct argp shared_argp;

/* argp_parse, but an error is one line: argp adds a second one ("Try ..."). */
void parse_command_line(const struct argp *argp, int argc, char **argv,
                        struct shared_options *shared, void *input);

/* Bytes, with K, M, G, T as powers of 1024; ends in usage_error unless all of `text` is such. */
uint64_t parse_memory(const char *option, const char *text);

/* What to create for these options, with capacity 0 when not said: a Bloom filter that keeps to its
 * capacity, since its rate does not survive more; a cuckoo filter that grows, since its does. */
tamis_options shared_filter(const struct shared_options *options);

const char *kind_name(tamis_kind kind);

#endif
