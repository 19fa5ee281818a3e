/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of a Bloom filter that counts, each replayed exactly.  Built with the
 * hooks.
 */
#include "play.h"

#include "bloom/bloom.h"
#include "bloom/counting.h"
#include "filter_unit.h"

/* Of which a small filter would have one stripe.  Three words of two counters for each key. */
#define COUNTING .kind = TAMIS_COUNTING_BLOOM, .fpp = 0.01, .stripes = 64

static const struct setup setups[] = {
    {"counting", COUNTING, .capacity = 100},
    {"for two keys", COUNTING, .capacity = 2, .fixed = true},
    {"for one key", COUNTING, .capacity = 1, .fixed = true},
};
enum { COUNTED = 1, FOR_TWO = 2, FOR_ONE = 4 };

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

/* ---- verbs ---- */

/* x has the words of a key, and no counter of it. */
DEED(choose, hash)
{
  assert_int_equal(const_bloom_of(f)->probes, 3);
  for (stage.x = 1000; !related(f, hash, stage.x, false);)
    stage.x++;
}

/* Whether the first word of a key, which has been added alone, has its counters, and the last one none. */
VERB(first_word_only, hash)
{
  struct key_counters key = counters_of(f, hash);
  return counters_have(word_load(word_of(&key, 0)), key.at[0].mask) &&
         !word_load(word_of(&key, key.n - 1));
}

/* Adds keys that have the key's counters in its last word, and none of its others. */
DEED(fill_last, hash)
{
  struct key_counters key = counters_of(f, hash);
  const unsigned last = key.at[key.n - 1].word % LINE_WORDS;
  uint64_t covered = 0;
  for (uint64_t i = 1000; covered != own_in(&key, last); i++) {
    struct key_counters other = counters_of(f, i);
    bool elsewhere = false;
    for (unsigned w = 0; w < LINE_WORDS; w++)
      elsewhere |= w != last && (own_in(&other, w) & own_in(&key, w)) != 0;
    if (line_of(&other) != line_of(&key) || elsewhere ||
        !(own_in(&other, last) & own_in(&key, last) & ~covered))
      continue;
    tamis_add_hash(f, i);
    covered |= own_in(&other, last) & own_in(&key, last);
  }
}

/* Adds a key, and others that hide x, which has a counter in common with it, and which is never added. */
DEED(hide, hash)
{
  for (stage.x = 100001; !related(f, hash, stage.x, true);) /* few keys in its line hide it */
    stage.x++;
  struct key_counters wanted = counters_of(f, stage.x), own = counters_of(f, hash);
  tamis_add_hash(f, hash);
  for (uint64_t i = 2000; !tamis_contains_hash(f, stage.x); i++) {
    struct key_counters key = counters_of(f, i);
    bool helps = false, hurts = false;
    for (unsigned w = 0; w < LINE_WORDS; w++) {
      helps |= (own_in(&key, w) & own_in(&wanted, w) &
                ~bloom_positions_set(line_of(&wanted)[w], BLOOM_LAYOUT_COUNTING)) != 0;
      hurts |= (own_in(&key, w) & own_in(&wanted, w) & own_in(&own, w)) != 0;
    }
    if (line_of(&key) == line_of(&wanted) && helps && !hurts)
      tamis_add_hash(f, i);
  }
}

static const struct row rows[] = {
    /* Half-done calls. */
    {"a_half_added_key_is_absent", COUNTED, "counting_word_raised",
     "a: add 7 @*; contains 7 = 0; remove 7 = ABSENT; a = OK; contains 7 = 1"},
    {"a_half_removed_key_is_absent", COUNTED, "counting_word_lowered",
     "add 7; a: remove 7 @*; contains 7 = 0; add 7; contains 7 = 1; a = OK; contains 7 = 1;"
     "copies 7 = 1"},
    /* The last word tells whether a key is in.  A remove that has changed one word has changed the
     * last one, and an add that has changed one the first. */
    {"adds_and_removes_go_opposite_ways", COUNTED, NULL,
     "each 1..10; a: add % @counting_word_raised; first_word_only % = 1; a = OK;"
     "a: remove % @counting_word_lowered; first_word_only % = 1; a = OK;"
     "a: unique % @counting_word_raised; first_word_only % = 1; a = OK"},
    /* Another key's counters in the same word change between a reading of the word and its change.
     * (Two removes of one line come one after the other.) */
    {"no_change_of_a_word_is_lost", COUNTED, "counting_word_read",
     "choose 7; a: add 7 @*; add x; a = OK; contains 7 = 1; contains x = 1"},
    {"no_change_of_a_word_is_lost", COUNTED, "counting_word_read",
     "choose 7; add 7; a: remove 7 @*; add x; a = OK; contains 7 = 0; contains x = 1"},
    {"no_change_of_a_word_is_lost", COUNTED, "counting_word_read",
     "choose 7; add x; a: add 7 @*; remove x; a = OK; contains 7 = 1; contains x = 0"},
    /* The stripe of a line. */
    {"of_two_removes_of_one_copy_one_finds_it", COUNTED, "counting_key_found_under_stripe",
     "note; add 7; a: remove 7 @*; b: remove 7; a b = OK ABSENT; more bits_set = 0"},
    /* That takes keys away, but no counter goes below 0: whichever comes first, the other one
     * finds a counter at 0 that both need. */
    {"a_false_positive_is_removed_with_the_key_that_hides_it", COUNTED,
     "counting_key_found_under_stripe",
     "hide 7; note; a: remove x @*; b: remove 7; a b = OK ABSENT; more count = -1"},
    /* Unique adds. */
    {"of_two_unique_adds_one_wins", COUNTED, "bloom_key_missed",
     "a: unique 7 @*; b: unique 7 @*; a b = OK PRESENT; copies 7 = 1"},
    {"a_unique_add_that_is_overtaken_does_not_win", COUNTED,
     "bloom_key_missed bloom_key_missed_under_stripe counting_word_read counting_word_raised "
     "counting_gap_read counting_others_read",
     "a: unique 7 @*; contains 7 = 0; add 7; a = PRESENT; copies 7 = 1; count = 1"},
    /* It has won by then. */
    {"an_add_that_comes_after_the_gap_does_not_undo_a_win", COUNTED, "counting_won",
     "a: unique 7 @*; contains 7 = 1; add 7; a = OK; copies 7 = 2"},
    /* Other keys have the key's last counters, so the gap is an earlier word.  The key is not
     * found before the call has won, so nobody can see it and be told afterwards that it was not
     * added. */
    {"the_gap_is_raised_last", COUNTED, "counting_gap_read",
     "fill_last 7; a: unique 7 @*; contains 7 = 0; add 7; a = PRESENT"},
    /* Other keys fill the gap while the call runs.  The key was not in, and is added. */
    {"a_gap_that_another_key_fills_is_no_copy", COUNTED, "bloom_key_missed_under_stripe",
     "a: unique 7 @*; fill_last 7; note; a = OK; contains 7 = 1; more count = 1"},
    /* The room that an overtaken unique add has taken comes back. */
    {"an_overtaken_unique_add_takes_no_room", FOR_TWO, "counting_gap_read",
     "a: unique 7 @*; add 7; add 8 = FULL; a = PRESENT; count = 1; add 8; add 9 = FULL"},
    {"a_place_is_taken_once", FOR_ONE, "counting_places_read",
     "a: add 7 @*; add 8; a = FULL; count = 1; contains 7 = 0"},
    /* Unions. */
    {"a_union_loses_nothing_that_changes_meanwhile", COUNTED, "counting_union_word_read",
     "give 0..49; a: merge @*; add 100..149; a = OK; remove 0..49; contains 100..149 = 1;"
     "count = 50"},
    {"a_union_counts_what_it_has_read", COUNTED, "counting_word_united#3",
     "give 7*6; a: merge @*; take 7*6; a = OK; copies 7 = 6; count = 6"},
    {"a_union_does_not_overtake_a_unique_add", COUNTED, "counting_others_read",
     "give 7; a: unique 7 @*; b: merge; returned = 0; a b = OK OK; copies 7 = 2"},
};

int main(void)
{
  return run_schedules(setups, rows, sizeof rows / sizeof *rows);
}
