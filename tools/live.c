/* SPDX-License-Identifier: MIT */
#include "live.h"

#include "access.h"
#include "clock.h"
#include "commands.h"
#include "estimate.h"
#include "interrupt.h"
#include "output.h"
#include "report.h"
#include "saved.h"

#include <errno.h>
#include <string.h>

enum {
  KEY_SHARED = 0x300,
  LEAST_CAPACITY = 1000000, /* as other processes bring lines, too */
  ROOM =
      128,  /* times the bytes of the capacity: at rates up to 0.001, for 64 times as many lines */
  TRIES = 8 /* as somebody may create and remove the file each time */
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct live_options *live = state->input;
  switch (key) {
  case KEY_SHARED:
    live->path = argument;
    return 0;
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &live->period;
    return 0;
  case 'l':
    live->layout = parse_layout(argument);
    live->layout_given = true;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option entries[] = {
    {"shared", KEY_SHARED, "FILE", 0,
     "Use the filter in FILE, which other processes may use and change at the same time", 1},
    {"layout", 'l', "LAYOUT", 0,
     "Layout of a Bloom filter: blocked (the default), classic (smaller), or word (larger, and "
     "faster)",
     1},
    {NULL, 0, NULL, 0, NULL, 0}};
static const struct argp_child children[] = {{&period_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp live_argp = {entries, parse, NULL, NULL, children, NULL, NULL};

void live_check(const struct live_options *live, const struct shared_options *options)
{
  if (live->path == NULL)
    return;
  if (live->period >= 0 && live->period < SHORTEST_SHARED)
    usage_error("--period: with --shared, a period has %g seconds or more", SHORTEST_SHARED);
  if (options->kind != TAMIS_BLOOM)
    usage_error("--shared is for Bloom filters: one of kind %s belongs to a single process",
                kind_word(options->kind));
}

/* ---- options ---- */

static uint64_t at_least(uint64_t capacity)
{
  return capacity > LEAST_CAPACITY ? capacity : LEAST_CAPACITY;
}

/* Of a new filter.  It grows, as nobody knows what other processes bring, but for a window. */
static tamis_options new_filter(const struct live_options *live,
                                const struct shared_options *options, const struct inputs *inputs)
{
  tamis_options filter = shared_filter(options), first;
  uint64_t most, bytes;
  filter.layout = live->layout;
  filter.seed = live->seed;
  filter.access = access_given();
  if (filter.capacity == 0) {
    filter.capacity = estimate_distinct(inputs->files, inputs->count, &options->keys, &most);
    filter.capacity = at_least(filter.capacity);
  }
  first = filter;
  first.capacity = at_least(first.capacity);
  filter.growable = options->window == 0;
  filter.max_bytes = options->memory;
  if (!filter.growable)
    return filter;
  if (filter.max_bytes == 0 && tamis_bytes_for(&first, &bytes) == TAMIS_OK)
    filter.max_bytes = ROOM * bytes;
  return filter;
}

/* Of the filter in the file, but for options that are given. */
static tamis_options wanted_filter(const struct live_options *live,
                                   const struct shared_options *options, const tamis_stats *stats)
{
  tamis_options filter = TAMIS_OPTIONS_INIT;
  filter.capacity = stats->capacity;
  filter.fpp = stats->fpp;
  filter.layout = stats->layout;
  filter.growable = false;
  filter.window = stats->parts - 1;
  if (tamis_shared_check(&filter, live->path, NULL, 0) !=
      TAMIS_OK) { /* the figures do not say it */
    filter.growable = filter.window == 0;
    filter.window_renews = filter.window > 0;
  }
  filter.growable |= options->memory > 0 && filter.window == 0;
  filter.window_renews |= options->renews;
  if (options->window > 0)
    filter.window = options->window;
  filter.max_bytes = options->memory;
  filter.seed = live->seed;
  if (options->capacity > 0)
    filter.capacity = options->capacity;
  if (options->fpp > 0)
    filter.fpp = options->fpp;
  if (live->layout_given)
    filter.layout = live->layout;
  return filter;
}

/* ---- opening ---- */

/* With errno.  `wanted` NULL: what the file says. */
static void fail_to_open(const char *path, const tamis_options *wanted, int result)
{
  char why[8192];
  const char *reason = result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result);
  set_failure_status(EXIT_UNUSABLE);
  if (tamis_shared_check(wanted, path, why, sizeof why) != result)
    snprintf(why, sizeof why, "%s", reason);
  fail("cannot share '%s': %s", path, why);
}

static bool is_as_wanted(const struct live_options *live, const struct shared_options *options,
                         const tamis_filter *filter)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  (void) tamis_get_stats(filter, &stats);
  tamis_options wanted = wanted_filter(live, options, &stats);
  int result = tamis_shared_check(&wanted, live->path, NULL, 0);
  if (result != TAMIS_OK)
    fail_to_open(live->path, &wanted, result);
  return result == TAMIS_OK;
}

/* The file may be created and removed by others at any time. */
static tamis_filter *open_or_create(const struct live_options *live,
                                    const struct shared_options *options,
                                    const struct inputs *inputs)
{
  tamis_filter *filter;
  tamis_options wanted;
  sigset_t before;
  int result = TAMIS_EINVAL;
  for (unsigned i = 0; i < TRIES && result == TAMIS_EINVAL; i++) {
    result = tamis_open_shared(NULL, live->path, &filter);
    if (result != TAMIS_EIO || errno != ENOENT)
      break;
    wanted = new_filter(live, options, inputs);
    interrupt_hold(&before); /* a signal would leave a file beside the new one */
    result = tamis_open_shared(&wanted, live->path, &filter);
    interrupt_restore(&before);
    if (result == TAMIS_OK)
      return filter;
    if (result != TAMIS_EINVAL || tamis_shared_check(NULL, live->path, NULL, 0) != TAMIS_OK) {
      fail_to_open(live->path, &wanted, result);
      return NULL;
    }
  }
  if (result != TAMIS_OK) {
    fail_to_open(live->path, NULL, result);
    return NULL;
  }
  if (is_as_wanted(live, options, filter))
    return filter;
  tamis_destroy(filter);
  return NULL;
}

/* Whether the file is an input or the output. */
static bool is_used_otherwise(const char *path, const struct inputs *inputs, const char *output)
{
  struct stat status;
  struct replacement place;
  const struct stat *found = stat(path, &status) == 0 ? &status : NULL;
  bool named = replace_possible(&place, path, found);
  bool used = output_or_input_is(named ? &place : NULL, found, inputs, output);
  replace_end(&place);
  return used;
}

tamis_filter *live_open(const struct live_options *live, const struct shared_options *options,
                        const struct inputs *inputs)
{
  if (is_used_otherwise(live->path, inputs, options->output)) {
    fail("'%s' is the shared filter, and input or output at once", live->path);
    return NULL;
  }
  saved_watch_files();
  return open_or_create(live, options, inputs);
}

tamis_filter *live_open_existing(const char *path)
{
  tamis_filter *filter = NULL;
  saved_watch_files();
  int result = tamis_open_shared(NULL, path, &filter);
  if (result != TAMIS_OK)
    fail_to_open(path, NULL, result);
  return filter;
}

bool live_sync(const struct live_options *live, tamis_filter *filter)
{
  if (tamis_sync(filter) != TAMIS_OK)
    fail("cannot write '%s': %s", live->path, strerror(errno));
  return !failed();
}
