/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of removes, counts of copies and unions of windows, each replayed
 * exactly.  Built with the hooks.  The window is one period, so there are three stamps: the
 * tightest case.
 */
#include "calls.h"

#include "filter_unit.h"
#include "window/copies.h"
#include "window/layers.h"
#include "window/pair.h"
#include "window_counts.h"
#include "window_unit.h"

#include <stdio.h>

/* ---- filters and calls ---- */

static int call_save(struct call *call)
{
  return tamis_save(call->filter, write_to, call->context);
}

static int call_count(tamis_filter *f, uint64_t hash)
{
  return (int) tamis_count_hash(f, hash);
}

/* ---- removes ---- */

/* Both have found the last copy, or the second one waits until the first one has taken it. */
static void a_copy_is_removed_once(void **state)
{
  (void) state;
  for (unsigned copies = 1; copies <= 2; copies++) {
    tamis_filter *f = make_for_races(TAMIS_CUCKOO, 100, false);
    struct call a = {.filter = f, .hash = 7}, b = a;
    add(f, 7, copies);
    a.function = tamis_remove_hash;
    start_and_stop(&a, "window_home_found");
    b.function = tamis_remove_hash;
    start(&b);
    schedule_wait_either("stripe_wait", 1, "window_home_found", 2);
    go_on(&a);
    finish(&b);
    assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), copies);
    assert_int_equal(tamis_count_hash(f, 7), 0);
    assert_int_equal(stats_of(f).count, 0);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* The remove has found its entry.  A unique add of the key wins when it is gone, and not before. */
static void a_key_is_won_again_when_it_has_been_removed(void **state)
{
  (void) state;
  tamis_filter *f = make_for_races(TAMIS_CUCKOO, 100, false);
  struct call gone = {.filter = f, .hash = 7}, again = gone;
  add(f, 7, 1);
  advance(f, 2);
  add(f, 7, 1); /* with a stamp of its own */
  gone.function = tamis_remove_hash;
  stop_at(&gone, "window_home_found");
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_PRESENT); /* it takes no stripe */
  again.function = tamis_add_hash;
  start(&again);
  schedule_wait("stripe_wait", 1);
  go_on(&gone);
  finish(&again);
  assert_int_equal(gone.result, TAMIS_OK);
  assert_int_equal(tamis_count_hash(f, 7), 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* The period has ended, and the sweep has not come by: the key is forgotten. */
static void a_key_that_is_not_swept_yet_is_absent(void **state)
{
  (void) state;
  tamis_filter *f = make_for_races(TAMIS_CUCKOO, 100, false);
  struct call end = {.filter = f};
  add(f, 7, 3);
  add(f, 8, 3);
  advance(f, 1);
  end.function = call_advance;
  stop_at(&end, "window_published");
  assert_int_equal(tamis_count_hash(f, 7), 0);
  assert_int_equal(tamis_remove_hash(f, 7), TAMIS_ABSENT);
  add(f, 8, 1); /* in the lane that is to be swept */
  assert_int_equal(tamis_count_hash(f, 8), 1);
  add(f, 8, 1);
  go_on(&end);
  assert_int_equal(tamis_count_hash(f, 8), 2);
  assert_int_equal(stats_of(f).count, 2);
  assert_valid(f);
  tamis_destroy(f);
}

/* The add has counted its copy and written its lane when the period ends.  All copies get the next
 * stamp. */
static void a_copy_that_meets_the_end_of_a_period_is_renewed(void **state)
{
  (void) state;
  tamis_filter *f = make_for_races(TAMIS_CUCKOO, 100, false);
  struct call late = {.filter = f, .hash = 7}, end = late;
  add(f, 7, 2);
  late.function = tamis_add_hash;
  start_and_stop(&late, "window_lane_written");
  end.function = call_advance;
  start(&end);
  schedule_wait("window_published", 1);
  go_on(&late);
  finish(&end);
  assert_valid(f);
  advance(f, 1);
  assert_int_equal(tamis_count_hash(f, 7), 3);
  assert_valid(f);
  advance(f, 1);
  assert_int_equal(tamis_count_hash(f, 7), 0);
  assert_int_equal(stats_of(f).count, 0);
  tamis_destroy(f);
}

/* A layer is opened while a remove chooses its stripes, and the key is won there. */
static void a_remove_looks_in_a_layer_that_is_opened_meanwhile(void **state)
{
  (void) state;
  tamis_filter *f = make_for_races(TAMIS_CUCKOO, 10, true);
  struct window *w = window_of(f);
  struct call late = {.filter = f, .hash = 7, .function = tamis_remove_hash};
  stop_at(&late, "window_stripes_wanted");
  assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
  add(f, 7, 1);
  assert_int_equal(go_on(&late), TAMIS_OK);
  assert_int_equal(stats_of(f).count, 0);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- saves ---- */

/* The next key with this lower bucket, the first one of all. */
static uint64_t next_in_first_bucket(const struct window *w, uint64_t from)
{
  const struct window_geometry *g = &w->first.geometry;
  while (window_place_of(g, window_mixed(w, from), false).lower)
    from++;
  return from;
}

/* Begins to save a filter, and stops when the first line of its table has been copied. */
static void stop_a_save(struct call *save, tamis_filter *f)
{
  *save = (struct call){.filter = f, .whole = call_save, .context = tmpfile()};
  assert_non_null(save->context);
  stop_at(save, "window_words_copied");
}

/* How many copies of a key the save has, when it has gone on to its end. */
static uint64_t count_saved(struct call *save, uint64_t key)
{
  tamis_filter *loaded;
  assert_int_equal(go_on(save), TAMIS_OK);
  rewind(save->context);
  assert_int_equal(tamis_load(NULL, read_from, save->context, &loaded), TAMIS_OK);
  assert_valid(loaded);
  uint64_t count = tamis_count_hash(loaded, key);
  fclose(save->context);
  tamis_destroy(loaded);
  return count;
}

/* The first bucket has been copied when its key is removed, and comes back to the other bucket. */
static void a_copy_of_a_segment_has_a_key_once(void **state)
{
  (void) state;
  tamis_filter *f = make_for_races(TAMIS_CUCKOO, 100, false);
  struct window *w = window_of(f);
  const struct window_geometry *g = &w->first.geometry;
  uint64_t key = next_in_first_bucket(w, 0), other = next_in_first_bucket(w, key + 1);
  struct call save;
  assert_int_equal(g->bucket_shift, 0);
  add(f, key, 1);
  assert_int_equal(lanes_count(window_used(&g->shape, window_load(&w->first, 0))), 1);
  stop_a_save(&save, f);
  assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
  add(f, other, 1);
  add(f, key, 1);
  struct pair pair = pair_in(&w->first, window_mixed(w, key));
  assert_int_equal(lanes_count(window_used(&g->shape, window_load(&w->first, pair.place.upper))),
                   1);
  assert_int_equal(count_saved(&save, key), 1);
  tamis_destroy(f);
}

/* The first bucket has been copied when its key is removed, and another one takes its lane, with
 * more copies. */
static void a_copied_count_is_that_of_its_entry(void **state)
{
  (void) state;
  tamis_filter *f = make_for_races(TAMIS_CUCKOO, 100, false);
  struct window *w = window_of(f);
  const struct window_shape *s = &w->first.geometry.shape;
  uint64_t key = next_in_first_bucket(w, 0), other = next_in_first_bucket(w, key + 1);
  struct call save;
  add(f, key, 3);
  uint64_t bucket = window_load(&w->first, 0);
  stop_a_save(&save, f);
  for (unsigned i = 0; i < 3; i++)
    assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
  add(f, other, 5);
  assert_true(window_used(s, bucket) == window_used(s, window_load(&w->first, 0)));
  assert_int_equal(count_saved(&save, key), 3);
  tamis_destroy(f);
}

/* ---- counts ---- */

/* Whoever changes or reads a count waits for who has the lock of its plane. */
static void counts_are_changed_under_their_lock(void **state)
{
  (void) state;
  tamis_filter *f = make_for_races(TAMIS_CUCKOO, 100, false);
  struct call calls[] = {{.filter = f, .hash = 7, .function = tamis_add_hash},
                         {.filter = f, .hash = 7, .function = call_count},
                         {.filter = f, .hash = 7, .function = tamis_remove_hash},
                         {.filter = f, .function = call_advance}};
  add(f, 7, 3);
  advance(f, 1);
  for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
    struct stripe *lock = window_counts_lock(f, 7);
    schedule_stop_at("no point");
    stripe_lock(lock);
    start_beside(&calls[i]);
    assert_int_equal(schedule_reached("call_returned"), 0);
    stripe_unlock(lock);
    finish(&calls[i]);
    schedule_pass_by();
    if (i == 2) /* so that the next period is the last one */
      advance(f, 1);
  }
  assert_true(calls[0].result == TAMIS_OK && calls[1].result == 4 && calls[2].result == TAMIS_OK);
  assert_int_equal(tamis_count_hash(f, 7), 0);
  assert_int_equal(stats_of(f).count, 0);
  assert_valid(f);
  tamis_destroy(f);
}

/* A copy needs memory for its count.  While the allocator is asked, other calls on the key go on,
 * and what they have done counts. */
static void memory_for_a_count_is_fetched_without_a_stripe(void **state)
{
  (void) state;
  tamis_options options = window_options(TAMIS_CUCKOO, 1, 100, 0.0001, false);
  options.stripes = 1;
  for (unsigned copies = 0; copies < 2; copies++) {
    tamis_filter *f = create(&options);
    struct call add_copy = {.filter = f, .hash = 7, .function = tamis_add_hash},
                gone = {.filter = f, .hash = 7, .function = tamis_remove_hash};
    add(f, 7, 1);
    start_and_stop(&add_copy, "window_counts_wanted");
    start_beside(&gone);
    assert_int_equal(schedule_reached("stripe_wait"), 0);
    assert_int_equal(finish(&gone), TAMIS_OK);
    schedule_pass_by();
    for (unsigned i = 0; i < copies; i++)
      add(f, 7, 1);
    assert_int_equal(go_on(&add_copy), TAMIS_OK);
    assert_int_equal(tamis_count_hash(f, 7), copies + 1);
    assert_int_equal(stats_of(f).count, copies + 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A call is about to allocate memory for a count, which is taken from max_bytes already: there is none
 * for the count of another key, nor for a layer. */
static void memory_for_counts_is_counted_before_it_is_fetched(void **state)
{
  (void) state;
  tamis_options options = window_options(TAMIS_CUCKOO, 1, 100, 0.0001, true);
  tamis_filter *f = create(&options);
  struct window *w = window_of(f);
  struct call copy = {.filter = f, .hash = 7, .function = tamis_add_hash};
  add(f, 7, 1);
  add(f, 8, 1);
  uint64_t before = stats_of(f).bytes;
  stop_at(&copy, "window_counts_wanted");
  assert_true(stats_of(f).bytes > before);
  w->max_bytes = stats_of(f).bytes; /* the call has read it */
  assert_int_equal(tamis_add_hash(f, 8), TAMIS_EFULL);
  assert_int_equal(open_layer_after(w, &w->first), TAMIS_EFULL);
  w->max_bytes = 0;
  assert_int_equal(go_on(&copy), TAMIS_OK);
  assert_int_equal(tamis_count_hash(f, 7), 2);
  assert_int_equal(tamis_count_hash(f, 8), 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- unions ---- */

static const tamis_kind kinds[] = {TAMIS_BLOOM, TAMIS_CUCKOO};

/* The union is about to write the key.  A unique add of it waits, and has not won. */
static void a_union_and_a_unique_add_have_one_winner(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make_for_races(kinds[i], 100, true),
                 *from = make_for_races(kinds[i], 100, true);
    struct call merge = {.filter = f, .from = from}, win = {.filter = f, .hash = 7};
    add(from, 7, 1);
    start_and_stop(&merge, "window_epoch_read_locked");
    win.function = tamis_add_unique_hash;
    start(&win);
    schedule_wait_either("stripe_wait", 1, "window_epoch_read_locked", 2);
    go_on(&merge);
    finish(&win);
    assert_int_equal(merge.result, TAMIS_OK);
    assert_int_equal(win.result, TAMIS_PRESENT);
    assert_int_equal(stats_of(f).count, 1);
    assert_valid(f);
    tamis_destroy(f);
    tamis_destroy(from);
  }
}

/* A layer is opened in `into` while `from` is copied. */
static void a_union_adds_nothing_to_a_layer_that_is_closed(void **state)
{
  (void) state;
  static const char *const points[] = {"window_words_copied", "window_stripes_wanted"};
  for (unsigned i = 0; i < 4; i++) {
    tamis_filter *f = make_for_races(kinds[i % 2], 100, true),
                 *from = make_for_races(kinds[i % 2], 100, true);
    struct call merge = {.filter = f, .from = from};
    struct window *w = window_of(f);
    add(from, 7, 1);
    stop_at(&merge, points[i / 2]);
    assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
    assert_int_equal(go_on(&merge), TAMIS_EFULL);
    assert_false(tamis_contains_hash(f, 7));
    assert_int_equal(stats_of(f).count, 0);
    advance(f, 1);
    assert_int_equal(stats_of(f).layers, 1);
    assert_valid(f);
    tamis_destroy(f);
    tamis_destroy(from);
  }
}

/* The period ends when the union has read the epoch word: keys of the last age are forgotten at
 * once, and younger ones a period later. */
static void a_union_that_meets_the_end_of_a_period_leaves_no_dead_key(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 4; i++) {
    bool old = i / 2;
    tamis_filter *f = make_for_races(kinds[i % 2], 100, true),
                 *from = make_for_races(kinds[i % 2], 100, true);
    struct call merge = {.filter = f, .from = from}, end = {.filter = f};
    add(from, 7, 1);
    advance(from, old);
    start_and_stop(&merge, "window_epoch_read_locked");
    end.function = call_advance;
    start(&end);
    schedule_wait("window_published", 1);
    go_on(&merge);
    finish(&end);
    assert_int_equal(merge.result, TAMIS_OK);
    assert_int_equal(tamis_count_hash(f, 7), !old);
    assert_valid(f);
    for (unsigned now = 0; now < 4; now++) {
      advance(f, 1);
      assert_int_equal(tamis_count_hash(f, 7), 0);
      assert_int_equal(stats_of(f).count, 0);
      assert_valid(f);
    }
    tamis_destroy(f);
    tamis_destroy(from);
  }
}

/* The sweep of a jump has left the stripe, and the jump is not published yet. */
static void a_union_beside_a_jump_brings_nothing_back(void **state)
{
  (void) state;
  tamis_options options = window_options(TAMIS_BLOOM, 4, 100, 0.0001, false);
  options.stripes = 1;
  for (unsigned d = 2; d <= 4; d++) {
    struct call jump = {.filter = create(&options), .hash = d, .function = tamis_advance_to};
    tamis_filter *from = create(&options);
    add(from, 7, 1);
    advance(from, 4); /* the last period of the key */
    start_and_stop(&jump, "window_block_swept");
    assert_int_equal(tamis_merge(jump.filter, from), TAMIS_OK);
    assert_int_equal(go_on(&jump), TAMIS_OK);
    assert_false(tamis_contains_hash(jump.filter, 7));
    assert_valid(jump.filter);
    tamis_destroy(jump.filter);
    tamis_destroy(from);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_copy_is_removed_once),
      cmocka_unit_test(a_key_is_won_again_when_it_has_been_removed),
      cmocka_unit_test(a_key_that_is_not_swept_yet_is_absent),
      cmocka_unit_test(a_copy_that_meets_the_end_of_a_period_is_renewed),
      cmocka_unit_test(a_remove_looks_in_a_layer_that_is_opened_meanwhile),
      cmocka_unit_test(a_copy_of_a_segment_has_a_key_once),
      cmocka_unit_test(a_copied_count_is_that_of_its_entry),
      cmocka_unit_test(counts_are_changed_under_their_lock),
      cmocka_unit_test(memory_for_a_count_is_fetched_without_a_stripe),
      cmocka_unit_test(memory_for_counts_is_counted_before_it_is_fetched),
      cmocka_unit_test(a_union_and_a_unique_add_have_one_winner),
      cmocka_unit_test(a_union_adds_nothing_to_a_layer_that_is_closed),
      cmocka_unit_test(a_union_that_meets_the_end_of_a_period_leaves_no_dead_key),
      cmocka_unit_test(a_union_beside_a_jump_brings_nothing_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
