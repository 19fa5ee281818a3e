/* SPDX-License-Identifier: MIT
 *
 * Checks that every subject gives right answers: the speed of a call that does nothing means
 * nothing.
 */
#ifndef TAMIS_BENCH_CHECK_H
#define TAMIS_BENCH_CHECK_H

#include <stdint.h>

/* Prints what is wrong; returns the number of wrong answers. */
unsigned check_subjects(uint64_t keys);

#endif
