/* SPDX-License-Identifier: MIT */
#include "base/cores.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the quota of control groups ---- */

enum { MAX_MEMBERSHIP = 4096, MAX_NUMBERS = 64, MAX_PATH = 1024 };

/* Reads the beginning of a file.  Nothing in it can be trusted: in a container its owner may have
 * put it there.  It may even be a pipe, which must not be waited for. */
static bool read_text(const char *path, char text[], size_t size)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return false;
  ssize_t length = read(fd, text, size - 1);
  close(fd);
  if (length < 0)
    return false;
  text[length] = '\0';
  return true;
}

/* A number above 0, or 0 if there is none at `text`.  *end is where it ends. */
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

/* Version 2: "QUOTA PERIOD", in microseconds; the quota may be "max". */
static unsigned quota_v2(const char *folder)
{
  char path[2 * MAX_PATH], text[MAX_NUMBERS];
  const char *rest;
  (void) snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (!read_text(path, text, sizeof text))
    return UINT_MAX;
  uint64_t quota = positive_number(text, &rest);
  return *rest == ' ' ? cores_for(quota, positive_number(rest + 1, &rest)) : UINT_MAX;
}

/* Version 1: two files; a quota of -1 is none. */
static unsigned quota_v1(const char *folder)
{
  char path[2 * MAX_PATH], quota[MAX_NUMBERS], period[MAX_NUMBERS];
  const char *rest;
  (void) snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
  if (!read_text(path, quota, sizeof quota))
    return UINT_MAX;
  (void) snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
  if (!read_text(path, period, sizeof period))
    return UINT_MAX;
  return cores_for(positive_number(quota, &rest), positive_number(period, &rest));
}

/* The least quota of a group and those above it, up to the root.  A container may see its own group
 * as the root, or the path that the group has outside, which does not exist inside: so all folders
 * are tried. */
static unsigned least_quota(const char *root, const char *group, unsigned (*quota_of)(const char *))
{
  char folder[MAX_PATH];
  if (group[0] != '/' || strstr(group, "/..")) /* which is a group outside of what can be seen */
    group = "/";
  size_t root_length = strlen(root), length = root_length + strlen(group);
  if (length >= sizeof folder)
    return UINT_MAX;
  memcpy(folder, root, root_length);
  memcpy(folder + root_length, group, length - root_length + 1);
  unsigned least = UINT_MAX;
  for (; length > root_length; length--)
    if (folder[length] == '\0' || folder[length] == '/') {
      folder[length] = '\0';
      unsigned quota = quota_of(folder);
      least = quota < least ? quota : least;
    }
  folder[root_length] = '\0';
  unsigned quota = quota_of(folder);
  return quota < least ? quota : least;
}

/* Whether a list such as "cpu,cpuacct" has the name. */
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

/* Each line is "NUMBER:CONTROLLERS:GROUP".  Without controllers it is version 2. */
unsigned tamis__quota_cores(const char *membership, const char *root)
{
  char text[MAX_MEMBERSHIP], version_1[2 * MAX_PATH], *next;
  unsigned least = UINT_MAX;
  if (!read_text(membership, text, sizeof text))
    return UINT_MAX;
  for (char *line = text; line; line = next) {
    next = strchr(line, '\n');
    if (next)
      *next++ = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
      continue;
    controllers++;
    *group++ = '\0';
    unsigned quota = UINT_MAX;
    if (*controllers == '\0') {
      quota = least_quota(root, group, quota_v2);
    } else if (has_name(controllers, "cpu") && strlen(root) + strlen(controllers) < MAX_PATH) {
      (void) snprintf(version_1, sizeof version_1, "%s/%s", root, controllers);
      quota = least_quota(version_1, group, quota_v1);
    }
    least = quota < least ? quota : least;
  }
  return least;
}

/* Read once.  Relaxed: threads that come at the same time all read it, and find the same. */
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

/* ---- sizes ---- */

/* The mask is the main thread's: that of a thread that is pinned says nothing of the others. */
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

/* ---- a thread of the library's own ---- */

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
