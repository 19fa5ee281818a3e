/* SPDX-License-Identifier: MIT
 *
 * Copies that are counted, and folded, while other threads read and write.
 */
#include "cuckoo_schedule.h"

#include "cuckoo/fold.h"
#include "cuckoo/segment.h"

static struct segment *first_segment(tamis_filter *f)
{
  return directory_segment(
      directory_load(generation_directory_entry(cuckoo_generation(cuckoo_of(f), 0), 0)));
}

static int fold(tamis_filter *f, uint64_t hash)
{
  (void) hash;
  struct cuckoo *c = cuckoo_of(f);
  stripe_lock(growth_stripe(cuckoo_generation(c, 0), 0));
  int result = tamis__fold(c, cuckoo_generation(c, 0), first_segment(f));
  stripe_unlock(growth_stripe(cuckoo_generation(c, 0), 0));
  return result;
}

/* The copy in the upper bucket is folded between the two reads of a look-up.  Another copy has
 * come to the lower bucket after the first read. */
static void a_copy_is_folded_between_two_reads(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t first_at_home = hash_at(&t, HOME, UPPER), hash = hash_at(&t, HOME, UPPER);
  add(&t, first_at_home);
  add(&t, hash);
  take(&t, first_at_home);
  assert_true(stands_in_bucket(&t, hash, UPPER));
  /* All entries of these three buckets have both their buckets among them, so there is no path
   * to room. */
  add_at(&t, HOME, UPPER, LANES - 1);
  add_at(&t, LOWER, UPPER, 2 * LANES - 2);
  add_at(&t, HOME, UPPER, 1);
  struct call reader = call_of(&t, call_contains, hash);
  stop_at(&reader, "cuckoo_lower_read");
  assert_int_equal(tamis_add_hash(t.filter, hash), TAMIS_OK);
  assert_true(stands_in_bucket(&t, hash, HOME));
  assert_int_equal(fold(t.filter, hash_at(&t, LOWER, UPPER)), TAMIS_OK);
  assert_false(stands_in_bucket(&t, hash, UPPER));
  assert_true(go_on(&reader));
  assert_int_equal(tamis_remove_hash(t.filter, hash), TAMIS_OK);
  finish_tiny(&t);
}

/* Copies are folded under the stripes of their own pair, whichever key needs room. */
static void folding_waits_for_a_writer(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t twice = hash_at(&t, HOME, UPPER);
  add(&t, twice);
  add(&t, twice);
  add_at(&t, HOME, UPPER, LANES - 1);
  add_at(&t, LOWER, UPPER, 2 * LANES - 1);
  struct call folder = call_of(&t, fold, hash_at(&t, LOWER, UPPER));
  struct segment *segment = directory_segment(
      directory_load(generation_directory_entry(cuckoo_generation(cuckoo_of(t.filter), 0), 0)));
  uint64_t used = segment_used(&t.geometry, segment);
  struct stripe *stripe = stripe_of_bucket(&t.geometry, segment, HOME);
  schedule_stop_at("no point");
  stripe_lock(stripe);
  start_beside(&folder);
  assert_int_equal(segment_used(&t.geometry, segment), used);
  stripe_unlock(stripe);
  assert_int_equal(finish(&folder), TAMIS_OK);
  assert_int_equal(segment_used(&t.geometry, segment), used - 1);
  finish_tiny(&t);
}

/* The counts of a segment have a lock of their own, as keys of other pairs and stripes use them
 * too. */
static void copies_are_counted_under_their_lock(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, UPPER);
  for (unsigned i = 0; i < LANES; i++)
    add(&t, hash);
  struct segment *segment = directory_segment(
      directory_load(generation_directory_entry(cuckoo_generation(cuckoo_of(t.filter), 0), 0)));
  struct call writer = call_of(&t, tamis_add_hash, hash);
  struct call remover = call_of(&t, tamis_remove_hash, hash);
  for (unsigned i = 0; i < 2; i++) {
    struct call *call = i ? &remover : &writer;
    uint64_t count = stats_of(t.filter).count;
    schedule_stop_at("no point");
    stripe_lock(&segment->duplicates_lock);
    start_beside(call);
    assert_int_equal(stats_of(t.filter).count, count);
    stripe_unlock(&segment->duplicates_lock);
    assert_int_equal(finish(call), TAMIS_OK);
  }
  while (t.n > 1) /* finish_tiny() removes what it expects once */
    take(&t, hash);
  while (stats_of(t.filter).count > t.n)
    assert_int_equal(tamis_remove_hash(t.filter, hash), TAMIS_OK);
  finish_tiny(&t);
}

/* However often a key is added, another key of its pair finds lanes. */
static void copies_leave_room_for_another_key(void **state)
{
  (void) state;
  for (unsigned lanes = 2; lanes <= 4; lanes++) {
    struct tiny t = make_tiny(64 / lanes);
    uint64_t hash = hash_at(&t, HOME, UPPER);
    for (unsigned i = 0; i < 10; i++)
      assert_int_equal(tamis_add_hash(t.filter, hash), TAMIS_OK);
    add_at(&t, HOME, UPPER, 2);
    assert_int_equal(stats_of(t.filter).growths, 0);
    for (unsigned i = 0; i < 10; i++)
      assert_int_equal(tamis_remove_hash(t.filter, hash), TAMIS_OK);
    finish_tiny(&t);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_copy_is_folded_between_two_reads),
      cmocka_unit_test(folding_waits_for_a_writer),
      cmocka_unit_test(copies_are_counted_under_their_lock),
      cmocka_unit_test(copies_leave_room_for_another_key),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_duplicates", tests, NULL, NULL);
}
