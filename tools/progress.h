/* SPDX-License-Identifier: MIT
 *
 * Counters of the work done so far, and the progress line that shows them on a terminal.
 */
#ifndef TAMIS_TOOL_PROGRESS_H
#define TAMIS_TOOL_PROGRESS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Erases the line that the cursor is in. */
#define PROGRESS_ERASE "\r\033[K"

/* The counters of one worker.  They have a cache line to themselves, so the line stays in the
 * worker's cache. */
struct counters {
  alignas(64) _Atomic uint64_t bytes;
  _Atomic uint64_t lines;
  _Atomic uint64_t chosen;
  _Atomic uint64_t keyless;
};

struct tally {
  uint64_t bytes;
  uint64_t lines;
  uint64_t chosen;
  uint64_t keyless; /* lines without a key */
};

struct progress {
  const char *label;       /* "dedup" */
  const char *chosen_name; /* "written"; NULL: not shown */
  const char *other_name;  /* "duplicates": lines not chosen; NULL: not shown */
  uint64_t bytes_expected; /* 0: unknown */
  double start;
  bool shown;
};

/* Adds to a worker's own counters.  Relaxed: the figures are only displayed, and the final ones are
 * read after the worker has been joined. */
void counters_add(struct counters *own, const struct tally *more);

struct tally counters_sum(const struct counters *counters, size_t count);

/* Whether to draw a progress line: on a terminal, unless `quiet`. */
bool progress_wanted(bool quiet);

void progress_draw(struct progress *progress, const struct tally *done);
void progress_clear(struct progress *progress);

#endif
