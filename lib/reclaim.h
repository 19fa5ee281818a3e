/* SPDX-License-Identifier: MIT
 *
 * Layer 1: memory that readers may still see.  The only user of liburcu (the bp flavour: threads of
 * the caller need no registration).
 *
 *    reader_enter()                    take the block out of what new readers can reach
 *      reads what is shared            tamis__limbo_retire()
 *    reader_leave()                        │ a grace period: all readers that were inside have left
 *                                          ▼
 *                                      released by a later call: tamis__limbo_drain()
 *
 * Nobody waits for a grace period.  A thread of the library waits in their place: it is started by
 * the first block retired, sleeps when there is nothing to wait for, and ends after a second of that.
 * It releases nothing itself, so the user's allocator is called only from the user's calls.
 *
 * (call_rcu() would do the waiting too, but ends the process when it cannot start its thread.)
 */
#ifndef TAMIS_LIB_RECLAIM_H
#define TAMIS_LIB_RECLAIM_H

#include "stripe.h"

#include <pthread.h>
#include <stddef.h>

/* Where liburcu keeps the calling thread's entry in its list of readers; NULL as long as the thread is
 * not known to it. */
extern _Thread_local struct urcu_bp_reader **tamis__reader
    __attribute__((tls_model("initial-exec")));

/* The read lock inlined; not for tools that would look into it: TSan must not see its barriers, UBSan
 * finds that liburcu gives its readers less alignment than it says, and an analyzer cannot know that
 * the thread is known.
 *
 * liburcu's variable is another library's: to find the thread's own takes a function call, five of them
 * for a look-up.  So the inlined functions look where the thread has kept its address. */
#if !defined(TAMIS_SANITIZED) && !defined(__clang_analyzer__)
#define _LGPL_SOURCE
#include <urcu/tls-compat.h>
#undef URCU_TLS
#define URCU_TLS(name) (*tamis__reader) /* there is only one name: urcu_bp_reader */
#endif
#include <urcu/urcu-bp.h>

#ifdef TAMIS_TSAN
extern char tamis__readers; /* stands for all readers, to TSan, which knows nothing of liburcu */
#endif

/* Makes the thread known.  False: there was no memory for it; then the thread is inside all the same, is
 * counted under a lock that is never held for long, and leaves by the second function. */
bool tamis__reader_introduce(void);
void tamis__stranger_leave(void);

/* Between these two no memory that was reachable is released.  Costs two stores to memory of the
 * thread's own; never waits.  The first one in a thread takes a lock for the time of a list insert. */
static inline void reader_enter(void)
{
  if (__builtin_expect(!tamis__reader, 0) && !tamis__reader_introduce())
    return;
  urcu_bp_read_lock();
}

static inline void known_reader_leave(void)
{
  TSAN(__tsan_release(&tamis__readers));
  urcu_bp_read_unlock();
}

static inline void reader_leave(void)
{
  if (__builtin_expect(!tamis__reader, 0))
    tamis__stranger_leave();
  else
    known_reader_leave();
}

/* reader_enter() without a function call.  False: that cannot be, nothing is done.  Left by
 * known_reader_leave(). */
static inline bool known_reader_enter(void)
{
  if (__builtin_expect(!tamis__reader || !*tamis__reader, 0))
    return false;
  urcu_bp_read_lock();
  return true;
}

/* The first member of every block that is retired.  Readers do not look at it. */
struct retired {
  struct retired *next;
  size_t size;
};

/* Takes a block that nobody sees any more.  Called from the calls below, without any of their locks. */
typedef void limbo_release(void *owner, struct retired *block, size_t size);

/* A filter's blocks between their last use and their release. */
struct limbo {
  limbo_release *release;
  void *owner;
  const _Atomic uint64_t *bytes; /* of the filter, what waits among them */
  _Atomic uint64_t held;         /* bytes that wait */
  struct retired *fresh;         /* retired since `waiting` began to wait */
  struct retired *waiting;       /* for the grace period of the ticket */
  struct ticket *ticket;
};

/* False: no memory. */
bool tamis__limbo_init(struct limbo *limbo, limbo_release *release, void *owner,
                       const _Atomic uint64_t *bytes);

/* Releases everything at once: no reader may be left, or come.  Fine after a failed init. */
void tamis__limbo_destroy(struct limbo *limbo);

/* The block is out of reach for readers that enter from now on. */
void tamis__limbo_retire(struct limbo *limbo, struct retired *block, size_t size);

/* Releases what no reader can see any more.  True if it has released something. */
bool tamis__limbo_drain(struct limbo *limbo);

#endif
