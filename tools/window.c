/* SPDX-License-Identifier: MIT
 *
 * tamis window: numbers the running period of a window that processes share by the clock.
 */
#include "clock.h"
#include "commands.h"
#include "live.h"
#include "options.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

struct window_options {
  struct shared_options shared;
  char *path;
  double period; /* seconds; less than 0: not given */
};

static const struct argp_child children[] = {
    {&help_argp, 0, NULL, 0}, {&period_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct window_options *options = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[1] = &options->period;
    return 0;
  case ARGP_KEY_ARG:
    if (options->path != NULL)
      usage_error("window takes one file; see 'tamis window --help'");
    options->path = argument;
    return 0;
  case ARGP_KEY_NO_ARGS:
    usage_error("window takes a file; see 'tamis window --help'");
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp window_command_argp = {
    NULL,
    parse,
    "FILE",
    "Correct the number of the running period of a window that processes share.\v"
    "The periods of a shared window are numbered by the time of day, and no period ends "
    "before its time.  If the clock of one process was wrong once, or one run had another "
    "--period, the number may be that of a future period.  The window then forgets "
    "nothing, and refuses new lines when it is full.  'tamis info' shows this.  This "
    "command sets the number by the clock.  No line is forgotten: each keeps its age.  "
    "Other processes may use FILE meanwhile.\n\n"
    "Examples:\n"
    "  tamis info --period 300 recent\n"
    "  tamis window --period 300 recent",
    children,
    NULL,
    NULL};

static void run(const struct window_options *options, tamis_filter *filter)
{
  struct clock clock;
  tamis_stats before = TAMIS_STATS_INIT;
  if (!clock_begin(&clock, filter, options->period, true, options->path))
    return;
  if (clock.period == 0) {
    fail("'%s' has no window", options->path);
    return;
  }
  (void) tamis_get_stats(filter, &before);
  uint64_t period = clock_period(&clock);
  int result = tamis_set_period(filter, period);
  if (result != TAMIS_OK)
    fail("cannot change '%s': %s", options->path, tamis_strerror(result));
  else
    printf("period        %" PRIu64 ", was %" PRIu64 "\n", period, before.period);
}

int window_main(int argc, char **argv)
{
  struct window_options options = {.shared = SHARED_OPTIONS_INIT, .period = -1};
  parse_command_line(&window_command_argp, argc, argv, &options.shared, &options);
  if (options.period >= 0 && options.period < SHORTEST_SHARED)
    usage_error("--period: a period has %g seconds or more", SHORTEST_SHARED);
  tamis_filter *filter = live_open_existing(options.path);
  if (filter != NULL)
    run(&options, filter);
  tamis_destroy(filter);
  return finish();
}
