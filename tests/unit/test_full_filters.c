/* SPDX-License-Identifier: MIT
 *
 * Full filters: what they refuse, they refuse without a search, and they take keys again as soon as
 * there is room.
 */
#include "cuckoo/directory.h"
#include "filter_unit.h"

static uint64_t key(uint64_t i)
{
  return i * UINT64_C(0x9E3779B97F4A7C15);
}

/* ---- filters with tables ---- */

/* Windows of the Bloom kind, cuckoo filters, their windows: each fixed, and growing. */
enum { TABLES = 6, CUCKOO_FIXED = 2, CUCKOO_GROWING };

static const struct form *table(unsigned i)
{
  const struct form *form = NULL;
  do
    form = next_form(form);
  while ((form->options.kind != TAMIS_CUCKOO && !form->options.window) || i--);
  return form;
}

static const double rates[] = {0.01, 1e-6};
enum { RATES = 2 };

static tamis_options options_of(const struct form *form, uint64_t keys, double fpp)
{
  tamis_options o = form->options;
  o.capacity = keys, o.fpp = fpp, o.seed = 7;
  return o;
}

/* Adds keys so often each, and then others until nearly all are refused. */
static void fill(tamis_filter *f, uint64_t keys, unsigned copies, bool key_by_key)
{
  for (uint64_t i = 0; i < keys * copies; i++)
    (void) tamis_add_hash(f, key(key_by_key ? i / copies : i % keys));
  unsigned refused = 0;
  for (uint64_t i = 0; refused < 500 && i < 10000000; i++)
    refused = tamis_add_hash(f, key((UINT64_C(1) << 40) + i)) < 0 ? refused + 1
              : refused > 20                                      ? refused - 20
                                                                  : 0;
  assert_int_equal(refused, 500);
}

/* The same, until no memory waits for readers: while some does, a filter that grows asks for it. */
static void fill_for_good(tamis_filter *f, uint64_t keys, unsigned copies, bool key_by_key)
{
  fill(f, keys, copies, key_by_key);
  if (stats_of(f).kind != TAMIS_CUCKOO || stats_of(f).parts > 1)
    return;
  const struct cuckoo_growth *growth = cuckoo_has_growth(const_cuckoo_of(f));
  AWAIT(!growth || !atomic_load(&growth->backlog.held), fill(f, 0, 0, false), stats_of(f));
}

enum { TRIES = 2000, MOST_SEARCHES = TRIES / 40 };

/* Fails unless nearly all of the tries are refused, and without searches. */
static void assert_refuses(tamis_filter *f, int expected, const char *what)
{
  uint64_t before = stats_of(f).failed_searches, refused = 0;
  for (uint64_t i = 0; i < TRIES; i++) {
    uint64_t new = key((UINT64_C(1) << 50) + i);
    int result = i % 2 ? tamis_add_unique_hash(f, new) : tamis_add_hash(f, new);
    assert_true(result == expected || result >= 0);
    refused += result < 0;
  }
  uint64_t searches = stats_of(f).failed_searches - before;
  if (refused < TRIES * 3 / 4 || searches > MOST_SEARCHES)
    fail_msg("%s: %lu searches, %lu of %d refused", what, searches, refused, TRIES);
}

/* ---- refusals ---- */

TEST(refusals_do_not_search)
{
  static const double parts[] = {1, 1.25, 1.5};
  char what[200];
  for (unsigned i = 0; i < TABLES * RATES * 3 * 2 * 2; i++) {
    const struct form *form = table(i % TABLES);
    double fpp = rates[i / TABLES % RATES], part = parts[i / TABLES / RATES % 3];
    unsigned copies = i / TABLES / RATES / 3 % 2 ? 3 : 1;
    bool key_by_key = i / TABLES / RATES / 3 / 2;
    if (SCALE > 1 && i % 5)
      continue;
    tamis_options o = options_of(form, 20000 / SCALE, fpp);
    struct bank bank = {0};
    o.allocator = allocator_of(&bank);
    o.max_bytes = (uint64_t) (part * (double) planned_bytes(&o));
    tamis_filter *f = make_with_options(&o);
    fill_for_good(f, o.capacity, copies, key_by_key);
    bank.calls = 0;
    (void) snprintf(what, sizeof what, "%s, fpp %g, x %u%s, within %g", form->name, fpp, copies,
                    key_by_key ? " key by key" : "", part);
    assert_refuses(f, TAMIS_EFULL, what);
    if (bank.calls > MOST_SEARCHES)
      fail_msg("%s: asked for memory %u times", what, bank.calls);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* Whatever the allocator refuses, it is asked again, as it may have memory later. */
TEST(without_memory_refusals_do_not_search)
{
  char what[200];
  for (unsigned i = 0; i < TABLES * RATES * 2; i++) {
    const struct form *form = table(i % TABLES);
    double fpp = rates[i / TABLES % RATES];
    unsigned copies = i / TABLES / RATES ? 3 : 1;
    if (!form->options.growable)
      continue;
    tamis_options o = options_of(form, 20000 / SCALE, fpp);
    struct bank bank = {.limit = planned_bytes(&o) * 3 / 2};
    o.allocator = allocator_of(&bank);
    tamis_filter *f = make_with_options(&o);
    fill(f, o.capacity, copies, false);
    (void) snprintf(what, sizeof what, "%s, fpp %g, x %u", form->name, fpp, copies);
    assert_refuses(f, TAMIS_ENOMEM, what);
    bank.limit = 0;
    for (uint64_t j = 0; j < 100; j++)
      assert_true(tamis_add_hash(f, key((UINT64_C(1) << 60) + j)) >= 0);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- the last byte ---- */

static tamis_filter *grow_within(const struct form *form, uint64_t capacity, struct bank *peak,
                                 uint64_t max_bytes)
{
  tamis_options o = options_of(form, capacity, 0.01);
  o.allocator = allocator_of(peak), o.max_bytes = max_bytes;
  return make_with_options(&o);
}

/* Adds keys until the filter has grown so often, or a key is refused.  (Figures take a while, so
 * they are looked at when memory was allocated.) */
static int add_until(tamis_filter *f, const struct bank *peak, uint64_t growths)
{
  int result = TAMIS_OK;
  for (uint64_t n = 0; result >= 0; n++) {
    unsigned before = peak->calls;
    result = tamis_add_unique_hash(f, key(n));
    if (peak->calls != before && stats_of(f).growths >= growths)
      break;
  }
  return result;
}

/* What a step takes for a moment is enough for it, and a byte less is not. */
TEST(a_step_of_growth_takes_the_last_byte)
{
  for (const struct form *g = NULL; (g = next_form(g));)
    for (uint64_t capacity = 50; capacity < 2000; capacity = capacity * 6 + 1) {
      /* what a cuckoo filter has split waits for readers, for a time not known */
      const uint64_t most = g->options.kind == TAMIS_CUCKOO && !g->options.window ? 1 : 6;
      if (!g->options.growable || g->options.kind == TAMIS_COUNTING_BLOOM)
        continue;
      struct bank peak = {0};
      tamis_filter *f = grow_within(g, capacity, &peak, UINT64_C(1) << 40);
      for (uint64_t steps = 1; steps <= most; steps++) {
        size_t before = peak.most_bytes;
        assert_int_equal(add_until(f, &peak, steps), TAMIS_OK);
        if (peak.most_bytes == before)
          continue; /* an earlier moment needed more */
        for (unsigned less = 0; less < 2; less++) {
          struct bank other = {0};
          tamis_filter *limited = grow_within(g, capacity, &other, peak.most_bytes - less);
          int result = add_until(limited, &other, steps);
          tamis_stats s = stats_of(limited);
          if (s.growths != steps - less || result != (less ? TAMIS_EFULL : TAMIS_OK) ||
              other.most_bytes > peak.most_bytes - less)
            fail_msg("%s for %lu keys, step %lu: %lu with %zu bytes, in which there is room for it"
                     "%s",
                     g->name, capacity, steps, s.growths, peak.most_bytes - less,
                     less ? " but for one" : "");
          assert_valid(limited);
          tamis_destroy(limited);
        }
      }
      tamis_destroy(f);
    }
}

/* ---- keys that others keep out ---- */

/* Copies of one key, for whose count max_bytes leaves no memory, fill that key's buckets and no
 * others'. */
TEST(a_key_with_many_copies_keeps_nobody_out)
{
  for (unsigned i = 0; i < 2 * 3 * 3; i++) {
    tamis_options o = options_of(table(CUCKOO_FIXED + i % 2), i / 2 % 3 ? 3000 : 300,
                                 i / 2 % 3 == 2 ? 1e-4 : 0.01);
    o.seed = 1 + i;
    o.max_bytes = planned_bytes(&o);
    tamis_filter *f = make_with_options(&o);
    uint64_t keys = o.capacity * (5 + 2 * (i / 6)) / 10, refused = 0;
    for (uint64_t j = 0; j < keys; j++)
      assert_int_equal(tamis_add_hash(f, key(j)), TAMIS_OK);
    uint64_t before = stats_of(f).failed_searches;
    for (unsigned copy = 0; copy < 1000; copy++)
      refused += tamis_add_hash(f, key(0)) == TAMIS_EFULL;
    assert_in_range(refused, 900, 1000);
    assert_in_range(stats_of(f).failed_searches - before, 0, 20);
    for (uint64_t j = keys; j < o.capacity; j++)
      assert_int_equal(tamis_add_hash(f, key(j)), TAMIS_OK);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* More keys of one pair than it has lanes are refused while their segment is half empty; but it
 * splits for others later. */
TEST(a_crowded_pair_does_not_stop_growth)
{
  for (uint64_t capacity = 200; capacity < 1000; capacity += 200) {
    tamis_options o = options_of(table(CUCKOO_GROWING), capacity, 1e-3);
    tamis_filter *f = make_with_options(&o);
    struct generation *first = cuckoo_generation(const_cuckoo_of(f), 0);
    uint64_t keys = capacity * 3 / 10, refused = 0, next = UINT64_C(1) << 40;
    for (uint64_t i = 0; i < keys; i++)
      assert_int_equal(tamis_add_hash(f, key(i)), TAMIS_OK);
    struct bucket_pair crowded = pair_find(first, hash_mix(&f->keys, key(next)));
    for (unsigned n = 0; n < 40; next++) {
      struct bucket_pair pair = pair_find(first, hash_mix(&f->keys, key(next)));
      if (pair.lower != crowded.lower || pair.upper != crowded.upper)
        continue;
      refused += tamis_add_hash(f, key(next)) == TAMIS_EFULL;
      n++;
    }
    assert_in_range(refused, 20, 40);
    for (uint64_t i = keys; i < 20 * capacity; i++)
      assert_int_equal(tamis_add_hash(f, key(i)), TAMIS_OK);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- room ---- */

/* In a large segment, of which a search sees a small part, few removes are no reason to search.
 * Their lanes are used again all the same. */
TEST(a_few_removes_buy_few_searches)
{
  enum { REMOVES = 2000 };
  for (unsigned i = 0; i < TABLES; i++) {
    if (table(i)->options.kind != TAMIS_CUCKOO || SCALE > 1)
      continue;
    tamis_options o = options_of(table(i), 200000, 1e-6);
    o.max_bytes = planned_bytes(&o);
    tamis_filter *f = make_with_options(&o);
    fill(f, o.capacity, 1, false);
    for (uint64_t j = 0; j < REMOVES;
         j++) { /* which have the only lane of their buckets that is free */
      assert_int_equal(tamis_remove_hash(f, key(j)), TAMIS_OK);
      assert_true(tamis_add_unique_hash(f, key(j)) >= 0);
    }
    tamis_stats before = stats_of(f);
    uint64_t next = UINT64_C(1) << 50;
    for (uint64_t j = 0; j < REMOVES; j++) {
      assert_int_equal(tamis_remove_hash(f, key(j)), TAMIS_OK);
      for (unsigned k = 0; k < 10; k++)
        (void) tamis_add_hash(f, key(next++));
    }
    tamis_stats after = stats_of(f);
    assert_in_range(after.failed_searches - before.failed_searches, 0, REMOVES / 2);
    assert_in_range(after.count, before.count - REMOVES / 5, before.count + REMOVES);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* The end of a period makes room for as many keys as it forgets. */
TEST(a_period_makes_room_at_once)
{
  for (unsigned i = 0; i < TABLES; i++) {
    if (!table(i)->options.window)
      continue;
    tamis_options o = options_of(table(i), 5000, 1e-4);
    o.max_bytes = planned_bytes(&o);
    tamis_filter *f = make_with_options(&o);
    for (uint64_t round = 0; round < 5; round++) {
      fill(f, o.capacity, 1, false);
      advance(f, o.window + 1);
      for (uint64_t j = 0; j < o.capacity; j++)
        assert_int_equal(tamis_add_hash(f, key((round + 1) << 50 | j)), TAMIS_OK);
      advance(f, o.window + 1);
    }
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* Copies that go free memory of their counts, and no lane.  A filter that grows takes it for new
 * keys. */
TEST(memory_of_counts_makes_room)
{
  for (uint64_t seed = 1; seed <= 5; seed++) {
    tamis_options o = options_of(table(CUCKOO_GROWING), 4000, 1e-6);
    o.seed = seed;
    o.max_bytes = planned_bytes(&o) * 11 / 6;
    tamis_filter *f = make_with_options(&o);
    unsigned copies[2000];
    enum { KEYS = 2000, LANES = 8 }; /* no key has more lanes */
    for (uint64_t i = 0; i < KEYS; i++)
      for (copies[i] = 0; copies[i] < 100 + i % 200; copies[i]++)
        if (tamis_add_hash(f, key(i)) != TAMIS_OK)
          break;
    fill(f, 4000, 1, false); /* until all segments are marked */
    uint64_t segments = stats_of(f).segments;
    for (uint64_t i = 0; i < KEYS; i++)
      for (; copies[i] > LANES; copies[i]--)
        assert_int_equal(tamis_remove_hash(f, key(i)), TAMIS_OK);
    for (uint64_t i = 0; i < 200; i++)
      (void) tamis_add_hash(f, key((UINT64_C(1) << 51) + i));
    assert_true(stats_of(f).segments > segments);
    assert_valid(f);
    tamis_destroy(f);
  }
}
