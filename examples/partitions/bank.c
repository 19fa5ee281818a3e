/* SPDX-License-Identifier: MIT */
#include "bank.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct name {
  char text[PATH_MAX];
};

static struct name name_of(const struct bank_plan *plan, int day, const char *what)
{
  struct name name;
  snprintf(name.text, sizeof name.text, "%s/%d.%s", plan->folder, day, what);
  return name;
}

static bool exists(const struct bank_plan *plan, int day, const char *what)
{
  return access(name_of(plan, day, what).text, F_OK) == 0;
}

/* The number of a file's inode; 0: there is none. */
static uint64_t file_of(const struct bank_plan *plan, int day, const char *what)
{
  struct stat status;
  return stat(name_of(plan, day, what).text, &status) == 0 ? status.st_ino : 0;
}

static bool failed(const struct name *name, int result)
{
  fprintf(stderr, "partitions: %s: %s\n", name->text,
          result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result));
  return false;
}

/* All filters of a bank have one seed, so an id is hashed once. */
static uint64_t seed_of(const struct bank_plan *plan)
{
  struct name name = name_of(plan, 0, "seed");
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_filter *f;
  options.capacity = 1;
  options.growable = false;
  if (tamis_open_shared(&options, name.text, &f) != TAMIS_OK &&
      tamis_open_shared(NULL, name.text, &f) != TAMIS_OK)
    return 0;
  tamis_get_stats(f, &stats);
  tamis_destroy(f);
  return stats.seed;
}

/* A shared filter, which is created if it is not there. */
static tamis_filter *open_shared(const struct bank_plan *plan, int day, const char *what,
                                 uint64_t rows)
{
  struct name name = name_of(plan, day, what);
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *f = NULL;
  options.capacity = rows;
  options.fpp = plan->rate;
  options.max_bytes = 64 * rows + (1 << 20); /* it grows up to that; the file has holes */
  options.seed = exists(plan, day, what) ? 0 : seed_of(plan);
  int result = tamis_open_shared(options.seed ? &options : NULL, name.text, &f);
  if (result == TAMIS_EINVAL) /* another process has created it meanwhile */
    result = tamis_open_shared(NULL, name.text, &f);
  if (result != TAMIS_OK)
    failed(&name, result);
  return f;
}

static uint64_t late_rows(const struct bank_plan *plan)
{
  return plan->rows / 100 + 100;
}

bool bank_open(const struct bank_plan *plan, int day, struct partition *p)
{
  *p = (struct partition){.day = day, .lock = -1};
  if (exists(plan, day, "closed")) {
    struct name name = name_of(plan, day, "closed");
    int result = tamis_map_file(NULL, name.text, &p->filter);
    p->late = result == TAMIS_OK ? open_shared(plan, day, "late", late_rows(plan)) : NULL;
    return result == TAMIS_OK ? p->late != NULL : failed(&name, result);
  }
  if (!exists(plan, day, "open"))
    return true;
  p->is_open = true;
  p->filter = open_shared(plan, day, "open", plan->rows);
  return p->filter != NULL;
}

bool bank_is_current(const struct bank_plan *plan, const struct partition *p)
{
  return !p->is_open || !exists(plan, p->day, "closed");
}

static int lock_day(const struct bank_plan *plan, int day, int operation)
{
  struct name name = name_of(plan, day, "lock");
  int fd = open(name.text, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  while (fd >= 0 && flock(fd, operation) != 0)
    if (errno != EINTR) {
      close(fd);
      fd = -1;
    }
  if (fd < 0)
    failed(&name, TAMIS_EIO);
  return fd;
}

bool bank_create_day(const struct bank_plan *plan, int day)
{
  int lock = lock_day(plan, day, LOCK_EX);
  if (lock < 0)
    return false;
  tamis_filter *f = NULL;
  bool closed = exists(plan, day, "closed");
  if (!closed)
    f = open_shared(plan, day, "open", plan->rows);
  tamis_destroy(f);
  close(lock);
  return closed || f;
}

bool bank_begin_insert(const struct bank_plan *plan, int day, struct partition *p)
{
  int lock = lock_day(plan, day, LOCK_SH);
  if (lock < 0)
    return false;
  const bool closed = exists(plan, day, "closed");
  const char *what = closed ? "late" : "open";
  const uint64_t file = file_of(plan, day, what);
  if (p->filter && p->file != file)
    bank_free(p);
  if (!p->filter && file)
    p->filter = open_shared(plan, day, what, closed ? late_rows(plan) : plan->rows);
  p->day = day;
  p->file = file;
  p->lock = lock;
  if (p->filter || !file)
    return true;
  bank_end_insert(p);
  return false;
}

bool bank_add(struct partition *p, const char *id)
{
  int result = p->filter ? tamis_add(p->filter, id, strlen(id)) : TAMIS_OK;
  if (result != TAMIS_OK)
    fprintf(stderr, "partitions: day %d: %s\n", p->day, tamis_strerror(result));
  return result == TAMIS_OK;
}

void bank_end_insert(struct partition *p)
{
  close(p->lock);
  p->lock = -1;
}

/* With the lock held alone. */
static bool close_locked(const struct bank_plan *plan, int day)
{
  struct name open = name_of(plan, day, "open"), closed = name_of(plan, day, "closed");
  tamis_filter *late = open_shared(plan, day, "late", late_rows(plan));
  tamis_filter *f = late ? open_shared(plan, day, "open", plan->rows) : NULL;
  int result = f ? tamis_save_file(f, closed.text) : TAMIS_EIO;
  if (f && result != TAMIS_OK)
    failed(&closed, result);
  if (result == TAMIS_OK)
    unlink(open.text);
  tamis_destroy(f);
  tamis_destroy(late);
  return result == TAMIS_OK;
}

bool bank_close_day(const struct bank_plan *plan, int day)
{
  int lock = lock_day(plan, day, LOCK_EX);
  if (lock < 0)
    return false;
  bool done = true;
  if (!exists(plan, day, "closed"))
    done = exists(plan, day, "open") && close_locked(plan, day);
  else /* one that was killed has left it */
    unlink(name_of(plan, day, "open").text);
  close(lock);
  return done;
}

/* Fills and saves the filter. */
static bool rebuild_locked(const struct bank_plan *plan, int day, tamis_filter *f,
                           bool (*next)(void *context, const char **id), void *context)
{
  struct name closed = name_of(plan, day, "closed");
  int result = TAMIS_OK;
  const char *id;
  do {
    if (!next(context, &id))
      return false;
    if (id)
      result = tamis_add(f, id, strlen(id));
  } while (id && result == TAMIS_OK);
  tamis_filter *late = open_shared(plan, day, "late", late_rows(plan));
  if (late && result == TAMIS_OK)
    result = tamis_save_file(f, closed.text);
  if (result != TAMIS_OK)
    failed(&closed, result);
  tamis_destroy(late);
  return late && result == TAMIS_OK;
}

bool bank_rebuild_day(const struct bank_plan *plan, int day,
                      bool (*next)(void *context, const char **id), void *context)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *f;
  options.capacity = plan->rows;
  options.fpp = plan->rate;
  options.seed = seed_of(plan);
  int lock = lock_day(plan, day, LOCK_EX);
  if (lock < 0)
    return false;
  int result = tamis_create(&options, &f);
  bool done = result == TAMIS_OK && rebuild_locked(plan, day, f, next, context);
  tamis_destroy(f);
  close(lock);
  return done;
}

bool bank_forget(const struct bank_plan *plan, int day)
{
  static const char *const names[] = {"open", "closed", "late"};
  int lock = lock_day(plan, day, LOCK_EX);
  for (unsigned i = 0; lock >= 0 && i < 3; i++)
    unlink(name_of(plan, day, names[i]).text);
  if (lock >= 0)
    close(lock);
  return lock >= 0;
}

void bank_free(struct partition *p)
{
  tamis_destroy(p->filter);
  tamis_destroy(p->late);
  p->filter = p->late = NULL;
}
