/* SPDX-License-Identifier: MIT
 *
 * Layer 1: counted readers.  They are threads that liburcu must not know of (R1 in reclaim.c).
 *
 * A counted reader adds 1 to a counter when it enters a read section, and subtracts 1 when it
 * leaves.  Odd and even phases have a counter each.  A thread that waits for the readers begins a
 * new phase, and waits until the counter of the old phase is 0:
 *
 *    reader                                 thread that waits
 *      P  reads the phase                     F  begins the next phase
 *      E  adds 1 to that phase's counter      D  reads the old phase's counter until it is 0
 *      C  reads the phase again: if it has
 *         changed, does L, then P again
 *      L  (at the end) subtracts 1
 *
 * To show: after D, no reader uses memory that was unlinked before F.  E, C, F and D are seq_cst,
 * so they have one order.  Take a reader that finds phase p, and the step F that ends p.
 * 1.  If C comes before F, then E comes before D.  So D does not read 0 before the reader's L.
 * 2.  If C comes after F, then C finds a new phase, and the reader tries again.  The reader then
 *    enters after F, and cannot reach memory that was unlinked before F.
 * Every wait ends, because new readers use the counter of the new phase.
 */
#ifndef TAMIS_LIB_COUNTED_H
#define TAMIS_LIB_COUNTED_H

#include "base/hook.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { COUNTED_SHARD_BITS = 3, COUNTED_SHARDS = 1 << COUNTED_SHARD_BITS };

/* If all members are 0, no reader is inside. */
struct counted_readers {
  _Alignas(64) _Atomic uint64_t phase;
  struct {
    /* The numbers of readers inside: [0] entered in an even phase, [1] entered in an odd phase. */
    _Alignas(64) _Atomic uint64_t inside[2];
  } shards[COUNTED_SHARDS];
};

/* Changes by other readers, all read-modify-writes, continue the subtraction's release sequence.
 * ORDER counted.leave (release)
 *   pairs with     counted.drained
 *   makes visible  that the reader has done all its reads
 *   if weakened    the waiting thread might read 0, and release memory that the reader still reads
 *   checked by     mutants/counted_leave_relaxed */
static inline void counted_leave(_Atomic uint64_t *counter)
{
  atomic_fetch_sub_explicit(counter, 1, memory_order_release);
}

/* ORDER counted.enter (seq_cst)
 *   pairs with     counted.drained
 *   makes visible  to the waiting thread: that this phase has a reader
 *   if weakened    the waiting thread might not wait for a reader that has entered in the old phase
 *   checked by     mutants/counted_enter_acq_rel */
static inline void counted_add(_Atomic uint64_t *counter)
{
  atomic_fetch_add_explicit(counter, 1, memory_order_seq_cst);
}

/* ORDER counted.check (seq_cst)
 *   pairs with     counted.flip
 *   makes visible  to a reader that finds a new phase: what was unlinked before this phase began
 *   if weakened    a reader might enter in the old phase after the waiting thread has read 0
 *   checked by     mutants/counted_check_acquire,
 *                  mutants/counted_phase_not_checked (shows that the phase is read again) */
static inline uint64_t counted_phase(const struct counted_readers *readers)
{
  return atomic_load_explicit(&readers->phase, memory_order_seq_cst);
}

/* Enters a section, and returns the increased counter.  Tries again only if a phase has begun. */
static inline _Atomic uint64_t *counted_enter(struct counted_readers *readers, unsigned shard)
{
  for (;;) {
    uint64_t phase = atomic_load_explicit(&readers->phase, memory_order_relaxed); /* see step C */
    HOOK(counted_phase_read);
    _Atomic uint64_t *counter = &readers->shards[shard].inside[phase & 1];
    counted_add(counter);
    if (counted_phase(readers) == phase)
      return counter;
    counted_leave(counter);
  }
}

/* Begins a new phase, and returns the phase that ends.  The caller must have waited for the readers
 * of all earlier phases.  Only one thread at a time may call this function.
 * ORDER counted.flip (seq_cst)
 *   pairs with     counted.check, whose comment says why
 *   checked by     mutants/counted_flip_acq_rel, mutants/counted_phase_is_never_new (shows that a
 *                  phase begins) */
static inline uint64_t counted_flip(struct counted_readers *readers)
{
  return atomic_fetch_add_explicit(&readers->phase, 1, memory_order_seq_cst);
}

/* Returns true if all readers of a phase have left.  The phase must be over.
 * ORDER counted.drained (seq_cst)
 *   pairs with     counted.enter, counted.leave
 *   if weakened    an acquire load might miss that a reader has entered, as counted.enter says
 *   checked by     mutants/counted_drained_acquire,
 *                  mutants/counted_readers_not_waited_for (shows that the counters are read) */
static inline bool counted_have_left(const struct counted_readers *readers, uint64_t phase)
{
  for (unsigned i = 0; i < COUNTED_SHARDS; i++)
    if (atomic_load_explicit(&readers->shards[i].inside[phase & 1], memory_order_seq_cst) != 0)
      return false;
  return true;
}

/* Forgets all readers, in the child of a fork.  Relaxed: the child has only one thread. */
static inline void counted_reset(struct counted_readers *readers)
{
  for (unsigned i = 0; i < COUNTED_SHARDS; i++)
    for (unsigned odd = 0; odd < 2; odd++)
      atomic_store_explicit(&readers->shards[i].inside[odd], 0, memory_order_relaxed);
}

#endif
