/* SPDX-License-Identifier: MIT
 *
 * Splits, joins, drops and new generations under writers.
 */
#include "cuckoo_schedule.h"

#include "cuckoo/generation.h"

/* ---- splits ---- */

/* A writer has found its segment, which then splits.  No reader would find what it wrote there. */
static void a_split_under_a_writer(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, OTHER_UPPER);
  struct call writer = call_of(&t, tamis_add_hash, hash);
  stop_at(&writer, "cuckoo_pair_found");
  split(&t);
  assert_int_equal(go_on(&writer), TAMIS_OK);
  assert_true(tamis_contains_hash(t.filter, hash));
  expect_in(&t, hash);
  finish_tiny(&t);
}

/* A writer that comes while its segment is copied waits, and adds to the new one.  Readers do
 * not wait. */
static void write_while_a_segment_is_copied(uint32_t lower, uint32_t upper,
                                            int (*make)(tamis_filter *, uint64_t))
{
  struct tiny t = make_tiny(64 / LANES);
  /* some pairs, such as LOWER and UPPER, have both their buckets under one stripe */
  struct cuckoo_geometry *g = &cuckoo_generation(cuckoo_of(t.filter), 0)->geometry;
  t.geometry.stripe_mask = g->stripe_mask = 3;
  add_at(&t, LOWER, UPPER, 2 * LANES);
  uint64_t splits_it = hash_at(&t, LOWER, UPPER), hash = hash_at(&t, lower, upper);
  struct call splitter = call_of(&t, tamis_add_hash, splits_it);
  struct call writer = call_of(&t, make, hash);
  start_and_stop(&splitter, "cuckoo_split_copied");
  start_beside(&writer);
  for (unsigned i = 0; i < t.n; i++)
    assert_true(tamis_contains_hash(t.filter, t.in[i]));
  assert_int_equal(go_on(&splitter), TAMIS_OK);
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_true(tamis_contains_hash(t.filter, hash));
  expect_in(&t, splits_it);
  expect_in(&t, hash);
  finish_tiny(&t);
}

static void a_writer_while_a_segment_is_copied(void **state)
{
  (void) state;
  for (uint32_t bucket = 0; bucket < 4; bucket++) { /* each stripe in turn */
    write_while_a_segment_is_copied(bucket, 4 + bucket, tamis_add_hash);
    write_while_a_segment_is_copied(bucket, 4 + bucket, tamis_add_unique_hash);
  }
}

/* While directory entries still lead to a segment, it may not even begin to wait for readers: those
 * that come later find it, too. */
static void a_segment_is_retired_when_it_has_left(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  add_at(&t, LOWER, UPPER, 2 * LANES);
  uint64_t splits_it = hash_at(&t, LOWER, UPPER);
  struct call splitter = call_of(&t, tamis_add_hash, splits_it);
  start_and_stop(&splitter, "cuckoo_directory_published");
  uint64_t held = cuckoo_growth(cuckoo_of(t.filter))->backlog.held;
  assert_int_equal(go_on(&splitter), TAMIS_OK);
  assert_int_equal(held, 0);
  assert_true(stats_of(t.filter).growths > 0);
  expect_in(&t, splits_it);
  finish_tiny(&t);
}

/* ---- arrays of the directory ---- */

static struct tiny make_to_split(void)
{
  return make_with(64 / LANES, 0.5, 1, 3);
}

/* A new hash of a key whose fingerprint begins with `bits` bits, which are `part`. */
static uint64_t hash_in_part(struct tiny *t, unsigned bits, uint64_t part)
{
  uint64_t hash;
  do
    hash = hash_at(t, LOWER, UPPER);
  while (index_of(t, hash) >> (t->geometry.depth_limit - bits) != part);
  return hash;
}

/* Adds such keys until their segment splits. */
static void split_part(struct tiny *t, unsigned bits, uint64_t part)
{
  uint64_t before = stats_of(t->filter).growths;
  while (stats_of(t->filter).growths == before)
    add(t, hash_in_part(t, bits, part));
}

/* Removes them, but for one key, until two segments join. */
static void join_part(struct tiny *t, unsigned bits, uint64_t part, uint64_t stays)
{
  uint64_t before = stats_of(t->filter).joins;
  for (unsigned i = t->n; i-- > 0 && stats_of(t->filter).joins == before;)
    if (t->in[i] != stays && index_of(t, t->in[i]) >> (t->geometry.depth_limit - bits) == part)
      take(t, t->in[i]);
  assert_int_equal(stats_of(t->filter).joins, before + 1);
}

/* Of the array's 2^k entries; 0: the root leads to a segment. */
static unsigned array_bits(const struct tiny *t)
{
  return directory_depth(directory_load(root_entry(&cuckoo_of(t->filter)->first, 0)));
}

static void an_array_is_as_large_as_needed(void **state)
{
  (void) state;
  struct tiny t = make_to_split();
  split_part(&t, 0, 0);
  assert_int_equal(array_bits(&t), 1);
  for (uint64_t part = 0; part < 2; part++) {
    split_part(&t, 1, part);
    assert_int_equal(array_bits(&t), 2);
  }
  for (unsigned part = 0; part < 2; part++) {
    assert_int_equal(array_bits(&t), 2);
    join_part(&t, 1, part, 0);
  }
  assert_int_equal(array_bits(&t), 1);
  join_part(&t, 0, 0, 0);
  assert_int_equal(array_bits(&t), 0);
  finish_tiny(&t);
}

/* A call has read the word of the root, and not yet the array, which is then replaced: from 2^bits
 * entries to 2^new_bits.  After that the segment of its key splits and is joined, and a copy of the
 * key comes and goes. */
static void replace_under(int (*make)(tamis_filter *, uint64_t), int answer, unsigned bits,
                          unsigned new_bits)
{
  struct tiny t = make_to_split();
  uint64_t key = hash_in_part(&t, 2, 1);
  add(&t, key);
  split_part(&t, 0, 0);
  if (bits == 2)
    split_part(&t, 1, 1);
  assert_int_equal(array_bits(&t), bits);
  struct call call = call_of(&t, make, key);
  stop_at(&call, "cuckoo_root_read");
  if (new_bits == 2)
    split_part(&t, 1, 1);
  else
    join_part(&t, new_bits, new_bits, key);
  assert_int_equal(array_bits(&t), new_bits);
  split_part(&t, new_bits > 0, 0);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(t.filter, key), TAMIS_OK);
  join_part(&t, new_bits > 0, 0, key);
  assert_int_equal(go_on(&call), answer);
  if (make == tamis_add_hash)
    expect_in(&t, key);
  if (make == tamis_remove_hash)
    expect_out(&t, key);
  drain(&t);
  finish_tiny(&t);
}

static void replace_under_each(unsigned bits, unsigned new_bits)
{
  replace_under(call_contains, 1, bits, new_bits);
  replace_under(tamis_add_hash, TAMIS_OK, bits, new_bits);
  replace_under(tamis_remove_hash, TAMIS_OK, bits, new_bits);
}

static void an_array_is_doubled_under_a_call(void **state)
{
  (void) state;
  replace_under_each(1, 2);
}

static void an_array_is_halved_under_a_call(void **state)
{
  (void) state;
  replace_under_each(2, 1);
}

static void an_array_becomes_a_segment_under_a_call(void **state)
{
  (void) state;
  replace_under_each(1, 0);
}

/* Both adds need a split.  The first one is about to publish its children when the second one comes. */
static void add_beside_a_split(struct tiny *t, uint64_t first, uint64_t second)
{
  struct call splitter = call_of(t, tamis_add_hash, first);
  struct call other = call_of(t, tamis_add_hash, second);
  schedule_stop_at_nth("cuckoo_split_copied", 1);
  start(&splitter);
  schedule_wait("cuckoo_split_copied", 1);
  schedule_pass_by();
  start_beside(&other);
  assert_int_equal(go_on(&splitter), TAMIS_OK);
  assert_int_equal(finish(&other), TAMIS_OK);
  expect_in(t, first);
  expect_in(t, second);
}

/* The second one splits another segment of the root.  So its larger array has the first one's children. */
static void two_splits_double_an_array_once(void **state)
{
  (void) state;
  struct tiny t = make_to_split();
  for (unsigned i = 0; i < 4 * LANES; i++)
    add(&t, hash_in_part(&t, 1, i % 2));
  assert_int_equal(array_bits(&t), 1);
  add_beside_a_split(&t, hash_in_part(&t, 1, 0), hash_in_part(&t, 1, 1));
  assert_int_equal(array_bits(&t), 2);
  assert_int_equal(stats_of(t.filter).growths, 3);
  finish_tiny(&t);
}

/* The filter has no growth before.  The first split is made under growth stripes all the same. */
static void two_adds_of_a_first_growth_split_once(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  add_at(&t, LOWER, UPPER, 2 * LANES);
  add_beside_a_split(&t, hash_at(&t, LOWER, UPPER), hash_at(&t, LOWER, UPPER));
  assert_int_equal(stats_of(t.filter).growths, 1);
  finish_tiny(&t);
}

/* ---- how long a step takes ---- */

static int note_time(tamis_filter *f, uint64_t ns)
{
  const struct counters counters = generation_counters(&cuckoo_of(f)->first);
  tamis__counter_raise(&counters, LONGEST_GROWTH, ns);
  return TAMIS_OK;
}

/* A longer step ends while one has read the longest time, and has not written its own yet. */
static void a_longer_step_meanwhile_is_kept(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  struct call shorter = call_of(&t, note_time, 5);
  stop_at(&shorter, "counter_read");
  note_time(t.filter, 7);
  go_on(&shorter);
  assert_int_equal(stats_of(t.filter).longest_growth_ns, 7);
  finish_tiny(&t);
}

/* ---- growth stripes ---- */

/* Those of the first root. */
static struct growth_stripes hold_growth(const struct tiny *t)
{
  return growth_lock(cuckoo_of(t->filter), &cuckoo_of(t->filter)->first, 0, 0);
}

/* Its next step of growth is a split. */
static struct tiny make_with_growth(void)
{
  struct tiny t = make_tiny(64 / LANES);
  assert_int_equal(tamis__growth_provide(cuckoo_of(t.filter)), TAMIS_OK);
  return t;
}

static void start_and_wait_for_a_stripe(struct call *call, unsigned waiters)
{
  start(call);
  schedule_wait_either("stripe_wait", waiters, "call_returned", 1);
}

/* Two threads find a segment full.  One of them splits it; the pair that the other one has found
 * is stale. */
static void two_adds_split_a_segment_once(void **state)
{
  (void) state;
  struct tiny t = make_with_growth();
  add_at(&t, LOWER, UPPER, 2 * LANES);
  struct call call[2];
  schedule_stop_at("no point");
  struct growth_stripes held = hold_growth(&t);
  for (unsigned i = 0; i < 2; i++) {
    call[i] = call_of(&t, tamis_add_hash, hash_at(&t, LOWER, UPPER));
    start_and_wait_for_a_stripe(&call[i], i + 1);
  }
  assert_int_equal(stats_of(t.filter).growths,
                   0); /* the holder of the growth stripe may rely on that */
  growth_unlock(&held);
  for (unsigned i = 0; i < 2; i++) {
    assert_int_equal(finish(&call[i]), TAMIS_OK);
    expect_in(&t, call[i].hash);
  }
  assert_int_equal(stats_of(t.filter).growths, 1);
  finish_tiny(&t);
}

/* A key is removed when an add that has found no room is about to split. */
static void room_is_made_before_a_split(void **state)
{
  (void) state;
  struct tiny t = make_with_growth();
  add_at(&t, LOWER, UPPER, 2 * LANES);
  struct call writer = call_of(&t, tamis_add_hash, hash_at(&t, LOWER, UPPER));
  schedule_stop_at("no point");
  struct growth_stripes held = hold_growth(&t);
  start_and_wait_for_a_stripe(&writer, 1);
  take(&t, t.in[0]);
  growth_unlock(&held);
  assert_int_equal(finish(&writer), TAMIS_OK);
  expect_in(&t, writer.hash);
  assert_int_equal(stats_of(t.filter).growths, 0);
  finish_tiny(&t);
}

/* A lane that an eviction can reach becomes free when an add that has found no path is about to
 * split. */
static void a_path_opens_before_a_split(void **state)
{
  (void) state;
  struct tiny t = make_with_growth();
  add_at(&t, HOME, UPPER, 2);
  add_at(&t, HOME, OTHER_UPPER, 2 * LANES - 1);
  add_at(&t, LOWER, OTHER_UPPER, 1);
  add_at(&t, LOWER, UPPER, 2 * LANES - 2);
  struct call writer = call_of(&t, tamis_add_hash, hash_at(&t, LOWER, UPPER));
  writer.result = TAMIS_EINVAL;
  schedule_stop_at("no point");
  struct growth_stripes held = hold_growth(&t);
  start_and_wait_for_a_stripe(&writer, 1);
  take(&t, t.in[4]);
  assert_int_equal(stats_of(t.filter).count, 4 * LANES - 1);
  growth_unlock(&held);
  schedule_wait_either("call_returned", 1, "cuckoo_pair_found", 50); /* a few attempts are enough */
  assert_int_equal(writer.result, TAMIS_OK);
  assert_int_equal(finish(&writer), TAMIS_OK);
  expect_in(&t, writer.hash);
  assert_int_equal(stats_of(t.filter).growths, 0);
  finish_tiny(&t);
}

/* A remove that would join two segments waits for the growth stripe. */
static void a_join_waits_for_growth(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  split(&t);
  while (t.n > 0) {
    uint64_t hash = t.in[0];
    struct call remover = call_of(&t, tamis_remove_hash, hash);
    schedule_stop_at("no point");
    struct growth_stripes held = hold_growth(&t);
    start_and_wait_for_a_stripe(&remover, 1);
    assert_int_equal(stats_of(t.filter).joins, 0);
    growth_unlock(&held);
    assert_int_equal(finish(&remover), TAMIS_OK);
    expect_out(&t, hash);
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
  while (index_of(&t, hash) != child);
  struct call writer = call_of(&t, tamis_add_hash, hash);
  start_and_stop(&writer, "cuckoo_pair_found");
  join(&t);
  assert_int_equal(go_on(&writer), TAMIS_OK);
  assert_true(tamis_contains_hash(t.filter, hash));
  expect_in(&t, hash);
  finish_tiny(&t);
}

static void a_join_under_a_writer(void **state)
{
  (void) state;
  join_under_a_writer(0);
  join_under_a_writer(1);
}

/* The sibling of an empty segment has split: the segment must not be joined with one half of it. */
static void a_join_needs_a_whole_sibling(void **state)
{
  (void) state;
  struct tiny t = make_to_split();
  uint64_t alone = hash_in_part(&t, 1, 0);
  add(&t, alone);
  split_part(&t, 1, 1);
  split_part(&t, 1, 1);
  assert_int_equal(stats_of(t.filter).generations, 1);
  take(&t, alone);
  assert_int_equal(stats_of(t.filter).joins, 0);
  finish_tiny(&t);
}

/* A segment of the first generation is empty and about to be dropped.  Before all its stripes
 * are locked, another thread adds a key to it, as adds do that find no room anywhere else. */
static void an_entry_comes_before_a_drop(void **state)
{
  (void) state;
  struct tiny t = make_with(16, 1e-5, 1, 0);
  struct generation *first = cuckoo_generation(cuckoo_of(t.filter), 0);
  open_generation(&t);
  while (cuckoo_count(first, ENTRIES) > 1)
    take(&t, t.in[0]);
  uint64_t last = t.in[0];
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  struct bucket_pair pair = pair_find(first, hash_mix(&t.keys, key));
  assert_true(pair.segment && pair_find(first, hash_mix(&t.keys, last)).segment == pair.segment);
  struct stripe *stripe = stripe_of_bucket(&t.geometry, pair.segment, HOME);
  struct call remover = call_of(&t, tamis_remove_hash, last);
  schedule_stop_at("no point");
  stripe_lock(stripe);
  start_beside(&remover);
  word_store(&segment_words(&t.geometry, pair.segment)[HOME], pair.entry);
  stripe_use(stripe, 1);
  cuckoo_count_change(first, ENTRIES, 1);
  stripe_unlock(stripe);
  assert_int_equal(finish(&remover), TAMIS_OK);
  expect_out(&t, last);
  expect_in(&t, key);
  assert_ptr_equal(directory_segment(directory_load(pair.own_entry)), pair.segment);
  finish_tiny(&t);
}

/* ---- new generations ---- */

/* A writer has found its pair when a generation opens: an older one takes no more entries. */
static void a_new_generation_under_a_writer(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, OTHER_UPPER);
  split(&t);
  struct call writer = call_of(&t, tamis_add_hash, hash);
  stop_at(&writer, "cuckoo_pair_found");
  open_generation(&t);
  assert_int_equal(go_on(&writer), TAMIS_OK);
  assert_false(stands_in_bucket(&t, hash, HOME) || stands_in_bucket(&t, hash, OTHER_UPPER));
  expect_in(&t, hash);
  finish_tiny(&t);
}

/* Two threads find their segments full, which may not split: one of them opens a generation for
 * both. */
static void two_adds_open_one_generation(void **state)
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
  schedule_stop_at("no point");
  stripe_lock(&cuckoo_growth(c)->opening);
  for (unsigned root = 0; root < 2; root++) {
    start(&call[root]);
    schedule_wait_either("stripe_wait", root + 1, "call_returned", 1);
  }
  stripe_unlock(&cuckoo_growth(c)->opening);
  for (unsigned root = 0; root < 2; root++) {
    assert_int_equal(finish(&call[root]), TAMIS_OK);
    expect_in(&t, call[root].hash);
  }
  assert_int_equal(stats_of(t.filter).generations, 2);
  finish_tiny(&t);
}

/* The first key of a root is about to get a segment when a generation opens: the key goes there. */
static void a_new_generation_while_a_segment_is_made(void **state)
{
  (void) state;
  struct tiny t = make_with(64 / LANES, 0.5, 2, 0);
  struct cuckoo *c = cuckoo_of(t.filter);
  struct generation *old = cuckoo_generation(c, 0);
  lose_segment(&t, 1);
  struct call writer = call_of(&t, tamis_add_hash, hash_in_root(&t, 1, LOWER, UPPER));
  schedule_stop_at("no point");
  stripe_lock(&cuckoo_growth(c)->opening);
  start_beside(&writer);
  open_without_keys(&t);
  stripe_unlock(&cuckoo_growth(c)->opening);
  assert_int_equal(finish(&writer), TAMIS_OK);
  expect_in(&t, writer.hash);
  assert_null(directory_load(root_entry(old, 1)));
  finish_tiny(&t);
}

static tamis_filter *other;

static int unite_with_other(tamis_filter *f, uint64_t hash)
{
  (void) hash;
  return tamis_merge(f, other);
}

/* What comes with the first growth is made for a union, when an add needs it for a split.  The add
 * waits for that, and max_bytes need have room for it once only. */
static void a_first_growth_under_a_union(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 100;
  options.seed = 1;
  struct tiny t = {.n = 0};
  assert_int_equal(tamis_create(&options, &other), TAMIS_OK);
  assert_int_equal(tamis_create(&options, &t.filter), TAMIS_OK);
  struct cuckoo *c = cuckoo_of(t.filter);
  const struct cuckoo_geometry *g = &c->first.geometry;
  uint64_t in = 0;
  c->max_bytes = c->bytes;
  while (tamis_add_hash(t.filter, in) == TAMIS_OK)
    in++;
  assert_int_equal(tamis_remove_hash(t.filter, 0), TAMIS_OK); /* it is not known to be full */
  assert_int_equal(tamis_add_hash(t.filter, 0), TAMIS_OK);
  c->max_bytes = c->bytes + sizeof(struct cuckoo_growth) + 2 * cuckoo_segment_bytes(g) +
                 directory_array_bytes(1);
  struct call unite = call_of(&t, unite_with_other, 0);
  struct call add = call_of(&t, tamis_add_hash, in);
  schedule_stop_at_nth("cuckoo_growth_made", 1); /* an add that makes it, too, passes */
  start(&unite);
  schedule_wait("cuckoo_growth_made", 1);
  schedule_pass_by();
  start_beside(&add);
  assert_int_equal(go_on(&unite), TAMIS_OK);
  assert_int_equal(finish(&add), TAMIS_OK);
  assert_int_equal(stats_of(t.filter).growths, 1);
  expect_in(&t, in);
  tamis_destroy(other);
  tamis_destroy(t.filter);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_first_growth_under_a_union),
      cmocka_unit_test(a_split_under_a_writer),
      cmocka_unit_test(an_array_is_as_large_as_needed),
      cmocka_unit_test(an_array_is_doubled_under_a_call),
      cmocka_unit_test(an_array_is_halved_under_a_call),
      cmocka_unit_test(an_array_becomes_a_segment_under_a_call),
      cmocka_unit_test(two_splits_double_an_array_once),
      cmocka_unit_test(two_adds_of_a_first_growth_split_once),
      cmocka_unit_test(a_longer_step_meanwhile_is_kept),
      cmocka_unit_test(a_writer_while_a_segment_is_copied),
      cmocka_unit_test(a_segment_is_retired_when_it_has_left),
      cmocka_unit_test(two_adds_split_a_segment_once),
      cmocka_unit_test(room_is_made_before_a_split),
      cmocka_unit_test(a_path_opens_before_a_split),
      cmocka_unit_test(a_join_waits_for_growth),
      cmocka_unit_test(a_join_under_a_writer),
      cmocka_unit_test(a_join_needs_a_whole_sibling),
      cmocka_unit_test(an_entry_comes_before_a_drop),
      cmocka_unit_test(a_new_generation_under_a_writer),
      cmocka_unit_test(two_adds_open_one_generation),
      cmocka_unit_test(a_new_generation_while_a_segment_is_made),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_growth", tests, NULL, NULL);
}
