/* SPDX-License-Identifier: MIT */
#include "say.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

double seconds_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

void say(const char *format, ...)
{
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "[%.6f] %s\n", seconds_now(), text);
}

bool may_complain(_Atomic double *last)
{
  double now = seconds_now(), before = atomic_load(last);
  return now - before >= 1 && atomic_compare_exchange_strong(last, &before, now);
}
