/* SPDX-License-Identifier: MIT */
#include "clock.h"

#include "numbers.h"
#include "report.h"

enum { KEY_PERIOD = 0x400 };

static error_t parse(int key, char *argument, struct argp_state *state)
{
  double *period = state->input;
  if (key != KEY_PERIOD)
    return ARGP_ERR_UNKNOWN;
  *period = parse_seconds("--period", argument);
  if (*period == 0)
    usage_error("--period: 0 is too short");
  return 0;
}

static const struct argp_option entries[] = {
    {"period", KEY_PERIOD, "SECONDS", 0, "Length of a period of a window (default 60)", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

const struct argp period_argp = {entries, parse, NULL, NULL, NULL, NULL, NULL};

struct clock clock_of_day(double period)
{
  return (struct clock){.period = period < 0 ? DEFAULT_PERIOD : period, .of_day = true};
}

bool clock_begin(struct clock *clock, const tamis_filter *filter, double period, bool of_day,
                 const char *name)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  (void) tamis_get_stats(filter, &stats);
  *clock = (struct clock){.period = 0};
  if (stats.parts > 1) {
    *clock = clock_of_day(period);
    clock->of_day = of_day;
    clock->begin = of_day ? 0 : now_seconds();
    clock->first = of_day ? 0 : stats.period;
  } else if (period >= 0) {
    fail("'%s' has no window, so it has no --period", name);
    return false;
  }
  return true;
}

uint64_t clock_period(const struct clock *clock)
{
  double now = clock->of_day ? seconds_of_day() : now_seconds();
  return clock->first + (uint64_t) ((now - clock->begin) / clock->period);
}

bool clock_is_behind(const struct clock *clock, const tamis_stats *stats)
{
  return clock->period > 0 && clock->of_day && stats->period > clock_period(clock) + 1;
}

void clock_end_periods(const struct clock *clock, tamis_filter *filter)
{
  if (clock->period > 0)
    (void) tamis_advance_to(filter, clock_period(clock));
}
