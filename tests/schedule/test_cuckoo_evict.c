/* SPDX-License-Identifier: MIT
 *
 * Moves of entries while other threads read, write and plan.
 */
#include "cuckoo_schedule.h"

#include "cuckoo/evict.h"

/* No thread stops: this is what the tests below build on. */
static void a_key_is_pushed(void **state)
{
  struct pushed p = make_pushed_in(*(const unsigned *) *state);
  uint64_t growths = stats_of(p.t.filter).growths;
  push(&p);
  assert_int_equal(stats_of(p.t.filter).growths, growths);
  finish_tiny(&p.t);
}

/* The entry has been copied and not yet cleared: a look-up finds the key. */
static void a_move_half_done(void **state)
{
  struct pushed p = make_pushed_in(*(const unsigned *) *state);
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_entry_copied");
  assert_true(tamis_contains_hash(p.t.filter, p.moved));
  assert_true(stands_in_bucket(&p.t, p.moved, HOME));
  assert_true(stands_in_bucket(&p.t, p.moved, p.upper));
  assert_int_equal(go_on(&writer), TAMIS_OK);
  expect_in(&p.t, p.next);
  finish_tiny(&p.t);
}

/* A thread that holds a stripe may rely on its buckets: no entry is moved there. */
static void a_move_waits_for_the_stripe_of_its_target(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct segment *segment = directory_segment(
      directory_load(generation_directory_entry(cuckoo_generation(cuckoo_of(p.t.filter), 0), 0)));
  struct stripe *stripe = stripe_of_bucket(&p.t.geometry, segment, HOME);
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  schedule_stop_at("no point");
  stripe_lock(stripe);
  start_beside(&writer);
  bool moved = stands_in_bucket(&p.t, p.moved, HOME);
  stripe_unlock(stripe);
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_false(moved);
  expect_in(&p.t, p.next);
  finish_tiny(&p.t);
}

/* A remove of a key waits while its entry is moved. */
static void a_remove_of_a_key_that_moves(void **state)
{
  struct pushed p = make_pushed_in(*(const unsigned *) *state);
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  struct call remover = call_of(&p.t, tamis_remove_hash, p.moved);
  start_and_stop(&writer, "cuckoo_entry_copied");
  start_beside(&remover);
  assert_int_equal(go_on(&remover), TAMIS_OK);
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_false(tamis_contains_hash(p.t.filter, p.moved));
  expect_out(&p.t, p.moved);
  expect_in(&p.t, p.next);
  finish_tiny(&p.t);
}

/* ---- plans that are out of date ---- */

/* The entry that was to be moved has been removed, and another one stands in its lane. */
static void a_planned_entry_is_replaced(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_path_planned");
  take(&p.t, p.moved);
  uint64_t other = hash_at(&p.t, LOWER, UPPER);
  add(&p.t, other);
  assert_true(stands_in_bucket(&p.t, other, UPPER));
  assert_int_equal(go_on(&writer), TAMIS_OK);
  expect_in(&p.t, p.next);
  assert_true(tamis_contains_hash(p.t.filter, other));
  assert_false(tamis_contains_hash(p.t.filter, p.moved));
  finish_tiny(&p.t);
}

static void a_planned_entry_is_removed(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_path_planned");
  take(&p.t, p.moved);
  assert_int_equal(go_on(&writer), TAMIS_OK);
  expect_in(&p.t, p.next);
  assert_false(tamis_contains_hash(p.t.filter, p.moved));
  finish_tiny(&p.t);
}

/* The lane that was free has been taken, and so have all other lanes of the bucket. */
static void planned_room_is_taken(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  stop_at(&writer, "cuckoo_path_planned");
  add_at(&p.t, HOME, OTHER_UPPER, 2 * LANES);
  assert_int_equal(go_on(&writer), TAMIS_OK);
  expect_in(&p.t, p.next);
  finish_tiny(&p.t);
}

/* An entry of the path is replaced after the search has read it and before the path is traced.
 * The new entry has a different other bucket. */
static void an_entry_is_replaced_while_planning(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  schedule_stop_at("path_found");
  start(&writer);
  schedule_wait_either("path_found", 1, "cuckoo_path_planned", 1);
  take(&p.t, p.moved);
  uint64_t other = hash_at(&p.t, LOWER, UPPER);
  add(&p.t, other);
  assert_int_equal(go_on(&writer), TAMIS_OK);
  expect_in(&p.t, p.next);
  assert_true(tamis_contains_hash(p.t.filter, other));
  finish_tiny(&p.t);
}

/* The path was planned in a segment that then splits: nothing may be moved there any more. */
static void a_split_between_plan_and_move(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  stop_at(&writer, "cuckoo_path_planned");
  split(&p.t);
  assert_int_equal(go_on(&writer), TAMIS_OK);
  expect_in(&p.t, p.next);
  finish_tiny(&p.t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      in_either_generation(a_key_is_pushed),
      in_either_generation(a_move_half_done),
      cmocka_unit_test(a_move_waits_for_the_stripe_of_its_target),
      in_either_generation(a_remove_of_a_key_that_moves),
      cmocka_unit_test(a_planned_entry_is_replaced),
      cmocka_unit_test(a_planned_entry_is_removed),
      cmocka_unit_test(planned_room_is_taken),
      cmocka_unit_test(an_entry_is_replaced_while_planning),
      cmocka_unit_test(a_split_between_plan_and_move),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_evict", tests, NULL, NULL);
}
