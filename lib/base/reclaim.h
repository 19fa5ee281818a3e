/* SPDX-License-Identifier: MIT
 *
 * Layer 1: memory that readers may still see.  The only user of liburcu (the bp flavour: threads of
 * the caller need no registration).
 *
 *    reader_enter()                    take the block out of what new readers can reach
 *      reads what is shared            tamis__backlog_retire()
 *    reader_leave()                        │ a grace period: all readers that were inside have left
 *                                          ▼
 *                                      released by a later call: tamis__backlog_drain()
 *
 * Nobody waits for a grace period.  A thread of the library waits in their place: it is started by
 * the first block retired, sleeps when there is nothing to wait for, and ends after a second of that.
 * It releases nothing itself, so the user's allocator is called only from the user's calls.
 *
 * (call_rcu() would do the waiting too, but ends the process when it cannot start its thread.)
 */
#ifndef TAMIS_LIB_RECLAIM_H
#define TAMIS_LIB_RECLAIM_H

#include "base/sanitizer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The steps of a reader are inlined; not for tools that would look into them: TSan must not see its
 * barriers, UBSan finds that liburcu gives its readers less alignment than it says, and an analyzer cannot
 * know that liburcu makes a thread known. */
#if !defined(TAMIS_SANITIZED) && !defined(__clang_analyzer__)
#define _LGPL_SOURCE
#endif
#include <urcu/urcu-bp.h>

#ifdef TAMIS_TSAN
extern char tamis__readers; /* stands for all readers, to TSan, which knows nothing of liburcu */
#endif

/* ---- readers: between entering and leaving no memory that was reachable is released ----
 *
 * Usually costs two stores to memory of the thread's own; never waits.  The first call of a thread, which
 * makes it known to liburcu, takes a lock for the time of a list insert. */

/* Where liburcu keeps the calling thread's entry in its list of readers, which is NULL while the thread is
 * not known to it; one of tamis__no_reader's NULLs, if the thread has not been introduced, or if this
 * system lets no reader in without a fence.  liburcu's own variable is another library's: to find the
 * thread's part of it takes a function call each time. */
extern _Thread_local struct urcu_bp_reader **tamis__reader
    __attribute__((tls_model("initial-exec")));
extern struct urcu_bp_reader *tamis__no_reader[2];

/* What a reader leaves by. */
typedef struct urcu_bp_reader *reader_token;

/* For every thread and system. */
void tamis__reader_enter(void);
void tamis__reader_leave(void);

/* The usual case, without a function call: of a thread that liburcu knows, where the barriers are the business
 * of who waits for readers (membarrier).  Does what urcu_bp_read_lock() and urcu_bp_read_unlock() do then:
 * the thread's counter has, in its lower half, how often the thread is inside.  NULL: it is not so; nothing
 * is done. */
static inline reader_token registered_reader_enter(void)
{
  reader_token pass = *tamis__reader;
  if (!pass)
    return NULL;
#ifdef _LGPL_SOURCE
  bool inside = pass->ctr & URCU_BP_GP_CTR_NEST_MASK;
  CMM_STORE_SHARED(pass->ctr,
                   inside ? pass->ctr + URCU_BP_GP_COUNT : CMM_LOAD_SHARED(urcu_bp_gp.ctr));
  cmm_barrier();
#else
  urcu_bp_read_lock();
#endif
  return pass;
}

static inline void registered_reader_leave(reader_token pass)
{
  TSAN(__tsan_release(&tamis__readers));
#ifdef _LGPL_SOURCE
  cmm_barrier();
  CMM_STORE_SHARED(pass->ctr, pass->ctr - URCU_BP_GP_COUNT);
#else
  (void) pass;
  urcu_bp_read_unlock();
#endif
}

static inline reader_token reader_enter(void)
{
  reader_token pass = registered_reader_enter();
  if (!pass)
    tamis__reader_enter();
  return pass;
}

static inline void reader_leave(reader_token pass)
{
  if (pass)
    registered_reader_leave(pass);
  else
    tamis__reader_leave();
}

/* The first member of every block that is retired.  Readers do not look at it. */
struct retired {
  struct retired *next;
  size_t size;
};

/* Takes a block that nobody sees any more.  Called from the calls below, without any of their locks. */
typedef void backlog_release(void *owner, struct retired *block, size_t size);

/* A filter's blocks between their last use and their release. */
struct backlog {
  backlog_release *release;
  void *owner;
  const _Atomic uint64_t *bytes; /* of the filter, what waits among them */
  _Atomic uint64_t held;         /* bytes that wait */
  struct retired *fresh;         /* retired since `waiting` began to wait */
  struct retired *waiting;       /* for the grace period of the ticket */
  struct ticket *ticket;
};

/* False: no memory. */
bool tamis__backlog_init(struct backlog *backlog, backlog_release *release, void *owner,
                         const _Atomic uint64_t *bytes);

/* Releases everything at once: no reader may be left, or come.  Fine after a failed init. */
void tamis__backlog_destroy(struct backlog *backlog);

/* The block is out of reach for readers that enter from now on. */
void tamis__backlog_retire(struct backlog *backlog, struct retired *block, size_t size);

/* Releases what no reader can see any more.  True if it has released something. */
bool tamis__backlog_drain(struct backlog *backlog);

#endif
