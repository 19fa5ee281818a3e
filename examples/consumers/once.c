/* SPDX-License-Identifier: MIT */
#include "once.h"
#include "say.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct once {
  tamis_filter *claims;
  tamis_filter *done;
  char *path;
  int lock; /* a file beside `path`, locked as long as this process lives */
  double period_seconds;
  pthread_mutex_t clock; /* guards `period` */
  int64_t period;        /* the running one, counted from 1970 */
  unsigned periods;      /* of `done`, which may come from a file */
  atomic_ullong count;   /* adds to `done` that have returned */
  atomic_ullong saved;   /* of those, what the last complete save holds */
  _Atomic double save_begin;
};

/* Periods begin at multiples of their length, so that they do not depend on when a process began.
 */
static int64_t period_of(const struct once *once, double seconds)
{
  return (int64_t) floor(seconds / once->period_seconds);
}

static bool lock_path(struct once *once)
{
  size_t size = strlen(once->path) + sizeof ".lock";
  char *name = malloc(size);
  if (name == NULL) {
    say("out of memory");
    return false;
  }
  snprintf(name, size, "%s.lock", once->path);
  once->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  bool locked = once->lock >= 0 && flock(once->lock, LOCK_EX | LOCK_NB) == 0;
  if (!locked && once->lock >= 0 && errno == EWOULDBLOCK)
    say("%s is in use by another process; each needs a window of its own", once->path);
  else if (!locked)
    say("cannot lock %s: %s", name, strerror(errno));
  free(name);
  return locked;
}

/* A process that is killed while it saves leaves a file behind, whose name begins as that of the
 * window and goes on with ".tamis-".  Nobody else writes one, as this process has the lock. */
static void remove_unfinished(const struct once *once)
{
  const char *slash = strrchr(once->path, '/'), *name = slash != NULL ? slash + 1 : once->path;
  size_t folder_length = (size_t) (name - once->path), name_length = strlen(name);
  char *folder = folder_length > 0 ? strndup(once->path, folder_length) : strdup(".");
  DIR *entries = folder != NULL ? opendir(folder) : NULL;
  for (const struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;)
    if (strncmp(entry->d_name, name, name_length) == 0 &&
        strncmp(entry->d_name + name_length, ".tamis-", 7) == 0)
      unlinkat(dirfd(entries), entry->d_name, 0);
  if (entries != NULL)
    closedir(entries);
  free(folder);
}

static tamis_filter *create(const char *what, const tamis_options *options)
{
  char why[256];
  tamis_filter *filter = NULL;
  int result = tamis_create(options, &filter);
  if (result != TAMIS_OK && tamis_options_check(options, why, sizeof why) != TAMIS_OK)
    say("the filter of %s: %s", what, why);
  else if (result != TAMIS_OK)
    say("the filter of %s: %s", what, tamis_strerror(result));
  return filter;
}

static bool load(struct once *once, const struct once_options *options)
{
  struct stat status;
  int result = tamis_load_file(NULL, once->path, &once->done);
  if (result != TAMIS_OK) {
    say("cannot load %s: %s.  Without it, messages that come again are worked again; to go on so, "
        "move "
        "it away",
        once->path, result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result));
    return false;
  }
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(once->done, &stats);
  say("loaded %s: %llu messages are remembered as done", once->path,
      (unsigned long long) stats.count);
  if (stats.parts < 2) {
    say("%s is a filter without a window", once->path);
    return false;
  }
  if (stats.parts != options->periods + 1 || stats.fpp != options->rate)
    say("it keeps the %u periods and the rate of %g that it was made with", stats.parts - 1,
        stats.fpp);
  once->periods = stats.parts - 1;
  once->period_seconds = options->remember / once->periods;
  /* The periods that have ended since the save are made up for by once_forget().  A file that was
   * copied looks younger than it is, and is remembered longer. */
  if (stat(once->path, &status) == 0)
    once->period = period_of(once, (double) status.st_mtim.tv_sec);
  return true;
}

struct once *once_open(const struct once_options *options)
{
  struct once *once = calloc(1, sizeof *once);
  if (once == NULL || (once->path = strdup(options->path)) == NULL) {
    say("out of memory");
    free(once);
    return NULL;
  }
  once->lock = -1;
  pthread_mutex_init(&once->clock, NULL);
  once->periods = options->periods;
  once->period_seconds = options->remember / options->periods;
  once->period = period_of(once, (double) time(NULL));
  atomic_store(&once->save_begin, seconds_now());

  tamis_options claims = TAMIS_OPTIONS_INIT, done = TAMIS_OPTIONS_INIT;
  claims.kind = TAMIS_CUCKOO;
  claims.capacity = options->claim_count;
  claims.fpp = 1e-6;
  done.capacity = options->capacity;
  done.fpp = options->rate;
  done.window = options->periods;

  if (!lock_path(once))
    goto failed;
  remove_unfinished(once);
  if ((once->claims = create("claims", &claims)) == NULL)
    goto failed;
  if (access(once->path, F_OK) == 0 || errno != ENOENT) {
    if (!load(once, options))
      goto failed;
  } else {
    say("%s does not exist: no message is remembered as done", once->path);
    if ((once->done = create("done messages", &done)) == NULL)
      goto failed;
  }
  once_forget(once);
  return once;

failed:
  once_close(once);
  return NULL;
}

void once_close(struct once *once)
{
  if (once == NULL)
    return;
  tamis_destroy(once->claims);
  tamis_destroy(once->done);
  if (once->lock >= 0)
    close(once->lock);
  pthread_mutex_destroy(&once->clock);
  free(once->path);
  free(once);
}

enum once_begin once_begin(struct once *once, const void *id, size_t len, uint64_t *claim)
{
  *claim = tamis_hash(once->claims, id, len);
  /* No memory for a claim is as good as a claim of somebody else: the message waits. */
  if (tamis_add_unique_hash(once->claims, *claim) != TAMIS_OK)
    return ONCE_CLAIMED;
  return tamis_contains(once->done, id, len) ? ONCE_DONE : ONCE_MINE;
}

bool once_done(struct once *once, const void *id, size_t len)
{
  once_forget(once); /* a period that has ended is not the key's */
  if (tamis_add(once->done, id, len) != TAMIS_OK)
    return false;
  atomic_fetch_add(&once->count, 1); /* after the add: see once_save() */
  return true;
}

void once_release(struct once *once, uint64_t claim)
{
  tamis_remove_hash(once->claims, claim);
}

void once_forget(struct once *once)
{
  pthread_mutex_lock(&once->clock);
  int64_t now = period_of(once, (double) time(NULL));
  /* So many periods forget everything. */
  for (unsigned i = 0; i <= once->periods && once->period < now; i++, once->period++)
    tamis_advance(once->done);
  once->period = now; /* of a clock that was set back, too */
  pthread_mutex_unlock(&once->clock);
}

bool once_save(struct once *once, int *result)
{
  /* What has been counted was added before, so the save holds it. */
  unsigned long long count = atomic_load(&once->count);
  double begin = seconds_now();
  *result = tamis_save_file(once->done, once->path);
  if (*result != TAMIS_OK)
    return false;
  atomic_store(&once->saved, count);
  atomic_store(&once->save_begin, begin);
  return true;
}

uint64_t once_unsaved(const struct once *once)
{
  /* In this order: `saved` never passes `count`. */
  unsigned long long saved = atomic_load(&once->saved);
  return atomic_load(&once->count) - saved;
}

double once_save_age(const struct once *once)
{
  return seconds_now() - atomic_load(&once->save_begin);
}

const tamis_filter *once_claims(const struct once *once)
{
  return once->claims;
}

const tamis_filter *once_window(const struct once *once)
{
  return once->done;
}
