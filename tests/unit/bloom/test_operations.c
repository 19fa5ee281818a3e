/* SPDX-License-Identifier: MIT
 *
 * Calls on a Bloom filter, one after the other.
 */
#include "unit.h"

#include "bloom_unit.h"

#include <pthread.h>
#include <semaphore.h>

static void what_was_added_is_found(tamis_layout layout)
{
  const double rates[] = {0.3, 0.01, low_rate(layout)};
  for (unsigned r = 0; r < 3; r++)
    for (uint64_t n = 1; n <= 100000; n *= 10) {
      tamis_filter *f = make_filter(layout, n, rates[r]);
      for (uint64_t i = 0; i < n; i++)
        assert_false(tamis_contains_hash(f, i) && stats_of(f).bits_set == 0);
      for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
        assert_true(tamis_contains_hash(f, i));
      }
      for (uint64_t i = 0; i < n; i++)
        assert_true(tamis_contains_hash(f, i));
      assert_valid(f);
      tamis_destroy(f);
    }
}
EACH_LAYOUT(what_was_added_is_found)

static void play_unique_adds(tamis_layout layout, uint64_t first, unsigned n)
{
  tamis_filter *f = make_filter(layout, n, 0.01);
  unsigned won = 0;
  for (uint64_t i = first; i < first + n; i++) {
    bool seemed_there = tamis_contains_hash(f, i);
    int result = tamis_add_unique_hash(f, i);
    assert_int_equal(result, seemed_there ? TAMIS_PRESENT : TAMIS_OK);
    assert_int_equal(tamis_add_unique_hash(f, i), TAMIS_PRESENT);
    won += result == TAMIS_OK;
  }
  assert_int_equal(stats_of(f).count, won);
  assert_in_range(n - won, 0, n * 0.01 + 3);
  assert_valid(f);
  tamis_destroy(f);
}

/* In small filters some keys have one bit twice. */
static void add_unique_says_who_was_first(tamis_layout layout)
{
  play_unique_adds(layout, 0, 20000);
  for (uint64_t i = 0; i < 50; i++)
    play_unique_adds(layout, 1000 * i, 100);
}
EACH_LAYOUT(add_unique_says_who_was_first)

static void duplicates_change_nothing(tamis_layout layout)
{
  tamis_filter *f = make_filter(layout, 1000, 0.01);
  tamis_add(f, "again", 5);
  tamis_stats before = stats_of(f);
  for (unsigned i = 0; i < 1000000; i++)
    assert_int_equal(tamis_add(f, "again", 5), TAMIS_OK);
  tamis_stats after = stats_of(f);
  assert_memory_equal(&before, &after, sizeof before);
  tamis_destroy(f);
}
EACH_LAYOUT(duplicates_change_nothing)

static void capacity_is_a_limit_when_not_growable(tamis_layout layout)
{
  const uint64_t capacities[] = {1, 2, 10, 100, 1000, 12345, 200000};
  for (unsigned c = 0; c < sizeof capacities / sizeof *capacities; c++) {
    uint64_t n = capacities[c];
    tamis_options options = TAMIS_OPTIONS_INIT;
    options.layout = layout;
    options.capacity = n;
    options.growable = false;
    options.seed = n;
    tamis_filter *f;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    uint64_t in = 0;
    while (in < n) /* none refused up to capacity */
      assert_true((in % 2 ? tamis_add_hash(f, in++) : tamis_add_unique_hash(f, in++)) >= 0);
    while (tamis_add_hash(f, in) == TAMIS_OK)
      in++;
    assert_true((double) in <=
                1.005 * (double) n + 1); /* and few more, which false positives hide */
    assert_int_equal(tamis_add_unique_hash(f, in), TAMIS_EFULL);

    tamis_stats before = stats_of(f);
    assert_false(tamis_contains_hash(f, in));
    for (uint64_t i = 0; i < 1000; i++) {
      uint64_t key = in + i;
      bool there = tamis_contains_hash(f, key);
      assert_int_equal(tamis_add_hash(f, key), there ? TAMIS_OK : TAMIS_EFULL);
      assert_int_equal(tamis_add_unique_hash(f, key), there ? TAMIS_PRESENT : TAMIS_EFULL);
    }
    tamis_stats after = stats_of(f);
    assert_true(after.refused_adds > before.refused_adds);
    after.refused_adds = before.refused_adds;
    assert_memory_equal(&before, &after, sizeof before); /* nothing else changed */
    for (uint64_t i = 0; i < in; i++)
      assert_true(tamis_contains_hash(f, i));
    assert_valid(f);
    tamis_destroy(f);
  }
}
EACH_LAYOUT(capacity_is_a_limit_when_not_growable)

/* Threads add a key each in turn: their shards fill evenly, and the limit is exact all the same. */
enum { TURNS_THREADS = 8 };

struct turns {
  tamis_filter *filter;
  sem_t may_add[TURNS_THREADS]; /* posted when it is the thread's turn */
  uint64_t next, hidden;        /* the next key, and how many false positives hid; of the thread
                                 * whose turn it is */
  bool full;
};

struct turn {
  struct turns *turns;
  unsigned index;
};

static void *take_turns(void *arg)
{
  const struct turn *turn = arg;
  struct turns *turns = turn->turns;
  bool full = false;
  while (!full) {
    sem_wait(&turns->may_add[turn->index]);
    if (!turns->full) {
      turns->hidden += tamis_contains_hash(turns->filter, turns->next);
      turns->full = tamis_add_hash(turns->filter, turns->next) != TAMIS_OK;
      turns->next += !turns->full;
    }
    full = turns->full;
    sem_post(&turns->may_add[(turn->index + 1) % TURNS_THREADS]);
  }
  return NULL;
}

static void fill_in_turns(tamis_layout layout, uint64_t capacity)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = layout;
  options.capacity = capacity;
  options.fpp = low_rate(layout);
  options.growable = false;
  options.seed = capacity;
  struct turns turns = {0};
  struct turn turn[TURNS_THREADS];
  pthread_t threads[TURNS_THREADS];
  assert_int_equal(tamis_create(&options, &turns.filter), TAMIS_OK);
  for (unsigned i = 0; i < TURNS_THREADS; i++)
    assert_int_equal(sem_init(&turns.may_add[i], 0, i == 0), 0);
  for (unsigned i = 0; i < TURNS_THREADS; i++) {
    turn[i] = (struct turn){&turns, i};
    assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &turn[i]), 0);
  }
  for (unsigned i = 0; i < TURNS_THREADS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (unsigned i = 0; i < TURNS_THREADS; i++)
    sem_destroy(&turns.may_add[i]);
  assert_int_equal(turns.next - turns.hidden, capacity);
  tamis_destroy(turns.filter);
}

/* The last one is so large that the counters are looked at less often at first. */
static void threads_in_turn_keep_to_the_capacity(tamis_layout layout)
{
  for (uint64_t capacity = 300; capacity < 1500; capacity += 37)
    fill_in_turns(layout, capacity);
  fill_in_turns(layout, 12000);
}
EACH_LAYOUT(threads_in_turn_keep_to_the_capacity)

/* At high rates false positives hide many keys, so the count of keys reaches the capacity late.
 * The bits decide then. */
static void a_full_filter_keeps_its_rate(tamis_layout layout)
{
  const double rates[] = {0.1, 0.3, 0.5, 0.9, 0.99};
  for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++)
    for (uint64_t n = 1000; n <= 100000; n *= 10) {
      tamis_options options = TAMIS_OPTIONS_INIT;
      options.layout = layout;
      options.capacity = n;
      options.fpp = rates[r];
      options.growable = false;
      options.seed = n;
      tamis_filter *f;
      assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
      uint64_t in = 0;
      while (in < 20 * n && tamis_add_hash(f, in) == TAMIS_OK)
        in++;
      assert_true(in >= n && in < 20 * n);
      assert_true(stats_of(f).fpp_estimate <= (n == 1000 ? 1.25 : 1.1) * rates[r]);
      if (n == 100000 && rates[r] <= 0.5)
        assert_true((double) in <= 1.04 * (double) n);
      tamis_destroy(f);
    }
}
EACH_LAYOUT(a_full_filter_keeps_its_rate)

static void growable_goes_on(tamis_layout layout)
{
  tamis_filter *f = make_filter(layout, 1000, 0.01);
  for (uint64_t i = 0; i < 100000; i++) {
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    assert_true(tamis_contains_hash(f, i));
  }
  tamis_stats s = stats_of(f);
  assert_true(s.load > 10 && s.fpp_estimate < 0.01 && s.layers == 8);
  assert_valid(f);
  tamis_destroy(f);
}
EACH_LAYOUT(growable_goes_on)

int main(void)
{
  const struct CMUnitTest tests[] = {
      EACH(what_was_added_is_found),
      EACH(add_unique_says_who_was_first),
      EACH(duplicates_change_nothing),
      EACH(capacity_is_a_limit_when_not_growable),
      EACH_WITH_THREADS(threads_in_turn_keep_to_the_capacity),
      EACH(a_full_filter_keeps_its_rate),
      EACH(growable_goes_on),
  };
  return cmocka_run_group_tests_name("bloom_operations", tests, NULL, NULL);
}
