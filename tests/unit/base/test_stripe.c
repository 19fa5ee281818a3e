/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/parts.h"
#include "base/stripe.h"
#include "harness.h"

struct shared {
  struct stripes stripes;
  uint64_t plain[4]; /* one under each stripe; TSan checks that the lock orders them */
};

enum { THREADS = 16, ROUNDS = 20000 };

static void bump(struct worker *worker)
{
  struct shared *shared = worker->arg;
  uint64_t seed = worker->seed;
  for (unsigned i = 0; i < ROUNDS; i++) {
    uint64_t hash = random_next(&seed);
    struct stripe *stripe = &shared->stripes.all[hash & shared->stripes.mask].stripe;
    stripe_lock(stripe);
    uint64_t *plain = &shared->plain[hash & shared->stripes.mask], before = *plain;
    for (unsigned pause = 0; pause < 10; pause++) /* long enough for another thread to come in */
      ck_pr_stall();
    *plain = before + 1;
    stripe_unlock(stripe);
  }
}

TEST(stripes_exclude_each_other)
{
  struct shared shared = {.stripes = {aligned_alloc(64, 4 * sizeof(struct padded_stripe)), 3}};
  assert_non_null(shared.stripes.all);
  tamis__stripes_init(&shared.stripes);
  struct worker workers[THREADS];
  harness_run(THREADS, 1, bump, &shared, workers);
  assert_int_equal(shared.plain[0] + shared.plain[1] + shared.plain[2] + shared.plain[3],
                   THREADS * ROUNDS);
  for (unsigned i = 0; i < 4; i++)
    assert_false(stripe_held(&shared.stripes.all[i].stripe));
  tamis__stripes_destroy(&shared.stripes);
  free(shared.stripes.all);
}

TEST(a_stripe_is_a_cache_line)
{
  assert_int_equal(sizeof(struct padded_stripe), 64);
  unsigned count = tamis__stripe_count();
  assert_in_range(count, 64, 1024);
  assert_int_equal(count & (count - 1), 0);
}
