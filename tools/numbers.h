/* SPDX-License-Identifier: MIT
 *
 * Strict parsing of the numbers on the command line.  A number may have a fraction and an exponent
 * (1.5, 2e6) and then a suffix.  Each function calls usage_error if `text` is anything else.
 */
#ifndef TAMIS_TOOL_NUMBERS_H
#define TAMIS_TOOL_NUMBERS_H

#include <stdint.h>

enum { MAX_THREADS = 1024, MAX_WINDOW = 64 };
#define MAX_CAPACITY ((uint64_t) 1 << 40)

/* A number of lines up to MAX_CAPACITY, with k, M, G, T as powers of 1000. */
uint64_t parse_capacity(const char *option, const char *text);

/* A number of bytes, with K, M, G, T as powers of 1024.  B or iB may follow.  A fraction of a byte
 * is dropped. */
uint64_t parse_memory(const char *option, const char *text);

/* A rate above 0 and below 1. */
double parse_fpp(const char *option, const char *text);

/* A whole number above 0 and below 2^64, also hexadecimal after 0x. */
uint64_t parse_seed(const char *option, const char *text);

/* A number of seconds from 0 to 10^9. */
double parse_seconds(const char *option, const char *text);

/* A number of a field, from 1 on. */
unsigned parse_field(const char *option, const char *text);

/* A number of periods from 1 to MAX_WINDOW. */
unsigned parse_window(const char *option, const char *text);

/* A whole number from 0 to MAX_THREADS. */
unsigned parse_threads(const char *option, const char *text);

#endif
