/* SPDX-License-Identifier: MIT
 *
 * The false-positive rate of one line of a Bloom filter, from its bits; not in the classic layout.
 */
#ifndef TAMIS_STRESS_LINE_RATE_H
#define TAMIS_STRESS_LINE_RATE_H

#include "bloom/geometry.h"

/* The part of all keys in a line that match its `words`.  In the blocked layout, all first words,
 * spreads and rotations are tried, but only 16 of the patterns: other ones for each number `line`,
 * so that the average over many lines is exact. */
double line_rate(struct bloom_shape shape, const uint64_t words[LINE_WORDS], uint64_t line);

#endif
