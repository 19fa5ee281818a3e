/* SPDX-License-Identifier: MIT
 *
 * Threads that pause now and then between the steps of a call, so that calls overlap in the middle.
 * This takes the library with hooks (lib/base/hook.h); with any other one these functions do
 * nothing.
 */
#ifndef TAMIS_STRESS_PAUSES_H
#define TAMIS_STRESS_PAUSES_H

#include <stdint.h>

/* Makes threads pause at one hook in `period` on average, which is 10 at least.  Of the pauses, one
 * in `one_long_in` takes longer than a grace period; 0: none.  To be called once, before threads
 * start. */
void pauses_install(unsigned period, unsigned one_long_in);

/* Begins and ends the pauses of the calling thread.  In each round it pauses more often at some
 * hooks. */
void pauses_on(uint64_t seed, uint64_t round);
void pauses_off(void);

#endif
