/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

static pthread_mutex_t reason_lock = PTHREAD_MUTEX_INITIALIZER;
static char reason[8192]; /* not allocated, as the reason may be a lack of memory */
static atomic_bool reason_set, gone_on;
static atomic_int failure_status = EXIT_FAILED;

/* Prints one line.  A file name in it may hold newlines or escape codes, which are replaced. */
static void print_line(char *text)
{
  for (char *c = text; *c != '\0'; c++)
    if ((unsigned char) *c < ' ' || *c == 0x7f)
      *c = '?';
  fprintf(stderr, "tamis: %s\n", text);
}

void fail(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&reason_lock);
  if (!atomic_load(&reason_set)) {
    vsnprintf(reason, sizeof reason, format, arguments);
    atomic_store(&reason_set, true);
  }
  pthread_mutex_unlock(&reason_lock);
  va_end(arguments);
}

void note(const char *format, ...)
{
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  print_line(text);
}

void set_failure_status(int status)
{
  atomic_store(&failure_status, status);
}

int get_failure_status(void)
{
  return atomic_load(&failure_status);
}

bool failed(void)
{
  return atomic_load(&reason_set);
}

void go_on(void)
{
  if (!failed())
    return;
  print_line(reason);
  atomic_store(&gone_on, true);
  atomic_store(&reason_set, false);
}

int finish(void)
{
  go_on();
  bool good = !atomic_load(&gone_on) && !ferror(stderr); /* a summary may be lost */
  return good ? EXIT_SUCCESS : get_failure_status();
}

_Noreturn void usage_error(const char *format, ...)
{
  char text[8192];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  print_line(text);
  exit(EXIT_USAGE);
}

static const char *figure(char text[FIGURE_BYTES], double value, double step,
                          const char *const units[], unsigned last_unit)
{
  unsigned unit = 0;
  while (value >= step && unit < last_unit) {
    value /= step;
    unit++;
  }
  int decimals = unit == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  snprintf(text, FIGURE_BYTES, "%.*f%s", decimals, value, units[unit]);
  return text;
}

const char *count_figure(char text[FIGURE_BYTES], double count)
{
  static const char *const units[] = {"", " k", " M", " G", " T"};
  return figure(text, count, 1000, units, 4);
}

const char *lines_figure(char text[FIGURE_BYTES], double count)
{
  char number[FIGURE_BYTES / 2];
  snprintf(number, sizeof number, "%s", count_figure(text, count));
  snprintf(text, FIGURE_BYTES, "%s line%s", number, strcmp(number, "1") == 0 ? "" : "s");
  return text;
}

const char *bytes_figure(char text[FIGURE_BYTES], double bytes)
{
  static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  return figure(text, bytes, 1024, units, 4);
}

static double seconds_by(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

double now_seconds(void)
{
  return seconds_by(CLOCK_MONOTONIC);
}

double seconds_of_day(void)
{
  return seconds_by(CLOCK_REALTIME);
}
