/* SPDX-License-Identifier: MIT
 *
 * What has been done so far, counted by the workers, and the line on a terminal that shows it.
 */
#ifndef TAMIS_TOOL_PROGRESS_H
#define TAMIS_TOOL_PROGRESS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One worker's; alone on its cache line, so that counting costs a store in the own cache. */
struct counters {
  alignas(64) _Atomic uint64_t bytes;
  _Atomic uint64_t lines;
  _Atomic uint64_t chosen;
};

struct tally {
  uint64_t bytes;
  uint64_t lines;
  uint64_t chosen;
};

struct progress {
  const char *label;       /* "dedup" */
  const char *chosen_name; /* "written"; NULL: not shown */
  const char *other_name;  /* "duplicates": lines not chosen; NULL: not shown */
  uint64_t bytes_expected; /* 0: unknown */
  double start;
  bool shown;
};

/* Adds to a worker's own counters.  Relaxed: the figures are for looking at, and the final ones
 * are read after the worker has been joined. */
void counters_add(struct counters *own, uint64_t bytes, uint64_t lines, uint64_t chosen);

struct tally counters_sum(const struct counters *counters, size_t count);

/* Whether a line may be drawn at all. */
bool progress_wanted(bool quiet);

void progress_draw(struct progress *progress, const struct tally *done);
void progress_clear(struct progress *progress);

#endif
