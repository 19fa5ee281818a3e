/* SPDX-License-Identifier: MIT
 *
 * Time for histories: stamps whose order is the real one on all cores.
 *
 * One counter.  A call's `invoked` is what the counter shows before the call; its `returned` is what it
 * showed when the call, being over, pushed it on by one.
 *
 *    sound      If A.returned < B.invoked, then B has read a number that A's push, or a later one, has
 *               written.  So A's push happened before B's read in the sense of C11, and all of A before
 *               all of B, on any machine.  No order is claimed that was not there.
 *    sensitive  The other way round, if A's push came before B's read, then A.returned < B.invoked: no
 *               order is lost.  Calls seem to overlap only if they did, but for the few instructions
 *               between the stamps and the call.
 *    cheap      Before a call it is a load, of a line that others push on; one locked instruction
 *               after it.  Nobody waits for anybody.
 *
 * What it hides: the push drains the store buffer, so a store of the library that is too weak to be
 * visible at once is made visible before the call counts as returned.  Cores' own clocks would not
 * drain it; but they must be compared across cores with an allowance for how far they are apart, which
 * is as long as a store waits.  That such stores are strong enough rests on the argument in
 * docs/correctness.md, and on the model.
 */
#ifndef TAMIS_STRESS_STAMP_H
#define TAMIS_STRESS_STAMP_H

#include <stdatomic.h>
#include <stdint.h>

struct stamps {
  _Alignas(64) _Atomic uint64_t now;
  char alone[64 - sizeof(uint64_t)];
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
