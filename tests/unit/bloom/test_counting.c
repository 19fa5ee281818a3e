/* SPDX-License-Identifier: MIT
 *
 * Bloom filters that count: what their calls do.
 */
#include "bloom/counting.h"
#include "bloom_unit.h"
#include "harness.h"
#include "saved_unit.h"

static tamis_filter *make(uint64_t capacity, double fpp, bool growable)
{
  const tamis_options options = seeded_options(TAMIS_COUNTING_BLOOM, capacity, fpp, growable);
  return make_with_options(&options);
}

/* ---- words as values ---- */

static uint64_t counter(uint64_t counters, unsigned i)
{
  return counters >> 4 * i & 15;
}

/* Each counter changes by itself, and one that is 15 no more. */
TEST(counters_are_sixteen_numbers)
{
  const uint64_t lowest = UINT64_C(0x1111111111111111);
  for (uint64_t i = 0; i < 100000; i++) {
    uint64_t counters = random_at(1, i), own = random_at(2, i) & lowest;
    counters |= i % 2 ? 0 : (random_at(3, i) & lowest) * 15;
    uint64_t raised = counters_raised(counters, own),
             lowered = counters_lowered(counters | own, own);
    bool have = true;
    for (unsigned c = 0; c < 16; c++) {
      uint64_t old = counter(counters, c), of_key = counter(own, c);
      assert_int_equal(counter(raised, c), old == 15 ? 15 : old + of_key);
      uint64_t some = old | of_key;
      assert_int_equal(counter(lowered, c), some == 15 ? 15 : some - of_key);
      have &= old || !of_key;
    }
    assert_int_equal(counters_have(counters, own), have);
    struct counting_census census = {0};
    counting_census_add(&census, counters);
    uint64_t sum = 0, stuck = 0;
    for (unsigned c = 0; c < 16; c++) {
      sum += counter(counters, c);
      stuck += counter(counters, c) == 15;
    }
    assert_int_equal(census.sum, sum);
    assert_int_equal(census.stuck, stuck > 0);
  }
}

/* ---- keys ---- */

/* Every key that stays is there, whatever other keys do; one whose counters are stuck stays for
 * ever. */
TEST(stuck_counters_lose_no_key)
{
  tamis_filter *f = make(100, 0.01, true);
  for (uint64_t i = 0; i < 100; i++)
    for (unsigned copies = 0; copies < 30; copies++)
      tamis_add_hash(f, i);
  for (uint64_t i = 0; i < 100; i += 2)
    for (unsigned copies = 0; copies < 40; copies++)
      assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
  for (uint64_t i = 0; i < 100; i++)
    assert_true(tamis_contains_hash(f, i) && tamis_count_hash(f, i) == 15);
  assert_valid(f);
  for (uint64_t i = 1; i < 100; i += 2)
    for (unsigned copies = 0; copies < 30; copies++)
      assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
  assert_int_equal(stats_of(f).count, 0); /* some were removed too often */
  tamis_destroy(f);
}

/* ---- sizes, rates, limits ---- */

/* A stripe for each of its two lines would take as much as they do. */
TEST(a_small_filter_has_one_stripe)
{
  tamis_filter *f = make(10, 0.01, false);
  assert_int_equal(bloom_of(f)->word_count, 2 * LINE_WORDS);
  assert_int_equal(bloom_of(f)->stripe_mask, 0);
  assert_true(stats_of(f).bytes <= 384);
  assert_int_equal(tamis_add_hash(f, 1), TAMIS_OK);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- several filters ---- */

/* Filters that are united with each other in turn have more copies with each union, which are soon
 * more than a file has room for: then it has the most.  All counters are stuck by then. */
TEST(a_union_sticks_at_fifteen)
{
  tamis_filter *f[] = {make(100, 0.01, true), make(100, 0.01, true)};
  for (unsigned i = 0; i < 9; i++)
    tamis_add_hash(f[0], 1), tamis_add_hash(f[1], 1);
  for (unsigned unions = 0; unions < 100; unions++) {
    tamis_filter *into = f[unions % 2];
    assert_int_equal(tamis_merge(into, f[1 - unions % 2]), TAMIS_OK);
    assert_int_equal(tamis_count_hash(into, 1), 15);
    tamis_filter *loaded = copy_of(into);
    assert_int_equal(tamis_count_hash(loaded, 1), 15);
    tamis_destroy(loaded);
  }
  for (unsigned i = 0; i < 18; i++)
    assert_int_equal(tamis_remove_hash(f[0], 1), TAMIS_OK);
  assert_true(tamis_contains_hash(f[0], 1));
  tamis_destroy(f[0]), tamis_destroy(f[1]);
}

TEST(a_full_filter_is_united_with_an_empty_one)
{
  tamis_filter *full = make(100, 0.01, false), *empty = make(100, 0.01, false);
  for (unsigned i = 0; i < 100; i++)
    assert_int_equal(tamis_add_hash(full, 1), TAMIS_OK);
  assert_int_equal(tamis_add_hash(full, 1), TAMIS_EFULL);
  assert_int_equal(tamis_merge(full, empty), TAMIS_OK);
  assert_int_equal(stats_of(full).count, 100);
  tamis_destroy(full), tamis_destroy(empty);
}

/* ---- validation ---- */

TEST(validation_finds_what_is_wrong)
{
  tamis_filter *f = make(100, 0.01, true);
  tamis_add_hash(f, 1);
  assert_valid(f);
  word *first = &bloom_of(f)->words[0];
  atomic_fetch_add(first, 1);
  assert_broken(f, "counted copies are not the counters");
  atomic_fetch_sub(first, 1);
  struct stripe *stripe = bloom_stripe(bloom_of(f), 0);
  stripe_lock(stripe);
  assert_broken(f, "a stripe is still locked");
  stripe_unlock(stripe);
  tamis_destroy(f);
}
