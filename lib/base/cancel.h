/* SPDX-License-Identifier: MIT
 *
 * Layer 1: defers the cancellation of a thread until its call of the library returns.  If a thread
 * were cancelled inside the call, it would keep its locks, or leak memory.
 */
#ifndef TAMIS_LIB_CANCEL_H
#define TAMIS_LIB_CANCEL_H

#include <pthread.h>
#include <time.h>

/* Disables cancellation, and returns the earlier state for cancellation_restore().  The library
 * calls this before each possible cancellation point: a system call that waits, or a user's
 * function that allocates, reads or writes.  (A user's hash function runs with cancellation
 * enabled, as this call takes longer than a hash.  So hash functions must not end the thread.) */
static inline int cancellation_disable(void)
{
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  return before;
}

/* If a request to cancel is pending, the thread ends at its next cancellation point. */
static inline void cancellation_restore(int before)
{
  pthread_setcancelstate(before, &before);
}

/* Makes a call with cancellation disabled, and returns the value of the call. */
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
