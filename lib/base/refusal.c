/* SPDX-License-Identifier: MIT */
#include "base/refusal.h"

#include "base/reals.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tamis__refuse(const struct refusal *why, int result, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  if (why && why->text && why->size) /* clang-tidy 14 overlooks va_start: */
    (void) vsnprintf(why->text, why->size, format, arguments); /* NOLINT(*-valist.Uninitialized) */
  va_end(arguments);
  return result;
}

void tamis__use_a_point(char *number)
{
  static const char digits[] = "0123456789";
  char *at = number + strcspn(number, digits);
  at += strspn(at, digits);
  size_t length = strcspn(at, "0123456789e");
  if (length && at[length]) {
    *at = '.';
    memmove(at + 1, at + length, strlen(at + length) + 1);
  }
}

struct rate_text tamis__rate_text(double rate)
{
  struct rate_text out;
  int digits = 1;
  do
    (void) snprintf(out.text, sizeof out.text, "%.*g", digits++, rate);
  while (digits <= 17 && strtod(out.text, NULL) != rate);
  tamis__use_a_point(out.text);
  return out;
}

/* The least decimal number, of three significant digits, that is not below `rate`. */
static double bound_of(double rate)
{
  char text[40];
  double digits = 2 - floor(real_log(rate) / real_log(10)); /* digits after the point, at least 2 */
  double step = 1 / real_power(10, (unsigned) digits), n = floor(rate / step);
  do
    (void) snprintf(text, sizeof text, "%.3g", n++ * step);
  while (strtod(text, NULL) < rate);
  return strtod(text, NULL);
}

/* Says that no capacity is legal with this fpp.  (If another field is wrong, too, the text names
 * only the capacity, which is 0.) */
static int refuse_all_capacities(const struct refusal *why, const tamis_options *options,
                                 int (*bytes_for)(const tamis_options *, uint64_t *))
{
  tamis_options trial = *options;
  double refused = real_log(options->fpp), legal = real_log(0.5);
  uint64_t bytes;
  trial.capacity = 1;
  trial.fpp = 0.5;
  if (bytes_for(&trial, &bytes) != TAMIS_OK)
    return tamis__refuse(why, TAMIS_EINVAL, "capacity is %" PRIu64 "; it must be at least 1",
                         options->capacity);
  for (unsigned i = 0; i < 40; i++) {
    double middle = refused + (legal - refused) / 2;
    trial.fpp = real_exp(middle);
    *(bytes_for(&trial, &bytes) == TAMIS_OK ? &legal : &refused) = middle;
  }
  legal -= 1e-9; /* more than the bisection's error, which might turn 0.01 into 0.0101 */
  trial.fpp = bound_of(real_exp(legal));
  if (bytes_for(&trial, &bytes) != TAMIS_OK)
    legal += 1e-9;
  return tamis__refuse(
      why, TAMIS_EINVAL, "fpp is %s; with this kind and layout it must be at least %s, and below 1",
      tamis__rate_text(options->fpp).text, tamis__rate_text(bound_of(real_exp(legal))).text);
}

int tamis__refuse_capacity(const struct refusal *why, const tamis_options *options,
                           int (*bytes_for)(const tamis_options *, uint64_t *))
{
  if (!why || !why->text) /* if nobody reads the text, skips the long search */
    return TAMIS_EINVAL;
  tamis_options trial = *options;
  uint64_t fits = 0, beyond = UINT64_C(1) << 62, bytes;
  while (beyond - fits > 1) {
    trial.capacity = fits + (beyond - fits) / 2;
    if (bytes_for(&trial, &bytes) == TAMIS_OK)
      fits = trial.capacity;
    else
      beyond = trial.capacity;
  }
  if (fits == 0)
    return refuse_all_capacities(why, options, bytes_for);
  return tamis__refuse(why, TAMIS_EINVAL,
                       "capacity is %" PRIu64 "; with this kind and this fpp it must be from 1 to "
                       "%" PRIu64,
                       options->capacity, fits);
}

int tamis__refuse_rate(const struct refusal *why, const tamis_options *options, const char *kind,
                       double lowest)
{
  return tamis__refuse(why, TAMIS_EUNSUPPORTED,
                       "fpp is %s; %s for %" PRIu64 " keys needs at least %s, and below 1",
                       tamis__rate_text(options->fpp).text, kind, options->capacity,
                       tamis__rate_text(bound_of(lowest)).text);
}

int tamis__check_max_bytes(const struct refusal *why, const tamis_options *options, uint64_t bytes)
{
  if (bytes > PTRDIFF_MAX)
    return tamis__refuse(why, TAMIS_EINVAL,
                         "capacity is %" PRIu64 "; a filter of %" PRIu64
                         " bytes is larger than the %" PRIu64 " that this machine can address",
                         options->capacity, bytes, (uint64_t) PTRDIFF_MAX);
  if (!options->max_bytes || bytes <= options->max_bytes)
    return TAMIS_OK;
  return tamis__refuse(why, TAMIS_EFULL,
                       "max_bytes is %" PRIu64 "; it must be at least %" PRIu64
                       ", which these options need",
                       options->max_bytes, bytes);
}
