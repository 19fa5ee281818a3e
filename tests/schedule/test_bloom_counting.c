/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of a Bloom filter that counts, each replayed exactly.  Built with the
 * hooks.
 */
#include "calls.h"

#include "bloom/bloom.h"
#include "bloom/counting.h"
#include "filter_unit.h"

static tamis_filter *make_with(uint64_t capacity, bool growable)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_COUNTING_BLOOM;
  options.capacity = capacity;
  options.growable = growable;
  options.seed = 42;
  options.stripes = 64; /* of which a small filter would have one */
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

/* Three words of two counters for each key. */
static tamis_filter *make(void)
{
  tamis_filter *f = make_with(100, true);
  assert_int_equal(const_bloom_of(f)->probes, 3);
  return f;
}

static struct key_counters counters_of(const tamis_filter *f, uint64_t hash)
{
  const struct bloom *b = const_bloom_of(f);
  uint64_t mixed = hash_mix(&f->keys, hash);
  return counters_of_key(b, (struct bloom_key){mixed, bloom_first_word(b->word_count, mixed)},
                         bloom_shape_of(b));
}

static word *line_of(const struct key_counters *key)
{
  return &key->words[key->at[0].word / LINE_WORDS * LINE_WORDS];
}

/* The counters that a key has in a word of its line. */
static uint64_t own_in(const struct key_counters *key, unsigned word_of_line)
{
  for (unsigned i = 0; i < key->n; i++)
    if (key->at[i].word % LINE_WORDS == word_of_line)
      return key->at[i].mask;
  return 0;
}

/* Whether two keys have the same words, or with `shared` the same line, and a counter in common
 * only with `shared`. */
static bool related(const tamis_filter *f, uint64_t a, uint64_t b, bool shared)
{
  struct key_counters of_a = counters_of(f, a), of_b = counters_of(f, b);
  bool same_words = true, common = false;
  for (unsigned i = 0; i < LINE_WORDS; i++) {
    same_words &= !own_in(&of_a, i) == !own_in(&of_b, i);
    common |= (own_in(&of_a, i) & own_in(&of_b, i)) != 0;
  }
  return line_of(&of_a) == line_of(&of_b) && (same_words || shared) && common == shared;
}

static uint64_t relative_of(const tamis_filter *f, uint64_t a, bool shared)
{
  for (uint64_t b = 1000;; b++)
    if (related(f, a, b, shared))
      return b;
}

/* Adds keys that have the key's counters in its last word, and none of its others. */
static void fill_last_word(tamis_filter *f, uint64_t hash)
{
  struct key_counters key = counters_of(f, hash);
  unsigned last = LINE_WORDS - 1;
  while (!own_in(&key, last))
    last--;
  uint64_t covered = 0;
  for (uint64_t i = 1000; covered != own_in(&key, last); i++) {
    struct key_counters other = counters_of(f, i);
    bool elsewhere = false;
    for (unsigned w = 0; w < last; w++)
      elsewhere |= (own_in(&other, w) & own_in(&key, w)) != 0;
    if (line_of(&other) != line_of(&key) || elsewhere ||
        !(own_in(&other, last) & own_in(&key, last) & ~covered))
      continue;
    tamis_add_hash(f, i);
    covered |= own_in(&other, last) & own_in(&key, last);
  }
}

/* ---- half-done calls ---- */

static void a_half_added_key_is_absent(void **state)
{
  (void) state;
  tamis_filter *f = make();
  struct call add = {.filter = f, .hash = 7, .function = tamis_add_hash};
  stop_at(&add, "counting_word_raised");
  assert_false(tamis_contains_hash(f, 7));
  assert_int_equal(tamis_remove_hash(f, 7), TAMIS_ABSENT);
  go_on(&add);
  assert_true(tamis_contains_hash(f, 7));
  assert_valid(f);
  tamis_destroy(f);
}

static void a_half_removed_key_is_absent(void **state)
{
  (void) state;
  tamis_filter *f = make();
  tamis_add_hash(f, 7);
  struct call removal = {.filter = f, .hash = 7, .function = tamis_remove_hash};
  stop_at(&removal, "counting_word_lowered");
  assert_false(tamis_contains_hash(f, 7));
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  assert_true(tamis_contains_hash(f, 7));
  assert_int_equal(go_on(&removal), TAMIS_OK);
  assert_true(tamis_contains_hash(f, 7));
  assert_int_equal(tamis_count_hash(f, 7), 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* The last word tells whether a key is in.  A remove that has changed one word has changed the last
 * one, and an add that has changed one the first. */
static void expect_opposite_ways(uint64_t hash)
{
  tamis_filter *f = make();
  struct key_counters key = counters_of(f, hash);
  unsigned first = 0, last = LINE_WORDS - 1;
  while (!own_in(&key, first))
    first++;
  while (!own_in(&key, last))
    last--;
  struct call add = {.filter = f, .hash = hash, .function = tamis_add_hash}, removal = add,
              unique = add;
  removal.function = tamis_remove_hash;
  unique.function = tamis_add_unique_hash;
  stop_at(&add, "counting_word_raised");
  assert_true(counters_have(line_of(&key)[first], own_in(&key, first)));
  assert_int_equal(line_of(&key)[last], 0);
  go_on(&add);
  stop_at(&removal, "counting_word_lowered");
  assert_true(counters_have(line_of(&key)[first], own_in(&key, first)));
  assert_int_equal(line_of(&key)[last], 0);
  go_on(&removal);
  stop_at(&unique, "counting_word_raised");
  assert_true(counters_have(line_of(&key)[first], own_in(&key, first)));
  assert_int_equal(line_of(&key)[last], 0);
  go_on(&unique);
  tamis_destroy(f);
}

/* The probes of most keys are not in the order of the words. */
static void adds_and_removes_go_opposite_ways(void **state)
{
  (void) state;
  for (uint64_t hash = 1; hash <= 10; hash++)
    expect_opposite_ways(hash);
}

/* ---- words that change meanwhile ---- */

/* Another key's counters in the same word change between a reading of the word and its change. */
static void no_change_of_a_word_is_lost(void **state)
{
  (void) state;
  for (unsigned round = 0; round < 4; round++) {
    tamis_filter *f = make();
    uint64_t other = relative_of(f, 7, false);
    bool removes = round % 2, other_removes = round / 2;
    if (removes)
      tamis_add_hash(f, 7);
    if (other_removes)
      tamis_add_hash(f, other);
    struct call call = {
        .filter = f, .hash = 7, .function = removes ? tamis_remove_hash : tamis_add_hash};
    stop_at(&call, "counting_word_read");
    if (!other_removes)
      assert_int_equal(tamis_add_hash(f, other), TAMIS_OK);
    else if (!removes) /* two removes of one line come one after the other */
      assert_int_equal(tamis_remove_hash(f, other), TAMIS_OK);
    assert_int_equal(go_on(&call), TAMIS_OK);
    assert_int_equal(tamis_contains_hash(f, 7), !removes);
    assert_int_equal(tamis_contains_hash(f, other), !other_removes || removes);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- the stripe of a line ---- */

static void of_two_removes_of_one_copy_one_finds_it(void **state)
{
  (void) state;
  tamis_filter *f = make();
  tamis_add_hash(f, 7);
  struct call a = {.filter = f, .hash = 7, .function = tamis_remove_hash}, b = a;
  start_and_stop(&a, "counting_key_found_under_stripe");
  start(&b);
  schedule_wait_either("stripe_wait", 1, "counting_key_found_under_stripe", 2);
  go_on(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal((a.result == TAMIS_ABSENT) + (b.result == TAMIS_ABSENT), 1);
  assert_valid(f);
  assert_int_equal(stats_of(f).bits_set, 0);
  tamis_destroy(f);
}

/* A key that was never added, and that others hide, is removed while one of these is.  That takes
 * keys away, but no counter goes below 0. */
static void a_false_positive_is_removed_with_the_key_that_hides_it(void **state)
{
  (void) state;
  tamis_filter *f = make();
  uint64_t x = 7, hidden = 0;
  for (uint64_t seed = 1; !hidden; seed++) { /* few keys in its line hide it */
    uint64_t hash = 100000 + seed;
    if (related(f, x, hash, true))
      hidden = hash;
  }
  struct key_counters wanted = counters_of(f, hidden), of_x = counters_of(f, x);
  tamis_add_hash(f, x);
  for (uint64_t i = 2000; !tamis_contains_hash(f, hidden); i++) {
    struct key_counters key = counters_of(f, i);
    bool helps = false, hurts = false;
    for (unsigned w = 0; w < LINE_WORDS; w++) {
      helps |= (own_in(&key, w) & own_in(&wanted, w) &
                ~bloom_positions_set(line_of(&wanted)[w], BLOOM_LAYOUT_COUNTING)) != 0;
      hurts |= (own_in(&key, w) & own_in(&wanted, w) & own_in(&of_x, w)) != 0;
    }
    if (line_of(&key) == line_of(&wanted) && helps && !hurts)
      tamis_add_hash(f, i);
  }
  uint64_t count = stats_of(f).count;
  struct call a = {.filter = f, .hash = hidden, .function = tamis_remove_hash}, b = a;
  b.hash = x;
  start_and_stop(&a, "counting_key_found_under_stripe");
  start(&b);
  schedule_wait_either("stripe_wait", 1, "counting_key_found_under_stripe", 2);
  go_on(&a);
  finish(&b);
  /* Whichever came first, the other one found a counter at 0 that both need. */
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal(stats_of(f).count, count - 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- unique adds ---- */

static void of_two_unique_adds_one_wins(void **state)
{
  (void) state;
  tamis_filter *f = make();
  struct call a = {.filter = f, .hash = 7, .function = tamis_add_unique_hash}, b = a;
  schedule_stop_at("bloom_key_missed");
  start(&a);
  start(&b);
  schedule_wait("bloom_key_missed", 2);
  go_on(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal(tamis_count_hash(f, 7), 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* A plain add brings the key while a unique add is at each of its steps. */
static void a_unique_add_that_is_overtaken_does_not_win(void **state)
{
  (void) state;
  static const char *const hooks[] = {"bloom_key_missed",   "bloom_key_missed_under_stripe",
                                      "counting_word_read", "counting_word_raised",
                                      "counting_gap_read",  "counting_others_read"};
  for (unsigned i = 0; i < sizeof hooks / sizeof *hooks; i++) {
    tamis_filter *f = make();
    struct call unique = {.filter = f, .hash = 7, .function = tamis_add_unique_hash};
    stop_at(&unique, hooks[i]);
    assert_false(tamis_contains_hash(f, 7));
    assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
    assert_int_equal(go_on(&unique), TAMIS_PRESENT);
    assert_int_equal(tamis_count_hash(f, 7), 1);
    assert_int_equal(stats_of(f).count, 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* It has won by then. */
static void an_add_that_comes_after_the_gap_does_not_undo_a_win(void **state)
{
  (void) state;
  tamis_filter *f = make();
  struct call unique = {.filter = f, .hash = 7, .function = tamis_add_unique_hash};
  stop_at(&unique, "counting_won");
  assert_true(tamis_contains_hash(f, 7));
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&unique), TAMIS_OK);
  assert_int_equal(tamis_count_hash(f, 7), 2);
  assert_valid(f);
  tamis_destroy(f);
}

/* Other keys have the key's last counters, so the gap is an earlier word.  The key is not found
 * before the call has won, so nobody can see it and be told afterwards that it was not added. */
static void the_gap_is_raised_last(void **state)
{
  (void) state;
  tamis_filter *f = make();
  fill_last_word(f, 7);
  struct call unique = {.filter = f, .hash = 7, .function = tamis_add_unique_hash};
  stop_at(&unique, "counting_gap_read");
  assert_false(tamis_contains_hash(f, 7));
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&unique), TAMIS_PRESENT);
  assert_valid(f);
  tamis_destroy(f);
}

/* Other keys fill the gap while the call runs.  The key was not in, and is added. */
static void a_gap_that_another_key_fills_is_no_copy(void **state)
{
  (void) state;
  tamis_filter *f = make();
  struct call unique = {.filter = f, .hash = 7, .function = tamis_add_unique_hash};
  stop_at(&unique, "bloom_key_missed_under_stripe");
  fill_last_word(f, 7);
  uint64_t count = stats_of(f).count;
  assert_int_equal(go_on(&unique), TAMIS_OK);
  assert_true(tamis_contains_hash(f, 7));
  assert_int_equal(stats_of(f).count, count + 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* The room that an overtaken unique add has taken comes back. */
static void an_overtaken_unique_add_takes_no_room(void **state)
{
  (void) state;
  tamis_filter *f = make_with(2, false);
  struct call unique = {.filter = f, .hash = 7, .function = tamis_add_unique_hash};
  stop_at(&unique, "counting_gap_read");
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 8), TAMIS_EFULL); /* the other place is taken */
  assert_int_equal(go_on(&unique), TAMIS_PRESENT);
  assert_int_equal(stats_of(f).count, 1);
  assert_int_equal(tamis_add_hash(f, 8), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 9), TAMIS_EFULL);
  assert_valid(f);
  tamis_destroy(f);
}

/* Two adds want the last place: the second one takes it while the first one is about to. */
static void a_place_is_taken_once(void **state)
{
  (void) state;
  tamis_filter *f = make_with(1, false);
  struct call add = {.filter = f, .hash = 7, .function = tamis_add_hash};
  stop_at(&add, "counting_places_read");
  assert_int_equal(tamis_add_hash(f, 8), TAMIS_OK);
  assert_int_equal(go_on(&add), TAMIS_EFULL);
  assert_int_equal(stats_of(f).count, 1);
  assert_false(tamis_contains_hash(f, 7));
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- unions ---- */

static void a_union_loses_nothing_that_changes_meanwhile(void **state)
{
  (void) state;
  tamis_filter *into = make(), *from = make();
  for (uint64_t i = 0; i < 50; i++)
    tamis_add_hash(from, i);
  struct call merge = {.filter = into, .from = from};
  stop_at(&merge, "counting_union_word_read");
  for (uint64_t i = 100; i < 150; i++)
    assert_int_equal(tamis_add_hash(into, i), TAMIS_OK);
  assert_int_equal(go_on(&merge), TAMIS_OK);
  for (uint64_t i = 0; i < 50; i++) {
    assert_int_equal(tamis_remove_hash(into, i), TAMIS_OK);
    assert_true(tamis_contains_hash(into, 100 + i));
  }
  assert_int_equal(stats_of(into).count, 50);
  assert_valid(into);
  tamis_destroy(into);
  tamis_destroy(from);
}

/* A unique add of a key that a union is bringing does not win once it is there. */
static void a_unique_add_that_a_union_overtakes_does_not_win(void **state)
{
  (void) state;
  tamis_filter *into = make(), *from = make();
  tamis_add_hash(from, 7);
  struct call unique = {.filter = into, .hash = 7, .function = tamis_add_unique_hash};
  stop_at(&unique, "counting_others_read");
  assert_int_equal(tamis_merge(into, from), TAMIS_OK);
  assert_int_equal(go_on(&unique), TAMIS_PRESENT);
  assert_int_equal(tamis_count_hash(into, 7), 1);
  assert_valid(into);
  tamis_destroy(into);
  tamis_destroy(from);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_half_added_key_is_absent),
      cmocka_unit_test(a_half_removed_key_is_absent),
      cmocka_unit_test(adds_and_removes_go_opposite_ways),
      cmocka_unit_test(no_change_of_a_word_is_lost),
      cmocka_unit_test(of_two_removes_of_one_copy_one_finds_it),
      cmocka_unit_test(a_false_positive_is_removed_with_the_key_that_hides_it),
      cmocka_unit_test(of_two_unique_adds_one_wins),
      cmocka_unit_test(a_unique_add_that_is_overtaken_does_not_win),
      cmocka_unit_test(an_add_that_comes_after_the_gap_does_not_undo_a_win),
      cmocka_unit_test(the_gap_is_raised_last),
      cmocka_unit_test(a_gap_that_another_key_fills_is_no_copy),
      cmocka_unit_test(an_overtaken_unique_add_takes_no_room),
      cmocka_unit_test(a_place_is_taken_once),
      cmocka_unit_test(a_union_loses_nothing_that_changes_meanwhile),
      cmocka_unit_test(a_unique_add_that_a_union_overtakes_does_not_win),
  };
  return cmocka_run_group_tests_name("bloom_schedule_counting", tests, NULL, NULL);
}
