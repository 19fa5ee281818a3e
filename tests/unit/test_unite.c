/* SPDX-License-Identifier: MIT
 *
 * Unions of two filters of any form: a union has what both have, leaves the other filter as it was and, if it is
 * refused, its own one, too.  bloom/test_unite.c has how many keys a Bloom filter counts then,
 * test_random_steps.c unions after any other calls, test_faults.c those that are refused memory.
 */
#include "bloom/bloom.h"
#include "cuckoo/snapshot.h"
#include "cuckoo_unit.h"
#include "saved_unit.h"
#include "window/layers.h"

/* ---- keys ---- */

/* Keys from..from + n - 1, of which the first ones and the last ones have left again. */
struct keys {
  uint64_t from, n, first, last;
};

/* Few keys have up to `most` copies. */
static unsigned copies_of(uint64_t key, unsigned most)
{
  return most > 1 && key % 8 == 0 ? 1 + (unsigned) (key / 8 % most) : 1;
}

static void add_keys(tamis_filter *f, uint64_t from, uint64_t end, unsigned most)
{
  for (uint64_t i = from; i < end; i++)
    for (unsigned j = 0; j < copies_of(i, most); j++)
      assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
}

static void remove_keys(tamis_filter *f, uint64_t from, uint64_t end, unsigned most)
{
  for (uint64_t i = from; i < end; i++)
    for (unsigned j = 0; j < copies_of(i, most); j++)
      if (tamis_remove_hash(f, i) != TAMIS_OK)
        fail_msg("copy %u of key %lu is missing", j, i);
}

static tamis_filter *make_with_keys(const tamis_options *options, struct keys keys, unsigned most)
{
  const uint64_t end = keys.from + keys.n;
  tamis_filter *f = make_with_options(options);
  add_keys(f, keys.from, end, most);
  remove_keys(f, keys.from, keys.from + keys.first, most);
  remove_keys(f, end - keys.last, end, most);
  return f;
}

static void remove_rest(tamis_filter *f, struct keys keys, unsigned most)
{
  remove_keys(f, keys.from + keys.first, keys.from + keys.n - keys.last, most);
}

static void assert_in(const tamis_filter *f, struct keys keys)
{
  assert_all_in(f, keys.from + keys.first, keys.from + keys.n - keys.last);
}

static void assert_as_saved(const tamis_filter *f, struct bytes *before)
{
  assert_true(is_saved_as(f, before));
  assert_valid(f);
  free(before->data);
}

static tamis_options options_of(const struct form *form, uint64_t capacity, double fpp)
{
  tamis_options options = form->options;
  options.capacity = capacity, options.fpp = fpp;
  return options;
}

static bool is_bloom(const tamis_options *o)
{
  return o->kind != TAMIS_CUCKOO && !o->window;
}

/* The form of cuckoo filters that grow. */
static const struct form *growing(void)
{
  const struct form *form = next_form(NULL);
  while (form->options.kind != TAMIS_CUCKOO || form->options.window || !form->options.growable)
    form = next_form(form);
  return form;
}

static tamis_options growing_with(uint64_t capacity, double fpp)
{
  return options_of(growing(), capacity, fpp);
}

/* ---- any two contents ---- */

static bool same_bits(const tamis_filter *a, const tamis_filter *b)
{
  const struct bloom *x = const_bloom_of(a), *y = const_bloom_of(b);
  for (uint64_t i = 0; i < x->word_count; i++)
    if ((word_load(&x->words[i]) ^ word_load(&y->words[i])) & bloom_key_bits(x->layout))
      return false;
  return true;
}

/* A Bloom filter's bits are those of a filter to which the keys of both were added.  Of a filter that holds each
 * copy, they can be removed; a counter that is stuck keeps some. */
static void check_united(const tamis_options *o, tamis_filter *a, struct keys of_a,
                         struct keys of_b, unsigned copies)
{
  assert_valid(a);
  assert_in(a, of_a), assert_in(a, of_b);
  if (is_bloom(o) && of_a.n + of_b.n <= o->capacity) {
    tamis_filter *all = make_with_keys(o, of_a, copies);
    add_keys(all, of_b.from, of_b.from + of_b.n, copies);
    assert_true(same_bits(a, all));
    tamis_destroy(all);
  }
  if (o->kind != TAMIS_CUCKOO)
    return;
  assert_rate(a, o->fpp, of_a.n);
  remove_rest(a, of_a, copies);
  assert_in(a, of_b);
  remove_rest(a, of_b, copies);
  assert_int_equal(stats_of(a).count, 0);
  assert_valid(a);
}

/* Unites two filters, and returns the result. */
static int play(const tamis_options *o, struct keys of_a, struct keys of_b, unsigned copies)
{
  tamis_filter *a = make_with_keys(o, of_a, copies), *b = make_with_keys(o, of_b, copies);
  struct bytes a_before = saved_bytes(a), b_before = saved_bytes(b);
  const uint64_t count = stats_of(a).count + stats_of(b).count;
  int result = tamis_merge(a, b);
  assert_as_saved(b, &b_before);
  if (result != TAMIS_OK) {
    assert_as_saved(a, &a_before);
  } else {
    const bool is_exact = o->kind == TAMIS_CUCKOO || (is_bloom(o) && !of_a.n);
    assert_true(!is_exact || stats_of(a).count == count);
    check_united(o, a, of_a, of_b, copies);
    free(a_before.data);
  }
  tamis_destroy(a), tamis_destroy(b);
  return result;
}

/* ---- filters that grow ---- */

/* Each size with each: from empty filters to those of several layers, or of three generations.  Windows of
 * several layers have no union, nor have all cuckoo filters that have grown apart. */
static void unite_in_all_stages(const tamis_options *o, unsigned copies)
{
  const uint64_t times[] = {0, 1, 5, 10, 30, 200, 1200, 2500, 40000 / SCALE};
  enum { TIMES = sizeof times / sizeof *times };
  const bool is_cuckoo = o->kind == TAMIS_CUCKOO && !o->window;
  for (unsigned i = 0; i < TIMES * TIMES; i++) {
    const uint64_t a = times[i / TIMES], b = times[i % TIMES];
    const struct keys of_a = {1000000, a * o->capacity / 10, 0, 0},
                      of_b = {of_a.from + of_a.n - of_a.n / 4, b * o->capacity / 10, 0, 0};
    const bool sure =
        is_cuckoo
            ? !a || !b || (SMALL(o->fpp == 0.01, false) && a + b < 800) /* by the usual sizes */
            : !o->window || a + b <= 10;
    if (of_a.n + of_b.n > (is_cuckoo ? 100000 : 20000) / SCALE || (o->window && a + b > 200))
      continue;
    int result = play(o, of_a, of_b, copies);
    if (result != TAMIS_OK && (sure || result != TAMIS_EUNSUPPORTED))
      fail_msg("kind %d, layout %d, window %u, capacity %lu, fpp %g: %lu and %lu keys: %d",
               (int) o->kind, (int) o->layout, o->window, o->capacity, o->fpp, of_a.n, of_b.n,
               result);
  }
}

TEST(unions_in_all_stages_of_growth)
{
  static const struct {
    uint64_t capacity;
    double fpp;
    unsigned copies;
  } rows[] = {{100, 0.01, 1},    {10, 0.01, 1}, {10, 1e-6, 1}, {100, 1e-6, 1}, {3000, 0.01, 1},
              {100, 0.01, 5},    {10, 0.1, 1},  {100, 0.1, 1}, {10, 1e-3, 1},  {100, 1e-3, 1},
              {1000, 1e-3, 300}, {10, 2e-5, 1}, {100, 2e-5, 1}};
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
      tamis_options o = options_of(form, rows[i].capacity, rows[i].fpp);
      const bool all = o.kind == TAMIS_CUCKOO && !o.window;
      if (o.growable && (all || i < 4) && tamis_options_check(&o, NULL, 0) == TAMIS_OK)
        unite_in_all_stages(&o, all ? rows[i].copies : 1);
    }
}

/* Into filters that have grown and lost most of their keys: some of their roots have no segment.  Entries that have
 * come to deep segments of a first generation know enough for the second one of the other filter, in which there is
 * room when the first one is nearly full. */
TEST(filters_that_have_shrunk)
{
  tamis_options o = growing_with(100, 0.01);
  for (uint64_t left = 0; left <= 3000; left += 1000)
    for (unsigned into = 0; into < 2; into++) {
      const struct keys shrunk = {0, 60000, 0, 60000 - left}, small = {100000, 500, 0, 0};
      int result = play(&o, into ? shrunk : small, into ? small : shrunk, 1);
      assert_true(result == TAMIS_OK || result == TAMIS_EUNSUPPORTED);
    }
  o.capacity = 150;
  assert_int_equal(
      play(&o, (struct keys){0, 30000, 5000, 0}, (struct keys){100000, 20000, 12000, 0}, 1),
      TAMIS_OK);
}

/* Entries of a second generation come to a first one pair by pair, so that its segments look as if
 * they had many copies of few keys.  The filter becomes what it becomes if the keys are added. */
TEST(pairs_that_fill_one_by_one_are_no_limit)
{
  const uint64_t room = 150000, keys[] = {500, 1000, 2000};
  const tamis_options o = growing_with(150, 0.001);
  for (unsigned i = 0; i < 3; i++) {
    tamis_filter *into = make_with_options(&o),
                 *from = make_with_keys(&o, (struct keys){0, room + keys[i], room, 0}, 1),
                 *added = make_with_keys(&o, (struct keys){room, keys[i], 0, 0}, 1);
    assert_int_equal(stats_of(from).generations, 2);
    assert_int_equal(tamis_merge(into, from), TAMIS_OK);
    assert_int_equal(stats_of(into).generations, 1);
    assert_in_range(stats_of(into).segments, 1, stats_of(added).segments * 9 / 8);
    assert_valid(into);
    remove_keys(into, room, room + keys[i], 1);
    tamis_destroy(into), tamis_destroy(from), tamis_destroy(added);
  }
}

/* Geometries whose keys need a second hash, and whose hash strings one word does not hold. */
TEST(unions_of_filters_with_long_strings)
{
  tamis_options options = growing_with(1000, 1e-6);
  struct cuckoo_geometry g = planned_geometry(1000, 1e-6);
  g.needs_second_hash = true;
  g.root0_bits = CUCKOO_HASH_BITS - 20;
  for (unsigned i = 0; i < 2; i++) {
    const struct keys of_a = {0, i ? 0 : 30000, 0, 0}, of_b = {20000, i ? 180000 : 30000, 0, 0};
    tamis_filter *a = make_with_geometry(&options, &g), *b = make_with_geometry(&options, &g);
    add_keys(a, of_a.from, of_a.from + of_a.n, 1);
    add_keys(b, of_b.from, of_b.from + of_b.n, 1);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK);
    check_united(&options, a, of_a, of_b, 1);
    tamis_destroy(a), tamis_destroy(b);
  }
}

/* Unites one filter with others until that is refused, and goes on growing: whatever the number of
 * unions, the rate stays. */
TEST(rates_are_kept_after_many_unions)
{
  const double rates[] = {0.05, 0.01, 0.001, 1e-4};
  for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
    const uint64_t n = 2000 / SCALE;
    const tamis_options o = growing_with(n, rates[r]);
    tamis_filter *all = make_with_options(&o);
    uint64_t keys = 0;
    for (int result = TAMIS_OK; keys < 60 * n && result == TAMIS_OK;) {
      tamis_filter *part = make_with_keys(&o, (struct keys){keys, n, 0, 0}, 1);
      result = tamis_merge(all, part);
      assert_true(result == TAMIS_OK || result == TAMIS_EUNSUPPORTED);
      keys += result == TAMIS_OK ? n : 0;
      tamis_destroy(part);
    }
    assert_true(keys >= 2 * n);
    assert_true(stats_of(all).fpp_estimate <= rates[r]);
    for (unsigned i = 0; i < 5 && keys <= 300000 / SCALE; i++, keys *= 3) {
      assert_in(all, (struct keys){0, keys, 0, 0});
      assert_rate(all, rates[r], 1 + i);
      add_keys(all, keys, 3 * keys, 1);
    }
    assert_rate(all, rates[r], 7);
    assert_in(all, (struct keys){0, keys, 0, 0});
    assert_valid(all);
    tamis_destroy(all);
  }
}

/* ---- filters that do not grow ---- */

/* Up to the capacity, and beyond: where keys are hidden, or bits are the limit, only far beyond. */
static void unite_fixed(const tamis_options *o)
{
  const uint64_t n = o->capacity, half = n / 2;
  const struct keys all = {n, n, 0, 0}, rest = {n, n - half, 0, 0};
  assert_int_equal(play(o, (struct keys){0, half, 0, 0}, rest, 1), TAMIS_OK);
  if (n > 1000000 / SCALE)
    return;
  assert_int_equal(play(o, (struct keys){0}, all, 1), TAMIS_OK);
  if (o->window ? o->fpp < 1e-5 : o->kind != TAMIS_BLOOM)
    assert_int_equal(play(o, (struct keys){0, half + 1, 0, 0}, rest, 1), TAMIS_EFULL);
  if (n >= 10)
    assert_int_equal(
        play(o, (struct keys){0, n * 9 / 10, 0, 0}, (struct keys){n, n * 9 / 10, 0, 0}, 1),
        TAMIS_EFULL);
  if (o->window && n >= 10) /* what both have counts once */
    assert_int_equal(
        play(o, (struct keys){0, n * 7 / 10, 0, 0}, (struct keys){n * 3 / 10, n * 7 / 10, 0, 0}, 1),
        TAMIS_OK);
  if (o->kind == TAMIS_CUCKOO && n >= 1000) /* copies beyond the second or third need no lanes */
    assert_int_equal(play(o, (struct keys){0, n / 4, 0, 0}, (struct keys){n / 8, n / 4, 0, 0}, 100),
                     TAMIS_OK);
}

TEST(fixed_filters_keep_to_their_capacity)
{
  const uint64_t capacities[] = {1, 10, 1000, 100000 / SCALE, 1500000 / SCALE};
  const double rates[] = {0.1, 0.001, 0.01, 1e-6};
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned i = 0; i < 5 * 4; i++) {
      const tamis_options o = options_of(form, capacities[i / 4], rates[i % 4]);
      if (!o.growable && tamis_options_check(&o, NULL, 0) == TAMIS_OK && (i < 16 || i == 18))
        unite_fixed(&o);
    }
}

/* ---- mapped filters ---- */

/* With a mapped filter, another one becomes what it becomes with the filter that was saved. */
static void unite_with_mapped(const tamis_options *o)
{
  const uint64_t n = o->capacity;
  const unsigned copies = o->kind == TAMIS_CUCKOO ? 20 : 1;
  const struct keys of_from = {n / 8, n / 4, 0, 0}, own = {0, n / 4, 0, 0}, all = {2 * n, n, 0, 0};
  tamis_filter *from = make_with_keys(o, of_from, copies), *into, *mapped;
  struct bytes saved = saved_bytes(from), expected = {0};
  for (unsigned i = 0; i < 3; i++) {
    mapped = NULL;
    if (i && map_source(source_of(&saved), i == 2, &mapped) == TAMIS_EUNSUPPORTED)
      break;
    into = make_with_keys(o, own, copies);
    assert_int_equal(tamis_merge(into, i ? mapped : from), TAMIS_OK);
    assert_valid(into);
    if (i) {
      assert_true(is_saved_as(into, &expected));
      assert_int_equal(tamis_merge(mapped, into), TAMIS_EUNSUPPORTED);
    } else {
      expected = saved_bytes(into);
    }
    tamis_destroy(into);
    into = make_with_keys(o, all, 1);
    struct bytes full = saved_bytes(into);
    if (!o->growable && o->kind == TAMIS_CUCKOO) {
      assert_int_equal(tamis_merge(into, i ? mapped : from), TAMIS_EFULL);
      assert_true(is_saved_as(into, &full));
    }
    free(full.data);
    tamis_destroy(into), tamis_destroy(mapped);
  }
  tamis_destroy(from);
  free(expected.data), free(saved.data);
}

TEST(unions_with_mapped_filters)
{
  const double rates[] = {0.1, 0.01, 0.001, 1e-6};
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned i = 0; i < 2 * 4; i++) {
      const tamis_options o = options_of(form, i / 4 ? 100000 / SCALE : 100, rates[i % 4]);
      if (!o.window && tamis_options_check(&o, NULL, 0) == TAMIS_OK)
        unite_with_mapped(&o);
    }
}

/* ---- unions of cuckoo filters that are refused ---- */

/* Nothing may come to the part of an older generation that a snapshot of `into` has copied. */
TEST(a_snapshot_of_the_filter_is_not_changed)
{
  const struct keys of_into = {0, 40000, 15000, 0}, of_from = {100000, 10, 0, 0};
  const tamis_options o = growing_with(400, 0.3);
  tamis_filter *into = make_with_keys(&o, of_into, 1), *from = make_with_keys(&o, of_from, 1);
  assert_true(stats_of(into).generations > 1);
  struct cuckoo_snapshot s;
  struct snapshot_piece piece;
  tamis__snapshot_begin(&s, cuckoo_of(into));
  do
    assert_int_equal(tamis__snapshot_next(&s, &piece), TAMIS_OK);
  while (piece.generation->number == 0);
  uint64_t before = stats_of(into).count;
  assert_int_equal(tamis_merge(into, from), TAMIS_EFULL);
  assert_int_equal(stats_of(into).count, before);
  tamis__snapshot_end(&s);
  assert_int_equal(tamis_merge(into, from), TAMIS_OK);
  check_united(&o, into, of_into, of_from, 1);
  tamis_destroy(into), tamis_destroy(from);
}

/* Unites a new filter with some others.  Then the first, the second, ... block of further ones is
 * refused, each time before an entry has come: the last one is for the copies of the first keys. */
static tamis_filter *unite_some(const tamis_options *options, unsigned unions, unsigned failures)
{
  tamis_filter *into = make_with_options(options);
  for (unsigned i = 0; i < unions + failures; i++) {
    struct bank bank = {0};
    tamis_options of_from = *options;
    of_from.allocator = allocator_of(&bank);
    tamis_filter *from =
        make_with_keys(&of_from, (struct keys){(i < unions ? i : unions) * 500, 500, 0, 0}, 40);
    uint64_t count = stats_of(into).count;
    bank.fail_at = i < unions ? 0 : bank.calls + 1 + i - unions;
    assert_int_equal(tamis_merge(into, from), i < unions ? TAMIS_OK : TAMIS_ENOMEM);
    assert_true(i < unions || stats_of(into).count == count);
    tamis_destroy(from);
  }
  return into;
}

static unsigned split_limit(const tamis_filter *f)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  return generation_split_limit(cuckoo_generation(c, cuckoo_generations(c) - 1));
}

/* A union that fails before an entry has come leaves nothing behind, such as limits, which are saved: the filter
 * grows on like a twin that has not seen the union. */
TEST(a_union_that_fails_leaves_nothing)
{
  const tamis_options o = growing_with(100, 0.003);
  bool took_splits = false;
  for (unsigned unions = 1; unions <= 2; unions++) {
    tamis_filter *f = unite_some(&o, unions, 2), *twin = unite_some(&o, unions, 0),
                 *more = unite_some(&o, unions + 1, 0);
    took_splits |= split_limit(more) < split_limit(twin);
    for (unsigned i = 0; i < 2; i++) {
      struct bytes saved = saved_bytes(twin);
      assert_as_saved(f, &saved);
      add_keys(f, 1000000, 1000000 + 40000, 1), add_keys(twin, 1000000, 1000000 + 40000, 1);
    }
    tamis_destroy(f), tamis_destroy(twin), tamis_destroy(more);
  }
  assert_true(took_splits); /* otherwise there is nothing to give back */
}

/* ---- windows ---- */

enum { IDS = 400 };

struct content {
  uint64_t now, last[IDS], copies[IDS];
};

static uint64_t copies_in(const struct content *c, uint64_t id, unsigned window)
{
  return c->now - c->last[id] <= window ? c->copies[id] : 0;
}

static void fill(tamis_filter *f, struct content *c, unsigned window, uint64_t seed)
{
  uint64_t random = seed;
  for (unsigned call = 0; call < 600; call++) {
    uint64_t id = random_next(&random) % IDS;
    if (random_next(&random) % (window < 10 ? 32 : 4) == 0) {
      assert_int_equal(tamis_advance(f), TAMIS_OK);
      c->now++;
    }
    c->copies[id] = copies_in(c, id, window) + 1;
    c->last[id] = c->now;
    assert_int_equal(tamis_add_hash(f, id), TAMIS_OK);
  }
}

/* All copies are as old as the youngest ones were when both were united, in periods of `into`. */
static void check_ages(const tamis_options *o, tamis_filter *into, const struct content *a,
                       const struct content *b)
{
  for (unsigned now = 0; now <= o->window; now++) {
    uint64_t sum = 0;
    for (uint64_t id = 0; id < IDS; id++) {
      uint64_t x = copies_in(a, id, o->window), y = copies_in(b, id, o->window);
      uint64_t age_a = x ? a->now - a->last[id] : UINT32_MAX,
               age_b = y ? b->now - b->last[id] : UINT32_MAX;
      uint64_t expected = (age_a < age_b ? age_a : age_b) + now > o->window ? 0
                          : o->kind == TAMIS_CUCKOO                         ? x + y
                                                                            : 1;
      assert_int_equal(tamis_count_hash(into, id), expected);
      sum += expected;
    }
    assert_int_equal(stats_of(into).count, sum);
    assert_int_equal(tamis_advance(into), TAMIS_OK);
    assert_valid(into);
  }
}

TEST(unions_in_windows_bring_ages)
{
  static const unsigned windows[] = {1, 2, 3, 6, 14, 30, 64};
  enum { WINDOWS = sizeof windows / sizeof *windows };
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned round = 0; round < 2 * WINDOWS && form->options.window; round++) {
      static struct content a, b;
      a = b = (struct content){0};
      tamis_options o = options_of(form, IDS, 3e-6);
      o.window = windows[round % WINDOWS];
      o.stripes = round % 5;
      tamis_filter *into = make_with_options(&o);
      o.stripes = round % 3;
      o.window_renews = true; /* this need not be the same */
      tamis_filter *from = make_with_options(&o);
      fill(into, &a, o.window, round + 1), fill(from, &b, o.window, round + 100);
      struct bytes before = saved_bytes(from);
      assert_int_equal(tamis_merge(into, from), TAMIS_OK);
      assert_as_saved(from, &before);
      check_ages(&o, into, &a, &b);
      tamis_destroy(into), tamis_destroy(from);
    }
}

/* A single stripe, which seems to cover nearly 2^32 lanes in use already. */
TEST(lanes_of_a_stripe_pass_32_bits)
{
  const uint64_t others = UINT32_MAX - UINT64_C(2);
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_options o = options_of(form, 1000, 3e-6);
    o.stripes = 1;
    if (!o.window || o.growable)
      continue;
    tamis_filter *f = make_with_options(&o),
                 *from = make_with_keys(&o, (struct keys){100, 1, 0, 0}, 1);
    struct window *w = window_of(f);
    assert_int_equal(w->stripes.mask, 0);
    atomic_fetch_add(&w->stripes.all[0].lanes, others);
    add_keys(f, 0, 10, 1);
    assert_int_equal(stats_of(f).count, others + 10);
    assert_int_equal(tamis_merge(f, from), TAMIS_EFULL);
    advance(f, o.window + 1);
    assert_int_equal(stats_of(f).count, others);
    atomic_fetch_sub(&w->stripes.all[0].lanes, others);
    assert_valid(f);
    tamis_destroy(f), tamis_destroy(from);
  }
}

/* ---- while both are in use ---- */

enum { THREADS = 4, TOUCHED = 5000, STABLE = 30000 / SCALE, ROUNDS = SCALE > 1 ? 2 : 6 };

struct user {
  tamis_filter *f, *other;
  uint64_t first;
  unsigned char *won;
  _Atomic bool *stop;
  bool removes, good;
  pthread_t thread;
};

/* Adds and removes keys of its own in both filters, and adds the stable keys uniquely to one.
 * Before the union has brought some, it adds only few of them: otherwise `into` might fill its
 * first generation with them before the union begins. */
static void *use(void *arg)
{
  enum { EARLY = 2000 / SCALE };
  struct user *user = arg;
  tamis_filter *const both[] = {user->f, user->other};
  bool begun = false;
  user->good = true;
  for (uint64_t i = 0; !atomic_load(user->stop); i++) {
    uint64_t key = user->first + i % TOUCHED, stable = i % STABLE;
    for (unsigned j = 0; j < 2; j++)
      user->good &= tamis_add_hash(both[j], key) == TAMIS_OK;
    for (unsigned j = 0; !begun && j < 8; j++) /* eight false positives are unlikely */
      if (!tamis_contains_hash(user->f, STABLE - 1 - (stable + j) % (STABLE - EARLY)))
        break;
      else
        begun = j == 7;
    if (user->won && (begun || i < EARLY) && tamis_add_unique_hash(user->f, stable) == TAMIS_OK)
      __atomic_fetch_add(&user->won[stable], 1, __ATOMIC_RELAXED);
    for (unsigned j = 0; j < 2; j++) {
      user->good &= tamis_contains_hash(both[j], key);
      user->good &= !user->removes || tamis_remove_hash(both[j], key) == TAMIS_OK;
    }
  }
  return NULL;
}

/* The stable keys of `from` are in `into` once more after the union, or twice if a unique add has
 * won before it came. */
static void check_each_copy(tamis_filter *into, const struct user users[THREADS],
                            const unsigned char *won, struct keys more)
{
  for (uint64_t key = 0; key < STABLE; key++)
    for (unsigned j = 0; j < 1U + won[key]; j++)
      assert_int_equal(tamis_remove_hash(into, key), TAMIS_OK);
  remove_rest(into, more, 1);
  /* Keys that the union has found just after they were added. */
  for (unsigned i = 0; i < THREADS; i++)
    for (uint64_t key = users[i].first; key < users[i].first + TOUCHED; key++)
      if (tamis_contains_hash(into, key))
        assert_int_equal(tamis_remove_hash(into, key), TAMIS_OK);
  assert_int_equal(stats_of(into).count, 0);
  assert_valid(into);
}

/* `room`: so many keys have filled the first generation, so that further keys have gone into later ones. */
static void use_both(const struct form *form, const tamis_options *o, uint64_t more, uint64_t room,
                     bool unique)
{
  const struct keys own = {1000000, more, 0, 0}, stable = {0, STABLE, 0, 0};
  tamis_filter *into = make_with_keys(o, own, 1), *from = make_with_options(o);
  static unsigned char won[STABLE];
  memset(won, 0, sizeof won);
  _Atomic bool stop = false;
  add_keys(from, UINT64_C(1) << 40, (UINT64_C(1) << 40) + room, 1);
  assert_int_equal(stats_of(from).generations > 1, room > 0);
  add_keys(from, 0, STABLE, 1);
  remove_keys(from, UINT64_C(1) << 40, (UINT64_C(1) << 40) + room, 1);
  struct user users[THREADS];
  for (unsigned i = 0; i < THREADS; i++) {
    users[i] = (struct user){.f = into,
                             .other = from,
                             .first = (i + 1) * UINT64_C(10000000),
                             .won = unique ? won : NULL,
                             .removes = form->removes,
                             .stop = &stop};
    assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
  }
  int result = tamis_merge(into, from);
  atomic_store(&stop, true);
  for (unsigned i = 0; i < THREADS; i++)
    assert_true(pthread_join(users[i].thread, NULL) == 0 && users[i].good);
  assert_int_equal(result, TAMIS_OK);
  assert_valid(into), assert_valid(from);
  assert_in(into, stable), assert_in(into, own);
  for (uint64_t key = 0; key < STABLE; key++)
    assert_in_range(won[key], 0, 1);
  if (o->kind == TAMIS_CUCKOO) {
    assert_int_equal(stats_of(from).count, STABLE);
    check_each_copy(into, users, won, own);
  }
  tamis_destroy(into), tamis_destroy(from);
}

TEST_WITH_THREADS(both_may_be_in_use)
{
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned i = 0; i < ROUNDS && !form->options.window; i++) {
      tamis_options o = options_of(form, 5000, 0.01);
      if (form != growing()) {
        o.capacity = o.growable ? 5000 : 200000;
        use_both(form, &o, 1000 * i, 0, i % 2);
        continue;
      }
      use_both(form, &o, 10000 / SCALE * i, 0, i % 2);
      o.capacity = 200 / SCALE, o.fpp = 0.1;
      use_both(form, &o, 1000 / SCALE * i, STABLE, i % 2);
    }
}
