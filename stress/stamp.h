/* SPDX-License-Identifier: MIT
 *
 * Time stamps for histories, which order events on all cores as they happened.
 *
 * The clock is one counter.  A call's `invoked` is the value of the counter before the call.  Its
 * `returned` is the value from which the counter is incremented after the call.
 *
 *    sound      Suppose A.returned < B.invoked.  Then B has read a value that A's increment, or a
 *               later one, has written.  So in the sense of C11, A's increment happened before B's
 *               read, and all of A before all of B, on any machine.  The stamps claim no order that
 *               did not exist.
 *    sensitive  If A's increment came before B's read, then A.returned < B.invoked.  So no order is
 *               lost: calls that seem to overlap did so, except for the few instructions between
 *               the stamps and the calls.
 *
 * One thing these stamps hide.  The increment drains the store buffer, so a store of the library
 * that is too weak to be visible at once becomes visible before the call counts as returned.  The
 * clocks of the cores would not drain it, but comparing them takes a tolerance for their
 * difference, which is as long as a store stays in the buffer.  That such stores are strong enough
 * follows from the argument in docs/internals/correctness.md, and from the model.
 */
#ifndef TAMIS_STRESS_STAMP_H
#define TAMIS_STRESS_STAMP_H

#include <stdatomic.h>
#include <stdint.h>

struct stamps {
  _Alignas(64) _Atomic uint64_t now;
  char padding[64 - sizeof(uint64_t)];
};

static inline uint64_t stamp_invoked(struct stamps *stamps)
{
  return atomic_load_explicit(&stamps->now, memory_order_seq_cst);
}

static inline uint64_t stamp_returned(struct stamps *stamps)
{
  return atomic_fetch_add_explicit(&stamps->now, 1, memory_order_seq_cst);
}

#endif
