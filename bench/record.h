/* SPDX-License-Identifier: MIT
 *
 * What a run leaves behind: tables for people, CSV with a line for each round, JSON with the
 * medians.
 */
#ifndef TAMIS_BENCH_RECORD_H
#define TAMIS_BENCH_RECORD_H

#include "measure.h"

/* Names of files, or NULL.  Ends the program if one cannot be written. */
void record_open(const char *csv, const char *json);
void record_experiment(const struct experiment *x);
/* A ratio of the table (table.c). */
void record_ratio(const char *what, double value, const char *bound, double limit, bool met);
void record_close(void);

void print_experiment(const struct experiment *x);

/* How many answers were wrong in all. */
uint64_t record_wrong(void);

#endif
