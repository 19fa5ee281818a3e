/* SPDX-License-Identifier: MIT
 *
 * Replays one schedule exactly: threads of the library stop at a named place (lib/base/hook.h) until the
 * test lets them go.  No sleeping, no timing: every wait is for an event.
 */
#ifndef TAMIS_TESTS_SCHEDULE_H
#define TAMIS_TESTS_SCHEDULE_H

/* Threads that reach `place` from now on stop there.  One place at a time: those that stand at another one
 * go on. */
void schedule_stop_at(const char *place);

/* Lets all stopped threads go, and stops no more. */
void schedule_go(void);

/* The calling thread stops nowhere from now on. */
void schedule_pass_by(void);

/* Waits until `n` threads in all have reached `place` since the last schedule_stop_at, whether they
 * stopped there or not. */
void schedule_wait(const char *place, unsigned n);

/* The same, or until `m` have reached `other`. */
void schedule_wait_either(const char *place, unsigned n, const char *other, unsigned m);

#endif
