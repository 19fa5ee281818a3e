/* SPDX-License-Identifier: MIT */
#include "numbers.h"

#include "report.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "0123456789";

/* The length of a decimal number at the start of `text`; 0 if there is none.  strtold would also
 * accept blanks, signs, "nan", "inf" and hexadecimal numbers. */
static size_t decimal_length(const char *text)
{
  size_t whole = strspn(text, digits), length = whole;
  if (text[length] == '.') {
    size_t fraction = strspn(text + length + 1, digits);
    if (whole + fraction == 0)
      return 0;
    length += 1 + fraction;
  }
  if (length > 0 && (text[length] == 'e' || text[length] == 'E')) {
    size_t sign = text[length + 1] == '+' || text[length + 1] == '-';
    size_t exponent = strspn(text + length + 1 + sign, digits);
    length += exponent > 0 ? 1 + sign + exponent : 0;
  }
  return length;
}

/* Reads a decimal number at *text, and moves *text behind it.  False: there is none. */
static bool read_decimal(const char **text, long double *value)
{
  size_t length = decimal_length(*text);
  if (length == 0)
    return false;
  *value = strtold(*text, NULL);
  *text += length;
  return true;
}

/* If *text is the n-th letter of "KMGT", in either case, multiplies *value by base^n and moves
 * *text behind it.  Returns n, or 0. */
static int scale_by_suffix(const char **text, long double base, long double *value)
{
  static const char suffixes[] = "KMGT";
  const char *letter = **text == '\0' ? NULL : strchr(suffixes, toupper((unsigned char) **text));
  if (letter == NULL)
    return 0;
  int power = (int) (letter - suffixes) + 1;
  *value *= powl(base, power);
  ++*text;
  return power;
}

uint64_t parse_capacity(const char *option, const char *text)
{
  const char *rest = text;
  long double value = 0;
  bool good = read_decimal(&rest, &value);
  scale_by_suffix(&rest, 1000, &value);
  /* 1.3M is a whole number, although 1.3 is not exact in binary. */
  long double whole = roundl(value);
  if (!good || *rest != '\0' || !(whole >= 1) || !(whole <= (long double) MAX_CAPACITY) ||
      fabsl(value - whole) > 1e-6L)
    usage_error("%s: '%s' is not a whole number of lines from 1 to 2^40, such as 500000, 1.5M or "
                "2e9",
                option, text);
  return (uint64_t) whole;
}

uint64_t parse_memory(const char *option, const char *text)
{
  const char *rest = text;
  long double value = 0;
  bool good = read_decimal(&rest, &value);
  int power = scale_by_suffix(&rest, 1024, &value);
  bool unit = *rest == '\0' || strcmp(rest, "B") == 0 || (power > 0 && strcmp(rest, "iB") == 0);
  if (!good || !unit || !(value >= 1) || !(value < 0x1p64L))
    usage_error("%s: '%s' is not a size in bytes, such as 300000, 1.5M or 2GiB", option, text);
  return (uint64_t) value;
}

double parse_fpp(const char *option, const char *text)
{
  const char *rest = text;
  long double value = 0;
  bool good = read_decimal(&rest, &value) && *rest == '\0';
  if (!good || !((double) value > 0 && (double) value < 1))
    usage_error("%s: '%s' is not a rate above 0 and below 1, such as 0.001 or 1e-6", option, text);
  return (double) value;
}

uint64_t parse_seed(const char *option, const char *text)
{
  bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const char *number = hexadecimal ? text + 2 : text;
  size_t length = strspn(number, hexadecimal ? "0123456789abcdefABCDEF" : digits);
  errno = 0;
  unsigned long long value = strtoull(number, NULL, hexadecimal ? 16 : 10);
  if (length == 0 || number[length] != '\0' || errno == ERANGE || value == 0)
    usage_error("%s: '%s' is not a whole number above 0 and below 2^64", option, text);
  return value;
}

double parse_seconds(const char *option, const char *text)
{
  const char *rest = text;
  long double value = 0;
  if (!read_decimal(&rest, &value) || *rest != '\0' || !(value <= 1e9L))
    usage_error("%s: '%s' is not a number of seconds, such as 60 or 0.5", option, text);
  return (double) value;
}

static unsigned parse_whole(const char *option, const char *text, unsigned least, unsigned most)
{
  size_t length = strspn(text, digits);
  unsigned long value = strtoul(text, NULL, 10); /* the greatest one if it does not fit */
  if (length == 0 || text[length] != '\0' || value < least || value > most)
    usage_error("%s: '%s' is not a number from %u to %u", option, text, least, most);
  return (unsigned) value;
}

unsigned parse_field(const char *option, const char *text)
{
  return parse_whole(option, text, 1, UINT_MAX);
}

unsigned parse_window(const char *option, const char *text)
{
  return parse_whole(option, text, 1, MAX_WINDOW);
}

unsigned parse_threads(const char *option, const char *text)
{
  return parse_whole(option, text, 0, MAX_THREADS);
}
