/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/stripe.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "cuckoo/evict.h"
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fewer keys where things are slow. */
#ifdef TAMIS_SLOW
enum { SCALE = 10 };
#else
enum { SCALE = 1 };
#endif

static void assert_valid(const tamis_filter *f)
{
  const char *reason;
  if (!filter_validate(f, &reason))
    fail_msg("%s", reason);
}

static tamis_options options_for(uint64_t capacity, double fpp)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = capacity;
  options.fpp = fpp;
  options.seed = 42;
  return options;
}

static tamis_filter *make_with(const tamis_options *options)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(options, &f), TAMIS_OK);
  assert_non_null(f);
  return f;
}

static tamis_filter *make(uint64_t capacity, double fpp)
{
  tamis_options options = options_for(capacity, fpp);
  return make_with(&options);
}

static void add_range(tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
}

static void remove_range(tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
}

static void assert_all_in(const tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    if (!tamis_contains_hash(f, i))
      fail_msg("key %lu is missing", i);
}

/* 0 .. n-1 in random order; the caller frees it. */
static uint64_t *shuffled(uint64_t n, uint64_t seed)
{
  uint64_t *order = malloc(n * sizeof *order);
  assert_non_null(order);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t j = random_next(&seed) % (i + 1);
    order[i] = order[j];
    order[j] = i;
  }
  return order;
}

/* An allocator that keeps a balance, and may fail once.  (For more of that see test_faults.c.) */
struct bank {
  size_t bytes, blocks, most_bytes;
  unsigned calls, fail_at; /* fail_at 0: never */
};

static void *bank_allocate(void *context, size_t alignment, size_t size)
{
  struct bank *bank = context;
  if (++bank->calls == bank->fail_at)
    return NULL;
  void *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  assert_non_null(block);
  memset(block, 0xa5, size);
  bank->bytes += size;
  bank->blocks++;
  if (bank->bytes > bank->most_bytes)
    bank->most_bytes = bank->bytes;
  return block;
}

static void bank_release(void *context, void *block, size_t alignment, size_t size)
{
  struct bank *bank = context;
  assert_int_equal(alignment, 64);
  assert_true(bank->bytes >= size && bank->blocks > 0);
  bank->bytes -= size;
  bank->blocks--;
  free(block);
}

/* The filter counts what the bank has given. */
static void assert_bytes(const tamis_filter *f, const struct bank *bank)
{
  tamis_stats stats = stats_of(f); /* first: it may release what has waited */
  assert_int_equal(stats.bytes, bank->bytes);
}

/* What was retired is released by later calls that retire something: makes such calls until the filter
 * takes no more than `limit` bytes, or for some seconds. */
static void settle(tamis_filter *f, uint64_t limit)
{
  double end = harness_seconds() + 10;
  uint64_t few = 20000, base = UINT64_C(1) << 60;
  while (stats_of(f).bytes > limit && harness_seconds() < end) {
    add_range(f, base, base + few);
    remove_range(f, base, base + few);
    usleep(1000);
  }
  if (stats_of(f).bytes > limit)
    fail_msg("%lu bytes, not %lu", stats_of(f).bytes, limit);
}

/* ---- basics ---- */

static void keys_come_and_go(void **state)
{
  (void) state;
  for (int growable = 0; growable < 2; growable++) {
    tamis_options options = options_for(1000, 1e-6);
    options.growable = growable;
    tamis_filter *f = make_with(&options);
    assert_false(tamis_contains(f, "x", 1));
    assert_int_equal(tamis_remove(f, "x", 1), TAMIS_ABSENT);
    assert_int_equal(tamis_add(f, "x", 1), TAMIS_OK);
    assert_true(tamis_contains(f, "x", 1));
    assert_false(tamis_contains(f, "y", 1));
    assert_int_equal(tamis_remove(f, "y", 1), TAMIS_ABSENT);
    assert_int_equal(stats_of(f).count, 1);
    assert_int_equal(tamis_add_unique(f, "x", 1), TAMIS_PRESENT);
    assert_int_equal(tamis_add_unique(f, "y", 1), TAMIS_OK);
    assert_int_equal(tamis_add_unique(f, "y", 1), TAMIS_PRESENT);
    assert_int_equal(stats_of(f).count, 2);
    assert_int_equal(tamis_add(f, NULL, 0), TAMIS_OK); /* the empty key */
    assert_true(tamis_contains(f, "", 0));
    assert_int_equal(tamis_remove(f, "x", 1), TAMIS_OK);
    assert_false(tamis_contains(f, "x", 1));
    assert_int_equal(tamis_remove(f, "x", 1), TAMIS_ABSENT);
    assert_true(tamis_contains(f, "y", 1) && tamis_contains(f, NULL, 0));
    assert_int_equal(tamis_add_unique(f, "x", 1), TAMIS_OK); /* new again */
    assert_int_equal(stats_of(f).count, 3);
    assert_valid(f);
    tamis_destroy(f);
  }
}

static void bad_arguments_are_refused(void **state)
{
  (void) state;
  tamis_filter *f = make(10, 0.01);
  assert_int_equal(tamis_remove(f, NULL, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add(f, NULL, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique(f, NULL, 1), TAMIS_EINVAL);
  assert_false(tamis_contains(f, NULL, 1));
  assert_int_equal(tamis_remove(NULL, "x", 1), TAMIS_EINVAL);
  assert_int_equal(tamis_remove_hash(NULL, 1), TAMIS_EINVAL);
  assert_int_equal(stats_of(f).count, 0);
  tamis_destroy(f);

  tamis_options options = options_for(1000, 1e-12);
  assert_int_equal(tamis_create(&options, &f), TAMIS_EUNSUPPORTED);
  assert_null(f);
  options = options_for(1000, 0.01);
  options.max_bytes = 1000;
  assert_int_equal(tamis_create(&options, &f), TAMIS_EFULL);
  assert_null(f);
}

static void stats_tell_the_truth(void **state)
{
  (void) state;
  struct bank bank = {0};
  tamis_allocator allocator = {bank_allocate, bank_release, &bank};
  tamis_options options = options_for(10000, 0.001);
  options.allocator = &allocator;
  uint64_t promised;
  assert_int_equal(tamis_bytes_for(&options, &promised), TAMIS_OK);
  tamis_filter *f = make_with(&options);
  tamis_stats s = stats_of(f);
  assert_int_equal(s.kind, TAMIS_CUCKOO);
  assert_int_equal(s.bytes, promised);
  assert_int_equal(s.bytes, bank.bytes);
  assert_int_equal(s.capacity, 10000);
  assert_true(s.fpp == 0.001 && s.load == 0 && s.fpp_estimate == 0 && s.occupancy == 0);
  assert_int_equal(s.generations, 1);
  assert_int_equal(s.growths, 0);
  assert_int_equal(s.seed, 42);
  for (uint64_t n = 0; n < 100000; n += 5000) {
    add_range(f, n, n + 5000);
    s = stats_of(f);
    assert_int_equal(s.count, n + 5000);
    assert_int_equal(s.bytes, bank.bytes);
    assert_true(fabs(s.load - (double) s.count / 10000) < 1e-9);
    assert_true(s.occupancy > 0 && s.occupancy <= 1);
    assert_true(s.fpp_estimate > 0 && s.fpp_estimate <= 0.001);
  }
  assert_true(s.growths > 0 && s.segments > 1);
  tamis_destroy(f);
  assert_int_equal(bank.bytes, 0);
  assert_int_equal(bank.blocks, 0);
}

/* "Half of it to twice it": against the rate measured, through growth and in all generations. */
static void the_estimate_is_near_the_rate(void **state)
{
  (void) state;
  enum { PROBES = 1000000 / SCALE };
  const double rates[] = {0.1, 0.01};
  for (unsigned r = 0; r < 2; r++) {
    tamis_filter *f = make(100, rates[r]);
    uint64_t in = 0;
    for (uint64_t n = 1000; n <= 100000; in = n, n = n * 3 / 2) {
      add_range(f, in, n);
      uint64_t hits = 0;
      for (uint64_t i = 0; i < PROBES; i++)
        hits += tamis_contains_hash(f, ~i);
      tamis_stats s = stats_of(f);
      double estimate = s.fpp_estimate * PROBES, chance = 5 * sqrt((double) hits);
      assert_true(estimate <= 2 * ((double) hits + chance));
      assert_true(estimate >= ((double) hits - chance) / 2);
    }
    assert_true(stats_of(f).generations > 1);
    tamis_destroy(f);
  }
}

/* The lowest rate that fits into some bytes: what `tamis_bytes_for` says of it, and of lower ones. */
static void bytes_buy_the_lowest_rate(void **state)
{
  (void) state;
  for (int growable = 0; growable < 2; growable++)
    for (double rate = 0.4; rate > 1e-7; rate /= 7) {
      tamis_options options = options_for(100000, rate);
      options.growable = growable;
      uint64_t bytes, again;
      double fpp = 7;
      assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
      assert_int_equal(tamis_fpp_for(&options, bytes, &fpp), TAMIS_OK);
      assert_true(fpp <= rate * 1.001);
      options.fpp = fpp;
      assert_int_equal(tamis_bytes_for(&options, &again), TAMIS_OK);
      assert_true(again <= bytes);
      options.fpp = fpp * 0.99;
      int result = tamis_bytes_for(&options, &again);
      assert_true(result == TAMIS_EUNSUPPORTED || again > bytes);
      assert_int_equal(tamis_fpp_for(&options, 1000, &fpp), TAMIS_EFULL);
    }
}

static void unique_adds_know_what_is_there(void **state)
{
  (void) state;
  enum { N = 100000 / SCALE };
  for (int growable = 0; growable < 2; growable++) {
    tamis_options options = options_for(growable ? 100 : N, 0.01);
    options.growable = growable;
    tamis_filter *f = make_with(&options);
    uint64_t won = 0;
    for (uint64_t i = 0; i < N; i++) {
      bool seemed_there = tamis_contains_hash(f, i);
      int result = tamis_add_unique_hash(f, i);
      assert_int_equal(result, seemed_there ? TAMIS_PRESENT : TAMIS_OK);
      assert_int_equal(tamis_add_unique_hash(f, i), TAMIS_PRESENT);
      assert_int_equal(tamis_add_unique_hash(f, i / 2), TAMIS_PRESENT); /* an older one */
      won += result == TAMIS_OK;
    }
    assert_int_equal(stats_of(f).count, won);
    assert_true((double) (N - won) <= N * 0.012);
    assert_all_in(f, 0, N);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- growth ---- */

/* Keys that were never added, in a row that begins at `from`. */
static void assert_rate(const tamis_filter *f, double fpp, uint64_t from)
{
  uint64_t probes = (fpp < 1e-4 ? UINT64_C(1000000) : UINT64_C(200000)) / SCALE, hits = 0;
  for (uint64_t i = 0; i < probes; i++)
    hits += tamis_contains_hash(f, (UINT64_C(1) << 40) + from * probes + i);
  double expected = fpp * (double) probes;
  if ((double) hits > expected + 4 * sqrt(expected) + 1)
    fail_msg("%lu false positives of %lu, fpp %g", hits, probes, fpp);
}

static void growing_loses_nothing_and_keeps_the_rate(void **state)
{
  (void) state;
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
      /* near what is live */
      tamis_stats s = stats_of(f);
      settle(f, 8 * in * (s.fingerprint_bits + 1) / 8 + 1000000);
      tamis_destroy(f);
    }
  assert_true(most_generations > 1);
}

/* Nothing but the rate ends the growth of a filter: however small it began. */
static void from_one_key_to_many(void **state)
{
  (void) state;
  const double rates[] = {0.3, 0.05, 0.001};
  for (unsigned r = 0; r < 3; r++)
    for (uint64_t seed = 1; seed <= 3; seed++) {
      tamis_options options = options_for(1, rates[r]);
      options.seed = seed;
      tamis_filter *f = make_with(&options);
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

/* ---- remove ---- */

static void removes_take_the_right_entries_at_all_ages(void **state)
{
  (void) state;
  const double rates[] = {0.2, 0.01, 0.001, 1e-6};
  for (unsigned r = 0; r < 4; r++) {
    tamis_filter *f = make(100, rates[r]);
    uint64_t n = 100000 / SCALE;
    add_range(f, 0, n);
    uint64_t *order = shuffled(n, r);
    for (uint64_t i = 0; i < n / 2; i++) {
      assert_int_equal(tamis_remove_hash(f, order[i]), TAMIS_OK);
      if (i % (n / 10) == 0 || i + 1 == n / 2) {
        assert_int_equal(stats_of(f).count, n - i - 1);
        for (uint64_t j = i + 1; j < n; j++)
          assert_true(tamis_contains_hash(f, order[j]));
        assert_valid(f);
      }
    }
    assert_rate(f, rates[r], 1);
    for (uint64_t i = 0; i < n / 4; i++) /* and back again */
      assert_int_equal(tamis_add_hash(f, order[i]), TAMIS_OK);
    for (uint64_t i = n / 2; i < n; i++) {
      assert_true(tamis_contains_hash(f, order[i]));
      assert_int_equal(tamis_remove_hash(f, order[i]), TAMIS_OK);
    }
    for (uint64_t i = 0; i < n / 4; i++)
      assert_true(tamis_contains_hash(f, order[i]));
    assert_int_equal(stats_of(f).count, n / 4);
    assert_valid(f);
    free(order);
    tamis_destroy(f);
  }
}

static void an_emptied_filter_has_nothing_and_is_small(void **state)
{
  (void) state;
  const double rates[] = {0.1, 0.001};
  for (unsigned r = 0; r < 2; r++) {
    tamis_filter *f = make(1000, rates[r]);
    uint64_t empty = stats_of(f).bytes, n = 200000 / SCALE;
    add_range(f, 0, n);
    uint64_t full = stats_of(f).bytes;
    uint64_t *order = shuffled(n, r);
    for (uint64_t i = 0; i < n; i++)
      assert_int_equal(tamis_remove_hash(f, order[i]), TAMIS_OK);
    free(order);
    tamis_stats s = stats_of(f);
    assert_int_equal(s.count, 0);
    assert_true(s.fpp_estimate == 0 && s.occupancy == 0);
    for (uint64_t i = 0; i < 2 * n; i++)
      assert_false(tamis_contains_hash(f, i));
    for (uint64_t i = 0; i < 1000; i++)
      assert_int_equal(tamis_remove_hash(f, i), TAMIS_ABSENT);
    assert_valid(f);
    settle(f, empty + full / 4);
    assert_valid(f);
    tamis_destroy(f);
  }
}

static void memory_comes_back_when_keys_go(void **state)
{
  (void) state;
  const double rates[] = {0.01, 0.001};
  for (unsigned r = 0; r < 2; r++) {
    tamis_filter *f = make(1000, rates[r]);
    uint64_t n = SCALE > 1 ? 100000 : 200000, kept = n / 20; /* fewer: what is fixed counts */
    add_range(f, 0, n);
    settle(f, 64 * n); /* what splitting has left */
    uint64_t full = stats_of(f).bytes;
    uint64_t *order = shuffled(n, r);
    for (uint64_t i = kept; i < n; i++)
      assert_int_equal(tamis_remove_hash(f, order[i]), TAMIS_OK);
    assert_true(stats_of(f).joins > 0);
    settle(f, full / 4);
    for (uint64_t i = 0; i < kept; i++)
      assert_true(tamis_contains_hash(f, order[i]));
    assert_int_equal(stats_of(f).count, kept);
    assert_valid(f);
    free(order);
    tamis_destroy(f);
  }
}

/* A filter at rest that one key visits again and again asks for no memory. */
static void an_empty_filter_is_not_taken_down(void **state)
{
  (void) state;
  struct bank bank = {0};
  tamis_allocator allocator = {bank_allocate, bank_release, &bank};
  tamis_options options = options_for(100, 0.001);
  options.allocator = &allocator;
  tamis_filter *f = make_with(&options);
  unsigned calls = bank.calls;
  for (uint64_t i = 0; i < 100; i++) {
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
  }
  assert_int_equal(bank.calls, calls);
  tamis_destroy(f);
}

/* A border that keys cross again and again is not one where memory is moved for ever: segments that have
 * just split lose a quarter of their keys and get them back. */
static void churn_at_the_border_does_not_split_and_join_for_ever(void **state)
{
  (void) state;
  const uint64_t capacities[] = {1000, 15000};
  for (unsigned c = 0; c < 2; c++) {
    tamis_filter *f = make(capacities[c], 0.01);
    uint64_t n = 0;
    while (stats_of(f).growths == 0)
      add_range(f, n, n + 1), n++;
    add_range(f, n, n + n / 16); /* surely more than the segments held before */
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

/* Any mix of calls against counts. */
static void random_calls_agree_with_a_model(void **state)
{
  (void) state;
  enum { KEYS = 3000, CALLS = 1000000 / SCALE };
  const double rates[] = {0.05, 1e-6};
  for (unsigned r = 0; r < 2; r++) {
    static unsigned counts[KEYS];
    memset(counts, 0, sizeof counts);
    tamis_filter *f = make(5, rates[r]);
    uint64_t random = 7, total = 0;
    for (unsigned i = 0; i < CALLS; i++) {
      bool growing = i / (CALLS / 8) % 2 == 0;
      uint64_t key = random_next(&random) % KEYS;
      key = key * key / KEYS; /* some more often than others */
      if (random_next(&random) % 16 < (growing ? 10 : 6)) {
        assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
        counts[key]++;
        total++;
      } else if (counts[key]) { /* never one that is not there */
        assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
        counts[key]--;
        total--;
      } else if (rates[r] == 1e-6) {
        assert_int_equal(tamis_remove_hash(f, key), TAMIS_ABSENT);
      }
      assert_true(tamis_contains_hash(f, key) || !counts[key]);
      if (i % (CALLS / 50) == 0) {
        assert_valid(f);
        assert_int_equal(stats_of(f).count, total);
        for (uint64_t j = 0; j < KEYS; j++)
          assert_true(tamis_contains_hash(f, j) || !counts[j]);
      }
    }
    for (uint64_t j = 0; j < KEYS; j++)
      for (; counts[j]; counts[j]--)
        assert_int_equal(tamis_remove_hash(f, j), TAMIS_OK);
    assert_int_equal(stats_of(f).count, 0);
    for (uint64_t j = 0; j < KEYS; j++)
      assert_false(tamis_contains_hash(f, j));
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- duplicates ---- */

static void a_million_copies_of_one_key_are_harmless(void **state)
{
  (void) state;
  enum { TIMES = 1000000 / SCALE };
  const double rates[] = {0.3, 0.01, 1e-4, 1e-6};
  for (unsigned r = 0; r < 4; r++)
    for (int growable = 0; growable < 2; growable++) {
      tamis_options options = options_for(10000, rates[r]);
      options.growable = growable;
      tamis_filter *f = make_with(&options);
      add_range(f, 0, 5000);
      tamis_stats before = stats_of(f);
      const uint64_t again = UINT64_MAX;
      bool there = tamis_contains_hash(f, again);
      for (unsigned i = 0; i < TIMES; i++)
        assert_int_equal(tamis_add_hash(f, again), TAMIS_OK);
      tamis_stats after = stats_of(f);
      assert_int_equal(after.count, before.count + TIMES);
      assert_int_equal(after.growths, before.growths);
      assert_true((double) after.bytes <= 1.02 * (double) before.bytes);
      assert_valid(f);
      assert_int_equal(tamis_add_unique_hash(f, again), TAMIS_PRESENT);
      for (unsigned i = 0; i < TIMES; i++) {
        assert_true(tamis_contains_hash(f, again));
        assert_int_equal(tamis_remove_hash(f, again), TAMIS_OK);
      }
      assert_int_equal(tamis_contains_hash(f, again), there);
      assert_int_equal(stats_of(f).count, before.count);
      assert_all_in(f, 0, 5000);
      assert_valid(f);
      tamis_destroy(f);
    }
}

static void copies_go_along_in_splits_and_joins(void **state)
{
  (void) state;
  enum { KEYS = 20, TIMES = 50 };
  const double rates[] = {0.05, 0.001, 1e-6};
  const uint64_t first = UINT64_C(1) << 50;
  for (unsigned r = 0; r < 3; r++) {
    struct bank bank = {0};
    tamis_allocator allocator = {bank_allocate, bank_release, &bank};
    tamis_options options = options_for(1000, rates[r]);
    options.allocator = &allocator;
    tamis_filter *f = make_with(&options);
    uint64_t n = 200000 / SCALE;
    for (unsigned time = 0; time < 3; time++) { /* at three sizes of the filter */
      for (unsigned copy = 0; copy < TIMES; copy++)
        add_range(f, first, first + KEYS);
      add_range(f, n / 3 * time, n / 3 * (time + 1));
    }
    n = n / 3 * 3;
    assert_valid(f);
    assert_int_equal(stats_of(f).count, n + 3 * TIMES * KEYS);
    assert_true(stats_of(f).growths > 3);
    for (unsigned copy = 0; copy < TIMES; copy++) /* some while it is large */
      remove_range(f, first, first + KEYS);
    assert_all_in(f, first, first + KEYS);
    uint64_t *order = shuffled(n, r);
    for (uint64_t i = 0; i < n; i++) {
      assert_int_equal(tamis_remove_hash(f, order[i]), TAMIS_OK);
      if (i % (n / 20) == 0)
        assert_all_in(f, first, first + KEYS);
    }
    free(order);
    assert_true(stats_of(f).joins > 0);
    assert_valid(f);
    assert_int_equal(stats_of(f).count, 2 * TIMES * KEYS);
    for (unsigned copy = 0; copy < 2 * TIMES; copy++) {
      assert_all_in(f, first, first + KEYS);
      remove_range(f, first, first + KEYS);
    }
    assert_int_equal(stats_of(f).count, 0);
    for (uint64_t key = first; key < first + KEYS; key++)
      assert_false(tamis_contains_hash(f, key));
    assert_valid(f);
    assert_bytes(f, &bank);
    tamis_destroy(f);
    assert_int_equal(bank.blocks, 0);
  }
}

/* Eight keys in a table of a few buckets: most of them share their pair with another. */
static void copies_of_neighbours_are_told_apart(void **state)
{
  (void) state;
  enum { KEYS = 8, CALLS = 20000 / SCALE };
  for (uint64_t seed = 1; seed <= 20; seed++) {
    tamis_options options = options_for(KEYS, 1e-6);
    options.seed = seed;
    options.growable = seed % 2;
    options.capacity = seed % 2 ? 2 : 40;
    tamis_filter *f = make_with(&options);
    unsigned counts[KEYS] = {0};
    uint64_t random = seed;
    for (unsigned i = 0; i < CALLS; i++) {
      uint64_t key = random_next(&random) % KEYS;
      if (random_next(&random) % 100 < (i < CALLS / 2 ? 55 : 45)) {
        assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
        counts[key]++;
      } else {
        assert_int_equal(tamis_remove_hash(f, key), counts[key] ? TAMIS_OK : TAMIS_ABSENT);
        counts[key] -= counts[key] != 0;
      }
      for (uint64_t j = 0; j < KEYS; j++)
        assert_int_equal(tamis_contains_hash(f, j), counts[j] != 0);
    }
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A few copies of every key take lanes, and pairs overflow early: no reason to be full. */
static void keys_that_come_a_few_times_do_not_fill_a_growable_filter(void **state)
{
  (void) state;
  const double rates[] = {0.1, 0.01, 0.001, 1e-4, 1e-6};
  const uint64_t capacities[] = {1, 139, 2000};
  for (unsigned r = 0; r < 5; r++)
    for (unsigned c = 0; c < 3; c++)
      for (uint64_t copies = 2; copies <= 4; copies++) {
        tamis_options options = options_for(capacities[c], rates[r]);
        options.seed = 1 + copies;
        tamis_filter *f = make_with(&options);
        uint64_t n = 30000 / SCALE;
        for (uint64_t i = 0; i < n * copies; i++)
          if (tamis_add_hash(f, i / copies) != TAMIS_OK)
            fail_msg("fpp %g, capacity %lu: add %lu failed, %lu copies of each key", rates[r],
                     capacities[c], i, copies);
        assert_int_equal(stats_of(f).count, n * copies);
        for (uint64_t copy = 0; copy < copies; copy++) {
          assert_all_in(f, 0, n);
          remove_range(f, 0, n);
        }
        assert_int_equal(stats_of(f).count, 0);
        assert_valid(f);
        tamis_destroy(f);
      }
}

/* Nor do adds to one that does not grow go on for ever: copies make the ways to room long. */
static void keys_that_come_twice_fill_a_fixed_filter(void **state)
{
  (void) state;
  for (uint64_t capacity = 300; capacity < 10000; capacity = capacity * 3 / 2)
    for (uint64_t seed = 1; seed <= 5; seed++) {
      tamis_options options = options_for(capacity, 1e-6);
      options.growable = false;
      options.seed = seed;
      tamis_filter *f = make_with(&options);
      uint64_t n = 0;
      while (tamis_add_hash(f, n) == TAMIS_OK && tamis_add_hash(f, n) == TAMIS_OK)
        n++;
      assert_in_range(n, capacity / 2, 3 * capacity);
      assert_all_in(f, 0, n);
      assert_valid(f);
      tamis_destroy(f);
    }
}

static uint64_t one_of_three(void *context, const void *key, size_t len, uint64_t seed)
{
  (void) context, (void) seed, (void) len;
  uint64_t number;
  memcpy(&number, key, sizeof number);
  return number % 3;
}

static void a_bad_hash_function_is_survived(void **state)
{
  (void) state;
  enum { N = 1000000 / SCALE };
  for (int growable = 0; growable < 2; growable++)
    for (uint64_t capacity = 10; capacity <= 100000; capacity *= 100) {
      tamis_options options = options_for(capacity, 0.001);
      options.hash = one_of_three;
      options.growable = growable;
      tamis_filter *f = make_with(&options);
      for (uint64_t i = 0; i < N; i++)
        assert_int_equal(tamis_add(f, &i, sizeof i), TAMIS_OK);
      tamis_stats s = stats_of(f);
      assert_int_equal(s.count, N);
      assert_true(s.growths < 20 && s.segments < 40);
      for (uint64_t i = 0; i < N; i++) {
        assert_true(tamis_contains(f, &i, sizeof i));
        assert_int_equal(tamis_remove(f, &i, sizeof i), TAMIS_OK);
      }
      for (uint64_t i = 0; i < 3; i++)
        assert_false(tamis_contains(f, &i, sizeof i));
      assert_int_equal(stats_of(f).count, 0);
      assert_valid(f);
      tamis_destroy(f);
    }
}

/* Keys that all belong in the same two buckets, with different fingerprints: somebody knows the seed.
 * They are refused when those are full; the filter does not grow for them, and others find room. */
static void keys_of_one_pair_do_not_make_a_filter_grow(void **state)
{
  (void) state;
  enum { CROWD = 64 };
  tamis_filter *f = make(300, 0.001);
  struct generation *generation = cuckoo_of(f)->generation[0];
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
  assert_int_equal(tamis_add_hash(f, crowd[0]), TAMIS_OK); /* which makes the segment */
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
  assert_true(refused <= 2); /* of the same pair, if any */
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- limits ---- */

static void assert_same_contents(const tamis_stats *a, const tamis_stats *b)
{
  assert_int_equal(a->count, b->count);
  assert_int_equal(a->growths, b->growths);
  assert_int_equal(a->segments, b->segments);
  assert_int_equal(a->generations, b->generations);
  assert_true(a->occupancy == b->occupancy);
}

static void fill_to_the_end(uint64_t n, double fpp, uint64_t seed)
{
  tamis_options options = options_for(n, fpp);
  options.growable = false;
  options.seed = seed;
  tamis_filter *f = make_with(&options);
  uint64_t bytes = stats_of(f).bytes, in = 0;
  for (; in < n; in++)
    if (tamis_add_hash(f, in) != TAMIS_OK)
      fail_msg("full at %lu of %lu, fpp %g, seed %lu", in, n, fpp, seed);
  while (tamis_add_hash(f, in) == TAMIS_OK)
    in++;
  assert_true(in < 3 * n + 1000);
  tamis_stats full = stats_of(f);
  assert_int_equal(full.count, in);
  assert_true(full.bytes <= bytes + bytes / 4 + 2048); /* side tables */
  assert_all_in(f, 0, in);
  assert_int_equal(tamis_add_hash(f, in), TAMIS_EFULL);
  assert_int_equal(tamis_add_unique_hash(f, in),
                   tamis_contains_hash(f, in) ? TAMIS_PRESENT : TAMIS_EFULL);
  tamis_stats still = stats_of(f);
  assert_same_contents(&full, &still);
  assert_all_in(f, 0, in);
  assert_valid(f);
  /* Room in its own segment, for which one key of all may have to go, or some. */
  uint64_t gone = 0;
  while (tamis_add_hash(f, in) == TAMIS_EFULL && gone < in)
    assert_int_equal(tamis_remove_hash(f, gone++), TAMIS_OK);
  assert_true(gone >= 1 && gone <= 1 + in / 4);
  assert_all_in(f, gone, in + 1);
  assert_int_equal(stats_of(f).count, in + 1 - gone);
  assert_valid(f);
  tamis_destroy(f);
}

/* Each key three times, until long after the end: few lanes and many copies make long ways, and the last
 * room may be at the end of one that is too long. */
static void a_full_filter_says_so_with_copies_too(void **state)
{
  (void) state;
  for (uint64_t seed = 1; seed <= 60 / SCALE; seed++) {
    tamis_options options = options_for(150, 1e-9);
    options.growable = false;
    options.seed = seed;
    tamis_filter *f = make_with(&options);
    uint64_t in = 0;
    for (uint64_t i = 0; i < 3 * 450; i++) {
      int result = tamis_add_hash(f, i / 3);
      assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
      in += result == TAMIS_OK;
    }
    assert_int_equal(stats_of(f).count, in);
    assert_valid(f);
    tamis_destroy(f);
  }
}

static void capacity_is_held_when_not_growable(void **state)
{
  (void) state;
  const uint64_t capacities[] = {1, 2, 3, 5, 8, 10, 17, 33, 100, 1000, 33333, 250000};
  const double rates[] = {0.03, 0.01, 1e-3, 1e-4, 1e-6};
  for (unsigned c = 0; c < sizeof capacities / sizeof *capacities; c++)
    for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
      if (SCALE > 1 && capacities[c] > 50000)
        continue;
      unsigned seeds = capacities[c] <= 1000 ? 40 : capacities[c] <= 50000 ? 5 : 1;
      for (uint64_t seed = 1; seed <= (SCALE > 1 ? seeds / 5 + 1 : seeds); seed++)
        fill_to_the_end(capacities[c], rates[r], seed);
    }
}

/* When it is full, keys that seem to be there are counted instead, but only few. */
static void a_full_filter_does_not_go_on_in_its_side_tables(void **state)
{
  (void) state;
  tamis_options options = options_for(300, 0.03);
  options.growable = false;
  tamis_filter *f = make_with(&options);
  const struct generation *generation = cuckoo_of(f)->generation[0];
  const struct cuckoo_geometry *g = &generation->geometry;
  for (uint64_t i = 0; i < 4000; i++)
    tamis_add_hash(f, i);
  size_t most = 0;
  for (uint64_t i = 0; i < cuckoo_directory_size(g); i++) {
    const struct segment *segment =
        directory_segment(directory_load(generation_directory_entry(generation, i)));
    const struct duplicate_table *copies = atomic_load(&segment->duplicates);
    most = copies && copies->used > most ? copies->used : most;
  }
  assert_int_equal(most, cuckoo_lanes(g) / 512 + 8);
  assert_valid(f);
  tamis_destroy(f);
}

/* At the end of its growth: nothing is lost, and what is removed gives room, in any generation. */
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

static void growth_ends_when_the_rate_is_used_up(void **state)
{
  (void) state;
  const double rates[] = {0.3, 0.01};
  for (unsigned r = 0; r < 2; r++) {
    tamis_filter *f = make(1, rates[r]);
    cuckoo_of(f)->generation[0]->geometry.rate = rates[r]; /* nothing is left to a second one */
    uint64_t in = 0;
    while (in < 100000 && tamis_add_hash(f, in) == TAMIS_OK)
      in++;
    assert_in_range(in, 10, 99999);
    assert_int_equal(stats_of(f).generations, 1);
    assert_full_for_good(f, in);
    tamis_destroy(f);
  }
}

static void max_bytes_is_never_exceeded(void **state)
{
  (void) state;
  const double rates[] = {0.1, 0.001};
  for (unsigned r = 0; r < 2; r++)
    for (uint64_t seed = 1; seed <= (SCALE > 1 ? 3 : 6); seed++) {
      struct bank bank = {0};
      tamis_allocator allocator = {bank_allocate, bank_release, &bank};
      tamis_options options = options_for(seed % 3 ? 1000 : 20, rates[r]);
      options.allocator = &allocator;
      options.seed = seed;
      uint64_t needed;
      assert_int_equal(tamis_bytes_for(&options, &needed), TAMIS_OK);
      options.max_bytes = needed + 20000 * seed;
      tamis_filter *f = make_with(&options);
      uint64_t in = 0;
      int result;
      while ((result = tamis_add_hash(f, in)) == TAMIS_OK) {
        assert_true(stats_of(f).bytes <= options.max_bytes);
        in++;
      }
      assert_int_equal(result, TAMIS_EFULL);
      assert_true(in > options.capacity / 2);
      assert_int_equal(stats_of(f).count, in);
      for (uint64_t i = 0; i < 1000; i++) { /* some find room, some do not */
        result = i % 2 ? tamis_add_hash(f, in) : tamis_add_unique_hash(f, in);
        assert_true(result == TAMIS_EFULL || result == TAMIS_OK || result == TAMIS_PRESENT);
        bool there = tamis_contains_hash(f, in);
        assert_true(there || result == TAMIS_EFULL);
        if (result == TAMIS_OK)
          in++;
      }
      uint64_t count = stats_of(f).count;
      assert_valid(f);
      /* room after removes */
      uint64_t some = count / 3, again = 0;
      for (uint64_t i = 0; i < some; i++)
        assert_true(tamis_remove_hash(f, i) == TAMIS_OK || i < in);
      count = stats_of(f).count;
      for (uint64_t i = 0; i < some; i++) {
        result = tamis_add_hash(f, i);
        assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
        again += result == TAMIS_OK;
        assert_true(tamis_contains_hash(f, i) || result == TAMIS_EFULL);
      }
      assert_int_equal(stats_of(f).count, count + again);
      assert_true(again > some / 2);
      assert_valid(f);
      assert_true(bank.most_bytes <= options.max_bytes);
      assert_bytes(f, &bank);
      tamis_destroy(f);
      assert_int_equal(bank.bytes, 0);
    }
}

/* At the limit copies that stand in lanes are counted instead, which takes less than more lanes.  Copies
 * make the ways to room long, too: adds come to an end all the same. */
static void copies_make_room_at_the_limit(void **state)
{
  (void) state;
  const struct {
    uint64_t capacity;
    double fpp, load; /* what each key twice fills, counted as if all stood in lanes */
  } cases[] = {{600, 0.01, 0.91}, {600, 0.001, 0.91}, {2400, 1e-6, 0.72}};
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    tamis_options options = options_for(cases[i].capacity, cases[i].fpp);
    struct cuckoo_geometry g;
    assert_int_equal(cuckoo_geometry_plan(&(struct cuckoo_spec){.growable = true,
                                                                .capacity = options.capacity,
                                                                .fpp = options.fpp},
                                          &g),
                     TAMIS_OK);
    assert_int_equal(tamis_bytes_for(&options, &options.max_bytes), TAMIS_OK);
    options.max_bytes += 2 * g.segment_bytes - 64; /* not enough for a split, but for side tables */
    tamis_filter *f = make_with(&options);
    uint64_t n = 0;
    while (tamis_add_hash(f, n) == TAMIS_OK && tamis_add_hash(f, n) == TAMIS_OK)
      n++;
    assert_int_equal(stats_of(f).segments, 1);
    assert_true(2 * (double) n > cases[i].load * (double) cuckoo_lanes(&g));
    assert_all_in(f, 0, n);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* Nothing that was in is lost when there is no room. */
static void what_is_in_stays_in_at_the_limit(void **state)
{
  (void) state;
  tamis_options options = options_for(1000, 0.001);
  uint64_t needed;
  assert_int_equal(tamis_bytes_for(&options, &needed), TAMIS_OK);
  for (uint64_t more = 0; more<100000; more += SCALE> 1 ? 3 * 7919 : 7919) {
    options.max_bytes = needed + more;
    tamis_filter *f = make_with(&options);
    enum { KEYS = SCALE > 1 ? 5000 : 20000 };
    static bool in[KEYS];
    uint64_t count = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
      int result = tamis_add_hash(f, i);
      assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
      in[i] = result == TAMIS_OK;
      count += in[i];
    }
    for (uint64_t copy = 0; copy < 100; copy++) /* counted ones take memory too */
      for (uint64_t i = 0; i < 20; i++)
        count += tamis_add_hash(f, i) == TAMIS_OK;
    assert_true(count >= 900);
    assert_int_equal(stats_of(f).count, count);
    assert_true(stats_of(f).bytes <= options.max_bytes);
    for (uint64_t i = 0; i < KEYS; i++)
      assert_true(!in[i] || tamis_contains_hash(f, i));
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- batches ---- */

static void batches_are_the_single_calls(void **state)
{
  (void) state;
  enum { N = 20000 };
  static uint64_t hashes[N];
  static int results[N];
  static bool found[N];
  const size_t lengths[] = {0, 1, 31, 32, 33, 64, 100, 739};
  tamis_filter *one = make(100, 0.01), *many = make(100, 0.01);
  uint64_t random = 5;
  for (unsigned i = 0; i < N; i++)
    hashes[i] = random_next(&random) % (N / 2); /* most of them twice */
  for (size_t at = 0, l = 0; at < N; l++) {
    size_t n = lengths[l % 8] < N - at ? lengths[l % 8] : N - at;
    bool unique = l / 8 % 2;
    assert_int_equal((unique ? tamis_add_unique_many_hash : tamis_add_many_hash)(many, hashes + at,
                                                                                 n, results + at),
                     TAMIS_OK);
    for (size_t i = at; i < at + n; i++)
      assert_int_equal(results[i],
                       (unique ? tamis_add_unique_hash : tamis_add_hash)(one, hashes[i]));
    assert_int_equal(tamis_contains_many_hash(many, hashes + at, n, NULL), n);
    at += n;
  }
  tamis_stats a = stats_of(one), b = stats_of(many);
  assert_same_contents(&a, &b);
  for (uint64_t i = 0; i < N; i++)
    hashes[i] = i;
  size_t hits = tamis_contains_many_hash(many, hashes, N, found);
  for (uint64_t i = 0; i < N; i++) {
    assert_int_equal(found[i], tamis_contains_hash(one, i));
    hits -= found[i];
  }
  assert_int_equal(hits, 0);
  assert_valid(many);
  tamis_destroy(one);
  tamis_destroy(many);
}

static void a_full_filter_answers_each_key_of_a_batch(void **state)
{
  (void) state;
  tamis_options options = options_for(100, 1e-6);
  options.growable = false;
  tamis_filter *f = make_with(&options);
  uint64_t hashes[1000];
  int results[1000];
  for (uint64_t i = 0; i < 1000; i++)
    hashes[i] = i;
  assert_int_equal(tamis_add_many_hash(f, hashes, 1000, results), TAMIS_EFULL);
  uint64_t in = 0;
  for (uint64_t i = 0; i < 1000; i++) {
    assert_true(results[i] == TAMIS_OK || (i >= 100 && results[i] == TAMIS_EFULL));
    assert_int_equal(tamis_contains_hash(f, i), results[i] == TAMIS_OK);
    in += results[i] == TAMIS_OK;
  }
  assert_int_equal(stats_of(f).count, in);
  tamis_destroy(f);
}

/* The first failure of a batch is what it reports, whatever fails after it. */
static void a_batch_reports_its_first_failure(void **state)
{
  (void) state;
  enum { N = 5000 };
  struct bank bank = {0};
  tamis_allocator allocator = {bank_allocate, bank_release, &bank};
  tamis_options options = options_for(1000, 0.001);
  options.allocator = &allocator;
  uint64_t needed;
  assert_int_equal(tamis_bytes_for(&options, &needed), TAMIS_OK);
  options.max_bytes = 2 * needed;
  tamis_filter *f = make_with(&options);
  static uint64_t hashes[N];
  static int results[N];
  for (uint64_t i = 0; i < N; i++)
    hashes[i] = i;
  bank.fail_at = bank.calls + 1;
  assert_int_equal(tamis_add_many_hash(f, hashes, N, results), TAMIS_ENOMEM);
  uint64_t first = 0;
  while (results[first] == TAMIS_OK)
    first++;
  assert_int_equal(results[first], TAMIS_ENOMEM);
  /* Which keys are refused depends on the memory that waits for readers; that some are, does not. */
  uint64_t refused = 0;
  for (uint64_t i = first + 1; i < N; i++) {
    assert_true(results[i] == TAMIS_OK || results[i] == TAMIS_EFULL);
    refused += results[i] == TAMIS_EFULL;
  }
  assert_true(refused > 0);
  tamis_destroy(f);
}

/* ---- tiny segments ---- */

/* Segments of two buckets: every way is short, every split is soon, pairs are full at once. */
static void two_buckets_grow_through_generations(void **state)
{
  (void) state;
  unsigned most_generations = 0;
  for (uint64_t seed = 1; seed <= (SCALE > 1 ? 15 : 50); seed++) {
    tamis_options options = options_for(1, 0.3);
    options.seed = seed;
    struct cuckoo_spec spec = {.capacity = 1, .fpp = seed % 3 ? 0.3 : 0.001, .growable = true};
    struct cuckoo_geometry g;
    assert_int_equal(cuckoo_geometry_plan(&spec, &g), TAMIS_OK);
    g.pair_bits = 0;
    g.first_roots = 1 + seed % 5;
    g.two_hashes = seed / 4 % 2; /* the second one where the first would do: nobody can tell */
    g.first_root_bits = seed / 8 % 2 ? 50 : 3; /* as if the roots were so many that it would not */
    g.two_hashes |= g.first_root_bits == 50;
    g.depth_limit = seed % 4 < g.depth_limit ? (unsigned) (seed % 4) : g.depth_limit;
    struct tamis_filter head = {.keys = hash_keys_from_seed(seed)};
    tamis_filter *f = NULL;
    assert_int_equal(tamis__cuckoo_create_with(&options, &head, &g, &f), TAMIS_OK);

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
      if (i % 3 == 0) { /* and a copy that goes again */
        assert_int_equal(tamis_add_hash(f, keys[i / 2]), TAMIS_OK);
        assert_int_equal(tamis_remove_hash(f, keys[i / 2]), TAMIS_OK);
      }
    }
    tamis_stats s = stats_of(f);
    assert_int_equal(s.count, N);
    assert_int_equal(tamis_contains_many_hash(f, keys, N, NULL), N);
    assert_int_equal(tamis_add_unique_hash(f, keys[0]), TAMIS_PRESENT);
    for (uint64_t i = N; i < N + 10; i++) /* some seem to be there */
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

/* validate() must not be a rubber stamp: an entry is lost behind the filter's back. */
static uint64_t *words_of_largest;
static size_t size_of_largest;

static void *remember_largest(void *context, size_t alignment, size_t size)
{
  void *block = bank_allocate(context, alignment, size);
  if (block && size > size_of_largest) {
    size_of_largest = size;
    words_of_largest = block;
  }
  return block;
}

static void validate_notices_a_lost_entry(void **state)
{
  (void) state;
  struct bank bank = {0};
  tamis_allocator allocator = {remember_largest, bank_release, &bank};
  tamis_options options = options_for(100000, 0.01);
  options.growable = false;
  options.allocator = &allocator;
  tamis_filter *f = make_with(&options);
  assert_int_equal(tamis_add(f, "x", 1), TAMIS_OK);
  assert_valid(f);
  bool noticed = false;
  for (size_t i = 0; i < size_of_largest / 8 && !noticed; i++) {
    const char *reason;
    uint64_t value = words_of_largest[i];
    if (!value || value == 1) /* a counter of the stripe */
      continue;
    words_of_largest[i] = 0;
    noticed = !filter_validate(f, &reason);
    words_of_largest[i] = value;
  }
  assert_true(noticed);
  tamis_destroy(f);
}

/* ---- large filters ---- */

/* Segments are made when the first key falls on them: a filter for many keys begins small. */
static void a_large_filter_makes_its_segments_as_keys_come(void **state)
{
  (void) state;
  enum { N = 2000 };
  tamis_filter *f = make(50000000, 0.001);
  tamis_stats empty = stats_of(f);
  assert_int_equal(empty.segments, 0);
  assert_true(empty.bytes < 50000000 / 8); /* less than a bit for each key */
  static uint64_t hashes[N];
  static int results[N];
  for (uint64_t i = 0; i < N; i++)
    hashes[i] = i;
  assert_int_equal(tamis_contains_many_hash(f, hashes, N, NULL), 0);
  for (uint64_t i = 0; i < N; i++)
    assert_int_equal(tamis_remove_hash(f, i), TAMIS_ABSENT);
  assert_int_equal(stats_of(f).segments, 0); /* nobody has added anything */
  assert_int_equal(tamis_add_unique_many_hash(f, hashes, N, results), TAMIS_OK);
  uint64_t won = 0;
  for (uint64_t i = 0; i < N; i++)
    won += results[i] == TAMIS_OK;
  assert_true(won >= N - 5);
  assert_int_equal(tamis_contains_many_hash(f, hashes, N, NULL), N);
  tamis_stats s = stats_of(f);
  assert_int_equal(s.count, won);
  assert_true(s.segments > 100 && s.segments <= won);
  assert_valid(f);
  tamis_destroy(f);
}

static void assert_broken(const tamis_filter *f, const char *expected)
{
  const char *reason;
  assert_false(filter_validate(f, &reason));
  assert_string_equal(reason, expected);
}

/* Each thing that validate() looks at is broken, noticed, and repaired. */
static void validate_notices_whatever_is_broken(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, 0.001);
  add_range(f, 0, 100);
  struct generation *generation = cuckoo_of(f)->generation[0];
  const struct cuckoo_geometry *g = &generation->geometry;
  struct segment *segment =
      directory_segment(directory_load(generation_directory_entry(generation, 0)));
  assert_int_equal(segment->depth, 0);
  assert_true(g->depth_limit > 0);

  struct stripe *stripe = &segment_stripes(segment)[g->stripe_mask];
  stripe_lock(stripe);
  assert_broken(f, "a stripe is still locked");
  uint64_t version = version_after(stripe);
  version_leave(stripe);
  stripe_unlock(stripe);
  assert_broken(f, "a segment is in the directory that has left");
  stripe->version = version;

  atomic_fetch_add(&segment_stripes(segment)[0].used, 1);
  assert_broken(f, "stripes count other entries than there are");
  atomic_fetch_sub(&segment_stripes(segment)[0].used, 1);

  segment->depth++; /* which the slot knows, too */
  assert_broken(f, "a segment has the wrong directory entry");
  segment->depth--;

  segment->prefix = UINT64_C(1) << 63;
  assert_broken(f, "a segment has the wrong directory entry");
  segment->prefix = 0;

  directory_value value = directory_load(generation_directory_entry(generation, 1));
  directory_publish(generation_directory_entry(generation, 1), NULL);
  assert_broken(f, "directory entries of one segment differ");
  directory_publish(generation_directory_entry(generation, 1), value);

  counter_add(&generation->counters, ENTRIES, 1);
  assert_broken(f, "counted entries are not those in buckets");
  counter_add(&generation->counters, ENTRIES, UINT64_MAX);

  atomic_fetch_add(&generation->segments, 1);
  assert_broken(f, "counted segments are not those in the directory");
  atomic_fetch_sub(&generation->segments, 1);

  word *words = segment_words(g, segment);
  unsigned i = 0;
  while (!bucket_lane(&g->shape, word_load(&words[i]), 0))
    i++;
  uint64_t before = word_load(&words[i]), entry = bucket_lane(&g->shape, before, 0);
  uint64_t aged = entry << 1 & bucket_lane_bits(&g->shape); /* as a split would do */
  word_store(&words[i], bucket_replace(&g->shape, before, 0, aged));
  assert_broken(f, "an entry is older than its segment is deep");
  word_store(&words[i], before);

  counter_add(&generation->counters, DUPLICATES, 1);
  assert_broken(f, "counted duplicates are not those in duplicate tables");
  counter_add(&generation->counters, DUPLICATES, UINT64_MAX);

  for (uint64_t key = 0; !has_duplicates(segment); key++)
    for (unsigned n = 0; n < 4; n++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  struct duplicate_table *copies = atomic_load(&segment->duplicates);
  size_t j = 0;
  while (!copies->slots[j].key)
    j++;
  copies->slots[j].key ^= duplicates_key(1, 0); /* of another pair */
  assert_broken(f, "duplicates are counted of an entry that stands in no lane");
  copies->slots[j].key ^= duplicates_key(1, 0);
  assert_valid(f);
  tamis_destroy(f);
}

/* What is wrong in one generation is not forgotten over another that is whole. */
static void validate_looks_at_all_generations(void **state)
{
  (void) state;
  tamis_filter *f = make(1, 0.3);
  for (uint64_t i = 0; stats_of(f).generations < 3; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  for (unsigned i = 0; i < 3; i++) {
    struct generation *generation = cuckoo_of(f)->generation[i];
    atomic_fetch_add(&generation->segments, 1);
    assert_broken(f, "counted segments are not those in the directory");
    atomic_fetch_sub(&generation->segments, 1);
    assert_valid(f);
  }
  tamis_destroy(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_come_and_go),
      cmocka_unit_test(bad_arguments_are_refused),
      cmocka_unit_test(stats_tell_the_truth),
      cmocka_unit_test(the_estimate_is_near_the_rate),
      cmocka_unit_test(bytes_buy_the_lowest_rate),
      cmocka_unit_test(unique_adds_know_what_is_there),
      cmocka_unit_test(growing_loses_nothing_and_keeps_the_rate),
      cmocka_unit_test(from_one_key_to_many),
      cmocka_unit_test(removes_take_the_right_entries_at_all_ages),
      cmocka_unit_test(an_emptied_filter_has_nothing_and_is_small),
      cmocka_unit_test(memory_comes_back_when_keys_go),
      cmocka_unit_test(an_empty_filter_is_not_taken_down),
      cmocka_unit_test(churn_at_the_border_does_not_split_and_join_for_ever),
      cmocka_unit_test(random_calls_agree_with_a_model),
      cmocka_unit_test(a_million_copies_of_one_key_are_harmless),
      cmocka_unit_test(copies_go_along_in_splits_and_joins),
      cmocka_unit_test(copies_of_neighbours_are_told_apart),
      cmocka_unit_test(keys_that_come_a_few_times_do_not_fill_a_growable_filter),
      cmocka_unit_test(keys_that_come_twice_fill_a_fixed_filter),
      cmocka_unit_test(a_bad_hash_function_is_survived),
      cmocka_unit_test(keys_of_one_pair_do_not_make_a_filter_grow),
      cmocka_unit_test(capacity_is_held_when_not_growable),
      cmocka_unit_test(a_full_filter_says_so_with_copies_too),
      cmocka_unit_test(a_full_filter_does_not_go_on_in_its_side_tables),
      cmocka_unit_test(growth_ends_when_the_rate_is_used_up),
      cmocka_unit_test(max_bytes_is_never_exceeded),
      cmocka_unit_test(copies_make_room_at_the_limit),
      cmocka_unit_test(what_is_in_stays_in_at_the_limit),
      cmocka_unit_test(batches_are_the_single_calls),
      cmocka_unit_test(a_full_filter_answers_each_key_of_a_batch),
      cmocka_unit_test(a_batch_reports_its_first_failure),
      cmocka_unit_test(two_buckets_grow_through_generations),
      cmocka_unit_test(a_large_filter_makes_its_segments_as_keys_come),
      cmocka_unit_test(validate_notices_a_lost_entry),
      cmocka_unit_test(validate_notices_whatever_is_broken),
      cmocka_unit_test(validate_looks_at_all_generations),
  };
  return cmocka_run_group_tests_name("cuckoo", tests, NULL, NULL);
}
