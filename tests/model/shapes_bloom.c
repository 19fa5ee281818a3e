/* SPDX-License-Identifier: MIT
 *
 * The Bloom filter.
 */
#include "bloom/layers.h" /* first, as it has a name that fixture.h defines again */

#include "fixture.h"

static void make_with_limit(tamis_kind kind, tamis_layout layout, uint64_t capacity, bool growable,
                            uint64_t max_bytes)
{
  memset(&t, 0, sizeof t);
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = kind;
  options.layout = layout;
  options.capacity = capacity;
  options.fpp = 0.1;
  options.growable = growable;
  options.seed = SEED;
  options.stripes = kind == TAMIS_BLOOM ? 0 : 1; /* with one, a small filter has no shards */
  options.max_bytes = max_bytes;
  options.allocator = &from_the_world;
  expect(tamis_create(&options, &t.filter) == TAMIS_OK, "create");
  t.x = 1;
  t.y = 2;
}

static void make_kind(tamis_kind kind, tamis_layout layout, uint64_t capacity, bool growable)
{
  make_with_limit(kind, layout, capacity, growable, 0);
}

static void make(tamis_layout layout, uint64_t capacity, bool growable)
{
  make_kind(TAMIS_BLOOM, layout, capacity, growable);
}

void make_bloom(void)
{
  make(TAMIS_LAYOUT_BLOCKED, 2500, true); /* far from its capacity; two shards of counters */
}

static void make_word(void)
{
  make(TAMIS_LAYOUT_WORD, 4000, true);
}

static void make_word_limited(void)
{
  make(TAMIS_LAYOUT_WORD, 10, false);
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

/* x is in, and the filter counts so many keys. */
static const char *check_counted(uint64_t keys)
{
  return !contains(t.x)            ? "the add was lost"
         : figures().count != keys ? "the key was not counted once"
                                   : NULL;
}

static const char *check_bloom_added(void)
{
  return check_counted(1);
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

/* As a save does, which counts keys first and copies their bits then. */
static void run_bloom_counted(unsigned thread)
{
  if (thread == 0)
    must_add(t.x);
  else
    t.result[1][0] = figures().count == 1 && !contains(t.x);
}

/* The same with a thread that owns no shard of the counters. */
static void run_bloom_counted_by_many(unsigned thread)
{
  run_bloom_counted(1 - thread);
}

static const char *check_bloom_counted(void)
{
  return t.result[1][0] ? "a key was counted, and was not in" : check_bloom_added();
}

/* ---- a filter in which the last bits of x may come from y ---- */

/* How many of the bits of x in its last word another key has. */
static int bits_of_last_word(uint64_t x, uint64_t other)
{
  const uint64_t words = figures().bits / 64;
  const struct bloom_shape shape = {TAMIS_LAYOUT_BLOCKED, 2, 2, 1};
  const uint64_t of_x = hash_mix(&t.filter->keys, x), of_other = hash_mix(&t.filter->keys, other);
  struct bloom_probes probes = bloom_probes_begin(words, of_x, shape);
  struct bloom_probe last = {0}, probe;
  for (unsigned i = 0; i < shape.probes; i++)
    last = bloom_probes_next(&probes, shape);
  probes = bloom_probes_begin(words, of_other, shape);
  for (unsigned i = 0; i < shape.probes; i++) {
    probe = bloom_probes_next(&probes, shape);
    if (probe.word == last.word)
      return __builtin_popcountll(last.mask & probe.mask);
  }
  return 0;
}

static void make_bloom_with_y(int bits, uint64_t capacity)
{
  make(TAMIS_LAYOUT_BLOCKED, capacity, true);
  expect(figures().bits_per_key == 4, "two bits in each of two words");
  while (bits_of_last_word(t.x, t.y) != bits)
    t.y++;
}

static void make_bloom_to_interfere(void)
{
  make_bloom_with_y(2, 30);
}

/* When y has come, the other word of x is its widest gap. */
static void make_bloom_to_narrow(void)
{
  make_bloom_with_y(1, 30);
}

/* y has come already; far from the capacity, where plain adds have a path of their own. */
static void make_bloom_narrowed(void)
{
  make_bloom_with_y(1, 2500);
  must_add(t.y);
}

static const char *check_bloom_narrowed(void)
{
  return check_counted(2);
}

static void run_interference(unsigned thread)
{
  if (thread < 2)
    t.result[thread][0] = add_unique(t.x);
  else
    must_add(t.y);
}

/* If y has completed x, no call has won. */
static const char *check_interference(void)
{
  return winners(2) > 1                      ? "two winners"
         : !contains(t.x) || !contains(t.y)  ? "an add was lost"
         : figures().count > 1u + winners(2) ? "a key was counted that had no winner"
                                             : NULL;
}

/* ---- a filter that is full but for one key ---- */

static void make_limited_but_one(tamis_layout layout)
{
  make(layout, 2, false);
  t.z = 3;
  must_add(t.z);
}

void make_word_full_but_one(void)
{
  make_limited_but_one(TAMIS_LAYOUT_WORD);
}

static void make_bloom_limited_but_one(void)
{
  make_limited_but_one(TAMIS_LAYOUT_BLOCKED);
}

/* Both want the last room for the same key, and a third call wants it for another key. */
static void run_word_full(unsigned thread)
{
  if (thread < 2)
    t.result[thread][0] = add_unique(t.x);
  else
    (void) tamis_add_hash(t.filter, t.y);
}

/* If the key has been refused to one thread, no other one has added it: after that and before
 * it. */
static const char *check_word_full(void)
{
  unsigned refused = 0;
  for (unsigned i = 0; i < 2; i++)
    refused += t.result[i][0] == TAMIS_EFULL;
  return winners(2) + (refused > 0) != 1      ? "not one winner, or a refusal for all"
         : contains(t.x) != (winners(2) == 1) ? "the key is in or not, against what was said"
         : figures().count != 1u + contains(t.x) + contains(t.y) ? "a key was not counted once"
                                                                 : NULL;
}

/* ---- a filter whose first layer is full, and which has to open another one ---- */

static void make_full(tamis_layout layout)
{
  make(layout, 1, true);
  t.z = 3;
  must_add(t.z);
}

static void make_bloom_full(void)
{
  make_full(TAMIS_LAYOUT_BLOCKED);
}

static void make_word_to_grow(void)
{
  make_full(TAMIS_LAYOUT_WORD);
}

static const char *check_opening(void)
{
  return winners(2) != 1        ? "not one winner"
         : !contains(t.x)       ? "the add was lost"
         : figures().layers > 3 ? "more layers than unique adds that found no room"
                                : NULL;
}

/* ---- a filter whose first layer has room for one more key ---- */

static void make_full_but_one(tamis_layout layout)
{
  make(layout, 2, true);
  t.z = 3;
  must_add(t.z);
}

static void make_bloom_full_but_one(void)
{
  make_full_but_one(TAMIS_LAYOUT_BLOCKED);
}

static void make_word_to_grow_full_but_one(void)
{
  make_full_but_one(TAMIS_LAYOUT_WORD);
}

enum { OTHER_KEY = 4 };

/* Thread 0 takes the room, and opens a layer for x.  Thread 1 may have found the room before. */
static void run_room_and_opening(unsigned thread)
{
  if (thread == 0)
    must_add(OTHER_KEY);
  run_store_buffer(thread);
}

static void run_unique_room_and_opening(unsigned thread)
{
  if (thread == 0)
    must_add(OTHER_KEY);
  run_unique(thread);
}

static const char *check_unique_room_and_opening(void)
{
  return winners(2) != 1 ? "not one winner" : !contains(t.x) ? "the add was lost" : NULL;
}

/* ---- the late rule ---- */

static void make_bloom_small(void)
{
  make(TAMIS_LAYOUT_BLOCKED, 30, true);
}

static void open_layer(void)
{
  struct bloom *first = bloom_of(t.filter);
  expect(tamis__layers_open(first, newest_layer(first), 0) == TAMIS_OK, "open");
}

/* Two layers open, one after the other. */
static void run_unique_2_and_openings(unsigned thread)
{
  if (thread < 2) {
    t.result[thread][0] = add_unique(t.x);
  } else {
    open_layer();
    open_layer();
  }
}

/* The thread that opens one adds x as well. */
static void run_unique_3_and_opening(unsigned thread)
{
  if (thread == 2)
    open_layer();
  t.result[thread][0] = add_unique(t.x);
}

static const char *check_unique_3_and_opening(void)
{
  return winners(3) != 1 ? "not one winner" : !contains(t.x) ? "the add was lost" : NULL;
}

/* After a plain add nobody wins. */
static void run_unique_after_add_and_openings(unsigned thread)
{
  if (thread == 1) {
    must_add(t.x);
    if (add_unique(t.x) != TAMIS_PRESENT)
      model_fail("a winner after an add");
  } else {
    run_unique_2_and_openings(thread);
  }
}

static const char *check_added(void)
{
  return !contains(t.x) ? "the add was lost" : NULL;
}

/* ---- a filter that has room for one more key, and for no other layer ---- */

static void make_at_end(tamis_layout layout)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  uint64_t bytes;
  options.layout = layout;
  options.capacity = 2;
  options.fpp = 0.1;
  options.stripes = 1;
  options.allocator = &from_the_world;
  expect(tamis_bytes_for(&options, &bytes) == TAMIS_OK, "size");
  make_with_limit(TAMIS_BLOOM, layout, 2, true, bytes);
  t.z = 3;
  must_add(t.z);
}

static void make_word_at_end(void)
{
  make_at_end(TAMIS_LAYOUT_WORD);
}

static void make_bloom_at_end(void)
{
  make_at_end(TAMIS_LAYOUT_BLOCKED);
}

/* The same in its second layer. */
static void make_bloom_at_end_of_two(void)
{
  make_with_limit(TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 2, true, 800);
  for (uint64_t key = 3; figures().count < 3; key++)
    must_add(key + 100);
  expect(figures().layers == 2, "two layers");
}

/* If a unique add of x has been refused, no other one has added it, after that or before. */
static const char *check_end(void)
{
  unsigned refused = 0;
  for (unsigned i = 0; i < 2; i++)
    refused += t.result[i][0] == TAMIS_EFULL;
  return winners(2) + (refused > 0) != 1    ? "not one winner, or a refusal"
         : winners(2) && !contains(t.x)     ? "the add was lost"
         : figures().refused_adds < refused ? "a refusal was not counted"
                                            : NULL;
}

/* ---- a filter that counts, in which a key has two counters in each of two words ---- */

static void make_counting(void)
{
  make_kind(TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, 10, true);
}

static void make_counting_one_in(void)
{
  make_counting();
  must_add(t.x);
}

static const char *copies_are(uint64_t copies)
{
  const char *reason = NULL;
  if (figures().count != copies)
    return "copies were not counted";
  if (contains(t.x) != (copies > 0))
    return "the key is in or not, against what was said";
  filter_validate(t.filter, &reason);
  return reason;
}

/* Of one or two unique adds and a plain one. */
static const char *check_counting_unique_and_add(void)
{
  return copies_are(winners(1) + 1);
}

static const char *check_counting_unique_2_and_add(void)
{
  return winners(2) > 1 ? "two winners" : copies_are(winners(2) + 1);
}

static const char *check_counting_unique(void)
{
  return winners(2) != 1 ? "not one winner" : copies_are(1);
}

static void run_counting_removes(unsigned thread)
{
  t.result[thread][0] = tamis_remove_hash(t.filter, t.x);
}

static const char *check_counting_removes(void)
{
  return winners(2) != 1 ? "not one remove of one copy" : copies_are(0);
}

/* One copy is always in. */
static void run_counting_look(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_remove(t.x);
  } else {
    must_find(t.x);
  }
}

static const char *check_counting_look(void)
{
  return copies_are(1);
}

/* The same, counted. */
static void run_counting_count(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_remove(t.x);
  } else {
    uint64_t copies = tamis_count_hash(t.filter, t.x);
    if (copies < 1 || copies > 2)
      model_fail("a count that never was");
  }
}

/* Adds and removes pass each other; what a look-up sees twice fits one order. */
static void run_counting_cross(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
  } else if (thread == 1) {
    must_remove(t.x);
  } else {
    bool absent = !contains(t.x), in = contains(t.x), absent_again = !contains(t.x);
    if (absent && in && absent_again)
      model_fail("the key was absent, in, and absent");
  }
}

/* A remove, and a unique add that may come before it or after. */
static void run_counting_remove_and_unique(unsigned thread)
{
  if (thread == 0)
    must_remove(t.x);
  else
    t.result[1][0] = add_unique(t.x);
}

static const char *check_counting_remove_and_unique(void)
{
  return copies_are(t.result[1][0] == TAMIS_OK);
}

/* y shares counters with x, or not; the calls on one change nothing of the other. */
static void make_counting_two(void)
{
  make_counting();
  must_add(t.x);
  must_add(t.y);
}

static void run_counting_two(unsigned thread)
{
  if (thread == 0)
    must_remove(t.y);
  else {
    must_add(t.y);
    must_find(t.x);
  }
}

static const char *check_counting_two(void)
{
  return !contains(t.y) ? "the add was lost" : copies_are(2);
}

const struct shape bloom_shapes[] = {
    {"bloom_unique", "one winner of two?", 2, false, make_bloom, run_unique, check_bloom_unique,
     FULL, FULL},
    {"bloom_unique_and_add", "... or an add before them?", 2, false, make_bloom,
     run_bloom_unique_and_add, check_bloom_added, FULL, FULL},
    {"bloom_unique_2_and_add", "... two, and an add?", 3, false, make_bloom,
     run_bloom_unique_2_and_add, check_bloom_unique_and_add, BOUND(3), BOUND(3)},
    {"bloom_adds", "do two adds of a key count it once?", 2, false, make_bloom, run_bloom_adds,
     check_bloom_added, FULL, FULL},
    {"bloom_counted", "is a key in that is counted?", 2, false, make_bloom, run_bloom_counted,
     check_bloom_counted, FULL, FULL},
    {"bloom_counted_by_many", "... by threads that share a counter?", 2, false, make_bloom,
     run_bloom_counted_by_many, check_bloom_counted, FULL, FULL},
    {"bloom_store_buffer", "do two adds miss each other?", 2, false, make_bloom, run_store_buffer,
     check_store_buffer, FULL, NEVER},
    {"bloom_independent", "do two readers agree on the order of two adds?", 4, false, make_bloom,
     run_independent, check_independent, BOUND(2), NEVER},
    {"word_unique", "one winner of two, in one word?", 2, false, make_word, run_unique,
     check_bloom_unique, FULL, FULL},
    {"word_unique_2_and_add", "... two, and an add?", 3, false, make_word,
     run_bloom_unique_2_and_add, check_bloom_unique_and_add, FULL, FULL},
    {"word_limited_2_and_add", "... in a filter with a limit?", 3, false, make_word_limited,
     run_bloom_unique_2_and_add, check_bloom_unique_and_add, BOUND(3), BOUND(3)},
    {"word_full", "is a refusal final?", 3, false, make_word_full_but_one, run_word_full,
     check_word_full, BOUND(3), BOUND(3)},
    {"word_store_buffer", "do two adds miss each other?", 2, false, make_word, run_store_buffer,
     check_store_buffer, FULL, NEVER},
    {"word_limited_store_buffer", "... in a filter with a limit?", 2, false, make_word_limited,
     run_store_buffer, check_store_buffer, FULL, NEVER},
    {"word_limited_independent", "do two readers agree on the order of two adds?", 4, false,
     make_word_limited, run_independent, check_independent, BOUND(2), NEVER},
    {"bloom_opening", "one winner of two that open a layer?", 2, false, make_bloom_full, run_unique,
     check_opening, BOUND(2), BOUND(2)},
    {"word_opening", "... after one word?", 2, false, make_word_to_grow, run_unique, check_opening,
     BOUND(2), BOUND(2)},
    {"bloom_room_and_opening", "do two adds miss each other, one of which opens a layer?", 2, false,
     make_bloom_full_but_one, run_room_and_opening, check_store_buffer, BOUND(3), NEVER},
    {"bloom_message_and_opening", "are two adds of a thread seen in their order?", 2, false,
     make_bloom_full_but_one, run_message, check_nothing, BOUND(3), BOUND(3)},
    {"word_room_and_opening", "one winner of two, one of which opens a layer?", 2, false,
     make_word_to_grow_full_but_one, run_unique_room_and_opening, check_unique_room_and_opening,
     BOUND(3), NEVER},
    {"word_end", "is a refusal final where growth ends?", 3, false, make_word_at_end, run_word_full,
     check_end, BOUND(2), NEVER},
    {"bloom_end", "... in several words?", 3, false, make_bloom_at_end, run_word_full, check_end,
     BOUND(2), NEVER},
    {"bloom_end_of_two", "... in the second layer?", 3, false, make_bloom_at_end_of_two,
     run_word_full, check_end, BOUND(2), NEVER},
    {"bloom_full", "... of a filter with a limit?", 3, false, make_bloom_limited_but_one,
     run_word_full, check_end, BOUND(2), NEVER},
    {"bloom_unique_and_interference", "are there two winners where another key has their last bit?",
     3, false, make_bloom_to_interfere, run_interference, check_interference, BOUND(3), BOUND(2)},
    {"bloom_unique_and_narrowing",
     "... or one of its bits there, so that its order of gaps changes?", 3, false,
     make_bloom_to_narrow, run_interference, check_interference, BOUND(3), BOUND(2)},
    {"bloom_unique_and_add_narrowed", "is a key counted once whose widest gap is not the last?", 2,
     false, make_bloom_narrowed, run_bloom_unique_and_add, check_bloom_narrowed, FULL, FULL},
    {"bloom_unique_and_opening", "one winner of two, one of which opens a layer?", 2, false,
     make_bloom_full_but_one, run_unique_room_and_opening, check_unique_room_and_opening, BOUND(3),
     NEVER},
    {"bloom_unique_2_and_openings", "... while a third thread opens two?", 3, false, make_bloom,
     run_unique_2_and_openings, check_unique_room_and_opening, BOUND(2), NEVER},
    {"bloom_unique_3_and_opening", "one winner of three, one of which opens a layer?", 3, false,
     make_bloom_small, run_unique_3_and_opening, check_unique_3_and_opening, BOUND(2), NEVER},
    {"bloom_unique_after_add", "is there a winner after an add, while layers open?", 3, false,
     make_bloom_small, run_unique_after_add_and_openings, check_added, BOUND(2), NEVER},
    {"word_unique_2_and_openings", "one winner of two, while a third thread opens two layers?", 3,
     false, make_word, run_unique_2_and_openings, check_unique_room_and_opening, BOUND(2), NEVER},
    {"counting_unique", "one winner of two, with counters?", 2, false, make_counting, run_unique,
     check_counting_unique, FULL, FULL},
    {"counting_unique_and_add", "... or an add before it?", 2, false, make_counting,
     run_bloom_unique_and_add, check_counting_unique_and_add, FULL, FULL},
    {"counting_unique_2_and_add", "... two, and an add?", 3, false, make_counting,
     run_bloom_unique_2_and_add, check_counting_unique_2_and_add, BOUND(3), BOUND(3)},
    {"counting_removes", "does one of two removes find one copy?", 2, false, make_counting_one_in,
     run_counting_removes, check_counting_removes, FULL, FULL},
    {"counting_remove_and_unique", "a remove, and a unique add?", 2, false, make_counting_one_in,
     run_counting_remove_and_unique, check_counting_remove_and_unique, FULL, FULL},
    {"counting_look", "is a key found while copies of it come and go?", 2, false,
     make_counting_one_in, run_counting_look, check_counting_look, FULL, FULL},
    {"counting_count", "... and are they counted?", 2, false, make_counting_one_in,
     run_counting_count, check_counting_look, FULL, FULL},
    {"counting_cross", "do an add and a remove have one order?", 3, false, make_counting_one_in,
     run_counting_cross, check_counting_look, BOUND(3), BOUND(3)},
    {"counting_two", "is another key of the line left alone?", 2, false, make_counting_two,
     run_counting_two, check_counting_two, FULL, FULL},
    {"counting_store_buffer", "do two adds miss each other?", 2, false, make_counting,
     run_store_buffer, check_store_buffer, FULL, NEVER},
    {"counting_independent", "do two readers agree on the order of two adds?", 4, false,
     make_counting, run_independent, check_independent, BOUND(2), NEVER},
    {.name = NULL},
};
