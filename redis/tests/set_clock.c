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

/* The servers read the time of day by this function alone. */
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
