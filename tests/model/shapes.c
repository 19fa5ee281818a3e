/* SPDX-License-Identifier: MIT
 *
 * Small situations in which calls on one filter meet, and what must hold whatever their order was.
 *
 * The cuckoo filters have four buckets of two lanes to a segment, 0 and 1 lower, 2 and 3 upper, or
 * two buckets, 0 and 1; each has a stripe of its own.  Hashes are searched for that fall where a shape
 * wants them.
 */
#include "shapes.h"

#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "cuckoo/evict.h"
#include "cuckoo/generation.h"
#include "cuckoo/growth.h"
#include "cuckoo/segment.h"
#include "tamis/tamis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOWER = 0, HOME = 1, UPPER = 2, OTHER = 3, ANY = 99, LANES = 2, MOST_KEYS = 32, SEED = 42 };

/* ---- a filter and its keys ---- */

static struct {
  tamis_filter *filter;
  struct cuckoo_geometry geometry;
  struct hash_keys keys;
  uint64_t last_hash;
  unsigned n;
  uint64_t in[MOST_KEYS]; /* keys that are in and stay */
  uint64_t x, y, z;       /* those that the shape is about */
  int result[MODEL_MAX_THREADS][2];
} t;

static const tamis_allocator from_the_world = {model_allocate, model_release, NULL};

static void expect(bool good, const char *what)
{
  if (good)
    return;
  fprintf(stderr, "set-up: %s\n", what);
  exit(2);
}

/* `left`: the rate that later generations may have; chosen so that their directory is small. */
static void make_cuckoo(uint64_t roots, unsigned pair_bits, unsigned depth_limit)
{
  const double fpp = 1e-6, left = 8e-9;
  memset(&t, 0, sizeof t);
  t.keys = hash_keys_from_seed(SEED);
  struct cuckoo_geometry *g = &t.geometry;
  g->shape = bucket_shape(64 / LANES, true);
  g->first_roots = roots;
  g->pair_bits = pair_bits;
  g->depth_limit = depth_limit;
  g->stripe_mask = (uint32_t) cuckoo_buckets(g) - 1;
  g->words_offset = (64 + cuckoo_buckets(g) * sizeof(struct stripe) + 63) / 64 * 64;
  g->segment_bytes = (g->words_offset + cuckoo_buckets(g) * sizeof(uint64_t) + 63) / 64 * 64;
  g->rate = fpp - left;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = cuckoo_lanes(g) * roots;
  options.fpp = fpp;
  options.seed = SEED;
  struct tamis_filter head = {.keys = t.keys, .allocator = from_the_world};
  expect(tamis__cuckoo_create_with(&options, &head, g, &t.filter) == TAMIS_OK, "create");
}

static struct cuckoo *cuckoo(void)
{
  return cuckoo_of(t.filter);
}

static struct cuckoo_address place_of(uint64_t hash)
{
  return cuckoo_address(&t.geometry, hash_mix(&t.keys, hash));
}

static struct bucket_pair spot_of(uint64_t hash)
{
  return pair_find(cuckoo()->generation[0], hash_mix(&t.keys, hash));
}

/* A new key of these buckets in this slot of the first generation. */
static uint64_t key_at(unsigned slot_index, unsigned lower, unsigned upper)
{
  struct cuckoo_address place;
  do
    place = place_of(++t.last_hash);
  while ((slot_index != ANY && place.index != slot_index) ||
         (lower != ANY && place.lower != lower) || (upper != ANY && place.upper != upper));
  return t.last_hash;
}

static uint64_t key(void)
{
  return key_at(ANY, ANY, ANY);
}

static uint64_t put(uint64_t hash)
{
  expect(tamis_add_hash(t.filter, hash) == TAMIS_OK, "add");
  return hash;
}

static uint64_t put_to_stay(uint64_t hash)
{
  t.in[t.n++] = put(hash);
  return hash;
}

static void take(uint64_t hash)
{
  expect(tamis_remove_hash(t.filter, hash) == TAMIS_OK, "remove");
}

static unsigned matches_in(uint64_t hash, uint32_t bucket)
{
  struct bucket_pair pair = spot_of(hash);
  const struct bucket_shape *s = &t.geometry.shape;
  uint64_t value = word_load(&segment_words(&t.geometry, pair.segment)[bucket]);
  return bucket_count(bucket_match(s, value, pair.entry));
}

/* Lanes of the first generation that match a key. */
static unsigned entries_of(uint64_t hash)
{
  struct bucket_pair pair = spot_of(hash);
  return matches_in(hash, pair.lower) + matches_in(hash, pair.upper);
}

static bool contains(uint64_t hash)
{
  return tamis_contains_hash(t.filter, hash);
}

static tamis_stats figures(void)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(t.filter, &stats);
  return stats;
}

/* After each execution of a cuckoo shape: the structure is whole, the keys that stay are there. */
static const char *whole(void)
{
  const char *reason;
  if (!filter_validate(t.filter, &reason))
    return reason;
  for (unsigned i = 0; i < t.n; i++)
    if (!contains(t.in[i]))
      return "a key has been lost";
  return NULL;
}

static const char *whole_with_count(uint64_t count)
{
  const char *reason = whole();
  return reason ? reason : figures().count != count ? "the count is wrong" : NULL;
}

static void must_find(uint64_t hash)
{
  if (!contains(hash))
    model_fail("false negative");
}

static void must_add(uint64_t hash)
{
  if (tamis_add_hash(t.filter, hash) != TAMIS_OK)
    model_fail("an add was refused");
}

static void must_remove(uint64_t hash)
{
  if (tamis_remove_hash(t.filter, hash) != TAMIS_OK)
    model_fail("a remove found nothing");
}

static int add_unique(uint64_t hash)
{
  return tamis_add_unique_hash(t.filter, hash);
}

/* ---- moves: x stands in UPPER and will be pushed to HOME, where one lane is free; all else is full.
 * ---- */

static void set_up_move(void)
{
  make_cuckoo(1, 1, 1);
  put_to_stay(key_at(ANY, HOME, OTHER));
  t.x = put_to_stay(key_at(ANY, HOME, UPPER));
  put_to_stay(key_at(ANY, HOME, OTHER));
  uint64_t hole = put(key_at(ANY, HOME, OTHER));
  put_to_stay(key_at(ANY, HOME, OTHER));
  for (unsigned i = 0; i < 3; i++)
    put_to_stay(key_at(ANY, LOWER, UPPER));
  take(hole);
  t.y = key_at(ANY, LOWER, UPPER);
  expect(matches_in(t.x, UPPER) == 1 && entries_of(hole) == 0, "where x stands");
}

static bool evict(unsigned lower, unsigned upper)
{
  return tamis__evict(&t.geometry, spot_of(t.x).segment, lower, upper);
}

/* x moves to HOME, and back, and so on. */
static void move_to_and_fro(unsigned times)
{
  for (unsigned i = 0; i < times; i++)
    if (!(i % 2 ? evict(HOME, OTHER) : evict(LOWER, UPPER)))
      model_fail("no way");
}

static const char *check_moved(void)
{
  const char *reason = whole_with_count(7);
  return reason ? reason : entries_of(t.x) != 1 ? "an entry has been lost or doubled" : NULL;
}

static void run_one_move(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(1);
  else
    must_find(t.x);
}

static void run_moves(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(2);
  else
    must_find(t.x);
}

static void run_many_moves(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(4);
  else
    must_find(t.x);
}

/* The whole add, which pushes x. */
static void run_add_that_moves(unsigned thread)
{
  if (thread == 0)
    must_add(t.y);
  else
    must_find(t.x);
}

static const char *check_add_that_moves(void)
{
  const char *reason = whole_with_count(8);
  return reason ? reason : !contains(t.y) ? "the add was lost" : NULL;
}

/* Two pushes of the same entry, into the same lane; or of two entries into it. */
static void run_moves_of_one(unsigned thread)
{
  if (thread < 2)
    evict(LOWER, UPPER);
  else
    must_find(t.x);
}

static void run_moves_to_one(unsigned thread)
{
  if (thread == 0)
    evict(LOWER, UPPER);
  else if (thread == 1)
    evict(LOWER, OTHER);
  else
    must_find(t.x);
}

static const char *check_moves(void)
{
  const char *reason = whole_with_count(7);
  for (unsigned i = 0; i < t.n && !reason; i++)
    if (entries_of(t.in[i]) != 1)
      reason = "an entry has been lost or doubled";
  return reason;
}

static void run_remove_and_move(unsigned thread)
{
  if (thread == 0)
    evict(LOWER, UPPER);
  else
    must_remove(t.x);
}

static void set_up_remove_and_move(void)
{
  set_up_move();
  for (unsigned i = 0; i < t.n; i++)
    if (t.in[i] == t.x)
      t.in[i] = t.in[--t.n];
}

static const char *check_remove_and_move(void)
{
  const char *reason = whole_with_count(6);
  return reason ? reason : contains(t.x) ? "a removed key is still there" : NULL;
}

/* ---- splits and joins ---- */

/* A segment of one pair of buckets, full, both halves of it alike; y and z are of either half. */
static void set_up_split(void)
{
  make_cuckoo(1, 0, 1);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(i % 2, ANY, ANY));
  t.x = t.in[0];
  t.y = key_at(0, ANY, ANY);
  t.z = key_at(1, ANY, ANY);
}

static void run_look_and_split(unsigned thread)
{
  if (thread == 0)
    must_add(t.y);
  else
    must_find(t.x);
}

static const char *check_split(void)
{
  const char *reason = whole_with_count(5);
  return reason                   ? reason
         : !contains(t.y)         ? "the add was lost"
         : figures().growths != 1 ? "no split"
                                  : NULL;
}

static void run_two_splits(unsigned thread)
{
  must_add(thread == 0 ? t.y : t.z);
}

static const char *check_two_splits(void)
{
  const char *reason = whole_with_count(6);
  return reason ? reason : !contains(t.y) || !contains(t.z) ? "an add was lost" : NULL;
}

/* x goes while its segment splits. */
static void set_up_remove_and_split(void)
{
  set_up_split();
  t.in[0] = t.in[--t.n];
}

static void run_remove_and_split(unsigned thread)
{
  if (thread == 0)
    must_add(t.y);
  else
    must_remove(t.x);
}

static const char *check_remove_and_split(void)
{
  const char *reason = whole_with_count(4);
  return reason           ? reason
         : contains(t.x)  ? "a removed key is still there"
         : !contains(t.y) ? "the add was lost"
                          : NULL;
}

/* A lane is free at first; another add may take it, or come when the segment has split. */
static void set_up_add_and_split(void)
{
  set_up_split();
  take(t.in[--t.n]);
  t.x = key_at(0, ANY, ANY);
}

static void run_add_and_split(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_add(t.y);
  } else {
    must_add(t.z);
  }
}

static const char *check_add_and_split(void)
{
  const char *reason = whole_with_count(6);
  return reason                                               ? reason
         : !contains(t.x) || !contains(t.y) || !contains(t.z) ? "an add was lost"
                                                              : NULL;
}

/* What the set-up has retired is released: backlog is empty when the search begins. */
static void empty_limbo(void)
{
  for (unsigned i = 0; i < 3; i++) {
    model_wait_for_readers();
    figures();
  }
  expect(!cuckoo()->backlog.waiting && !cuckoo()->backlog.fresh, "empty backlog");
}

/* Two siblings with an entry each, x of which stays; without y they join. */
static void set_up_join(void)
{
  set_up_split();
  put(t.y);
  expect(figures().growths == 1, "split");
  for (unsigned i = 1; i < 4; i++)
    take(t.in[i]);
  t.n = 1;
  expect(figures().segments == 2, "two segments");
  empty_limbo();
}

static void run_look_and_join(unsigned thread)
{
  if (thread == 0)
    must_remove(t.y);
  else
    must_find(t.x);
}

static const char *check_join(void)
{
  const char *reason = whole_with_count(1);
  return reason ? reason : figures().segments != 1 ? "no join" : NULL;
}

static void run_add_and_join(unsigned thread)
{
  if (thread == 0)
    must_remove(t.y);
  else
    must_add(t.z);
}

static const char *check_add_and_join(void)
{
  const char *reason = whole_with_count(2);
  return reason ? reason : !contains(t.z) ? "the add was lost" : NULL;
}

/* ---- one winner ---- */

static void set_up_unique(void)
{
  make_cuckoo(1, 0, 1);
  t.x = key();
  put_to_stay(key());
}

static void run_unique(unsigned thread)
{
  t.result[thread][0] = add_unique(t.x);
}

static unsigned winners(unsigned threads)
{
  unsigned n = 0;
  for (unsigned i = 0; i < threads; i++)
    n += t.result[i][0] == TAMIS_OK;
  return n;
}

static const char *check_unique(unsigned threads, unsigned count)
{
  for (unsigned i = 0; i < threads; i++)
    if (t.result[i][0] != TAMIS_OK && t.result[i][0] != TAMIS_PRESENT)
      return "a unique add failed";
  const char *reason = whole_with_count(count);
  return reason                 ? reason
         : winners(threads) > 1 ? "two winners"
         : winners(threads) < 1 ? "no winner"
         : !contains(t.x)       ? "the add was lost"
                                : NULL;
}

static const char *check_unique_2(void)
{
  return check_unique(2, 2);
}

static const char *check_unique_3(void)
{
  return check_unique(3, 2);
}

/* x is there, and moves: no unique add of it wins. */
static void run_unique_and_move(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(1);
  else if (add_unique(t.x) != TAMIS_PRESENT)
    model_fail("the key was there");
}

/* The one segment is full and may not split: the next add opens a generation and makes its first
 * segment. */
static void set_up_open(void)
{
  make_cuckoo(1, 0, 0);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key());
  t.x = key();
  t.y = key();
}

static void run_unique_and_open(unsigned thread)
{
  if (thread == 2)
    must_add(t.y);
  else
    run_unique(thread);
}

static const char *check_unique_opens(void)
{
  return check_unique(2, 5);
}

static const char *check_unique_and_open(void)
{
  const char *reason = check_unique(2, 6);
  return reason ? reason : !contains(t.y) ? "the other add was lost" : NULL;
}

/* The newest generation is open, but has no segment yet for x. */
static void set_up_make(void)
{
  set_up_open();
  struct cuckoo *c = cuckoo();
  uint64_t hash = hash_mix(&t.keys, t.x);
  struct bucket_pair full = pair_find(c->generation[0], hash);
  expect(tamis__grow(c, &full) == TAMIS_OK && cuckoo_generations(c) == 2, "open");
  expect(!pair_find(c->generation[1], hash).segment, "no segment");
}

/* An add of a key that is there in an older generation does not win, nor does one that has room in the
 * old generation while another opens the new one. */
static void set_up_room_and_open(void)
{
  set_up_open();
  take(t.in[--t.n]);
}

static const char *check_room_and_open(void)
{
  const char *reason = check_unique(2, 5);
  return reason ? reason : !contains(t.y) ? "the other add was lost" : NULL;
}

/* Two roots, each with a key of its own, and the first `fresh` of them without a segment. */
static void set_up_roots(unsigned fresh)
{
  make_cuckoo(2, 0, 0);
  struct generation *generation = cuckoo()->generation[0];
  for (unsigned i = 0; i < fresh; i++) {
    struct segment *segment =
        directory_segment(directory_load(generation_directory_entry(generation, i)));
    directory_publish(generation_directory_entry(generation, i), NULL);
    tamis__segment_destroy(cuckoo(), &t.geometry, segment);
    generation->segments--;
  }
  t.x = key_at(0, ANY, ANY);
  t.y = key_at(1, ANY, ANY);
}

/* x has room in the old generation, but y, of another root, opens a new one. */
static void set_up_open_elsewhere(void)
{
  set_up_roots(0);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(1, ANY, ANY));
}

static void run_unique_late(unsigned thread)
{
  if (thread == 1)
    must_add(t.y);
  run_unique(thread);
}

/* ---- reclamation ---- */

/* The join retires two segments; the figures are asked for to have them released. */
static void run_retire_and_look(unsigned thread)
{
  if (thread == 0) {
    must_remove(t.y);
    figures();
  } else {
    must_find(t.x);
  }
}

static void run_retire_and_add(unsigned thread)
{
  if (thread == 0) {
    must_remove(t.y);
    figures();
  } else {
    must_add(t.z);
  }
}

/* A split retires one, the next call that looks at backlog releases it. */
static void run_retire_of_split(unsigned thread)
{
  if (thread == 0) {
    must_add(t.y);
    figures();
  } else {
    must_find(t.x);
  }
}

static void run_counted(unsigned thread)
{
  if (thread == 0)
    model_counted_replace();
  else
    model_counted_read();
}

/* ---- orders across keys ---- */

/* Each adds a key, and then looks for the other's: one of them finds it. */
static void run_store_buffer(unsigned thread)
{
  must_add(thread == 0 ? t.x : t.y);
  t.result[thread][0] = contains(thread == 0 ? t.y : t.x);
}

static const char *check_store_buffer(void)
{
  return !t.result[0][0] && !t.result[1][0] ? "both adds were missed"
         : !contains(t.x) || !contains(t.y) ? "an add was lost"
                                            : NULL;
}

static const char *check_store_buffer_cuckoo(void)
{
  const char *reason = whole();
  return reason ? reason : check_store_buffer();
}

static void set_up_words(void)
{
  make_cuckoo(1, 1, 1);
  t.x = key_at(ANY, LOWER, UPPER);
  t.y = key_at(ANY, HOME, OTHER);
}

static void set_up_fresh_segment(void)
{
  set_up_roots(1);
}

static void set_up_fresh_segments(void)
{
  set_up_roots(2);
}

/* Two roots, one full: x opens a generation, y has room in the old one. */
static void set_up_fresh_generation(void)
{
  make_cuckoo(2, 0, 0);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(0, ANY, ANY));
  t.x = key_at(0, ANY, ANY);
  t.y = key_at(1, ANY, ANY);
}

/* Two add, two look in opposite orders: they do not contradict each other. */
static void run_independent(unsigned thread)
{
  if (thread < 2) {
    must_add(thread == 0 ? t.x : t.y);
    return;
  }
  t.result[thread][0] = contains(thread == 2 ? t.x : t.y);
  t.result[thread][1] = contains(thread == 2 ? t.y : t.x);
}

static const char *check_independent(void)
{
  bool x_first = t.result[2][0] && !t.result[2][1];
  bool y_first = t.result[3][0] && !t.result[3][1];
  return x_first && y_first ? "two readers saw two adds in opposite orders" : NULL;
}

/* What one thread did before it added x is seen by who finds x: y was there before. */
static void run_message(unsigned thread)
{
  if (thread == 0) {
    must_add(t.y);
    must_add(t.x);
  } else if (contains(t.x) && !contains(t.y)) {
    model_fail("an add was seen before the one that came first");
  }
}

/* ---- batches ---- */

/* y and z are of a segment that is full, so that an add splits it; x of another one, which has room. */
static void set_up_batch(void)
{
  make_cuckoo(2, 0, 1);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(i % 2, ANY, ANY));
  t.y = key_at(0, ANY, ANY);
  t.z = key_at(1, ANY, ANY);
  t.x = key_at(2, ANY, ANY);
}

/* A batch of both, whose places are found before the first one is looked up. */
static void look_up_both(unsigned thread)
{
  uint64_t both[2] = {t.x, t.y};
  bool found[2];
  tamis_contains_many_hash(t.filter, both, 2, found);
  t.result[thread][0] = found[0];
  t.result[thread][1] = found[1];
}

static void run_batch_and_split(unsigned thread)
{
  if (thread == 0) {
    must_add(t.z);
  } else if (thread == 1) {
    must_add(t.y);
    must_add(t.x);
  } else {
    look_up_both(thread);
    if (t.result[thread][0] && !t.result[thread][1])
      model_fail("an add was seen before the one that came first");
  }
}

static void run_batch_independent(unsigned thread)
{
  if (thread == 2)
    look_up_both(thread);
  else
    run_independent(thread);
}

static const char *check_nothing(void)
{
  return NULL;
}

/* ---- multisets: there is a copy of x all the time ---- */

/* x stands in LOWER; a copy goes to UPPER, and one of both is taken. */
static void set_up_copies(void)
{
  make_cuckoo(1, 1, 1);
  t.x = put_to_stay(key_at(ANY, LOWER, UPPER));
}

static void run_copies(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_remove(t.x);
  } else {
    must_find(t.x);
  }
}

static void run_more_copies(unsigned thread)
{
  if (thread == 0) {
    run_copies(0);
    run_copies(0);
  } else {
    must_find(t.x);
  }
}

static const char *check_copies(void)
{
  return whole_with_count(1);
}

/* x is in the old generation; the copy goes into the new one, where it is the longest match.  Then a
 * remove takes that; and so on. */
static void set_up_copies_in_generations(void)
{
  set_up_make();
  t.x = t.in[0];
  put(t.y);
  t.n = 1;
}

static const char *check_copies_in_generations(void)
{
  return whole_with_count(5);
}

/* The copy in the old generation goes, and one in the new generation comes before: what is taken is the
 * one in the new generation, as it knows more; so two are added. */
static void run_copies_in_generations(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_remove(t.x);
    must_add(t.x);
  } else {
    must_find(t.x);
  }
}

static const char *check_copies_wander(void)
{
  return whole_with_count(6);
}

/* x stands in UPPER (set_up_move()).  Its copy goes to HOME, and the one in UPPER is counted. */
static void run_fold(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    struct bucket_pair full = spot_of(t.y);
    if (tamis__fold_duplicates(cuckoo(), &full) != TAMIS_OK)
      model_fail("nothing was folded");
  } else {
    must_find(t.x);
  }
}

static const char *check_fold(void)
{
  const char *reason = whole_with_count(8);
  return reason ? reason : entries_of(t.x) != 1 ? "the copy is not the one that was left" : NULL;
}

/* ---- Bloom ---- */

static void make_bloom(void)
{
  memset(&t, 0, sizeof t);
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 10;
  options.fpp = 0.1;
  options.seed = SEED;
  options.stripes = 1;
  options.allocator = &from_the_world;
  expect(tamis_create(&options, &t.filter) == TAMIS_OK, "create");
  t.x = 1;
  t.y = 2;
}

static const char *check_bloom_unique(void)
{
  return winners(2) != 1        ? "not one winner"
         : !contains(t.x)       ? "the add was lost"
         : figures().count != 1 ? "the key was not counted once"
                                : NULL;
}

static void run_bloom_unique_and_add(unsigned thread)
{
  if (thread == 0)
    t.result[0][0] = add_unique(t.x);
  else
    must_add(t.x);
}

static const char *check_bloom_added(void)
{
  return !contains(t.x)         ? "the add was lost"
         : figures().count != 1 ? "the key was not counted once"
                                : NULL;
}

static void run_bloom_adds(unsigned thread)
{
  (void) thread;
  must_add(t.x);
}

static void run_bloom_unique_2_and_add(unsigned thread)
{
  if (thread < 2)
    t.result[thread][0] = add_unique(t.x);
  else
    must_add(t.x);
}

static const char *check_bloom_unique_and_add(void)
{
  return winners(2) > 1 ? "two winners" : check_bloom_added();
}

/* ---- all of them ---- */

/* clang-format off */
#define FULL {MODEL_FULL, 0, 0}
#define BOUND(preemptions) {MODEL_BOUND, preemptions, 0}
#define NEVER {MODEL_NEVER, 0, 0}
/* clang-format on */

const struct shape shapes[] = {
    {"look_and_move", "is a key found that is moved?", 2, false, set_up_move, run_one_move,
     check_moved, FULL, FULL},
    {"look_and_moves", "... to and fro?", 2, false, set_up_move, run_moves, check_moves, FULL,
     FULL},
    {"looks_and_moves", "... more often, by two?", 3, false, set_up_move, run_many_moves,
     check_moves, BOUND(3), BOUND(3)},
    {"look_and_add", "... by an add that needs room?", 2, false, set_up_move, run_add_that_moves,
     check_add_that_moves, FULL, FULL},
    {"moves_of_one", "do two moves of an entry lose or double it?", 3, false, set_up_move,
     run_moves_of_one, check_moves, BOUND(3), BOUND(3)},
    {"moves_to_one", "do two moves into one lane lose an entry?", 3, false, set_up_move,
     run_moves_to_one, check_moves, BOUND(3), BOUND(3)},
    {"remove_and_move", "does a remove find an entry that is moved?", 2, false,
     set_up_remove_and_move, run_remove_and_move, check_remove_and_move, FULL, FULL},
    {"look_and_split", "is a key found while its segment splits?", 2, false, set_up_split,
     run_look_and_split, check_split, FULL, FULL},
    {"splits", "do two adds split once, and both arrive?", 2, false, set_up_split, run_two_splits,
     check_two_splits, BOUND(3), BOUND(3)},
    {"add_and_split", "does an add arrive while its segment splits?", 2, false,
     set_up_add_and_split, run_add_and_split, check_add_and_split, BOUND(3), BOUND(3)},
    {"remove_and_split", "is a key gone that is removed while its segment splits?", 2, false,
     set_up_remove_and_split, run_remove_and_split, check_remove_and_split, BOUND(3), BOUND(3)},
    {"look_and_join", "is a key found while its segment is joined?", 2, false, set_up_join,
     run_look_and_join, check_join, FULL, FULL},
    {"add_and_join", "does an add arrive while its segment is joined?", 2, false, set_up_join,
     run_add_and_join, check_add_and_join, FULL, FULL},
    {"unique", "one winner of two?", 2, false, set_up_unique, run_unique, check_unique_2, FULL,
     FULL},
    {"unique_3", "one winner of three?", 3, false, set_up_unique, run_unique, check_unique_3,
     BOUND(3), BOUND(3)},
    {"unique_and_move", "no winner if the key is there, and moved?", 2, false, set_up_move,
     run_unique_and_move, check_moved, FULL, FULL},
    {"unique_opens", "one winner of two that open a generation?", 2, false, set_up_open, run_unique,
     check_unique_opens, BOUND(2), BOUND(2)},
    {"unique_makes", "one winner of two that make a segment?", 2, false, set_up_make, run_unique,
     check_unique_opens, BOUND(2), BOUND(2)},
    {"unique_and_open", "one winner while another add opens a generation?", 3, false, set_up_open,
     run_unique_and_open, check_unique_and_open, BOUND(2), BOUND(1)},
    {"unique_room_and_open", "... and there is room for one in the old one?", 3, false,
     set_up_room_and_open, run_unique_and_open, check_room_and_open, BOUND(2), BOUND(1)},
    {"unique_late", "... and one of two does not know it yet?", 2, false, set_up_open_elsewhere,
     run_unique_late, check_unique_and_open, BOUND(3), BOUND(2)},
    {"retire_and_look", "is a joined segment released under a reader?", 2, true, set_up_join,
     run_retire_and_look, check_join, BOUND(3), BOUND(3)},
    {"retire_and_add", "... or under a writer?", 2, true, set_up_join, run_retire_and_add,
     check_add_and_join, BOUND(3), BOUND(3)},
    {"retire_of_split", "is a split segment released under a reader?", 2, true, set_up_split,
     run_retire_of_split, check_split, BOUND(3), BOUND(3)},
    {"counted", "is a block released under a counted reader?", 2, false, model_counted_set_up,
     run_counted, check_nothing, FULL, NEVER},
    {"counted_2", "... under one of two?", 3, false, model_counted_set_up, run_counted,
     check_nothing, BOUND(3), NEVER},
    {"store_buffer", "do two adds miss each other?", 2, false, set_up_words, run_store_buffer,
     check_store_buffer_cuckoo, FULL, NEVER},
    {"store_buffer_segment", "... one in a segment that it makes?", 2, false, set_up_fresh_segment,
     run_store_buffer, check_store_buffer_cuckoo, FULL, NEVER},
    {"store_buffer_segments", "... both?", 2, false, set_up_fresh_segments, run_store_buffer,
     check_store_buffer_cuckoo, FULL, NEVER},
    {"store_buffer_generation", "... one in a generation that it opens?", 2, false,
     set_up_fresh_generation, run_store_buffer, check_store_buffer_cuckoo, BOUND(3), NEVER},
    {"independent", "do two readers agree on the order of two adds?", 4, false, set_up_words,
     run_independent, check_independent, FULL, NEVER},
    {"message", "are two adds of a thread seen in their order?", 2, false, set_up_words,
     run_message, check_nothing, FULL, FULL},
    {"message_segments", "... in segments that they make?", 2, false, set_up_fresh_segments,
     run_message, check_nothing, FULL, FULL},
    {"batch_and_split", "... by a batch, with a split in between?", 3, false, set_up_batch,
     run_batch_and_split, check_nothing, BOUND(3), BOUND(2)},
    {"batch_independent", "does a batch agree with others on the order of two adds?", 4, false,
     set_up_batch, run_batch_independent, check_independent, BOUND(2), NEVER},
    {"copies", "is a key found of which copies come and go?", 2, false, set_up_copies, run_copies,
     check_copies, FULL, FULL},
    {"more_copies", "... more often?", 2, false, set_up_copies, run_more_copies, check_copies, FULL,
     FULL},
    {"copies_fold", "... while copies are counted?", 2, false, set_up_move, run_fold, check_fold,
     FULL, FULL},
    {"copies_in_generations", "... in two generations?", 2, false, set_up_copies_in_generations,
     run_copies, check_copies_in_generations, FULL, FULL},
    {"copies_wander", "... from one to the other?", 2, false, set_up_copies_in_generations,
     run_copies_in_generations, check_copies_wander, FULL, FULL},
    {"bloom_unique", "one winner of two?", 2, false, make_bloom, run_unique, check_bloom_unique,
     FULL, FULL},
    {"bloom_unique_and_add", "... or an add before them?", 2, false, make_bloom,
     run_bloom_unique_and_add, check_bloom_added, FULL, FULL},
    {"bloom_unique_2_and_add", "... two, and an add?", 3, false, make_bloom,
     run_bloom_unique_2_and_add, check_bloom_unique_and_add, BOUND(3), BOUND(3)},
    {"bloom_adds", "do two adds of a key count it once?", 2, false, make_bloom, run_bloom_adds,
     check_bloom_added, FULL, FULL},
    {"bloom_store_buffer", "do two adds miss each other?", 2, false, make_bloom, run_store_buffer,
     check_store_buffer, FULL, NEVER},
    {"bloom_independent", "do two readers agree on the order of two adds?", 4, false, make_bloom,
     run_independent, check_independent, BOUND(2), NEVER},
};

const size_t shape_count = sizeof shapes / sizeof *shapes;
