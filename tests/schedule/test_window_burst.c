/* SPDX-License-Identifier: MIT
 *
 * Windows that give a burst's memory back, and calls that are stopped while a layer leaves and is
 * released.  Built with the hooks.
 */
#include "calls.h"

#include "filter_unit.h"
#include "window/evict.h"
#include "window/layers.h"
#include "window/pair.h"
#include "window_unit.h"

#include <sched.h>
#include <stdio.h>

static const tamis_kind kinds[] = {TAMIS_BLOOM, TAMIS_CUCKOO};

static tamis_filter *make(tamis_kind kind, unsigned window, uint64_t capacity)
{
  tamis_options options = window_options(kind, window, capacity, 0.0001, true);
  return create(&options);
}

static uint64_t next_key;

static uint64_t hash_of(uint64_t key)
{
  return key * UINT64_C(0x9E3779B97F4A7C15);
}

static void add_keys(tamis_filter *f, uint64_t n)
{
  for (uint64_t i = 0; i < n; i++)
    assert_true(tamis_add_hash(f, hash_of(next_key++)) >= 0);
}

static void assert_last_keys_are_in(const tamis_filter *f, uint64_t n)
{
  for (uint64_t i = next_key - n; i < next_key; i++)
    assert_true(tamis_contains_hash(f, hash_of(i)));
}

/* What has left is released after a grace period, which nobody can hurry. */
static void await_release(tamis_filter *f)
{
  while (atomic_load(&window_of(f)->backlog.held)) {
    sched_yield();
    (void) stats_of(f);
  }
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

/* One period has 20 times the keys of a window.  Afterwards as many come as before, or none. */
static void assert_burst_is_given_back(tamis_kind kind, unsigned window, uint64_t keys,
                                       unsigned bursts, bool silent)
{
  const uint64_t usual = keys * (window + 1), due = bytes_of_new(kind, window, usual);
  tamis_filter *f = make(kind, window, usual);
  next_key = 1;
  spend(f, 2 * window, keys);
  spend(f, bursts, 20 * usual);
  assert_true(stats_of(f).bytes > 15 * due);
  spend(f, window, silent ? 0 : keys);
  assert_last_keys_are_in(f, silent ? 0 : keys * window);
  spend(f, window + 2, silent ? 0 : keys);
  await_release(f);
  spend(f, 1, silent ? 0 : keys);
  assert_last_keys_are_in(f, silent ? 0 : keys * window);
  assert_true(2 * stats_of(f).bytes <= 3 * due);
  assert_int_equal(stats_of(f).layers, 1);
  assert_valid(f);
  tamis_destroy(f);
}

static void a_burst_is_given_back(void **state)
{
  (void) state;
  static const unsigned windows[] = {1, 4, 64};
  for (unsigned i = 0; i < 6; i++) {
    const unsigned window = windows[i / 2];
    const uint64_t keys = 400 / window + 20;
    assert_burst_is_given_back(kinds[i % 2], window, keys, 1, false);
    assert_burst_is_given_back(kinds[i % 2], window, keys, 1, true);
    assert_burst_is_given_back(kinds[i % 2], window, keys, 2, false);
  }
}

/* More keys come than the filter was created for.  After a burst they have a layer of their own,
 * and the first one is all that is there beside it. */
static void a_burst_of_a_grown_window_is_given_back(void **state)
{
  (void) state;
  enum { WINDOW = 4, KEYS = 400, USUAL = KEYS * (WINDOW + 1) };
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], WINDOW, USUAL / 8);
    next_key = 1;
    spend(f, 4 * WINDOW, KEYS);
    spend(f, 1, 20 * USUAL);
    spend(f, 2 * WINDOW + 2, KEYS);
    await_release(f);
    spend(f, 1, KEYS);
    assert_last_keys_are_in(f, KEYS * WINDOW);
    assert_true(2 * stats_of(f).bytes <= 3 * bytes_of_new(kinds[i], WINDOW, USUAL));
    for (unsigned period = 0; period < 3 * WINDOW + 8; period++) { /* no keys come any more */
      spend(f, 1, 0);
      assert_valid(f);
    }
    await_release(f);
    assert_int_equal(stats_of(f).bytes, bytes_of_new(kinds[i], WINDOW, USUAL / 8));
    tamis_destroy(f);
  }
}

/* When few keys come, the newest layer has the index of the first one, which is opened again. */
static void layers_have_indices_of_their_own(void **state)
{
  (void) state;
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
    await_release(f);
    assert_int_equal(stats_of(f).bytes, bytes_of_new(kinds[i], 1, 100));
    tamis_destroy(f);
  }
}

/* A window that was created for fewer keys than come takes what it would take without the burst. */
static void a_burst_beyond_the_capacity_is_given_back(void **state)
{
  (void) state;
  enum { WINDOW = 4, KEYS = 400, USUAL = KEYS * (WINDOW + 1) };
  static const unsigned tenths[] = {11, 15, 20, 27};
  for (unsigned i = 0; i < 8; i++) {
    tamis_filter *f = make(kinds[i % 2], WINDOW, USUAL * 10 / tenths[i / 2]);
    next_key = 1;
    spend(f, 3 * WINDOW, KEYS);
    const uint64_t due = stats_of(f).bytes;
    spend(f, 1, 20 * USUAL);
    spend(f, 2 * WINDOW + 2, KEYS);
    await_release(f);
    spend(f, 1, KEYS);
    assert_last_keys_are_in(f, KEYS * WINDOW);
    assert_true(2 * stats_of(f).bytes <= 3 * due);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* In the Bloom kind keys that are renewed in each period, since before the burst and since it, keep
 * no layer. */
static void keys_that_are_renewed_keep_no_layer(void **state)
{
  (void) state;
  enum { KEYS = 1000 };
  static const unsigned windows[] = {1, 2, 5};
  for (unsigned i = 0; i < 6; i++) {
    const unsigned window = windows[i / 2], burst = window;
    tamis_options options = window_options(TAMIS_BLOOM, window, KEYS, 0.0001, true);
    options.window_renews = i % 2;
    tamis_filter *f = create(&options);
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
    await_release(f);
    assert_int_equal(stats_of(f).bytes, due);
    assert_false(epoch_has_grown(epoch_before(&window_of(f)->state->epoch)));
    tamis_destroy(f);
  }
}

/* The layer that gets new keys. */
static const struct window_layer *newest_of(const tamis_filter *f)
{
  return window_layer_at(&const_window_of(f)->newest);
}

/* At a low rate there are indices for few layers.  The large one, which is closed, has one. */
static void a_second_burst_finds_room(void **state)
{
  (void) state;
  enum { WINDOW = 4, KEYS = 1000 };
  for (unsigned i = 0; i < 2; i++) {
    tamis_options options = window_options(kinds[i], WINDOW, KEYS, 2e-6, true);
    tamis_filter *f = create(&options);
    next_key = 1;
    for (unsigned bursts = 0; bursts < 3; bursts++) {
      spend(f, 1, 20 * KEYS);
      assert_last_keys_are_in(f, 20 * KEYS);
      spend(f, WINDOW + 3, KEYS / (WINDOW + 1));
      assert_true(stats_of(f).layers == 2 && newest_of(f)->geometry.capacity == KEYS);
      assert_valid(f);
    }
    tamis_destroy(f);
  }
}

/* With a limit that has no room for another large layer, the one that there is stays open. */
static void a_limit_keeps_the_layer_that_a_second_burst_needs(void **state)
{
  (void) state;
  enum { WINDOW = 2, KEYS = 1000 };
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], WINDOW, KEYS);
    struct window *w = window_of(f);
    next_key = 1;
    spend(f, 1, 14 * KEYS);
    spend(f, WINDOW, KEYS / 10);
    await_release(f);
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
static void bursts_that_are_kept_do_not_add_up(void **state)
{
  (void) state;
  enum { WINDOW = 2, KEYS = 300, BURSTS = 10 };
  tamis_options options = window_options(TAMIS_CUCKOO, WINDOW, KEYS, 0.0001, true);
  options.window_renews = true;
  tamis_filter *f = create(&options);
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
      await_release(f);
      assert_true(stats_of(f).bytes <= 4 * most);
    }
  }
  assert_valid(f);
  tamis_destroy(f);
}

/* `changes` comes round after 8192 of them, some ten of which each burst has.  It lasts for three
 * periods, so some older layers leave while others stay. */
static void the_count_of_changes_comes_round(void **state)
{
  (void) state;
  enum { KEYS = 100 };
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], 1, 2);
    next_key = 1;
    while (window_of(f)->changes < EPOCH_CHANGES + 100) {
      for (unsigned period = 0; period < 8; period++) {
        const uint64_t keys = period < 3 ? (uint64_t) KEYS << period : 1;
        add_keys(f, keys);
        advance(f, 1);
        assert_last_keys_are_in(f, keys);
        for (uint64_t key = 1; key <= keys; key++)
          assert_int_equal(tamis_add_unique_hash(f, hash_of(next_key - key)), TAMIS_PRESENT);
      }
    }
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A file has no layer but those that hold keys.  The one that a filter begins with stays. */
static void a_loaded_window_gives_a_burst_back(void **state)
{
  (void) state;
  enum { WINDOW = 2, KEYS = 300, USUAL = KEYS * (WINDOW + 1) };
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], WINDOW, USUAL), *loaded = NULL;
    next_key = 1;
    spend(f, 1, 20 * USUAL);
    spend(f, WINDOW + 1, KEYS);
    assert_true(stats_of(f).layers == 1 && newest_of(f) != &window_of(f)->first);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(tamis_save(f, write_to, file), TAMIS_OK);
    rewind(file);
    assert_int_equal(tamis_load(NULL, read_from, file, &loaded), TAMIS_OK);
    fclose(file);
    assert_int_equal(stats_of(loaded).growths, stats_of(f).growths);
    assert_last_keys_are_in(loaded, KEYS * WINDOW);
    spend(loaded, WINDOW + 4, KEYS);
    await_release(loaded);
    assert_last_keys_are_in(loaded, KEYS * WINDOW);
    assert_int_equal(stats_of(loaded).bytes, bytes_of_new(kinds[i], WINDOW, USUAL));
    assert_valid(loaded);
    tamis_destroy(loaded);
    tamis_destroy(f);
  }
}

/* Keys whose number goes up and down by half open no layers again and again. */
static void a_steady_load_opens_no_layers(void **state)
{
  (void) state;
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
static void a_filter_that_is_empty_once_keeps_its_memory(void **state)
{
  (void) state;
  enum { KEYS = 1000 };
  tamis_filter *f = make(TAMIS_CUCKOO, 1, 100);
  uint64_t growths = 0;
  for (unsigned turn = 0; turn < 20; turn++) {
    for (uint64_t key = 0; key < KEYS; key++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
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

/* ---- calls that are stopped while a layer leaves ---- */

/* A filter of which the first layer has left, and the newest one is empty.  G is 1. */
static tamis_filter *make_grown(tamis_kind kind)
{
  tamis_filter *f = make(kind, 1, 100);
  next_key = 1;
  add_keys(f, 2000);
  advance(f, 3);
  assert_true(stats_of(f).layers <= 2 &&
              epoch_has_grown(epoch_before(&window_of(f)->state->epoch)));
  return f;
}

static void let_all_leave(tamis_filter *f)
{
  advance(f, 6);
  assert_int_equal(stats_of(f).layers, 1);
  assert_false(epoch_has_grown(epoch_before(&window_of(f)->state->epoch)));
}

/* The look-up is in its read section, and has read a bucket of the layer that leaves.  So the
 * memory stays until it goes on. */
static void a_look_up_keeps_a_layer_that_leaves(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make_grown(kinds[i]);
    struct call look = {.filter = f, .hash = 7, .function = call_contains};
    schedule_stop_at_nth("window_lower_read", 2); /* the first one is on the straight path */
    start(&look);
    schedule_wait("window_lower_read", 2);
    schedule_pass_by();
    let_all_leave(f);
    assert_true(atomic_load(&window_of(f)->backlog.held) > 0);
    go_on(&look);
    assert_false(look.result);
    await_release(f);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* The add has chosen its stripes, and waits for them, in no read section. */
static void an_add_notices_that_its_layers_have_left(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make_grown(kinds[i]);
    struct call late = {.filter = f, .hash = 7, .function = tamis_add_hash};
    stop_at(&late, "window_stripes_wanted");
    let_all_leave(f);
    await_release(f);
    assert_int_equal(go_on(&late), TAMIS_OK);
    assert_true(tamis_contains_hash(f, 7));
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* Moves were planned in the layer, and it leaves. */
static int call_add_keys(struct call *call)
{
  add_keys(call->filter, 2000);
  return TAMIS_OK;
}

static void moves_end_when_their_layer_has_left(void **state)
{
  (void) state;
  static const char *const points[] = {"window_room_wanted", "window_path_planned",
                                       "window_move_wanted"};
  for (unsigned i = 0; i < 6; i++) {
    tamis_filter *f = make_grown(kinds[i / 3]);
    struct call moving = {.filter = f, .whole = call_add_keys};
    stop_at(&moving, points[i % 3]);
    let_all_leave(f);
    await_release(f);
    assert_int_equal(go_on(&moving), TAMIS_OK);
    assert_last_keys_are_in(f, 1000);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* The file is written while the layers leave. */
static tamis_filter *saving;

static int write_and_let_leave(void *file, const void *data, size_t size)
{
  tamis_filter *f = saving;
  saving = NULL;
  if (f) {
    let_all_leave(f);
    await_release(f);
    assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  }
  return fwrite(data, 1, size, file) != size;
}

static void a_save_outlives_layers(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make_grown(kinds[i]), *loaded = NULL;
    add_keys(f, 500000); /* more than is written at once */
    FILE *file = tmpfile();
    assert_non_null(file);
    saving = f;
    assert_int_equal(tamis_save(f, write_and_let_leave, file), TAMIS_OK);
    rewind(file);
    assert_int_equal(tamis_load(NULL, read_from, file, &loaded), TAMIS_OK);
    fclose(file);
    assert_valid(loaded);
    assert_true(stats_of(loaded).count <= 1);
    tamis_destroy(loaded);
    tamis_destroy(f);
  }
}

/* The header is made, and then the oldest layer leaves. */
static int call_save(struct call *call)
{
  return tamis_save(call->filter, write_to, call->context);
}

static void a_save_has_all_layers_of_its_header(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], 3, 100), *loaded = NULL;
    FILE *file = tmpfile();
    assert_non_null(file);
    next_key = 1;
    while (stats_of(f).layers < 2)
      add_keys(f, 1);
    advance(f, 1);
    const uint64_t forgotten = next_key;
    while (stats_of(f).layers < 3)
      add_keys(f, 1);
    struct call save = {.filter = f, .whole = call_save, .context = file};
    stop_at(&save, "window_described");
    advance(f, 3);
    assert_true(stats_of(f).layers == 2);
    assert_int_equal(go_on(&save), TAMIS_OK);
    rewind(file);
    assert_int_equal(tamis_load(NULL, read_from, file, &loaded), TAMIS_OK);
    fclose(file);
    assert_last_keys_are_in(f, next_key - forgotten);
    assert_last_keys_are_in(loaded, next_key - forgotten);
    assert_valid(loaded);
    tamis_destroy(loaded);
    tamis_destroy(f);
  }
}

/* Two calls have found the first layer full, and one of them has opened the next. */
static void a_layer_is_opened_once(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(kinds[i], 1, 100);
    struct window *w = window_of(f);
    assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
    assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
    assert_int_equal(stats_of(f).layers, 2);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- memory that comes free ---- */

/* Layers wait for a reader, and a larger one has no room within max_bytes.  When the reader is
 * gone, the next add has room, without an end of a period.  It holds no lock while it releases. */
static void memory_that_comes_free_is_room_at_once(void **state)
{
  (void) state;
  static const unsigned refusals[] = {1, 1, 200}; /* after many, the segment is known to be full */
  for (unsigned i = 0; i < 2; i++) {
    uint64_t limit = 0;
    for (unsigned round = 0; round < 3; round++) {
      tamis_options options = window_options(kinds[i], 1, 100, 0.0001, true);
      options.max_bytes = limit;
      tamis_filter *f = create(&options), *other = make_grown(kinds[i]);
      struct call look = {.filter = f, .hash = 7, .function = call_contains},
                  last = {.filter = f, .function = tamis_add_hash};
      next_key = 1;
      add_keys(f, 8000);
      const uint64_t most = stats_of(f).bytes;
      if (round) {
        schedule_stop_at_nth("window_lower_read", 2);
        start(&look);
        schedule_wait("window_lower_read", 2);
        schedule_pass_by();
      }
      advance(f, 2);
      if (round)
        assert_true(atomic_load(&window_of(f)->backlog.held) > 0);
      else
        await_release(f);
      const unsigned long changes = window_of(f)->changes;
      for (unsigned refused = 0; refused < refusals[round] && window_of(f)->changes == changes;) {
        last.hash = hash_of(next_key++);
        refused += tamis_add_hash(f, last.hash) == TAMIS_EFULL;
      }
      if (!round)
        limit = stats_of(f).bytes > most ? stats_of(f).bytes : most;
      if (round) {
        assert_int_equal(window_of(f)->changes, changes);
        go_on(&look);
        let_all_leave(other);
        await_release(other); /* its grace period has begun later, and is over */
        stop_at(&last, "window_layer_released");
        assert_false(stripe_held(&window_of(f)->opening));
        assert_int_equal(go_on(&last), TAMIS_OK);
        add_keys(f, 400);
      }
      assert_valid(f);
      tamis_destroy(other);
      tamis_destroy(f);
    }
  }
}

/* A union has copied a part of a layer, which leaves then. */
static void a_union_outlives_the_layer_it_copies(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *from = make_grown(kinds[i]), *into = make_grown(kinds[i]);
    struct call merge = {.filter = into, .from = from};
    advance(from, 1);
    advance(into, 1);
    if (stats_of(from).layers == 1 && stats_of(into).layers == 1) {
      assert_int_equal(tamis_add_hash(from, 7), TAMIS_OK);
      stop_at(&merge, "window_epoch_read_locked");
      let_all_leave(from);
      await_release(from);
      assert_int_equal(go_on(&merge), TAMIS_OK);
      assert_true(tamis_contains_hash(into, 7));
    }
    assert_valid(into);
    tamis_destroy(into);
    tamis_destroy(from);
  }
}

/* ---- counts of copies ---- */

enum { COUNTED = 60, MANY = 200 };

static int call_remove_copies(struct call *call)
{
  for (uint64_t i = 2; i < MANY; i++)
    for (uint64_t key = 0; key < COUNTED; key++)
      (void) tamis_remove_hash(call->filter, key);
  return TAMIS_OK;
}

/* Counts have fallen, and memory for a smaller block of them is about to be fetched, when their
 * layer leaves. */
static void counts_go_with_their_layer(void **state)
{
  (void) state;
  tamis_filter *f = make_grown(TAMIS_CUCKOO);
  for (uint64_t i = 0; i < MANY; i++)
    for (uint64_t key = 0; key < COUNTED; key++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  struct call removes = {.filter = f, .whole = call_remove_copies};
  stop_at(&removes, "window_counts_wanted");
  assert_true(newest_of(f) != &window_of(f)->first && tamis_count_hash(f, COUNTED - 1) > 1);
  let_all_leave(f);
  await_release(f);
  assert_int_equal(go_on(&removes), TAMIS_OK);
  assert_int_equal(stats_of(f).bytes, bytes_of_new(TAMIS_CUCKOO, 1, 100));
  assert_valid(f);
  tamis_destroy(f);
}

/* Lacks memory for a count: of a further copy, of a key that comes with copies in a union, or of an
 * entry that must be moved. */
static int add_further(tamis_filter *f, tamis_filter *from)
{
  (void) from;
  return tamis_add_hash(f, 7);
}

static int unite(tamis_filter *f, tamis_filter *from)
{
  return tamis_merge(f, from);
}

static int move(tamis_filter *f, tamis_filter *from)
{
  (void) from;
  return tamis_add_hash(f, hash_of(next_key));
}

/* Fills the first layer until a key has room only after moves.  Entries with counts are in its
 * first half, and there is no memory for any in the other one. */
static void need_moves(tamis_filter *f)
{
  struct window *w = window_of(f);
  const uint64_t first = next_key, paths = stats_of(f).evictions;
  while (stats_of(f).evictions == paths)
    add_keys(f, 1);
  for (uint64_t key = first; key < next_key; key++) {
    struct pair pair = pair_in(&w->first, window_mixed(w, hash_of(key)));
    struct view view = look_at(&pair);
    if (find_entry(&pair, &view).bucket < w->first.geometry.half)
      assert_int_equal(tamis_add_hash(f, hash_of(key)), TAMIS_OK);
  }
  w->max_bytes = stats_of(f).bytes; /* nothing else runs */
  while (move(f, NULL) == TAMIS_OK)
    next_key++;
  struct pair pair = pair_in(&w->first, window_mixed(w, hash_of(next_key)));
  assert_true(stats_of(f).layers == 1 && tamis__window_path_exists(w, pair.layer, &pair.place));
}

/* A layer waits for a reader, and max_bytes leaves no memory for a count.  When the reader is gone,
 * the next call has it, without an end of a period. */
static void counts_find_memory_that_comes_free(void **state)
{
  (void) state;
  static int (*const calls[])(tamis_filter *, tamis_filter *) = {add_further, unite, move};
  for (unsigned i = 0; i < 3; i++) {
    tamis_filter *f = make_grown(TAMIS_CUCKOO), *other = make_grown(TAMIS_CUCKOO),
                 *from = make(TAMIS_CUCKOO, 1, 100);
    struct call look = {.filter = f, .hash = 7, .function = call_contains};
    add(from, 8, 2);
    await_release(f);
    schedule_stop_at_nth("window_lower_read", 2);
    start(&look);
    schedule_wait("window_lower_read", 2);
    schedule_pass_by();
    let_all_leave(f);
    assert_true(atomic_load(&window_of(f)->backlog.held) > 0);
    assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
    if (calls[i] == move)
      need_moves(f);
    window_of(f)->max_bytes = stats_of(f).bytes; /* nothing else runs */
    assert_int_equal(calls[i](f, from), TAMIS_EFULL);
    go_on(&look);
    let_all_leave(other);
    await_release(other); /* its grace period has begun later, and is over */
    assert_int_equal(calls[i](f, from), TAMIS_OK);
    assert_valid(f);
    tamis_destroy(from);
    tamis_destroy(other);
    tamis_destroy(f);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_burst_is_given_back),
      cmocka_unit_test(a_burst_of_a_grown_window_is_given_back),
      cmocka_unit_test(layers_have_indices_of_their_own),
      cmocka_unit_test(a_burst_beyond_the_capacity_is_given_back),
      cmocka_unit_test(keys_that_are_renewed_keep_no_layer),
      cmocka_unit_test(a_second_burst_finds_room),
      cmocka_unit_test(a_limit_keeps_the_layer_that_a_second_burst_needs),
      cmocka_unit_test(bursts_that_are_kept_do_not_add_up),
      cmocka_unit_test(the_count_of_changes_comes_round),
      cmocka_unit_test(a_loaded_window_gives_a_burst_back),
      cmocka_unit_test(a_steady_load_opens_no_layers),
      cmocka_unit_test(a_filter_that_is_empty_once_keeps_its_memory),
      TEST_WITH_THREADS(a_look_up_keeps_a_layer_that_leaves),
      TEST_WITH_THREADS(an_add_notices_that_its_layers_have_left),
      TEST_WITH_THREADS(moves_end_when_their_layer_has_left),
      cmocka_unit_test(a_save_outlives_layers),
      TEST_WITH_THREADS(a_save_has_all_layers_of_its_header),
      cmocka_unit_test(a_layer_is_opened_once),
      TEST_WITH_THREADS(memory_that_comes_free_is_room_at_once),
      TEST_WITH_THREADS(a_union_outlives_the_layer_it_copies),
      TEST_WITH_THREADS(counts_go_with_their_layer),
      TEST_WITH_THREADS(counts_find_memory_that_comes_free),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
