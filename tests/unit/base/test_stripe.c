/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/cores.h"
#include "base/stripe.h"
#include "harness.h"

enum { THREADS = 16, ROUNDS = 20000, STRIPES = 4 };

struct shared {
  struct padded_stripe stripes[STRIPES];
  uint64_t plain[STRIPES]; /* one under each stripe; TSan checks that the lock orders them */
};

static void bump(struct worker *worker)
{
  struct shared *shared = worker->arg;
  uint64_t seed = worker->seed;
  for (unsigned i = 0; i < ROUNDS; i++) {
    unsigned which = random_next(&seed) % STRIPES;
    struct stripe *stripe = &shared->stripes[which].stripe;
    stripe_lock(stripe);
    uint64_t *plain = &shared->plain[which], before = *plain;
    for (unsigned pause = 0; pause < 10; pause++) /* long enough for another thread to come in */
      ck_pr_stall();
    *plain = before + 1;
    stripe_unlock(stripe);
  }
}

TEST(stripes_exclude_each_other)
{
  struct shared shared = {.plain = {0}};
  for (unsigned i = 0; i < STRIPES; i++)
    lock_init(&shared.stripes[i].stripe.lock);
  struct worker workers[THREADS];
  harness_run(THREADS, 1, bump, &shared, workers);
  assert_int_equal(shared.plain[0] + shared.plain[1] + shared.plain[2] + shared.plain[3],
                   THREADS * ROUNDS);
  for (unsigned i = 0; i < STRIPES; i++) {
    assert_false(stripe_held(&shared.stripes[i].stripe));
    lock_destroy(&shared.stripes[i].stripe.lock);
  }
}

TEST(a_stripe_is_a_cache_line)
{
  assert_int_equal(sizeof(struct padded_stripe), 64);
  unsigned count = usual_stripes();
  assert_in_range(count, 64, 1024);
  assert_int_equal(count & (count - 1), 0);
}
