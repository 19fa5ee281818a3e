/* SPDX-License-Identifier: MIT
 *
 * What a run leaves behind: tables for people, CSV with a line for each round, JSON with the
 * medians, and quantiles of single calls.
 */
#ifndef TAMIS_BENCH_RECORD_H
#define TAMIS_BENCH_RECORD_H

#include "histogram.h"
#include "measure.h"

#include <stdio.h>

/* Names of files, or NULL.  Ends the program if one cannot be written. */
void record_open(const char *csv, const char *json);
void record_experiment(const struct experiment *x);
/* The parts of which quantiles are shown; ends with 1, the longest call. */
extern const double parts_shown[];
/* How long the single calls took that added `keys` keys to what was made for `from`. */
void record_calls(const char *subject, uint64_t from, uint64_t keys, double fpp,
                  const struct histogram *h);
/* A ratio of the table (table.c). */
void record_ratio(const char *what, double value, const char *bound, double limit, bool met);
void record_close(void);

void print_experiment(const struct experiment *x);
/* The machine in one line. */
void print_machine(FILE *to);

/* How many answers were wrong in all. */
uint64_t record_wrong(void);

#endif
