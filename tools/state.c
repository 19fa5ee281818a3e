/* SPDX-License-Identifier: MIT */
#include "state.h"

#include "commands.h"
#include "report.h"
#include "retry.h"
#include "saved.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The time between saves is at least this multiple of the time that a save takes. */
enum { SAVE_SHARE = 10 };

/* ---- the lock ---- */

static bool cannot_lock(const struct state *state, int error)
{
  if (error == EWOULDBLOCK)
    fail("'%s' is in use by another run", state->path);
  else
    fail("cannot lock '%s': %s", state->path, strerror(error));
  return false;
}

/* The lock is an empty file, whose name is removed at the end: not one of the user's. */
static bool may_lock(struct state *state, const struct inputs *inputs, const char *output)
{
  struct stat status;
  if (asprintf(&state->lock_path, "%s.lock", state->place.path) < 0) {
    state->lock_path = NULL;
    return cannot_lock(state, ENOMEM);
  }
  const struct replacement place = {.path = state->lock_path};
  const struct stat *found = stat(state->lock_path, &status) == 0 ? &status : NULL;
  if ((found == NULL || (S_ISREG(status.st_mode) && status.st_size == 0)) &&
      !output_or_input_is(&place, found, inputs, output))
    return true;
  fail("'%s' is needed as the lock of '%s', and is another file", state->lock_path, state->path);
  return false;
}

static bool lock(struct state *state)
{
  for (;;) {
    int fd = (int) TEMP_FAILURE_RETRY(open(
        state->lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, MODE_OF_FILTERS));
    if (fd < 0)
      return cannot_lock(state, errno);
    if (TEMP_FAILURE_RETRY(flock(fd, LOCK_EX | LOCK_NB)) != 0) {
      int error = errno;
      close(fd);
      return cannot_lock(state, error);
    }
    if (leads_to(state->lock_path, fd)) { /* another run removes the name at its end */
      state->lock = fd;
      return true;
    }
    close(fd);
  }
}

static void unlock(struct state *state)
{
  if (state->lock >= 0) {
    unlink(state->lock_path); /* before the lock is given up, so that nobody else has it */
    close(state->lock);
  }
  free(state->lock_path);
}

/* ---- opening ---- */

bool state_open(struct state *state, const char *path, const struct inputs *inputs,
                const char *output)
{
  struct stat status;
  *state = (struct state){.path = path, .lock = -1};
  gate_init(&state->gate);

  state->exists = stat(path, &status) == 0;
  if (!state->exists && errno != ENOENT) {
    fail("cannot open '%s': %s", path, strerror(errno));
    return false;
  }
  if (!replace_possible(&state->place, path, state->exists ? &status : NULL)) {
    fail("'%s' cannot be a state: it has to be a file that can be replaced", path);
    return false;
  }
  if (output_or_input_is(&state->place, state->exists ? &status : NULL, inputs, output)) {
    fail("'%s' is the state, and input or output at once", path);
    return false;
  }
  if (!output_check_unfinished(&state->place, inputs, output) || !may_lock(state, inputs, output) ||
      !lock(state))
    return false;
  state->exists = stat(path, &status) == 0; /* another run may have saved it before the lock */
  return true;
}

static void refuse(const struct state *state, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* `format`: the value that it was begun with, and the one that was given now. */
static void refuse(const struct state *state, const char *option, const char *format, ...)
{
  char values[2 * FIGURE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(values, sizeof values, format, arguments);
  va_end(arguments);
  set_failure_status(EXIT_UNUSABLE);
  fail("'%s' was begun with another %s: %s", state->path, option, values);
}

/* Refuses options that are given, and differ from those of the state. */
static void compare(const struct state *state, const struct shared_options *options,
                    const tamis_options *was)
{
  if (options->kind_given && options->kind != was->kind)
    refuse(state, "--kind", "%s, not %s", kind_word(was->kind), kind_word(options->kind));
  else if (options->window > 0 && was->window == 0)
    refuse(state, "--window", "none, not %u", options->window);
  else if (options->window > 0 && options->window != was->window)
    refuse(state, "--window", "%u, not %u", was->window, options->window);
  else if (options->renews && !was->window_renews)
    refuse(state, "--window", "one without --renew");
  else if (options->fpp > 0 && options->fpp != was->fpp)
    refuse(state, "--fpp", "%.15g, not %.15g", was->fpp, options->fpp);
  else if (options->capacity > 0 && options->capacity != was->capacity)
    refuse(state, "--capacity", "%" PRIu64 ", not %" PRIu64, was->capacity, options->capacity);
}

tamis_filter *state_load(const struct state *state, const struct shared_options *options)
{
  tamis_options was = TAMIS_OPTIONS_INIT;
  if (saved_is_live(state->path)) {
    set_failure_status(EXIT_UNUSABLE);
    fail("'%s' is a shared filter: use --shared instead of --state", state->path);
    return NULL;
  }
  tamis_filter *filter = saved_load(state->path, options->memory);
  if (filter == NULL || tamis_get_options(filter, &was) != TAMIS_OK)
    return filter;
  compare(state, options, &was);
  if (!failed())
    return filter;
  tamis_destroy(filter);
  return NULL;
}

/* ---- saving ---- */

static uint64_t key_count(const struct state *state)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  return tamis_get_stats(state->filter, &stats) == TAMIS_OK ? stats.count : 0;
}

/* A window changes while as many keys come as are forgotten. */
static bool has_changed(const struct state *state)
{
  return state->window || key_count(state) != state->saved_count;
}

void state_begin(struct state *state, const tamis_filter *filter, struct output *lines,
                 double every)
{
  state->filter = filter;
  state->lines = lines;
  state->every = every;
  state->next = now_seconds() + every;
  state->saved_count = key_count(state);
  tamis_stats stats = TAMIS_STATS_INIT;
  state->window = tamis_get_stats(filter, &stats) == TAMIS_OK && stats.parts > 1;
}

/* The three steps of a save.  `lines_open`: threads may still write. */
static void save(struct state *state, bool lines_open)
{
  const struct inputs none = {.count = 0};
  struct output file;
  uint64_t count = key_count(state); /* at most the number that is saved */
  bool good = output_open_filter(&file, state->path, &none) && saved_write(&file, state->filter);
  if (good && lines_open) {
    gate_wait_until_empty(&state->gate);
    if (!failed())
      output_sync(state->lines);
  }
  output_close(&file); /* takes the place of the state unless something has failed */
  if (failed())
    return;
  state->exists = true;
  state->saved_count = count;
}

void state_tick(void *argument)
{
  struct state *state = argument;
  double begin = now_seconds();
  if (state->every <= 0 || begin < state->next || failed())
    return;
  if (has_changed(state))
    save(state, true);
  double end = now_seconds(), pause = SAVE_SHARE * (end - begin);
  state->next = end + (pause > state->every ? pause : state->every);
}

void state_end(struct state *state)
{
  if (!state->exists || has_changed(state))
    save(state, false);
}

void state_close(struct state *state)
{
  unlock(state);
  replace_end(&state->place);
  gate_destroy(&state->gate);
}
