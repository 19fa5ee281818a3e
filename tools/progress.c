/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include "interrupt.h"
#include "report.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Only the worker writes its counters, so no atomic read-modify-write is needed. */
static void add(_Atomic uint64_t *counter, uint64_t amount)
{
  uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
  atomic_store_explicit(counter, before + amount, memory_order_relaxed);
}

void counters_add(struct counters *own, const struct tally *more)
{
  add(&own->bytes, more->bytes);
  add(&own->lines, more->lines);
  add(&own->chosen, more->chosen);
  add(&own->keyless, more->keyless);
}

struct tally counters_sum(const struct counters *counters, size_t count)
{
  struct tally sum = {0};
  for (size_t i = 0; i < count; i++) {
    sum.bytes += atomic_load_explicit(&counters[i].bytes, memory_order_relaxed);
    sum.lines += atomic_load_explicit(&counters[i].lines, memory_order_relaxed);
    sum.chosen += atomic_load_explicit(&counters[i].chosen, memory_order_relaxed);
    sum.keyless += atomic_load_explicit(&counters[i].keyless, memory_order_relaxed);
  }
  return sum;
}

bool progress_wanted(bool quiet)
{
  return !quiet && isatty(STDERR_FILENO) == 1;
}

/* One column less than the terminal has, as some terminals wrap after the last one. */
static int columns(void)
{
  struct winsize size;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
    return 79;
  return size.ws_col - 1;
}

static size_t append_part(char *line, size_t size, size_t used, const char *before,
                          const char *figure, const char *after)
{
  int more = snprintf(line + used, size - used, "%s%s%s", before, figure, after);
  return more < 0 ? used : used + (size_t) more < size ? used + (size_t) more : size - 1;
}

static size_t append_share(char *line, size_t size, size_t used, const struct progress *p,
                           const struct tally *done, double elapsed)
{
  char text[2 * FIGURE_BYTES], total[FIGURE_BYTES];
  double share = (double) done->bytes / (double) p->bytes_expected;
  if (share > 1)
    share = 1; /* the file has grown */
  snprintf(text, sizeof text, " of %s (%.0f%%)", bytes_figure(total, (double) p->bytes_expected),
           100 * share);
  used = append_part(line, size, used, text, "", "");
  if (share <= 0)
    return used;
  snprintf(text, sizeof text, "%.0f", elapsed / share - elapsed);
  return append_part(line, size, used, ", ", text, " s left");
}

void progress_draw(struct progress *p, const struct tally *done)
{
  char line[256], figure[FIGURE_BYTES];
  double elapsed = now_seconds() - p->start;
  size_t used =
      append_part(line, sizeof line, 0, p->label, ": ", bytes_figure(figure, (double) done->bytes));
  if (p->bytes_expected > 0)
    used = append_share(line, sizeof line, used, p, done, elapsed);
  if (elapsed > 0)
    used = append_part(line, sizeof line, used, ", ",
                       count_figure(figure, (double) done->lines / elapsed), " lines/s");
  if (p->chosen_name != NULL)
    used = append_part(line, sizeof line, used, ", ", count_figure(figure, (double) done->chosen),
                       p->chosen_name);
  if (p->other_name != NULL)
    append_part(line, sizeof line, used, ", ",
                count_figure(figure, (double) (done->lines - done->chosen)), p->other_name);
  interrupt_set_drawn(true);
  fprintf(stderr, "\r%.*s\033[K", columns(), line);
  fflush(stderr);
  p->shown = true;
}

void progress_clear(struct progress *p)
{
  if (!p->shown)
    return;
  fputs(PROGRESS_ERASE, stderr);
  fflush(stderr);
  interrupt_set_drawn(false);
  p->shown = false;
}
