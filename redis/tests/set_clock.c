/* SPDX-License-Identifier: MIT
 *
 * A clock of the tests' own, for LD_PRELOAD.  TAMIS_CLOCK names a file of eight bytes, the time in
 * microseconds.  It stands still until the test writes another time there.  With ALL_CLOCKS, it is
 * that of every clock.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *now;

static void __attribute__((constructor)) map_clock(void)
{
  const char *name = getenv("TAMIS_CLOCK");
  int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *now, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED)
    now = mapped;
  if (fd >= 0)
    close(fd);
}

/* The servers read the time of day by this function and by time(), and compare what the two say: a
 * replica would give up its master every second if they differed by a minute. */
int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
  (void) zone;
  if (!now)
    return -1;
  const int64_t time = *now;
  out->tv_sec = time / 1000000;
  out->tv_usec = time % 1000000;
  return 0;
}

time_t time(time_t *out)
{
  const time_t seconds = now ? *now / 1000000 : -1;
  if (out)
    *out = seconds;
  return seconds;
}

#ifdef ALL_CLOCKS
int clock_gettime(clockid_t clock, struct timespec *out)
{
  (void) clock;
  if (!now)
    return -1;
  const int64_t time = *now;
  *out = (struct timespec){time / 1000000, time % 1000000 * 1000};
  return 0;
}
#endif
