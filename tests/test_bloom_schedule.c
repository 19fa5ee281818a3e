/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the Bloom filter, each replayed exactly.  Built with the hooks.
 */
#include "unit.h"

#include "base/hook.h"
#include "bloom/bloom.h"
#include "filter_unit.h"
#include "schedule.h"

#include <pthread.h>

struct call {
  tamis_filter *filter;
  uint64_t hash;
  int result;
  pthread_t thread;
};

static void *unique(void *arg)
{
  struct call *call = arg;
  call->result = tamis_add_unique_hash(call->filter, call->hash);
  HOOK(call_returned);
  return NULL;
}

static void start(struct call *call)
{
  assert_int_equal(pthread_create(&call->thread, NULL, unique, call), 0);
}

static void finish(struct call *call)
{
  assert_int_equal(pthread_join(call->thread, NULL), 0);
}

/* Both have seen that the key is missing before either takes the stripe: without the second look
 * under it, both would win. */
static void two_that_both_saw_it_missing(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, b = a;
  schedule_stop_at("bloom_unique_looked");
  start(&a);
  start(&b);
  schedule_wait("bloom_unique_looked", 2);
  schedule_go();
  finish(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal((a.result == TAMIS_PRESENT) + (b.result == TAMIS_PRESENT), 1);
  tamis_destroy(f);
}

/* The first is in the middle of setting its bits when the second comes all the way.  The second must
 * wait for the stripe; without it, it would set the rest, and both would win. */
static void one_that_comes_while_bits_are_set(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, b = a;
  schedule_stop_at("bloom_set_word");
  start(&a);
  schedule_wait("bloom_set_word", 1);
  start(&b);
  /* b waits for the stripe or, if something is wrong, gets as far as a */
  schedule_wait_either("stripe_wait", 1, "bloom_set_word", 2);
  assert_false(tamis_contains_hash(f, 7)); /* a reader does not wait, and sees no half of it */
  schedule_go();
  finish(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  tamis_destroy(f);
}

/* A key that is there is present without a lock, whoever holds its stripe: the filter has only one. */
static void a_present_key_does_not_wait(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  options.seed = 42;
  options.stripes = 1;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 8), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7}, b = {.filter = f, .hash = 8, .result = TAMIS_EINVAL};
  schedule_stop_at("bloom_unique_looked_again");
  start(&a);
  schedule_wait("bloom_unique_looked_again", 1);
  start(&b);
  schedule_wait_either("stripe_wait", 1, "call_returned", 1);
  int result = b.result; /* if it waits, it will not have one until a goes on */
  schedule_go();
  finish(&a);
  finish(&b);
  assert_int_equal(result, TAMIS_PRESENT);
  tamis_destroy(f);
}

/* Half of the key's bits are set: the key is not there yet, and nobody is told that it is. */
static void a_half_added_key_is_absent(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, other = {.filter = f, .hash = 8};
  schedule_stop_at("bloom_set_word");
  start(&a);
  schedule_wait("bloom_set_word", 1);
  assert_false(tamis_contains_hash(f, 7));
  schedule_go();
  finish(&a);
  assert_true(tamis_contains_hash(f, 7));
  start(&other);
  finish(&other);
  assert_int_equal(other.result, TAMIS_OK);
  tamis_destroy(f);
}

/* A plain add of the same key sets all bits while the unique add is between its second look and its
 * first bit: the unique add was overtaken and must say so.  If it claimed to be first, it would have
 * published nothing to those who find the key. */
static void a_plain_add_that_overtakes(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, b = a;
  schedule_stop_at("bloom_unique_looked_again");
  start(&a);
  schedule_wait("bloom_unique_looked_again", 1);
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK); /* takes no lock: is not held up */
  schedule_go();
  finish(&a);
  start(&b);
  finish(&b);
  assert_int_equal(a.result, TAMIS_PRESENT);
  assert_int_equal(b.result, TAMIS_PRESENT);
  assert_int_equal(stats_of(f).count, 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* A unique add has set its first word when a plain add of the same key passes it: both have set bits,
 * but the key counts once, and a filter for two keys still takes a second one. */
static void adds_that_share_a_key_count_it_once(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 2;
  options.fpp = 0.001;
  options.growable = false;
  options.seed = 42;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7}, b = {.filter = f, .hash = 8};
  schedule_stop_at("bloom_set_word");
  start(&a);
  schedule_wait("bloom_set_word", 1);
  schedule_pass_by(); /* the main thread does not stop */
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  schedule_go();
  finish(&a);
  assert_int_equal(a.result, TAMIS_OK);
  assert_int_equal(stats_of(f).count, 1);
  start(&b);
  finish(&b);
  assert_int_equal(b.result, TAMIS_OK);
  assert_int_equal(stats_of(f).count, 2);
  assert_valid(f);
  tamis_destroy(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_that_both_saw_it_missing),
      cmocka_unit_test(one_that_comes_while_bits_are_set),
      cmocka_unit_test(a_present_key_does_not_wait),
      cmocka_unit_test(a_half_added_key_is_absent),
      cmocka_unit_test(a_plain_add_that_overtakes),
      cmocka_unit_test(adds_that_share_a_key_count_it_once),
  };
  return cmocka_run_group_tests_name("bloom_schedule", tests, NULL, NULL);
}
