/* SPDX-License-Identifier: MIT
 *
 * Layer 0: says in words why options are refused, for tamis_options_check(): the name of a field,
 * its value, and the values that are allowed.
 */
#ifndef TAMIS_LIB_REFUSAL_H
#define TAMIS_LIB_REFUSAL_H

#include "tamis/tamis.h"

/* Where the reason is written.  If a pointer to this struct is NULL, no reason is wanted. */
struct refusal {
  char *text; /* NULL: no reason is wanted */
  size_t size;
};

/* Writes the reason to why->text like snprintf(), at most why->size bytes, and returns `result`. */
int tamis__refuse(const struct refusal *why, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* tamis__refuse_capacity() finds the largest legal capacity by calls of the kind's `bytes_for`. */
int tamis__refuse_capacity(const struct refusal *why, const tamis_options *options,
                           int (*bytes_for)(const tamis_options *, uint64_t *));
int tamis__refuse_rate(const struct refusal *why, const tamis_options *options, const char *kind,
                       double lowest);
/* Returns TAMIS_EFULL if `bytes` exceeds max_bytes, TAMIS_EINVAL if `bytes` exceeds PTRDIFF_MAX (2
 * GiB on a 32-bit machine), otherwise TAMIS_OK. */
int tamis__check_max_bytes(const struct refusal *why, const tamis_options *options, uint64_t bytes);

/* Replaces the locale's decimal point, which can have several bytes, by a dot. */
void tamis__use_a_point(char *number);

/* A rate as text: the shortest decimal number that reads back as the same value. */
struct rate_text {
  char text[40];
};
struct rate_text tamis__rate_text(double rate);

#endif
