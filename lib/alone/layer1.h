/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the library for a single thread: no locks, no versions, no RCU.  For the WebAssembly of
 * js/.
 *
 * The compiler includes this header before each source of lib/ (-include).  It defines the include
 * guards of the headers that it replaces, so an #include of those has no effect, and the layers
 * above need no change.  A new function of those headers must be added here, or the build fails.
 * Without threads, the compiler itself turns atomic accesses into plain ones.
 */
#ifndef TAMIS_LIB_ALONE_LAYER1_H
#define TAMIS_LIB_ALONE_LAYER1_H

#include "base/compiler.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tamis/tamis.h>

#define sched_getcpu() 0 /* for core_counter.h */

/* ---- cancel.h ---- */

#define TAMIS_LIB_CANCEL_H

#define cancellation_disable() 0
#define cancellation_restore(before) ((void) (before))
#define UNCANCELLED(call) (call)

/* ---- owned.h ---- */

#define TAMIS_LIB_OWNED_H

struct owned_lock {
  uint64_t owner;
};

/* This struct and those below are as large as in other builds, so filters have one size. */
struct owner {
  uint64_t name;
  int file;
  uint64_t unused[4];
};

static inline void tamis__owner_begin_alone(struct owner *owner)
{
  *owner = (struct owner){.name = 1, .file = -1};
}

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

/* ---- replaces the locks and versions of stripe.h, but uses the rest of stripe.h ---- */

#define TAMIS_WITHOUT_LOCKS

/* As large as the struct in base/stripe.h: files of filters that do not grow contain locks. */
struct lock {
  uint32_t held; /* always 0: no thread takes the lock */
};

#define lock_init(lock) ((void) (lock))
#define lock_destroy(lock) ((void) (lock))
#define lock_is_held(lock) ((void) (lock), true)
#define lock_try(lock) ((void) (lock), true)
#define lock_take(lock) ((void) (lock))
#define lock_release(lock) ((void) (lock))

#include "base/stripe.h"

#define version_begin(version) ((void) (version))
#define version_bump(stripe) ((void) (stripe))
#define version_leave(stripe) ((void) (stripe))
#define version_has_left(version) ((void) (version), false)
#define stripe_has_left(stripe) ((void) (stripe), false)
#define version_before(version) ((void) (version), 0)
#define version_after(version) ((void) (version), 0)

#include "alone/readers.h"

#endif
