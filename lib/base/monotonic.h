/* SPDX-License-Identifier: MIT
 *
 * Layer 1: times of the monotonic clock, and condition variables that wait by this clock.
 */
#ifndef TAMIS_LIB_MONOTONIC_H
#define TAMIS_LIB_MONOTONIC_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define SECOND INT64_C(1000000000) /* nanoseconds */

static inline struct timespec in_nanoseconds(int64_t nanoseconds)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += (time_t) ((t.tv_nsec + nanoseconds) / SECOND);
  t.tv_nsec = (long) ((t.tv_nsec + nanoseconds) % SECOND);
  return t;
}

/* Initialises a condition variable that uses the monotonic clock. */
static inline void monotonic_init(pthread_cond_t *condition)
{
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

#endif
