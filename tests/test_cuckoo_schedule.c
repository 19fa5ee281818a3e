/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the cuckoo filter, each replayed exactly.  Built with the hooks.
 *
 * The filters have one segment of eight buckets, 0 to 3 lower and 4 to 7 upper, of four lanes; hashes
 * are searched for that fall where a test wants them.
 */
#include "unit.h"

#include "cuckoo.h"
#include "cuckoo_table.h"
#include "hook.h"
#include "schedule.h"

#include <pthread.h>

enum { LOWER = 1, HOME = 2, UPPER = 5, OTHER_UPPER = 6, LANES = 4, MAX_KEYS = 256 };

/* ---- a filter, its keys, and where they stand ---- */

struct tiny {
  tamis_filter *filter;
  struct cuckoo_geometry geometry;
  struct hash_keys keys;
  uint64_t last_hash;
  unsigned n;
  uint64_t in[MAX_KEYS]; /* the hashes that are in */
};

static struct tiny make_tiny(unsigned width)
{
  const uint64_t seed = 42;
  struct tiny t = {.keys = hash_keys_from_seed(seed)};
  struct cuckoo_geometry *g = &t.geometry;
  g->shape = bucket_shape(width, true);
  g->first_roots = 1;
  g->pair_bits = 2;
  g->depth_limit = 1;
  g->stripe_mask = 7; /* a stripe for each bucket */
  g->words_offset = (64 + 8 * sizeof(struct stripe) + 63) / 64 * 64;
  g->segment_bytes = (g->words_offset + cuckoo_buckets(g) * sizeof(uint64_t) + 63) / 64 * 64;
  g->rate = 0.001;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 32;
  options.fpp = 0.5;
  options.seed = seed;
  struct tamis_filter head = {.keys = t.keys};
  assert_int_equal(tamis__cuckoo_create_with(&options, &head, g, &t.filter), TAMIS_OK);
  return t;
}

static struct cuckoo_place place_of(const struct tiny *t, uint64_t hash)
{
  return cuckoo_place(&t->geometry, hash_mix(&t->keys, hash));
}

/* A hash that was not given out before, of a key that belongs in these buckets. */
static uint64_t hash_at(struct tiny *t, uint32_t lower, uint32_t upper)
{
  struct cuckoo_place place;
  do
    place = place_of(t, ++t->last_hash);
  while (place.lower != lower || place.upper != upper);
  return t->last_hash;
}

static void note(struct tiny *t, uint64_t hash)
{
  assert_true(t->n < MAX_KEYS);
  t->in[t->n++] = hash;
}

static void add(struct tiny *t, uint64_t hash)
{
  assert_int_equal(tamis_add_hash(t->filter, hash), TAMIS_OK);
  note(t, hash);
}

static void add_at(struct tiny *t, uint32_t lower, uint32_t upper, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    add(t, hash_at(t, lower, upper));
}

static void forget(struct tiny *t, uint64_t hash)
{
  for (unsigned i = 0; i < t->n; i++)
    if (t->in[i] == hash)
      t->in[i] = t->in[--t->n];
}

static void take(struct tiny *t, uint64_t hash)
{
  assert_int_equal(tamis_remove_hash(t->filter, hash), TAMIS_OK);
  forget(t, hash);
}

static bool stands_in(const struct tiny *t, uint64_t hash, uint32_t bucket)
{
  struct spot spot = spot_find(cuckoo_of(t->filter)->generation[0], hash_mix(&t->keys, hash));
  const struct cuckoo_geometry *g = &t->geometry;
  return bucket_match(&g->shape, word_load(&segment_words(g, spot.segment)[bucket]), spot.entry);
}

/* Every key that should be there is, counts are exact, and the structure is whole. */
static void finish_tiny(struct tiny *t)
{
  const char *reason = NULL;
  for (unsigned i = 0; i < t->n; i++)
    assert_true(tamis_contains_hash(t->filter, t->in[i]));
  if (!tamis__cuckoo_validate(t->filter, &reason))
    fail_msg("%s", reason);
  assert_int_equal(stats_of(t->filter).count, t->n);
  for (unsigned i = 0; i < t->n; i++)
    assert_int_equal(tamis_remove_hash(t->filter, t->in[i]), TAMIS_OK);
  assert_int_equal(stats_of(t->filter).count, 0);
  tamis_destroy(t->filter);
}

/* ---- calls in threads ---- */

struct call {
  tamis_filter *filter;
  uint64_t hash;
  int (*make)(tamis_filter *f, uint64_t hash);
  int result;
  pthread_t thread;
};

static int contains(tamis_filter *f, uint64_t hash)
{
  return tamis_contains_hash(f, hash);
}

static void *run(void *arg)
{
  struct call *call = arg;
  call->result = call->make(call->filter, call->hash);
  HOOK(call_returned);
  return NULL;
}

static struct call call_of(const struct tiny *t, int (*make)(tamis_filter *, uint64_t),
                           uint64_t hash)
{
  return (struct call){.filter = t->filter, .hash = hash, .make = make};
}

static void start(struct call *call)
{
  assert_int_equal(pthread_create(&call->thread, NULL, run, call), 0);
}

static int finish(struct call *call)
{
  assert_int_equal(pthread_join(call->thread, NULL), 0);
  return call->result;
}

static void start_and_stop(struct call *call, const char *place)
{
  schedule_stop_at(place);
  start(call);
  schedule_wait_either(place, 1, "call_returned", 1);
}

/* ---- a key that is about to be moved ---- */

/* The buckets LOWER and UPPER are full; the next key of that pair pushes `moved` from UPPER to HOME,
 * where all but `taken` lanes are free. */
struct pushed {
  struct tiny t;
  uint64_t moved, next;
};

static struct pushed make_pushed(void)
{
  struct pushed p = {.t = make_tiny(64 / LANES)};
  /* New entries go into the emptier bucket, or the lower one. */
  uint64_t first_at_home = hash_at(&p.t, HOME, OTHER_UPPER);
  add(&p.t, first_at_home);
  p.moved = hash_at(&p.t, HOME, UPPER);
  add(&p.t, p.moved);
  take(&p.t, first_at_home);
  assert_true(stands_in(&p.t, p.moved, UPPER));
  assert_false(stands_in(&p.t, p.moved, HOME));
  add_at(&p.t, LOWER, UPPER, 2 * LANES - 1);
  p.next = hash_at(&p.t, LOWER, UPPER);
  return p;
}

static void push(struct pushed *p)
{
  add(&p->t, p->next);
  assert_true(stands_in(&p->t, p->moved, HOME));
  assert_false(stands_in(&p->t, p->moved, UPPER));
}

/* Nobody stops: what the tests below build on. */
static void a_key_is_pushed(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  push(&p);
  assert_int_equal(stats_of(p.t.filter).growths, 0);
  finish_tiny(&p.t);
}

/* The reader has seen that the key is not in its lower bucket; then it moves there.  Without the
 * version it would be in neither. */
static void a_move_between_two_looks(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call reader = call_of(&p.t, contains, p.moved);
  start_and_stop(&reader, "cuckoo_lower_read");
  schedule_pass_by();
  push(&p);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&p.t);
}

static void a_move_before_the_first_look(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call reader = call_of(&p.t, contains, p.moved);
  start_and_stop(&reader, "cuckoo_version_read");
  push(&p);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&p.t);
}

/* The key comes back to its upper bucket, and goes once more, between two looks: the reader sees it
 * nowhere, and the words as they were. */
static void moves_there_and_back(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call reader = call_of(&p.t, contains, p.moved);
  start_and_stop(&reader, "cuckoo_version_read");
  push(&p);
  /* Another entry of the full pair leaves, and HOME becomes full: the key is pushed back. */
  struct tiny *t = &p.t;
  take(t, p.next);
  add_at(t, HOME, OTHER_UPPER, 2 * LANES - 1);
  add_at(t, HOME, OTHER_UPPER, 1);
  assert_int_equal(stats_of(t->filter).growths, 0);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(t);
}

/* The copy is written, the old entry not yet cleared: a reader that comes now finds the key, and so
 * does one that has looked into its lower bucket before the copy. */
static void a_move_half_done(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_copied");
  assert_true(tamis_contains_hash(p.t.filter, p.moved));
  assert_true(stands_in(&p.t, p.moved, HOME));
  assert_true(stands_in(&p.t, p.moved, UPPER));
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&p.t, p.next);
  finish_tiny(&p.t);
}

/* A remove of the key that is just being moved waits for the move. */
static void a_remove_of_a_key_that_moves(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  struct call remover = call_of(&p.t, tamis_remove_hash, p.moved);
  start_and_stop(&writer, "cuckoo_copied");
  start(&remover);
  schedule_wait_either("stripe_wait", 1, "call_returned", 1);
  schedule_go();
  assert_int_equal(finish(&remover), TAMIS_OK);
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_false(tamis_contains_hash(p.t.filter, p.moved));
  forget(&p.t, p.moved);
  note(&p.t, p.next);
  finish_tiny(&p.t);
}

/* ---- plans that are out of date ---- */

/* The planned entry has gone, and another one stands in its lane. */
static void a_planned_entry_is_replaced(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_planned");
  take(&p.t, p.moved);
  uint64_t in_its_place = hash_at(&p.t, LOWER, UPPER);
  add(&p.t, in_its_place);
  assert_true(stands_in(&p.t, in_its_place, UPPER));
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&p.t, p.next);
  assert_true(tamis_contains_hash(p.t.filter, in_its_place));
  assert_false(tamis_contains_hash(p.t.filter, p.moved));
  finish_tiny(&p.t);
}

static void a_planned_entry_is_removed(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_planned");
  take(&p.t, p.moved);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&p.t, p.next);
  assert_false(tamis_contains_hash(p.t.filter, p.moved));
  finish_tiny(&p.t);
}

/* The lane that was free is taken, and all the others of the bucket. */
static void planned_room_is_taken(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_planned");
  schedule_pass_by();
  add_at(&p.t, HOME, OTHER_UPPER, 2 * LANES);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&p.t, p.next);
  finish_tiny(&p.t);
}

/* The entry that leads on was looked at, and is replaced by one with another other bucket before the
 * way is written down. */
static void an_entry_is_replaced_while_planning(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  schedule_stop_at("cuckoo_way_found");
  start(&writer);
  schedule_wait_either("cuckoo_way_found", 1, "cuckoo_planned", 1);
  take(&p.t, p.moved);
  uint64_t in_its_place = hash_at(&p.t, LOWER, UPPER);
  add(&p.t, in_its_place);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&p.t, p.next);
  assert_true(tamis_contains_hash(p.t.filter, in_its_place));
  finish_tiny(&p.t);
}

/* ---- splits ---- */

/* Adds keys of one pair until the segment splits. */
static void split(struct tiny *t)
{
  uint64_t before = stats_of(t->filter).growths;
  while (stats_of(t->filter).growths == before)
    add(t, hash_at(t, LOWER, UPPER));
}

/* Adds keys of one pair until none of their segments can split any more. */
static void open_generation(struct tiny *t)
{
  while (stats_of(t->filter).generations == 1)
    add(t, hash_at(t, LOWER, UPPER));
}

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

/* A reader stopped inside the segment goes on in the old one, which is still there, and right. */
static void a_split_under_a_reader(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call reader = call_of(&p.t, contains, p.moved);
  start_and_stop(&reader, "cuckoo_lower_read");
  schedule_pass_by();
  split(&p.t);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&p.t);
}

/* The segment is copied when another writer wants to add to it: it waits, and adds to a new one.
 * Readers do not wait. */
static void a_writer_while_a_segment_is_copied(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  add_at(&t, LOWER, UPPER, 2 * LANES);
  uint64_t splits_it = hash_at(&t, LOWER, UPPER), hash = hash_at(&t, HOME, OTHER_UPPER);
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

/* The way was planned in a segment that then splits: nothing may be moved there any more. */
static void a_split_between_plan_and_move(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_planned");
  schedule_pass_by();
  split(&p.t);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&p.t, p.next);
  finish_tiny(&p.t);
}

/* ---- joins ---- */

/* Removes what there is until two segments join. */
static void join(struct tiny *t)
{
  uint64_t before = stats_of(t->filter).joins;
  while (stats_of(t->filter).joins == before) {
    assert_true(t->n > 0);
    take(t, t->in[0]);
  }
}

static void a_join_under_a_writer(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  split(&t);
  uint64_t hash = hash_at(&t, HOME, OTHER_UPPER);
  struct call writer = call_of(&t, tamis_add_hash, hash);
  start_and_stop(&writer, "cuckoo_located");
  join(&t);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_true(tamis_contains_hash(t.filter, hash));
  note(&t, hash);
  finish_tiny(&t);
}

/* The reader has looked into one bucket of a segment that then joins its sibling.  Of the new segment
 * it knows nothing, and need not: the key is still in the old one. */
static void a_join_under_a_reader(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t at_home = hash_at(&t, HOME, UPPER), hash = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, at_home);
  assert_int_equal(tamis_add_hash(t.filter, hash), TAMIS_OK);
  assert_true(stands_in(&t, hash, OTHER_UPPER));
  split(&t);
  struct call reader = call_of(&t, contains, hash);
  start_and_stop(&reader, "cuckoo_lower_read");
  join(&t);
  schedule_go();
  assert_true(finish(&reader));
  note(&t, hash);
  finish_tiny(&t);
}

/* ---- unique adds ---- */

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

/* ---- removes ---- */

/* A key of the same pair as `hash`, equal in all that an entry made before the split knows, and
 * different in the next bit. */
static uint64_t nearly_equal(struct tiny *t, uint64_t hash)
{
  struct cuckoo_place a = place_of(t, hash), b;
  unsigned equal = t->geometry.shape.width - 1;
  do
    b = place_of(t, ++t->last_hash);
  while (b.lower != a.lower || b.upper != a.upper ||
         cuckoo_top_bits(a.fingerprint ^ b.fingerprint, equal) != 0 ||
         cuckoo_top_bits(a.fingerprint ^ b.fingerprint, equal + 1) == 0);
  return t->last_hash;
}

/* The older entry stands for both keys, the younger one for its own only: whoever removes the younger
 * key must not take the older entry. */
static void remove_young(struct tiny *t, uint64_t old, unsigned generations)
{
  uint64_t young = nearly_equal(t, old);
  add(t, young);
  assert_int_equal(stats_of(t->filter).generations, generations);
  take(t, young);
  assert_true(tamis_contains_hash(t->filter, old));
  finish_tiny(t);
}

static void the_longest_match_is_removed(void **state)
{
  (void) state;
  struct tiny t = make_tiny(8);
  uint64_t old = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, old); /* in the lower bucket; the younger one goes into the upper one */
  split(&t);
  remove_young(&t, old, 1);
}

static void the_longest_match_is_removed_if_it_comes_first(void **state)
{
  (void) state;
  struct tiny t = make_tiny(8);
  uint64_t other = hash_at(&t, HOME, OTHER_UPPER), old = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, other);
  add(&t, old); /* in the upper bucket; the younger one goes into the lower one */
  take(&t, other);
  split(&t);
  remove_young(&t, old, 1);
}

/* The younger entry stands in a later generation. */
static void the_longest_match_of_all_generations_is_removed(void **state)
{
  (void) state;
  struct tiny t = make_tiny(8);
  uint64_t old = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, old);
  open_generation(&t);
  remove_young(&t, old, 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_key_is_pushed),
      cmocka_unit_test(a_move_between_two_looks),
      cmocka_unit_test(a_move_before_the_first_look),
      cmocka_unit_test(moves_there_and_back),
      cmocka_unit_test(a_move_half_done),
      cmocka_unit_test(a_remove_of_a_key_that_moves),
      cmocka_unit_test(a_planned_entry_is_replaced),
      cmocka_unit_test(a_planned_entry_is_removed),
      cmocka_unit_test(planned_room_is_taken),
      cmocka_unit_test(an_entry_is_replaced_while_planning),
      cmocka_unit_test(a_split_under_a_writer),
      cmocka_unit_test(a_split_under_a_reader),
      cmocka_unit_test(a_writer_while_a_segment_is_copied),
      cmocka_unit_test(a_split_between_plan_and_move),
      cmocka_unit_test(a_join_under_a_writer),
      cmocka_unit_test(a_join_under_a_reader),
      cmocka_unit_test(two_unique_adds),
      cmocka_unit_test(two_unique_adds_and_a_new_generation),
      cmocka_unit_test(the_longest_match_is_removed),
      cmocka_unit_test(the_longest_match_is_removed_if_it_comes_first),
      cmocka_unit_test(the_longest_match_of_all_generations_is_removed),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule", tests, NULL, NULL);
}
