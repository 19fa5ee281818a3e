/* SPDX-License-Identifier: MIT
 *
 * Layer 1: locks, and the stripes over which writers are spread.  Only here is ConcurrencyKit used.
 *
 * A lock is a word that threads test and set.  A thread that finds the lock held spins for a
 * moment, then yields its time slice, then sleeps.  With more threads than cores, the holder may
 * have no core, and a yield or a sleep lets the holder run.
 *
 * A stripe has a lock, a figure and, for buckets whose entries move, a version.
 */
#ifndef TAMIS_LIB_STRIPE_H
#define TAMIS_LIB_STRIPE_H

#include "base/compiler.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- locks ---- */

#ifndef TAMIS_WITHOUT_LOCKS /* alone/layer1.h replaces this section */

#include <ck_spinlock.h>

struct lock {
  ck_spinlock_fas_t held;
};

void tamis__lock_wait(struct lock *lock);

enum {
  /* How often a waiting thread reads the lock before its first yield.  That takes longer than a
   * look-up and an insert under the lock, and far less than a time slice. */
  LOCK_SPIN_ROUNDS = 32,
  LOCK_YIELD_ROUNDS = 64 /* rounds of yields before the first sleep */
};

/* One round of waiting: spins, yields or sleeps.  The first round has number 0. */
void tamis__lock_back_off(unsigned round);

/* A lock that is all zeros is ready for use, but TSan must be told of it. */
static inline void lock_init(struct lock *lock)
{
  ck_spinlock_fas_init(&lock->held);
  TSAN(__tsan_mutex_create(lock, __tsan_mutex_not_static));
}

static inline void lock_destroy(struct lock *lock)
{
  (void) lock;
  TSAN(__tsan_mutex_destroy(lock, __tsan_mutex_not_static));
}

static inline bool lock_is_held(struct lock *lock)
{
  return ck_spinlock_fas_locked(&lock->held);
}

static inline bool lock_try(struct lock *lock)
{
  TSAN(__tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock));
  bool taken = ck_spinlock_fas_trylock(&lock->held);
  TSAN(__tsan_mutex_post_lock(
      lock, __tsan_mutex_try_lock | (taken ? 0 : __tsan_mutex_try_lock_failed), 0));
  return taken;
}

static inline void lock_take(struct lock *lock)
{
  TSAN(__tsan_mutex_pre_lock(lock, 0));
  if (!ck_spinlock_fas_trylock(&lock->held))
    tamis__lock_wait(lock);
  TSAN(__tsan_mutex_post_lock(lock, 0, 0));
}

static inline void lock_release(struct lock *lock)
{
  assert(lock_is_held(lock));
  TSAN(__tsan_mutex_pre_unlock(lock, 0));
  ck_spinlock_fas_unlock(&lock->held);
  TSAN(__tsan_mutex_post_unlock(lock, 0));
}

#endif

/* ---- stripes ---- */

typedef _Atomic uint64_t version_counter;

struct stripe {
  struct lock lock;
  /* A figure that a filter keeps in its stripes, such as the number of lanes in use, written under
   * the lock.  Relaxed: no other data depends on it. */
  _Atomic uint32_t used;
  /* Bits 0 to 62 count the entries that have left the stripe's buckets.  They never wrap round.
   * Bit 63 is set when the segment leaves the directory, and changes no more. */
  version_counter version;
};

enum { STRIPE_LOCK_BYTES = sizeof(struct lock) };
_Static_assert(offsetof(struct stripe, lock) == 0, "it comes first");

/* A stripe with a cache line of its own. */
struct padded_stripe {
  _Alignas(64) struct stripe stripe;
};

_Static_assert(sizeof(struct padded_stripe) == 64, "a cache line");

/* Versions begin with 0, like zeroed memory, except in tests with small constants. */
static inline void version_begin(version_counter *version)
{
  if (SMALL(false, true))
    atomic_init(version, UINT32_MAX);
}

static inline bool stripe_held(struct stripe *stripe)
{
  return lock_is_held(&stripe->lock);
}

static inline bool stripe_trylock(struct stripe *stripe)
{
  return lock_try(&stripe->lock);
}

static inline void stripe_lock(struct stripe *stripe)
{
  lock_take(&stripe->lock);
}

static inline void stripe_unlock(struct stripe *stripe)
{
  lock_release(&stripe->lock);
}

static inline void stripe_use(struct stripe *stripe, int32_t change)
{
  assert(stripe_held(stripe));
  uint32_t used = atomic_load_explicit(&stripe->used, memory_order_relaxed);
  atomic_store_explicit(&stripe->used, used + (uint32_t) change, memory_order_relaxed);
}

static inline uint32_t stripe_used(const struct stripe *stripe)
{
  return atomic_load_explicit(&stripe->used, memory_order_relaxed);
}

/* ---- versions: how a reader without a lock learns that an entry has left a bucket ----
 *
 *    a move from bucket B to A        a reader that misses
 *      writes the copy into A           version_before() of B's stripe
 *      version_bump() of B's stripe     reads A, then B
 *      clears the entry in B            version_after() of B's stripe
 *
 * If both versions are equal, the entry was in neither bucket.  A reader that sees B cleared has
 * acquired the bump, which precedes the clear.  So version_after() includes the bump.
 * - If version_before() does not include the bump, the versions differ, and the reader retries.
 * - If version_before() includes the bump, the reader has acquired the copy, which precedes the
 *   bump.  So the read of A finds the copy. */

/* ORDER version.bump (release)
 *   pairs with     version.before
 *   makes visible  the copy of the entry, which was written before
 *   if weakened    a reader might see the bump, but miss the copy when it reads A: false negative
 *   checked by     mutants/version_not_bumped (shows that versions are bumped at all),
 *                  mutants/version_bump_relaxed */
static inline void version_bump(struct stripe *stripe)
{
  assert(stripe_held(stripe));
  uint64_t version = atomic_load_explicit(&stripe->version, memory_order_relaxed);
  atomic_store_explicit(&stripe->version, version + 1, memory_order_release);
}

/* Marks that the segment leaves the directory.  The caller must change the directory afterwards.
 * ORDER version.leave (seq_cst)
 *   pairs with     version.before
 *   makes visible  that the buckets of the segment might be out of date
 *   if weakened    with release, two readers could see two adds, one to the segment's successor and
 *                  one elsewhere, in opposite orders: not linearizable
 *   checked by     mutants/left_marked_late, mutants/version_leave_release */
static inline void version_leave(struct stripe *stripe)
{
  assert(stripe_held(stripe));
  uint64_t version = atomic_load_explicit(&stripe->version, memory_order_relaxed);
  atomic_store_explicit(&stripe->version, version | UINT64_C(1) << 63, memory_order_seq_cst);
}

static inline bool version_has_left(uint64_t version)
{
  return version >> 63;
}

/* ORDER version.before (seq_cst)
 *   pairs with     version.bump, version.leave, window.version_bump
 *   if weakened    with relaxed, reads of the buckets could precede this load: false negative.
 *                  With acquire, two readers could see adds in opposite orders (version.leave)
 *   checked by     mutants/version_after_words (shows that this load comes before the reads),
 *                  mutants/version_before_relaxed, mutants/version_before_acquire,
 *                  mutants/window_version_before_relaxed */
static inline uint64_t version_before(const version_counter *version)
{
  return atomic_load_explicit(version, memory_order_seq_cst);
}

/* Returns true if the segment has left the directory.  The caller must hold the stripe. */
static inline bool stripe_has_left(struct stripe *stripe)
{
  assert(stripe_held(stripe));
  return version_has_left(atomic_load_explicit(&stripe->version, memory_order_relaxed));
}

/* Relaxed: a reader that has seen the entry cleared has made the bump visible by its acquire load
 * of the bucket.  By coherence, this later load of the version sees the bump. */
static inline uint64_t version_after(const version_counter *version)
{
  return atomic_load_explicit(version, memory_order_relaxed);
}

#endif
