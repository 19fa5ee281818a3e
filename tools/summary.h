/* SPDX-License-Identifier: MIT
 *
 * The summary that --stats prints on standard error, with a row for each figure.
 */
#ifndef TAMIS_TOOL_SUMMARY_H
#define TAMIS_TOOL_SUMMARY_H

#include "chain.h"
#include "pass.h"

void summary_row(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
void summary_count(const char *name, uint64_t count);

/* Prints an expected number of lines, a small one with two digits. */
void summary_expected(const char *name, const char *how, double lines);

/* Prints how much was read, in what time, and how fast. */
void summary_speed(uint64_t bytes, uint64_t lines, double seconds);

void summary_filter(const struct chain_figures *figures);

#endif
