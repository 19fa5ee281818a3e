/* SPDX-License-Identifier: MIT
 *
 * The duplicate table, and filters to which keys are added more than once.
 */
#include "unit.h"

#include "base/hash.h"
#include "cuckoo/duplicates.h"
#include "cuckoo_unit.h"

/* ---- the table ---- */

enum { TABLE_KEYS = 24, LARGEST_MASK = 63 };

/* A table against the counts that it should hold. */
struct model {
  struct duplicate_table *table;
  size_t room;
  uint64_t keys[TABLE_KEYS];
  uint64_t counts[TABLE_KEYS];
};

static struct duplicate_table *make_table(size_t n)
{
  struct duplicate_table *table = calloc(1, tamis__duplicates_bytes(n));
  assert_non_null(table);
  tamis__duplicates_init(table, n);
  return table;
}

/* The n-th key whose home is `slot` in tables of LARGEST_MASK + 1 slots.  In smaller tables its
 * home is `slot` modulo their size. */
static uint64_t key_at_home_in(size_t slot, unsigned n)
{
  for (uint64_t key = 1;; key++)
    if ((hash_spread(hash_fold(key, 0, 0)) >> 32 & LARGEST_MASK) == slot && n-- == 0)
      return key;
}

/* What the owner of a table does when it has no room. */
static void rebuild(struct model *m)
{
  struct duplicate_table *old = m->table;
  m->room = old->used + 1;
  m->table = make_table(m->room);
  for (size_t i = 0; i <= old->mask; i++)
    if (old->slots[i].key)
      tamis__duplicates_add(m->table, old->slots[i].key, old->slots[i].count);
  free(old);
}

static void assert_same(const struct model *m)
{
  size_t used = 0;
  for (unsigned i = 0; i < TABLE_KEYS; i++) {
    const struct duplicate_count *entry = tamis__duplicates_find(m->table, m->keys[i]);
    assert_int_equal(entry ? entry->count : 0, m->counts[i]);
    assert_true(!entry || entry->key == m->keys[i]);
    used += m->counts[i] != 0;
  }
  assert_int_equal(m->table->used, used);
  size_t taken = 0;
  for (size_t i = 0; i <= m->table->mask; i++)
    taken += m->table->slots[i].key != 0;
  assert_int_equal(taken, used);
}

/* The keys have few homes, the last slots among them: so chains are long, and wrap round the
 * end. */
static void a_table_does_what_a_list_of_counts_does(void **state)
{
  (void) state;
  const size_t homes[] = {LARGEST_MASK, LARGEST_MASK - 1, 0, 7, 21};
  for (uint64_t seed = 1; seed <= 40; seed++) {
    unsigned spread = 1 + (unsigned) seed % 5;
    struct model m = {.table = make_table(1), .room = 1};
    for (unsigned i = 0; i < TABLE_KEYS; i++)
      m.keys[i] = key_at_home_in(homes[i % spread], i / spread);
    uint64_t random = seed;
    for (unsigned step = 0; step < 3000; step++) {
      /* adds and removes prevail in turn */
      bool adding = random_next(&random) % 8 < (step / 300 % 2 ? 3 : 5);
      unsigned i = (unsigned) (random_next(&random) % TABLE_KEYS);
      if (adding) {
        if (!m.counts[i] && m.table->used >= tamis__duplicates_capacity(m.table))
          rebuild(&m);
        uint64_t count = 1 + random_next(&random) % 3;
        tamis__duplicates_add(m.table, m.keys[i], count);
        m.counts[i] += count;
      } else {
        struct duplicate_count *entry = tamis__duplicates_find(m.table, m.keys[i]);
        assert_true(!entry == !m.counts[i]);
        if (entry) {
          tamis__duplicates_remove(m.table, entry);
          m.counts[i]--;
        }
      }
      assert_same(&m);
    }
    assert_true(m.table->mask > 7); /* it has been rebuilt */
    free(m.table);
  }
}

static void there_is_room_for_as_many_as_asked_for(void **state)
{
  (void) state;
  for (size_t n = 1; n <= 1000; n++) {
    struct duplicate_table *table = make_table(n);
    for (uint64_t key = 1; key <= n; key++) {
      assert_true((table->used < tamis__duplicates_capacity(table)));
      tamis__duplicates_add(table, key, key);
    }
    while ((table->used < tamis__duplicates_capacity(table)))
      tamis__duplicates_add(table, 1000000 + table->used, 1);
    assert_int_equal(table->used, (table->mask + 1) / 2);
    /* the size follows from the number of slots alone: the table is released with it */
    assert_int_equal(tamis__duplicates_bytes((table->mask + 1) / 2), tamis__duplicates_bytes(n));
    for (uint64_t key = 1; key <= n; key++)
      assert_int_equal(tamis__duplicates_find(table, key)->count, key);
    assert_null(tamis__duplicates_find(table, n + 1 + 2000000));
    free(table);
  }
}

/* A full chain begins at each slot in turn, the last ones too.  Whichever key is removed, the
 * others are found. */
static void closing_a_hole_loses_nothing(void **state)
{
  (void) state;
  enum { SLOTS = 16, CHAIN = 8 };
  for (size_t start = 0; start < SLOTS; start++)
    for (unsigned second_home = 0; second_home < 3; second_home++)
      for (unsigned gone = 0; gone < CHAIN; gone++) {
        struct duplicate_table *table = make_table(CHAIN);
        assert_int_equal(table->mask, SLOTS - 1);
        uint64_t keys[CHAIN];
        for (unsigned i = 0; i < CHAIN; i++) {
          /* the home of every third key is not the start of the chain */
          size_t slot = (start + (i % 3 == 2 ? second_home : 0)) % SLOTS;
          keys[i] = key_at_home_in(slot, i);
          tamis__duplicates_add(table, keys[i], i + 2);
        }
        for (unsigned i = 0; i < gone + 2; i++)
          tamis__duplicates_remove(table, tamis__duplicates_find(table, keys[gone]));
        assert_null(tamis__duplicates_find(table, keys[gone]));
        for (unsigned i = 0; i < CHAIN; i++)
          if (i != gone)
            assert_int_equal(tamis__duplicates_find(table, keys[i])->count, i + 2);
        tamis__duplicates_add(table, keys[gone], 1);
        assert_int_equal(tamis__duplicates_find(table, keys[gone])->count, 1);
        assert_int_equal(table->used, CHAIN);
        free(table);
      }
}

/* Keys are made of a pair and an entry, and use the upper half too. */
static void large_keys_and_counts_are_whole(void **state)
{
  (void) state;
  struct duplicate_table *table = make_table(2);
  uint64_t key = UINT64_C(1) << 63 | 1, count = UINT64_C(1) << 40;
  tamis__duplicates_add(table, key, count);
  tamis__duplicates_add(table, 1, 1);
  assert_int_equal(tamis__duplicates_find(table, key)->count, count);
  assert_int_equal(tamis__duplicates_find(table, 1)->count, 1);
  assert_null(tamis__duplicates_find(table, UINT64_C(1) << 63));
  free(table);
}

/* ---- copies in filters ---- */

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

/* Eight keys share a few buckets: most of them have the same pair as another key. */
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

/* A few copies of every key take lanes, so pairs overflow early.  That is no reason to be full. */
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

/* Adds to a filter that does not grow come to an end, although copies make cuckoo paths long. */
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
      const struct cuckoo_geometry *g = &cuckoo_of(f)->generation[0]->geometry;
      assert_in_range(n, capacity / 2, cuckoo_roots(g) * cuckoo_lanes(g)); /* one lane a key */
      assert_all_in(f, 0, n);
      assert_valid(f);
      tamis_destroy(f);
    }
}

/* ---- copies at the limits ---- */

/* Each key comes three times, until long after the filter is full.  Few lanes and many copies
 * make long cuckoo paths, and the last room may be at the end of a path that is too long. */
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

/* In a full filter keys that seem to be there are counted as duplicates, but only a few of them. */
static void a_full_filter_does_not_go_on_in_its_duplicate_tables(void **state)
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
    const struct duplicate_table *table = atomic_load(&segment->duplicates);
    most = table && table->used > most ? table->used : most;
  }
  assert_int_equal(most, cuckoo_lanes(g) / 512 + 8);
  assert_valid(f);
  tamis_destroy(f);
}

/* At the limit copies are folded, which takes less memory than more lanes.  Adds come to an end
 * although copies make cuckoo paths long. */
static void copies_are_folded_at_the_limit(void **state)
{
  (void) state;
  const struct {
    uint64_t capacity;
    double fpp, load; /* reached with each key twice, as if all copies stood in lanes */
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
    options.max_bytes +=
        2 * g.segment_bytes - 64; /* not enough for a split, but enough for duplicate tables */
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_table_does_what_a_list_of_counts_does),
      cmocka_unit_test(there_is_room_for_as_many_as_asked_for),
      cmocka_unit_test(closing_a_hole_loses_nothing),
      cmocka_unit_test(large_keys_and_counts_are_whole),
      cmocka_unit_test(a_million_copies_of_one_key_are_harmless),
      cmocka_unit_test(copies_go_along_in_splits_and_joins),
      cmocka_unit_test(copies_of_neighbours_are_told_apart),
      cmocka_unit_test(keys_that_come_a_few_times_do_not_fill_a_growable_filter),
      cmocka_unit_test(keys_that_come_twice_fill_a_fixed_filter),
      cmocka_unit_test(a_full_filter_says_so_with_copies_too),
      cmocka_unit_test(a_full_filter_does_not_go_on_in_its_duplicate_tables),
      cmocka_unit_test(copies_are_folded_at_the_limit),
  };
  return cmocka_run_group_tests_name("cuckoo_duplicates", tests, NULL, NULL);
}
