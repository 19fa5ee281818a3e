/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the cuckoo filter, each replayed exactly.  Built with the hooks.
 *
 * The filters have one segment of eight buckets, 0 to 3 lower and 4 to 7 upper, of four lanes; hashes
 * are searched for that fall where a test wants them.
 */
#include "unit.h"

#include "base/hook.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "cuckoo/evict.h"
#include "cuckoo/generation.h"
#include "cuckoo/growth.h"
#include "cuckoo/segment.h"
#include "schedule.h"

#include <pthread.h>

enum { LOWER = 1, HOME = 2, UPPER = 5, OTHER_UPPER = 6, LANES = 4, MAX_KEYS = 256 };

/* ---- a filter, its keys, and where they stand ---- */

struct tiny {
  tamis_filter *filter;
  struct cuckoo_geometry geometry; /* of the generation that a test is about */
  unsigned generation;
  uint64_t root; /* all hashes fall into this one, if it is not the first generation */
  struct hash_keys keys;
  uint64_t last_hash;
  unsigned n;
  uint64_t in[MAX_KEYS]; /* the hashes that are in */
};

static struct tiny make_with(unsigned width, double fpp, unsigned roots, unsigned depth_limit)
{
  const uint64_t seed = 42;
  struct tiny t = {.keys = hash_keys_from_seed(seed)};
  struct cuckoo_geometry *g = &t.geometry;
  g->shape = bucket_shape(width, true);
  g->first_roots = roots;
  g->first_root_bits = roots - 1; /* of one root or two */
  g->pair_bits = 2;
  g->depth_limit = depth_limit;
  g->stripe_mask = 7; /* a stripe for each bucket */
  g->words_offset = (64 + 8 * sizeof(struct stripe) + 63) / 64 * 64;
  g->segment_bytes = (g->words_offset + cuckoo_buckets(g) * sizeof(uint64_t) + 63) / 64 * 64;
  g->rate = fpp / 500; /* leaves the rest to later generations */
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 32;
  options.fpp = fpp;
  options.seed = seed;
  struct tamis_filter head = {.keys = t.keys};
  assert_int_equal(tamis__cuckoo_create_with(&options, &head, g, &t.filter), TAMIS_OK);
  return t;
}

static struct tiny make_tiny(unsigned width)
{
  return make_with(width, 0.5, 1, 1);
}

static struct cuckoo_address place_of(const struct tiny *t, uint64_t hash)
{
  return cuckoo_address(&t->geometry, hash_mix(&t->keys, hash));
}

/* A hash that was not given out before, of a key that belongs in these buckets. */
static uint64_t hash_at(struct tiny *t, uint32_t lower, uint32_t upper)
{
  struct cuckoo_address place;
  do
    place = place_of(t, ++t->last_hash);
  while (place.lower != lower || place.upper != upper ||
         (t->generation && cuckoo_root_of_index(&t->geometry, place.index) != t->root));
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

static bool stands_in_bucket(const struct tiny *t, uint64_t hash, uint32_t bucket)
{
  struct bucket_pair pair =
      pair_find(cuckoo_of(t->filter)->generation[t->generation], hash_mix(&t->keys, hash));
  const struct cuckoo_geometry *g = &t->geometry;
  return bucket_match(&g->shape, word_load(&segment_words(g, pair.segment)[bucket]), pair.entry);
}

/* Every key that should be there is, counts are exact, and the structure is whole. */
static void finish_tiny(struct tiny *t)
{
  const char *reason = NULL;
  for (unsigned i = 0; i < t->n; i++)
    assert_true(tamis_contains_hash(t->filter, t->in[i]));
  if (!filter_validate(t->filter, &reason))
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

static int contains_in_a_batch(tamis_filter *f, uint64_t hash)
{
  return (int) tamis_contains_many_hash(f, &hash, 1, NULL);
}

/* Whether the second of two is found. */
static int contains_after_another(tamis_filter *f, uint64_t hash)
{
  const uint64_t hashes[] = {hash + 1, hash};
  bool found[2];
  tamis_contains_many_hash(f, hashes, 2, found);
  return found[1];
}

/* As a bit each: whether a key that begins with the first root is found, then one of the second. */
static const uint64_t *two_keys;

static int contains_two(tamis_filter *f, uint64_t unused)
{
  bool found[2];
  (void) unused;
  tamis_contains_many_hash(f, two_keys, 2, found);
  return found[0] | found[1] << 1;
}

static void *run(void *arg)
{
  struct call *call = arg;
  reader_leave(
      reader_enter()); /* a thread's first call goes another way: here it is to be the usual one */
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

/* ---- a second generation ---- */

/* Adds keys of one pair until none of their segments can split any more. */
static void open_generation(struct tiny *t)
{
  while (stats_of(t->filter).generations == 1)
    add(t, hash_at(t, LOWER, UPPER));
}

/* A filter of two generations, the second of which the test is about.  Its buckets are many, so its
 * fingerprints must be wide for two buckets to have different ones in common. */
static struct tiny make_tiny_with_two(unsigned width)
{
  struct tiny t = make_with(width, 1e-5, 1, 1);
  open_generation(&t);
  t.generation = 1;
  t.geometry = cuckoo_of(t.filter)->generation[1]->geometry;
  assert_true(cuckoo_buckets(&t.geometry) >= 8);
  return t;
}

/* ---- a key that is about to be moved ---- */

/* The buckets LOWER and an upper one are full; the next key of that pair pushes `moved` from the upper
 * one to HOME. */
struct pushed {
  struct tiny t;
  uint64_t moved, next;
  uint32_t upper, other_upper;
};

static struct pushed make_pushed_in(unsigned generation)
{
  struct pushed p = {.t = generation ? make_tiny_with_two(64 / LANES) : make_tiny(64 / LANES)};
  uint32_t half = (uint32_t) cuckoo_buckets(&p.t.geometry) / 2;
  unsigned lanes = p.t.geometry.shape.lanes;
  p.upper = half + LOWER;
  p.other_upper = half + HOME;
  /* New entries go into the emptier bucket, or the lower one. */
  uint64_t first_at_home = hash_at(&p.t, HOME, p.other_upper);
  add(&p.t, first_at_home);
  p.moved = hash_at(&p.t, HOME, p.upper);
  add(&p.t, p.moved);
  take(&p.t, first_at_home);
  assert_true(stands_in_bucket(&p.t, p.moved, p.upper));
  assert_false(stands_in_bucket(&p.t, p.moved, HOME));
  add_at(&p.t, LOWER, p.upper, 2 * lanes - 1);
  p.next = hash_at(&p.t, LOWER, p.upper);
  return p;
}

static struct pushed make_pushed(void)
{
  return make_pushed_in(0);
}

static void push(struct pushed *p)
{
  add(&p->t, p->next);
  assert_true(stands_in_bucket(&p->t, p->moved, HOME));
  assert_false(stands_in_bucket(&p->t, p->moved, p->upper));
}

/* Nobody stops: what the tests below build on. */
static void a_key_is_pushed(void **state)
{
  struct pushed p = make_pushed_in(*(const unsigned *) *state);
  uint64_t growths = stats_of(p.t.filter).growths;
  push(&p);
  assert_int_equal(stats_of(p.t.filter).growths, growths);
  finish_tiny(&p.t);
}

/* The reader has seen that the key is not in its lower bucket; then it moves there.  Without the
 * version it would be in neither. */
static void move_between_two_looks(void **state, int (*look)(tamis_filter *, uint64_t))
{
  struct pushed p = make_pushed_in(*(const unsigned *) *state);
  struct call reader = call_of(&p.t, look, p.moved);
  start_and_stop(&reader, "cuckoo_lower_read");
  schedule_pass_by();
  push(&p);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&p.t);
}

static void a_move_between_two_looks(void **state)
{
  move_between_two_looks(state, contains);
}

static void a_move_between_two_looks_of_a_batch(void **state)
{
  move_between_two_looks(state, contains_in_a_batch);
}

static void a_move_before_the_first_look(void **state)
{
  struct pushed p = make_pushed_in(*(const unsigned *) *state);
  struct call reader = call_of(&p.t, contains, p.moved);
  start_and_stop(&reader, "cuckoo_versions_read");
  push(&p);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&p.t);
}

/* The key comes back to its upper bucket, and goes once more, between two looks: the reader sees it
 * nowhere, and the words as they were. */
static void moves_there_and_back(void **state)
{
  struct pushed p = make_pushed_in(*(const unsigned *) *state);
  uint64_t growths = stats_of(p.t.filter).growths;
  struct call reader = call_of(&p.t, contains, p.moved);
  start_and_stop(&reader, "cuckoo_versions_read");
  push(&p);
  /* Another entry of the full pair leaves, and HOME becomes full: the key is pushed back. */
  struct tiny *t = &p.t;
  take(t, p.next);
  add_at(t, HOME, p.other_upper, 2 * t->geometry.shape.lanes - 1);
  add_at(t, HOME, p.other_upper, 1);
  assert_int_equal(stats_of(t->filter).growths, growths);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(t);
}

/* The copy is written, the old entry not yet cleared: a reader that comes now finds the key, and so
 * does one that has looked into its lower bucket before the copy. */
static void a_move_half_done(void **state)
{
  struct pushed p = make_pushed_in(*(const unsigned *) *state);
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_copied");
  assert_true(tamis_contains_hash(p.t.filter, p.moved));
  assert_true(stands_in_bucket(&p.t, p.moved, HOME));
  assert_true(stands_in_bucket(&p.t, p.moved, p.upper));
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&p.t, p.next);
  finish_tiny(&p.t);
}

/* Who holds a stripe may rely on its buckets: no entry is moved there. */
static void a_move_waits_for_who_holds_its_room(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct segment *segment = directory_segment(
      directory_load(generation_directory_entry(cuckoo_of(p.t.filter)->generation[0], 0)));
  struct stripe *stripe = stripe_of_bucket(&p.t.geometry, segment, HOME);
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  schedule_stop_at("nowhere");
  stripe_lock(stripe);
  start(&writer);
  schedule_wait_either("stripe_wait", 1, "call_returned", 1);
  bool moved = stands_in_bucket(&p.t, p.moved, HOME);
  stripe_unlock(stripe);
  assert_int_equal(finish(&writer), TAMIS_OK);
  assert_false(moved);
  note(&p.t, p.next);
  finish_tiny(&p.t);
}

/* A remove of the key that is just being moved waits for the move. */
static void a_remove_of_a_key_that_moves(void **state)
{
  struct pushed p = make_pushed_in(*(const unsigned *) *state);
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
  start_and_stop(&writer, "cuckoo_path_planned");
  take(&p.t, p.moved);
  uint64_t in_its_place = hash_at(&p.t, LOWER, UPPER);
  add(&p.t, in_its_place);
  assert_true(stands_in_bucket(&p.t, in_its_place, UPPER));
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
  start_and_stop(&writer, "cuckoo_path_planned");
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
  start_and_stop(&writer, "cuckoo_path_planned");
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
  schedule_stop_at("cuckoo_path_found");
  start(&writer);
  schedule_wait_either("cuckoo_path_found", 1, "cuckoo_path_planned", 1);
  take(&p.t, p.moved);
  uint64_t in_its_place = hash_at(&p.t, LOWER, UPPER);
  add(&p.t, in_its_place);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&p.t, p.next);
  assert_true(tamis_contains_hash(p.t.filter, in_its_place));
  finish_tiny(&p.t);
}

/* ---- copies that are counted instead ---- */

static int fold(tamis_filter *f, uint64_t hash)
{
  struct cuckoo *c = cuckoo_of(f);
  struct bucket_pair full = pair_find(c->generation[0], hash_mix(&f->keys, hash));
  return tamis__fold_duplicates(c, &full);
}

/* The copy in the upper bucket is counted instead, between the reader's two looks; another one stands in
 * the lower bucket since the first look. */
static void a_copy_is_folded_between_two_looks(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t first_at_home = hash_at(&t, HOME, UPPER), hash = hash_at(&t, HOME, UPPER);
  add(&t, first_at_home);
  add(&t, hash);
  take(&t, first_at_home);
  assert_true(stands_in_bucket(&t, hash, UPPER));
  /* All entries of these three buckets belong in them, so that they are full when they are full. */
  add_at(&t, HOME, UPPER, LANES - 1);
  add_at(&t, LOWER, UPPER, 2 * LANES - 2);
  add_at(&t, HOME, UPPER, 1);
  struct call reader = call_of(&t, contains, hash);
  start_and_stop(&reader, "cuckoo_lower_read");
  schedule_pass_by();
  assert_int_equal(tamis_add_hash(t.filter, hash), TAMIS_OK);
  assert_true(stands_in_bucket(&t, hash, HOME));
  assert_int_equal(fold(t.filter, hash_at(&t, LOWER, UPPER)), TAMIS_OK);
  assert_false(stands_in_bucket(&t, hash, UPPER));
  schedule_go();
  assert_true(finish(&reader));
  assert_int_equal(tamis_remove_hash(t.filter, hash), TAMIS_OK);
  finish_tiny(&t);
}

/* Copies are folded under the stripes of their own pair, whichever key asks for room. */
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
      directory_load(generation_directory_entry(cuckoo_of(t.filter)->generation[0], 0)));
  uint64_t used = segment_used(&t.geometry, segment);
  struct stripe *stripe = stripe_of_bucket(&t.geometry, segment, HOME);
  schedule_stop_at("nowhere");
  stripe_lock(stripe);
  start(&folder);
  schedule_wait_either("stripe_wait", 1, "call_returned", 1);
  assert_int_equal(segment_used(&t.geometry, segment), used);
  stripe_unlock(stripe);
  assert_int_equal(finish(&folder), TAMIS_OK);
  assert_int_equal(segment_used(&t.geometry, segment), used - 1);
  finish_tiny(&t);
}

/* The side table has a lock of its own, as keys of other pairs and stripes use it too. */
static void copies_are_counted_under_their_lock(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t hash = hash_at(&t, HOME, UPPER);
  for (unsigned i = 0; i < LANES; i++)
    add(&t, hash);
  struct segment *segment = directory_segment(
      directory_load(generation_directory_entry(cuckoo_of(t.filter)->generation[0], 0)));
  struct call writer = call_of(&t, tamis_add_hash, hash);
  struct call remover = call_of(&t, tamis_remove_hash, hash);
  for (unsigned i = 0; i < 2; i++) {
    struct call *call = i ? &remover : &writer;
    uint64_t count = stats_of(t.filter).count;
    schedule_stop_at("nowhere");
    stripe_lock(&segment->duplicates_lock);
    start(call);
    schedule_wait_either("stripe_wait", 1, "call_returned", 1);
    assert_int_equal(stats_of(t.filter).count, count);
    stripe_unlock(&segment->duplicates_lock);
    assert_int_equal(finish(call), TAMIS_OK);
  }
  while (t.n > 1) /* one note is enough for finish_tiny() */
    take(&t, hash);
  while (stats_of(t.filter).count > t.n)
    assert_int_equal(tamis_remove_hash(t.filter, hash), TAMIS_OK);
  finish_tiny(&t);
}

/* However often a key comes, another one of its pair finds lanes. */
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

/* ---- splits ---- */

/* Adds keys of one pair until the segment splits. */
static void split(struct tiny *t)
{
  uint64_t before = stats_of(t->filter).growths;
  while (stats_of(t->filter).growths == before)
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

/* The way was planned in a segment that then splits: nothing may be moved there any more. */
static void a_split_between_plan_and_move(void **state)
{
  (void) state;
  struct pushed p = make_pushed();
  struct call writer = call_of(&p.t, tamis_add_hash, p.next);
  start_and_stop(&writer, "cuckoo_path_planned");
  schedule_pass_by();
  split(&p.t);
  schedule_go();
  assert_int_equal(finish(&writer), TAMIS_OK);
  note(&p.t, p.next);
  finish_tiny(&p.t);
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

/* The reader has looked into one bucket of a segment that then joins its sibling.  Of the new segment
 * it knows nothing, and need not: the key is still in the old one. */
static void a_join_under_a_reader(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t at_home = hash_at(&t, HOME, UPPER), hash = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, at_home);
  assert_int_equal(tamis_add_hash(t.filter, hash), TAMIS_OK);
  assert_true(stands_in_bucket(&t, hash, OTHER_UPPER));
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

/* ---- look-ups over several generations ---- */

/* Whether there is no room for a key, or it seems to be there already. */
static bool no_place_for(const struct tiny *t, unsigned generation, uint64_t hash)
{
  struct generation *in = cuckoo_of(t->filter)->generation[generation];
  const struct cuckoo_geometry *g = &in->geometry;
  struct bucket_pair pair = pair_find(in, hash_mix(&t->keys, hash));
  uint64_t lower = word_load(&segment_words(g, pair.segment)[pair.lower]);
  uint64_t upper = word_load(&segment_words(g, pair.segment)[pair.upper]);
  return bucket_has_match(&g->shape, lower, pair.entry) ||
         bucket_has_match(&g->shape, upper, pair.entry) ||
         !(bucket_free(&g->shape, lower) | bucket_free(&g->shape, upper));
}

static uint64_t entries_of(const struct tiny *t, unsigned generation)
{
  return cuckoo_count(cuckoo_of(t->filter)->generation[generation], ENTRIES);
}

/* Until nothing waits for readers. */
static void drain(const struct tiny *t)
{
  while (cuckoo_of(t->filter)->backlog.held)
    stats_of(t->filter);
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

/* A copy of a key of the second generation, whose pair is full there, goes to the first one, as the limit
 * leaves no other room; and the copy in the second is removed. */
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

/* Of this key there is always a copy.  The reader has read the slot of the first generation, whose
 * segment is then joined to another one; a copy goes into that, as the limit leaves no room in the
 * second generation; and the copy there is removed before the reader has read its bucket.  The
 * reader finds the key in neither; only the slot tells. */
static void a_copy_goes_into_a_joined_segment(void **state)
{
  (void) state;
  struct tiny t = make_tiny_with_two(64 / LANES);
  unsigned in_first = t.n;
  uint32_t upper = (uint32_t) cuckoo_buckets(&t.geometry) / 2 + HOME;
  uint64_t key = hash_at(&t, HOME, upper);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  add_at(&t, HOME, upper, 2 * t.geometry.shape.lanes - 1); /* the pair is full */
  drain(&t);
  struct call reader = call_of(&t, contains, key);
  start_and_stop(&reader, "cuckoo_older_found");
  join_by_removing(&t, in_first);
  take_back(&t, key);
  schedule_go();
  assert_true(finish(&reader));
  note(&t, key);
  finish_tiny(&t);
}

/* Of this key there is always a copy, at first in the second generation.  The reader has found nothing in
 * the first one; then a copy goes there, as the limit leaves no room in the second one, and the copy there
 * is removed before the reader looks at it. */
static void a_copy_goes_to_an_older_generation(void **state)
{
  (void) state;
  struct tiny t = make_tiny_with_two(64 / LANES);
  uint32_t upper = (uint32_t) cuckoo_buckets(&t.geometry) / 2 + LOWER; /* of another stripe */
  uint64_t key = hash_at(&t, HOME, upper);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  add_at(&t, HOME, upper, 2 * t.geometry.shape.lanes - 1); /* the pair is full */
  while (no_place_for(&t, 0, key))
    take(&t, t.in[0]);
  drain(&t);
  struct call reader = call_of(&t, contains, key);
  start_and_stop(&reader, "cuckoo_versions_read");
  take_back(&t, key);
  schedule_go();
  assert_true(finish(&reader));
  note(&t, key);
  finish_tiny(&t);
}

static void go_on_to(const char *place)
{
  schedule_stop_at(place);
  schedule_wait_either(place, 1, "call_returned", 1);
}

/* As an eviction does. */
static void move_by_hand(const struct tiny *t, const struct bucket_pair *pair, uint32_t from,
                         uint32_t to)
{
  const struct cuckoo_geometry *g = &t->geometry;
  const struct bucket_shape *s = &g->shape;
  word *words = segment_words(g, pair->segment);
  segment_lock(g, pair->segment, from, to);
  uint64_t match = bucket_match(s, word_load(&words[from]), pair->entry);
  assert_int_equal(bucket_count(match), 1);
  uint64_t entry = bucket_lane(s, word_load(&words[from]), bucket_first(s, match));
  unsigned free = bucket_first(s, bucket_free(s, word_load(&words[to])));
  word_store(&words[to], bucket_replace(s, word_load(&words[to]), free, entry));
  version_bump(stripe_of_bucket(g, pair->segment, from));
  word_store(&words[from], bucket_replace(s, word_load(&words[from]), bucket_first(s, match), 0));
  stripe_use(stripe_of_bucket(g, pair->segment, to), 1);
  stripe_use(stripe_of_bucket(g, pair->segment, from), -1);
  segment_unlock(g, pair->segment, from, to);
}

/* A generation more, without any segment. */
static void open_without_keys(const struct tiny *t)
{
  struct cuckoo *c = cuckoo_of(t->filter);
  struct cuckoo_geometry g;
  unsigned n = cuckoo_generations(c);
  int result = cuckoo_geometry_next(&c->generation[0]->geometry, 0, 0.1, &g);
  assert_int_equal(result, TAMIS_OK);
  c->generation[n] = tamis__generation_create(c, &g, &result);
  assert_non_null(c->generation[n]);
  c->generations = n + 1;
}

/* The key is in the first of two generations, and moves whenever the reader has looked into the bucket to
 * which it goes: before it looks into the second one, and when it looks at the first one again.  It sees
 * the words as they were. */
static void moves_in_an_older_generation(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, key);
  open_generation(&t);
  struct bucket_pair pair = pair_find(cuckoo_of(t.filter)->generation[0], hash_mix(&t.keys, key));
  if (stands_in_bucket(&t, key, HOME))
    move_by_hand(&t, &pair, HOME, OTHER_UPPER);
  struct call reader = call_of(&t, contains, key);
  start_and_stop(&reader, "cuckoo_older_lower_read");
  move_by_hand(&t, &pair, OTHER_UPPER, HOME);
  go_on_to("cuckoo_versions_read");
  move_by_hand(&t, &pair, HOME, OTHER_UPPER);
  go_on_to("cuckoo_older_lower_read_again");
  move_by_hand(&t, &pair, OTHER_UPPER, HOME);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&t);
}

/* Of this key there is always a copy: at first in the first generation, whose entries are so wide here that
 * a remove takes those first; then only in a younger one.  The reader has found its pairs in the two that it
 * knows, and seen that the second one has no segment: there the copy goes, or into a third one. */
static void copy_goes_where_nothing_was(bool third)
{
  struct tiny t = make_tiny(32);
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, hash_at(&t, LOWER, UPPER)); /* stays, so that nothing is dropped */
  add(&t, key);
  open_without_keys(&t);
  struct call reader = call_of(&t, contains, key);
  start_and_stop(&reader, "cuckoo_older_found");
  schedule_pass_by();
  if (third)
    open_without_keys(&t);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(entries_of(&t, 0), 1);
  assert_int_equal(entries_of(&t, third ? 2 : 1), 1);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&t);
}

static void a_copy_goes_to_a_new_segment(void **state)
{
  (void) state;
  copy_goes_where_nothing_was(false);
}

static void a_copy_goes_to_a_third_generation(void **state)
{
  (void) state;
  copy_goes_where_nothing_was(true);
}

/* Of this key there is always a copy: at first in the first generation, whose entries are so wide here
 * that a remove takes those first; then in the second one, too; then only there.  The reader has not looked
 * there yet, and finds the first one gone. */
static void a_copy_changes_generations(void **state)
{
  bool lower = *(const unsigned *) *state == 0;
  struct tiny t = make_tiny(32);
  uint64_t before = hash_at(&t, HOME, OTHER_UPPER), key = hash_at(&t, HOME, OTHER_UPPER);
  if (!lower)
    add(&t, before);
  add(&t, key);
  assert_true(stands_in_bucket(&t, key, lower ? HOME : OTHER_UPPER));
  open_generation(&t);
  uint64_t first_has = entries_of(&t, 0);
  struct call reader = call_of(&t, contains, key);
  start_and_stop(&reader, lower ? "cuckoo_older_found" : "cuckoo_older_lower_read");
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(entries_of(&t, 0), first_has - 1);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&t);
}

static uint64_t hash_in_root(struct tiny *t, uint64_t root, uint32_t lower, uint32_t upper)
{
  uint64_t hash;
  do
    hash = hash_at(t, lower, upper);
  while (cuckoo_root_of_index(&t->geometry, place_of(t, hash).index) != root);
  return hash;
}

/* As in a large filter, whose segments are made when keys come. */
static void lose_segment(const struct tiny *t, uint64_t index)
{
  struct cuckoo *c = cuckoo_of(t->filter);
  struct generation *first = c->generation[0];
  directory_entry *lost = generation_directory_entry(first, index);
  tamis__segment_destroy(c, &first->geometry, directory_segment(directory_load(lost)));
  directory_publish(lost, NULL);
  first->segments--;
}

/* The second key was added first, to a segment that has split since the batch has found its pair. */
static void a_batch_answers_in_order(void **state)
{
  (void) state;
  struct tiny t = make_with(64 / LANES, 0.5, 2, 1);
  const uint64_t keys[2] = {hash_in_root(&t, 0, HOME, OTHER_UPPER),
                            hash_in_root(&t, 1, HOME, OTHER_UPPER)};
  two_keys = keys;
  struct call reader = call_of(&t, contains_two, 0);
  start_and_stop(&reader, "cuckoo_versions_read");
  schedule_pass_by();
  while (stats_of(t.filter).growths == 0)
    add(&t, hash_in_root(&t, 1, LOWER, UPPER));
  add(&t, keys[1]);
  add(&t, keys[0]);
  schedule_go();
  assert_int_equal(finish(&reader), 3); /* the first is seen, so the second is */
  finish_tiny(&t);
}

/* The same, where the segment of the second key has been made since. */
static void a_batch_asks_again_where_there_was_no_segment(void **state)
{
  (void) state;
  struct tiny t = make_with(64 / LANES, 0.5, 2, 0);
  const uint64_t keys[2] = {hash_in_root(&t, 0, HOME, OTHER_UPPER),
                            hash_in_root(&t, 1, HOME, OTHER_UPPER)};
  lose_segment(&t, 1);
  two_keys = keys;
  struct call reader = call_of(&t, contains_two, 0);
  start_and_stop(&reader, "cuckoo_versions_read");
  schedule_pass_by();
  add(&t, keys[1]);
  add(&t, keys[0]);
  schedule_go();
  assert_int_equal(finish(&reader), 3);
  finish_tiny(&t);
}

/* The key's own look begins when its copy is in the second generation already, of which the batch does not
 * know. */
static void a_copy_changes_generations_under_a_batch(void **state)
{
  (void) state;
  struct tiny t = make_with(32, 0.5, 1, 0); /* the segment cannot split */
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, key);
  struct call reader = call_of(&t, contains_after_another, key);
  start_and_stop(&reader, "cuckoo_lower_read");
  schedule_pass_by();
  open_generation(&t);
  uint64_t first_has = entries_of(&t, 0);
  assert_int_equal(tamis_add_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(t.filter, key), TAMIS_OK);
  assert_int_equal(entries_of(&t, 0), first_has - 1);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&t);
}

/* The reader knows of one generation, and has seen that the key is not in the bucket from which it
 * is missing there; the only copy is in a second one by the time it has looked into the other bucket. */
static void a_generation_opens_under_a_reader(void **state)
{
  (void) state;
  struct tiny t = make_tiny(64 / LANES);
  uint64_t key = hash_at(&t, LOWER, UPPER);
  struct call reader = call_of(&t, contains, key);
  split(&t);
  start_and_stop(&reader, "cuckoo_lower_read");
  schedule_pass_by();
  open_generation(&t);
  add(&t, key);
  schedule_go();
  finish(&reader); /* either answer is right: the add has overlapped with the look-up */
  assert_true(tamis_contains_hash(t.filter, key));
  finish_tiny(&t);
}

/* Adds a copy of a key, which goes into the second generation, and removes the one in the first: there
 * entries of this width know more.  So there is always one of the two. */
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

/* The reader knows of one generation when the key goes to another one.  It watches the upper bucket
 * only. */
static void a_key_goes_to_a_generation_that_is_new(void **state)
{
  (void) state;
  struct aged a = make_aged();
  struct call reader = call_of(&a.t, contains, a.lower);
  start_and_stop(&reader, "cuckoo_versions_read");
  schedule_pass_by();
  open_generation(&a.t);
  replace_by_a_younger_copy(&a.t, a.lower, HOME);
  schedule_go();
  assert_true(finish(&reader));
  finish_tiny(&a.t);
}

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

/* A hash of the first or the second root of two. */
static uint64_t hash_of_root(struct tiny *t, uint64_t root)
{
  uint64_t hash;
  do
    hash = hash_at(t, LOWER, UPPER);
  while (place_of(t, hash).index != root);
  return hash;
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
      add(&t, hash_of_root(&t, root));
    call[root] = call_of(&t, tamis_add_hash, hash_of_root(&t, root));
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
  struct call writer = call_of(&t, tamis_add_hash, hash_of_root(&t, 1));
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

/* ---- removes ---- */

/* A key of the same pair as `hash`, equal in all that an entry made before the split knows, and
 * different in the next bit. */
static uint64_t nearly_equal(struct tiny *t, uint64_t hash)
{
  struct cuckoo_address a = place_of(t, hash), b;
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

static unsigned first = 0, second = 1;

/* clang-format off */
#define in_either_generation(test) \
  {#test, test, NULL, NULL, &first}, {#test ", second generation", test, NULL, NULL, &second}
#define in_either_bucket(test) \
  {#test ", lower", test, NULL, NULL, &first}, {#test ", upper", test, NULL, NULL, &second}
/* clang-format on */

int main(void)
{
  const struct CMUnitTest tests[] = {
      in_either_generation(a_key_is_pushed),
      in_either_generation(a_move_between_two_looks),
      in_either_generation(a_move_between_two_looks_of_a_batch),
      in_either_generation(a_move_before_the_first_look),
      in_either_generation(moves_there_and_back),
      in_either_generation(a_move_half_done),
      cmocka_unit_test(a_move_waits_for_who_holds_its_room),
      in_either_generation(a_remove_of_a_key_that_moves),
      cmocka_unit_test(a_planned_entry_is_replaced),
      cmocka_unit_test(a_planned_entry_is_removed),
      cmocka_unit_test(planned_room_is_taken),
      cmocka_unit_test(an_entry_is_replaced_while_planning),
      cmocka_unit_test(a_copy_is_folded_between_two_looks),
      cmocka_unit_test(folding_waits_for_a_writer),
      cmocka_unit_test(copies_are_counted_under_their_lock),
      cmocka_unit_test(copies_leave_room_for_another_key),
      cmocka_unit_test(a_split_under_a_writer),
      cmocka_unit_test(a_split_under_a_reader),
      cmocka_unit_test(a_writer_while_a_segment_is_copied),
      cmocka_unit_test(a_split_between_plan_and_move),
      cmocka_unit_test(two_that_want_to_split),
      cmocka_unit_test(room_is_made_before_a_split),
      cmocka_unit_test(a_way_opens_before_a_split),
      cmocka_unit_test(a_join_waits_for_growth),
      cmocka_unit_test(a_join_under_a_writer),
      cmocka_unit_test(a_join_needs_a_whole_sibling),
      cmocka_unit_test(a_join_under_a_reader),
      cmocka_unit_test(two_unique_adds),
      cmocka_unit_test(two_unique_adds_and_a_new_generation),
      cmocka_unit_test(a_unique_add_of_a_present_key_does_not_wait),
      cmocka_unit_test(a_copy_goes_into_a_joined_segment),
      cmocka_unit_test(a_copy_goes_to_an_older_generation),
      cmocka_unit_test(moves_in_an_older_generation),
      cmocka_unit_test(a_copy_goes_to_a_new_segment),
      cmocka_unit_test(a_copy_goes_to_a_third_generation),
      in_either_bucket(a_copy_changes_generations),
      cmocka_unit_test(a_batch_answers_in_order),
      cmocka_unit_test(a_batch_asks_again_where_there_was_no_segment),
      cmocka_unit_test(a_copy_changes_generations_under_a_batch),
      cmocka_unit_test(a_generation_opens_under_a_reader),
      cmocka_unit_test(an_entry_comes_before_a_drop),
      cmocka_unit_test(a_key_goes_to_a_generation_that_is_new),
      cmocka_unit_test(a_new_generation_under_a_writer),
      cmocka_unit_test(a_unique_add_that_knows_a_generation_too_few),
      cmocka_unit_test(two_that_need_a_generation),
      cmocka_unit_test(a_new_generation_while_a_segment_is_made),
      cmocka_unit_test(the_longest_match_is_removed),
      cmocka_unit_test(the_longest_match_is_removed_if_it_comes_first),
      cmocka_unit_test(the_longest_match_of_all_generations_is_removed),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule", tests, NULL, NULL);
}
