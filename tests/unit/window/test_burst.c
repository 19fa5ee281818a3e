/* SPDX-License-Identifier: MIT
 *
 * Windows that give a burst's memory back.
 */
#include "saved_unit.h"
#include "window_unit.h"

static const tamis_kind kinds[] = {TAMIS_BLOOM, TAMIS_CUCKOO};

static tamis_filter *make(tamis_kind kind, unsigned window, uint64_t capacity)
{
  tamis_options options = window_options(kind, window, capacity, 0.0001, true);
  return make_with_options(&options);
}

/* Periods with so many keys each. */
static void spend(tamis_filter *f, unsigned periods, uint64_t keys)
{
  for (unsigned i = 0; i < periods; i++) {
    add_keys(f, keys);
    advance(f, 1);
  }
}

static uint64_t bytes_of_new(tamis_kind kind, unsigned window, uint64_t capacity)
{
  tamis_filter *f = make(kind, window, capacity);
  uint64_t bytes = stats_of(f).bytes;
  tamis_destroy(f);
  return bytes;
}

/* ---- memory ---- */

/* One period, or two, have 20 times the keys of a window.  Afterwards as many come as before, or none.  `tenths` of
 * the capacity came before the burst: then a window takes what it would take without the burst, or what one takes
 * that was created for as many keys; and when no keys come any more, a much smaller one takes what it took when
 * it was new. */
static void assert_burst_is_given_back(tamis_kind kind, unsigned window, uint64_t keys,
                                       unsigned tenths, unsigned bursts, bool silent)
{
  const uint64_t usual = keys * (window + 1), capacity = usual * 10 / tenths;
  const bool fits = tenths == 10, small = tenths == 80;
  tamis_filter *f = make(kind, window, capacity);
  next_key = 1;
  spend(f, 4 * window, keys);
  const uint64_t due = fits || small ? bytes_of_new(kind, window, usual) : stats_of(f).bytes;
  spend(f, bursts, 20 * usual);
  assert_true(!fits || stats_of(f).bytes > 15 * due);
  spend(f, window, silent ? 0 : keys);
  assert_true(last_keys_are_in(f, silent ? 0 : keys * window));
  spend(f, window + 2, silent ? 0 : keys);
  await_release(f, 0);
  spend(f, 1, silent ? 0 : keys);
  assert_true(last_keys_are_in(f, silent ? 0 : keys * window));
  assert_true(2 * stats_of(f).bytes <= 3 * due);
  assert_true(!fits || stats_of(f).layers == 1);
  for (unsigned period = 0; period < 3 * window + 8; period++) {
    spend(f, 1, 0);
    assert_valid(f);
  }
  await_release(f, 0);
  assert_true(!small || stats_of(f).bytes == bytes_of_new(kind, window, capacity));
  tamis_destroy(f);
}

TEST(a_burst_is_given_back)
{
  static const unsigned windows[] = {1, 4, 64}, tenths[] = {11, 15, 20, 27, 80};
  for (unsigned i = 0; i < 6; i++) {
    const unsigned window = windows[i / 2];
    const uint64_t keys = 400 / window + 20;
    assert_burst_is_given_back(kinds[i % 2], window, keys, 10, 1, false);
    assert_burst_is_given_back(kinds[i % 2], window, keys, 10, 1, true);
    assert_burst_is_given_back(kinds[i % 2], window, keys, 10, 2, false);
  }
  for (unsigned i = 0; i < 10; i++)
    assert_burst_is_given_back(kinds[i % 2], 4, 400, tenths[i / 2], 1, false);
}

/* When few keys come, the newest layer has the index of the first one, which is opened again. */
TEST(layers_have_indices_of_their_own)
{
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], 1, 100);
    next_key = 1;
    spend(f, 8, 400);
    while (window_layer_at(&window_of(f)->newest)->index != window_of(f)->first.index)
      add_keys(f, 1);
    assert_true(window_layer_at(&window_of(f)->newest) != &window_of(f)->first);
    for (unsigned period = 0; period < 12; period++) {
      spend(f, 1, 5);
      assert_valid(f);
    }
    await_release(f, 0);
    assert_int_equal(stats_of(f).bytes, bytes_of_new(kinds[i], 1, 100));
    tamis_destroy(f);
  }
}

/* In the Bloom kind keys that are renewed in each period, since before the burst and since it, keep
 * no layer. */
TEST(keys_that_are_renewed_keep_no_layer)
{
  enum { KEYS = 1000 };
  static const unsigned windows[] = {1, 2, 5};
  for (unsigned i = 0; i < 6; i++) {
    const unsigned window = windows[i / 2], burst = window;
    tamis_options options = window_options(TAMIS_BLOOM, window, KEYS, 0.0001, true);
    options.window_renews = i % 2;
    tamis_filter *f = make_with_options(&options);
    const uint64_t due = stats_of(f).bytes;
    next_key = 1;
    for (unsigned period = 0; period < burst + 2 * window + 4; period++) {
      const uint64_t hot = period < burst ? KEYS / 2 : KEYS * 3 / 4;
      if (period == burst)
        add_keys(f, 20 * KEYS);
      for (uint64_t key = 0; key < hot; key++)
        if (options.window_renews)
          assert_int_equal(tamis_add_unique_hash(f, ~key),
                           period == 0 || (period == burst && key >= KEYS / 2) ? TAMIS_OK
                                                                               : TAMIS_PRESENT);
        else
          assert_int_equal(tamis_add_hash(f, ~key), TAMIS_OK);
      advance(f, 1);
      for (uint64_t key = 0; key < hot; key++)
        assert_true(tamis_contains_hash(f, ~key));
      assert_valid(f);
    }
    await_release(f, 0);
    assert_int_equal(stats_of(f).bytes, due);
    assert_false(epoch_has_grown(epoch_read(&window_of(f)->state->epoch)));
    tamis_destroy(f);
  }
}

/* The layer that gets new keys. */
static const struct window_layer *newest_of(const tamis_filter *f)
{
  return window_layer_at(&const_window_of(f)->newest);
}

/* At a low rate there are indices for few layers.  The large one, which is closed, has one. */
TEST(a_second_burst_finds_room)
{
  enum { WINDOW = 4, KEYS = 1000 };
  for (unsigned i = 0; i < 2; i++) {
    tamis_options options = window_options(kinds[i], WINDOW, KEYS, 2e-6, true);
    tamis_filter *f = make_with_options(&options);
    next_key = 1;
    for (unsigned bursts = 0; bursts < 3; bursts++) {
      spend(f, 1, 20 * KEYS);
      assert_true(last_keys_are_in(f, 20 * KEYS));
      spend(f, WINDOW + 3, KEYS / (WINDOW + 1));
      assert_true(stats_of(f).layers == 2 && newest_of(f)->geometry.capacity == KEYS);
      assert_valid(f);
    }
    tamis_destroy(f);
  }
}

/* With a limit that has no room for another large layer, the one that there is stays open. */
TEST(a_limit_keeps_the_layer_that_a_second_burst_needs)
{
  enum { WINDOW = 2, KEYS = 1000 };
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], WINDOW, KEYS);
    struct window *w = window_of(f);
    next_key = 1;
    spend(f, 1, 14 * KEYS);
    spend(f, WINDOW, KEYS / 10);
    await_release(f, 0);
    w->max_bytes = stats_of(f).bytes + 4096; /* nothing else runs */
    spend(f, 2 * WINDOW + 4, KEYS / 10);
    assert_true(stats_of(f).layers == 1 && newest_of(f) != &w->first);
    w->max_bytes = 0;
    spend(f, WINDOW + 2, KEYS / 10);
    assert_true(stats_of(f).layers == 1 && newest_of(f) == &w->first);
    tamis_destroy(f);
  }
}

/* In the cuckoo kind, a key that each burst brings and that is renewed for ever keeps the burst's
 * layer.  Later bursts come to what is there. */
TEST(bursts_that_are_kept_do_not_add_up)
{
  enum { WINDOW = 2, KEYS = 300, BURSTS = 10 };
  tamis_options options = window_options(TAMIS_CUCKOO, WINDOW, KEYS, 0.0001, true);
  options.window_renews = true;
  tamis_filter *f = make_with_options(&options);
  uint64_t most = 0;
  next_key = 1;
  for (uint64_t burst = 0; burst < BURSTS; burst++) {
    add_keys(f, 20 * KEYS);
    if (!most)
      most = stats_of(f).bytes;
    for (unsigned period = 0; period < 2 * WINDOW + 4; period++) {
      for (uint64_t key = 0; key <= burst; key++)
        assert_true(tamis_add_unique_hash(f, ~key) == TAMIS_PRESENT || !period);
      spend(f, 1, KEYS / WINDOW);
      await_release(f, 0);
      assert_true(stats_of(f).bytes <= 4 * most);
    }
  }
  assert_valid(f);
  tamis_destroy(f);
}

/* `changes` comes round after 8192 of them, some ten of which each burst has.  It lasts for three
 * periods, so some older layers leave while others stay. */
TEST(the_count_of_changes_comes_round)
{
  enum { KEYS = 100 };
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], 1, 2);
    next_key = 1;
    while (window_of(f)->changes < EPOCH_CHANGES + 100) {
      for (unsigned period = 0; period < 8; period++) {
        const uint64_t keys = period < 3 ? (uint64_t) KEYS << period : 1;
        add_keys(f, keys);
        advance(f, 1);
        assert_true(last_keys_are_in(f, keys));
        for (uint64_t key = 1; key <= keys; key++)
          assert_int_equal(tamis_add_unique_hash(f, (next_key - key) * HASH_MULTIPLIER),
                           TAMIS_PRESENT);
      }
    }
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A file has no layer but those that hold keys.  The one that a filter begins with stays. */
TEST(a_loaded_window_gives_a_burst_back)
{
  enum { WINDOW = 2, KEYS = 300, USUAL = KEYS * (WINDOW + 1) };
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], WINDOW, USUAL);
    next_key = 1;
    spend(f, 1, 20 * USUAL);
    spend(f, WINDOW + 1, KEYS);
    assert_true(stats_of(f).layers == 1 && newest_of(f) != &window_of(f)->first);
    tamis_filter *loaded = copy_of(f);
    assert_int_equal(stats_of(loaded).growths, stats_of(f).growths);
    assert_true(last_keys_are_in(loaded, KEYS * WINDOW));
    spend(loaded, WINDOW + 4, KEYS);
    await_release(loaded, 0);
    assert_true(last_keys_are_in(loaded, KEYS * WINDOW));
    assert_int_equal(stats_of(loaded).bytes, bytes_of_new(kinds[i], WINDOW, USUAL));
    assert_valid(loaded);
    tamis_destroy(loaded);
    tamis_destroy(f);
  }
}

/* Keys whose number goes up and down by half open no layers again and again. */
TEST(a_steady_load_opens_no_layers)
{
  enum { WINDOW = 3, KEYS = 200 };
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], WINDOW, 100);
    next_key = 1;
    for (unsigned turn = 0; turn < 10; turn++)
      spend(f, WINDOW + 1, turn % 2 ? KEYS : KEYS / 2);
    const uint64_t growths = stats_of(f).growths;
    for (unsigned turn = 0; turn < 40; turn++)
      spend(f, WINDOW + 1, turn % 2 ? KEYS : KEYS / 2);
    assert_int_equal(stats_of(f).growths, growths);
    tamis_destroy(f);
  }
}

/* All copies are removed at the end of each second period: a filter that is found empty once is not
 * one that needs no memory. */
TEST(a_filter_that_is_empty_once_keeps_its_memory)
{
  enum { KEYS = 1000 };
  tamis_filter *f = make(TAMIS_CUCKOO, 1, 100);
  uint64_t growths = 0;
  for (unsigned turn = 0; turn < 20; turn++) {
    add_range(f, 0, KEYS);
    if (turn == 4)
      growths = stats_of(f).growths;
    if (turn % 2)
      for (uint64_t key = 0; key < KEYS; key++)
        while (tamis_remove_hash(f, key) == TAMIS_OK)
          ;
    advance(f, 1);
  }
  assert_int_equal(stats_of(f).growths, growths);
  tamis_destroy(f);
}
