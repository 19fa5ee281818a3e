/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the Bloom filter, each replayed exactly.  Built with the hooks.
 */
#include "calls.h"

#include "bloom/layers.h"
#include "filter_unit.h"

#include <string.h>

/* Both adds have missed the key before either sets a bit. */
static void of_two_unique_adds_that_miss_the_key_one_wins(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, b = a;
  schedule_stop_at("bloom_key_missed");
  start(&a);
  start(&b);
  schedule_wait("bloom_key_missed", 2);
  go_on(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal((a.result == TAMIS_PRESENT) + (b.result == TAMIS_PRESENT), 1);
  tamis_destroy(f);
}

static const tamis_layout layouts[] = {TAMIS_LAYOUT_BLOCKED, TAMIS_LAYOUT_CLASSIC,
                                       TAMIS_LAYOUT_WORD};

/* The first add has set some of the key's bits, and stops.  The second one waits for nobody, and
 * sets the last one. */
static void whoever_sets_the_last_bit_wins(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7};
  stop_at(&a, "bloom_word_set");
  assert_false(tamis_contains_hash(f, 7));
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  assert_int_equal(stats_of(f).count, 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* Whatever step a unique add has stopped at, no call waits for it. */
static void nobody_waits_for_a_unique_add(void **state)
{
  (void) state;
  static const char *const steps[] = {"bloom_key_missed", "bloom_room_found", "bloom_word_set"};
  for (unsigned i = 0; i < 18; i++) {
    tamis_options options = TAMIS_OPTIONS_INIT;
    options.layout = layouts[i / 6];
    options.capacity = 1000;
    options.growable = i % 2;
    options.stripes = 1;
    options.seed = 42;
    tamis_filter *f;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    const bool marked = options.layout == TAMIS_LAYOUT_WORD && !options.growable;
    struct call a = {.filter = f, .hash = 7};
    stop_at(&a, marked ? "bloom_room_found" : steps[i / 2 % 3]);
    const int result = tamis_add_unique_hash(f, 7);
    assert_true(result == TAMIS_OK || result == TAMIS_PRESENT);
    assert_int_equal(tamis_add_unique_hash(f, 8), TAMIS_OK);
    assert_int_equal(tamis_add_hash(f, 9), TAMIS_OK);
    assert_int_equal(go_on(&a), result == TAMIS_OK ? TAMIS_PRESENT : TAMIS_OK);
    assert_int_equal(stats_of(f).count, 3);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* Half of the key's bits are set: no call says that the key is there. */
static void a_half_added_key_is_absent(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, other = {.filter = f, .hash = 8};
  start_and_stop(&a, "bloom_word_set");
  assert_false(tamis_contains_hash(f, 7));
  go_on(&a);
  assert_true(tamis_contains_hash(f, 7));
  start(&other);
  assert_int_equal(finish(&other), TAMIS_OK);
  tamis_destroy(f);
}

/* A plain add of the same key sets all bits after the look of a unique add, before its first or its
 * last bit.  The unique add must not claim to be first: it has published nothing to the
 * readers that find the key. */
static void a_unique_add_that_is_overtaken_does_not_win(void **state)
{
  (void) state;
  static const char *const steps[] = {"bloom_room_found", "bloom_last_gap_left"};
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
    struct call a = {.filter = f, .hash = 7}, b = a;
    stop_at(&a, steps[i]);
    assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK); /* takes no lock, so it does not wait */
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    start(&b);
    assert_int_equal(finish(&b), TAMIS_PRESENT);
    assert_int_equal(stats_of(f).count, 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A unique add has set its first word when a plain add of the same key sets the rest: both have
 * set bits, but only the plain one the last.  The key counts once, and a filter for two keys still
 * takes a second one. */
static void adds_that_share_a_key_count_it_once(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 2;
  options.fpp = 0.001;
  options.growable = false;
  options.seed = 42;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7}, b = {.filter = f, .hash = 8};
  stop_at(&a, "bloom_word_set"); /* the main thread does not stop */
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  assert_int_equal(stats_of(f).count, 1);
  start(&b);
  assert_int_equal(finish(&b), TAMIS_OK);
  assert_int_equal(stats_of(f).count, 2);
  assert_valid(f);
  tamis_destroy(f);
}

/* The bits of a key in a word; 0: it has none there. */
static uint64_t bits_in_word(const tamis_filter *f, uint64_t hash, uint64_t at)
{
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_shape shape = bloom_shape_of(b);
  struct bloom_probes probes = bloom_probes_begin(b->word_count, hash_mix(&f->keys, hash), shape);
  for (unsigned i = 0; i < shape.probes; i++) {
    struct bloom_probe probe = bloom_probes_next(&probes, shape);
    if (probe.word == at)
      return probe.mask;
  }
  return 0;
}

static struct bloom_probe last_probe(const tamis_filter *f, uint64_t hash)
{
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_shape shape = bloom_shape_of(b);
  struct bloom_probes probes = bloom_probes_begin(b->word_count, hash_mix(&f->keys, hash), shape);
  for (unsigned i = 1; i < shape.probes; i++)
    (void) bloom_probes_next(&probes, shape);
  return bloom_probes_next(&probes, shape);
}

/* A unique add has found that a single bit is missing in the last of its words, and several in
 * others.  Just before it sets its last bits, another key sets that bit.  The add wins all the same, as
 * that word was not its last gap. */
static void another_key_in_a_narrow_gap_hides_nothing(void **state)
{
  (void) state;
  for (unsigned growable = 0; growable < 2; growable++) {
    tamis_options options = TAMIS_OPTIONS_INIT;
    options.capacity = 1000;
    options.fpp = 0.001;
    options.growable = growable;
    options.seed = 42;
    tamis_filter *f;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    const struct bloom_probe last = last_probe(f, 7);
    uint64_t before = 100, meanwhile = 100, bit;
    do
      bit = last.mask & ~bits_in_word(f, before++, last.word);
    while (!bit || bit & (bit - 1));
    while (!(bits_in_word(f, meanwhile, last.word) & bit))
      meanwhile++;
    assert_int_equal(tamis_add_unique_hash(f, before - 1), TAMIS_OK);
    struct call a = {.filter = f, .hash = 7};
    stop_at(&a, "bloom_last_gap_left");
    assert_int_equal(tamis_add_unique_hash(f, meanwhile), TAMIS_OK);
    assert_int_equal(go_on(&a), TAMIS_OK);
    assert_int_equal(stats_of(f).count, 3);
    tamis_destroy(f);
  }
}

/* A unique add has looked at an empty layer, and stands still while other keys fill half of that
 * layer: now and then also what it would have filled last.  As long as its key is not in, it wins. */
static void bits_of_other_keys_do_not_take_the_win(void **state)
{
  (void) state;
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

/* ---- the word layout ---- */

static tamis_filter *make_word_filter(uint64_t capacity, bool growable)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = TAMIS_LAYOUT_WORD;
  options.capacity = capacity;
  options.fpp = 0.003;
  options.seed = 42;
  options.growable = growable;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

/* Both have missed the key when one of them sets its bits: the other one has set none. */
static void in_a_word_one_of_two_unique_adds_wins(void **state)
{
  (void) state;
  for (int growable = 0; growable < 2; growable++) {
    tamis_filter *f = make_word_filter(1000, growable);
    struct call a = {.filter = f, .hash = 7}, b = a;
    schedule_stop_at(growable ? "bloom_key_missed" : "bloom_room_found");
    start(&a);
    start(&b);
    schedule_wait(growable ? "bloom_key_missed" : "bloom_room_found", 2);
    go_on(&a);
    finish(&b);
    assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
    assert_int_equal((a.result == TAMIS_PRESENT) + (b.result == TAMIS_PRESENT), 1);
    assert_int_equal(stats_of(f).count, 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* One unique add has found room.  Before it sets the bits, another key takes the last room, and a
 * second unique add of the first key is refused.  That is final, so the first one is refused,
 * too. */
static void in_a_word_a_refusal_is_final(void **state)
{
  (void) state;
  tamis_filter *f = make_word_filter(2, false);
  assert_int_equal(tamis_add_hash(f, 1), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7};
  stop_at(&a, "bloom_room_found");
  assert_int_equal(tamis_add_hash(f, 2), TAMIS_OK);
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_EFULL);
  assert_int_equal(go_on(&a), TAMIS_EFULL);
  assert_false(tamis_contains_hash(f, 7));
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_EFULL);
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_EFULL);
  assert_int_equal(stats_of(f).count, 2);
  assert_valid(f);
  tamis_destroy(f);
}

/* The other way round: a unique add is about to be refused when another one, which had found room,
 * sets the bits (here the test does).  The first one must not say that the key is not in. */
static void in_a_word_a_refusal_may_come_too_late(void **state)
{
  (void) state;
  tamis_filter *f = make_word_filter(2, false), *twin = make_word_filter(2, false);
  assert_int_equal(tamis_add_hash(f, 1), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 2), TAMIS_OK);
  assert_int_equal(tamis_add_hash(twin, 7), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7};
  start_and_stop(&a, "bloom_word_refused");
  for (unsigned i = 0; i < bloom_of(f)->word_count; i++)
    word_or(&bloom_of(f)->words[i], word_load(&bloom_of(twin)->words[i]));
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  assert_true(tamis_contains_hash(f, 7));
  tamis_destroy(f);
  tamis_destroy(twin);
}

/* ---- unions ---- */

/* Keys of `into`, of `from` and of an add that comes between the union's reading of a word and its
 * OR: none is lost, whatever the word. */
static void a_union_loses_no_bit_that_is_set_meanwhile(void **state)
{
  (void) state;
  for (unsigned limited = 0; limited < 2; limited++)
    for (uint64_t key = 100; key < 140; key++) {
      struct call a = {.filter = make_word_filter(10, !limited),
                       .from = make_word_filter(10, !limited)};
      for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(tamis_add_hash(a.filter, i), TAMIS_OK);
        assert_int_equal(tamis_add_hash(a.from, 10 + i), TAMIS_OK);
      }
      stop_at(&a, "bloom_union_word_read");
      assert_int_equal(tamis_add_hash(a.filter, key), TAMIS_OK);
      assert_int_equal(go_on(&a), TAMIS_OK);
      for (uint64_t i = 0; i < 3; i++)
        assert_true(tamis_contains_hash(a.filter, i) && tamis_contains_hash(a.filter, 10 + i));
      assert_true(tamis_contains_hash(a.filter, key));
      assert_valid(a.filter);
      tamis_destroy(a.filter);
      tamis_destroy(a.from);
    }
}

/* A unique add has missed its key when a union brings the key: it is not new. */
static void a_unique_add_that_a_union_overtakes_does_not_win(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  tamis_filter *from = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  assert_int_equal(tamis_add_hash(from, 7), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7}, b = a;
  start_and_stop(&a, "bloom_room_found");
  assert_int_equal(tamis_merge(f, from), TAMIS_OK); /* takes no lock, so it does not wait */
  assert_true(tamis_contains_hash(f, 7));
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  start(&b);
  assert_int_equal(finish(&b), TAMIS_PRESENT);
  assert_int_equal(stats_of(f).count, 1);
  assert_valid(f);
  tamis_destroy(f);
  tamis_destroy(from);
}

/* A union has set one word of a key when a unique add of it sets the rest: it wins, and is the only
 * one. */
static void one_unique_add_wins_while_a_union_brings_its_key(void **state)
{
  (void) state;
  struct call m = {.filter = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001),
                   .from = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001)};
  assert_int_equal(tamis_add_hash(m.from, 7), TAMIS_OK);
  schedule_stop_at("bloom_union_word_read"); /* the second word of the key */
  start(&m);
  schedule_wait("bloom_union_word_read", 1);
  assert_false(tamis_contains_hash(m.filter, 7));
  schedule_pass_by();
  assert_int_equal(tamis_add_unique_hash(m.filter, 7), TAMIS_OK);
  assert_int_equal(tamis_add_unique_hash(m.filter, 7), TAMIS_PRESENT);
  go_on(&m);
  assert_int_equal(tamis_add_unique_hash(m.filter, 7), TAMIS_PRESENT);
  assert_valid(m.filter);
  tamis_destroy(m.filter);
  tamis_destroy(m.from);
}

/* A union has found room.  Before it changes its first word, adds take the room, and a unique add
 * of the key that it would bring is refused.  That is final: the union stops at the mark. */
static void a_union_changes_no_marked_word(void **state)
{
  (void) state;
  struct call m = {.filter = make_word_filter(2, false), .from = make_word_filter(2, false)};
  assert_int_equal(tamis_add_hash(m.from, 7), TAMIS_OK);
  assert_int_equal(tamis_add_hash(m.filter, 1), TAMIS_OK);
  stop_at(&m, "bloom_union_word_read");
  assert_int_equal(tamis_add_hash(m.filter, 2), TAMIS_OK);
  assert_int_equal(tamis_add_unique_hash(m.filter, 7), TAMIS_EFULL);
  assert_int_equal(go_on(&m), TAMIS_EFULL);
  assert_false(tamis_contains_hash(m.filter, 7));
  assert_int_equal(stats_of(m.filter).count, 2);
  assert_valid(m.filter);
  tamis_destroy(m.filter);
  tamis_destroy(m.from);
}

/* Adds fill the filter while a union is at its first words: it does not go on beyond the chunk. */
static void a_union_stops_where_the_filter_is_full(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 20000;
  options.seed = 42;
  options.growable = false;
  struct call m = {0};
  assert_int_equal(tamis_create(&options, &m.filter), TAMIS_OK);
  assert_int_equal(tamis_create(&options, &m.from), TAMIS_OK);
  for (uint64_t i = 0; i < 18000; i++)
    assert_int_equal(tamis_add_hash(m.from, i), TAMIS_OK);
  stop_at(&m, "bloom_word_united");
  uint64_t key = 1000000;
  while (tamis_add_hash(m.filter, key) == TAMIS_OK)
    key++;
  tamis_stats before = stats_of(m.filter);
  assert_int_equal(go_on(&m), TAMIS_EFULL);
  assert_in_range(stats_of(m.filter).bits_set - before.bits_set, 0, 64 * 512);
  assert_valid(m.filter);
  tamis_destroy(m.filter);
  tamis_destroy(m.from);
}

/* ---- further layers ---- */

static void fill_up(tamis_filter *f, uint64_t keys)
{
  uint64_t key = 1000;
  for (uint64_t count; (count = stats_of(f).count) < keys;)
    for (uint64_t i = count; i < keys; i++)
      assert_int_equal(tamis_add_hash(f, key++), TAMIS_OK);
}

/* A filter with so many keys, in one layer. */
static tamis_filter *make_full(tamis_layout layout, uint64_t keys)
{
  tamis_filter *f = make_filter(layout, 100, 0.0025);
  fill_up(f, keys);
  assert_int_equal(stats_of(f).layers, 1);
  return f;
}

static void open_layer(tamis_filter *f)
{
  uint64_t key = UINT64_C(1) << 32, layers = stats_of(f).layers;
  while (stats_of(f).layers == layers)
    assert_int_equal(tamis_add_hash(f, key++), TAMIS_OK);
  assert_false(tamis_contains_hash(f, 7));
}

/* A unique add has searched both layers, and stops; then the newest one becomes full, a third one
 * opens, and another add brings the key there. */
static void of_two_unique_adds_across_an_opening_one_wins(void **state)
{
  (void) state;
  tamis_filter *f = make_full(TAMIS_LAYOUT_BLOCKED, 100);
  struct call a = {.filter = f, .hash = 7};
  open_layer(f);
  stop_at(&a, "bloom_layers_searched");
  open_layer(f);
  assert_int_equal(stats_of(f).layers, 3);
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  assert_valid(f);
  tamis_destroy(f);
}

/* A unique add has missed its key in the only layer, and stops before it looks for room.  Then that
 * layer is full, and the key is in the next one. */
static void a_full_layer_takes_no_unique_add(void **state)
{
  (void) state;
  tamis_filter *f = make_full(TAMIS_LAYOUT_BLOCKED, 99);
  struct call a = {.filter = f, .hash = 7};
  stop_at(&a, "bloom_key_missed");
  open_layer(f);
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
  uint64_t bits = stats_of(f).bits_set;
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  assert_int_equal(stats_of(f).bits_set, bits);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- the late rule ---- */

/* Stops a unique add of key 7 that has found room in the newest of one or two layers, or that has
 * set its first word there.  Then the next layer opens.  (Before that, so few keys come to the
 * newest layer that none of them sets the last of the key's bits.) */
static tamis_filter *stop_in_time(struct call *a, unsigned i, unsigned layers)
{
  tamis_filter *f = make_filter(layouts[i % 3], 100, 0.0025);
  if (layers == 2)
    open_layer(f);
  fill_up(f, layers * 100 - 2);
  *a = (struct call){.filter = f, .hash = 7};
  stop_at(a, i / 3 && layouts[i % 3] != TAMIS_LAYOUT_WORD ? "bloom_word_set" : "bloom_room_found");
  open_layer(f);
  return f;
}

/* Another add brings the key to the next layer. */
static void a_late_add_meets_a_winner(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 12; i++) {
    struct call a;
    tamis_filter *f = stop_in_time(&a, i % 6, 1 + i / 6);
    uint64_t count = stats_of(f).count;
    assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    assert_int_equal(stats_of(f).count, count + 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* The same, and then another layer opens, in which the key is not. */
static void a_late_add_searches_all_layers_above(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 6; i++) {
    struct call a;
    tamis_filter *f = stop_in_time(&a, i, 1);
    assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
    for (uint64_t key = UINT64_C(1) << 33, layers = stats_of(f).layers;
         stats_of(f).layers == layers; key++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* Nobody else wants the key: it wins in the newest layer, and counts once. */
static void a_late_add_wins_in_the_newest_layer(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 12; i++) {
    struct call a;
    tamis_filter *f = stop_in_time(&a, i % 6, 1 + i / 6);
    uint64_t count = stats_of(f).count;
    assert_int_equal(go_on(&a), TAMIS_OK);
    assert_int_equal(stats_of(f).count, count + 1);
    const struct bloom_row row = bloom_row_of(newest_layer(bloom_of(f)));
    assert_true(row.calls->find(&row, 1, hash_mix(&f->keys, 7)));
    assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_PRESENT);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A plain add has completed the key in the first layer, where the unique one has found room. */
static void a_late_add_that_has_set_nothing_does_not_win(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 6; i++) { /* far from full, and near */
    const uint64_t capacity = i / 3 ? 100 : 100000;
    struct call a = {.filter = make_filter(layouts[i % 3], capacity, 0.0025), .hash = 7};
    struct bloom *first = bloom_of(a.filter);
    stop_at(&a, layouts[i % 3] == TAMIS_LAYOUT_WORD ? "bloom_room_found" : "bloom_last_gap_left");
    assert_int_equal(tamis_add_hash(a.filter, 7), TAMIS_OK);
    assert_int_equal(tamis__layers_open(first, first, 0), TAMIS_OK);
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    assert_valid(a.filter);
    tamis_destroy(a.filter);
  }
}

/* Far from full, too, a unique add reads the number of layers after its last OR. */
static void a_late_add_far_from_full_meets_a_winner(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct call a = {.filter = make_filter(layouts[i], 100000, 0.0025), .hash = 7};
    struct bloom *first = bloom_of(a.filter);
    stop_at(&a, "bloom_room_found");
    assert_int_equal(tamis__layers_open(first, first, 0), TAMIS_OK);
    assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_OK);
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    assert_valid(a.filter);
    tamis_destroy(a.filter);
  }
}

/* Room for one layer of a growable filter, for two, or one that is not growable. */
enum { ONE_LAYER, TWO_LAYERS, FIXED, ENDS };

static tamis_filter *make_with_end(tamis_layout layout, unsigned end, uint64_t keys)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  uint64_t bytes;
  options.layout = layout;
  options.capacity = 10000;
  options.seed = 42;
  options.growable = end != FIXED;
  assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
  options.max_bytes = end == TWO_LAYERS ? bytes * 18 / 5 : bytes;
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  fill_up(f, keys);
  return f;
}

/* Adds keys until none gets in. */
static void fill_to_the_end(tamis_filter *f)
{
  uint64_t key = 100000;
  while (tamis_add_hash(f, key) == TAMIS_OK)
    key++;
  assert_false(tamis_contains_hash(f, 7));
}

/* A unique add has found room, and then another add of its key is refused for good.  So the first
 * one is refused, too, and this refusal is a figure like any other; the key does not count. */
static void no_unique_add_wins_after_a_refusal(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3 * ENDS; i++) {
    struct call a = {.filter = make_with_end(layouts[i % 3], i / 3, 9990), .hash = 7};
    const bool marked = layouts[i % 3] == TAMIS_LAYOUT_WORD && i / 3 == FIXED;
    stop_at(&a, "bloom_room_found");
    fill_to_the_end(a.filter);
    assert_int_equal(stats_of(a.filter).layers, i / 3 == TWO_LAYERS ? 2 : 1);
    assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_EFULL);
    tamis_stats before = stats_of(a.filter);
    go_on(&a);
    tamis_stats after = stats_of(a.filter);
    assert_int_equal(a.result, TAMIS_EFULL);
    assert_int_equal(after.refused_adds, before.refused_adds + 1);
    assert_int_equal(after.count, before.count);
    assert_int_equal(tamis_contains_hash(a.filter, 7), !marked); /* else its bits stay */
    assert_valid(a.filter);
    tamis_destroy(a.filter);
  }
}

/* The same far from full, where a unique add looks only whether there is one layer.  (The test ends
 * the filter itself: other keys would set the last of the key's bits.) */
static void no_unique_add_far_from_full_wins_after_a_refusal(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct call a = {.filter = make_with_end(layouts[i], ONE_LAYER, 10), .hash = 7};
    struct bloom *first = bloom_of(a.filter);
    stop_at(&a, "bloom_room_found");
    assert_int_equal(tamis__layers_open(first, first, 0), TAMIS_EFULL);
    assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_EFULL);
    uint64_t count = stats_of(a.filter).count;
    assert_int_equal(go_on(&a), TAMIS_EFULL);
    assert_int_equal(stats_of(a.filter).count, count);
    tamis_destroy(a.filter);
  }
}

/* A plain add that has found room is done, whatever was refused. */
static void a_plain_add_that_has_found_room_is_not_refused(void **state)
{
  (void) state;
  struct call a = {.filter = make_with_end(TAMIS_LAYOUT_WORD, ONE_LAYER, 9990),
                   .hash = 7,
                   .function = tamis_add_hash};
  stop_at(&a, "bloom_room_found");
  fill_to_the_end(a.filter);
  assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_EFULL);
  uint64_t count = stats_of(a.filter).count;
  assert_int_equal(go_on(&a), TAMIS_OK);
  assert_int_equal(stats_of(a.filter).count, count + 1);
  assert_true(tamis_contains_hash(a.filter, 7));
  assert_valid(a.filter);
  tamis_destroy(a.filter);
}

/* The other way round: a unique add is about to be refused when another one, which had found room
 * in the first layer, sets the bits (here the test does). */
static void a_refusal_may_come_too_late(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3 * ENDS; i++) {
    if (layouts[i % 3] == TAMIS_LAYOUT_WORD && i / 3 == FIXED)
      continue; /* see in_a_word_a_refusal_may_come_too_late() */
    struct call a = {.filter = make_with_end(layouts[i % 3], i / 3, 9990), .hash = 7};
    tamis_filter *twin = make_with_end(layouts[i % 3], i / 3, 9990);
    assert_int_equal(tamis_add_hash(twin, 7), TAMIS_OK); /* their first layers are alike */
    fill_to_the_end(a.filter);
    struct bloom *first = bloom_of(a.filter);
    stop_at(&a, "bloom_layers_ended");
    assert_true(i / 3 == TWO_LAYERS || is_alone(first)); /* so the other one wins */
    for (unsigned j = 0; j < first->word_count; j++)
      word_or(&first->words[j], word_load(&bloom_of(twin)->words[j]));
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    tamis_destroy(a.filter);
    tamis_destroy(twin);
  }
}

/* A layer that others can see has no bits yet. */
static void a_layer_is_empty_when_it_is_published(void **state)
{
  (void) state;
  tamis_filter *f = make_full(TAMIS_LAYOUT_BLOCKED, 100);
  struct call a = {.filter = f, .hash = 7};
  stop_at(&a, "bloom_layer_created");
  uint64_t found = 0;
  for (uint64_t i = 0; i < 100000; i++)
    found += tamis_contains_hash(f, 1000000 + i);
  assert_in_range(found, 0, 250);
  assert_int_equal(go_on(&a), TAMIS_OK);
  tamis_destroy(f);
}

/* Two adds create the next layer at the same time: one is thrown away.  A third one waits for
 * them. */
static void of_two_layers_one_is_thrown_away(void **state)
{
  (void) state;
  tamis_filter *f = make_full(TAMIS_LAYOUT_BLOCKED, 100);
  struct call a = {.filter = f, .hash = 7}, b = {.filter = f, .hash = 8},
              c = {.filter = f, .hash = 9};
  schedule_stop_at("bloom_layer_created");
  start(&a);
  start(&b);
  schedule_wait("bloom_layer_created", 2);
  start(&c);
  schedule_wait("bloom_layer_awaited", 1);
  go_on(&a);
  finish(&b);
  finish(&c);
  assert_true(a.result == TAMIS_OK && b.result == TAMIS_OK && c.result == TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 2);
  for (uint64_t key = 7; key < 10; key++)
    assert_true(tamis_contains_hash(f, key));
  assert_valid(f);
  tamis_destroy(f);
}

static void *allocate_counted(void *context, size_t alignment, size_t size)
{
  *(_Atomic uint64_t *) context += size;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void release_counted(void *context, void *block, size_t alignment, size_t size)
{
  (void) alignment;
  *(_Atomic uint64_t *) context -= size;
  free(block);
}

static tamis_filter *make_counted(const tamis_allocator *allocator, uint64_t max_bytes)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 100;
  options.fpp = 0.0025;
  options.seed = 42;
  options.max_bytes = max_bytes;
  options.allocator = allocator;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

/* A union has created the layers that it needs, for which max_bytes has just room.  An add that
 * needs the first of them waits. */
static void a_union_opens_its_layers_alone(void **state)
{
  (void) state;
  _Atomic uint64_t bytes = 0, of_others = 0;
  const tamis_allocator counted = {allocate_counted, release_counted, (void *) &bytes};
  const tamis_allocator others = {allocate_counted, release_counted, (void *) &of_others};
  tamis_filter *from = make_counted(&others, 0), *like = make_counted(&others, 1 << 20);
  for (uint64_t i = 1000; stats_of(from).layers < 3; i++)
    assert_int_equal(tamis_add_hash(from, i), TAMIS_OK);
  assert_int_equal(tamis_merge(like, from), TAMIS_OK);
  const uint64_t max_bytes = stats_of(like).bytes;
  tamis_filter *f = make_counted(&counted, max_bytes);
  for (uint64_t i = 0; stats_of(f).count < 100; i++)
    assert_int_equal(tamis_add_hash(f, i << 32), TAMIS_OK);
  struct call a = {.filter = f, .from = from}, b = {.filter = f, .hash = 8};
  stop_at(&a, "bloom_layer_created");
  assert_int_equal(bytes, max_bytes);
  start(&b);
  schedule_wait_either("bloom_layer_awaited", 1, "bloom_layer_created", 2);
  assert_int_equal(bytes, max_bytes);
  go_on(&a);
  finish(&b);
  assert_true(a.result == TAMIS_OK && b.result == TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 3);
  tamis_destroy(f);
  tamis_destroy(from);
  tamis_destroy(like);
}

/* ---- no memory for a layer ---- */

static unsigned plans;

static void count_plans(const char *name)
{
  plans += !strcmp(name, "bloom_layer_planned");
}

static bool refuses;

static void *give_or_refuse(void *context, size_t alignment, size_t size)
{
  (void) context;
  return refuses ? NULL : aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void take_back(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment, (void) size;
  free(block);
}

/* Each key that has no room asks the allocator again; but a plan takes as long as thousands of
 * adds. */
static void a_layer_that_is_refused_is_planned_once(void **state)
{
  (void) state;
  void (*installed)(const char *) = atomic_load(&tamis__hook);
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_allocator allocator = {.allocate = give_or_refuse, .release = take_back};
  options.capacity = 1000;
  options.growable = true;
  options.fpp = 1e-4;
  options.allocator = &allocator;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  refuses = true;
  uint64_t key = 0;
  while (tamis_add_hash(f, key) == TAMIS_OK)
    key++;
  plans = 0;
  atomic_store(&tamis__hook, count_plans);
  for (unsigned i = 0; i < 100; i++)
    assert_int_equal((i % 2 ? tamis_add_hash : tamis_add_unique_hash)(f, key), TAMIS_ENOMEM);
  atomic_store(&tamis__hook, installed);
  assert_int_equal(plans, 0);
  refuses = false;
  assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  tamis_destroy(f);
}

/* The newest layer is full, and there is no memory for another one: a late add gets in. */
static void a_late_add_needs_no_room(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    tamis_options options = TAMIS_OPTIONS_INIT;
    tamis_allocator allocator = {.allocate = give_or_refuse, .release = take_back};
    options.layout = layouts[i];
    options.capacity = 1000;
    options.allocator = &allocator;
    options.seed = 42;
    struct call a = {.hash = 7};
    assert_int_equal(tamis_create(&options, &a.filter), TAMIS_OK);
    fill_up(a.filter, 998);
    stop_at(&a, "bloom_room_found");
    open_layer(a.filter);
    refuses = true;
    for (uint64_t key = UINT64_C(1) << 33; tamis_add_hash(a.filter, key) == TAMIS_OK; key++)
      ;
    assert_int_equal(tamis_add_unique_hash(a.filter, 8), TAMIS_ENOMEM);
    assert_int_equal(go_on(&a), TAMIS_OK);
    refuses = false;
    assert_int_equal(stats_of(a.filter).layers, 2);
    assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_PRESENT);
    assert_valid(a.filter);
    tamis_destroy(a.filter);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_two_unique_adds_that_miss_the_key_one_wins),
      cmocka_unit_test(whoever_sets_the_last_bit_wins),
      cmocka_unit_test(nobody_waits_for_a_unique_add),
      cmocka_unit_test(a_half_added_key_is_absent),
      cmocka_unit_test(a_unique_add_that_is_overtaken_does_not_win),
      cmocka_unit_test(adds_that_share_a_key_count_it_once),
      cmocka_unit_test(another_key_in_a_narrow_gap_hides_nothing),
      cmocka_unit_test(bits_of_other_keys_do_not_take_the_win),
      cmocka_unit_test(in_a_word_one_of_two_unique_adds_wins),
      cmocka_unit_test(in_a_word_a_refusal_is_final),
      cmocka_unit_test(in_a_word_a_refusal_may_come_too_late),
      cmocka_unit_test(a_union_loses_no_bit_that_is_set_meanwhile),
      cmocka_unit_test(a_unique_add_that_a_union_overtakes_does_not_win),
      cmocka_unit_test(one_unique_add_wins_while_a_union_brings_its_key),
      cmocka_unit_test(a_union_changes_no_marked_word),
      cmocka_unit_test(a_union_stops_where_the_filter_is_full),
      cmocka_unit_test(of_two_unique_adds_across_an_opening_one_wins),
      cmocka_unit_test(a_full_layer_takes_no_unique_add),
      cmocka_unit_test(a_late_add_meets_a_winner),
      cmocka_unit_test(a_late_add_searches_all_layers_above),
      cmocka_unit_test(a_late_add_that_has_set_nothing_does_not_win),
      cmocka_unit_test(a_late_add_far_from_full_meets_a_winner),
      cmocka_unit_test(a_late_add_needs_no_room),
      cmocka_unit_test(a_late_add_wins_in_the_newest_layer),
      cmocka_unit_test(no_unique_add_wins_after_a_refusal),
      cmocka_unit_test(no_unique_add_far_from_full_wins_after_a_refusal),
      cmocka_unit_test(a_plain_add_that_has_found_room_is_not_refused),
      cmocka_unit_test(a_refusal_may_come_too_late),
      cmocka_unit_test(a_layer_is_empty_when_it_is_published),
      cmocka_unit_test(of_two_layers_one_is_thrown_away),
      cmocka_unit_test(a_union_opens_its_layers_alone),
      cmocka_unit_test(a_layer_that_is_refused_is_planned_once),
  };
  return cmocka_run_group_tests_name("bloom_schedule", tests, NULL, NULL);
}
