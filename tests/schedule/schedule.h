/* SPDX-License-Identifier: MIT
 *
 * Replays one schedule exactly: threads of the library stop at a named point (lib/base/hook.h)
 * until the test lets them go on.  There is no sleeping and no timing: every wait is for an event.
 */
#ifndef TAMIS_TESTS_SCHEDULE_H
#define TAMIS_TESTS_SCHEDULE_H

/* Threads that reach `point` from now on stop there.  There is one such point at a time: threads
 * that have stopped at another one go on. */
void schedule_stop_at(const char *point);

/* The same for the thread alone that is the `n`th to reach `point`; the others pass. */
void schedule_stop_at_nth(const char *point, unsigned n);

/* Lets all stopped threads go on, and stops none from now on. */
void schedule_go(void);

/* The calling thread never stops from now on. */
void schedule_pass_by(void);

/* Waits until `point` has been reached `n` times in all since the last schedule_stop_at, by threads
 * that stopped there or passed; those of schedule_pass_by() do not count. */
void schedule_wait(const char *point, unsigned n);

/* The same, or until `other` has been reached `m` times. */
void schedule_wait_either(const char *point, unsigned n, const char *other, unsigned m);

/* How often `point` has been reached since the last schedule_stop_at. */
unsigned schedule_reached(const char *point);

/* How often a thread has returned from its call, has begun to wait for another one, or has stopped, since
 * the last schedule_stop_at. */
unsigned schedule_rests(void);

/* Waits until that has happened `n` times. */
void schedule_wait_rests(unsigned n);

#endif
