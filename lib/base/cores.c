/* SPDX-License-Identifier: MIT */
#include "base/cores.h"

#ifdef TAMIS_WITHOUT_SYSTEM

static unsigned cores_of_process(void)
{
  return 1;
}

#else

#include "base/cancel.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the quota of control groups, version 2 ---- */

enum { MAX_NUMBERS = 64, MAX_PATH = 1024 }; /* the most bytes of a quota file, and of a path */

static const char quota_file[] = "/cpu.max";

/* Reads the beginning of a file without waiting: a container's owner may have made it a pipe. */
static bool read_text(const char *path, char text[], size_t size)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return false;
  ssize_t length = pread(fd, text, size - 1, 0);
  close(fd);
  if (length < 0)
    return false;
  text[length] = '\0';
  return true;
}

/* Returns the positive number at `text`, or 0 if there is none.  Sets *end to the number's end. */
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

/* Returns the cores that a file "QUOTA PERIOD" (both in µs) allows, or UINT_MAX for no limit. */
static unsigned quota_in(const char *path)
{
  char text[MAX_NUMBERS];
  const char *rest;
  if (!read_text(path, text, sizeof text))
    return UINT_MAX;
  uint64_t quota = positive_number(text, &rest);
  uint64_t period = *rest == ' ' ? positive_number(rest + 1, &rest) : 0;
  if (!quota || !period)
    return UINT_MAX;
  uint64_t cores = quota / period + (quota % period != 0);
  return cores < UINT_MAX ? (unsigned) cores : UINT_MAX;
}

/* Returns the lowest quota of a group and all groups above it.  In a container, `root` can be the
 * group's own folder, and then the path of `group` is absent there. */
static unsigned least_quota(const char *root, const char *group)
{
  char path[MAX_PATH + sizeof quota_file];
  if (group[0] != '/' || strstr(group, "/..")) /* such a group is outside the process's namespace */
    group = "/";
  const size_t root_length = strlen(root);
  size_t length = root_length + strlen(group);
  if (length >= MAX_PATH)
    return UINT_MAX;
  (void) stpcpy(stpcpy(path, root), group); /* snprintf() would take more stack */
  unsigned least = UINT_MAX;
  for (;; length--) {
    if (path[length] == '\0' || path[length] == '/' || length == root_length) {
      memcpy(path + length, quota_file, sizeof quota_file);
      unsigned quota = quota_in(path);
      least = quota < least ? quota : least;
    }
    if (length == root_length)
      return least;
  }
}

/* `membership` begins with "0::GROUP".  `line` is small, as an add may run on a small stack. */
unsigned tamis__quota_cores(const char *membership, const char *root)
{
  char line[MAX_PATH];
  if (!read_text(membership, line, sizeof line) || strncmp(line, "0::", 3) != 0)
    return UINT_MAX;
  size_t length = strcspn(line, "\n");
  line[length] = '\0';
  return length + 1 < sizeof line ? least_quota(root, line + 3) : UINT_MAX;
}

/* Reads the quota only at the first call.  Relaxed: no other data depends on `known`. */
static unsigned quota_cores(void)
{
  static _Atomic unsigned known = 0;
  unsigned cores = atomic_load_explicit(&known, memory_order_relaxed);
  if (!cores) {
    cores = UNCANCELLED(tamis__quota_cores("/proc/self/cgroup", "/sys/fs/cgroup"));
    atomic_store_explicit(&known, cores, memory_order_relaxed);
  }
  return cores;
}

/* ---- numbers of cores ---- */

/* Reads the main thread's affinity mask, because the calling thread might be pinned to one core. */
static unsigned cores_of_process(void)
{
  cpu_set_t mask;
  long cores = sched_getaffinity(getpid(), sizeof mask, &mask) == 0
                   ? CPU_COUNT(&mask)
                   : sysconf(_SC_NPROCESSORS_ONLN); /* there are more cores than bits in `mask` */
  unsigned quota = quota_cores();
  if (cores < 1)
    cores = 1;
  return (unsigned long) cores < quota ? (unsigned) cores : quota;
}

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

#endif

unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned min, unsigned max)
{
  uint64_t wanted = (uint64_t) per_core * cores_of_process();
  unsigned n = min;
  while (n < max && n < wanted)
    n *= 2;
  return n;
}
