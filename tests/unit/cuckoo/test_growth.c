/* SPDX-License-Identifier: MIT
 *
 * Splits, joins, drops, and generations that are opened.
 */
#include "cuckoo_unit.h"

#include "cuckoo/growth.h"

#include <math.h>

TEST(growing_loses_nothing_and_keeps_the_rate)
{
  const double rates[] = {0.01, 0.001, 1e-6};
  const uint64_t capacities[] = {1000, 10};
  unsigned most_generations = 1;
  for (unsigned r = 0; r < 3; r++)
    for (unsigned c = 0; c < 2; c++) {
      tamis_filter *f = make(capacities[c], rates[r]);
      uint64_t in = 0;
      for (uint64_t n = 1000; n <= 200000 / SCALE; n = n * 2 == 128000 ? 200000 : n * 2) {
        add_range(f, in, n);
        in = n;
        assert_valid(f);
        assert_all_in(f, 0, in);
        tamis_stats s = stats_of(f);
        assert_int_equal(s.count, in);
        assert_true(s.fpp_estimate <= rates[r]);
        most_generations = s.generations > most_generations ? s.generations : most_generations;
        assert_rate(f, rates[r], n);
      }
      /* about the size of what is in use */
      tamis_stats s = stats_of(f);
      settle(f, 8 * in * (s.fingerprint_bits + 1) / 8 + 1000000);
      tamis_destroy(f);
    }
  assert_true(most_generations > 1);
}

/* The rate when all generations are full, each split as far as it may be. */
static double rate_of_all(const tamis_filter *f)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  double rate = cuckoo_growth_figure(c, excess);
  for (unsigned i = 0; i < cuckoo_generations(c); i++)
    rate +=
        generation_rate(cuckoo_generation(c, i), generation_split_limit(cuckoo_generation(c, i)));
  return rate;
}

/* However many generations there will be, and whatever the first one was planned for. */
TEST(the_rates_of_all_generations_add_up)
{
  uint64_t random = 1;
  for (unsigned i = 0; i < 40; i++) {
    double fpp = 0.5 * pow(10, -6 * random_uniform(&random));
    tamis_filter *f = make((uint64_t) pow(10, 4 * random_uniform(&random)), fpp);
    add_range(f, 0, 100000 / SCALE);
    assert_true(rate_of_all(f) <= fpp * (1 + 1e-9));
    tamis_destroy(f);
  }
}

/* Nothing but the rate ends the growth of a filter, however small it began. */
TEST(from_one_key_to_many)
{
  const double rates[] = {0.3, 0.05, 0.001};
  for (unsigned r = 0; r < 3; r++)
    for (uint64_t seed = 1; seed <= 3; seed++) {
      tamis_options options = options_for(1, rates[r]);
      options.seed = seed;
      tamis_filter *f = make_with_options(&options);
      uint64_t n = 50000 / SCALE;
      add_range(f, 0, n);
      assert_all_in(f, 0, n);
      assert_valid(f);
      assert_rate(f, rates[r], seed);
      remove_range(f, 0, n);
      assert_int_equal(stats_of(f).count, 0);
      assert_valid(f);
      tamis_destroy(f);
    }
}

/* Keys of one bucket pair with different fingerprints, as an attacker who knows the seed can
 * choose them.  They are refused when the pair is full: the filter does not grow for them, and
 * other keys find room. */
TEST(keys_of_one_pair_do_not_make_a_filter_grow)
{
  enum { CROWD = 64 };
  tamis_filter *f = make(300, 0.001);
  struct generation *generation = cuckoo_generation(cuckoo_of(f), 0);
  assert_int_equal(cuckoo_roots(&generation->geometry), 1);
  unsigned room = 2 * generation->geometry.shape.lanes;
  struct bucket_pair pair = pair_find(generation, hash_mix(&f->keys, 0));
  uint64_t crowd[CROWD], hash = 0;
  struct bucket_pair pairs[CROWD];
  for (unsigned n = 0; n < CROWD; hash++) {
    pairs[n] = pair_find(generation, hash_mix(&f->keys, hash));
    bool fits = pairs[n].lower == pair.lower && pairs[n].upper == pair.upper;
    for (unsigned i = 0; i < n; i++)
      fits &= pairs[i].entry != pairs[n].entry;
    if (fits)
      crowd[n++] = hash;
  }
  assert_int_equal(tamis_add_hash(f, crowd[0]), TAMIS_OK); /* makes the segment */
  tamis_stats before = stats_of(f);
  for (unsigned i = 1; i < CROWD; i++)
    assert_int_equal(tamis_add_hash(f, crowd[i]), i < room ? TAMIS_OK : TAMIS_EFULL);
  tamis_stats after = stats_of(f);
  assert_int_equal(after.count, room);
  assert_int_equal(after.growths, 0);
  assert_int_equal(after.generations, 1);
  assert_int_equal(after.bytes, before.bytes);
  for (unsigned i = 0; i < room; i++)
    assert_true(tamis_contains_hash(f, crowd[i]));
  uint64_t others = hash + 200;
  unsigned refused = 0;
  for (uint64_t i = hash; i < others; i++)
    refused += tamis_add_hash(f, i) != TAMIS_OK;
  assert_true(refused <= 2); /* keys of the same pair, if any */
  assert_valid(f);
  tamis_destroy(f);
}

/* A segment at the split limit can be full although it is less than half full.  The filter then opens a
 * generation. */
TEST(a_filter_without_limits_refuses_no_key)
{
  enum { KEYS = 2200000 };
  tamis_options options = options_for(1000, 0.001);
  options.seed = 3;
  tamis_filter *f = make_with_options(&options);
  for (uint64_t i = 0; i < KEYS; i++)
    assert_int_equal(tamis_add_hash(f, i * UINT64_C(0x9E3779B97F4A7C15)), TAMIS_OK);
  assert_int_equal(stats_of(f).generations, 2);
  tamis_destroy(f);
}

/* At the end of its growth a filter has lost nothing, and a remove makes room, in any
 * generation. */
static void assert_full_for_good(tamis_filter *f, uint64_t in)
{
  tamis_stats full = stats_of(f);
  assert_int_equal(full.count, in);
  assert_int_equal(tamis_add_hash(f, in), TAMIS_EFULL);
  assert_int_equal(tamis_add_unique_hash(f, in),
                   tamis_contains_hash(f, in) ? TAMIS_PRESENT : TAMIS_EFULL);
  tamis_stats still = stats_of(f);
  assert_same_contents(&full, &still);
  assert_all_in(f, 0, in);
  assert_valid(f);
  uint64_t gone = 0;
  while (tamis_add_hash(f, in) == TAMIS_EFULL && gone < in)
    assert_int_equal(tamis_remove_hash(f, gone++), TAMIS_OK);
  assert_true(gone >= 1 && gone < in);
  assert_all_in(f, gone, in + 1);
  assert_int_equal(stats_of(f).count, in + 1 - gone);
  assert_valid(f);
}

TEST(growth_ends_when_the_rate_is_used_up)
{
  const double rates[] = {0.3, 0.01};
  for (unsigned r = 0; r < 2; r++) {
    tamis_filter *f = make(1, rates[r]);
    cuckoo_of(f)->fpp = cuckoo_of(f)->first.geometry.rate; /* nothing is left for a second one */
    uint64_t in = 0;
    while (in < 100000 && tamis_add_hash(f, in) == TAMIS_OK)
      in++;
    assert_in_range(in, 10, 99999);
    assert_int_equal(stats_of(f).generations, 1);
    assert_full_for_good(f, in);
    tamis_destroy(f);
  }
}

/* ---- memory that comes back ---- */

/* Eight times a filter grows 2^10 times in one generation, and shrinks to one segment. */
TEST(a_filter_grows_and_shrinks_again_and_again)
{
  enum { CAPACITY = 240, N = CAPACITY << 10, FEW = 10, ROUNDS = SCALE > 1 ? 2 : 8 };
  const unsigned copies[] = {1, 2, 10};
  for (unsigned i = 0; i < 3; i++) {
    tamis_filter *f = make(CAPACITY, 0.001);
    const uint64_t most = stats_of(f).bytes * 2 + sizeof(struct cuckoo_growth);
    for (unsigned round = 0; round < ROUNDS; round++) {
      const uint64_t base = UINT64_C(1000000) * round;
      for (uint64_t n = 0, next = CAPACITY; n < N; next *= 2) {
        for (; n < next; n++)
          for (unsigned j = 0; j < copies[i]; j++)
            assert_int_equal(tamis_add_hash(f, base + n), TAMIS_OK);
        assert_rate(f, 0.001, base + n);
      }
      assert_valid(f);
      assert_all_in(f, base, base + N);
      assert_int_equal(stats_of(f).count, N * copies[i]);
      assert_int_equal(stats_of(f).generations, 1);
      uint64_t *order = shuffled(N, round);
      for (uint64_t n = 0; n < N; n++) {
        for (unsigned j = 0; j < copies[i]; j++)
          assert_int_equal(tamis_remove_hash(f, base + order[n]), TAMIS_OK);
        if (n == N - FEW - 1) {
          assert_valid(f);
          for (uint64_t k = n + 1; k < N; k++)
            assert_true(tamis_contains_hash(f, base + order[k]));
          assert_int_equal(stats_of(f).segments, 1);
          assert_int_equal(stats_of(f).count, FEW * copies[i]);
        }
      }
      free(order);
      assert_valid(f);
      assert_int_equal(stats_of(f).count, 0);
      AWAIT(stats_of(f).bytes <= most);
      assert_in_range(stats_of(f).bytes, 1, most);
    }
    tamis_destroy(f);
  }
}

/* Without memory, segments do not join.  When it is there again, the last remove joins them all. */
TEST(segments_that_join_late_are_not_taken_down)
{
  struct bank bank = {0};
  tamis_options options = options_for(1000, 0.001);
  options.allocator = allocator_of(&bank);
  tamis_filter *f = make_with_options(&options);
  uint64_t n = 0;
  while (stats_of(f).growths == 0)
    assert_int_equal(tamis_add_hash(f, n++), TAMIS_OK);
  uint64_t segments = stats_of(f).segments;
  bank.refused_from = 1;
  remove_range(f, 1, n);
  assert_int_equal(stats_of(f).segments, segments);
  bank.refused_from = 0;
  remove_range(f, 0, 1);
  assert_in_range(stats_of(f).segments, 1, segments - 1);
  unsigned calls = bank.calls;
  for (uint64_t i = 0; i < n; i++) {
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
  }
  assert_int_equal(bank.calls, calls);
  tamis_destroy(f);
}

/* Segments that have just split lose a quarter of their keys and get them back, again and again:
 * that must not make them join and split each time. */
TEST(churn_at_the_border_does_not_split_and_join_for_ever)
{
  const uint64_t capacities[] = {1000, 15000};
  for (unsigned c = 0; c < 2; c++) {
    tamis_filter *f = make(capacities[c], 0.01);
    uint64_t n = 0;
    while (stats_of(f).growths == 0)
      add_range(f, n, n + 1), n++;
    add_range(f, n, n + n / 16); /* more than the segments held before the split */
    n += n / 16;
    tamis_stats before = stats_of(f);
    for (unsigned round = 0; round < 20; round++) {
      remove_range(f, 0, n / 4);
      add_range(f, 0, n / 4);
    }
    tamis_stats after = stats_of(f);
    assert_true(after.growths + after.joins - before.growths - before.joins < 10);
    assert_all_in(f, 0, n);
    tamis_destroy(f);
  }
}

/* ---- tiny segments ---- */

/* Segments of two buckets: every path is short, segments split early, and pairs are full at
 * once. */
TEST(two_buckets_grow_through_generations)
{
  unsigned most_generations = 0;
  for (uint64_t seed = 1; seed <= (SCALE > 1 ? 15 : 50); seed++) {
    tamis_options options = options_for(1, 0.3);
    options.seed = seed;
    /* Also a second hash where one would do, and so many roots, and so wide entries, that one would
     * not. */
    bool long_strings = seed / 8 % 2;
    double rate = long_strings ? 1e-6 : seed % 3 ? 0.3 : 0.001;
    struct cuckoo_geometry g = planned_geometry(1, rate);
    g.pair_bits = 0;
    g.first_roots = 1 + seed % 5;
    g.needs_second_hash = long_strings || seed / 4 % 2;
    g.root0_bits = long_strings ? CUCKOO_HASH_BITS - 26 : 3;
    g.depth_limit = seed % 4 < g.depth_limit ? (uint8_t) (seed % 4) : g.depth_limit;
    tamis_filter *f = make_with_geometry(&options, &g);

    enum { N = 6000 };
    static uint64_t keys[N];
    for (uint64_t i = 0; i < N; i++)
      keys[i] = random_at(seed, i);
    for (unsigned i = 0; i < N; i++) {
      assert_int_equal(tamis_add_hash(f, keys[i]), TAMIS_OK);
      if (i % 600 == 0 || i == 10 || i == 100) {
        assert_valid(f);
        for (unsigned j = 0; j <= i; j++)
          assert_true(tamis_contains_hash(f, keys[j]));
      }
      if (i % 3 == 0) { /* and a copy, which is removed again */
        assert_int_equal(tamis_add_hash(f, keys[i / 2]), TAMIS_OK);
        assert_int_equal(tamis_remove_hash(f, keys[i / 2]), TAMIS_OK);
      }
    }
    tamis_stats s = stats_of(f);
    assert_int_equal(s.count, N);
    assert_int_equal(tamis_contains_many_hash(f, keys, N, NULL), N);
    assert_int_equal(tamis_add_unique_hash(f, keys[0]), TAMIS_PRESENT);
    for (uint64_t i = N; i < N + 10; i++) /* some of them seem to be there */
      if (tamis_add_unique_hash(f, random_at(seed, i)) == TAMIS_OK)
        assert_int_equal(tamis_remove_hash(f, random_at(seed, i)), TAMIS_OK);
    most_generations = s.generations > most_generations ? s.generations : most_generations;
    for (unsigned i = 0; i < N; i++) {
      assert_true(tamis_contains_hash(f, keys[i]));
      assert_int_equal(tamis_remove_hash(f, keys[i]), TAMIS_OK);
      if (i % 600 == 0) {
        assert_valid(f);
        for (unsigned j = i + 1; j < N; j++)
          assert_true(tamis_contains_hash(f, keys[j]));
      }
    }
    assert_int_equal(stats_of(f).count, 0);
    assert_valid(f);
    tamis_destroy(f);
  }
  assert_true(most_generations >= 2);
}

/* A split counts the entries of each stripe anew, however many buckets a stripe has. */
TEST(a_split_counts_what_it_copies)
{
  const double rates[] = {0.1, 0.01, 0.0001};
  for (unsigned i = 0; i < 6; i++) {
    tamis_options options = options_for(100000, rates[i % 3]);
    options.stripes = i / 3; /* as usual, or one */
    tamis_filter *f = make_with_options(&options);
    uint64_t n = 0;
    while (stats_of(f).growths < 12)
      assert_int_equal(tamis_add_hash(f, n++), TAMIS_OK);
    assert_valid(f); /* compares the counts with the buckets */
    assert_all_in(f, 0, n);
    tamis_destroy(f);
  }
}

/* ---- large filters ---- */

/* A union that may only split finds a segment full.  That is no limit of the filter, as other calls
 * may open a generation. */
TEST(a_segment_that_may_not_split_is_no_limit)
{
  tamis_filter *f = make(5000, 0.01);
  struct cuckoo *c = cuckoo_of(f);
  atomic_store(&cuckoo_generation(c, 0)->split_limit, 0);
  int result = TAMIS_OK;
  for (uint64_t i = 0; result == TAMIS_OK; i++) {
    struct bucket_pair pair = pair_find(cuckoo_generation(c, 0), hash_mix(&f->keys, i));
    for (unsigned j = 0; j < 2 && pair.segment && result == TAMIS_OK; j++) /* at first it folds */
      result = tamis__grow(c, &pair, 1, true);
    assert_int_equal(stats_of(f).generations, 1);
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  }
  assert_int_equal(result, TAMIS_EFULL);
  assert_int_equal(stats_of(f).generations, 2);
  assert_valid(f);
  tamis_destroy(f);
}

/* A reader that stands still, in a look-up of whatever filter, holds up all that is retired.  What
 * waits stays in proportion to the filter, and takes no room that keys of a filter with a limit
 * need. */
TEST(what_waits_stays_in_proportion)
{
  enum { KEYS = 60000, TURNS_OF_KEYS = 20, SLACK = 512 * 1024, LIMIT = 1 << 20 };
  tamis_options options = options_for(250, 0.01);
  options.max_bytes = LIMIT;
  tamis_filter *f = make_with_options(&options);
  add_range(f, 0, 2000); /* so that there is a backlog */
  remove_range(f, 0, 2000);
  const struct backlog *backlog = &cuckoo_growth(cuckoo_of(f))->backlog;
  reader_token reader = reader_enter();
  for (unsigned turn = 0; turn < TURNS_OF_KEYS; turn++) {
    add_range(f, 0, KEYS);
    remove_range(f, 0, KEYS);
    uint64_t held = atomic_load(&backlog->held);
    assert_true(held > 0);
    assert_true(held <= atomic_load(&cuckoo_of(f)->bytes) - held + SLACK);
  }
  reader_leave(reader);
  assert_valid(f);
  AWAIT(!atomic_load(&backlog->held), stats_of(f));
  assert_int_equal(atomic_load(&backlog->held), 0);
  assert_int_equal(stats_of(f).segments, 1); /* what removes have put off is joined */
  tamis_destroy(f);
}
