/* SPDX-License-Identifier: MIT */
#include "summary.h"

#include "report.h"

#include <inttypes.h>
#include <math.h>
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

void summary_expected(const char *name, const char *how, double lines, uint64_t most)
{
  lines = fmin(lines, (double) most);
  if (lines < 10)
    summary_row(name, "%s %.2g lines", how, lines);
  else
    summary_row(name, "%s %.0f lines", how, lines);
}

/* The part of the bits from which the library estimates the keys: docs/internals/bloom.md for a union, and
 * tamis_stats.bits_set for a filter that counts. */
static double counted_part(const tamis_stats *stats)
{
  const bool counters = stats->kind == TAMIS_COUNTING_BLOOM;
  const double bits = (double) stats->bits, keys = (double) stats->count;
  bool few =
      counters ? (double) stats->bits_set < bits / 16 : keys * stats->bits_per_key < bits / 64;
  double counted = counters ? (few ? 0x1p25 : 0x1p21) : few ? bits : 0x1p24;
  return fmin(1, counted / bits);
}

/* The variance of the number of bits, or of counters, that are set by so many keys, whose bits
 * coincide: docs/internals/bloom.md ("Similarity"). */
static double variance_of_bits(const tamis_stats *stats, double keys)
{
  const bool counters = stats->kind == TAMIS_COUNTING_BLOOM;
  double m = (double) stats->bits / (counters ? 4 : 1), k = stats->bits_per_key, x = k * keys / m,
         block = counters                                ? 128
                 : stats->layout == TAMIS_LAYOUT_BLOCKED ? 512
                 : stats->layout == TAMIS_LAYOUT_WORD    ? 64
                                                         : m,
         in_block = k / block * x,
         of_one_key = stats->layout == TAMIS_LAYOUT_WORD ? k * (k - 1) / 2 / block : 0;
  return m * (expm1(x) - x + block * (expm1(in_block) - in_block)) + keys * of_one_key;
}

/* Of a number of keys of which so many are estimated from the bits, and the others are certain. */
static double deviation(const tamis_stats *stats, double keys, double estimated)
{
  double k = stats->bits_per_key, part = counted_part(stats);
  double bits = variance_of_bits(stats, keys) - variance_of_bits(stats, keys - estimated);
  return sqrt(bits / (k * k) + estimated * (1 - part) / part);
}

const char *keys_figure(char text[KEYS_BYTES], const tamis_stats *stats)
{
  char figure[FIGURE_BYTES];
  bool counters = stats->kind == TAMIS_COUNTING_BLOOM;
  double keys = counters ? stats->estimated_count : (double) stats->count;
  double estimated = counters ? keys : (double) stats->united_count;
  bool exact = estimated == 0, twice = !exact && stats->layers > 1;
  int length = snprintf(text, KEYS_BYTES, "%s%.0f (%s)",
                        exact   ? ""
                        : twice ? "at most about "
                                : "about ",
                        keys, count_figure(figure, keys));
  if (!exact)
    snprintf(text + length, KEYS_BYTES - (size_t) length, ", standard deviation %.0f",
             ceil(deviation(stats, keys, estimated)));
  return text;
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
