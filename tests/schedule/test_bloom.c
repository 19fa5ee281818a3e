/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the Bloom filter, each replayed exactly, by threads and by two processes that
 * share a filter.  Built with the hooks.
 */
#include "play.h"

#include "bloom/capacity.h"
#include "bloom/layers.h"
#include "filter_unit.h"

#include <limits.h>

/* ---- filters ---- */

static void fill(tamis_filter *f, uint64_t keys)
{
  uint64_t key = 1000;
  for (uint64_t count; (count = stats_of(f).count) < keys;)
    for (uint64_t i = count; i < keys; i++)
      assert_int_equal(tamis_add_hash(f, key++), TAMIS_OK);
}
LISTED_DEED(fill, fill)

/* Adds keys that nobody else uses until the next layer is opened. */
STEP(open_layer, n)
{
  uint64_t layers = stats_of(f).layers, key = UINT64_C(1) << (31 + layers);
  while (stats_of(f).layers == layers)
    assert_int_equal(tamis_add_hash(f, key++), TAMIS_OK);
}
LISTED_DEED(open, open_layer)

/* One or two layers, the last of which is nearly full.  (So few keys have come to it that none of them sets
 * the last of key 7's bits.) */
static void fill_layers(tamis_filter *f, uint64_t layers)
{
  if (layers == 2)
    open_layer(f, 0);
  fill(f, layers * 100 - 2);
}

/* A filter in each layout; in the word layout, calls do not come to the hooks of `other`. */
#define IN_LAYOUTS(name, other, ...)                                        \
  {name ", blocked", .layout = TAMIS_LAYOUT_BLOCKED, __VA_ARGS__},          \
      {name ", classic", .layout = TAMIS_LAYOUT_CLASSIC, __VA_ARGS__},      \
  {                                                                         \
    name ", word", .layout = TAMIS_LAYOUT_WORD, .never = other, __VA_ARGS__ \
  }

static const char in_halves[] = "bloom_word_set bloom_last_gap_left";

static const struct setup setups[] = {
    IN_LAYOUTS("growable", NULL, .stripes = 1),
    IN_LAYOUTS("a layer", in_halves, .capacity = 100, .fpp = 0.0025, .prepare = fill_layers,
               .n = 1),
    IN_LAYOUTS("two layers", in_halves, .capacity = 100, .fpp = 0.0025, .prepare = fill_layers,
               .n = 2),
    IN_LAYOUTS("far from full", in_halves, .capacity = 100000, .fpp = 0.0025),
    IN_LAYOUTS("room for a layer", NULL, .capacity = 10000, .fpp = 0.01, .room = 10,
               .prepare = fill, .n = 9990),
    IN_LAYOUTS("room for two layers", NULL, .capacity = 10000, .fpp = 0.01, .room = 36,
               .prepare = fill, .n = 9990),
    IN_LAYOUTS("fixed", NULL, .capacity = 10000, .fpp = 0.01, .fixed = true, .prepare = fill,
               .n = 9990),
    IN_LAYOUTS("room for a layer, nearly empty", NULL, .capacity = 10000, .fpp = 0.01, .room = 10,
               .prepare = fill, .n = 10),
    IN_LAYOUTS("shared", in_halves, .capacity = 10000, .fpp = 0.0025, .max_bytes = 1 << 20,
               .shared = true),
    IN_LAYOUTS("shared, room for a layer", NULL, .capacity = 10000, .fpp = 0.0025,
               .max_bytes = 50000, .shared = true),
    IN_LAYOUTS("shared, fixed", NULL, .fpp = 0.0025, .shared = true, .fixed = true),
    IN_LAYOUTS("shared, small", NULL, .capacity = 100, .fpp = 0.0025, .max_bytes = 1 << 20,
               .shared = true),
    IN_LAYOUTS("fixed for 1,000", NULL, .fixed = true, .stripes = 1),
    {"small", .capacity = 100, .fpp = 0.0025},
    {"fixed for two", .capacity = 2, .fixed = true},
    {"fixed for 20,000", .capacity = 20000, .fpp = 0.01, .fixed = true},
    {"words for two", .layout = TAMIS_LAYOUT_WORD, .capacity = 2, .fpp = 0.003, .fixed = true},
    {"words for ten", .layout = TAMIS_LAYOUT_WORD, .capacity = 10, .fpp = 0.003},
    {"words for ten, fixed", .layout = TAMIS_LAYOUT_WORD, .capacity = 10, .fpp = 0.003,
     .fixed = true},
};

#define LAYOUTS(n) (UINT64_C(7) << 3 * (n))
#define BLOCKED(n) (UINT64_C(1) << 3 * (n))
#define WORD(n) (UINT64_C(4) << 3 * (n))
enum {
  GROWABLE,
  LAYER,
  TWO_LAYERS,
  FAR,
  ROOM_FOR_ONE,
  ROOM_FOR_TWO,
  FIXED,
  NEARLY_EMPTY,
  SHARED,
  SHARED_ROOM_FOR_ONE,
  SHARED_FIXED,
  SHARED_SMALL,
  FIXED_1000,
  OTHERS
};
#define OTHER(n) (UINT64_C(1) << (3 * OTHERS + (n)))
#define TINY OTHER(0)
#define FIXED_2 OTHER(1)
#define FIXED_20000 OTHER(2)
#define WORDS_2 OTHER(3)
#define WORDS_10 (OTHER(4) | OTHER(5))

/* ---- verbs ---- */

/* The bits of a key in a word; 0: it has none there. */
static struct bloom_probe probe_of(const tamis_filter *f, uint64_t hash, uint64_t at)
{
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_shape shape = bloom_shape_of(b);
  struct bloom_probes probes = bloom_probes_begin(b->word_count, hash_mix(&f->keys, hash), shape);
  for (unsigned i = 1;; i++) {
    struct bloom_probe probe = bloom_probes_next(&probes, shape);
    if (probe.word == at || i == shape.probes)
      return probe;
  }
}

static uint64_t bits_in_word(const tamis_filter *f, uint64_t hash, uint64_t at)
{
  struct bloom_probe probe = probe_of(f, hash, at);
  return probe.word == at ? probe.mask : 0;
}

/* x leaves a single bit of key 7's last word, which y sets. */
DEED(choose, n)
{
  const struct bloom_probe last = probe_of(f, 7, UINT64_MAX);
  uint64_t bit;
  stage.x = stage.y = 100;
  do
    bit = last.mask & ~bits_in_word(f, ++stage.x, last.word);
  while (!bit || bit & (bit - 1));
  while (!(bits_in_word(f, stage.y, last.word) & bit))
    stage.y++;
}

/* Sets the bits of the other filter, in the first layer, as a call does that has found room there. */
DEED(force, n)
{
  stage.forged = true;
  for (unsigned i = 0; i < bloom_of(f)->word_count; i++)
    word_or(&bloom_of(f)->words[i], word_load(&bloom_of(stage.from)->words[i]));
}

/* Opens a layer, or ends the filter, though there is room for keys. */
VERB(close, n)
{
  return tamis__layers_open(bloom_of(f), bloom_of(f), 0);
}

/* Adds keys until none gets in. */
DEED(fill_to_the_end, n)
{
  uint64_t key = 100000;
  while (tamis_add_unique_hash(f, key) != TAMIS_EFULL)
    key++;
}

VERB(in_newest, n)
{
  const struct bloom_row row = bloom_row_of(newest_layer(bloom_of(f)));
  return row.calls->find(&row, 1, hash_mix(&f->keys, n));
}

/* Whether an absent key of 400 is found, or more. */
VERB(finds_many, n)
{
  uint64_t found = 0;
  for (uint64_t i = 0; i < n; i++)
    found += tamis_contains_hash(f, 1000000 + i);
  return found > n / 400;
}

VERB(contains_in_batch, n)
{
  bool found;
  return (int) tamis_contains_many_hash(f, &n, 1, &found);
}

/* Whether both filters have a key, by a call with many. */
VERB(contains_in_each, n)
{
  const tamis_filter *const filters[] = {f, stage.from, f, f, f, f, f, f};
  bool found[8];
  tamis_contains_each_hash(filters, 8, n, found);
  return found[0] && found[1];
}

DEED(open_other, n)
{
  open_layer(stage_from(), n);
}

/* ---- schedules ---- */

static const struct row rows[] = {
    /* Both adds have missed the key before either sets a bit. */
    {"of_two_unique_adds_that_miss_the_key_one_wins", LAYOUTS(GROWABLE), "bloom_key_missed",
     "a: unique 7 @*; b: unique 7 @*; a b = OK PRESENT; count = 1"},
    {"in_a_word_one_of_two_unique_adds_wins", WORD(FIXED_1000), "bloom_room_found",
     "a: unique 7 @*; b: unique 7 @*; a b = OK PRESENT; count = 1"},
    /* The first add has set some of the key's bits.  The second one waits for nobody, and sets the
     * last. */
    {"whoever_sets_the_last_bit_wins", BLOCKED(GROWABLE), "bloom_word_set",
     "a: unique 7 @*; contains 7 = 0; unique 7; a = PRESENT; count = 1"},
    {"a_half_added_key_is_absent", BLOCKED(GROWABLE), "bloom_word_set",
     "a: unique 7 @*; contains 7 = 0; a = OK; contains 7 = 1; b: unique 8; b = OK"},
    /* Whatever step a unique add has stopped at. */
    {"nobody_waits_for_a_unique_add", LAYOUTS(GROWABLE) | (LAYOUTS(FIXED_1000) ^ WORD(FIXED_1000)),
     "bloom_key_missed bloom_room_found bloom_word_set",
     "a: unique 7 @*; b: unique 7; unique 8; add 9; a b = OK PRESENT; count = 3"},
    {"nobody_waits_for_a_unique_add", WORD(FIXED_1000), "bloom_room_found",
     "a: unique 7 @*; b: unique 7; unique 8; add 9; a b = OK PRESENT; count = 3"},
    /* A plain add of the same key sets all bits after the look of a unique add, before its first
     * or its last bit.  The unique add has published nothing to those who find the key. */
    {"a_unique_add_that_is_overtaken_does_not_win", BLOCKED(GROWABLE),
     "bloom_room_found bloom_last_gap_left",
     "a: unique 7 @*; add 7; a = PRESENT; b: unique 7; b = PRESENT; count = 1"},
    /* Both have set bits, but only the plain one the last: a filter for two keys takes a second
     * one. */
    {"adds_that_share_a_key_count_it_once", FIXED_2, "bloom_word_set",
     "a: unique 7 @*; add 7; a = PRESENT; count = 1; b: unique 8; b = OK; count = 2"},
    /* A unique add has found that a single bit is missing in the last of its words, and several in
     * others.  Another key sets that bit.  The add wins all the same, as that word was not its
     * last gap. */
    {"another_key_in_a_narrow_gap_hides_nothing", BLOCKED(GROWABLE) | BLOCKED(FIXED_1000),
     "bloom_last_gap_left", "choose; unique x; a: unique 7 @*; unique y; a = OK; count = 3"},

    /* The word layout.  Another key takes the last room, and a second unique add of the first key
     * is refused.  That is final, so the first one is refused, too. */
    {"in_a_word_a_refusal_is_final", WORDS_2, "bloom_room_found",
     "add 1; a: unique 7 @*; add 2; unique 7 = FULL; a = FULL; contains 7 = 0; unique 7 = FULL;"
     "add 7 = FULL; count = 2"},
    /* The other way round: the bits come before the refusal.  It must not say that the key is not
     * in. */
    {"in_a_word_a_refusal_may_come_too_late", WORDS_2, "bloom_word_refused",
     "add 1..2; give 7; a: unique 7 @*; force; a = PRESENT; contains 7 = 1"},

    /* Unions.  An add comes between a union's reading of a word and its OR, whatever the word. */
    {"a_union_loses_no_bit_that_is_set_meanwhile", WORDS_10, "bloom_union_word_read",
     "each 100..139; add 0..2; give 10..12; a: merge @*; add %; a = OK; contains 0..2 = 1;"
     "contains 10..12 = 1; contains % = 1"},
    {"a_unique_add_that_a_union_overtakes_does_not_win", BLOCKED(GROWABLE), "bloom_room_found",
     "give 7; a: unique 7 @*; merge; contains 7 = 1; a = PRESENT; b: unique 7; b = PRESENT;"
     "count = 1"},
    /* A union has set one word of the key. */
    {"one_unique_add_wins_while_a_union_brings_its_key", BLOCKED(GROWABLE), "bloom_union_word_read",
     "give 7; a: merge @*; contains 7 = 0; unique 7; unique 7 = PRESENT; a = OK;"
     "unique 7 = PRESENT"},
    /* Adds take the room that a union has found, and a unique add of the key that it would bring
     * is refused.  That is final: the union stops at the mark. */
    {"a_union_changes_no_marked_word", WORDS_2, "bloom_union_word_read",
     "give 7; add 1; a: merge @*; add 2; unique 7 = FULL; a = FULL; contains 7 = 0; count = 2"},
    /* It does not go on beyond a chunk of 512 words. */
    {"a_union_stops_where_the_filter_is_full", FIXED_20000, "bloom_word_united",
     "give 0..17999; a: merge @*; fill_to_the_end; note; a = FULL; more bits_set = 0..32768"},

    /* Further layers.  A unique add has searched both; then a third one opens, and the key is won
     * there. */
    {"of_two_unique_adds_across_an_opening_one_wins", TINY, "bloom_layers_searched",
     "fill 100; open; a: unique 7 @*; open; layers = 3; contains 7 = 0; unique 7; a = PRESENT"},
    {"a_full_layer_takes_no_unique_add", TINY, "bloom_key_missed",
     "fill 99; a: unique 7 @*; open; unique 7; note; a = PRESENT; more bits_set = 0"},
    {"a_layer_is_empty_when_it_is_published", TINY, "bloom_layer_created",
     "fill 100; a: unique 7 @*; finds_many 100000 = 0; a = OK"},
    /* Two create the next layer, and a third one waits for them. */
    {"of_two_layers_one_is_thrown_away", TINY, "bloom_layer_created",
     "fill 100; a: unique 7 @*; b: unique 8 @*; c: unique 9; a b c = OK OK OK; layers = 2;"
     "contains 7..9 = 1"},

    /* A call with many filters stands between the fetch and the look-ups, when the key is added to
     * the first one and then, in a layer that opens now, to the second one.  They are looked up in
     * their order: so whoever finds the key in the first one finds it in the second one. */
    {"a_filter_that_grows_after_the_fetch_is_searched_in_all_layers", BLOCKED(GROWABLE),
     "each_fetched", "give 1; a: contains_in_each 7 @*; add 7; open_other; give 7; a = 1"},

    /* The late rule.  A unique add has found room in the newest layer, or has set its first word
     * there, when the next one opens, and another add, of another process maybe, brings the key
     * there. */
    {"a_late_add_meets_a_winner", LAYOUTS(LAYER) | LAYOUTS(TWO_LAYERS),
     "bloom_room_found bloom_word_set",
     "a: unique 7 @*; open; contains 7 = 0; note; unique 7; a = PRESENT; more count = 1"},
    /* It reads the number of layers after its last OR. */
    {"a_late_add_far_from_full_meets_a_winner", LAYOUTS(FAR) | LAYOUTS(SHARED), "bloom_room_found",
     "a: unique 7 @*; close; unique 7; a = PRESENT; layers = 2; count = 1"},
    /* Another layer opens, in which the key is not. */
    {"a_late_add_searches_all_layers_above", LAYOUTS(LAYER), "bloom_room_found bloom_word_set",
     "a: unique 7 @*; open; unique 7; open; a = PRESENT"},
    /* Nobody else wants the key. */
    {"a_late_add_wins_in_the_newest_layer", LAYOUTS(LAYER) | LAYOUTS(TWO_LAYERS),
     "bloom_room_found bloom_word_set",
     "a: unique 7 @*; open; note; a = OK; more count = 1; in_newest 7 = 1; unique 7 = PRESENT"},
    /* A plain add has completed the key in the first layer. */
    {"a_late_add_that_has_set_nothing_does_not_win", LAYOUTS(FAR) | LAYOUTS(LAYER),
     "bloom_room_found bloom_last_gap_left", "a: unique 7 @*; add 7; close; a = PRESENT"},

    /* Ends of filters.  Another add of the key is refused for good.  So the first one is refused,
     * too, which is a figure like any other; its bits stay, except in words that are marked. */
    {"no_unique_add_wins_after_a_refusal",
     LAYOUTS(ROOM_FOR_ONE) | LAYOUTS(ROOM_FOR_TWO) | (LAYOUTS(FIXED) ^ WORD(FIXED)),
     "bloom_room_found",
     "a: unique 7 @*; fill_to_the_end; contains 7 = 0; unique 7 = FULL; note; a = FULL;"
     "more refused_adds = 1; more count = 0; contains 7 = 1"},
    {"no_unique_add_wins_after_a_refusal", WORD(FIXED), "bloom_room_found",
     "a: unique 7 @*; fill_to_the_end; unique 7 = FULL; note; a = FULL; more refused_adds = 1;"
     "more count = 0; contains 7 = 0"},
    /* Far from full, a unique add looks only whether there is one layer. */
    {"no_unique_add_far_from_full_wins_after_a_refusal",
     LAYOUTS(NEARLY_EMPTY) | LAYOUTS(SHARED_ROOM_FOR_ONE), "bloom_room_found",
     "a: unique 7 @*; close = FULL; unique 7 = FULL; note; a = FULL; more count = 0"},
    {"a_plain_add_that_has_found_room_is_not_refused", WORD(ROOM_FOR_ONE), "bloom_room_found",
     "a: add 7 @*; fill_to_the_end; unique 7 = FULL; note; a = OK; more count = 1; contains 7 = 1"},
    /* The bits come before the refusal, by an add that had found room in the first layer. */
    {"a_refusal_may_come_too_late",
     LAYOUTS(ROOM_FOR_ONE) | LAYOUTS(ROOM_FOR_TWO) | (LAYOUTS(FIXED) ^ WORD(FIXED)),
     "bloom_layers_ended", "give 7; fill_to_the_end; a: unique 7 @*; force; a = PRESENT"},

    /* Another process has added keys to a layer of which the first one has not heard. */
    {"a_look_up_finds_what_is_in_an_unknown_layer", LAYOUTS(SHARED), NULL,
     "close; add 7; a: contains 7; a = 1"},
    {"a_look_up_finds_what_is_in_an_unknown_layer", LAYOUTS(SHARED), NULL,
     "close; add 7; a: contains_in_batch 7; a = 1"},
    /* Other keys may set the last of its bits. */
    {"no_unique_add_wins_in_a_full_filter", LAYOUTS(SHARED_FIXED), "bloom_room_found",
     "a: unique 7 @*; fill_to_the_end; unique 7 = FULL; a = FULL"},
    /* Both processes open the next layer. */
    {"of_two_openings_one_counts", LAYOUTS(SHARED_SMALL), "bloom_layer_created",
     "fill 100; a: unique 7 @*; unique 8; layers = 2; a = OK; layers = 2"},
};

/* ---- races of other forms ---- */

/* A unique add has looked at an empty layer, and stands still while other keys fill half of that
 * layer: now and then also what it would have filled last.  As long as its key is not in, it wins. */
TEST_WITH_THREADS(bits_of_other_keys_do_not_take_the_win)
{
  enum { ROUNDS = 240 };
  static const double rates[] = {0.01, 0.001, 1e-9};
  for (unsigned round = 0; round < ROUNDS; round++) {
    const bool grown = round / 6 % 2;
    tamis_filter *f = make_filter(round / 3 % 2 ? TAMIS_LAYOUT_CLASSIC : TAMIS_LAYOUT_BLOCKED, 1000,
                                  rates[round % 3]);
    uint64_t hash = UINT64_C(1000000) * round;
    while (grown && is_alone(const_bloom_of(f)))
      assert_int_equal(tamis_add_hash(f, ++hash), TAMIS_OK);
    struct call a = {.filter = f, .hash = UINT64_MAX - round};
    while (tamis_contains_hash(f, a.hash))
      a.hash -= ROUNDS;
    stop_at(&a, "bloom_room_found");
    for (unsigned i = 0; i < 500; i++)
      assert_int_equal(tamis_add_hash(f, ++hash), TAMIS_OK);
    const bool in = tamis_contains_hash(f, a.hash);
    assert_int_equal(go_on(&a), in ? TAMIS_PRESENT : TAMIS_OK);
    assert_valid(f);
    tamis_destroy(f);
  }
}

static tamis_filter *make_in(struct bank *bank, tamis_layout layout, uint64_t capacity,
                             uint64_t max_bytes)
{
  tamis_options options = seeded_options(TAMIS_BLOOM, capacity, 0.0025, true);
  options.layout = layout;
  options.max_bytes = max_bytes;
  options.allocator = allocator_of(bank);
  return make_with_options(&options);
}

/* A union has created the layers that it needs, for which max_bytes has just room.  An add that
 * needs the first of them waits. */
TEST_WITH_THREADS(a_union_opens_its_layers_alone)
{
  struct bank bank = {0}, of_others = {0};
  tamis_filter *from = make_in(&of_others, TAMIS_LAYOUT_BLOCKED, 100, 0),
               *like = make_in(&of_others, TAMIS_LAYOUT_BLOCKED, 100, 1 << 20);
  for (uint64_t i = 1000; stats_of(from).layers < 3; i++)
    assert_int_equal(tamis_add_hash(from, i), TAMIS_OK);
  assert_int_equal(tamis_merge(like, from), TAMIS_OK);
  const uint64_t max_bytes = stats_of(like).bytes;
  tamis_filter *f = make_in(&bank, TAMIS_LAYOUT_BLOCKED, 100, max_bytes);
  for (uint64_t i = 0; stats_of(f).count < 100; i++)
    assert_int_equal(tamis_add_hash(f, i << 32), TAMIS_OK);
  struct call a = {.filter = f, .from = from}, b = {.filter = f, .hash = 8};
  stop_at(&a, "bloom_layer_created");
  assert_int_equal(bank.bytes, max_bytes);
  start(&b);
  schedule_wait_either("bloom_layer_awaited", 1, "bloom_layer_created", 2);
  assert_int_equal(bank.bytes, max_bytes);
  assert_int_equal(go_on(&a), TAMIS_OK);
  assert_int_equal(finish(&b), TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 3);
  tamis_destroy(f);
  tamis_destroy(from);
  tamis_destroy(like);
}

static unsigned plans;

static void count_plans(const char *name)
{
  plans += !strcmp(name, "bloom_layer_planned");
}

/* Each key that has no room asks the allocator again; but a plan takes as long as thousands of
 * adds. */
TEST(a_layer_that_is_refused_is_planned_once)
{
  void (*installed)(const char *) = atomic_load(&tamis__hook);
  struct bank bank = {0};
  tamis_filter *f = make_in(&bank, TAMIS_LAYOUT_BLOCKED, 1000, 0);
  uint64_t key = 0;
  bank.refused_from = 1;
  while (tamis_add_hash(f, key) == TAMIS_OK)
    key++;
  plans = 0;
  atomic_store(&tamis__hook, count_plans);
  for (unsigned i = 0; i < 100; i++)
    assert_int_equal((i % 2 ? tamis_add_hash : tamis_add_unique_hash)(f, key), TAMIS_ENOMEM);
  atomic_store(&tamis__hook, installed);
  assert_int_equal(plans, 0);
  bank.refused_from = 0;
  assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  tamis_destroy(f);
}

/* The newest layer is full, and there is no memory for another one: a late add gets in. */
TEST_WITH_THREADS(a_late_add_needs_no_room)
{
  for (unsigned layout = 0; layout < 3; layout++) {
    struct bank bank = {0};
    struct call a = {.filter = make_in(&bank, (tamis_layout) layout, 1000, 0), .hash = 7};
    fill(a.filter, 998);
    stop_at(&a, "bloom_room_found");
    open_layer(a.filter, 0);
    bank.refused_from = 1;
    for (uint64_t key = UINT64_C(1) << 33; tamis_add_hash(a.filter, key) == TAMIS_OK; key++)
      ;
    assert_int_equal(tamis_add_unique_hash(a.filter, 8), TAMIS_ENOMEM);
    assert_int_equal(go_on(&a), TAMIS_OK);
    bank.refused_from = 0;
    assert_int_equal(stats_of(a.filter).layers, 2);
    assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_PRESENT);
    assert_valid(a.filter);
    tamis_destroy(a.filter);
  }
}

/* The bits of keys in the layers with smaller numbers. */
static uint64_t bits_below(const tamis_filter *f, unsigned number)
{
  uint64_t bits = 0;
  for (const struct bloom *b = newest_layer(const_bloom_of(f)); b; b = bloom_older(b))
    for (uint64_t i = 0; b->number < number && i < b->word_count; i++)
      bits += (unsigned) __builtin_popcountll(word_load(&b->words[i]) & bloom_key_bits(b->layout));
  return bits;
}

/* One process has filled the filter, or opened a layer.  Another one, which has not heard of it, adds
 * key after key: a few of them set bits in a layer that is closed, until the process has learnt that it
 * is. */
TEST(a_process_that_lags_sets_no_bits)
{
  enum { CAPACITY = 20000, MORE = 2000, MOST_BITS = 100 };
  for (unsigned i = 0; i < 9; i++) {
    struct setup setup = {.layout = (tamis_layout) (i % 3), .capacity = CAPACITY, .fpp = 0.0025};
    setup.shared = true, setup.fixed = i < 3;
    setup.max_bytes = i < 3 ? 0 : i < 6 ? 6 * CAPACITY : 1000 * CAPACITY;
    open_stage(&setup);
    assert_true(is_far(const_bloom_of(stage.own))); /* so it does not look at each key */
    uint64_t key = 1;
    int result = TAMIS_OK;
    for (; result != TAMIS_EFULL && newest_layer(const_bloom_of(stage.f))->number < 4; key++)
      result = tamis_add_unique_hash(stage.f, key * HASH_MULTIPLIER);
    assert_int_equal(result == TAMIS_EFULL, i < 6);
    const unsigned closed = i < 6 ? UINT_MAX : newest_layer(const_bloom_of(stage.f))->number;
    const uint64_t bits = bits_below(stage.own, closed);
    unsigned added = 0;
    for (uint64_t end = key + MORE; key < end; key++)
      added += tamis_add_unique_hash(stage.own, key * HASH_MULTIPLIER) == TAMIS_OK;
    if (i < 6) /* case 2: the word layout, in a word that has no mark yet */
      assert_in_range(added, 0, i == 2);
    else
      assert_true(added > MORE / 2);
    assert_in_range(bits_below(stage.own, closed) - bits, 0, MOST_BITS);
    close_stage();
  }
}

int main(void)
{
  return run_schedules(setups, rows, sizeof rows / sizeof *rows);
}
