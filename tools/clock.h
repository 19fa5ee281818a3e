/* SPDX-License-Identifier: MIT
 *
 * Which period of a window runs by the clock.  Processes that share a window number its periods by the
 * time of day.  A window of one process goes on from the period that it is in, by a clock that is never
 * set back.
 *
 * Lines are added after clock_end_periods(), which is called after they were read.  So a window of G
 * periods remembers each of them for G periods after it was read, wherever a thread is stopped: the
 * clock that counts is later than the read, and an add by a later period than that is remembered longer.
 */
#ifndef TAMIS_TOOL_CLOCK_H
#define TAMIS_TOOL_CLOCK_H

#include <tamis/tamis.h>

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* A period in seconds, unless --period is given; and the shortest one for shared windows, so that
 * numbers of periods have less than 36 bits. */
#define DEFAULT_PERIOD 60.0
#define SHORTEST_SHARED 0.1

/* Parses --period; the input is a double, which is less than 0 before. */
extern const struct argp period_argp;

struct clock {
  double period; /* seconds; 0: there is no window */
  bool of_day;
  double begin;   /* of the period `first`; 0 with of_day, as is `first` */
  uint64_t first; /* the one that ran then */
};

/* Begins the clock of a filter, with periods of so many seconds; less than 0: not given.  False after
 * fail(): the filter, of which `name` is the file, has no window, and so it has no period. */
bool clock_begin(struct clock *clock, const tamis_filter *filter, double period, bool of_day,
                 const char *name);

/* The number of the period that runs by the clock. */
uint64_t clock_period(const struct clock *clock);

/* The clock of windows that processes share, for one of which `period` was given, or less than 0. */
struct clock clock_of_day(double period);

/* Whether the window that processes share is in a later period than the one that may begin next by
 * the clock: a clock was wrong, or another --period was given.  It then forgets nothing. */
bool clock_is_behind(const struct clock *clock, const tamis_stats *stats);

#define CLOCK_BEHIND                                                                      \
  "its window is in a period that is still to come by the clock, so it forgets nothing; " \
  "see 'tamis window --help'"

/* Ends the periods of the filter that are over, if there is a window. */
void clock_end_periods(const struct clock *clock, tamis_filter *filter);

#endif
