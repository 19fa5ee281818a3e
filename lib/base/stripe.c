/* SPDX-License-Identifier: MIT */
#include "base/stripe.h"

#include "base/cancel.h"
#include "base/hook.h"

#include <sched.h>

/* A sleep lets the lock's holder run even if its real-time priority is lower; a yield does not. */
enum { SLEEP_NANOSECONDS = 50 * 1000 };

void tamis__lock_back_off(unsigned round)
{
  if (round < LOCK_SPIN_ROUNDS)
    ck_pr_stall();
  else if (round < LOCK_SPIN_ROUNDS + LOCK_YIELD_ROUNDS)
    sched_yield();
  else
    sleep_uncancelled(SLEEP_NANOSECONDS); /* a cancelled thread would keep its other locks */
}

void tamis__lock_wait(struct lock *lock)
{
  HOOK(stripe_wait);
  /* Reads the lock before each try: even a try that fails writes to the lock's cache line. */
  for (unsigned round = 0; lock_is_held(lock) || !ck_spinlock_fas_trylock(&lock->held); round++)
    tamis__lock_back_off(round);
}
