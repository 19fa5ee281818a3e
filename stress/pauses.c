/* SPDX-License-Identifier: MIT */
#include "pauses.h"

#ifdef TAMIS_HOOKS
#include "base/hook.h"
#include "harness.h"

#include <sched.h>
#include <time.h>

/* 0: the thread does not pause. */
static _Thread_local uint64_t pause_seed;

/* In each round, one hook in FOCUS_GROUPS pauses threads FOCUS times as often as the others do. */
enum { FOCUS_GROUPS = 4, FOCUS = 10, SPIN = 2000, SLEEP_NS = 20000, LONG_NS = 1000000 };
/* Of a thread in a round: on a busy machine each may take a few milliseconds. */
enum { MOST_PAUSES = 2000 };
static unsigned pause_period, long_period;
static _Thread_local uint64_t pause_focus;
static _Thread_local unsigned pauses_left;

static void pause_here(const char *hook)
{
  if (!pause_seed)
    return;
  uint64_t random = random_next(&pause_seed);
  bool focus = random_at(pause_focus, (uintptr_t) hook) % FOCUS_GROUPS == 0;
  if (random % (focus ? pause_period / FOCUS : pause_period))
    return;
  if (pauses_left == 0)
    return;
  pauses_left--;
  random >>= 32;
  if (long_period && random % long_period == 0)
    nanosleep(&(struct timespec){.tv_nsec = LONG_NS}, NULL);
  else if (random % 4 == 0) {
    nanosleep(&(struct timespec){.tv_nsec = (long) (random % SLEEP_NS)}, NULL);
  } else if (random % 4 == 1) {
    for (uint64_t i = random / 4 % SPIN; i > 0; i--)
      atomic_signal_fence(memory_order_seq_cst);
  } else {
    sched_yield();
  }
}

void pauses_install(unsigned period, unsigned one_long_in)
{
  pause_period = period;
  long_period = one_long_in;
  atomic_store(&tamis__hook, pause_here);
}

void pauses_on(uint64_t seed, uint64_t round)
{
  pause_seed = seed | 1;
  pause_focus = round;
  pauses_left = MOST_PAUSES;
}

void pauses_off(void)
{
  pause_seed = 0;
}
#else
void pauses_install(unsigned period, unsigned one_long_in)
{
  (void) period, (void) one_long_in;
}

void pauses_on(uint64_t seed, uint64_t round)
{
  (void) seed, (void) round;
}

void pauses_off(void)
{
}
#endif
