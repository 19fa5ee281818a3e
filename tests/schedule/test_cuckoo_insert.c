/* SPDX-License-Identifier: MIT
 *
 * Adds that meet: unique adds of one key, and plain adds, which take the stripe of one bucket.  Adds
 * at a limit.
 */
#include "cuckoo_schedule.h"

/* The second add must wait from the check of the first one, which has found the key missing,
 * until that has added it. */
static void two_unique_adds(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, UPPER);
  struct call a = call_of(&t, tamis_add_unique_hash, hash), b = a;
  start_and_stop(&a, "cuckoo_unique_checked");
  start(&b);
  schedule_wait_either("stripe_wait", 1, "cuckoo_unique_checked", 2);
  assert_false(tamis_contains_hash(t.filter, hash)); /* a reader does not wait */
  go_on(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal((a.result == TAMIS_PRESENT) + (b.result == TAMIS_PRESENT), 1);
  expect_in(&t, hash);
  finish_tiny(&t);
}

/* A new generation opens after the check of the first add.  The second one would add there; it
 * must wait for the first one in the generation that both know. */
static void two_unique_adds_and_a_new_generation(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, OTHER_UPPER);
  split(&t);
  struct call a = call_of(&t, tamis_add_unique_hash, hash), b = a;
  stop_at(&a, "cuckoo_unique_checked");
  open_generation(&t);
  start(&b);
  schedule_wait_either("stripe_wait", 1, "cuckoo_unique_checked", 2);
  go_on(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  expect_in(&t, hash);
  finish_tiny(&t);
}

/* A unique add of a key that is there takes no lock: it does not wait for the holder of the
 * key's buckets. */
static void a_unique_add_of_a_present_key_does_not_wait(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t there = hash_at(&t, HOME, UPPER), hash = hash_at(&t, HOME, UPPER);
  add(&t, there);
  struct call holder = call_of(&t, tamis_add_unique_hash, hash);
  struct call asker = call_of(&t, tamis_add_unique_hash, there);
  asker.result = TAMIS_EINVAL;
  start_and_stop(&holder, "cuckoo_unique_checked");
  start_beside(&asker);
  int result = asker.result; /* if it waits, it has none until the holder goes on */
  assert_int_equal(go_on(&holder), TAMIS_OK);
  finish(&asker);
  assert_int_equal(result, TAMIS_PRESENT);
  expect_in(&t, hash);
  finish_tiny(&t);
}

/* The late add knows of one generation, and holds no stripe yet, when a second one opens and the
 * key is added there: it must not win as well. */
static void a_unique_add_that_knows_a_generation_too_few(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, OTHER_UPPER);
  split(&t);
  struct call late = call_of(&t, tamis_add_unique_hash, hash);
  stop_at(&late, "cuckoo_generations_read");
  open_generation(&t);
  assert_int_equal(tamis_add_unique_hash(t.filter, hash), TAMIS_OK);
  assert_int_equal(go_on(&late), TAMIS_PRESENT);
  expect_in(&t, hash);
  finish_tiny(&t);
}

/* ---- plain adds, which take the stripe of the bucket that they write ---- */

/* The add has chosen a lane, but holds no stripe yet, when another key takes that lane. */
static void a_lane_is_taken_before_the_stripe(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, UPPER);
  struct call late = call_of(&t, tamis_add_hash, hash);
  stop_at(&late, "cuckoo_place_chosen");
  add_at(&t, HOME, OTHER_UPPER, 1);
  assert_int_equal(go_on(&late), TAMIS_OK);
  expect_in(&t, hash);
  finish_tiny(&t);
}

/* The add is about to write to HOME.  An add of another key to HOME waits for its stripe. */
static void an_add_waits_for_one_to_its_bucket(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t first = hash_at(&t, HOME, UPPER), second = hash_at(&t, HOME, OTHER_UPPER);
  struct call a = call_of(&t, tamis_add_hash, first), b = call_of(&t, tamis_add_hash, second);
  start_and_stop(&a, "cuckoo_place_checked");
  start(&b);
  schedule_wait_either("stripe_wait", 1, "cuckoo_place_checked", 2);
  assert_int_equal(go_on(&a), TAMIS_OK);
  assert_int_equal(finish(&b), TAMIS_OK);
  expect_in(&t, first);
  expect_in(&t, second);
  finish_tiny(&t);
}

/* A unique add of the same key has found it missing, and holds both stripes. */
static void an_add_waits_for_a_unique_one(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, UPPER);
  struct call unique = call_of(&t, tamis_add_unique_hash, hash);
  struct call plain = call_of(&t, tamis_add_hash, hash);
  start_and_stop(&unique, "cuckoo_unique_checked");
  start_beside(&plain);
  assert_false(tamis_contains_hash(t.filter, hash));
  assert_int_equal(go_on(&unique), TAMIS_OK);
  assert_int_equal(finish(&plain), TAMIS_OK);
  expect_in(&t, hash);
  expect_in(&t, hash);
  finish_tiny(&t);
}

/* The add is about to write to HOME.  A writer of UPPER, its other bucket, does not wait. */
static void an_add_holds_one_stripe(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t first = hash_at(&t, HOME, UPPER), second = hash_at(&t, LOWER, UPPER);
  struct call a = call_of(&t, tamis_add_hash, first);
  struct call b = call_of(&t, tamis_add_unique_hash, second);
  b.result = TAMIS_EINVAL;
  start_and_stop(&a, "cuckoo_place_checked");
  start_beside(&b);
  int result = b.result; /* if it waits, it has none until the add goes on */
  bool written = tamis_contains_hash(t.filter, first);
  assert_int_equal(go_on(&a), TAMIS_OK);
  finish(&b);
  assert_int_equal(result, TAMIS_OK);
  assert_false(written);
  expect_in(&t, first);
  expect_in(&t, second);
  finish_tiny(&t);
}

/* The late add has found its key in neither bucket.  Before it takes the stripe of HOME, the key
 * gets as many lanes of UPPER as one key may have, while HOME becomes full and empty again. */
static void copies_come_to_the_other_bucket(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, UPPER), fills[LANES];
  struct call late = call_of(&t, tamis_add_hash, hash);
  stop_at(&late, "cuckoo_place_chosen");
  add_at(&t, LOWER, OTHER_UPPER, 2 * LANES);
  for (unsigned i = 0; i < LANES; i++)
    add(&t, fills[i] = hash_at(&t, HOME, OTHER_UPPER));
  for (unsigned i = 0; i < 3; i++)
    add(&t, hash);
  for (unsigned i = 0; i < LANES; i++)
    take(&t, fills[i]);
  assert_true(stands_in_bucket(&t, hash, UPPER));
  assert_int_equal(go_on(&late), TAMIS_OK);
  assert_false(stands_in_bucket(&t, hash, HOME)); /* the fourth one is counted */
  expect_in(&t, hash);
  finish_tiny(&t);
}

/* ---- at a limit of bytes ---- */

/* Three generations of one segment, all of them full. */
static struct tiny make_full(void)
{
  struct tiny t = make_with(16, 1e-5, 1, 0);
  struct cuckoo *c = cuckoo_of(t.filter);
  for (unsigned i = 0; i < 2; i++) {
    open_without_keys(&t);
    add(&t, ++t.last_hash); /* only the newest generation gets a segment */
  }
  c->max_bytes = c->bytes;
  for (unsigned refused = 0; refused < 1000; refused++) {
    uint64_t hash = ++t.last_hash;
    if (tamis_add_hash(t.filter, hash) == TAMIS_OK) {
      expect_in(&t, hash);
      refused = 0;
    }
  }
  return t;
}

/* Takes a key that has its entry in this generation. */
static uint64_t take_from(struct tiny *t, unsigned generation)
{
  uint64_t before = entries_of(t, generation);
  for (unsigned i = 0; i < t->n; i++) {
    uint64_t hash = t->in[i];
    assert_int_equal(tamis_remove_hash(t->filter, hash), TAMIS_OK);
    if (entries_of(t, generation) < before)
      return hash;
    assert_int_equal(tamis_add_hash(t->filter, hash), TAMIS_OK);
  }
  fail_msg("no key of generation %u", generation);
  return 0;
}

/* An add finds the only free lane, whichever generation has it. */
static void room_in_any_generation_is_found(void **state)
{
  (void) state;
  struct tiny t = make_full();
  for (unsigned generation = 3; generation-- > 0;)
    for (unsigned unique = 0; unique < 2; unique++) {
      uint64_t entries = entries_of(&t, generation), hash = take_from(&t, generation);
      assert_int_equal((unique ? tamis_add_unique_hash : tamis_add_hash)(t.filter, hash), TAMIS_OK);
      assert_int_equal(entries_of(&t, generation), entries);
    }
  finish_tiny(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_unique_adds),
      cmocka_unit_test(two_unique_adds_and_a_new_generation),
      cmocka_unit_test(a_unique_add_of_a_present_key_does_not_wait),
      cmocka_unit_test(a_unique_add_that_knows_a_generation_too_few),
      cmocka_unit_test(a_lane_is_taken_before_the_stripe),
      cmocka_unit_test(an_add_waits_for_one_to_its_bucket),
      cmocka_unit_test(an_add_waits_for_a_unique_one),
      cmocka_unit_test(an_add_holds_one_stripe),
      cmocka_unit_test(copies_come_to_the_other_bucket),
      cmocka_unit_test(room_in_any_generation_is_found),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_insert", tests, NULL, NULL);
}
