/* SPDX-License-Identifier: MIT
 *
 * Saved filters, in comparison with cp: how long it takes to save and to load a filter, and by how
 * much a save slows threads that write meanwhile.
 *
 *    bench-saved [--mib N] [--rounds N] [--directory PATH] [--slice SECONDS] [--cpu-time]
 *
 * Each round does everything once, in turns, so that whatever else the machine does affects all of
 * it alike; the results are medians over the rounds.  The files are in memory, by default: nothing
 * waits for a disk, neither cp nor tamis_save.  (tamis_save_file also waits for the disk, for the
 * sake of a power cut, and cp does not: so it is not what is compared.)
 *
 * By how much writers are slower is said in three ways: than by themselves, than while cp runs,
 * which takes a part of a core as a save does, and by the time for which they have a core.
 */
#include "tamis/tamis.h"

#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ROUNDS = 101, WRITERS = 2 };

static struct {
  bool cpu_time;
  uint64_t mib;
  unsigned rounds;
  double slice;
  char path[4096], copy[4096];
} settings = {false, 256, 7, 0.5, "", ""};

/* ---- times ---- */

static double seconds_of(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

/* The time that passes, or for which this process has a core: for machines that do more than
 * this. */
static double work_time(void)
{
  return seconds_of(settings.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
}

static double seconds_in(struct timeval time)
{
  return (double) time.tv_sec + (double) time.tv_usec * 1e-6;
}

struct series {
  double values[MAX_ROUNDS];
  unsigned n;
};

static void put(struct series *s, double value)
{
  s->values[s->n++] = value;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

static double median(struct series *s)
{
  qsort(s->values, s->n, sizeof *s->values, compare);
  return s->values[s->n / 2];
}

/* ---- what is measured ---- */

static void check(int result, const char *what)
{
  if (result != TAMIS_OK)
    error(2, 0, "%s: %s", what, tamis_strerror(result));
}

static int write_all(void *fd, const void *data, size_t size)
{
  const char *from = data;
  while (size) {
    ssize_t written = write(*(const int *) fd, from, size);
    if (written < 0)
      return TAMIS_EIO;
    from += written;
    size -= (size_t) written;
  }
  return TAMIS_OK;
}

/* As a program would that does not need its file after a power cut: as cp does. */
static double save(const tamis_filter *f)
{
  double begin = work_time();
  int fd = open(settings.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    error(2, errno, "%s", settings.path);
  check(tamis_save(f, write_all, &fd), "save");
  close(fd);
  return work_time() - begin;
}

static double load(void)
{
  tamis_filter *f;
  double begin = work_time();
  check(tamis_load_file(NULL, settings.path, &f), "load");
  double end = work_time();
  tamis_destroy(f);
  return end - begin;
}

static double map(void)
{
  tamis_filter *f;
  double begin = work_time();
  int result = tamis_map_file(NULL, settings.path, &f);
  double end = work_time();
  if (result == TAMIS_EUNSUPPORTED)
    return 0;
  check(result, "map");
  tamis_destroy(f);
  return end - begin;
}

static double copy(void)
{
  char *arguments[] = {"cp", settings.path, settings.copy, NULL};
  pid_t child;
  int status;
  struct rusage usage;
  unlink(settings.copy);
  double begin = seconds_of(CLOCK_MONOTONIC);
  if (posix_spawnp(&child, "cp", NULL, NULL, arguments, environ) ||
      wait4(child, &status, 0, &usage) != child || status)
    error(2, 0, "cp fails");
  return settings.cpu_time ? seconds_in(usage.ru_utime) + seconds_in(usage.ru_stime)
                           : seconds_of(CLOCK_MONOTONIC) - begin;
}

/* ---- filters ---- */

static const struct sort {
  const char *name;
  tamis_kind kind;
  bool growable;
} sorts[] = {{"Bloom", TAMIS_BLOOM, true},
             {"cuckoo, fixed", TAMIS_CUCKOO, false},
             {"cuckoo, growable", TAMIS_CUCKOO, true}};
enum { SORTS = sizeof sorts / sizeof *sorts };

/* A filter of so many bytes, with nearly all of its keys.  *keys: how many. */
static tamis_filter *filter_of(const struct sort *sort, uint64_t bytes, uint64_t *keys)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *f;
  uint64_t needed;
  options.kind = sort->kind;
  options.growable = sort->growable;
  options.capacity = 1000000;
  check(tamis_bytes_for(&options, &needed), "bytes_for");
  options.capacity = (uint64_t) ((double) bytes / (double) needed * 1e6);
  check(tamis_create(&options, &f), "create");
  *keys = options.capacity / 100 * 95;
  for (uint64_t i = 0; i < *keys; i++)
    check(tamis_add_hash(f, i), "add");
  return f;
}

/* ---- writers ---- */

struct writer {
  tamis_filter *f;
  uint64_t first, calls;
  bool removes;
  double cpu_time;
  _Atomic bool *stop;
  pthread_t thread;
};

/* Adds keys, and removes them again where the filter can. */
static void *write_keys(void *argument)
{
  enum { KEYS = 100000 };
  struct writer *w = argument;
  double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  for (uint64_t i = 0; !atomic_load_explicit(w->stop, memory_order_relaxed); i++) {
    (void) tamis_add_hash(w->f, w->first + i % KEYS);
    w->calls++;
    if (w->removes) {
      (void) tamis_remove_hash(w->f, w->first + i % KEYS);
      w->calls++;
    }
  }
  w->cpu_time = seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin;
  return NULL;
}

struct pace {
  double by_time, by_cpu_time; /* calls a second, of both threads */
};

/* What follows one another while the threads write. */
enum beside { NOTHING, COPIES, SAVES };

static struct pace write_for_a_slice(tamis_filter *f, bool removes, enum beside beside)
{
  _Atomic bool stop = false;
  struct writer writers[WRITERS];
  double begin = seconds_of(CLOCK_MONOTONIC), cpu_time = 0;
  for (unsigned i = 0; i < WRITERS; i++) {
    writers[i] = (struct writer){
        .f = f, .first = (i + 1) * (UINT64_C(1) << 40), .removes = removes, .stop = &stop};
    pthread_create(&writers[i].thread, NULL, write_keys, &writers[i]);
  }
  do
    if (beside == SAVES)
      save(f);
    else if (beside == COPIES)
      copy();
    else
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  while (seconds_of(CLOCK_MONOTONIC) - begin < settings.slice);
  atomic_store(&stop, true);
  uint64_t calls = 0;
  for (unsigned i = 0; i < WRITERS; i++) {
    pthread_join(writers[i].thread, NULL);
    calls += writers[i].calls;
    cpu_time += writers[i].cpu_time / WRITERS;
  }
  double time = seconds_of(CLOCK_MONOTONIC) - begin;
  return (struct pace){(double) calls / time, (double) calls / cpu_time};
}

/* ---- all of it ---- */

static void measure(const struct sort *sort)
{
  uint64_t keys;
  tamis_filter *f = filter_of(sort, settings.mib << 20, &keys);
  struct series saves = {.n = 0}, loads = saves, maps = saves, copies = saves, save_parts = saves,
                load_parts = saves, slowed = saves, slowed_by_more = saves, slowed_cpu = saves;
  bool removes = sort->kind == TAMIS_CUCKOO;
  save(f); /* pages of the file, of the buffer, of the writers */
  copy();
  for (unsigned i = 0; i < settings.rounds; i++) {
    double cp = copy(), saved = save(f), loaded = load();
    put(&copies, cp);
    put(&saves, saved);
    put(&loads, loaded);
    put(&maps, map());
    put(&save_parts, cp / saved);
    put(&load_parts, cp / loaded);
    struct pace alone = write_for_a_slice(f, removes, NOTHING);
    struct pace beside_cp = write_for_a_slice(f, removes, COPIES);
    struct pace with = write_for_a_slice(f, removes, SAVES);
    put(&slowed, 1 - with.by_time / alone.by_time);
    put(&slowed_by_more, 1 - with.by_time / beside_cp.by_time);
    put(&slowed_cpu, 1 - with.by_cpu_time / alone.by_cpu_time);
  }
  struct stat status;
  save(f);
  if (stat(settings.path, &status))
    error(2, errno, "%s", settings.path);
  printf("%-17s %7.1f %7.1f %7.1f %7.1f %7.2f %7.2f %7.2f %8.0f%% %8.0f%% %8.0f%%\n", sort->name,
         (double) status.st_size / 1e6, 1e3 * median(&copies), 1e3 * median(&saves),
         1e3 * median(&loads), 1e3 * median(&maps), median(&save_parts), median(&load_parts),
         100 * median(&slowed), 100 * median(&slowed_by_more), 100 * median(&slowed_cpu));
  tamis_destroy(f);
}

static uint64_t number(const char *text)
{
  char *end;
  uint64_t n = strtoull(text, &end, 10);
  if (!*text || *end)
    error(2, 0, "%s is no number", text);
  return n;
}

int main(int argc, char **argv)
{
  const char *directory = "/dev/shm";
  for (int i = 1; i < argc; i++) {
    const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(option, "--cpu-time") == 0) {
      settings.cpu_time = true;
      continue;
    }
    i++;
    if (strcmp(option, "--mib") == 0)
      settings.mib = number(value);
    else if (strcmp(option, "--rounds") == 0)
      settings.rounds = (unsigned) number(value);
    else if (strcmp(option, "--directory") == 0)
      directory = value;
    else if (strcmp(option, "--slice") == 0)
      settings.slice = strtod(value, NULL);
    else
      error(2, 0, "%s is no option", option);
  }
  if (!settings.mib || !settings.rounds || settings.rounds > MAX_ROUNDS)
    error(2, 0, "1 MiB or more, and 1 to %d rounds", MAX_ROUNDS);
  snprintf(settings.path, sizeof settings.path, "%s/bench-saved.%d", directory, (int) getpid());
  snprintf(settings.copy, sizeof settings.copy, "%s/bench-saved.%d.copy", directory,
           (int) getpid());
  printf("%17s %7s %7s %7s %7s %7s %7s %7s %9s %9s %9s\n", "", "MB", "cp ms", "save ms", "load ms",
         "map ms", "cp/save", "cp/load", "slowed", "than by cp", "(cpu)");
  for (unsigned i = 0; i < SORTS; i++)
    measure(&sorts[i]);
  unlink(settings.path);
  unlink(settings.copy);
  return 0;
}
