/* SPDX-License-Identifier: MIT
 *
 * Lines on stderr, each with the time of CLOCK_MONOTONIC in seconds.
 */
#ifndef CONSUMERS_SAY_H
#define CONSUMERS_SAY_H

#include <stdbool.h>

double seconds_now(void);

/* Writes one line, whole, whatever other threads write. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether a complaint may be written now: once a second for each `last`, which begins as 0.  For
 * complaints that would otherwise come with each message. */
bool may_complain(_Atomic double *last);

#endif /* CONSUMERS_SAY_H */
