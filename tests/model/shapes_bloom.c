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
  t.x = 1, t.y = 2, t.z = 3, t.w = 4;
}

static void make_kind(tamis_kind kind, tamis_layout layout, uint64_t capacity, bool growable)
{
  make_with_limit(kind, layout, capacity, growable, 0);
}

static void make(tamis_layout layout, uint64_t capacity, bool growable)
{
  make_kind(TAMIS_BLOOM, layout, capacity, growable);
}

void set_up_bloom(void)
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

/* As a save does, which counts keys first and copies their bits then. */
int counted(uint64_t hash)
{
  return figures().count == 1 && !contains(hash) ? TAMIS_EINVAL : TAMIS_OK;
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
  put(t.y);
}

/* If y has completed x, no call has won. */
static const char *check_interference(void)
{
  return winners() > 1                      ? "two winners"
         : !contains(t.x) || !contains(t.y) ? "an add was lost"
         : figures().count > 1u + winners() ? "a key was counted that had no winner"
                                            : NULL;
}

/* ---- a filter that is full but for one key ---- */

static void make_limited_but_one(tamis_layout layout)
{
  make(layout, 2, false);
  put(t.z);
}

void set_up_word_full_but_one(void)
{
  make_limited_but_one(TAMIS_LAYOUT_WORD);
}

static void make_bloom_limited_but_one(void)
{
  make_limited_but_one(TAMIS_LAYOUT_BLOCKED);
}

/* If the key has been refused to one thread, no other one has added it: after that and before
 * it. */
static const char *check_word_full(void)
{
  return winners() + (refusals() > 0) != 1   ? "not one winner, or a refusal for all"
         : contains(t.x) != (winners() == 1) ? "the key is in or not, against what was said"
         : figures().count != 1u + contains(t.x) + contains(t.y) ? "a key was not counted once"
                                                                 : NULL;
}

/* ---- a filter whose first layer is full, and which has to open another one ---- */

static void make_full(tamis_layout layout)
{
  make(layout, 1, true);
  put(t.z);
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
  return figures().layers > 3 ? "more layers than unique adds that found no room" : NULL;
}

/* ---- a filter whose first layer has room for one more key ---- */

static void make_full_but_one(tamis_layout layout)
{
  make(layout, 2, true);
  put(t.z);
}

static void make_bloom_full_but_one(void)
{
  make_full_but_one(TAMIS_LAYOUT_BLOCKED);
}

static void make_word_to_grow_full_but_one(void)
{
  make_full_but_one(TAMIS_LAYOUT_WORD);
}

/* ---- the late rule ---- */

static void make_bloom_small(void)
{
  make(TAMIS_LAYOUT_BLOCKED, 30, true);
}

int open_layer(uint64_t unused)
{
  (void) unused;
  return tamis__layers_open(bloom_of(t.filter), newest_layer(bloom_of(t.filter)), 0);
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
  put(t.z);
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
    put(key + 100);
  expect(figures().layers == 2, "two layers");
}

/* If a unique add of x has been refused, no other one has added it, after that or before. */
static const char *check_end(void)
{
  return winners() + (refusals() > 0) != 1     ? "not one winner, or a refusal"
         : winners() && !contains(t.x)         ? "the add was lost"
         : figures().refused_adds < refusals() ? "a refusal was not counted"
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
  put(t.x);
}

/* y shares counters with x, or not; the calls on one change nothing of the other. */
static void make_counting_two(void)
{
  make_counting();
  put(t.x);
  put(t.y);
}

const struct shape bloom_shapes[] = {
    {"bloom_unique", "one winner of two?", set_up_bloom, .calls = "unique x | unique x", FULL,
     FULL},
    {"bloom_unique_and_add", "... or an add before them?", set_up_bloom,
     .calls = "unique x | add x", FULL, FULL},
    {"bloom_unique_2_and_add", "... two, and an add?", set_up_bloom,
     .calls = "unique x | unique x | add x", BOUND(3), BOUND(3)},
    {"bloom_adds", "do two adds of a key count it once?", set_up_bloom, .calls = "add x | add x",
     FULL, FULL},
    {"bloom_counted", "is a key in that is counted?", set_up_bloom, .calls = "add x | counted x",
     FULL, FULL},
    {"bloom_counted_by_many", "... by threads that share a counter?", set_up_bloom,
     .calls = "counted x | add x", FULL, FULL},
    {"bloom_store_buffer", "do two adds miss each other?", set_up_bloom,
     .calls = "add x; has y | add y; has x", FULL, NEVER},
    {"bloom_independent", "do two readers agree on the order of two adds?", set_up_bloom,
     .calls = "add x | add y | has x; has y | has y; has x", BOUND(2), NEVER},
    {"word_unique", "one winner of two, in one word?", make_word, .calls = "unique x | unique x",
     FULL, FULL},
    {"word_unique_2_and_add", "... two, and an add?", make_word,
     .calls = "unique x | unique x | add x", FULL, FULL},
    {"word_limited_2_and_add", "... in a filter with a limit?", make_word_limited,
     .calls = "unique x | unique x | add x", BOUND(3), BOUND(3)},
    {"word_full", "is a refusal final?", set_up_word_full_but_one,
     .calls = "unique x | unique x | add? y", BOUND(3), BOUND(3), .instead = check_word_full},
    {"word_store_buffer", "do two adds miss each other?", make_word,
     .calls = "add x; has y | add y; has x", FULL, NEVER},
    {"word_limited_store_buffer", "... in a filter with a limit?", make_word_limited,
     .calls = "add x; has y | add y; has x", FULL, NEVER},
    {"word_limited_independent", "do two readers agree on the order of two adds?",
     make_word_limited, .calls = "add x | add y | has x; has y | has y; has x", BOUND(2), NEVER},
    {"bloom_opening", "one winner of two that open a layer?", make_bloom_full,
     .calls = "unique x | unique x", BOUND(2), BOUND(2), check_opening},
    {"word_opening", "... after one word?", make_word_to_grow, .calls = "unique x | unique x",
     BOUND(2), BOUND(2), check_opening},
    {"bloom_room_and_opening", "do two adds miss each other, one of which opens a layer?",
     make_bloom_full_but_one, .calls = "add w; add x; has y | add y; has x", BOUND(3), NEVER},
    {"bloom_message_and_opening", "are two adds of a thread seen in their order?",
     make_bloom_full_but_one, .calls = "add y; add x | has x; has y", BOUND(3), BOUND(3)},
    {"word_room_and_opening", "one winner of two, one of which opens a layer?",
     make_word_to_grow_full_but_one, .calls = "add w; unique x | unique x", BOUND(3), NEVER},
    {"word_end", "is a refusal final where growth ends?", make_word_at_end,
     .calls = "unique x | unique x | add? y", BOUND(2), NEVER, .instead = check_end},
    {"bloom_end", "... in several words?", make_bloom_at_end,
     .calls = "unique x | unique x | add? y", BOUND(2), NEVER, .instead = check_end},
    {"bloom_end_of_two", "... in the second layer?", make_bloom_at_end_of_two,
     .calls = "unique x | unique x | add? y", BOUND(2), NEVER, .instead = check_end},
    {"bloom_full", "... of a filter with a limit?", make_bloom_limited_but_one,
     .calls = "unique x | unique x | add? y", BOUND(2), NEVER, .instead = check_end},
    {"bloom_unique_and_interference", "are there two winners where another key has their last bit?",
     make_bloom_to_interfere, .calls = "unique x | unique x | add y", BOUND(3), BOUND(2),
     .instead = check_interference},
    {"bloom_unique_and_narrowing",
     "... or one of its bits there, so that its order of gaps changes?", make_bloom_to_narrow,
     .calls = "unique x | unique x | add y", BOUND(3), BOUND(2), .instead = check_interference},
    {"bloom_unique_and_add_narrowed", "is a key counted once whose widest gap is not the last?",
     make_bloom_narrowed, .calls = "unique x | add x", FULL, FULL},
    {"bloom_unique_and_opening", "one winner of two, one of which opens a layer?",
     make_bloom_full_but_one, .calls = "add w; unique x | unique x", BOUND(3), NEVER},
    {"bloom_unique_2_and_openings", "... while a third thread opens two?", set_up_bloom,
     .calls = "unique x | unique x | open_layer; open_layer", BOUND(2), NEVER},
    {"bloom_unique_3_and_opening", "one winner of three, one of which opens a layer?",
     make_bloom_small, .calls = "unique x | unique x | open_layer; unique x", BOUND(2), NEVER},
    {"bloom_unique_after_add", "is there a winner after an add, while layers open?",
     make_bloom_small, .calls = "unique x | add x; unique x | open_layer; open_layer", BOUND(2),
     NEVER},
    {"word_unique_2_and_openings", "one winner of two, while a third thread opens two layers?",
     make_word, .calls = "unique x | unique x | open_layer; open_layer", BOUND(2), NEVER},
    {"counting_unique", "one winner of two, with counters?", make_counting,
     .calls = "unique x | unique x", FULL, FULL},
    {"counting_unique_and_add", "... or an add before it?", make_counting,
     .calls = "unique x | add x", FULL, FULL},
    {"counting_unique_2_and_add", "... two, and an add?", make_counting,
     .calls = "unique x | unique x | add x", BOUND(3), BOUND(3)},
    {"counting_removes", "does one of two removes find one copy?", make_counting_one_in,
     .calls = "remove x | remove x", FULL, FULL},
    {"counting_remove_and_unique", "a remove, and a unique add?", make_counting_one_in,
     .calls = "remove x | unique x", FULL, FULL},
    {"counting_look", "is a key found while copies of it come and go?", make_counting_one_in,
     .calls = "add x; remove x | has x", FULL, FULL},
    {"counting_count", "... and are they counted?", make_counting_one_in,
     .calls = "add x; remove x | count x", FULL, FULL},
    {"counting_cross", "do an add and a remove have one order?", make_counting_one_in,
     .calls = "add x | remove x | has x; has x; has x", BOUND(3), BOUND(3)},
    {"counting_two", "is another key of the line left alone?", make_counting_two,
     .calls = "remove y | add y; has x", FULL, FULL},
    {"counting_store_buffer", "do two adds miss each other?", make_counting,
     .calls = "add x; has y | add y; has x", FULL, NEVER},
    {"counting_independent", "do two readers agree on the order of two adds?", make_counting,
     .calls = "add x | add y | has x; has y | has y; has x", BOUND(2), NEVER},
    {.name = NULL},
};
