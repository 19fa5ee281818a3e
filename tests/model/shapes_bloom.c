/* SPDX-License-Identifier: MIT
 *
 * The Bloom filter.
 */
#include "bloom/layers.h" /* first, as it has a name that fixture.h defines again */

#include "fixture.h"

/* A filter, with some of the keys in it. */
struct form {
  tamis_kind kind;
  tamis_layout layout;
  uint64_t capacity;
  bool fixed;
  bool has_x, has_y, has_z;
  int y_has; /* bits of x in the last of its words; 0: any */
  bool ends; /* max_bytes is what it takes */
};

static const struct form
    bloom = {.capacity = 2500}, /* far from its capacity; two shards of counters */
    bloom_small = {.capacity = 30}, word_large = {.layout = TAMIS_LAYOUT_WORD, .capacity = 4000},
    word_limited = {.layout = TAMIS_LAYOUT_WORD, .capacity = 10, .fixed = true},
    /* y has the last bits of x. */
    bloom_to_interfere = {.capacity = 30, .y_has = 2},
    /* When y has come, the other word of x is its widest gap. */
    bloom_to_narrow = {.capacity = 30, .y_has = 1},
    /* y has come already; far from the capacity, where plain adds have a path of their own. */
    bloom_narrowed = {.capacity = 2500, .y_has = 1, .has_y = true},
    /* Full but for one key. */
    bloom_limited_but_one = {.capacity = 2, .fixed = true, .has_z = true},
    word_limited_but_one = {.layout = TAMIS_LAYOUT_WORD,
                            .capacity = 2,
                            .fixed = true,
                            .has_z = true},
    /* The first layer is full, or has room for one more key. */
    bloom_full = {.capacity = 1, .has_z = true},
    word_full = {.layout = TAMIS_LAYOUT_WORD, .capacity = 1, .has_z = true},
    bloom_full_but_one = {.capacity = 2, .has_z = true},
    word_full_but_one = {.layout = TAMIS_LAYOUT_WORD, .capacity = 2, .has_z = true},
    /* There is room for one more key, and for no other layer. */
    bloom_at_end = {.capacity = 2, .has_z = true, .ends = true},
    word_at_end = {.layout = TAMIS_LAYOUT_WORD, .capacity = 2, .has_z = true, .ends = true},
    /* A key has two counters in each of two words. */
    counting = {.kind = TAMIS_COUNTING_BLOOM, .capacity = 10},
    counting_one_in = {.kind = TAMIS_COUNTING_BLOOM, .capacity = 10, .has_x = true},
    /* y shares counters with x, or not; the calls on one change nothing of the other. */
    counting_two = {.kind = TAMIS_COUNTING_BLOOM, .capacity = 10, .has_x = true, .has_y = true};

static tamis_options options_of(const struct form *form)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = form->kind ? form->kind : TAMIS_BLOOM;
  options.layout = form->layout;
  options.capacity = form->capacity;
  options.fpp = 0.1;
  options.growable = !form->fixed;
  options.seed = SEED;
  /* With one, a small filter has no shards. */
  options.stripes = options.kind == TAMIS_BLOOM ? 0 : 1;
  options.allocator = &from_the_world;
  return options;
}

static void create(const tamis_options *options)
{
  memset(&t, 0, sizeof t);
  expect(tamis_create(options, &t.filter) == TAMIS_OK, "create");
  t.x = 1, t.y = 2, t.z = 3, t.w = 4;
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

static void make(const struct form *form)
{
  tamis_options options = options_of(form);
  expect(!form->ends || tamis_bytes_for(&options, &options.max_bytes) == TAMIS_OK, "size");
  create(&options);
  expect(!form->y_has || figures().bits_per_key == 4, "two bits in each of two words");
  while (form->y_has && bits_of_last_word(t.x, t.y) != form->y_has)
    t.y++;
  const uint64_t in[] = {form->has_x ? t.x : 0, form->has_y ? t.y : 0, form->has_z ? t.z : 0};
  for (unsigned i = 0; i < 3; i++)
    if (in[i])
      put(in[i]);
}

static void set_up_form(void)
{
  make(model_set_up_of());
}

void set_up_bloom(void)
{
  make(&bloom);
}

void set_up_word_full_but_one(void)
{
  make(&word_limited_but_one);
}

/* If y has completed x, no call has won. */
static const char *check_interference(void)
{
  return winners() > 1                      ? "two winners"
         : !contains(t.x) || !contains(t.y) ? "an add was lost"
         : figures().count > 1u + winners() ? "a key was counted that had no winner"
                                            : NULL;
}

/* ---- what must hold ---- */

/* If the key has been refused to one thread, no other one has added it: after that and before
 * it. */
static const char *check_word_full(void)
{
  return winners() + (refusals() > 0) != 1   ? "not one winner, or a refusal for all"
         : contains(t.x) != (winners() == 1) ? "the key is in or not, against what was said"
         : figures().count != 1u + contains(t.x) + contains(t.y) ? "a key was not counted once"
                                                                 : NULL;
}

static const char *check_opening(void)
{
  return figures().layers > 3 ? "more layers than unique adds that found no room" : NULL;
}

int open_layer(uint64_t unused)
{
  (void) unused;
  return tamis__layers_open(bloom_of(t.filter), newest_layer(bloom_of(t.filter)), 0);
}

/* Its second layer has room for one more key, and there is none for another layer. */
static void make_bloom_at_end_of_two(void)
{
  const struct form form = {.capacity = 2};
  tamis_options options = options_of(&form);
  options.max_bytes = 800;
  create(&options);
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

const struct shape bloom_shapes[] = {
    {"bloom_unique", "one winner of two?", set_up_form, "unique x | unique x", .of = &bloom},
    {"bloom_unique_and_add", "... or an add before them?", set_up_form, "unique x | add x",
     .of = &bloom},
    {"bloom_unique_2_and_add", "... two, and an add?", set_up_form, "unique x | unique x | add x",
     BOUND(3), BOUND(3), .of = &bloom},
    {"bloom_adds", "do two adds of a key count it once?", set_up_form, "add x | add x",
     .of = &bloom},
    {"bloom_counted", "is a key in that is counted?", set_up_form, "add x | counted x",
     .of = &bloom},
    {"bloom_counted_by_many", "... by threads that share a counter?", set_up_form,
     "counted x | add x", .of = &bloom},
    {"bloom_store_buffer", "do two adds miss each other?", set_up_form,
     "add x; has y | add y; has x", FULL, NEVER, .of = &bloom},
    {"bloom_independent", "do two readers agree on the order of two adds?", set_up_form,
     "add x | add y | has x; has y | has y; has x", BOUND(2), NEVER, .of = &bloom},
    {"word_unique", "one winner of two, in one word?", set_up_form, "unique x | unique x",
     .of = &word_large},
    {"word_unique_2_and_add", "... two, and an add?", set_up_form, "unique x | unique x | add x",
     .of = &word_large},
    {"word_limited_2_and_add", "... in a filter with a limit?", set_up_form,
     "unique x | unique x | add x", BOUND(3), BOUND(3), .of = &word_limited},
    {"word_full", "is a refusal final?", set_up_form, "unique x | unique x | add? y", BOUND(3),
     BOUND(3), .instead = check_word_full, .of = &word_limited_but_one},
    {"word_store_buffer", "do two adds miss each other?", set_up_form,
     "add x; has y | add y; has x", FULL, NEVER, .of = &word_large},
    {"word_limited_store_buffer", "... in a filter with a limit?", set_up_form,
     "add x; has y | add y; has x", FULL, NEVER, .of = &word_limited},
    {"word_limited_independent", "do two readers agree on the order of two adds?", set_up_form,
     "add x | add y | has x; has y | has y; has x", BOUND(2), NEVER, .of = &word_limited},
    {"bloom_opening", "one winner of two that open a layer?", set_up_form, "unique x | unique x",
     BOUND(2), BOUND(2), check_opening, .of = &bloom_full},
    {"word_opening", "... after one word?", set_up_form, "unique x | unique x", BOUND(2), BOUND(2),
     check_opening, .of = &word_full},
    {"bloom_room_and_opening", "do two adds miss each other, one of which opens a layer?",
     set_up_form, "add w; add x; has y | add y; has x", BOUND(3), NEVER, .of = &bloom_full_but_one},
    {"bloom_message_and_opening", "are two adds of a thread seen in their order?", set_up_form,
     "add y; add x | has x; has y", BOUND(3), BOUND(3), .of = &bloom_full_but_one},
    {"word_room_and_opening", "one winner of two, one of which opens a layer?", set_up_form,
     "add w; unique x | unique x", BOUND(3), NEVER, .of = &word_full_but_one},
    {"word_end", "is a refusal final where growth ends?", set_up_form,
     "unique x | unique x | add? y", BOUND(2), NEVER, .instead = check_end, .of = &word_at_end},
    {"bloom_end", "... in several words?", set_up_form, "unique x | unique x | add? y", BOUND(2),
     NEVER, .instead = check_end, .of = &bloom_at_end},
    {"bloom_end_of_two", "... in the second layer?", make_bloom_at_end_of_two,
     "unique x | unique x | add? y", BOUND(2), NEVER, .instead = check_end},
    {"bloom_full", "... of a filter with a limit?", set_up_form, "unique x | unique x | add? y",
     BOUND(2), NEVER, .instead = check_end, .of = &bloom_limited_but_one},
    {"bloom_unique_and_interference", "are there two winners where another key has their last bit?",
     set_up_form, "unique x | unique x | add y", BOUND(3), BOUND(2), .instead = check_interference,
     .of = &bloom_to_interfere},
    {"bloom_unique_and_narrowing",
     "... or one of its bits there, so that its order of gaps changes?", set_up_form,
     "unique x | unique x | add y", BOUND(3), BOUND(2), .instead = check_interference,
     .of = &bloom_to_narrow},
    {"bloom_unique_and_add_narrowed", "is a key counted once whose widest gap is not the last?",
     set_up_form, "unique x | add x", .of = &bloom_narrowed},
    {"bloom_unique_and_opening", "one winner of two, one of which opens a layer?", set_up_form,
     "add w; unique x | unique x", BOUND(3), NEVER, .of = &bloom_full_but_one},
    {"bloom_unique_2_and_openings", "... while a third thread opens two?", set_up_form,
     "unique x | unique x | open_layer; open_layer", BOUND(2), NEVER, .of = &bloom},
    {"bloom_unique_3_and_opening", "one winner of three, one of which opens a layer?", set_up_form,
     "unique x | unique x | open_layer; unique x", BOUND(2), NEVER, .of = &bloom_small},
    {"bloom_unique_after_add", "is there a winner after an add, while layers open?", set_up_form,
     "unique x | add x; unique x | open_layer; open_layer", BOUND(2), NEVER, .of = &bloom_small},
    {"word_unique_2_and_openings", "one winner of two, while a third thread opens two layers?",
     set_up_form, "unique x | unique x | open_layer; open_layer", BOUND(2), NEVER,
     .of = &word_large},
    {"counting_unique", "one winner of two, with counters?", set_up_form, "unique x | unique x",
     .of = &counting},
    {"counting_unique_and_add", "... or an add before it?", set_up_form, "unique x | add x",
     .of = &counting},
    {"counting_unique_2_and_add", "... two, and an add?", set_up_form,
     "unique x | unique x | add x", BOUND(3), BOUND(3), .of = &counting},
    {"counting_removes", "does one of two removes find one copy?", set_up_form,
     "remove x | remove x", .of = &counting_one_in},
    {"counting_remove_and_unique", "a remove, and a unique add?", set_up_form,
     "remove x | unique x", .of = &counting_one_in},
    {"counting_look", "is a key found while copies of it come and go?", set_up_form,
     "add x; remove x | has x", .of = &counting_one_in},
    {"counting_count", "... and are they counted?", set_up_form, "add x; remove x | count x",
     .of = &counting_one_in},
    {"counting_cross", "do an add and a remove have one order?", set_up_form,
     "add x | remove x | has x; has x; has x", BOUND(3), BOUND(3), .of = &counting_one_in},
    {"counting_two", "is another key of the line left alone?", set_up_form,
     "remove y | add y; has x", .of = &counting_two},
    {"counting_store_buffer", "do two adds miss each other?", set_up_form,
     "add x; has y | add y; has x", FULL, NEVER, .of = &counting},
    {"counting_independent", "do two readers agree on the order of two adds?", set_up_form,
     "add x | add y | has x; has y | has y; has x", BOUND(2), NEVER, .of = &counting},
    {.name = NULL},
};
