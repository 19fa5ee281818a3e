/* SPDX-License-Identifier: MIT
 *
 * Layer 1: releases memory when no reader can see it any more.  No other code uses liburcu (the bp
 * flavour, so programs need not register their threads).  reclaim.c says how this works.
 *
 *    a filter's calls                      the waiting thread            readers
 *
 *      retire: block ──► fresh
 *                          │ needs grace
 *                          ▼ period n+1
 *                        waiting ── wanted ──► begins n+1 ───────────►  inside? registered: liburcu
 *                          │                   waits                            counted: counted.h
 *      drain:              ◄──── elapsed ───── all have left  ◄───────  leave
 *        release ◄─────────┘
 *
 * A block that has been unlinked is retired into its filter's backlog, and released after a grace
 * period: a stretch of time in which every reader that was inside at its beginning has left.  No
 * caller waits for a grace period: one thread of the library does.  The first request starts the
 * thread, which ends after a second without requests.  The thread releases nothing: later calls of
 * the filter do, so only the user's calls use the user's allocator.
 *
 * Grace periods are numbered.  If n is the last one that has begun, a block that is retired now
 * needs n + 1, because n may have begun before the block was unlinked.  So a filter keeps two lists
 * of blocks: `fresh`, and `waiting` with the number of its grace period.
 */
#ifndef TAMIS_LIB_RECLAIM_H
#define TAMIS_LIB_RECLAIM_H

#include "base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The build defines TAMIS_INLINE_READERS if liburcu's reader has the form that
 * registered_reader_enter() expects.  Three tools need calls of liburcu's functions: TSan must not
 * see the barriers of the inlined steps, UBSan finds that liburcu's readers are less aligned than
 * declared, and an analyzer does not know what liburcu registers. */
#if defined(TAMIS_SANITIZED) || defined(__clang_analyzer__)
#undef TAMIS_INLINE_READERS
#endif
#ifdef TAMIS_INLINE_READERS
#define _LGPL_SOURCE
#endif
#include <urcu/urcu-bp.h>

#ifdef TAMIS_TSAN
extern char tamis__readers; /* stands for all readers in TSan, as liburcu has no annotations */
#endif

/* ---- readers ----
 *
 * No memory that a reader can reach is released while the reader is inside.  A reader may read only
 * the memory of filters whose backlog was created before the reader entered. */

/* *tamis__reader is the calling thread's entry in liburcu's registry.  In a registered thread,
 * tamis__reader points to liburcu's variable urcu_bp_reader, otherwise to a NULL in
 * tamis__no_reader.  (A thread looks the variable up once, by a function call into liburcu.) */
extern _Thread_local struct urcu_bp_reader **tamis__reader DIRECT_TLS;
extern struct urcu_bp_reader *tamis__no_reader[2];

/* The number of the library's read sections that the calling thread is in, for assert(). */
extern _Thread_local unsigned tamis__read_sections;
#if defined(NDEBUG) || defined(TAMIS_TSAN)
#define READ_SECTIONS(change) ((void) 0)
#else
#define READ_SECTIONS(change) ((void) (tamis__read_sections change))
#endif

typedef struct urcu_bp_reader *reader_token;

/* Enter and leave a read section, for every thread, on every system.  A thread's first call
 * registers the thread with liburcu, which takes a lock to insert the thread into a list. */
void tamis__reader_enter(void);
void tamis__reader_leave(void);

/* Enters a section in the usual case: the thread is registered, and readers need no barriers
 * because the waiting thread calls membarrier.  To enter and to leave then take one plain store
 * each, to the thread's own memory.  In any other case returns NULL, and does nothing.
 *
 * The inlined code does what urcu_bp_read_lock() and urcu_bp_read_unlock() do: the lower half of
 * the reader's counter says how many sections the reader is in. */
static inline reader_token registered_reader_enter(void)
{
  reader_token reader = *tamis__reader;
  if (!reader)
    return NULL;
  READ_SECTIONS(++);
#ifdef TAMIS_INLINE_READERS
  bool inside = reader->ctr & URCU_BP_GP_CTR_NEST_MASK;
  CMM_STORE_SHARED(reader->ctr,
                   inside ? reader->ctr + URCU_BP_GP_COUNT : CMM_LOAD_SHARED(urcu_bp_gp.ctr));
  cmm_barrier();
#else
  urcu_bp_read_lock();
#endif
  return reader;
}

static inline void registered_reader_leave(reader_token reader)
{
  TSAN(__tsan_release(&tamis__readers));
  READ_SECTIONS(--);
#ifdef TAMIS_INLINE_READERS
  cmm_barrier();
  reader->ctr -= URCU_BP_GP_COUNT;
  cmm_barrier();
#else
  (void) reader;
  urcu_bp_read_unlock();
#endif
}

static inline reader_token reader_enter(void)
{
  reader_token reader = registered_reader_enter();
  if (!reader)
    tamis__reader_enter();
  return reader;
}

static inline void reader_leave(reader_token reader)
{
  if (reader)
    registered_reader_leave(reader);
  else
    tamis__reader_leave();
}

/* ---- waiting ----
 *
 * Nothing may wait in a read section, because all filters' grace periods would wait, too.  So a
 * thread leaves its section before it waits, and enters again afterwards.  During the pause, the
 * caller must keep alive by other means the memory that it uses later. */

/* How a thread had entered its section before a pause, and must enter it again. */
enum reader_pause { READER_OUTSIDE, READER_REGISTERED, READER_COUNTED, READER_NESTED };

/* Leaves the read section that the library has entered.  `inside` is false if it has entered none.
 * (A section that the program itself has entered by calls of liburcu stays open.) */
enum reader_pause tamis__reader_pause(bool inside);

void tamis__reader_resume(enum reader_pause pause);

/* ---- backlogs ---- */

/* Every retired block begins with this struct, which readers do not read. */
struct retired {
  struct retired *next;
  uint64_t size;
};

/* Releases a block that no reader can see any more.  Called with no lock held. */
typedef void backlog_release(void *owner, struct retired *block, uint64_t size);

/* Returns true if a paused reader still uses the block, which then stays in the backlog. */
typedef bool backlog_in_use(const struct retired *block);

/* A filter's blocks that have been retired and not yet released. */
struct backlog {
  backlog_release *release;
  backlog_in_use *in_use; /* NULL: a block is never used after its grace period */
  void *owner;
  const _Atomic uint64_t *bytes; /* bytes of the filter and its backlog */
  _Atomic uint64_t held;         /* bytes in the backlog */
  struct retired *fresh;         /* blocks retired since `waiting` began to wait */
  struct retired *waiting;       /* blocks that wait for `grace_period` */
  uint64_t grace_period;
};

/* Registers the handler for forks.  Must be called before the creation of a filter that might get a
 * backlog.  Returns false if there is no memory. */
bool tamis__readers_init(void);

/* Begins an empty backlog.  Returns false if there is no memory. */
bool tamis__backlog_init(struct backlog *backlog, backlog_release *release, void *owner,
                         const _Atomic uint64_t *bytes);

/* Releases all blocks.  No reader may be inside, or enter later. */
void tamis__backlog_destroy(struct backlog *backlog);

/* Retires a block that later readers cannot reach.  `hurry`: the block's memory is needed soon. */
void tamis__backlog_retire(struct backlog *backlog, struct retired *block, uint64_t size,
                           bool hurry);

/* Releases the blocks that no reader can see any more.  Returns true if it has released one.
 * `hurry`: the caller needs the memory of all blocks, so the next grace period begins at once. */
bool tamis__backlog_drain(struct backlog *backlog, bool hurry);

#endif
