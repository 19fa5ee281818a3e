/* SPDX-License-Identifier: MIT */
#include "base/cores.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the quota of control groups ---- */

enum {
  MAX_NUMBERS = 64,
  MAX_PATH = 1024,
  MAX_NAME = 32,                  /* the longest name of a file in a folder */
  MAX_MEMBERSHIP = 16 * MAX_PATH, /* the kernel's lists are shorter */
};

struct folder {
  size_t length;
  char path[MAX_PATH + MAX_NAME];
};

/* Reads a file from offset `at` on.  The file is not trusted: in a container, the owner of the
 * container may have made it.  It may even be a pipe, on which the function does not wait. */
static bool read_text(const char *path, off_t at, char text[], size_t size)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return false;
  ssize_t length = pread(fd, text, size - 1, at);
  close(fd);
  if (length < 0)
    return false;
  text[length] = '\0';
  return true;
}

static bool read_in(struct folder *folder, const char *name, char text[], size_t size)
{
  assert(strlen(name) < MAX_NAME);
  memcpy(folder->path + folder->length, name, strlen(name) + 1);
  return read_text(folder->path, 0, text, size);
}

/* Returns the positive number at `text`, or 0 if there is none.  *end is set to its end. */
static uint64_t positive_number(const char *text, const char **end)
{
  *end = text;
  if (*text < '0' || *text > '9')
    return 0;
  char *rest;
  uint64_t number = strtoull(text, &rest, 10);
  *end = rest;
  return number;
}

static unsigned cores_for(uint64_t quota, uint64_t period)
{
  if (!quota || !period)
    return UINT_MAX;
  uint64_t cores = quota / period + (quota % period != 0);
  return cores < UINT_MAX ? (unsigned) cores : UINT_MAX;
}

/* Version 2 of control groups: a file has "QUOTA PERIOD", in microseconds.  QUOTA may be "max". */
static unsigned quota_v2(struct folder *folder)
{
  char text[MAX_NUMBERS];
  const char *rest;
  if (!read_in(folder, "/cpu.max", text, sizeof text))
    return UINT_MAX;
  uint64_t quota = positive_number(text, &rest);
  return *rest == ' ' ? cores_for(quota, positive_number(rest + 1, &rest)) : UINT_MAX;
}

/* Version 1: two files.  A quota of -1 means that there is no quota. */
static unsigned quota_v1(struct folder *folder)
{
  char quota[MAX_NUMBERS], period[MAX_NUMBERS];
  const char *rest;
  if (!read_in(folder, "/cpu.cfs_quota_us", quota, sizeof quota) ||
      !read_in(folder, "/cpu.cfs_period_us", period, sizeof period))
    return UINT_MAX;
  return cores_for(positive_number(quota, &rest), positive_number(period, &rest));
}

/* The least quota of a group and of all groups above it.  In a container the group's folder may be
 * the root, and the path may exist only outside.  So all folders on the path are tried. */
static unsigned least_quota(const char *root, const char *controllers, const char *group,
                            unsigned (*quota_of)(struct folder *))
{
  struct folder folder;
  if (group[0] != '/' || strstr(group, "/..")) /* the group is not visible from here */
    group = "/";
  const size_t root_length = strlen(root) + (*controllers != '\0') + strlen(controllers);
  folder.length = root_length + strlen(group);
  if (folder.length >= MAX_PATH)
    return UINT_MAX;
  /* snprintf() would take more stack. */
  char *end = stpcpy(stpcpy(folder.path, root), *controllers ? "/" : "");
  (void) stpcpy(stpcpy(end, controllers), group);
  unsigned least = UINT_MAX;
  for (;; folder.length--) {
    const char at = folder.path[folder.length];
    if (at == '\0' || at == '/' || folder.length == root_length) {
      unsigned quota = quota_of(&folder);
      least = quota < least ? quota : least;
    }
    if (folder.length == root_length)
      return least;
  }
}

/* Whether a list such as "cpu,cpuacct" contains a name. */
static bool has_name(const char *list, const char *name)
{
  size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
      return true;
  }
  return false;
}

/* A line is "NUMBER:CONTROLLERS:GROUP".  Version 2 has no controllers. */
static unsigned quota_of_line(char *line, const char *root)
{
  char *controllers = strchr(line, ':');
  char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group)
    return UINT_MAX;
  controllers++;
  *group++ = '\0';
  if (*controllers != '\0' && !has_name(controllers, "cpu"))
    return UINT_MAX;
  return least_quota(root, controllers, group, *controllers ? quota_v1 : quota_v2);
}

/* Reads line by line, because the first call may come from an add on a small stack.  A line that is
 * longer than any supported path sets no limit, and ends the list. */
unsigned tamis__quota_cores(const char *membership, const char *root)
{
  char line[MAX_PATH];
  unsigned least = UINT_MAX;
  for (off_t at = 0; at < MAX_MEMBERSHIP && read_text(membership, at, line, sizeof line);) {
    size_t length = strcspn(line, "\n");
    if (length == 0 || length + 1 == sizeof line)
      break;
    line[length] = '\0';
    at += (off_t) length + 1;
    unsigned quota = quota_of_line(line, root);
    least = quota < least ? quota : least;
  }
  return least;
}

/* Reads the quota once.  Relaxed: threads that read it at the same time all find the same value. */
static unsigned quota_cores(void)
{
  static _Atomic unsigned known = 0;
  unsigned cores = atomic_load_explicit(&known, memory_order_relaxed);
  if (cores)
    return cores;
  int cancellation; /* open() and others are cancellation points */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
  cores = tamis__quota_cores("/proc/self/cgroup", "/sys/fs/cgroup");
  pthread_setcancelstate(cancellation, &cancellation);
  atomic_store_explicit(&known, cores, memory_order_relaxed);
  return cores;
}

/* ---- numbers of cores ---- */

/* The affinity mask is the main thread's, as a pinned thread's says nothing about the others. */
static unsigned cores_of_process(void)
{
  cpu_set_t mask;
  long cores = sched_getaffinity(getpid(), sizeof mask, &mask) == 0
                   ? CPU_COUNT(&mask)
                   : sysconf(_SC_NPROCESSORS_ONLN); /* more cores than the mask has bits */
  unsigned quota = quota_cores();
  if (cores < 1)
    cores = 1;
  return (unsigned long) cores < quota ? (unsigned) cores : quota;
}

unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned min, unsigned max)
{
  uint64_t wanted = (uint64_t) per_core * cores_of_process();
  unsigned n = min;
  while (n < max && n < wanted)
    n *= 2;
  return n;
}

/* ---- scheduling the library's thread ---- */

void tamis__schedule_as_the_process(void)
{
  const struct sched_param ordinary = {0};
  if (sched_getscheduler(0) != SCHED_OTHER)
    sched_setscheduler(0, SCHED_OTHER, &ordinary);
  cpu_set_t process, thread;
  if (sched_getaffinity(getpid(), sizeof process, &process) == 0 &&
      sched_getaffinity(0, sizeof thread, &thread) == 0 && !CPU_EQUAL(&process, &thread))
    sched_setaffinity(0, sizeof process, &process);
}
