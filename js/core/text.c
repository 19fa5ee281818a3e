/* SPDX-License-Identifier: MIT
 *
 * The functions of the C library that turn numbers into text and back, as far as the library uses them.  Those of
 * wasi-libc take as much room as a kind of filter.  Numbers with a point are JavaScript's matter (src/core.js).
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMPORT(name) __attribute__((import_module("tamis"), import_name(#name)))

/* Writes a number as "%.*g" does, at most 32 bytes, and returns how many. */
IMPORT(format) size_t core_format(double number, int digits, char *to);
IMPORT(parse) double core_parse(const char *from, size_t size);

/* Where text goes, of which as much is kept as there is room for, with a 0 at the end. */
struct out {
  char *to;
  size_t room, length;
};

static void put(struct out *out, const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++, out->length++)
    if (out->length + 1 < out->room)
      out->to[out->length] = text[i];
}

static void put_number(struct out *out, uint64_t number, unsigned base, size_t least)
{
  char digits[24];
  size_t at = sizeof digits;
  do
    digits[--at] = "0123456789abcdef"[number % base];
  while ((number /= base) || sizeof digits - at < least);
  put(out, digits + at, sizeof digits - at);
}

static void put_signed(struct out *out, int64_t number)
{
  if (number < 0)
    put(out, "-", 1);
  put_number(out, number < 0 ? -(uint64_t) number : (uint64_t) number, 10, 1);
}

static void put_real(struct out *out, double number, int digits)
{
  char text[32];
  put(out, text, core_format(number, digits, text));
}

/* Puts one conversion, which follows a %, and returns what comes after it. */
static const char *convert(struct out *out, const char *format, va_list *arguments)
{
  int precision = 6;
  size_t least = 1;
  unsigned longs = 0; /* a size_t and a long are as long as an int */
  if (format[0] == '0')
    least = (size_t) format[1] - '0', format += 2;
  if (format[0] == '.') {
    precision = format[1] == '*' ? va_arg(*arguments, int) : format[1] - '0';
    format += 2;
  }
  for (; *format == 'l' || *format == 'z'; format++)
    longs += *format == 'l';
  if (*format == 's') {
    const char *text = va_arg(*arguments, const char *);
    put(out, text, strlen(text));
  } else if (*format == 'd')
    put_signed(out, va_arg(*arguments, int));
  else if (*format == 'u' || *format == 'x')
    put_number(out,
               longs == 2 ? va_arg(*arguments, unsigned long long) : va_arg(*arguments, unsigned),
               *format == 'x' ? 16 : 10, least);
  else if (*format == 'g')
    put_real(out, va_arg(*arguments, double), precision);
  else
    put(out, format, 1);
  return format + 1;
}

int vsnprintf(char *to, size_t size, const char *format, va_list arguments)
{
  struct out out = {to, size, 0};
  va_list copy;
  va_copy(copy, arguments);
  while (*format)
    if (*format == '%')
      format = convert(&out, format + 1, &copy);
    else
      put(&out, format++, 1);
  va_end(copy);
  if (size)
    to[out.length < size ? out.length : size - 1] = '\0';
  return (int) out.length;
}

int snprintf(char *to, size_t size, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(to, size, format, arguments);
  va_end(arguments);
  return length;
}

/* All of the text is a number. */
double strtod(const char *text, char **end)
{
  size_t size = strlen(text);
  if (end)
    *end = (char *) text + size;
  return core_parse(text, size);
}

/* Nobody else runs. */
int sched_yield(void)
{
  return 0;
}
