/* SPDX-License-Identifier: MIT
 *
 * Layer 1: defers the cancellation of a thread until its call of the library returns.  If a thread
 * were cancelled inside the call, it would keep its locks, or leak memory.
 */
#ifndef TAMIS_LIB_CANCEL_H
#define TAMIS_LIB_CANCEL_H

#include <pthread.h>
#include <time.h>

/* Must be called before each step that can be a cancellation point: a system call that waits, or a
 * function of the user's that allocates, reads or writes.  (The user's hash function runs with
 * cancellation enabled, as it takes less time than this call.  So it must not end the thread.) */
static inline int cancellation_disable(void)
{
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  return before;
}

static inline void cancellation_restore(int before)
{
  pthread_setcancelstate(before, &before);
}

#define UNCANCELLED(call)                   \
  __extension__({                           \
    int before_ = cancellation_disable();   \
    const __typeof__(call) value_ = (call); \
    cancellation_restore(before_);          \
    value_;                                 \
  })

/* Sleeps with cancellation disabled.  `nanoseconds` must be less than a second. */
static inline void sleep_uncancelled(long nanoseconds)
{
  int before = cancellation_disable();
  nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
  cancellation_restore(before);
}

#endif
