/* SPDX-License-Identifier: MIT
 *
 * Unique adds of one key.
 */
#include "cuckoo_schedule.h"

/* Both have seen that the key is missing; the second one must wait until the first has added it. */
static void two_unique_adds(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, UPPER);
  struct call a = call_of(&t, tamis_add_unique_hash, hash), b = a;
  start_and_stop(&a, "cuckoo_unique_looked");
  start(&b);
  schedule_wait_either("stripe_wait", 1, "cuckoo_unique_looked", 2);
  assert_false(tamis_contains_hash(t.filter, hash)); /* a reader does not wait */
  schedule_go();
  finish(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal((a.result == TAMIS_PRESENT) + (b.result == TAMIS_PRESENT), 1);
  note(&t, hash);
  finish_tiny(&t);
}

/* The first has looked when a new generation opens.  The second would add there; it must wait for the
 * first one in the generation that both know. */
static void two_unique_adds_and_a_new_generation(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, OTHER_UPPER);
  split(&t);
  struct call a = call_of(&t, tamis_add_unique_hash, hash), b = a;
  start_and_stop(&a, "cuckoo_unique_looked");
  schedule_pass_by();
  open_generation(&t);
  start(&b);
  schedule_wait_either("stripe_wait", 1, "cuckoo_unique_looked", 2);
  schedule_go();
  finish(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  note(&t, hash);
  finish_tiny(&t);
}

/* A key that is there is present without a lock, whoever holds its buckets. */
static void a_unique_add_of_a_present_key_does_not_wait(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t there = hash_at(&t, HOME, UPPER), hash = hash_at(&t, HOME, UPPER);
  add(&t, there);
  struct call holder = call_of(&t, tamis_add_unique_hash, hash);
  struct call asker = call_of(&t, tamis_add_unique_hash, there);
  asker.result = TAMIS_EINVAL;
  start_and_stop(&holder, "cuckoo_unique_looked");
  start(&asker);
  schedule_wait_either("stripe_wait", 1, "call_returned", 1);
  int result = asker.result; /* if it waits, it will not have one until the holder goes on */
  schedule_go();
  assert_int_equal(finish(&holder), TAMIS_OK);
  finish(&asker);
  assert_int_equal(result, TAMIS_PRESENT);
  note(&t, hash);
  finish_tiny(&t);
}

/* The first knows of one generation, and holds nothing yet, when a second one opens and the key is added
 * there: it must not win as well. */
static void a_unique_add_that_knows_a_generation_too_few(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, OTHER_UPPER);
  split(&t);
  struct call late = call_of(&t, tamis_add_unique_hash, hash);
  start_and_stop(&late, "cuckoo_counted");
  schedule_pass_by();
  open_generation(&t);
  assert_int_equal(tamis_add_unique_hash(t.filter, hash), TAMIS_OK);
  schedule_go();
  assert_int_equal(finish(&late), TAMIS_PRESENT);
  note(&t, hash);
  finish_tiny(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_unique_adds),
      cmocka_unit_test(two_unique_adds_and_a_new_generation),
      cmocka_unit_test(a_unique_add_of_a_present_key_does_not_wait),
      cmocka_unit_test(a_unique_add_that_knows_a_generation_too_few),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_insert", tests, NULL, NULL);
}
