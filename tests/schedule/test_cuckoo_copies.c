/* SPDX-License-Identifier: MIT
 *
 * Copies of a key are counted while they move, come and go.
 */
#include "cuckoo_schedule.h"

static int count(tamis_filter *f, uint64_t hash)
{
  return (int) tamis_count_hash(f, hash);
}

/* Starts a call, and waits until it waits for a stripe or has returned. */
static void start_and_wait(struct call *call)
{
  schedule_stop_at("no point");
  start_beside(call);
}

/* An entry that is moved stands in both its buckets for a moment. */
static void a_key_that_is_moved_is_counted_once(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call mover = call_of(&p.t, tamis_add_hash, p.next);
  struct call counter = call_of(&p.t, count, p.moved);
  start_and_stop(&mover, "cuckoo_entry_copied");
  start_beside(&counter);
  assert_int_equal(go_on(&mover), TAMIS_OK);
  assert_int_equal(finish(&counter), 1);
  expect_in(&p.t, p.next);
  finish_tiny(&p.t);
}

/* A key is replaced: its entry leaves the older generation, and comes to the newer one.  There are
 * never more copies than two. */
static int replace(tamis_filter *f, uint64_t hash)
{
  int result = tamis_remove_hash(f, hash);
  return result == TAMIS_OK ? tamis_add_hash(f, hash) : result;
}

static void all_generations_are_counted_at_one_moment(void **state)
{
  (void) state;
  struct tiny t = make_tiny(32);
  uint64_t x = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, x);
  open_generation(&t);
  add(&t, x);
  assert_int_equal(entries_of(&t, 1), 2); /* with the one that has opened it */
  assert_int_equal(count(t.filter, x), 2);
  struct call counter = call_of(&t, count, x), replacer = call_of(&t, replace, x);
  start_and_stop(&counter, "cuckoo_pair_counted");
  start_beside(&replacer);
  assert_int_equal(go_on(&counter), 2);
  assert_int_equal(finish(&replacer), TAMIS_OK);
  assert_int_equal(entries_of(&t, 1), 3); /* the remove took the older one, which knows more */
  finish_tiny(&t);
}

/* While a segment splits, its copies are in it and in its successors. */
static void a_segment_that_splits_is_counted_once(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t x = hash_at(&t, HOME, OTHER_UPPER);
  for (unsigned i = 0; i < LANES; i++)
    add(&t, x);
  add_at(&t, LOWER, UPPER, 2 * LANES);
  struct call splitter = call_of(&t, tamis_add_hash, hash_at(&t, LOWER, UPPER));
  struct call counter = call_of(&t, count, x);
  start_and_stop(&splitter, "cuckoo_split_copied");
  start_beside(&counter);
  assert_int_equal(go_on(&splitter), TAMIS_OK);
  expect_in(&t, splitter.hash);
  assert_int_equal(finish(&counter), LANES);
  assert_int_equal(stats_of(t.filter).growths, 1);
  finish_tiny(&t);
}

/* The counts of a segment belong to keys of other pairs and stripes, too. */
static void counts_are_read_under_their_lock(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t x = hash_at(&t, HOME, UPPER);
  for (unsigned i = 0; i < LANES; i++)
    add(&t, x);
  struct segment *segment = directory_segment(
      directory_load(generation_directory_entry(cuckoo_generation(cuckoo_of(t.filter), 0), 0)));
  struct call counter = call_of(&t, count, x);
  struct stripe *stripe = stripe_of_bucket(&t.geometry, segment, HOME);
  stripe_lock(&segment->duplicates_lock);
  start_and_wait(&counter);
  assert_true(stripe_held(stripe)); /* it has not returned */
  stripe_unlock(&segment->duplicates_lock);
  assert_int_equal(finish(&counter), LANES);
  finish_tiny(&t);
}

/* A key that is not in is counted without a lock. */
static void an_absent_key_waits_for_nobody(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  add(&t, hash_at(&t, HOME, UPPER));
  uint64_t absent = hash_at(&t, HOME, UPPER);
  struct segment *segment = directory_segment(
      directory_load(generation_directory_entry(cuckoo_generation(cuckoo_of(t.filter), 0), 0)));
  segment_lock_all(&t.geometry, segment);
  assert_int_equal(count(t.filter, absent), 0);
  segment_unlock_all(&t.geometry, segment);
  finish_tiny(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_key_that_is_moved_is_counted_once),
      cmocka_unit_test(all_generations_are_counted_at_one_moment),
      cmocka_unit_test(a_segment_that_splits_is_counted_once),
      cmocka_unit_test(counts_are_read_under_their_lock),
      cmocka_unit_test(an_absent_key_waits_for_nobody),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_copies", tests, NULL, NULL);
}
