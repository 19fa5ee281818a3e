/* SPDX-License-Identifier: MIT
 *
 * On the library with hooks (lib/base/hook.h): threads that pause now and then between the steps of a call,
 * so that calls meet in the middle.  On any other library these do nothing.
 */
#ifndef TAMIS_STRESS_PAUSES_H
#define TAMIS_STRESS_PAUSES_H

#include <stdint.h>

/* Once, before threads start: a pause at each `period`-th place on average, which is 10 at least. */
void pauses_install(unsigned period);

/* The calling thread pauses from here on; in each round oftener at some places. */
void pauses_on(uint64_t seed, uint64_t round);
void pauses_off(void);

#endif
