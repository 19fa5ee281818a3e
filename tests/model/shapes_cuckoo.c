/* SPDX-License-Identifier: MIT
 *
 * The cuckoo filter, and counted readers: moves, copies, splits, joins, generations, segments that are
 * released, and the order of adds of several keys as other threads see it.
 */
#include "fixture.h"

#include "cuckoo/generation.h"
#include "cuckoo/growth.h"
#include "cuckoo/segment.h"

/* The number of lanes of a bucket, or of the first generation, that match a key. */
static unsigned matches_in(uint64_t hash, uint64_t bucket)
{
  struct bucket_pair pair = pair_of(hash);
  const struct lane_shape *s = &t.geometry.shape;
  uint64_t value = word_load(&segment_words(&t.geometry, pair.segment)[bucket]);
  return lanes_count(bucket_match(s, value, pair.entry));
}

static unsigned entries_of(uint64_t hash)
{
  struct bucket_pair pair = pair_of(hash);
  return matches_in(hash, pair.lower) + matches_in(hash, pair.upper);
}

/* ---- moves ---- */

static void fill_for_a_move(void)
{
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

void set_up_move(void)
{
  make_cuckoo(1, 1, 1);
  fill_for_a_move();
}

static int evict(unsigned lower, unsigned upper)
{
  return tamis__evict(cuckoo(), &t.geometry, pair_of(t.x).segment, lower, upper, true);
}

int push(uint64_t unused)
{
  (void) unused;
  return evict(LOWER, UPPER);
}

int push_other(uint64_t unused)
{
  (void) unused;
  return evict(LOWER, OTHER);
}

int move_to_and_fro(uint64_t times)
{
  int result = TAMIS_OK;
  for (uint64_t i = 0; i < times && result == TAMIS_OK; i++)
    result = i % 2 ? evict(HOME, OTHER) : push(0);
  return result;
}

/* The only free lane is in HOME.  A move and an add both want it, and the add finds room in any
 * case. */
static void set_up_add_and_move(void)
{
  set_up_move();
  t.y = key_at(ANY, HOME, OTHER);
}

/* The same in a fixed filter, whose plain adds hold no stripe. */
static void set_up_fixed_add_and_move(void)
{
  make_fixed_cuckoo();
  fill_for_a_move();
  t.y = key_at(ANY, HOME, OTHER);
}

/* x, y and z have the same buckets, and x stands in LOWER, which has one free lane. */
static void set_up_fixed(void)
{
  make_fixed_cuckoo();
  t.x = put_to_stay(key_at(ANY, LOWER, UPPER));
  t.y = key_at(ANY, LOWER, UPPER);
  t.z = key_at(ANY, LOWER, UPPER);
}

/* The same, and y has room only in LOWER. */
static void set_up_fixed_remove(void)
{
  set_up_fixed();
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(ANY, HOME, OTHER));
  t.y = key_at(ANY, LOWER, OTHER);
}

/* x stands in UPPER, which a look-up reads last; a new entry would go to LOWER. */
static void set_up_fixed_upper(void)
{
  make_fixed_cuckoo();
  const uint64_t first = put(key_at(ANY, LOWER, OTHER));
  t.x = put_to_stay(key_at(ANY, LOWER, UPPER));
  take(first);
  expect(matches_in(t.x, UPPER) == 1, "where x stands");
}

/* All lanes are full, and the filter may not grow.  y is refused, or finds the room that a remove of z
 * makes at the end of a path. */
static void set_up_full(void)
{
  set_up_move();
  t.z = put(key_at(ANY, HOME, OTHER));
  expect(fold(0) == TAMIS_OK, "fold");
  cuckoo()->max_bytes = atomic_load(&cuckoo()->bytes);
}

static const char *check_full(void)
{
  return !contains(t.y) && tamis_add_hash(t.filter, t.y) != TAMIS_OK
             ? "a remove has made room, and an add is refused"
             : whole();
}

/* ---- splits and joins ---- */

void set_up_split(void)
{
  make_cuckoo(1, 0, 1);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(i % 2, ANY, ANY));
  t.x = t.in[0];
  t.y = key_at(0, ANY, ANY);
  t.z = key_at(1, ANY, ANY);
}

static const char *check_split(void)
{
  return figures().growths != 1 ? "no split" : NULL;
}

/* One lane is free at first.  Another add may take it, or come after the split. */
static void set_up_add_and_split(void)
{
  set_up_split();
  take(t.in[--t.n]);
  t.x = key_at(0, ANY, ANY);
}

/* Releases what the set-up has retired: the backlog is empty when the search begins. */
static void empty_backlog(void)
{
  for (unsigned i = 0; i < 3; i++) {
    model_wait_for_readers();
    figures();
  }
  const struct backlog *backlog = &cuckoo_growth(cuckoo())->backlog;
  expect(!backlog->waiting && !backlog->fresh, "empty backlog");
}

void set_up_join(void)
{
  set_up_split();
  put(t.y);
  expect(figures().growths == 1, "split");
  for (unsigned i = 1; i < 4; i++)
    take(t.in[i]);
  t.n = 1;
  expect(figures().segments == 2, "two segments");
  empty_backlog();
}

static const char *check_join(void)
{
  return figures().segments != 1 ? "no join" : NULL;
}

/* ---- unique adds, generations ---- */

static void set_up_unique(void)
{
  make_cuckoo(1, 0, 1);
  t.x = key();
  put_to_stay(key());
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

/* The newest generation is open, but has no segment yet for x. */
static void set_up_make(void)
{
  set_up_open();
  struct cuckoo *c = cuckoo();
  uint64_t hash = hash_mix(&t.keys, t.x);
  struct bucket_pair full = pair_find(cuckoo_generation(c, 0), hash);
  provide_growth();
  expect(tamis__grow(c, &full, cuckoo_generations(c), false) == TAMIS_OK &&
             cuckoo_generations(c) == 2,
         "open");
  expect(!pair_find(cuckoo_generation(c, 1), hash).segment, "no segment");
}

/* One add of x may find room in the old generation while another thread opens a new one: only
 * one of the adds wins. */
static void set_up_room_and_open(void)
{
  set_up_open();
  take(t.in[--t.n]);
}

/* Two roots, each with a key of its own, and the first `fresh` of them without a segment. */
static void set_up_roots(unsigned fresh)
{
  make_cuckoo(2, 0, 0);
  struct generation *generation = cuckoo_generation(cuckoo(), 0);
  for (unsigned i = 0; i < fresh; i++) {
    struct segment *segment = directory_segment(directory_load(root_entry(generation, i)));
    directory_publish(root_entry(generation, i), NULL);
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

/* ---- copies ---- */

/* x stands in LOWER.  A copy goes to UPPER, and one of the two is removed. */
static void set_up_copies(void)
{
  make_cuckoo(1, 1, 1);
  t.x = put_to_stay(key_at(ANY, LOWER, UPPER));
}

static void set_up_adds(void)
{
  set_up_copies();
  t.x = key_at(ANY, LOWER, UPPER);
}

/* x is in the old generation.  The copy goes to the new one, where it is the longest match, so the
 * remove takes it. */
static void set_up_copies_in_generations(void)
{
  set_up_make();
  t.x = t.in[0];
  put(t.y);
}

/* x is in the old generation, whose entries know more than those of the new one, which has no
 * segment yet. */
static void set_up_copy_goes_on_to_nothing(void)
{
  const double any_rate = 0.1;
  make_cuckoo(1, 0, 0);
  t.x = put_to_stay(key());
  put_to_stay(key());
  struct cuckoo *c = cuckoo();
  struct cuckoo_geometry g;
  int result = cuckoo_geometry_next(&t.geometry, 0, any_rate, &g);
  expect(result == TAMIS_OK, "plan");
  provide_growth();
  struct generation *next = tamis__generation_create(c, &g, &result);
  expect(next != NULL, "create");
  tamis__generation_append(c, next, 1);
}

/* The same, but the new generation has a segment for x. */
static void set_up_copy_goes_on(void)
{
  set_up_copy_goes_on_to_nothing();
  const struct cuckoo_geometry *g = &cuckoo_generation(cuckoo(), 1)->geometry;
  uint64_t root = cuckoo_address(g, hash_mix(&t.keys, t.x)).root, other;
  do
    other = key();
  while (cuckoo_address(g, hash_mix(&t.keys, other)).root != root);
  put_to_stay(other);
}

static const char *check_copy_goes_on(void)
{
  return entries_of(t.x) > 0 ? "the remove took the copy that knows less" : NULL;
}

int fold(uint64_t unused)
{
  (void) unused;
  return tamis__fold(cuckoo(), pair_of(t.x).generation, pair_of(t.x).segment);
}

static const char *check_one_entry(void)
{
  return entries_of(t.x) != 1 ? "a copy has not been folded, or has been lost" : NULL;
}

void set_up_counted_move(void)
{
  set_up_move();
  segment_start_counting(pair_of(t.x).segment);
  put(t.x);
  expect(entries_of(t.x) == 1, "that the copy is counted");
}

/* Both copies of x stand in lanes. */
static void set_up_fold(void)
{
  set_up_move();
  put(t.x);
  expect(entries_of(t.x) == 2, "where the copy is");
}

/* The same in a fixed filter. */
static void set_up_fixed_copies(void)
{
  set_up_fixed();
  put(t.x);
  expect(entries_of(t.x) == 2, "where the copy is");
}

/* ---- orders ---- */

static void set_up_words(void)
{
  make_cuckoo(1, 1, 1);
  t.x = key_at(ANY, LOWER, UPPER);
  t.y = key_at(ANY, HOME, OTHER);
}

static void set_up_words_to_remove(void)
{
  set_up_words();
  put(t.x);
  put(t.y);
}

static void set_up_fresh_segment(void)
{
  set_up_roots(1);
}

static void set_up_fresh_segments(void)
{
  set_up_roots(2);
}

/* Two roots, one of them full: the add of x opens a generation, y has room in the old one. */
static void set_up_fresh_generation(void)
{
  make_cuckoo(2, 0, 0);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(0, ANY, ANY));
  t.x = key_at(0, ANY, ANY);
  t.y = key_at(1, ANY, ANY);
}

/* y and z belong in a full segment, which an add splits; x belongs in another one, which has
 * room. */
static void set_up_batch(void)
{
  make_cuckoo(2, 0, 1);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(i % 2, ANY, ANY));
  t.y = key_at(0, ANY, ANY);
  t.z = key_at(1, ANY, ANY);
  t.x = key_at(2, ANY, ANY);
}

/* ---- shapes ---- */

const struct shape cuckoo_shapes[] = {
    {"lookup_and_move", "is a key found that is moved?", set_up_move, "move 1 | has x"},
    {"lookup_and_moves", "... to and fro?", set_up_move, "move 2 | has x"},
    {"lookups_and_moves", "... more often, by two?", set_up_move, "move 4 | has x | has x",
     BOUND(3), BOUND(3)},
    {"lookup_and_add", "... by an add that needs room?", set_up_move, "add y | has x"},
    {"moves_of_one", "do two moves of an entry lose or double it?", set_up_move,
     "push? | push? | has x", BOUND(3), BOUND(3)},
    {"moves_to_one", "do two moves into one lane lose an entry?", set_up_move,
     "push? | push_other? | has x", BOUND(3), BOUND(3)},
    {"add_and_move", "does an add arrive while its lane is taken by a move?", set_up_add_and_move,
     "push? | add y", BOUND(3), BOUND(3)},
    {"remove_and_move", "does a remove find an entry that is moved?", set_up_move,
     "push? | remove x"},

    {"fixed_adds", "do two adds to one bucket of a fixed filter both arrive?", set_up_fixed,
     "add y; has z | add z; has y"},
    {"fixed_adds_of_one", "... and three of one key?", set_up_fixed, "add y | add y | add y",
     BOUND(3), BOUND(3)},
    {"fixed_add_and_remove", "... while a remove clears a lane?", set_up_fixed_remove,
     "add y | remove x"},
    {"fixed_add_and_unique", "... while a unique add fills one?", set_up_fixed, "add y | unique z"},
    {"fixed_add_and_its_unique", "one winner beside an add of its key?", set_up_fixed,
     "add y; has y | unique y | unique y", BOUND(3), BOUND(3)},
    {"fixed_add_and_move", "... while an entry moves into that lane?", set_up_fixed_add_and_move,
     "push? | add y", BOUND(3), BOUND(3)},
    {"fixed_add_and_count", "is a key counted right that is added?", set_up_fixed,
     "add y | add y | count y", BOUND(3), BOUND(3)},
    {"fixed_add_remove_lookup", "does a look-up beside an add and a remove fit an order?",
     set_up_fixed_upper, "remove x | add x | has x", BOUND(3), BOUND(3)},
    {"fixed_add_remove_lookups", "... and two of them?", set_up_fixed_upper,
     "remove x | add x | has x | has x; has x", BOUND(3), BOUND(2)},
    {"fixed_fold_and_add", "is an add kept that comes while copies are folded?",
     set_up_fixed_copies, "fold | add y", BOUND(3), BOUND(3), check_one_entry},

    {"lookup_and_split", "is a key found while its segment splits?", set_up_split, "add y | has x",
     .also = check_split},
    {"splits", "do two adds split once, and both arrive?", set_up_split, "add y | add z", BOUND(3),
     BOUND(3)},
    {"add_and_split", "does an add arrive while its segment splits?", set_up_add_and_split,
     "add x; add y | add z", BOUND(3), BOUND(3)},
    {"remove_and_split", "is a key gone that is removed while its segment splits?", set_up_split,
     "add y | remove x", BOUND(3), BOUND(3)},
    {"lookup_and_join", "is a key found while its segment is joined?", set_up_join,
     "remove y | has x", .also = check_join},
    {"add_and_join", "does an add arrive while its segment is joined?", set_up_join,
     "remove y | add z"},

    {"unique", "one winner of two?", set_up_unique, "unique x | unique x"},
    {"unique_3", "one winner of three?", set_up_unique, "unique x | unique x | unique x", BOUND(3),
     BOUND(3)},
    {"unique_and_add", "... or an add before it?", set_up_unique, "add x | unique x"},
    {"unique_and_move", "no winner if the key is there, and moved?", set_up_move,
     "move 1 | unique x"},
    {"unique_opens", "one winner of two that open a generation?", set_up_open,
     "unique x | unique x", BOUND(2), BOUND(2)},
    {"unique_makes", "one winner of two that make a segment?", set_up_make, "unique x | unique x",
     BOUND(2), BOUND(2)},
    {"unique_and_open", "one winner while another add opens a generation?", set_up_open,
     "unique x | unique x | add y", BOUND(2), BOUND(1)},
    {"unique_room_and_open", "... and there is room for one in the old one?", set_up_room_and_open,
     "unique x | unique x | add y", BOUND(2), BOUND(1)},
    {"unique_late", "... and one of two does not know it yet?", set_up_open_elsewhere,
     "unique x | add y; unique x", BOUND(3), BOUND(2)},

    {"retire_and_lookup", "is a joined segment released under a reader?", set_up_join,
     "remove y; figures | has x", BOUND(3), BOUND(3), check_join, .grace = true},
    {"retire_and_add", "... or under a writer?", set_up_join, "remove y; figures | add z", BOUND(3),
     BOUND(3), .grace = true},
    {"retire_of_split", "is a split segment released under a reader?", set_up_split,
     "add y; figures | has x", BOUND(3), BOUND(3), check_split, .grace = true},
    {"counted", "is a block released under a counted reader?", model_counted_set_up,
     "replace_counted | read_counted", FULL, NEVER},
    {"counted_2", "... under one of two?", model_counted_set_up,
     "replace_counted | read_counted | read_counted", BOUND(3), NEVER},

    {"store_buffer", "do two adds miss each other?", set_up_words, "add x; has y | add y; has x",
     FULL, NEVER},
    {"store_buffer_removes", "... or two removes?", set_up_words_to_remove,
     "remove x; has y | remove y; has x", FULL, NEVER},
    {"store_buffer_segment", "... one in a segment that it makes?", set_up_fresh_segment,
     "add x; has y | add y; has x", FULL, NEVER},
    {"store_buffer_segments", "... both?", set_up_fresh_segments, "add x; has y | add y; has x",
     FULL, NEVER},
    {"store_buffer_generation", "... one in a generation that it opens?", set_up_fresh_generation,
     "add x; has y | add y; has x", BOUND(3), NEVER},
    {"independent", "do two readers agree on the order of two adds?", set_up_words,
     "add x | add y | has x; has y | has y; has x", FULL, NEVER},
    {"message", "are two adds of a thread seen in their order?", set_up_words,
     "add y; add x | has x; has y"},
    {"message_segments", "... in segments that they make?", set_up_fresh_segments,
     "add y; add x | has x; has y"},
    {"batch_and_split", "... by a batch, with a split in between?", set_up_batch,
     "add z | add y; add x | batch x; batched y", BOUND(3), BOUND(1)},
    {"batch_independent", "does a batch agree with others on the order of two adds?", set_up_batch,
     "add x | add y | batch x; batched y | has y; has x", BOUND(2), NEVER},

    {"copies", "is a key found of which copies come and go?", set_up_copies,
     "add x; remove x | has x"},
    {"more_copies", "... more often?", set_up_copies, "add x; remove x; add x; remove x | has x"},
    {"adds", "do two copies that come at once both count?", set_up_adds, "add x | add x"},
    {"adds_and_remove", "... and one that comes and goes?", set_up_adds,
     "add x | add x | add x; remove x", BOUND(3), BOUND(3)},
    {"copies_fold", "... while copies are counted?", set_up_move, "add x; fold | has x",
     .also = check_one_entry},
    {"copies_in_generations", "... in two generations?", set_up_copies_in_generations,
     "add x; remove x | has x"},
    {"copies_change_generations", "... from one to the other?", set_up_copies_in_generations,
     "add x; remove x; add x | has x"},
    {"copy_goes_on", "... whose only copy goes to a newer one?", set_up_copy_goes_on,
     "add x; remove x | has x", .also = check_copy_goes_on},
    {"copy_goes_on_to_nothing", "... where it makes a segment?", set_up_copy_goes_on_to_nothing,
     "add x; remove x | has x", .also = check_copy_goes_on},
    {"count_and_move", "is a count carried along while copies come and go?", set_up_counted_move,
     "move 1 | add x; remove x; remove x", BOUND(3), BOUND(3), check_one_entry},
    {"count_and_fold", "... while copies are folded?", set_up_fold,
     "fold | add x; remove x; remove x", BOUND(3), BOUND(3), check_one_entry},
    {"full_and_remove", "does a remove make room in a segment that is found full?", set_up_full,
     "add? y | remove z", BOUND(3), NEVER, check_full},

    {"sum_and_move", "is a key counted once that is moved?", set_up_move, "move 2 | count x"},
    {"sum_and_counted_move", "... twice with a counted copy?", set_up_counted_move,
     "move 1 | count x"},
    {"sum_and_fold", "... while copies are folded?", set_up_fold, "fold | count x"},
    {"sum_and_split", "is a key counted once while its segment splits?", set_up_split,
     "add y | count x", BOUND(3), BOUND(3), check_split},
    {"sum_and_replace", "... whose copy goes to a newer generation?", set_up_copy_goes_on,
     "remove x; add x | count x"},
    {"sum_and_make", "... where it makes a segment?", set_up_copy_goes_on_to_nothing,
     "remove x; add x | count x"},
    {"sum_and_go_on", "is it counted if the new copy comes first?", set_up_copy_goes_on,
     "add x; remove x | count x"},
    {.name = NULL},
};
