/* SPDX-License-Identifier: MIT
 *
 * Unions of windows, of both kinds: keys come with the age that they have.
 */
#include "harness.h"
#include "saved_unit.h"
#include "window_unit.h"

#include <stdio.h>

/* ---- filters ---- */

static const tamis_kind kinds[] = {TAMIS_BLOOM, TAMIS_CUCKOO};

static tamis_options options_for(tamis_kind kind, unsigned window, uint64_t capacity, bool growable)
{
  return window_options(kind, window, capacity, low_rate, growable);
}

static tamis_filter *make(tamis_kind kind, unsigned window, uint64_t capacity, bool growable)
{
  tamis_options options = options_for(kind, window, capacity, growable);
  return create(&options);
}

static void merge(tamis_filter *into, const tamis_filter *from)
{
  assert_int_equal(tamis_merge(into, from), TAMIS_OK);
  assert_valid(into);
  assert_valid(from);
}

/* ---- ages ---- */

/* Key i has age i in `from`, whose periods are not those of `into`.  It is forgotten when it would
 * be there, in periods of `into`. */
static void keys_come_with_their_age(void **state)
{
  (void) state;
  static const unsigned windows[] = {1, 2, 3, 6, 14, 30, 64};
  for (unsigned i = 0; i < 2 * sizeof windows / sizeof *windows; i++)
    for (unsigned ahead = 0; ahead < 5; ahead += 2) {
      unsigned window = windows[i / 2];
      tamis_filter *into = make(kinds[i % 2], window, 1000, i % 3),
                   *from = make(kinds[i % 2], window, 1000, i % 3);
      advance(into, ahead);
      advance(from, 5 * window % 11);
      for (unsigned age = window + 2; age-- > 0;) {
        add(from, age, 1);
        advance(from, age != 0);
      }
      merge(into, from);
      assert_int_equal(stats_of(into).count, window + 1);
      for (unsigned now = 0; now <= window + 1; now++) {
        for (unsigned age = 0; age <= window + 1; age++)
          assert_int_equal(tamis_contains_hash(into, age), now + age <= window);
        assert_valid(into);
        advance(into, 1);
      }
      assert_true(tamis_contains_hash(from, 0) && !tamis_contains_hash(from, window + 1));
      tamis_destroy(into);
      tamis_destroy(from);
    }
}

/* Of two ages of a key the younger one stays, whichever filter has it. */
static void the_younger_age_stays(void **state)
{
  (void) state;
  const unsigned window = 4;
  for (unsigned i = 0; i < 2 * 25; i++) {
    unsigned a = i / 2 / 5, b = i / 2 % 5, younger = a < b ? a : b;
    tamis_filter *into = make(kinds[i % 2], window, 100, true),
                 *from = make(kinds[i % 2], window, 100, true);
    add(into, 7, 2);
    advance(into, a);
    add(from, 7, 3);
    advance(from, b);
    merge(into, from);
    assert_int_equal(tamis_count_hash(into, 7), i % 2 ? 5 : 1);
    assert_int_equal(tamis_add_unique_hash(into, 7), TAMIS_PRESENT);
    advance(into, window - younger);
    assert_int_equal(tamis_count_hash(into, 7), i % 2 ? 5 : 1);
    assert_valid(into);
    advance(into, 1);
    assert_int_equal(tamis_count_hash(into, 7), 0);
    assert_int_equal(stats_of(into).count, 0);
    tamis_destroy(into);
    tamis_destroy(from);
  }
}

/* ---- any contents ---- */

enum { IDS = 400 };

struct content {
  uint64_t now, last[IDS], copies[IDS];
};

static uint64_t copies_of(const struct content *c, uint64_t id, unsigned window)
{
  return c->now - c->last[id] <= window ? c->copies[id] : 0;
}

static void fill(tamis_filter *f, struct content *c, unsigned window, uint64_t seed)
{
  uint64_t random = seed;
  for (unsigned call = 0; call < 600; call++) {
    uint64_t id = random_next(&random) % IDS;
    if (random_next(&random) % 32 == 0) {
      advance(f, 1);
      c->now++;
    }
    c->copies[id] = copies_of(c, id, window) + 1;
    c->last[id] = c->now;
    add(f, id, 1);
  }
}

static void a_union_has_what_both_have(void **state)
{
  (void) state;
  for (unsigned round = 0; round < 40; round++) {
    static struct content a, b;
    bool counts = round % 2, growable = round / 2 % 2;
    unsigned window = 1 + round % 9;
    a = b = (struct content){0};
    tamis_options options = options_for(kinds[counts], window, IDS, growable);
    options.stripes = round % 5;
    tamis_filter *into = create(&options);
    options.stripes = round % 3;
    options.window_renews = true; /* this need not be the same */
    tamis_filter *from = create(&options);
    fill(into, &a, window, round + 1);
    fill(from, &b, window, round + 100);
    merge(into, from);
    for (unsigned now = 0; now <= window; now++) {
      uint64_t sum = 0;
      for (uint64_t id = 0; id < IDS; id++) {
        /* All copies are as old as the youngest ones were when both were united. */
        uint64_t x = copies_of(&a, id, window), y = copies_of(&b, id, window);
        uint64_t age_a = x ? a.now - a.last[id] : UINT32_MAX,
                 age_b = y ? b.now - b.last[id] : UINT32_MAX;
        uint64_t age = age_a < age_b ? age_a : age_b;
        uint64_t expected = age + now > window ? 0 : counts ? x + y : 1;
        assert_int_equal(tamis_count_hash(into, id), expected);
        assert_int_equal(tamis_count_hash(from, id), counts || !y ? y : 1);
        sum += expected;
      }
      assert_int_equal(stats_of(into).count, sum);
      advance(into, 1);
      assert_valid(into);
    }
    tamis_destroy(into);
    tamis_destroy(from);
  }
}

/* A table of several segments. */
static void large_windows_are_united(void **state)
{
  (void) state;
  const uint64_t keys = 1500000 / SCALE;
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *into = make(kinds[i], 2, keys, false), *from = make(kinds[i], 2, keys, false);
    for (uint64_t key = 0; key < keys / 2; key += 2)
      add(into, key, 1);
    for (uint64_t key = 0; key < keys; key += 3)
      add(from, key, i && key % 1024 == 0 ? 2 : 1);
    advance(from, 1);
    merge(into, from);
    for (uint64_t key = 0; key < keys; key++) {
      unsigned a = key < keys / 2 && key % 2 == 0, b = key % 3 == 0;
      if (a || b)
        assert_true(tamis_contains_hash(into, key));
      if (key % 1024 == 0)
        assert_in_range(tamis_count_hash(into, key), i ? a + 2 * b : a | b, a + 2 * b + 1);
    }
    advance(into, 2);
    assert_true(tamis_contains_hash(into, 0) && !tamis_contains_hash(into, 3));
    tamis_destroy(into);
    tamis_destroy(from);
  }
}

/* ---- what does not fit ---- */

static void assert_not_united(tamis_filter *into, const tamis_filter *from, int expected)
{
  tamis_stats before = stats_of(into);
  assert_int_equal(tamis_merge(into, from), expected);
  tamis_stats after = stats_of(into);
  assert_true(before.count == after.count && before.bytes == after.bytes);
  assert_valid(into);
}

/* What both have counts once. */
static void a_union_beyond_the_capacity_changes_nothing(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 4; i++) {
    bool growable = i / 2;
    tamis_filter *into = make(kinds[i % 2], 2, 1000, growable),
                 *from = make(kinds[i % 2], 2, 1000, growable);
    for (uint64_t key = 0; key < 700; key++)
      add(into, key, 1);
    for (uint64_t key = 300; key < 1000; key++)
      add(from, key, 1);
    merge(into, from);
    for (uint64_t key = 0; key < 1000; key++)
      assert_true(tamis_contains_hash(into, key));
    add(from, 1000, 1);
    assert_not_united(into, from, growable ? TAMIS_EUNSUPPORTED : TAMIS_EFULL);
    advance(into, 3); /* now there is room */
    merge(into, from);
    assert_true(tamis_contains_hash(into, 1000));
    tamis_destroy(into);
    tamis_destroy(from);
  }
}

/* Adds keys from `from` on until there are two layers. */
static void add_until_it_grows(tamis_filter *f, uint64_t from)
{
  while (stats_of(f).layers < 2)
    add(f, from++, 1);
}

/* Filters of several layers have none, until the older ones have left; then one of the same
 * size. */
static void layers_have_no_union(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *a = make(kinds[i], 1, 100, true), *b = make(kinds[i], 1, 100, true);
    add_until_it_grows(a, 1000);
    add(b, 7, 1);
    assert_not_united(a, b, TAMIS_EUNSUPPORTED);
    assert_not_united(b, a, TAMIS_EUNSUPPORTED);
    advance(a, 2);
    assert_int_equal(stats_of(a).layers, 1);
    assert_not_united(a, b, TAMIS_EUNSUPPORTED);
    assert_not_united(b, a, TAMIS_EUNSUPPORTED);
    add_until_it_grows(b, 2000);
    advance(b, 2);
    add(a, 7, 1);
    add(b, 8, 1);
    merge(a, b);
    assert_true(tamis_contains_hash(a, 7) && tamis_contains_hash(a, 8));
    assert_int_equal(tamis_add_unique_hash(a, 8), TAMIS_PRESENT);
    tamis_destroy(a);
    tamis_destroy(b);
  }
}

static void a_union_keeps_within_max_bytes(void **state)
{
  (void) state;
  struct counts counts = {0};
  tamis_allocator allocator = counting(&counts);
  tamis_options options = options_for(TAMIS_CUCKOO, 2, 1000, true);
  uint64_t bytes;
  assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
  tamis_filter *from = create(&options);
  options.max_bytes = bytes + 300;
  options.allocator = &allocator;
  tamis_filter *into = create(&options);
  for (uint64_t key = 0; key < 500; key++)
    add(from, key, 2);
  assert_int_equal(tamis_merge(into, from), TAMIS_EFULL);
  assert_true(stats_of(into).bytes <= options.max_bytes);
  for (uint64_t key = 0; key < 500; key++) { /* each with all of its copies, or without */
    uint64_t count = tamis_count_hash(into, key);
    assert_true(count == 0 || count == 2);
  }
  assert_valid(into);
  counts.fail_at = counts.calls + 1; /* for the copy of a segment */
  assert_int_equal(tamis_merge(into, from), TAMIS_ENOMEM);
  tamis_destroy(into);
  tamis_destroy(from);
  assert_int_equal(counts.now, 0);
}

/* ---- more lanes than 32 bits count ---- */

/* A single stripe, which seems to cover nearly 2^32 lanes in use already. */
static void lanes_of_a_stripe_pass_32_bits(void **state)
{
  (void) state;
  const uint64_t others = UINT32_MAX - UINT64_C(2);
  for (unsigned i = 0; i < 2; i++) {
    tamis_options options = options_for(kinds[i], 3, 1000, false);
    options.stripes = 1;
    tamis_filter *f = create(&options), *from = create(&options);
    struct window *w = window_of(f);
    assert_int_equal(w->stripes.mask, 0);
    atomic_fetch_add(&w->stripes.all[0].lanes, others);
    for (uint64_t key = 0; key < 10; key++)
      add(f, key, 1);
    assert_int_equal(stats_of(f).count, others + 10);
    add(from, 100, 1);
    assert_int_equal(tamis_merge(f, from), TAMIS_EFULL);
    advance(f, 4);
    assert_int_equal(stats_of(f).count, others);
    atomic_fetch_sub(&w->stripes.all[0].lanes, others);
    assert_valid(f);
    tamis_destroy(f);
    tamis_destroy(from);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_come_with_their_age),
      cmocka_unit_test(the_younger_age_stays),
      cmocka_unit_test(a_union_has_what_both_have),
      cmocka_unit_test(large_windows_are_united),
      cmocka_unit_test(a_union_beyond_the_capacity_changes_nothing),
      cmocka_unit_test(layers_have_no_union),
      cmocka_unit_test(a_union_keeps_within_max_bytes),
      cmocka_unit_test(lanes_of_a_stripe_pass_32_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
