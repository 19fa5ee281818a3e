/* SPDX-License-Identifier: MIT
 *
 * Layer 1: stripes, the locks that writers spread over.  The only user of ConcurrencyKit.
 *
 * A stripe is a test-and-set lock and, for buckets whose entries move, a version.  A writer that
 * finds the lock taken spins for about a microsecond, then gives its time slice away, then sleeps:
 * with more threads than cores the holder may have been descheduled, and only the scheduler can
 * bring it back.
 *
 * ConcurrencyKit's atomics are assembly that ThreadSanitizer cannot see, so the lock tells it what
 * happens; without these lines TSan would report everything a stripe protects.
 */
#ifndef TAMIS_LIB_STRIPE_H
#define TAMIS_LIB_STRIPE_H

#include "base/sanitizer.h"

#include <assert.h>
#include <ck_spinlock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stripe {
  ck_spinlock_fas_t lock;
  /* What the owner counts in its stripes.  Written under the lock, read without (relaxed: a number
   * that nothing hangs on). */
  _Atomic uint32_t used;
  /* How many entries have left the stripe's buckets; 63 bits, so that it never comes round.  The highest bit:
   * the segment has left the directory, so nothing in it may change any more. */
  _Atomic uint64_t version;
};

/* Stripes with a cache line each. */
struct padded_stripe {
  _Alignas(64) struct stripe stripe;
};

struct stripes {
  struct padded_stripe *all;
  uint64_t mask; /* number of stripes - 1; a power of two - 1 */
};

/* A number of stripes that suits this machine: a power of two. */
unsigned tamis__stripe_count(void);

/* A stripe of zeros is a good one, but for what TSan must know of it. */
static inline void stripe_init(struct stripe *stripe)
{
  ck_spinlock_fas_init(&stripe->lock);
  TSAN(__tsan_mutex_create(stripe, __tsan_mutex_not_static));
}

static inline void stripe_destroy(struct stripe *stripe)
{
  (void) stripe;
  TSAN(__tsan_mutex_destroy(stripe, __tsan_mutex_not_static));
}

void tamis__stripes_init(const struct stripes *stripes);
void tamis__stripes_destroy(const struct stripes *stripes);

/* Waits for a stripe that another thread holds, and takes it. */
void tamis__stripe_wait(struct stripe *stripe);

static inline struct stripe *stripe_of(const struct stripes *stripes, uint64_t hash)
{
  return &stripes->all[hash & stripes->mask].stripe;
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
 *    a move from B to A               a reader that misses
 *      writes the copy into A           version_before (B's stripe)
 *      version_bump (B's stripe)        looks into A, then into B
 *      clears the entry in B            version_after (B's stripe): the same?  Then it was nowhere.
 *
 * A reader that finds B cleared has acquired the bump, which came before the clear; so its second
 * load differs from its first, unless the first saw the bump too.  Then the first has acquired the
 * copy, which came before the bump, and the look into A finds it. */

/* ORDER version.bump (release)
 *   pairs with     version.before
 *   makes visible  the copy that was written before
 *   if weakened    a reader sees the new version, but not yet the copy: false negative
 *   checked by     negative/version_not_bumped (that there is a bump at all),
 *                  negative/version_bump_relaxed */
static inline void version_bump(struct stripe *stripe)
{
  assert(stripe_held(stripe));
  uint64_t version = atomic_load_explicit(&stripe->version, memory_order_relaxed);
  atomic_store_explicit(&stripe->version, version + 1, memory_order_release);
}

/* Before the directory changes.
 * ORDER version.leave (seq_cst)
 *   pairs with     version.before
 *   makes visible  that what the buckets hold may be out of date
 *   if weakened    release would tell it to who has seen what came later, but two readers could see an add
 *                  to the segment's successor and one elsewhere in opposite orders
 *   checked by     negative/left_marked_late, negative/version_leave_release */
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
 *   pairs with     version.bump, version.leave
 *   makes visible  see there
 *   if weakened    acquire would keep the looks that follow after it, but see version.leave; relaxed, they
 *                  could be done before it: false negative
 *   checked by     negative/version_after_words (that it comes first),
 *                  negative/version_before_relaxed, negative/version_before_acquire */
static inline uint64_t version_before(const struct stripe *stripe)
{
  return atomic_load_explicit(&stripe->version, memory_order_seq_cst);
}

/* Under its lock: whether the segment has left the directory. */
static inline bool stripe_has_left(struct stripe *stripe)
{
  assert(stripe_held(stripe));
  return version_has_left(atomic_load_explicit(&stripe->version, memory_order_relaxed));
}

/* Relaxed: the acquire load of the bucket, which comes before, has made the bump visible; coherence
 * of the version does the rest. */
static inline uint64_t version_after(const struct stripe *stripe)
{
  return atomic_load_explicit(&stripe->version, memory_order_relaxed);
}

#endif
