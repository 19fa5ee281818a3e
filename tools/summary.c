/* SPDX-License-Identifier: MIT */
#include "summary.h"

#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void summary_row(const char *name, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%-22s ", name);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

void summary_count(const char *name, uint64_t count)
{
  summary_row(name, "%" PRIu64, count);
}

void summary_expected(const char *name, const char *how, double lines)
{
  if (lines < 10)
    summary_row(name, "%s %.2g lines", how, lines);
  else
    summary_row(name, "%s %.0f lines", how, lines);
}

void summary_speed(uint64_t bytes, uint64_t lines, double seconds)
{
  char figure[FIGURE_BYTES];
  summary_row("bytes read", "%" PRIu64 " (%s)", bytes, bytes_figure(figure, (double) bytes));
  summary_row("seconds", "%.3f", seconds);
  if (seconds > 0)
    summary_row("lines per second", "%s", count_figure(figure, (double) lines / seconds));
}

void summary_filter(const struct chain_figures *figures)
{
  char figure[FIGURE_BYTES];
  bytes_figure(figure, (double) figures->bytes);
  if (figures->growths > 0)
    summary_row("filter", "%s after %" PRIu64 " growth step%s", figure, figures->growths,
                figures->growths == 1 ? "" : "s");
  else
    summary_row("filter", "%s in %u level%s", figure, figures->levels,
                figures->levels == 1 ? "" : "s");
}
