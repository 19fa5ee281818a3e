/* SPDX-License-Identifier: MIT
 *
 * The results of a run: printed tables, CSV with a line for each round, and JSON with the medians
 * and with quantiles of single calls.
 */
#ifndef TAMIS_BENCH_RECORD_H
#define TAMIS_BENCH_RECORD_H

#include "histogram.h"
#include "measure.h"

#include <stdio.h>

/* Opens files of these names; NULL: no such file.  Ends the program if one cannot be written. */
void record_open(const char *csv, const char *json);
void record_experiment(const struct experiment *x);
/* The quantiles that are reported, from the median on; ends with 1, the longest call. */
extern const double parts_shown[];
/* Records the times of single calls that added `keys` keys to a subject created for `from`. */
void record_calls(const char *subject, uint64_t from, uint64_t keys, double fpp,
                  const struct histogram *h);
/* Records a ratio of the table (table.c). */
void record_ratio(const char *what, double value, const char *bound, double limit, bool met);
void record_close(void);

void print_experiment(const struct experiment *x);
/* Prints a line about the machine. */
void print_machine(FILE *to);

/* Opens a file for writing, and closes it.  Both end the program on errors. */
FILE *open_for_writing(const char *name);
void close_written(FILE *file, const char *name);

/* The number of wrong answers in all experiments. */
uint64_t record_wrong(void);

#endif
