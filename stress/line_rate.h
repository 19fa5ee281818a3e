/* SPDX-License-Identifier: MIT
 *
 * The false-positive rate of a Bloom filter, from its bits, and the bits of a key.
 */
#ifndef TAMIS_STRESS_LINE_RATE_H
#define TAMIS_STRESS_LINE_RATE_H

#include "bloom/bloom.h"

/* The rate of one filter, from its bits: a key that is absent is as likely to use any line, and any
 * bits of it.  Little is left to chance in this, as it would be if keys were tried.  Also the
 * standard deviation of what filters with as many bits have.  `load` reads word i of `words`, or the
 * lowest bits of the counters that are not 0. */
double rate_from_bits(const struct bloom_geometry *g, double *deviation,
                      uint64_t (*load)(const void *words, uint64_t i), const void *words);

/* That of a filter of one layer, or of one layer. */
double rate_of_filter(const struct bloom *b, double *deviation);

/* The probes of a key in all sections.  Returns their number. */
enum { MOST_PROBES_OF_KEY = BLOOM_MAX_SECTIONS };
unsigned probes_of_key(const struct bloom_geometry *g, uint64_t mixed,
                       struct bloom_probe out[MOST_PROBES_OF_KEY]);

#endif
