/* SPDX-License-Identifier: MIT
 *
 * Layer 1: stripes, the locks that writers spread over.  The only user of ConcurrencyKit.
 *
 * A stripe is one cache line with a test-and-set lock.  A writer that finds it taken spins for
 * about a microsecond, then gives its time slice away, then sleeps: with more threads than cores
 * the holder may have been descheduled, and only the scheduler can bring it back.
 *
 * ConcurrencyKit's atomics are assembly that ThreadSanitizer cannot see, so the lock tells it what
 * happens; without these lines TSan would report everything a stripe protects.
 */
#ifndef TAMIS_LIB_STRIPE_H
#define TAMIS_LIB_STRIPE_H

#include <assert.h>
#include <ck_spinlock.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TAMIS_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define TAMIS_TSAN 1
#endif

#ifdef TAMIS_TSAN
#include <sanitizer/tsan_interface.h>
#define TSAN(call) call
#else
#define TSAN(call) ((void) 0)
#endif

struct stripe {
  _Alignas(64) ck_spinlock_fas_t lock;
};

struct stripes {
  struct stripe *all;
  uint64_t mask; /* number of stripes - 1; a power of two - 1 */
};

/* A number of stripes that suits this machine: a power of two. */
unsigned tamis__stripe_count(void);

void tamis__stripes_init(const struct stripes *stripes);
void tamis__stripes_destroy(const struct stripes *stripes);

/* Waits for a stripe that another thread holds, and takes it. */
void tamis__stripe_wait(struct stripe *stripe);

static inline struct stripe *stripe_of(const struct stripes *stripes, uint64_t hash)
{
  return &stripes->all[hash & stripes->mask];
}

static inline bool stripe_held(struct stripe *stripe)
{
  return ck_spinlock_fas_locked(&stripe->lock);
}

static inline void stripe_lock(struct stripe *stripe)
{
  TSAN(__tsan_mutex_pre_lock(stripe, 0));
  if (!ck_spinlock_fas_trylock(&stripe->lock))
    tamis__stripe_wait(stripe);
  TSAN(__tsan_mutex_post_lock(stripe, 0, 0));
}

static inline void stripe_unlock(struct stripe *stripe)
{
  assert(stripe_held(stripe));
  TSAN(__tsan_mutex_pre_unlock(stripe, 0));
  ck_spinlock_fas_unlock(&stripe->lock);
  TSAN(__tsan_mutex_post_unlock(stripe, 0));
}

#endif
