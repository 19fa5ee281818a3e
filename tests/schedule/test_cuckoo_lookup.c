/* SPDX-License-Identifier: MIT
 *
 * Look-ups while generations change, and batches.
 */
#include "cuckoo_schedule.h"

#include <string.h>

/* ---- several generations ---- */

static bool buckets[] = {false, true}; /* whether the bucket is the upper one */

/* Whether there is no room for a key, or it seems to be there already. */
static bool no_room_for(const struct tiny *t, unsigned generation, uint64_t hash)
{
  struct generation *in = cuckoo_generation(cuckoo_of(t->filter), generation);
  const struct cuckoo_geometry *g = &in->geometry;
  struct bucket_pair pair = pair_find(in, hash_mix(&t->keys, hash));
  uint64_t lower = word_load(&segment_words(g, pair.segment)[pair.lower]);
  uint64_t upper = word_load(&segment_words(g, pair.segment)[pair.upper]);
  return bucket_has_match(&g->shape, lower, pair.entry) ||
         bucket_has_match(&g->shape, upper, pair.entry) ||
         !(lanes_empty(&g->shape, lower) | lanes_empty(&g->shape, upper));
}

static void allow_memory(const struct tiny *t, bool more)
{
  struct cuckoo *c = cuckoo_of(t->filter);
  c->max_bytes = more ? 0 : c->bytes;
}

/* Removes the first n keys until segments join. */
static void join_by_removing(struct tiny *t, unsigned n)
{
  uint64_t keys[MAX_KEYS], before = stats_of(t->filter).joins;
  memcpy(keys, t->in, sizeof keys);
  for (unsigned i = 0; stats_of(t->filter).joins == before; i++) {
    assert_true(i < n);
    take(t, keys[i]);
  }
}

/* Adds a copy of a key of the second generation, whose pair is full there.  It goes to the first
 * generation, as the limit of bytes leaves no other room.  Then the copy in the second one is
 * removed. */
static void take_back(const struct tiny *t, uint64_t key)
{
  uint64_t first_has = entries_of(t, 0), second_has = entries_of(t, 1);
  allow_memory(t, false);
  assert_int_equal(tamis_add_hash(t->filter, key), TAMIS_OK);
  assert_int_equal(entries_of(t, 0), first_has + 1);
  assert_int_equal(tamis_remove_hash(t->filter, key), TAMIS_OK);
  assert_int_equal(entries_of(t, 1), second_has - 1);
  allow_memory(t, true);
}

/* There is always a copy of this key.  The reader has read the directory entry of the first
 * generation, whose segment is then joined with another one.  A copy goes into the joined
 * segment, as the limit leaves no room in the second generation, and the copy in the second one
 * is removed before the reader has read its bucket.  The reader finds the key in neither: only
 * the directory entry has changed. */
static void a_copy_goes_into_a_joined_segment(void **state)
{
  (void) state;
  struct tiny t = make_tiny_with_two(64 / LANES);
  unsigned in_first = t.n;
  uint32_t upper = (uint32_t) cuckoo_buckets(&t.geometry) / 2 + HOME;
  uint64_t key = hash_at(&t, HOME, upper);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  add_at(&t, HOME, upper, 2U * t.geometry.shape.lanes - 1); /* the pair is full */
  drain(&t);
  struct call reader = call_of(&t, call_contains, key);
  start_and_stop(&reader, "cuckoo_older_pair_found");
  join_by_removing(&t, in_first);
  take_back(&t, key);
  assert_true(go_on(&reader));
  expect_in(&t, key);
  finish_tiny(&t);
}

/* Whether an add of the key puts its entry into the upper bucket of the first generation: into
 * the one whose first free lane is the lower one. */
static bool upper_is_emptier(const struct bucket_pair *pair)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  const word *words = segment_words(g, pair->segment);
  uint64_t lower = lanes_empty(&g->shape, word_load(&words[pair->lower]));
  uint64_t upper = lanes_empty(&g->shape, word_load(&words[pair->upper]));
  return (upper & -upper) - 1 < (lower & -lower) - 1;
}

/* Whether a key has an entry in this bucket of the first generation, or shares one. */
static bool stands_in(const struct tiny *t, uint64_t hash, const struct bucket_pair *where,
                      uint32_t bucket)
{
  const struct cuckoo_geometry *g = &where->generation->geometry;
  struct bucket_pair pair = pair_find(where->generation, hash_mix(&t->keys, hash));
  return pair.segment == where->segment && (pair.lower == bucket || pair.upper == bucket) &&
         bucket_has_match(&g->shape, word_load(&segment_words(g, pair.segment)[bucket]),
                          pair.entry);
}

/* Makes room for the key in one of its buckets in the first generation, of a filter whose second
 * one has no room.  Keys of other fingerprints fill the lower bucket if it is to be the upper. */
static void make_room_in(struct tiny *t, uint64_t key, uint32_t upper, bool in_upper)
{
  struct generation *first = cuckoo_generation(cuckoo_of(t->filter), 0);
  struct bucket_pair pair = pair_find(first, hash_mix(&t->keys, key));
  while (no_room_for(t, 0, key))
    take(t, t->in[0]);
  for (unsigned tries = 0; tries < 50 && in_upper && !upper_is_emptier(&pair); tries++) {
    for (unsigned i = 0; i < t->n; i++)
      if (stands_in(t, t->in[i], &pair, pair.upper)) {
        take(t, t->in[i]);
        break;
      }
    allow_memory(t, false);
    uint64_t filler = hash_at(t, HOME, upper);
    if (pair_find(first, hash_mix(&t->keys, filler)).upper != pair.upper &&
        tamis_add_hash(t->filter, filler) == TAMIS_OK)
      t->in[t->n++] = filler;
    allow_memory(t, true);
  }
  assert_false(no_room_for(t, 0, key));
  assert_int_equal(upper_is_emptier(&pair), in_upper);
}

/* There is always a copy of this key, at first in the second generation.  The reader has found
 * nothing in the first one.  Then a copy goes there, into the lower or the upper bucket, as the
 * limit leaves no room in the second one, and the copy in the second one is removed before the
 * reader reads it. */
static void a_copy_goes_to_an_older_generation(void **state)
{
  const bool *in_upper = *state;
  struct tiny t = make_tiny_with_two(64 / LANES);
  uint32_t upper = (uint32_t) cuckoo_buckets(&t.geometry) / 2 + LOWER; /* of another stripe */
  uint64_t key = hash_at(&t, HOME, upper);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  add_at(&t, HOME, upper, 2U * t.geometry.shape.lanes - 1); /* the pair is full */
  make_room_in(&t, key, upper, *in_upper);
  drain(&t);
  struct call reader = call_of(&t, call_contains, key);
  start_and_stop(&reader, "cuckoo_versions_read");
  take_back(&t, key);
  assert_true(go_on(&reader));
  expect_in(&t, key);
  finish_tiny(&t);
}

static void go_on_to(const char *point)
{
  schedule_stop_at(point);
  schedule_wait_either(point, 1, "call_returned", 1);
}

/* As an eviction does. */
static void move_by_hand(const struct tiny *t, const struct bucket_pair *pair, uint32_t from,
                         uint32_t to)
{
  const struct cuckoo_geometry *g = &t->geometry;
  const struct lane_shape *s = &g->shape;
  word *words = segment_words(g, pair->segment);
  segment_lock(g, pair->segment, from, to);
  uint64_t match = bucket_match(s, word_load(&words[from]), pair->entry);
  assert_int_equal(lanes_count(match), 1);
  uint64_t entry = lane_get(s, word_load(&words[from]), lanes_first(s, match));
  unsigned free = lanes_first(s, lanes_empty(s, word_load(&words[to])));
  word_store(&words[to], lane_put(s, word_load(&words[to]), free, entry));
  version_bump(stripe_of_bucket(g, pair->segment, from));
  word_store(&words[from], lane_put(s, word_load(&words[from]), lanes_first(s, match), 0));
  stripe_use(stripe_of_bucket(g, pair->segment, to), 1);
  stripe_use(stripe_of_bucket(g, pair->segment, from), -1);
  segment_unlock(g, pair->segment, from, to);
}

/* The key is in the first of two generations.  It moves each time that the reader has read the
 * bucket to which it goes: before the read of the second bucket, and again when the reader reads
 * both once more.  The words have not changed then. */
static void moves_in_an_older_generation(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, key);
  open_generation(&t);
  while (!pair_find(cuckoo_generation(cuckoo_of(t.filter), 1), hash_mix(&t.keys, key)).segment)
    add(&t, hash_at(&t, LOWER, UPPER)); /* until one has come to the key's root */
  struct bucket_pair pair =
      pair_find(cuckoo_generation(cuckoo_of(t.filter), 0), hash_mix(&t.keys, key));
  if (stands_in_bucket(&t, key, HOME))
    move_by_hand(&t, &pair, HOME, OTHER_UPPER);
  struct call reader = call_of(&t, call_contains, key);
  start_and_stop(&reader, "cuckoo_older_lower_read");
  move_by_hand(&t, &pair, OTHER_UPPER, HOME);
  go_on_to("cuckoo_versions_read");
  move_by_hand(&t, &pair, HOME, OTHER_UPPER);
  go_on_to("cuckoo_older_lower_read_again");
  move_by_hand(&t, &pair, OTHER_UPPER, HOME);
  assert_true(go_on(&reader));
  finish_tiny(&t);
}

/* There is always a copy of this key: at first in the first generation, whose entries a remove takes
 * first, as they know as much; later only in a younger one.  The reader has found its pairs in the two
 * generations that it knows, and the second one has no segment.  The copy goes there, or to a third
 * generation. */
static void copy_goes_where_nothing_was(bool third)
{
  struct tiny t = make_tiny(32);
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, hash_at(&t, LOWER, UPPER)); /* stays, so that nothing is dropped */
  add(&t, key);
  open_without_keys(&t);
  struct call reader = call_of(&t, call_contains, key);
  stop_at(&reader, "cuckoo_older_pair_found");
  if (third)
    open_without_keys(&t);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(entries_of(&t, 0), 1);
  assert_int_equal(entries_of(&t, third ? 2 : 1), 1);
  assert_true(go_on(&reader));
  finish_tiny(&t);
}

static void a_copy_goes_to_a_new_segment(void **state)
{
  (void) state;
  copy_goes_where_nothing_was(false);
}

/* There is always a copy of this key: at first in the first generation, whose entries a remove takes
 * first, as they know as much; then in the second one as well; then only there.  Both have a segment for
 * it.  The reader has found its pairs.  Then the younger segment splits before the copy comes, or a third
 * generation is opened, to which it goes. */
static void copy_goes_to_a_segment_that_has_split(bool third)
{
  struct tiny t = make_tiny(32);
  split(&t); /* as the younger segment will */
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, key);
  open_without_keys(&t);
  struct generation *second = cuckoo_generation(cuckoo_of(t.filter), 1);
  struct bucket_pair pair;
  while (!(pair = pair_find(second, hash_mix(&t.keys, key))).segment)
    add(&t, hash_at(&t, LOWER, UPPER)); /* until one has come to the key's root */
  uint64_t first_has = entries_of(&t, 0);
  struct call reader = call_of(&t, call_contains, key);
  stop_at(&reader, "cuckoo_older_pair_found");
  while (!third && pair_find(second, hash_mix(&t.keys, key)).segment == pair.segment) {
    uint64_t other = hash_at(&t, LOWER, UPPER);
    if (pair_find(second, hash_mix(&t.keys, other)).segment == pair.segment)
      add(&t, other);
  }
  if (third)
    open_without_keys(&t);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(entries_of(&t, 0), first_has - 1);
  assert_true(go_on(&reader));
  finish_tiny(&t);
}

static void a_copy_goes_to_a_segment_that_has_split(void **state)
{
  (void) state;
  copy_goes_to_a_segment_that_has_split(false);
}

/* The second generation has no segment for the key, or it has one. */
static void a_copy_goes_to_a_third_generation(void **state)
{
  (void) state;
  copy_goes_where_nothing_was(true);
  copy_goes_to_a_segment_that_has_split(true);
}

/* There is always a copy of this key: at first in the first generation, whose entries are so
 * wide here that a remove takes them first; then in the second one as well; then only there.
 * The reader finds the first copy gone, and has not yet read the second generation. */
static void a_copy_changes_generations(void **state)
{
  const bool lower = !*(const bool *) *state;
  struct tiny t = make_tiny(32);
  uint64_t before = hash_at(&t, HOME, OTHER_UPPER), key = hash_at(&t, HOME, OTHER_UPPER);
  if (!lower)
    add(&t, before);
  add(&t, key);
  assert_true(stands_in_bucket(&t, key, lower ? HOME : OTHER_UPPER));
  open_generation(&t);
  uint64_t first_has = entries_of(&t, 0);
  struct call reader = call_of(&t, call_contains, key);
  start_and_stop(&reader, lower ? "cuckoo_older_pair_found" : "cuckoo_older_lower_read");
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(entries_of(&t, 0), first_has - 1);
  assert_true(go_on(&reader));
  finish_tiny(&t);
}

/* ---- a generation that opens ---- */

/* The reader knows of one generation, and has read one of its two buckets there.  By the time it
 * reads the other one, the only copy of the key is in a second generation. */
static void a_generation_opens_under_a_reader(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t key = hash_at(&t, LOWER, UPPER);
  struct call reader = call_of(&t, call_contains, key);
  split(&t);
  stop_at(&reader, "cuckoo_lower_read");
  open_generation(&t);
  add(&t, key);
  go_on(&reader); /* either answer is right: the add has overlapped with the look-up */
  assert_true(tamis_contains_hash(t.filter, key));
  finish_tiny(&t);
}

/* Adds a copy of a key, which goes to the second generation, and removes the one in the first,
 * as entries of this width know more there.  So there is always a copy. */
static void replace_by_a_younger_copy(const struct tiny *t, uint64_t hash, uint32_t bucket)
{
  assert_true(stands_in_bucket(t, hash, bucket));
  assert_int_equal(tamis_add_hash(t->filter, hash), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(t->filter, hash), TAMIS_OK);
  assert_false(stands_in_bucket(t, hash, bucket));
}

/* A key in its lower bucket, and one in its upper bucket, of a segment that splits no more. */
struct aged {
  struct tiny t;
  uint64_t lower, upper;
};

static struct aged make_aged(void)
{
  struct aged a = {.t = make_tiny(32)};
  a.lower = hash_at(&a.t, HOME, OTHER_UPPER);
  a.upper = hash_at(&a.t, HOME, OTHER_UPPER);
  add(&a.t, a.lower);
  add(&a.t, a.upper);
  split(&a.t);
  assert_true(stands_in_bucket(&a.t, a.lower, HOME));
  assert_true(stands_in_bucket(&a.t, a.upper, OTHER_UPPER));
  return a;
}

/* The reader knows of one generation when the key goes to another one.  It compares the version
 * of the upper bucket only. */
static void a_key_goes_to_a_generation_that_is_new(void **state)
{
  (void) state;
  struct aged a = make_aged();
  struct call reader = call_of(&a.t, call_contains, a.lower);
  stop_at(&reader, "cuckoo_versions_read");
  open_generation(&a.t);
  replace_by_a_younger_copy(&a.t, a.lower, HOME);
  assert_true(go_on(&reader));
  finish_tiny(&a.t);
}

/* ---- batches ---- */

/* Bit 0: whether the first of two keys is found; bit 1: whether the second one is. */
static const uint64_t *two_keys;

static int contains_two(tamis_filter *f, uint64_t unused)
{
  bool found[2];
  (void) unused;
  tamis_contains_many_hash(f, two_keys, 2, found);
  return found[0] | found[1] << 1;
}

/* The second key of the batch was added before the first one, to a segment that has split since
 * the batch found its pair. */
static void a_batch_answers_in_order(void **state)
{
  (void) state;
  struct tiny t = make_with(64 / LANES, 0.5, 2, 1);
  const uint64_t keys[2] = {hash_in_root(&t, 0, HOME, OTHER_UPPER),
                            hash_in_root(&t, 1, HOME, OTHER_UPPER)};
  two_keys = keys;
  struct call reader = call_of(&t, contains_two, 0);
  stop_at(&reader, "cuckoo_versions_read");
  while (stats_of(t.filter).growths == 0)
    add(&t, hash_in_root(&t, 1, LOWER, UPPER));
  add(&t, keys[1]);
  add(&t, keys[0]);
  assert_int_equal(go_on(&reader), 3); /* the first one is found, so the second one must be */
  finish_tiny(&t);
}

/* The second key of the batch is removed before the first one, from a segment that has been joined
 * with another one since the batch found its pair.  It still stands in the old segment, of the
 * older of two generations. */
static void a_batch_answers_in_order_with_two_generations(void **state)
{
  (void) state;
  struct tiny t = make_tiny_with_two(64 / LANES);
  unsigned in_first = t.n;
  uint32_t upper = (uint32_t) cuckoo_buckets(&t.geometry) / 2 + HOME;
  const uint64_t keys[2] = {hash_at(&t, HOME, upper), t.in[in_first - 2]};
  add(&t, keys[0]);
  drain(&t);
  two_keys = keys;
  struct call reader = call_of(&t, contains_two, 0);
  stop_at(&reader, "cuckoo_older_lower_read");
  join_by_removing(&t, in_first - 2);
  uint64_t first_has = entries_of(&t, 0);
  take(&t, keys[1]);
  assert_int_equal(entries_of(&t, 0), first_has - 1);
  take(&t, keys[0]);
  assert_int_equal(go_on(&reader), 0); /* the first one is gone, so the second one must be */
  finish_tiny(&t);
}

/* As with one generation, but the segment of the second key has been made since the batch found its
 * pair. */
static void a_batch_asks_again_where_there_was_no_segment(void **state)
{
  (void) state;
  struct tiny t = make_with(64 / LANES, 0.5, 2, 0);
  const uint64_t keys[2] = {hash_in_root(&t, 0, HOME, OTHER_UPPER),
                            hash_in_root(&t, 1, HOME, OTHER_UPPER)};
  lose_segment(&t, 1);
  two_keys = keys;
  struct call reader = call_of(&t, contains_two, 0);
  stop_at(&reader, "cuckoo_versions_read");
  add(&t, keys[1]);
  add(&t, keys[0]);
  assert_int_equal(go_on(&reader), 3);
  finish_tiny(&t);
}

/* Whether the second key of a batch of two is found. */
static int contains_after_another(tamis_filter *f, uint64_t hash)
{
  const uint64_t hashes[] = {hash + 1, hash};
  bool found[2];
  tamis_contains_many_hash(f, hashes, 2, found);
  return found[1];
}

/* When the batch looks up the key, its copy is in the second generation already, of which the
 * batch does not know. */
static void a_copy_changes_generations_under_a_batch(void **state)
{
  (void) state;
  struct tiny t = make_with(32, 0.5, 1, 0); /* the segment cannot split */
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, key);
  struct call reader = call_of(&t, contains_after_another, key);
  stop_at(&reader, "cuckoo_lower_read");
  open_generation(&t);
  uint64_t first_has = entries_of(&t, 0);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(entries_of(&t, 0), first_has - 1);
  assert_true(go_on(&reader));
  finish_tiny(&t);
}

/* clang-format off */
#define in_either_bucket(test) \
  {#test ", lower", test, NULL, NULL, &buckets[0]}, \
  {#test ", upper", test, NULL, NULL, &buckets[1]}
/* clang-format on */

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_copy_goes_into_a_joined_segment),
      in_either_bucket(a_copy_goes_to_an_older_generation),
      cmocka_unit_test(moves_in_an_older_generation),
      cmocka_unit_test(a_copy_goes_to_a_new_segment),
      cmocka_unit_test(a_copy_goes_to_a_segment_that_has_split),
      cmocka_unit_test(a_copy_goes_to_a_third_generation),
      in_either_bucket(a_copy_changes_generations),
      cmocka_unit_test(a_generation_opens_under_a_reader),
      cmocka_unit_test(a_key_goes_to_a_generation_that_is_new),
      cmocka_unit_test(a_batch_answers_in_order),
      cmocka_unit_test(a_batch_answers_in_order_with_two_generations),
      cmocka_unit_test(a_batch_asks_again_where_there_was_no_segment),
      cmocka_unit_test(a_copy_changes_generations_under_a_batch),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_lookup", tests, NULL, NULL);
}
