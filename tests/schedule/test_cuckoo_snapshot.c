/* SPDX-License-Identifier: MIT
 *
 * Snapshots of filters that change between the segments that are copied, and while one is.
 *
 * With one key all is said: its copies are added to and removed from the generations at certain
 * moments, and what the loaded filter has of them must be what the filter had at some moment.
 */
#include "cuckoo_schedule.h"

#include "cuckoo/generation.h"
#include "cuckoo/snapshot.h"
#include "saved_unit.h"

/* ---- what happens meanwhile ---- */

static struct meanwhile {
  void (*act)(struct tiny *t);
  struct tiny *tiny;
  unsigned after, pieces; /* it acts when so many pieces have been copied */
} meanwhile;

/* Called with no lock held. */
static void act_between_pieces(const char *point)
{
  if (strcmp(point, "cuckoo_snapshot_next") == 0 && meanwhile.pieces++ == meanwhile.after)
    meanwhile.act(meanwhile.tiny);
}

/* Saves the filter, and loads what has been saved. */
static tamis_filter *save_and_load(struct tiny *t, unsigned after, void (*act)(struct tiny *))
{
  void (*installed)(const char *) = atomic_load(&tamis__hook);
  meanwhile = (struct meanwhile){.act = act, .tiny = t, .after = after};
  atomic_store(&tamis__hook, act_between_pieces);
  struct bytes bytes = saved_bytes(t->filter);
  atomic_store(&tamis__hook, installed);
  assert_true(meanwhile.pieces > after);
  tamis_filter *loaded = load_bytes(&bytes);
  free(bytes.data);
  return loaded;
}

/* How many copies of a key can be removed. */
static unsigned copies_in(tamis_filter *f, uint64_t hash)
{
  unsigned n = 0;
  while (tamis_remove_hash(f, hash) == TAMIS_OK)
    n++;
  return n;
}

/* Opens a generation whose entries know no more bits than those of the first one: of two that match, a
 * remove takes the older one. */
static void open_short(struct tiny *t)
{
  struct cuckoo *c = cuckoo_of(t->filter);
  struct cuckoo_geometry g = {.shape = {.width = 12, .ages = true},
                              .first_roots = t->geometry.first_roots,
                              .root_shift = 64 / LANES - 12,
                              .pair_bits = 2,
                              .depth_limit = 2,
                              .uneven_at = NEVER_UNEVEN,
                              .stripe_mask = 3,
                              .rate = 0.001};
  assert_true(cuckoo_geometry_restore(&t->geometry, &g));
  unsigned n = cuckoo_generations(c);
  int result;
  assert_int_equal(tamis__growth_provide(c), TAMIS_OK);
  struct generation *next = tamis__generation_create(c, &g, &result);
  assert_non_null(next);
  tamis__generation_append(c, next, n);
}

static uint64_t key; /* what a test is about */

static void add_key(struct tiny *t)
{
  assert_int_equal(tamis_add_hash(t->filter, key), TAMIS_OK);
}

static void remove_key(struct tiny *t)
{
  assert_int_equal(tamis_remove_hash(t->filter, key), TAMIS_OK);
}

/* A filter whose first generation has the key. */
static struct tiny make_with_key(void)
{
  struct tiny t = make_tiny(64 / LANES);
  key = hash_at(&t, HOME, OTHER_UPPER);
  add_key(&t);
  return t;
}

static void expect_copies(struct tiny *t, tamis_filter *loaded, unsigned least, unsigned most)
{
  unsigned copies = copies_in(loaded, key);
  assert_in_range(copies, least, most);
  assert_int_equal(stats_of(loaded).count, t->n);
  for (unsigned i = 0; i < t->n; i++)
    assert_int_equal(tamis_remove_hash(loaded, t->in[i]), TAMIS_OK);
  tamis_destroy(loaded);
  tamis_destroy(t->filter);
}

/* ---- several generations ---- */

static void remove_and_add(struct tiny *t)
{
  remove_key(t);
  add_key(t);
}

/* The key was in a generation that has been copied, and is in one that has not been. */
static void a_key_is_removed_and_added_again(void **state)
{
  (void) state;
  struct tiny t = make_with_key();
  open_short(&t);
  tamis_filter *loaded = save_and_load(&t, 1, remove_and_add);
  expect_copies(&t, loaded, 0, 1);
}

static void add_and_remove(struct tiny *t)
{
  add_key(t);
  remove_key(t); /* the entry of the older generation */
  assert_int_equal(entries_of(t, 1), 1);
}

static void a_remove_takes_the_entry_of_an_older_generation(void **state)
{
  (void) state;
  for (unsigned after = 0; after < 2; after++) {
    struct tiny t = make_with_key();
    open_short(&t);
    tamis_filter *loaded = save_and_load(&t, after, add_and_remove);
    expect_copies(&t, loaded, 1, 2);
  }
}

/* At a limit, an add looks for room in the older generation, where it has been copied. */
static void add_at_limit(struct tiny *t)
{
  struct cuckoo *c = cuckoo_of(t->filter);
  c->max_bytes = c->bytes;
  if (tamis_add_hash(t->filter, key) == TAMIS_OK)
    remove_key(t);
}

static void an_add_falls_back_to_an_older_generation(void **state)
{
  (void) state;
  struct tiny t = make_with_key();
  open_short(&t);
  tamis_filter *loaded = save_and_load(&t, 1, add_at_limit);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK); /* the save is over */
  remove_key(&t);
  expect_copies(&t, loaded, 1, 1);
}

static void add_unique_at_limit(struct tiny *t)
{
  struct cuckoo *c = cuckoo_of(t->filter);
  c->max_bytes = c->bytes;
  remove_key(t);
  if (tamis_add_unique_hash(t->filter, key) == TAMIS_OK)
    remove_key(t);
}

static void a_unique_add_falls_back_to_an_older_generation(void **state)
{
  (void) state;
  struct tiny t = make_with_key();
  open_short(&t);
  tamis_filter *loaded = save_and_load(&t, 1, add_unique_at_limit);
  expect_copies(&t, loaded, 0, 1);
}

/* A copy is counted with an entry of an older generation. */
static void count_copy(struct tiny *t)
{
  struct cuckoo *c = cuckoo_of(t->filter);
  c->counts_copies = true;
  add_key(t);
  remove_key(t);
}

static void a_copy_is_counted_in_an_older_generation(void **state)
{
  (void) state;
  struct tiny t = make_with_key();
  open_short(&t);
  tamis_filter *loaded = save_and_load(&t, 1, count_copy);
  expect_copies(&t, loaded, 1, 2);
}

/* ---- a generation that is opened meanwhile ---- */

static void open_and_move(struct tiny *t)
{
  open_short(t);
  add_and_remove(t);
}

static void open_and_add_again(struct tiny *t)
{
  open_short(t);
  remove_key(t);
  add_key(t);
  add_key(t);
}

/* The first generation has two segments, and the key is in the first or the second one. */
static struct tiny make_split(unsigned segment)
{
  struct tiny t = make_tiny(64 / LANES);
  split(&t);
  do
    key = hash_at(&t, HOME, OTHER_UPPER);
  while (index_of(&t, key) != segment);
  add_key(&t);
  return t;
}

static void a_generation_is_opened(void **state)
{
  (void) state;
  for (unsigned segment = 0; segment < 2; segment++)
    for (unsigned after = 0; after < 3; after++) {
      struct tiny t = make_split(segment);
      tamis_filter *loaded = save_and_load(&t, after, open_and_move);
      expect_copies(&t, loaded, 1, 2);
      t = make_split(segment);
      loaded = save_and_load(&t, after, open_and_add_again);
      expect_copies(&t, loaded, 0, 2);
    }
}

/* What is noted of removes is no more than needed: a key that is final is not noted. */
static void a_removed_key_is_final(void **state)
{
  (void) state;
  struct tiny t = make_split(0);
  tamis_filter *loaded = save_and_load(&t, 1, remove_key);
  expect_copies(&t, loaded, 1, 1);
}

/* ---- splits and joins ---- */

static void split_by_adds(struct tiny *t)
{
  uint64_t before = stats_of(t->filter).growths;
  while (stats_of(t->filter).growths == before)
    assert_int_equal(tamis_add_hash(t->filter, hash_at(t, LOWER, UPPER)), TAMIS_OK);
}

/* Nobody touches the keys that the filter has at first. */
static void segments_split(void **state)
{
  (void) state;
  for (unsigned after = 0; after < 3; after++) {
    struct tiny t = make_with(64 / LANES, 0.5, 1, 3);
    split(&t);
    split(&t);
    tamis_filter *loaded = save_and_load(&t, after, split_by_adds);
    for (unsigned i = 0; i < t.n; i++)
      assert_int_equal(copies_in(loaded, t.in[i]), 1);
    tamis_destroy(loaded);
    tamis_destroy(t.filter);
  }
}

static void split_for_the_first_time(struct tiny *t)
{
  for (uint64_t hash = 100; hash < 400; hash++)
    assert_int_equal(tamis_add_hash(t->filter, hash), TAMIS_OK);
}

/* What the file says of growth was written before.  The loaded filter has segments to join. */
static void the_first_split_comes_in_a_save(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 100;
  options.seed = 1;
  struct tiny t = {.n = 0};
  assert_int_equal(tamis_create(&options, &t.filter), TAMIS_OK);
  for (uint64_t hash = 0; hash < 100; hash++)
    assert_int_equal(tamis_add_hash(t.filter, hash), TAMIS_OK);
  tamis_filter *loaded = save_and_load(&t, 0, split_for_the_first_time);
  assert_int_equal(stats_of(loaded).growths, 0);
  assert_true(stats_of(loaded).segments > 1);
  for (uint64_t hash = 0; hash < 400; hash++)
    assert_int_equal(tamis_remove_hash(loaded, hash), TAMIS_OK);
  assert_int_equal(stats_of(loaded).segments, 1);
  assert_true(stats_of(loaded).joins > 0);
  assert_valid(loaded);
  tamis_destroy(loaded);
  tamis_destroy(t.filter);
}

static unsigned stayed; /* so many of the keys, the last ones */

static void join_by_removes(struct tiny *t)
{
  uint64_t before = stats_of(t->filter).joins;
  unsigned i = 0;
  for (; i < t->n && stats_of(t->filter).joins == before; i++)
    assert_int_equal(tamis_remove_hash(t->filter, t->in[i]), TAMIS_OK);
  stayed = t->n - i;
}

/* All but the last pieces are of segments that have been there, and the rest of a joined one. */
static void segments_join(void **state)
{
  (void) state;
  for (unsigned after = 0; after < 6; after++) {
    struct tiny t = make_with(64 / LANES, 0.5, 1, 3);
    while (stats_of(t.filter).segments < 6)
      split(&t);
    tamis_filter *loaded = save_and_load(&t, after, join_by_removes);
    for (unsigned i = 0; i < t.n; i++) {
      unsigned copies = copies_in(loaded, t.in[i]);
      assert_in_range(copies, i >= t.n - stayed, 1);
    }
    assert_int_equal(stats_of(loaded).count, 0);
    tamis_destroy(loaded);
    tamis_destroy(t.filter);
  }
}

/* Of an older generation, segments that have been copied stay until the save is over. */
static void remove_all_but_one(struct tiny *t)
{
  uint64_t before = stats_of(t->filter).joins;
  while (t->n > 1)
    take(t, t->in[0]);
  assert_int_equal(stats_of(t->filter).joins, before);
}

static void joins_of_what_has_been_copied_are_put_off(void **state)
{
  (void) state;
  struct tiny t = make_split(0);
  open_short(&t);
  tamis_filter *loaded = save_and_load(&t, 2, remove_all_but_one);
  uint64_t before = stats_of(t.filter).joins;
  remove_key(&t);
  assert_true(stats_of(t.filter).joins > before);
  assert_int_equal(copies_in(loaded, key), 1);
  tamis_destroy(loaded);
  finish_tiny(&t);
}

/* ---- roots without a segment ---- */

static void drop_segments(struct tiny *t)
{
  while (t->n)
    take(t, t->in[0]);
}

static void segments_are_dropped(void **state)
{
  (void) state;
  for (unsigned after = 0; after < 2; after++) {
    struct tiny t = make_with(64 / LANES, 0.5, 2, 1);
    add(&t, hash_in_root(&t, 0, LOWER, UPPER));
    uint64_t in_root_1 = hash_in_root(&t, 1, LOWER, UPPER);
    add(&t, in_root_1);
    open_short(&t);
    add(&t, hash_in_root(&t, 0, LOWER, UPPER)); /* in the newest one */
    tamis_filter *loaded = save_and_load(&t, after, drop_segments);
    assert_int_equal(stats_of(t.filter).segments, 0);
    assert_int_equal(stats_of(loaded).count, 0); /* or they would be there as they never were */
    tamis_destroy(loaded);
    tamis_destroy(t.filter);
  }
}

static void add_in_root(struct tiny *t)
{
  add_key(t);
}

static void segments_are_created(void **state)
{
  (void) state;
  for (unsigned root = 0; root < 2; root++)
    for (unsigned after = 0; after < 3; after++) {
      struct tiny t = make_with(64 / LANES, 0.5, 2, 1);
      key = hash_in_root(&t, root, LOWER, UPPER);
      open_short(&t);
      tamis_filter *loaded = save_and_load(&t, after, add_in_root);
      expect_copies(&t, loaded, 0, 1);
    }
}

/* ---- under the stripes ---- */

static int save(tamis_filter *f, uint64_t hash)
{
  (void) hash;
  struct bytes bytes = saved_bytes(f);
  tamis_filter *loaded = load_bytes(&bytes);
  free(bytes.data);
  int copies = (int) copies_in(loaded, key);
  tamis_destroy(loaded);
  return copies;
}

/* A writer that comes while its segment is copied waits.  Readers do not. */
static void a_writer_while_a_segment_is_copied(void **state)
{
  enum { NOT_YET = 1000 };
  (void) state;
  struct tiny t = make_with_key();
  uint64_t other = hash_at(&t, HOME, OTHER_UPPER);
  struct call saver = call_of(&t, save, 0), writer = call_of(&t, tamis_add_hash, other);
  writer.result = NOT_YET;
  start_and_stop(&saver, "cuckoo_snapshot_copied");
  start_beside(&writer);
  assert_true(tamis_contains_hash(t.filter, key));
  assert_int_equal(writer.result, NOT_YET);
  assert_int_equal(go_on(&saver), 1);
  assert_int_equal(finish(&writer), TAMIS_OK);
  expect_in(&t, key);
  expect_in(&t, other);
  finish_tiny(&t);
}

/* The second save begins when the first one has copied a generation, and the key changes when both
 * have. */
static void save_too(struct tiny *t)
{
  meanwhile = (struct meanwhile){.act = remove_and_add, .tiny = t, .after = 1};
  struct bytes bytes = saved_bytes(t->filter);
  tamis_filter *loaded = load_bytes(&bytes);
  free(bytes.data);
  assert_in_range(copies_in(loaded, key), 0, 1);
  tamis_destroy(loaded);
}

static void two_saves_at_once(void **state)
{
  (void) state;
  struct tiny t = make_with_key();
  open_short(&t);
  tamis_filter *loaded = save_and_load(&t, 1, save_too);
  expect_copies(&t, loaded, 0, 1);
}

/* Notes that nobody asks for any more are released. */
static int refuse_bytes(void *context, const void *data, size_t size)
{
  (void) context, (void) data, (void) size;
  return 1;
}

static void a_snapshot_ends_early(void **state)
{
  (void) state;
  struct tiny t = make_with_key();
  struct cuckoo_snapshot s;
  struct snapshot_piece piece;
  open_short(&t);
  assert_int_equal(tamis__snapshot_begin(&s, cuckoo_of(t.filter)), TAMIS_OK);
  assert_int_equal(tamis__snapshot_next(&s, &piece), TAMIS_OK);
  remove_key(&t);
  assert_non_null(s.open);
  tamis__snapshot_end(&s);
  assert_null(cuckoo_of(t.filter)->snapshots);
  assert_int_equal(tamis_save(t.filter, refuse_bytes, NULL), TAMIS_EIO);
  assert_null(cuckoo_of(t.filter)->snapshots);
  finish_tiny(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_key_is_removed_and_added_again),
      cmocka_unit_test(a_remove_takes_the_entry_of_an_older_generation),
      cmocka_unit_test(an_add_falls_back_to_an_older_generation),
      cmocka_unit_test(a_unique_add_falls_back_to_an_older_generation),
      cmocka_unit_test(a_copy_is_counted_in_an_older_generation),
      cmocka_unit_test(a_generation_is_opened),
      cmocka_unit_test(a_removed_key_is_final),
      cmocka_unit_test(segments_split),
      cmocka_unit_test(the_first_split_comes_in_a_save),
      cmocka_unit_test(segments_join),
      cmocka_unit_test(joins_of_what_has_been_copied_are_put_off),
      cmocka_unit_test(segments_are_dropped),
      cmocka_unit_test(segments_are_created),
      TEST_WITH_THREADS(a_writer_while_a_segment_is_copied),
      cmocka_unit_test(two_saves_at_once),
      cmocka_unit_test(a_snapshot_ends_early),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_snapshot", tests, NULL, NULL);
}
