/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "counter.h"
#include "harness.h"

#include <string.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 1000000, SHARDS = 4 };

static void bump(struct worker *worker)
{
  const struct counters *counters = worker->arg;
  for (unsigned i = 0; i < ROUNDS; i++) {
    counter_add(counters, 0, 1);
    counter_add(counters, 7, 3);
  }
  worker->result = tamis__thread_number();
}

/* One shard for all, where threads meet, or several, all of which count. */
static void sum_over(unsigned n)
{
  static struct counter_shard shards[SHARDS];
  memset(shards, 0, sizeof shards);
  struct counters counters = {shards, n - 1};
  struct worker workers[THREADS];
  harness_run(THREADS, 1, bump, &counters, workers);
  assert_int_equal(tamis__counter_sum(&counters, 0), THREADS * ROUNDS);
  assert_int_equal(tamis__counter_sum(&counters, 7), 3 * THREADS * ROUNDS);
  assert_int_equal(tamis__counter_sum(&counters, 1), 0);
  for (unsigned i = 0; i < THREADS; i++)
    for (unsigned j = 0; j < i; j++)
      assert_int_not_equal(workers[i].result, workers[j].result);
}

static void sums_lose_nothing(void **state)
{
  (void) state;
  for (unsigned n = 1; n <= SHARDS; n *= 2)
    sum_over(n);
}

static void a_thread_keeps_its_number(void **state)
{
  (void) state;
  assert_int_equal(tamis__thread_number(), tamis__thread_number());
  assert_int_not_equal(tamis__thread_number(), 0);
}

static void adds_return_the_new_value(void **state)
{
  (void) state;
  static struct counter_shard shard;
  struct counters counters = {&shard, 0};
  assert_int_equal(counter_add(&counters, 2, 5), 5);
  assert_int_equal(counter_add(&counters, 2, 1), 6);
}

/* The cores decide, within the limits. */
static void limits_are_kept_on_any_machine(void **state)
{
  (void) state;
  assert_int_equal(tamis__power_of_two_per_core(1u << 20, 2, 64), 64);
  assert_int_equal(tamis__power_of_two_per_core(0, 4, 64), 4);
  assert_int_equal(tamis__power_of_two_per_core(1u << 20, 8, 8), 8);
  unsigned n = tamis__power_of_two_per_core(1, 1, 1u << 20);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  assert_true((long) n >= cores && (long) n < 2 * cores);
}

static void a_shard_is_a_cache_line(void **state)
{
  (void) state;
  assert_int_equal(sizeof(struct counter_shard), 64);
  unsigned count = tamis__counter_shards();
  assert_in_range(count, 2, 64);
  assert_int_equal(count & (count - 1), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_lose_nothing),         cmocka_unit_test(a_thread_keeps_its_number),
      cmocka_unit_test(adds_return_the_new_value), cmocka_unit_test(limits_are_kept_on_any_machine),
      cmocka_unit_test(a_shard_is_a_cache_line),
  };
  return cmocka_run_group_tests_name("counter", tests, NULL, NULL);
}
