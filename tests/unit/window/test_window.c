/* SPDX-License-Identifier: MIT
 *
 * Filters with a window, of both kinds: what they remember, for how long, and what they refuse.
 *
 * The oracle is exact: it knows the last period of each key, with which all of the key's copies end in the
 * cuckoo kind, whatever numbers clocks give the periods.  Rates are so low, and seeds so fixed, that no key is
 * found by chance where the oracle is asked.
 */
#include "harness.h"
#include "saved_unit.h"
#include "window_unit.h"

#include "base/reclaim.h"

#include <math.h>
#include <pthread.h>

/* ---- filters ---- */

static tamis_options bloom_options(unsigned window, uint64_t capacity, double fpp, bool growable)
{
  return window_options(TAMIS_BLOOM, window, capacity, fpp, growable);
}

static tamis_filter *make_window(unsigned window, uint64_t capacity, double fpp, bool growable)
{
  tamis_options options = bloom_options(window, capacity, fpp, growable);
  return make_with_options(&options);
}

/* Bits of a stamp change at 2, 6, 14, 30 and 62. */
static const unsigned windows[] = {1, 2, 3, 4, 5, 6, 8, 13, 14, 15, 24, 30, 31, 61, 62, 63, 64};
enum { WINDOWS = sizeof windows / sizeof *windows };

/* ---- the oracle ---- */

enum { IDS = 500, GROUP = 140 };

struct oracle {
  unsigned window;
  bool renews, copies;             /* of the cuckoo kind */
  uint64_t now, last[IDS], n[IDS]; /* `last`: the period in which a key is still remembered */
  uint64_t ahead;                  /* of `now`: the number of the period */
  tamis_filter *f[2];              /* handles of one window, which may be the same */
  uint64_t random;
};

static uint64_t remembered(const struct oracle *o, uint64_t id)
{
  return o->now <= o->last[id] ? o->n[id] : 0;
}

static int expect_add(struct oracle *o, uint64_t id, bool unique, unsigned periods)
{
  const uint64_t n = remembered(o, id), end = o->now + periods;
  const bool present = unique && n;
  o->n[id] = present ? n : o->copies ? n + 1 : 1;
  if (!n || ((!present || o->renews) && end > o->last[id]))
    o->last[id] = end;
  return present ? TAMIS_PRESENT : TAMIS_OK;
}

static int expect_remove(struct oracle *o, uint64_t id)
{
  if (!o->copies || !remembered(o, id))
    return o->copies ? TAMIS_ABSENT : TAMIS_EUNSUPPORTED;
  o->n[id]--;
  return TAMIS_OK;
}

static uint64_t draw(struct oracle *o, uint64_t n)
{
  return random_next(&o->random) % n;
}

static unsigned draw_periods(struct oracle *o)
{
  return draw(o, 2) ? o->window : (unsigned) draw(o, o->window + 1);
}

static void add_a_batch(struct oracle *o, tamis_filter *f, const uint64_t *ids, size_t n,
                        bool unique)
{
  int results[GROUP];
  const unsigned periods = draw_periods(o);
  if (periods == o->window)
    assert_int_equal(
        (unique ? tamis_add_unique_many_hash : tamis_add_many_hash)(f, ids, n, results), TAMIS_OK);
  else
    assert_int_equal((unique ? tamis_add_unique_for_many_hash
                             : tamis_add_for_many_hash)(f, ids, n, periods, results),
                     TAMIS_OK);
  for (size_t i = 0; i < n; i++)
    assert_int_equal(results[i], expect_add(o, ids[i], unique, periods));
}

static void call_a_batch(struct oracle *o, tamis_filter *f)
{
  uint64_t ids[GROUP], counts[GROUP], hits = 0, sum = 0;
  bool found[GROUP];
  const size_t n = draw(o, GROUP), what = draw(o, 3);
  for (size_t i = 0; i < n; i++)
    ids[i] = draw(o, IDS);
  if (what < 2) {
    add_a_batch(o, f, ids, n, what);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    hits += remembered(o, ids[i]) > 0;
    sum += remembered(o, ids[i]);
  }
  assert_int_equal(tamis_contains_many_hash(f, ids, n, found), hits);
  assert_int_equal(tamis_count_many_hash(f, ids, n, counts), sum);
  for (size_t i = 0; i < n; i++)
    assert_true(counts[i] == remembered(o, ids[i]) && found[i] == (counts[i] > 0));
}

/* After the highest number comes 0. */
static uint64_t number(const struct oracle *o)
{
  return (o->now + o->ahead) & window_most_period;
}

static void end_periods(struct oracle *o, tamis_filter *f, unsigned periods)
{
  o->now += periods;
  if (draw(o, 2) || number(o) < periods)
    advance(f, periods);
  else
    assert_int_equal(tamis_advance_to(f, number(o)), TAMIS_OK);
}

/* A clock that is late ends no period, and one that was wrong gets its number back. */
static void read_another_clock(struct oracle *o, tamis_filter *f)
{
  const uint64_t wrong[] = {window_most_period, 1000, 5, 0}, other = wrong[draw(o, 4)];
  assert_int_equal(tamis_advance_to(f, draw(o, number(o) + 1)), TAMIS_OK);
  assert_int_equal(tamis_advance_to(f, window_most_period + 1), TAMIS_EINVAL);
  assert_int_equal(tamis_set_period(f, other), TAMIS_OK);
  o->ahead = other - o->now;
}

static void call_anything(struct oracle *o)
{
  const uint64_t id = draw(o, IDS), what = draw(o, 1024);
  tamis_filter *f = o->f[draw(o, 2)];
  if (what < 8) {
    end_periods(o, f, what ? 1 : 1 + (unsigned) draw(o, o->window + 2));
  } else if (what < 10) {
    read_another_clock(o, f);
  } else if (what < 16) {
    call_a_batch(o, f);
  } else if (what < 100) {
    assert_int_equal(tamis_contains_hash(f, id), remembered(o, id) > 0);
  } else if (what < 200) {
    assert_int_equal(tamis_count_hash(f, id), remembered(o, id));
  } else if (what < 500) {
    const int expected = expect_remove(o, id);
    assert_int_equal(tamis_remove_hash(f, id), expected);
  } else {
    const bool unique = what % 4 != 0;
    const unsigned periods = what % 8 < 4 ? o->window : draw_periods(o);
    const int expected = expect_add(o, id, unique, periods);
    assert_int_equal(
        what % 8 < 4 ? (unique ? tamis_add_unique_hash : tamis_add_hash)(f, id)
                     : (unique ? tamis_add_unique_for_hash : tamis_add_for_hash)(f, id, periods),
        expected);
  }
}

static void assert_as_the_oracle_says(const struct oracle *o)
{
  uint64_t sum = 0;
  for (uint64_t id = 0; id < IDS; id++) {
    assert_int_equal(tamis_contains_hash(o->f[id % 2], id), remembered(o, id) > 0);
    assert_int_equal(tamis_count_hash(o->f[id % 2], id), remembered(o, id));
    sum += remembered(o, id);
  }
  for (unsigned i = 0; i < 2; i++) {
    assert_int_equal(stats_of(o->f[i]).count, sum);
    assert_int_equal(stats_of(o->f[i]).period, number(o));
  }
  assert_int_equal(stats_of(o->f[0]).lookup_retries, 0); /* nothing else runs */
  assert_valid(o->f[0]);
}

/* In either kind, or by the handles of two processes. */
enum window_form { BLOOM, CUCKOO, SHARED, FORMS };

static void open_form(struct oracle *o, enum window_form form, tamis_options *options)
{
  options->kind = form == CUCKOO ? TAMIS_CUCKOO : TAMIS_BLOOM;
  o->copies = form == CUCKOO;
  if (form != SHARED) {
    o->f[0] = o->f[1] = make_with_options(options);
    return;
  }
  const int file = memfd_create("window", MFD_CLOEXEC);
  options->growable = false;
  options->capacity = IDS;
  for (unsigned i = 0; i < 2; i++)
    assert_int_equal(tamis_open_shared_fd(options, file, &o->f[i]), TAMIS_OK);
  close(file);
}

static void close_form(struct oracle *o)
{
  if (o->f[1] != o->f[0])
    tamis_destroy(o->f[1]);
  tamis_destroy(o->f[0]);
}

/* Filters that must grow, too. */
TEST(any_calls_are_answered_as_the_oracle_says)
{
  for (unsigned i = 0; i < 4 * WINDOWS * FORMS; i++) {
    const enum window_form form = (enum window_form)(i % FORMS);
    const bool growable = i / FORMS / WINDOWS % 2;
    struct oracle o = {.window = windows[i / FORMS % WINDOWS], .random = i};
    tamis_options options = bloom_options(
        o.window, growable ? IDS / (form == CUCKOO ? 8U : 3U) : IDS, low_rate, growable);
    options.window_renews = o.renews = i / FORMS / WINDOWS / 2;
    options.seed = i + 1;
    options.stripes = i % 7 ? 0 : 1;
    open_form(&o, form, &options);
    for (unsigned turn = 0; turn < 20; turn++) {
      for (unsigned call = 0; call < 700 / SCALE; call++)
        call_anything(&o);
      assert_as_the_oracle_says(&o);
    }
    close_form(&o);
  }
}

/* ---- keys that end by themselves ---- */

/* Key n was added for n periods, of which `passed` are over. */
static void assert_ends(const tamis_filter *f, unsigned periods, unsigned passed)
{
  for (unsigned n = 0; n <= periods; n++)
    assert_int_equal(tamis_contains_hash(f, n), n >= passed);
}

TEST(ends_outlive_a_save_and_a_union)
{
  enum { PERIODS = 5 };
  for (unsigned form = 0; form < 4; form++) {
    tamis_options options =
        window_options(form % 2 ? TAMIS_CUCKOO : TAMIS_BLOOM, PERIODS, 100, low_rate, form / 2);
    tamis_filter *f = make_with_options(&options), *united = make_with_options(&options);
    advance(united, 3);
    for (unsigned n = 0; n <= PERIODS; n++)
      assert_int_equal(tamis_add_unique_for_hash(f, n, n), TAMIS_OK);
    assert_int_equal(tamis_merge(united, f), TAMIS_OK);
    tamis_filter *loaded = copy_of(f);
    for (unsigned passed = 0; passed <= PERIODS + 1; passed++) {
      assert_ends(f, PERIODS, passed);
      assert_ends(united, PERIODS, passed);
      assert_ends(loaded, PERIODS, passed);
      advance(f, 1), advance(united, 1), advance(loaded, 1);
    }
    assert_valid(united);
    tamis_destroy(f), tamis_destroy(united), tamis_destroy(loaded);
  }
}

/* A refused call changes nothing. */
TEST(ends_that_are_not_possible_are_refused)
{
  static const tamis_kind kinds[] = {TAMIS_BLOOM, TAMIS_CUCKOO, TAMIS_COUNTING_BLOOM};
  const tamis_key key = {"a", 1}, bad = {NULL, 1};
  int result = 42;
  for (unsigned i = 0; i < 5; i++) {
    const unsigned window = i < 3 ? 0 : 2, expected = i < 3 ? 0 : 3;
    const int refusal = i < 3 ? TAMIS_EUNSUPPORTED : TAMIS_EINVAL;
    tamis_options options = window_options(kinds[i % 3], window, 100, 0.001, false);
    tamis_filter *f = make_with_options(&options);
    assert_int_equal(tamis_add_for(f, "a", 1, expected), refusal);
    assert_int_equal(tamis_add_unique_for(f, "a", 1, UINT_MAX), refusal);
    assert_int_equal(tamis_add_for_many(f, &key, 1, expected, &result), refusal);
    assert_int_equal(tamis_add_for_many(f, NULL, 0, expected, NULL), refusal);
    assert_int_equal(tamis_add_unique_for_many(f, &key, 1, expected, &result), refusal);
    assert_int_equal(tamis_add_for(f, NULL, 1, 0), TAMIS_EINVAL);
    assert_int_equal(tamis_add_unique_for(f, NULL, 1, 0), TAMIS_EINVAL);
    assert_int_equal(tamis_add_unique_for_many(f, &bad, 1, 0, &result), TAMIS_EINVAL);
    assert_true(result == 42 && stats_of(f).count == 0);
    if (window) {
      assert_int_equal(tamis_add_unique_for_many(f, NULL, 0, 2, NULL), TAMIS_OK);
      assert_int_equal(tamis_add_for(f, NULL, 0, 0), TAMIS_OK); /* an empty key */
      assert_int_equal(tamis_add_unique_for(f, "", 0, 2), TAMIS_PRESENT);
      assert_int_equal(tamis_add_for_many(f, &key, 1, 1, NULL), TAMIS_OK);
      advance(f, 1);
      assert_true(!tamis_contains(f, "", 0) && tamis_contains(f, "a", 1));
      advance(f, 1);
      assert_false(tamis_contains(f, "a", 1));
    }
    tamis_destroy(f);
  }
  assert_int_equal(tamis_add_for(NULL, "a", 1, 0), TAMIS_EINVAL);
  assert_int_equal(tamis_add_for_hash(NULL, 1, 0), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique_for_hash(NULL, 1, 0), TAMIS_EINVAL);
}

/* ---- capacity ---- */

/* Keys that are in are renewed though there is no room for others, and brief adds change nothing. */
TEST(a_full_window_renews)
{
  tamis_filter *f = make_window(2, 1000, low_rate, false);
  uint64_t n = 0;
  while (tamis_add_hash(f, n) == TAMIS_OK)
    n++;
  for (unsigned now = 0; now < 10; now++) {
    advance(f, 1);
    add_range(f, 0, n);
    assert_int_equal(tamis_add_hash(f, n), TAMIS_EFULL);
  }
  assert_int_equal(stats_of(f).count, n);
  for (uint64_t i = 1; i <= 100; i++) /* so that it is known to be full */
    (void) tamis_add_hash(f, n + i);
  for (uint64_t i = 0; i < n; i++)
    assert_int_equal(tamis_add_for_hash(f, i, (unsigned) i % 3), TAMIS_OK);
  advance(f, 2);
  assert_all_in(f, 0, n);
  tamis_destroy(f);
}

/* ---- memory ---- */

TEST(max_bytes_is_kept)
{
  for (int growable = 0; growable < 2; growable++) {
    struct bank bank = {0};
    tamis_options options = bloom_options(4, 1000, 0.001, growable);
    options.allocator = allocator_of(&bank);
    const uint64_t needed = planned_bytes(&options);
    tamis_filter *f;
    options.max_bytes = needed - 1;
    assert_int_equal(tamis_create(&options, &f), TAMIS_EFULL);
    assert_int_equal(bank.bytes, 0);
    for (uint64_t limit = needed; limit < 20 * needed; limit = limit * 7 / 4) {
      options.max_bytes = limit;
      f = make_with_options(&options);
      bank.most_bytes = bank.bytes;
      for (unsigned turn = 0; turn < 12; turn++) {
        uint64_t base = turn * 1000000, n = 0;
        while (n < 100000 && tamis_add_hash(f, base + n) == TAMIS_OK)
          n++;
        if (turn % 6 == 0) /* all other keys have been forgotten */
          assert_in_range(n, 1000, 100000 - 1);
        assert_all_in(f, base, base + n);
        assert_true(stats_of(f).bytes <= limit && bank.bytes == stats_of(f).bytes);
        assert_valid(f);
        advance(f, turn % 6 == 5 ? 6 : 1);
      }
      assert_true(bank.most_bytes <= limit);
      tamis_destroy(f);
      assert_int_equal(bank.bytes, 0);
    }
  }
}

/* ---- growth ---- */

/* Far more keys than the capacity come in one window: the rate is kept.  When they are forgotten,
 * the filter is one layer again. */
TEST(a_growing_window_keeps_its_rate)
{
  enum { CAPACITY = 1000, PROBES = 300000 / SCALE };
  static const double rates[] = {0.1, 0.01, 0.001};
  for (unsigned r = 0; r < 3; r++) {
    tamis_filter *f = make_window(2, CAPACITY, rates[r], true);
    uint64_t next = 0;
    for (unsigned turn = 0; turn < 4; turn++) {
      uint64_t first = next;
      for (uint64_t n = CAPACITY; n <= CAPACITY * (turn % 2 ? 1 : 32 / (SCALE == 1 ? 1 : 4));
           n *= 2) {
        for (; next - first < n; next++)
          assert_int_equal(tamis_add_hash(f, next), TAMIS_OK);
        double rate = rate_of(f, PROBES);
        if (rate > rates[r] + 4 * sqrt(rates[r] / PROBES))
          fail_msg("fpp %g, turn %u, %lu keys: rate %g", rates[r], turn, n, rate);
        double estimate = stats_of(f).fpp_estimate;
        assert_true(estimate <= rates[r]);
        double noise = 4 * sqrt(rates[r] / PROBES); /* however full each layer is */
        assert_true(rate <= 1.1 * estimate + noise && estimate <= 1.1 * rate + noise);
      }
      assert_all_in(f, first, next);
      if (turn % 2 == 0)
        assert_true(stats_of(f).layers > 1 || turn > 0);
      assert_valid(f);
      advance(f, 4); /* a closed layer leaves with the advance after */
      assert_int_equal(stats_of(f).count, 0);
      assert_int_equal(stats_of(f).layers, 1);
    }
    tamis_destroy(f);
  }
}

/* Tables of a few keys get fuller than others.  The rate is just above the lowest of a shape with
 * two lanes in a bucket, of which that is the most true. */
TEST(a_tiny_growing_window_keeps_its_rate)
{
  for (uint64_t capacity = 1; capacity <= 8; capacity++) {
    tamis_filter *f = make_window(1, capacity, 2.49e-4, true);
    assert_true(capacity > 1 || stats_of(f).fingerprint_bits > 14); /* more cost nothing */
    double highest = 0;
    for (uint64_t key = 0; key < 400; key++) {
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
      highest = fmax(highest, stats_of(f).fpp_estimate);
    }
    if (highest > 2.49e-4)
      fail_msg("capacity %lu: %g", capacity, highest);
    assert_true(stats_of(f).layers > 2);
    tamis_destroy(f);
  }
}

/* A key in an older layer is renewed in the newest one, and has one winner. */
TEST(keys_of_older_layers_are_renewed_and_have_one_winner)
{
  tamis_filter *f = make_window(2, 100, low_rate, true);
  for (uint64_t i = 0; i < 3000; i++) {
    assert_int_equal(tamis_add_unique_hash(f, i), TAMIS_OK);
    for (uint64_t j = 0; j <= i; j += 97)
      assert_int_equal(tamis_add_unique_hash(f, j), TAMIS_PRESENT);
  }
  assert_true(stats_of(f).layers > 1);
  for (unsigned now = 0; now < 10; now++) {
    add_range(f, 0, 100);
    advance(f, 1);
    for (uint64_t i = 0; i < 3000; i++)
      assert_int_equal(tamis_contains_hash(f, i), i < 100 || now < 2);
    if (now >= 2) /* those that are renewed may be in two layers */
      assert_in_range(stats_of(f).count, 100, 200);
    assert_int_equal(stats_of(f).lookup_retries, 0); /* nothing else runs */
    assert_valid(f);
  }
  tamis_destroy(f);
}

static _Atomic bool has_retried;

static void *look_up_until_retried(void *f)
{
  while (!atomic_load(&has_retried))
    tamis_contains_hash(f, 7);
  return tamis__reader != &tamis__no_reader[0] ? f : NULL;
}

/* A look-up that begins again in a window of one layer does not register its thread as a reader,
 * which takes system calls that a sandbox may forbid. */
TEST(look_ups_in_one_layer_need_no_reader)
{
  tamis_filter *f = make_window(3, 1000, low_rate, false);
  version_counter *versions = window_of(f)->state->versions;
  pthread_t thread;
  void *registered;
  assert_int_equal(pthread_create(&thread, NULL, look_up_until_retried, f), 0);
  while (stats_of(f).lookup_retries == 0)
    for (uint64_t i = 0; i <= UINT64_MAX >> window_of(f)->version_shift; i++)
      atomic_fetch_add(&versions[i], 2);
  atomic_store(&has_retried, true);
  pthread_join(thread, &registered);
  assert_null(registered);
  tamis_destroy(f);
}
