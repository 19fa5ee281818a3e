/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/hash.h"
#include "cuckoo/duplicates.h"
#include "harness.h"

#include <stdlib.h>

enum { KEYS = 24, LARGEST_MASK = 63 };

/* A table against the counts that it should hold. */
struct model {
  struct duplicate_table *copies;
  size_t room;
  uint64_t keys[KEYS];
  uint64_t counts[KEYS];
};

static struct duplicate_table *make_table(size_t n)
{
  struct duplicate_table *copies = calloc(1, tamis__duplicates_bytes(n));
  assert_non_null(copies);
  tamis__duplicates_init(copies, n);
  return copies;
}

/* The n-th key at home in `place` of every table of up to LARGEST_MASK + 1 places, or, for smaller
 * tables, in what is left of it. */
static uint64_t key_at_home_in(size_t place, unsigned n)
{
  for (uint64_t key = 1;; key++)
    if ((hash_spread(hash_fold(key, 0, 0)) >> 32 & LARGEST_MASK) == place && n-- == 0)
      return key;
}

/* What its owner does when a table has no room. */
static void rebuild(struct model *m)
{
  struct duplicate_table *old = m->copies;
  m->room = old->used + 1;
  m->copies = make_table(m->room);
  for (size_t i = 0; i <= old->mask; i++)
    if (old->slots[i].key)
      tamis__duplicates_add(m->copies, old->slots[i].key, old->slots[i].count);
  free(old);
}

static void assert_same(const struct model *m)
{
  size_t used = 0;
  for (unsigned i = 0; i < KEYS; i++) {
    const struct duplicate_count *entry = tamis__duplicates_find(m->copies, m->keys[i]);
    assert_int_equal(entry ? entry->count : 0, m->counts[i]);
    assert_true(!entry || entry->key == m->keys[i]);
    used += m->counts[i] != 0;
  }
  assert_int_equal(m->copies->used, used);
  size_t places = 0;
  for (size_t i = 0; i <= m->copies->mask; i++)
    places += m->copies->slots[i].key != 0;
  assert_int_equal(places, used);
}

/* Keys with few homes, the last places among them: long chains, which go round the end. */
static void a_table_does_what_a_list_of_counts_does(void **state)
{
  (void) state;
  const size_t homes[] = {LARGEST_MASK, LARGEST_MASK - 1, 0, 7, 21};
  for (uint64_t seed = 1; seed <= 40; seed++) {
    unsigned spread = 1 + (unsigned) seed % 5;
    struct model m = {.copies = make_table(1), .room = 1};
    for (unsigned i = 0; i < KEYS; i++)
      m.keys[i] = key_at_home_in(homes[i % spread], i / spread);
    uint64_t random = seed;
    for (unsigned step = 0; step < 3000; step++) {
      /* now more comes, now more goes */
      bool adding = random_next(&random) % 8 < (step / 300 % 2 ? 3 : 5);
      unsigned i = (unsigned) (random_next(&random) % KEYS);
      if (adding) {
        if (!m.counts[i] && m.copies->used >= tamis__duplicates_capacity(m.copies))
          rebuild(&m);
        uint64_t count = 1 + random_next(&random) % 3;
        tamis__duplicates_add(m.copies, m.keys[i], count);
        m.counts[i] += count;
      } else {
        struct duplicate_count *entry = tamis__duplicates_find(m.copies, m.keys[i]);
        assert_true(!entry == !m.counts[i]);
        if (entry) {
          tamis__duplicates_remove(m.copies, entry);
          m.counts[i]--;
        }
      }
      assert_same(&m);
    }
    assert_true(m.copies->mask > 7); /* it has been rebuilt */
    free(m.copies);
  }
}

static void there_is_room_for_as_many_as_asked_for(void **state)
{
  (void) state;
  for (size_t n = 1; n <= 1000; n++) {
    struct duplicate_table *copies = make_table(n);
    for (uint64_t key = 1; key <= n; key++) {
      assert_true((copies->used < tamis__duplicates_capacity(copies)));
      tamis__duplicates_add(copies, key, key);
    }
    while ((copies->used < tamis__duplicates_capacity(copies)))
      tamis__duplicates_add(copies, 1000000 + copies->used, 1);
    assert_int_equal(copies->used, (copies->mask + 1) / 2);
    /* the size follows from the places alone: by it the table is given back */
    assert_int_equal(tamis__duplicates_bytes((copies->mask + 1) / 2), tamis__duplicates_bytes(n));
    for (uint64_t key = 1; key <= n; key++)
      assert_int_equal(tamis__duplicates_find(copies, key)->count, key);
    assert_null(tamis__duplicates_find(copies, n + 1 + 2000000));
    free(copies);
  }
}

/* A full chain from each place on, the last ones too: whichever is taken, the others are found. */
static void closing_a_hole_loses_nothing(void **state)
{
  (void) state;
  enum { PLACES = 16, CHAIN = 8 };
  for (size_t start = 0; start < PLACES; start++)
    for (unsigned second_home = 0; second_home < 3; second_home++)
      for (unsigned gone = 0; gone < CHAIN; gone++) {
        struct duplicate_table *copies = make_table(CHAIN);
        assert_int_equal(copies->mask, PLACES - 1);
        uint64_t keys[CHAIN];
        for (unsigned i = 0; i < CHAIN; i++) {
          /* every third one is not at the start of the chain at home */
          size_t place = (start + (i % 3 == 2 ? second_home : 0)) % PLACES;
          keys[i] = key_at_home_in(place, i);
          tamis__duplicates_add(copies, keys[i], i + 2);
        }
        for (unsigned i = 0; i < gone + 2; i++)
          tamis__duplicates_remove(copies, tamis__duplicates_find(copies, keys[gone]));
        assert_null(tamis__duplicates_find(copies, keys[gone]));
        for (unsigned i = 0; i < CHAIN; i++)
          if (i != gone)
            assert_int_equal(tamis__duplicates_find(copies, keys[i])->count, i + 2);
        tamis__duplicates_add(copies, keys[gone], 1);
        assert_int_equal(tamis__duplicates_find(copies, keys[gone])->count, 1);
        assert_int_equal(copies->used, CHAIN);
        free(copies);
      }
}

/* A pair and an entry make keys that use the upper half too. */
static void large_keys_and_counts_are_whole(void **state)
{
  (void) state;
  struct duplicate_table *copies = make_table(2);
  uint64_t key = UINT64_C(1) << 63 | 1, count = UINT64_C(1) << 40;
  tamis__duplicates_add(copies, key, count);
  tamis__duplicates_add(copies, 1, 1);
  assert_int_equal(tamis__duplicates_find(copies, key)->count, count);
  assert_int_equal(tamis__duplicates_find(copies, 1)->count, 1);
  assert_null(tamis__duplicates_find(copies, UINT64_C(1) << 63));
  free(copies);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_table_does_what_a_list_of_counts_does),
      cmocka_unit_test(there_is_room_for_as_many_as_asked_for),
      cmocka_unit_test(closing_a_hole_loses_nothing),
      cmocka_unit_test(large_keys_and_counts_are_whole),
  };
  return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
