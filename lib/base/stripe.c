/* SPDX-License-Identifier: MIT */
#include "base/stripe.h"

#include "base/cores.h"
#include "base/hook.h"

#include <sched.h>
#include <time.h>

enum {
  SPIN_ROUNDS = 32,  /* looks at the lock before the first yield: longer than a look and an
                           insert under it take, far shorter than a time slice */
  YIELD_ROUNDS = 64, /* yields before the first sleep */
  SLEEP_NANOSECONDS = 50 * 1000, /* a yield does nothing for a holder of lower real-time priority;
                                    a sleep does */
};

unsigned tamis__stripe_count(void)
{
  /* 32 times the cores keeps two running threads apart nearly always. */
  return tamis__power_of_two_per_core(32, 64, 1024);
}

void tamis__stripes_init(const struct stripes *stripes)
{
  for (uint64_t i = 0; i <= stripes->mask; i++)
    stripe_init(&stripes->all[i].stripe);
}

void tamis__stripes_destroy(const struct stripes *stripes)
{
  for (uint64_t i = 0; i <= stripes->mask; i++)
    stripe_destroy(&stripes->all[i].stripe);
}

static void back_off(unsigned round)
{
  if (round < SPIN_ROUNDS)
    ck_pr_stall();
  else if (round < SPIN_ROUNDS + YIELD_ROUNDS)
    sched_yield();
  else
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_NANOSECONDS}, NULL);
}

void tamis__stripe_wait(struct stripe *stripe)
{
  HOOK(stripe_wait);
  /* Look before each try: a try writes to the line even when it fails. */
  for (unsigned round = 0; stripe_held(stripe) || !ck_spinlock_fas_trylock(&stripe->lock); round++)
    back_off(round);
}
