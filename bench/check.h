/* SPDX-License-Identifier: MIT
 *
 * Whether every subject gives right answers: a figure for a call that does nothing is worth
 * nothing.
 */
#ifndef TAMIS_BENCH_CHECK_H
#define TAMIS_BENCH_CHECK_H

#include <stdint.h>

/* Prints what is wrong; returns how much. */
unsigned check_subjects(uint64_t keys);

#endif
