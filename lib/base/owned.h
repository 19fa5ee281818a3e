/* SPDX-License-Identifier: MIT
 *
 * Layer 1: locks that name their owners, in memory that processes may share.
 *
 * Such a lock is a word: 0, or the name of the process that holds it.  A process that is killed
 * leaves its name in the lock.  So a process that waits for the lock asks whether the owner is
 * alive.  If the owner is dead, the waiter takes the lock over, and mends what is unfinished.
 *
 * The *name* of a process is a random number, which no other process ever has.  So an owner that
 * was found dead once stays dead.  While the process lives, it holds a lock of the kernel on one
 * byte of the shared file: the byte whose offset is the name, far beyond the end of the file.  The
 * kernel releases this lock when the process ends, in whatever way.  A process that may only read
 * the file can take a read lock on any byte.  The offset of such a byte cannot become a name.
 *
 * The child of a fork gets a name when it first needs a name.  The child must not hold its parent's
 * lock of the kernel, so a handler closes the parent's descriptor in the child.
 *
 * A process claims its name under the lock of the file.  So if a process that holds this lock finds
 * that no other process has a name, it may change the whole file.
 */
#ifndef TAMIS_LIB_OWNED_H
#define TAMIS_LIB_OWNED_H

#include "base/compiler.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct owned_lock {
  _Atomic uint64_t owner; /* 0: the lock is free */
};

/* This process, as an owner of the locks of one filter. */
struct owner {
  _Atomic uint64_t name; /* 0: this process has no name yet */
  int file;              /* descriptor of the shared file; -1: the memory is not shared */
  int alive;             /* descriptor that holds the kernel's lock on the name */
  uint64_t device, inode;
  void (*forked)(struct owner *owner); /* called in the child of a fork */
  struct owner *next;                  /* the next owner of a shared file in this process */
};

enum { OWNER_ALONE = 1 }; /* the owner's name if the memory is not shared */

void tamis__owner_begin_alone(struct owner *owner);

/* Begins an owner for an open file, which the caller must close.  The owner has no name yet.
 *   Errors  TAMIS_EIO (errno has the cause), TAMIS_ENOMEM */
int tamis__owner_begin(struct owner *owner, int file, void (*forked)(struct owner *));

/* Ends an owner.  The owner must hold no lock, and must take no lock afterwards. */
void tamis__owner_end(struct owner *owner);

/* Gives the process a name for the file, unless the process has one.  If no other process has a
 * name, also calls `first`, unless it is NULL.  Processes that open the file wait meanwhile.
 *   Errors  TAMIS_EIO (errno is EAGAIN if a process that may only read the file has locked it),
 *           and the errors of `first` */
int tamis__owner_renew(struct owner *owner, int (*first)(void *context), void *context);

/* Returns true if the process has a name.
 * ORDER owner.name (acquire)
 *   pairs with     owner.named
 *   makes visible  the descriptor through which a waiter asks whether owners are alive
 *   if weakened    another thread might see the new name, but ask through an older descriptor
 *   checked by     mutants/owner_is_not_renewed (shows that a process renews its name) */
static inline bool owner_has_name(const struct owner *owner)
{
  return atomic_load_explicit(&owner->name, memory_order_acquire);
}

/* Relaxed: the name does not change during a call, unless the process is forked meanwhile. */
static inline uint64_t owner_name(const struct owner *owner)
{
  return atomic_load_explicit(&owner->name, memory_order_relaxed);
}

/* Tries to take the lock.  Returns false if the lock is held, or if the process has no name.
 * ORDER owned.lock (acquire)
 *   pairs with     owned.unlock, whose comment says why
 *   checked by     mutants/owned_lock_relaxed */
static inline bool owned_trylock(struct owned_lock *lock, const struct owner *owner)
{
  uint64_t nobody = 0, name = owner_name(owner);
  return name && atomic_compare_exchange_strong_explicit(
                     &lock->owner, &nobody, name, memory_order_acquire, memory_order_relaxed);
}

bool tamis__owned_wait(struct owned_lock *lock, const struct owner *owner);

/* Tells ThreadSanitizer and the model checker of a lock that is not in a shared file. */
#define OWNED_TSAN(call) TSAN(owner->file < 0 ? (void) (call) : (void) 0)

/* Takes the lock.  Returns true if the last owner was killed: the caller must then mend what that
 * owner has left unfinished.  (If the caller is killed, too, the next owner must mend.) */
static inline bool owned_lock(struct owned_lock *lock, const struct owner *owner)
{
  OWNED_TSAN(__tsan_mutex_pre_lock(lock, 0));
  bool mend = !owned_trylock(lock, owner) && tamis__owned_wait(lock, owner);
  OWNED_TSAN(__tsan_mutex_post_lock(lock, 0, 0));
  return mend;
}

/* For assertions and tests only. */
static inline bool owned_held(const struct owned_lock *lock)
{
  return atomic_load_explicit(&lock->owner, memory_order_relaxed);
}

/* ORDER owned.unlock (release)
 *   pairs with     owned.lock
 *   makes visible  all that was written under the lock
 *   if weakened    the next owner might miss an entry of the last owner, and add the entry again
 *   checked by     mutants/owned_unlock_relaxed */
static inline void owned_unlock(struct owned_lock *lock, const struct owner *owner)
{
  assert(owner->file >= 0 || owned_held(lock)); /* any process may damage a lock in a shared file */
  OWNED_TSAN(__tsan_mutex_pre_unlock(lock, 0));
  atomic_store_explicit(&lock->owner, 0, memory_order_release);
  OWNED_TSAN(__tsan_mutex_post_unlock(lock, 0));
  (void) owner;
}

#endif
