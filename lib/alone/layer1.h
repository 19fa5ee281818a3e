/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the library for a single thread: no locks, no versions, no RCU, no thread indices, plain
 * words.  The WebAssembly of js/ is built on it.
 *
 * This header is included before each source of lib/ (-include).  It makes atomic accesses plain.
 * It also defines the include guards of the headers that it replaces, so that the layers above are
 * compiled from the same sources.  A new function of these headers must be added here, or the build
 * fails.  Functions that do nothing are macros.
 *
 * The steps that the layers above take because of other threads remain, as they are part of the
 * algorithm: for instance, an add to a cuckoo filter plans a cuckoo path, then checks the plan.
 */
#ifndef TAMIS_LIB_ALONE_LAYER1_H
#define TAMIS_LIB_ALONE_LAYER1_H

#ifdef TAMIS_WITHOUT_SYSTEM
#include "alone/system.h"
#else
#include "base/cores.h"
#endif

#include "base/compiler.h"
#include "base/parts.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tamis/tamis.h>

/* ---- plain memory ---- */

/* Accesses an atomic object as a plain one.  The comma operator drops the qualifier of the type. */
#define PLAIN(object) (*(__typeof__((void) 0, *(object)) *) (object))

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#define atomic_load_explicit(object, order) PLAIN(object)
#define atomic_store_explicit(object, value, order) ((void) (PLAIN(object) = (value)))
#define atomic_exchange_explicit(object, value, order) PLAIN_CHANGE(object, value)
#define atomic_fetch_add_explicit(object, value, order) PLAIN_CHANGE(object, before + (value))
#define atomic_fetch_sub_explicit(object, value, order) PLAIN_CHANGE(object, before - (value))
#define atomic_fetch_or_explicit(object, value, order) PLAIN_CHANGE(object, before | (value))
#define atomic_fetch_and_explicit(object, value, order) PLAIN_CHANGE(object, before &(value))
#define atomic_compare_exchange_strong_explicit(object, expected, desired, success, failure) \
  (PLAIN(object) == *(expected) ? (PLAIN(object) = (desired), true)                          \
                                : (*(expected) = PLAIN(object), false))
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit

/* Changes an object, and returns its value before the change. */
#define PLAIN_CHANGE(object, after)                         \
  __extension__({                                           \
    const __typeof__(PLAIN(object)) before = PLAIN(object); \
    PLAIN(object) = (after);                                \
    before;                                                 \
  })

/* ---- owned.h ---- */

#define TAMIS_LIB_OWNED_H

struct owned_lock {
  uint64_t owner;
};

/* As large as the struct in base/owned.h, so that filters have the same size in all builds.  The
 * same is true of the structs below. */
struct owner {
  uint64_t name;
  int file;
  uint64_t unused[4];
};

static inline void tamis__owner_begin_alone(struct owner *owner)
{
  *owner = (struct owner){.name = 1, .file = -1};
}

/* No process shares a filter in this build. */
#define tamis__owner_begin(owner, file, forked) \
  ((void) (owner), (void) (file), (void) (forked), TAMIS_EUNSUPPORTED)
#define tamis__owner_end(owner) ((void) (owner))
#define tamis__owner_renew(owner, first, context) \
  ((void) (owner), (void) (first), (void) (context), TAMIS_OK)

static inline bool owner_has_name(const struct owner *owner)
{
  return owner->name;
}

#define owned_lock(lock, owner) ((void) (lock), (void) (owner), false)
#define owned_unlock(lock, owner) ((void) (lock), (void) (owner))
#define owned_held(lock) ((void) (lock), false)

/* ---- stripe.h, except its locks and versions ---- */

#define TAMIS_WITHOUT_LOCKS

/* As large as base/stripe.h's: a saved filter that does not grow has locks in its file. */
struct lock {
  uint32_t held; /* no thread takes the lock */
};

#define lock_init(lock) ((void) (lock))
#define lock_destroy(lock) ((void) (lock))
#define lock_is_held(lock) ((void) (lock), true)
#define lock_try(lock) ((void) (lock), true)
#define lock_take(lock) ((void) (lock))
#define lock_release(lock) ((void) (lock))

#include "base/stripe.h"

#define tamis__stripes_init(stripes) ((void) (stripes))
#define tamis__stripes_destroy(stripes) ((void) (stripes))
#define version_begin(version) ((void) (version))
#define version_bump(stripe) ((void) (stripe))
#define version_leave(stripe) ((void) (stripe))
#define version_has_left(version) ((void) (version), false)
#define stripe_has_left(stripe) ((void) (stripe), false)
#define version_before(version) ((void) (version), 0)
#define version_after(version) ((void) (version), 0)

/* ---- counter.h ---- */

#define TAMIS_LIB_COUNTER_H

enum { COUNTER_KINDS = 8 };

struct counter_shard {
  _Alignas(64) uint64_t value[COUNTER_KINDS];
};

struct counters {
  WIDE struct counter_shard *shards;
  WIDE unsigned mask;
};

static inline uint64_t tamis__counter_sum(const struct counters *counters, unsigned kind)
{
  return counters->shards->value[kind];
}

static inline uint64_t tamis__counter_sum_both(const struct counters *counters, unsigned a,
                                               unsigned b)
{
  return counters->shards->value[a] + counters->shards->value[b];
}

/* A set with one shard has only shard 0, which no thread owns. */
static inline bool counter_is_owned(const struct counters *counters)
{
  return counters->mask > 0;
}

static inline bool counter_is_owned_by_mask(uint8_t mask)
{
  return mask > 0;
}

static inline uint64_t counter_add(const struct counters *counters, unsigned kind, uint64_t amount)
{
  return counters->shards->value[kind] += amount;
}

static inline uint64_t counter_add_owned(struct counter_shard *shards, unsigned kind,
                                         uint64_t amount)
{
  return shards->value[kind] += amount;
}

static inline uint64_t tamis__counter_add_shared(const struct counters *counters, unsigned kind,
                                                 uint64_t amount)
{
  return counter_add(counters, kind, amount);
}

static inline void tamis__counter_note(const struct counters *counters, unsigned kind)
{
  counters->shards->value[kind]++;
}

static inline void tamis__counter_raise(const struct counters *counters, unsigned kind,
                                        uint64_t least)
{
  uint64_t *value = &counters->shards->value[kind];
  *value = *value < least ? least : *value;
}

#include "alone/readers.h"

#endif
