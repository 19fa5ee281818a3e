/* SPDX-License-Identifier: MIT
 *
 * What the program tells its user: the one line about what went wrong, and figures made readable.
 *
 * A run fails for one reason.  Whoever meets it first records it; the others see it and wind down;
 * main prints it when everything that was decided has been written.
 */
#ifndef TAMIS_TOOL_REPORT_H
#define TAMIS_TOOL_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* Records why the run cannot succeed.  Only the first call of all threads counts. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line for the user beside the result, which does not depend on it. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether fail() was called. */
bool failed(void);

/* Prints what fail() recorded, if anything; the exit status of the program, which is also that of a
 * failure when standard error could not be written. */
int finish(void);

/* The command line is wrong: one line on stderr, exit status 2. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { FIGURE_BYTES = 32 };

/* "1.23 M", "456": a count with three significant digits or more. */
const char *count_figure(char text[FIGURE_BYTES], double count);

/* "1.23 MiB", "456 B". */
const char *bytes_figure(char text[FIGURE_BYTES], double bytes);

/* Seconds on a clock that is never set back. */
double now_seconds(void);

#endif
