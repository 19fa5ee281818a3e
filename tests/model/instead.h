/* SPDX-License-Identifier: MIT
 *
 * Included before everything else when the library is compiled for the model: what it asks of the
 * system it gets from world.cpp.  (Its atomic and plain accesses arrive there by the compiler's
 * instrumentation for ThreadSanitizer, the waiting for its stripes by the annotations that it has
 * for that, its grace periods by the names of liburcu's functions, which is not linked.)
 */
#ifndef TAMIS_TESTS_MODEL_INSTEAD_H
#define TAMIS_TESTS_MODEL_INSTEAD_H

/* What ConcurrencyKit does in assembly: its accesses are relaxed, and its fences apart from them.
 * So a stripe orders here what the code of ck_spinlock_fas orders, and no more. */
#include <ck_pr.h>
#undef ck_pr_fas_uint
#undef ck_pr_load_uint
#undef ck_pr_store_uint
#undef ck_pr_fence_lock
#undef ck_pr_fence_unlock
#define ck_pr_fas_uint(address, value) __atomic_exchange_n(address, value, __ATOMIC_RELAXED)
#define ck_pr_load_uint(address) __atomic_load_n(address, __ATOMIC_RELAXED)
#define ck_pr_store_uint(address, value) __atomic_store_n(address, value, __ATOMIC_RELAXED)
#define ck_pr_fence_lock() model_fence_acquire()
#define ck_pr_fence_unlock() model_fence_release()
void model_fence_acquire(void);
void model_fence_release(void);

/* No time passes. */
#include <time.h>
#define clock_gettime(clock, t) ((t)->tv_sec = 0, (t)->tv_nsec = 0)
int model_nanosleep(const struct timespec *, struct timespec *);

/* Another thread continues, if one can. */
#include <sched.h>
int model_yield(void);

#define sched_yield model_yield
#define calloc model_calloc
#define free model_free
#define nanosleep model_nanosleep
#define pthread_mutex_lock model_mutex_lock
#define pthread_mutex_unlock model_mutex_unlock
#define pthread_cond_signal model_cond_signal
#define pthread_cond_timedwait model_cond_timedwait
#define pthread_create model_create
#define pthread_join model_join

#endif
