/* SPDX-License-Identifier: MIT
 *
 * Bloom filters that count: what their calls do, one after the other and by many threads.
 */
#include "bloom/counting.h"
#include "bloom_unit.h"
#include "harness.h"
#include "saved_unit.h"

#include <math.h>
#include <pthread.h>

static tamis_filter *make(uint64_t capacity, double fpp, bool growable)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_COUNTING_BLOOM;
  options.capacity = capacity;
  options.fpp = fpp;
  options.growable = growable;
  options.seed = 42;
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

/* A rate of each shape. */
static const double rates[] = {0.5, 0.3, 0.1, 0.01, 1e-3, 1e-4, 1.1e-5};
enum { RATES = sizeof rates / sizeof *rates };

/* ---- words as values ---- */

static uint64_t counter(uint64_t counters, unsigned i)
{
  return counters >> 4 * i & 15;
}

/* Each counter changes by itself, and one that is 15 no more. */
static void counters_are_sixteen_numbers(void **state)
{
  (void) state;
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

static void what_is_in_is_found(void **state)
{
  (void) state;
  for (unsigned r = 0; r < RATES; r++)
    for (uint64_t n = 1; n <= 30000 / SCALE; n *= 10) {
      tamis_filter *f = make(n, rates[r], true);
      for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
        assert_true(tamis_contains_hash(f, i));
      }
      assert_valid(f);
      assert_int_equal(stats_of(f).count, n);
      for (uint64_t i = 0; i < n; i += 2) {
        assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
        for (uint64_t j = i + 1; j < n && j < i + 20; j++)
          assert_true(tamis_contains_hash(f, j));
      }
      for (uint64_t i = 1; i < n; i += 2)
        assert_true(tamis_contains_hash(f, i));
      assert_valid(f);
      for (uint64_t i = 1; i < n; i += 2)
        assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
      assert_valid(f);
      assert_int_equal(stats_of(f).count, 0);
      assert_int_equal(stats_of(f).bits_set, 0); /* nothing is left of the keys */
      assert_int_equal(tamis_remove_hash(f, 0), TAMIS_ABSENT);
      tamis_destroy(f);
    }
}

static void a_key_is_in_as_often_as_it_was_added(void **state)
{
  (void) state;
  for (unsigned r = 0; r < RATES; r++) {
    tamis_filter *f = make(1000, rates[r], true);
    for (unsigned copies = 0; copies < 15; copies++)
      assert_int_equal(tamis_count_hash(f, 7), copies), tamis_add_hash(f, 7);
    /* the counters are stuck: the key stays */
    for (unsigned i = 0; i < 20; i++)
      assert_int_equal(tamis_remove_hash(f, 7), TAMIS_OK);
    assert_true(tamis_contains_hash(f, 7));
    assert_int_equal(tamis_count_hash(f, 7), 15);
    assert_int_equal(stats_of(f).count, 0);
    for (unsigned copies = 0; copies < 14; copies++)
      tamis_add_hash(f, 1000);
    for (unsigned copies = 14; copies > 0; copies--) {
      assert_true(tamis_count_hash(f, 1000) >= copies);
      assert_int_equal(tamis_remove_hash(f, 1000), TAMIS_OK);
    }
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* Every key that stays is there, whatever other keys do, stuck counters included. */
static void stuck_counters_lose_no_key(void **state)
{
  (void) state;
  tamis_filter *f = make(100, 0.01, true);
  for (uint64_t i = 0; i < 100; i++)
    for (unsigned copies = 0; copies < 30; copies++)
      tamis_add_hash(f, i);
  for (uint64_t i = 0; i < 100; i += 2)
    for (unsigned copies = 0; copies < 30; copies++)
      assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
  for (uint64_t i = 0; i < 100; i++)
    assert_true(tamis_contains_hash(f, i));
  assert_valid(f);
  tamis_destroy(f);
}

static void add_unique_says_who_was_first(void **state)
{
  (void) state;
  for (unsigned r = 0; r < RATES; r++) {
    tamis_filter *f = make(10000, rates[r], true);
    uint64_t won = 0;
    for (uint64_t i = 0; i < 10000; i++) {
      bool seemed_there = tamis_contains_hash(f, i);
      int result = tamis_add_unique_hash(f, i);
      assert_int_equal(result, seemed_there ? TAMIS_PRESENT : TAMIS_OK);
      assert_int_equal(tamis_add_unique_hash(f, i), TAMIS_PRESENT);
      won += result == TAMIS_OK;
    }
    assert_int_equal(stats_of(f).count, won);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- sizes, rates, limits ---- */

static void the_rate_is_kept(void **state)
{
  (void) state;
  enum { KEYS_IN = 100000, QUERIES = 3000000 / SCALE };
  for (unsigned r = 0; r < RATES; r++) {
    tamis_filter *f = make(KEYS_IN, rates[r], true);
    for (uint64_t i = 0; i < KEYS_IN; i++)
      tamis_add_hash(f, i);
    uint64_t hits = 0;
    for (uint64_t i = 0; i < QUERIES; i++)
      hits += tamis_contains_hash(f, KEYS_IN + i);
    double expected = rates[r] * QUERIES;
    assert_true((double) hits <= expected * 1.05 + 5 * sqrt(expected));
    tamis_stats stats = stats_of(f);
    assert_true(fabs(stats.estimated_count - KEYS_IN) < KEYS_IN * 0.03);
    assert_true(stats.fpp_estimate < rates[r] * 1.1 && stats.fpp_estimate > rates[r] * 0.7);
    tamis_destroy(f);
  }
}

static void rates_that_cannot_be_kept_are_refused(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *f;
  char why[200];
  options.kind = TAMIS_COUNTING_BLOOM;
  options.capacity = 1000;
  options.fpp = 9e-6;
  assert_int_equal(tamis_create(&options, &f), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_options_check(&options, why, sizeof why), TAMIS_EUNSUPPORTED);
  assert_string_equal(why, "fpp is 9e-06; a counting Bloom filter for 1000 keys needs at least "
                           "1e-05, and below 1");
  options.fpp = 0.01;
  options.layout = TAMIS_LAYOUT_WORD;
  assert_int_equal(tamis_create(&options, &f), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_options_check(&options, why, sizeof why), TAMIS_EUNSUPPORTED);
  assert_string_equal(why, "layout is 2; of a counting Bloom filter it must be 0 "
                           "(TAMIS_LAYOUT_BLOCKED)");
  uint64_t bytes;
  double fpp;
  assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_fpp_for(&options, 10000, &fpp), TAMIS_EUNSUPPORTED);
}

/* Copies count, each of them. */
static void capacity_is_a_limit_when_not_growable(void **state)
{
  (void) state;
  for (uint64_t capacity = 1; capacity <= 1000; capacity *= 10) {
    tamis_filter *f = make(capacity, 0.01, false);
    for (uint64_t i = 0; i < capacity; i++)
      assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    for (unsigned again = 0; again < 3; again++) {
      tamis_stats before = stats_of(f);
      assert_int_equal(tamis_add_hash(f, 0), TAMIS_EFULL);
      uint64_t absent = capacity;
      while (tamis_contains_hash(f, absent))
        absent++;
      assert_int_equal(tamis_add_unique_hash(f, absent), TAMIS_EFULL);
      assert_int_equal(tamis_add_unique_hash(f, 0), TAMIS_PRESENT);
      tamis_stats after = stats_of(f);
      assert_int_equal(after.refused_adds, before.refused_adds + 2);
      after.refused_adds = before.refused_adds;
      assert_memory_equal(&before, &after, sizeof before);
      assert_int_equal(after.count, capacity);
      assert_int_equal(tamis_remove_hash(f, 0), TAMIS_OK); /* there is room for one again */
      assert_int_equal(tamis_add_hash(f, 0), TAMIS_OK);
    }
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A stripe for each of its two lines would take as much as they do. */
static void a_small_filter_has_one_stripe(void **state)
{
  (void) state;
  tamis_filter *f = make(10, 0.01, false);
  assert_int_equal(bloom_of(f)->word_count, 2 * LINE_WORDS);
  assert_int_equal(bloom_of(f)->stripe_mask, 0);
  assert_true(stats_of(f).bytes <= 384);
  assert_int_equal(tamis_add_hash(f, 1), TAMIS_OK);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- threads ---- */

enum { THREADS = 4 };

struct caller {
  tamis_filter *filter;
  unsigned index;
  uint64_t refused, missed;
  pthread_t thread;
};

static void run_callers(tamis_filter *f, void *(*work)(void *), struct caller callers[THREADS])
{
  for (unsigned t = 0; t < THREADS; t++) {
    callers[t] = (struct caller){.filter = f, .index = t};
    assert_int_equal(pthread_create(&callers[t].thread, NULL, work, &callers[t]), 0);
  }
  for (unsigned t = 0; t < THREADS; t++)
    assert_int_equal(pthread_join(callers[t].thread, NULL), 0);
}

enum { LIMIT = 10000 };

static void *add_until_full(void *arg)
{
  struct caller *caller = arg;
  for (uint64_t i = 0; i < LIMIT; i++) {
    uint64_t hash = caller->index * (uint64_t) LIMIT + i;
    int result =
        i % 2 ? tamis_add_hash(caller->filter, hash) : tamis_add_unique_hash(caller->filter, hash);
    caller->refused += result == TAMIS_EFULL;
    caller->missed += result == TAMIS_PRESENT;
  }
  return NULL;
}

/* Not one key too many is let in, and not one too few. */
static void many_threads_fill_it_exactly(void **state)
{
  (void) state;
  struct caller callers[THREADS];
  tamis_filter *f = make(LIMIT, 0.01, false);
  run_callers(f, add_until_full, callers);
  assert_int_equal(stats_of(f).count, LIMIT);
  uint64_t refused = 0, hidden = 0;
  for (unsigned t = 0; t < THREADS; t++) {
    refused += callers[t].refused;
    hidden += callers[t].missed;
  }
  assert_int_equal(refused + hidden, (uint64_t) (THREADS - 1) * LIMIT);
  assert_valid(f);
  tamis_destroy(f);
}

/* Each thread's keys come and go; while they are in, they are found. */
static void *come_and_go(void *arg)
{
  struct caller *caller = arg;
  enum { HELD = 200, ROUNDS = 2000 / SCALE };
  for (uint64_t round = 0; round < ROUNDS; round++) {
    uint64_t first = caller->index * (UINT64_C(1) << 32) + round * HELD;
    for (uint64_t i = 0; i < HELD; i++)
      tamis_add_hash(caller->filter, first + i);
    for (uint64_t i = 0; i < HELD; i++)
      caller->missed += !tamis_contains_hash(caller->filter, first + i);
    for (uint64_t i = 0; i < HELD; i++)
      caller->missed += tamis_remove_hash(caller->filter, first + i) != TAMIS_OK;
  }
  return NULL;
}

static void no_key_is_lost_among_threads(void **state)
{
  (void) state;
  struct caller callers[THREADS];
  tamis_filter *f = make(1000, 0.01, true);
  run_callers(f, come_and_go, callers);
  for (unsigned t = 0; t < THREADS; t++)
    assert_int_equal(callers[t].missed, 0);
  assert_valid(f);
  assert_int_equal(stats_of(f).count, 0);
  assert_int_equal(stats_of(f).bits_set, 0);
  tamis_destroy(f);
}

/* ---- several filters ---- */

static void a_union_has_the_copies_of_both(void **state)
{
  (void) state;
  for (unsigned r = 0; r < RATES; r++) {
    tamis_filter *a = make(1000, rates[r], true), *b = make(1000, rates[r], true);
    for (uint64_t i = 0; i < 600; i++) {
      tamis_add_hash(a, i);
      tamis_add_hash(b, i + 300);
    }
    uint64_t copies_b = tamis_count_hash(b, 400), copies_a = tamis_count_hash(a, 400);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK);
    assert_int_equal(stats_of(a).count, 1200);
    assert_int_equal(stats_of(b).count, 600);
    assert_true(tamis_count_hash(a, 400) >= copies_a + copies_b || tamis_count_hash(a, 400) == 15);
    if (r > 1) /* few counters are stuck */
      assert_valid(a);
    for (uint64_t i = 0; i < 900; i++)
      assert_true(tamis_contains_hash(a, i));
    for (uint64_t i = 0; i < 600; i++) {
      assert_int_equal(tamis_remove_hash(a, i), TAMIS_OK);
      assert_int_equal(tamis_remove_hash(a, i + 300), TAMIS_OK);
    }
    assert_int_equal(stats_of(a).count, 0);
    tamis_destroy(a);
    tamis_destroy(b);
  }
}

static void a_union_sticks_at_fifteen(void **state)
{
  (void) state;
  tamis_filter *a = make(100, 0.01, true), *b = make(100, 0.01, true);
  for (unsigned i = 0; i < 9; i++) {
    tamis_add_hash(a, 1);
    tamis_add_hash(b, 1);
  }
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  assert_int_equal(tamis_count_hash(a, 1), 15);
  for (unsigned i = 0; i < 18; i++)
    assert_int_equal(tamis_remove_hash(a, 1), TAMIS_OK);
  assert_true(tamis_contains_hash(a, 1));
  tamis_destroy(a);
  tamis_destroy(b);
}

/* Filters that are united with each other in turn have more copies with each union, which are soon
 * more than a file has room for: then it has the most.  All counters are stuck by then. */
static void united_in_turn_they_can_be_saved(void **state)
{
  (void) state;
  tamis_filter *f[] = {make(100, 0.01, true), make(100, 0.01, true)};
  for (uint64_t key = 0; key < 3; key++)
    assert_int_equal(tamis_add_hash(f[0], key), TAMIS_OK);
  for (unsigned unions = 0; unions < 100; unions++) {
    assert_int_equal(tamis_merge(f[1 - unions % 2], f[unions % 2]), TAMIS_OK);
    struct bytes bytes = saved_bytes(f[1 - unions % 2]);
    tamis_filter *loaded = load_bytes(&bytes);
    assert_true(tamis_contains_hash(loaded, 0));
    tamis_destroy(loaded);
    free(bytes.data);
  }
  tamis_destroy(f[0]);
  tamis_destroy(f[1]);
}

static void a_union_stays_within_the_capacity(void **state)
{
  (void) state;
  tamis_filter *a = make(100, 0.01, false), *b = make(100, 0.01, false);
  for (uint64_t i = 0; i < 60; i++) {
    tamis_add_hash(a, i);
    tamis_add_hash(b, 100 + i);
  }
  tamis_stats before = stats_of(a), after;
  assert_int_equal(tamis_merge(a, b), TAMIS_EFULL);
  after = stats_of(a);
  assert_memory_equal(&before, &after, sizeof before);
  for (uint64_t i = 0; i < 20; i++)
    assert_int_equal(tamis_remove_hash(b, 100 + i), TAMIS_OK);
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  assert_int_equal(stats_of(a).count, 100);
  assert_int_equal(tamis_add_hash(a, 500), TAMIS_EFULL);
  assert_valid(a);
  tamis_destroy(a);
  tamis_destroy(b);
}

/* Both have the same size. */
static void growable_matters(void **state)
{
  (void) state;
  tamis_filter *a = make(100, 0.01, true), *b = make(100, 0.01, false);
  assert_int_equal(stats_of(a).bits, stats_of(b).bits);
  assert_int_equal(tamis_add_hash(a, 1), TAMIS_OK);
  assert_int_equal(tamis_merge(a, b), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(b, a), TAMIS_EINVAL);
  assert_int_equal(stats_of(b).count, 0);
  assert_false(tamis_contains_hash(b, 1));
  assert_valid(b);
  tamis_destroy(a);
  tamis_destroy(b);
}

static void there_is_no_intersection(void **state)
{
  (void) state;
  tamis_filter *a = make(100, 0.01, true), *b = make(100, 0.01, true), *c = make(1000, 0.01, true);
  tamis_filter *both = a;
  tamis_similarity_stats similarity = TAMIS_SIMILARITY_STATS_INIT;
  assert_int_equal(tamis_intersect(a, b, &both), TAMIS_EUNSUPPORTED);
  assert_null(both);
  assert_int_equal(tamis_similarity(a, b, &similarity), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_merge(a, c), TAMIS_EINVAL);
  tamis_destroy(a);
  tamis_destroy(b);
  tamis_destroy(c);
}

/* ---- saved filters; unit/bloom/test_save.c has the rest ---- */

static void a_saved_filter_has_its_copies(void **state)
{
  (void) state;
  for (unsigned r = 0; r < RATES; r++)
    for (unsigned most = 1; most <= 25; most += 8) { /* from 17 on, counters are stuck */
      tamis_filter *f = make(100, rates[r], r % 2);
      for (uint64_t i = 0; i < 40; i++)
        for (unsigned copies = 0; copies < i % most + 1; copies++)
          (void) tamis_add_hash(f, i);
      struct bytes saved = saved_bytes(f);
      tamis_filter *g = load_bytes(&saved);
      assert_valid(g);
      tamis_stats a = stats_of(f), b = stats_of(g);
      a.refused_adds = 0; /* a figure of this filter, and not of what is in it */
      assert_memory_equal(&a, &b, sizeof a);
      for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(tamis_count_hash(f, i), tamis_count_hash(g, i));
        assert_int_equal(tamis_remove_hash(f, i), tamis_remove_hash(g, i));
      }
      assert_int_equal(stats_of(f).count, stats_of(g).count);
      assert_valid(g);
      tamis_destroy(f);
      tamis_destroy(g);
      free(saved.data);
    }
}

/* Each of these is in a file whose sums are right, and none may be accepted. */
static void what_no_filter_has_is_refused(void **state)
{
  (void) state;
  tamis_filter *f = make(100, 0.01, false);
  for (uint64_t i = 0; i < 60; i++)
    tamis_add_hash(f, i);
  struct bytes saved = saved_bytes(f);
  size_t array = const_bloom_of(f)->word_count * sizeof(word), trailer = saved.size - SAVED_UNIT;
  const struct replaced numbers[] = {
      {24, 1, TAMIS_OK},                                     /* optional features */
      {32, UINT64_C(1) << 32 | TAMIS_BLOOM, TAMIS_ECORRUPT}, /* kind */
      {32, UINT64_C(1) << 32 | TAMIS_CUCKOO, TAMIS_ECORRUPT},
      {88, UINT64_C(1) << 32, TAMIS_ECORRUPT},     /* layout of the options */
      {256, TAMIS_LAYOUT_BLOCKED, TAMIS_ECORRUPT}, /* layout */
      {256, 5, TAMIS_ECORRUPT},
      {264, 6, TAMIS_ECORRUPT},           /* words of a key */
      {272, 3, TAMIS_ECORRUPT},           /* counters in each of them */
      {trailer + 24, 59, TAMIS_ECORRUPT}, /* copies */
      {trailer + 24, 61, TAMIS_ECORRUPT},
      {trailer + 24, UINT64_C(1) << 62, TAMIS_ECORRUPT},
      {trailer + 24, UINT64_MAX / 6 + 61, TAMIS_ECORRUPT},
      {trailer + 32, 1, TAMIS_ECORRUPT}, /* full */
      {trailer + 40, 1, TAMIS_ECORRUPT}, /* the rest */
      {trailer + 40, UINT64_MAX - 5, TAMIS_ECORRUPT},
  };
  assert_replaced(&saved, array, numbers, sizeof numbers / sizeof *numbers);
  tamis_destroy(f);
  free(saved.data);
}

/* The write function changes the filter: the file has several parts, so later words are read after
 * that. */
struct late {
  struct bytes bytes;
  tamis_filter *f;
  uint64_t next;
};

static int change_and_write(void *context, const void *data, size_t size)
{
  struct late *late = context;
  for (unsigned i = 0; i < 1000; i++, late->next++) {
    (void) tamis_add_hash(late->f, UINT64_C(1) << 40 | late->next);
    if (tamis_remove_hash(late->f, late->next) != TAMIS_OK)
      return 1;
  }
  return write_bytes(&late->bytes, data, size);
}

/* As many copies are counted as the words have: so no place is lost for ever. */
static void a_save_under_fire_counts_what_it_holds(void **state)
{
  (void) state;
  enum { CAPACITY = 700000, KEYS_IN = 20000 };
  struct late late = {.f = make(CAPACITY, 0.01, false)};
  for (uint64_t i = 0; i < KEYS_IN; i++)
    assert_int_equal(tamis_add_hash(late.f, i), TAMIS_OK);
  assert_int_equal(tamis_save(late.f, change_and_write, &late), TAMIS_OK);
  assert_true(late.bytes.calls > 3);
  tamis_filter *g = load_bytes(&late.bytes);
  assert_valid(g);
  for (uint64_t i = late.next; i < KEYS_IN; i++) { /* nobody touched them */
    assert_true(tamis_contains_hash(g, i));
    assert_int_equal(tamis_remove_hash(g, i), TAMIS_OK);
  }
  /* No word is read while a call changes it here, so nothing but whole keys is left. */
  for (uint64_t i = 0; i < late.next; i++) {
    (void) tamis_remove_hash(g, i);
    (void) tamis_remove_hash(g, UINT64_C(1) << 40 | i);
  }
  assert_int_equal(stats_of(g).count, 0);
  assert_int_equal(stats_of(g).bits_set, 0);
  tamis_destroy(g);
  tamis_destroy(late.f);
  free(late.bytes.data);
}

/* ---- validation ---- */

static void validation_finds_what_is_wrong(void **state)
{
  (void) state;
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counters_are_sixteen_numbers),
      cmocka_unit_test(what_is_in_is_found),
      cmocka_unit_test(a_key_is_in_as_often_as_it_was_added),
      cmocka_unit_test(stuck_counters_lose_no_key),
      cmocka_unit_test(add_unique_says_who_was_first),
      cmocka_unit_test(the_rate_is_kept),
      cmocka_unit_test(rates_that_cannot_be_kept_are_refused),
      cmocka_unit_test(capacity_is_a_limit_when_not_growable),
      cmocka_unit_test(a_small_filter_has_one_stripe),
      TEST_WITH_THREADS(many_threads_fill_it_exactly),
      TEST_WITH_THREADS(no_key_is_lost_among_threads),
      cmocka_unit_test(a_union_has_the_copies_of_both),
      cmocka_unit_test(a_union_sticks_at_fifteen),
      cmocka_unit_test(united_in_turn_they_can_be_saved),
      cmocka_unit_test(a_union_stays_within_the_capacity),
      cmocka_unit_test(growable_matters),
      cmocka_unit_test(there_is_no_intersection),
      cmocka_unit_test(a_saved_filter_has_its_copies),
      cmocka_unit_test(what_no_filter_has_is_refused),
      cmocka_unit_test(a_save_under_fire_counts_what_it_holds),
      cmocka_unit_test(validation_finds_what_is_wrong),
  };
  return cmocka_run_group_tests_name("bloom_counting", tests, NULL, NULL);
}
