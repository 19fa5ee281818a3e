/* SPDX-License-Identifier: MIT
 *
 * Messages to the user: the line about a failure, and readable figures.
 *
 * A run fails for one reason.  The first thread that meets one records it, and the others then
 * stop.  The reason is printed when every line that was chosen before has been written.
 */
#ifndef TAMIS_TOOL_REPORT_H
#define TAMIS_TOOL_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* Records why the run fails.  Only the first call counts. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a line of information. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints what fail() recorded, if anything: the run goes on, and its status at the end is that of a failure. */
void go_on(void);

/* The status with which failures end the program: 1, unless this has been called. */
void set_failure_status(int status);
int get_failure_status(void);

/* Whether fail() was called, and go_on() was not since. */
bool failed(void);

/* Prints what fail() recorded, if anything; returns the exit status of the program.  It is also
 * that of a failure if standard error could not be written. */
int finish(void);

/* Reports a wrong command line: prints one line and exits with status 2. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { FIGURE_BYTES = 32 };

/* "1.23 M", "456": a count with three significant digits or more. */
const char *count_figure(char text[FIGURE_BYTES], double count);

/* "1.23 M lines", "1 line". */
const char *lines_figure(char text[FIGURE_BYTES], double count);

/* "1.23 MiB", "456 B". */
const char *bytes_figure(char text[FIGURE_BYTES], double bytes);

/* Seconds on a clock that is never set back. */
double now_seconds(void);

/* Since 1970, by the clock that may be set. */
double seconds_of_day(void);

#endif
