/* SPDX-License-Identifier: MIT
 *
 * The summary that --stats prints on standard error, with a row for each figure.
 */
#ifndef TAMIS_TOOL_SUMMARY_H
#define TAMIS_TOOL_SUMMARY_H

#include "chain.h"
#include "pass.h"
#include "report.h"

void summary_row(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
void summary_count(const char *name, uint64_t count);

/* Prints an expected number of lines, a small one with two digits; it is one of `most` lines. */
void summary_expected(const char *name, const char *how, double lines, uint64_t most);

/* "10000 (10.0 k)", or "about 15000 (15.0 k), standard deviation 12": the distinct keys of a filter.
 * Of a cuckoo filter it is the number of copies. */
enum { KEYS_BYTES = 4 * FIGURE_BYTES };
const char *keys_figure(char text[KEYS_BYTES], const tamis_stats *stats);

/* Prints how much was read, in what time, and how fast. */
void summary_speed(uint64_t bytes, uint64_t lines, double seconds);

void summary_filter(const struct chain_figures *figures);

#endif
