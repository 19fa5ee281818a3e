/* SPDX-License-Identifier: MIT
 *
 * Windows of the cuckoo kind: counts of copies, the memory that these take, moves, and keys that a filter
 * cannot tell apart.  (test_window.c has the oracle.)
 */
#include "saved_unit.h"
#include "window_unit.h"

#include "window/copies.h"
#include "window/evict.h"
#include "window/pair.h"

/* ---- filters ---- */

static tamis_options options_for(unsigned window, uint64_t capacity, bool growable)
{
  return window_options(TAMIS_CUCKOO, window, capacity, low_rate, growable);
}

static tamis_filter *make(unsigned window, uint64_t capacity, bool growable)
{
  tamis_options options = options_for(window, capacity, growable);
  return make_with_options(&options);
}

/* ---- counts ---- */

static int add_further(struct window *w, struct window_lane at, uint64_t more)
{
  struct window_stripe *stripe = window_stripe_of_block(w, at.index >> w->first.block_shift);
  window_lock(w, stripe);
  int result = tamis__window_add_further(w, &w->first, at, more);
  window_unlock(w, stripe);
  return result;
}

/* No lane has a count of 2^53 or more. */
TEST(a_count_has_a_limit)
{
  tamis_filter *f = make(1, 100, false);
  struct window *w = window_of(f);
  add(f, 7, 2);
  struct pair pair = pair_in(&w->first, window_mixed(w, 7));
  struct view view = look_at(&pair);
  struct found found = find_entry(&pair, &view);
  struct window_lane at = window_lane(&w->first, found.bucket, found.lane);
  assert_int_equal(add_further(w, at, saved_most_copies - 1), TAMIS_EFULL);
  assert_int_equal(tamis_count_hash(f, 7), 2);
  assert_int_equal(add_further(w, at, saved_most_copies - 2), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_EFULL);
  assert_int_equal(tamis_count_hash(f, 7), saved_most_copies);
  assert_int_equal(tamis_remove_hash(f, 7), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- what is remembered ---- */

/* Lanes are dead as long as the sweep has not come by: here the stamps of all entries, which were
 * added in the running period, are written by hand. */
static void make_entries_dead(struct window *w)
{
  const struct window_geometry *g = &w->first.geometry;
  uint64_t epoch = epoch_read(&w->state->epoch);
  for (uint64_t i = 0; i < window_words(g); i++) {
    uint64_t value = word_load(&w->first.words[i]), used = window_used(&g->whole, value);
    for (; used; used &= used - 1)
      value ^= (uint64_t) (epoch_now(epoch) ^ epoch_dead(epoch))
               << lanes_first(&g->whole.lane, used) * g->whole.lane.width;
    word_store(&w->first.words[i], value);
  }
}

/* The counts of dead lanes are nobody's, whether the lane is used for the same key again, for
 * another one, or for an entry that is moved. */
TEST(the_count_of_a_forgotten_key_is_nobodys)
{
  enum { KEYS = 100 };
  for (unsigned seed = 1; seed <= 20; seed++) {
    tamis_options options = options_for(1, KEYS, false);
    options.seed = seed;
    tamis_filter *f = make_with_options(&options);
    for (uint64_t key = 0; key < KEYS; key++)
      add(f, key, 1 + (unsigned) (key % 3));
    make_entries_dead(window_of(f));
    for (uint64_t key = 0; key < 2 * KEYS; key += 2) { /* as many, half of them known */
      assert_int_equal(tamis_count_hash(f, key), 0);
      add(f, key, 1);
    }
    for (uint64_t key = 0; key < 2 * KEYS; key += 2) {
      assert_int_equal(tamis_count_hash(f, key), 1);
      assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
      assert_int_equal(tamis_count_hash(f, key), 0);
    }
    advance(f, 3); /* the stamps of those that are left are used again */
    assert_int_equal(stats_of(f).count, 0);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A move carries the count of its entry along: to an empty lane, or to one with a dead entry, whose
 * count is nobody's. */
TEST(a_move_carries_the_count)
{
  enum { KEYS = 1000, FIRST = KEYS };
  for (int dead = 0; dead < 2; dead++) {
    tamis_filter *f = make(1, KEYS, false);
    for (uint64_t key = 0; key < KEYS && dead; key++)
      add(f, key, 7);
    make_entries_dead(window_of(f));
    uint64_t evictions = stats_of(f).evictions, end = FIRST;
    for (; tamis_add_hash(f, end) == TAMIS_OK; end++)
      add(f, end, (unsigned) (end % 3));
    assert_true(stats_of(f).evictions > evictions + 100);
    for (uint64_t key = FIRST; key < end; key++) {
      for (uint64_t copies = 1 + key % 3; copies > 0; copies--) {
        assert_int_equal(tamis_count_hash(f, key), copies);
        assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
      }
      assert_int_equal(tamis_remove_hash(f, key), TAMIS_ABSENT);
    }
    advance(f, 3); /* the stamps of those that are left are used again */
    assert_int_equal(stats_of(f).count, 0);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* The version that a move bumps follows from the fingerprint alone, as look-ups know no more.  Here
 * a fingerprint has fewer bits than the number of a version. */
TEST(a_move_bumps_a_version_that_look_ups_read)
{
  enum { CAPACITY = 60000 };
  tamis_options options = window_options(TAMIS_BLOOM, 1, CAPACITY, 0.3, false);
  tamis_filter *f = make_with_options(&options);
  const struct window *w = const_window_of(f);
  const struct window_geometry *g = &w->first.geometry;
  assert_true(window_fingerprint_bits(&g->shape) < 64 - w->version_shift);
  for (unsigned period = 0; period < 4; period++) { /* with all stamps */
    add_range(f, CAPACITY * period, CAPACITY * (period + 1));
    advance(f, 2 + period % 2);
  }
  assert_true(stats_of(f).evictions > 0);
  for (uint64_t i = 0; i < UINT64_C(1) << (64 - w->version_shift); i++)
    assert_true(!(i << w->version_shift & ~g->top) || version_after(&w->state->versions[i]) == 0);
  tamis_destroy(f);
}

/* ---- keys that the filter cannot tell apart ---- */

/* Whether two keys have the same entry in a layer. */
static bool collide(const struct window *w, struct window_layer *layer, uint64_t a, uint64_t b)
{
  struct pair x = pair_in(layer, window_mixed(w, a)), y = pair_in(layer, window_mixed(w, b));
  return x.fingerprint == y.fingerprint && x.place.lower == y.place.lower;
}

static uint64_t next_colliding(const struct window *w, struct window_layer *layer, uint64_t key,
                               uint64_t from)
{
  while (!collide(w, layer, key, from) || from == key)
    from++;
  return from;
}

/* Opens a further layer by keys that nobody else uses, and returns it. */
static struct window_layer *open_layer(tamis_filter *f)
{
  unsigned layers = stats_of(f).layers;
  for (uint64_t key = UINT64_C(1) << 40; stats_of(f).layers == layers; key++)
    assert_true(tamis_add_unique_hash(f, key) >= 0);
  return atomic_load(&window_of(f)->newest);
}

/* A filter with one layer, in which fingerprints are longer than in the next one. */
static tamis_filter *make_fine_then_coarse(bool renews, struct window_layer **fine)
{
  tamis_options options = options_for(1, 1000, true);
  options.fpp = 0.05;
  options.window_renews = renews;
  tamis_filter *f = make_with_options(&options);
  *fine = open_layer(f);
  advance(f, 2);
  assert_int_equal(stats_of(f).layers, 1);
  return f;
}

/* A key that only the newer one of two layers takes for z. */
static uint64_t coarse_twin(const tamis_filter *f, struct window_layer *coarse, uint64_t z)
{
  uint64_t x = 2000000;
  do
    x = next_colliding(const_window_of(f), coarse, z, x + 1);
  while (tamis_contains_hash(f, x));
  return x;
}

/* The older layer has an entry of y, and the newer one an entry of x, and z matches both of
 * them. */
TEST(a_remove_takes_the_entry_of_the_oldest_layer)
{
  for (unsigned round = 0; round < 4; round++) {
    bool z_first = round & 1, later = round & 2;
    struct window_layer *fine;
    tamis_filter *f = make_fine_then_coarse(false, &fine);
    uint64_t y = 1, z = next_colliding(window_of(f), fine, y, 2);
    add(f, y, 1);
    if (z_first)
      add(f, z, 1);
    uint64_t x = coarse_twin(f, open_layer(f), z);
    add(f, x, 1);
    if (!z_first)
      add(f, z, 1);
    if (later) { /* z makes its entry as young as itself, whatever becomes of x */
      advance(f, 1);
      add(f, z, 1);
      add(f, x, 1);
      assert_int_equal(tamis_remove_hash(f, z), TAMIS_OK);
      assert_int_equal(tamis_remove_hash(f, x), TAMIS_OK);
      advance(f, 1);
    }
    assert_int_equal(tamis_count_hash(f, z), 2); /* with that of y */
    assert_int_equal(tamis_remove_hash(f, z), TAMIS_OK);
    assert_int_equal(tamis_count_hash(f, x), 1);
    assert_int_equal(tamis_count_hash(f, y), 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* x, which the newer layer takes for z, has the stamp of now. */
TEST(a_unique_add_renews_the_entry_of_the_oldest_layer)
{
  struct window_layer *fine;
  tamis_filter *f = make_fine_then_coarse(true, &fine);
  uint64_t z = 1;
  add(f, z, 1);
  uint64_t x = coarse_twin(f, open_layer(f), z);
  advance(f, 1);
  add(f, x, 1);
  assert_int_equal(tamis_add_unique_hash(f, z), TAMIS_PRESENT);
  assert_int_equal(tamis_remove_hash(f, x), TAMIS_OK);
  advance(f, 1);
  assert_true(tamis_contains_hash(f, z));
  tamis_destroy(f);
}

/* ---- memory ---- */

/* Counts that fall take as little as if they had never been higher. */
TEST(copies_that_go_give_memory_back)
{
  enum { KEYS = 1000, MANY = 200 };
  tamis_filter *f = make(1, KEYS, false), *twin = make(1, KEYS, false);
  for (uint64_t key = 0; key < KEYS; key++) {
    add(f, key, MANY);
    add(twin, key, 2);
  }
  uint64_t most = stats_of(f).bytes, least = stats_of(twin).bytes;
  assert_true(most > least + 500);
  for (unsigned i = 2; i < MANY; i++)
    remove_range(f, 0, KEYS);
  assert_true(stats_of(f).bytes < least + (most - least) / 3);
  assert_valid(f);
  tamis_destroy(twin);
  tamis_destroy(f);
}

static bool may_be_full(int result)
{
  assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
  return result == TAMIS_OK;
}

TEST(copies_keep_within_max_bytes)
{
  struct bank bank = {0};
  tamis_options options = options_for(2, 1000, true);
  options.allocator = allocator_of(&bank);
  const uint64_t bytes = planned_bytes(&options);
  options.max_bytes = bytes + 500;
  tamis_filter *f = make_with_options(&options);
  assert_int_equal(bank.bytes, bytes);
  uint64_t refused = 0, missing = 0;
  for (uint64_t key = 0; key < 1000; key++) {
    /* Where an entry with copies would have to be moved, there is no memory for their count. */
    bool first = may_be_full(tamis_add_hash(f, key));
    bool second = first && may_be_full(tamis_add_hash(f, key));
    missing += !first;
    refused += !second;
    assert_int_equal(tamis_count_hash(f, key), first + second);
    assert_true(bank.bytes <= options.max_bytes);
    assert_int_equal(bank.bytes, stats_of(f).bytes);
  }
  assert_true(refused > 100 && refused < 900 && missing < 10);
  assert_int_equal(stats_of(f).refused_adds, refused);
  assert_int_equal(stats_of(f).count, 2000 - refused - missing);
  assert_valid(f);
  advance(f, 3);
  assert_int_equal(bank.bytes, bytes);
  tamis_destroy(f);
  assert_int_equal(bank.bytes, 0);
}

TEST(a_copy_that_is_refused_renews_nothing)
{
  struct bank bank = {0};
  tamis_options options = options_for(2, 1000, true);
  options.allocator = allocator_of(&bank);
  tamis_filter *f = make_with_options(&options);
  add(f, 7, 1);
  advance(f, 2);
  bank.fail_at = bank.calls + 1;
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_ENOMEM);
  assert_int_equal(tamis_count_hash(f, 7), 1);
  advance(f, 1);
  assert_int_equal(tamis_count_hash(f, 7), 0);
  assert_valid(f);
  tamis_destroy(f);
}
