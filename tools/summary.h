/* SPDX-License-Identifier: MIT
 *
 * The summary that --stats prints on standard error: a row for each figure.
 */
#ifndef TAMIS_TOOL_SUMMARY_H
#define TAMIS_TOOL_SUMMARY_H

#include "chain.h"
#include "pass.h"

void summary_row(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
void summary_count(const char *name, uint64_t count);

/* A number of lines that is a matter of probability: two digits if it is small. */
void summary_expected(const char *name, const char *how, double lines);

/* What was read in `seconds`, and how fast. */
void summary_speed(uint64_t bytes, uint64_t lines, double seconds);

void summary_filter(const struct chain_figures *figures);

#endif
