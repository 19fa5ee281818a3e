/* SPDX-License-Identifier: MIT
 *
 * Splits, joins, drops and new generations under writers.
 */
#include "cuckoo_schedule.h"

/* ---- splits ---- */

/* The writer has found the segment, which then splits: what it would write there nobody would read. */
static void a_split_under_a_writer(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, OTHER_UPPER);
  struct call writer = call_of(&t, tamis_add_hash, hash);
  start_and_stop(&writer, "cuckoo_located");
  schedule_pass_by();
  split(&t);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_true(tamis_contains_hash(t.filter, hash));
  note(&t, hash);
  finish_tiny(&t);
}

/* The segment is copied when another writer wants to add to it: it waits, and adds to a new one.
 * Readers do not wait. */
static void write_while_a_segment_is_copied(uint32_t lower, uint32_t upper)
{
  struct tiny t = make_tiny(64 / LANES);
  /* both buckets of some pairs, this one and perhaps the writer's, share a stripe */
  struct cuckoo_geometry *g = &cuckoo_of(t.filter)->generation[0]->geometry;
  t.geometry.stripe_mask = g->stripe_mask = 3;
  add_at(&t, LOWER, UPPER, 2 * LANES);
  uint64_t splits_it = hash_at(&t, LOWER, UPPER), hash = hash_at(&t, lower, upper);
  struct call splitter = call_of(&t, tamis_add_hash, splits_it);
  struct call writer = call_of(&t, tamis_add_hash, hash);
  start_and_stop(&splitter, "cuckoo_split_copied");
  start(&writer);
  schedule_wait_either("stripe_wait", 1, "call_returned", 1);
  for (unsigned i = 0; i < t.n; i++)
    assert_true(tamis_contains_hash(t.filter, t.in[i]));
  schedule_go();
  assert_int_equal(finish(&splitter), TAMIS_OK);
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_true(tamis_contains_hash(t.filter, hash));
  note(&t, splits_it);
  note(&t, hash);
  finish_tiny(&t);
}

static void a_writer_while_a_segment_is_copied(void **state)
{
  (void) state;
  for (uint32_t bucket = 0; bucket < 4; bucket++) /* with all stripes in turn */
    write_while_a_segment_is_copied(bucket, 4 + bucket);
}

/* ---- growth stripes ---- */

static struct stripe *growth_stripe(const struct tiny *t)
{
  return &cuckoo_of(t->filter)->generation[0]->growth[0];
}

static void start_and_wait_for_a_stripe(struct call *call, unsigned waiters)
{
  start(call);
  schedule_wait_either("stripe_wait", waiters, "call_returned", 1);
}

/* Two find the segment full: one splits it, and what the other has found is not there any more. */
static void two_that_want_to_split(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  add_at(&t, LOWER, UPPER, 2 * LANES);
  struct call call[2];
  schedule_stop_at("nowhere");
  stripe_lock(growth_stripe(&t));
  for (unsigned i = 0; i < 2; i++) {
    call[i] = call_of(&t, tamis_add_hash, hash_at(&t, LOWER, UPPER));
    start_and_wait_for_a_stripe(&call[i], i + 1);
  }
  assert_int_equal(stats_of(t.filter).growths, 0); /* who holds the stripe may rely on that */
  stripe_unlock(growth_stripe(&t));
  for (unsigned i = 0; i < 2; i++) {
    assert_int_equal(finish(&call[i]), TAMIS_OK);
    note(&t, call[i].hash);
  }
  assert_int_equal(stats_of(t.filter).growths, 1);
  finish_tiny(&t);
}

/* A key leaves while another one that has found no room is about to split. */
static void room_is_made_before_a_split(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  add_at(&t, LOWER, UPPER, 2 * LANES);
  struct call writer = call_of(&t, tamis_add_hash, hash_at(&t, LOWER, UPPER));
  schedule_stop_at("nowhere");
  stripe_lock(growth_stripe(&t));
  start_and_wait_for_a_stripe(&writer, 1);
  take(&t, t.in[0]);
  stripe_unlock(growth_stripe(&t));
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&t, writer.hash);
  assert_int_equal(stats_of(t.filter).growths, 0);
  finish_tiny(&t);
}

/* A lane becomes free that an eviction can reach, while a key that has found none is about to split. */
static void a_way_opens_before_a_split(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  add_at(&t, HOME, UPPER, 2);
  add_at(&t, HOME, OTHER_UPPER, 2 * LANES - 1);
  add_at(&t, LOWER, OTHER_UPPER, 1);
  add_at(&t, LOWER, UPPER, 2 * LANES - 2);
  struct call writer = call_of(&t, tamis_add_hash, hash_at(&t, LOWER, UPPER));
  writer.result = TAMIS_EINVAL;
  schedule_stop_at("nowhere");
  stripe_lock(growth_stripe(&t));
  start_and_wait_for_a_stripe(&writer, 1);
  take(&t, t.in[4]);
  assert_int_equal(stats_of(t.filter).count, 4 * LANES - 1);
  stripe_unlock(growth_stripe(&t));
  schedule_wait_either("call_returned", 1, "cuckoo_located",
                       50); /* it tries a few times, not for ever */
  assert_int_equal(writer.result, TAMIS_OK);
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&t, writer.hash);
  assert_int_equal(stats_of(t.filter).growths, 0);
  finish_tiny(&t);
}

/* A remove that would join two segments waits for who holds the growth stripe. */
static void a_join_waits_for_growth(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  split(&t);
  while (t.n > 0) {
    uint64_t hash = t.in[0];
    struct call remover = call_of(&t, tamis_remove_hash, hash);
    schedule_stop_at("nowhere");
    stripe_lock(growth_stripe(&t));
    start_and_wait_for_a_stripe(&remover, 1);
    assert_int_equal(stats_of(t.filter).joins, 0);
    stripe_unlock(growth_stripe(&t));
    assert_int_equal(finish(&remover), TAMIS_OK);
    forget(&t, hash);
    if (stats_of(t.filter).joins)
      break;
  }
  assert_int_equal(stats_of(t.filter).joins, 1);
  finish_tiny(&t);
}

/* ---- joins and drops ---- */

static void join_under_a_writer(unsigned child)
{
  struct tiny t = make_tiny(64 / LANES);
  split(&t);
  uint64_t hash;
  do
    hash = hash_at(&t, HOME, OTHER_UPPER);
  while (place_of(&t, hash).index != child);
  struct call writer = call_of(&t, tamis_add_hash, hash);
  start_and_stop(&writer, "cuckoo_located");
  join(&t);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_true(tamis_contains_hash(t.filter, hash));
  note(&t, hash);
  finish_tiny(&t);
}

static void a_join_under_a_writer(void **state)
{
  (void) state;
  join_under_a_writer(0);
  join_under_a_writer(1);
}

/* The sibling of a segment that holds nothing has split: a half of it is no sibling. */
static void a_join_needs_a_whole_sibling(void **state)
{
  (void) state;
  struct tiny t = make_with(64 / LANES, 0.5, 1, 2);
  uint64_t alone;
  do
    alone = hash_at(&t, LOWER, UPPER);
  while (place_of(&t, alone).index > 1);
  add(&t, alone);
  while (stats_of(t.filter).growths < 2) {
    uint64_t hash = hash_at(&t, LOWER, UPPER);
    if (place_of(&t, hash).index > 1)
      add(&t, hash);
  }
  assert_int_equal(stats_of(t.filter).generations, 1);
  take(&t, alone);
  assert_int_equal(stats_of(t.filter).joins, 0);
  finish_tiny(&t);
}

/* A segment of the first generation is empty and about to be dropped; before all its stripes are held
 * somebody puts a key into it, as adds do that find no room anywhere else. */
static void an_entry_comes_before_a_drop(void **state)
{
  (void) state;
  struct tiny t = make_with(16, 1e-5, 1, 0);
  struct generation *first = cuckoo_of(t.filter)->generation[0];
  open_generation(&t);
  while (cuckoo_count(first, ENTRIES) > 1)
    take(&t, t.in[0]);
  uint64_t last = t.in[0];
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  struct bucket_pair pair = pair_find(first, hash_mix(&t.keys, key));
  assert_true(pair.segment && pair_find(first, hash_mix(&t.keys, last)).segment == pair.segment);
  struct stripe *stripe = stripe_of_bucket(&t.geometry, pair.segment, HOME);
  struct call remover = call_of(&t, tamis_remove_hash, last);
  schedule_stop_at("nowhere");
  stripe_lock(stripe);
  start(&remover);
  schedule_wait_either("stripe_wait", 1, "call_returned", 1);
  word_store(&segment_words(&t.geometry, pair.segment)[HOME], pair.entry);
  stripe_use(stripe, 1);
  counter_add(&first->counters, ENTRIES, 1);
  stripe_unlock(stripe);
  assert_int_equal(finish(&remover), TAMIS_OK);
  forget(&t, last);
  note(&t, key);
  assert_ptr_equal(directory_segment(directory_load(pair.own_entry)), pair.segment);
  finish_tiny(&t);
}

/* ---- new generations ---- */

/* The writer has found its place when a generation opens: no older one takes entries any more. */
static void a_new_generation_under_a_writer(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, OTHER_UPPER);
  split(&t);
  struct call writer = call_of(&t, tamis_add_hash, hash);
  start_and_stop(&writer, "cuckoo_located");
  schedule_pass_by();
  open_generation(&t);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_false(stands_in_bucket(&t, hash, HOME) || stands_in_bucket(&t, hash, OTHER_UPPER));
  note(&t, hash);
  finish_tiny(&t);
}

/* Two find their segments full, which may not split: one of them opens a generation, for both. */
static void two_that_need_a_generation(void **state)
{
  (void) state;
  struct tiny t = make_with(64 / LANES, 0.5, 2, 0);
  struct cuckoo *c = cuckoo_of(t.filter);
  struct call call[2];
  for (unsigned root = 0; root < 2; root++) {
    for (unsigned i = 0; i < 2 * LANES; i++)
      add(&t, hash_in_root(&t, root, LOWER, UPPER));
    call[root] = call_of(&t, tamis_add_hash, hash_in_root(&t, root, LOWER, UPPER));
  }
  schedule_stop_at("nowhere");
  stripe_lock(&c->opening);
  for (unsigned root = 0; root < 2; root++) {
    start(&call[root]);
    schedule_wait_either("stripe_wait", root + 1, "call_returned", 1);
  }
  stripe_unlock(&c->opening);
  for (unsigned root = 0; root < 2; root++) {
    assert_int_equal(finish(&call[root]), TAMIS_OK);
    note(&t, call[root].hash);
  }
  assert_int_equal(stats_of(t.filter).generations, 2);
  finish_tiny(&t);
}

/* The first key of a root is about to get a segment when a generation opens: it goes there. */
static void a_new_generation_while_a_segment_is_made(void **state)
{
  (void) state;
  struct tiny t = make_with(64 / LANES, 0.5, 2, 0);
  struct cuckoo *c = cuckoo_of(t.filter);
  struct generation *old = c->generation[0];
  lose_segment(&t, 1);
  struct call writer = call_of(&t, tamis_add_hash, hash_in_root(&t, 1, LOWER, UPPER));
  schedule_stop_at("nowhere");
  stripe_lock(&c->opening);
  start(&writer);
  schedule_wait_either("stripe_wait", 1, "call_returned", 1);
  open_without_keys(&t);
  stripe_unlock(&c->opening);
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&t, writer.hash);
  assert_null(directory_load(generation_directory_entry(old, 1)));
  finish_tiny(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_split_under_a_writer),
      cmocka_unit_test(a_writer_while_a_segment_is_copied),
      cmocka_unit_test(two_that_want_to_split),
      cmocka_unit_test(room_is_made_before_a_split),
      cmocka_unit_test(a_way_opens_before_a_split),
      cmocka_unit_test(a_join_waits_for_growth),
      cmocka_unit_test(a_join_under_a_writer),
      cmocka_unit_test(a_join_needs_a_whole_sibling),
      cmocka_unit_test(an_entry_comes_before_a_drop),
      cmocka_unit_test(a_new_generation_under_a_writer),
      cmocka_unit_test(two_that_need_a_generation),
      cmocka_unit_test(a_new_generation_while_a_segment_is_made),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_growth", tests, NULL, NULL);
}
