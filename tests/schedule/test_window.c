/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of a filter with a window, each replayed exactly.  Built with the hooks.
 *
 * The window is one period, so there are three stamps: the tightest case.
 */
#include "calls.h"

#include "filter_unit.h"
#include "window/evict.h"
#include "window/layers.h"
#include "window_unit.h"

#include <sched.h>
#include <stdio.h>

/* ---- filters and calls ---- */

static tamis_filter *make(uint64_t capacity, bool growable)
{
  return make_for_races(TAMIS_BLOOM, capacity, growable);
}

/* ---- adds that meet the end of a period ---- */

/* The add has read the epoch word, or has written its lane, when the period ends.  From its return
 * on, the key is remembered for a period. */
static void an_add_that_meets_the_end_of_a_period_is_in_the_next_one(void **state)
{
  (void) state;
  static const char *const points[] = {"window_epoch_read_locked", "window_lane_written"};
  for (unsigned i = 0; i < 4; i++) {
    tamis_filter *f = make(1000, i / 2);
    struct call add = {.filter = f, .hash = 7}, end = add;
    add.function = i == 1 ? tamis_add_hash : tamis_add_unique_hash;
    start_and_stop(&add, points[i % 2]);
    end.function = call_advance;
    start(&end);
    schedule_wait("window_published", 1);
    go_on(&add);
    finish(&end);
    assert_int_equal(add.result, TAMIS_OK);
    assert_true(tamis_contains_hash(f, 7));
    advance(f, 1);
    assert_true(tamis_contains_hash(f, 7));
    advance(f, 1);
    assert_false(tamis_contains_hash(f, 7));
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* The same for a key that is renewed, in its last period. */
static void a_renewal_that_meets_the_end_of_a_period_is_in_the_next_one(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, false);
  struct call add = {.filter = f, .hash = 7}, end = add;
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  advance(f, 1);
  add.function = tamis_add_hash;
  start_and_stop(&add, "window_epoch_read_locked");
  end.function = call_advance;
  start(&end);
  schedule_wait("window_published", 1);
  go_on(&add);
  finish(&end);
  assert_true(tamis_contains_hash(f, 7));
  advance(f, 1);
  assert_true(tamis_contains_hash(f, 7));
  assert_int_equal(stats_of(f).count, 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* An add that has not taken its stripes yet has read nothing: it is in the period in which it goes
 * on.  In between the key was won, with a stamp that was dead when the call began. */
static void a_call_that_waits_for_stripes_reads_the_epoch_under_them(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, false);
  struct call late = {.filter = f, .hash = 7, .function = tamis_add_unique_hash};
  stop_at(&late, "window_stripes_wanted");
  advance(f, 1);
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&late), TAMIS_PRESENT);
  assert_valid(f);
  tamis_destroy(f);
}

/* While a sweep clears one stamp, no other advance may make that stamp the one of a new period: not
 * before the sweep reads which stamp is dead, and not after it has swept one block. */
static void a_second_advance_waits_for_the_first_one(void **state)
{
  (void) state;
  static const char *const points[] = {"window_published", "window_block_swept"};
  enum { KEYS = 100 };
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = make(1000, false);
    struct call first = {.filter = f, .function = call_advance}, second = first;
    start_and_stop(&first, points[i]);
    start(&second);
    schedule_wait_either("window_published", 2, "stripe_wait", 1);
    schedule_pass_by();
    for (uint64_t key = 0; key < KEYS; key++)
      assert_int_equal(tamis_add_hash(f, key * HASH_MULTIPLIER), TAMIS_OK);
    go_on(&first);
    finish(&second);
    for (uint64_t key = 0; key < KEYS; key++)
      assert_true(tamis_contains_hash(f, key * HASH_MULTIPLIER));
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* Of two clocks one is ahead, and ends three periods.  When the first of them has ended, the other one
 * asks for the second, and waits.  Later it asks for the fourth, while the periods get lower numbers, of
 * which the second would be the fourth of those before. */
static void a_clock_that_is_behind_sets_no_period_back(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, false);
  struct call ahead = {.filter = f, .hash = 3, .function = tamis_advance_to}, behind = ahead;
  behind.hash = 2;
  schedule_stop_at_nth("window_published", 1);
  start(&ahead);
  schedule_wait("window_published", 1);
  start(&behind);
  schedule_wait("stripe_wait", 1);
  assert_int_equal(go_on(&ahead), TAMIS_OK);
  assert_int_equal(finish(&behind), TAMIS_OK);
  assert_int_equal(stats_of(f).period, 3);
  behind.hash = 4;
  stop_at(&behind, "window_numbers_read");
  assert_int_equal(tamis_set_period(f, 1), TAMIS_OK);
  advance(f, 1);
  assert_int_equal(go_on(&behind), TAMIS_OK);
  assert_int_equal(stats_of(f).period, 4);
  assert_valid(f);
  tamis_destroy(f);
}

/* Old stamps would be young ones after a jump: they are cleared before look-ups see it. */
static void a_jump_forgets_before_it_is_published(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000, options.fpp = low_rate, options.window = 4;
  for (unsigned d = 2; d <= 4; d++) {
    struct call jump = {.hash = 4 + d, .function = tamis_advance_to};
    assert_int_equal(tamis_create(&options, &jump.filter), TAMIS_OK);
    assert_int_equal(tamis_add_hash(jump.filter, 7), TAMIS_OK);
    advance(jump.filter, 4);
    start_and_stop(&jump, "window_published");
    assert_false(tamis_contains_hash(jump.filter, 7));
    assert_int_equal(go_on(&jump), TAMIS_OK);
    assert_valid(jump.filter);
    tamis_destroy(jump.filter);
  }
}

/* What is added while a sweep goes on stays, and has one winner.  (Some look-ups would fail if
 * lanes that are dead stood beside live ones with the same fingerprint, but not with every dead
 * stamp.) */
static void a_sweep_leaves_what_is_added_beside_it(void **state)
{
  (void) state;
  enum { KEYS = 900 };
  for (unsigned before = 0; before < 3; before++) {
    tamis_filter *f = make(1000, false);
    struct call end = {.filter = f};
    for (unsigned i = 0; i < before; i++)
      advance(f, 1);
    for (uint64_t key = 0; key < KEYS; key++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
    advance(f, 1);
    for (uint64_t key = 0; key < KEYS; key += 2) /* half of them stay */
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
    end.function = call_advance;
    stop_at(&end, "window_published");
    for (uint64_t key = 0; key < KEYS; key++)
      assert_int_equal(tamis_contains_hash(f, key), key % 2 == 0);
    for (uint64_t key = 1; key < KEYS; key += 2)
      assert_int_equal(tamis_add_unique_hash(f, key), TAMIS_OK);
    for (uint64_t key = 0; key < KEYS; key++) {
      assert_true(tamis_contains_hash(f, key));
      assert_int_equal(tamis_add_unique_hash(f, key), TAMIS_PRESENT);
    }
    go_on(&end);
    for (uint64_t key = 0; key < KEYS; key++)
      assert_true(tamis_contains_hash(f, key));
    assert_int_equal(stats_of(f).count, KEYS);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A sweep does not pass an add that is about to write: it waits for its stripes. */
static void a_sweep_waits_for_an_add(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, false);
  struct call add = {.filter = f, .hash = 7}, end = {.filter = f, .result = TAMIS_EINVAL};
  add.function = tamis_add_hash;
  start_and_stop(&add, "window_epoch_read_locked");
  end.function = call_advance;
  start_beside(&end);
  int result = end.result; /* none, as long as it waits */
  go_on(&add);
  finish(&end);
  assert_int_equal(result, TAMIS_EINVAL);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- look-ups ---- */

/* A look-up has read the epoch word.  Then a period ends, and the key gets a stamp that was dead
 * before.  It was remembered all the time. */
static void a_look_up_that_is_overtaken_by_a_period_begins_anew(void **state)
{
  (void) state;
  static const char *const points[] = {"window_epoch_read", "window_version_read",
                                       "window_lower_read"};
  for (unsigned i = 0; i < 6; i++) {
    tamis_filter *f = make(1000, i / 3);
    struct call look = {.filter = f, .hash = 7};
    assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
    look.function = call_contains;
    stop_at(&look, points[i % 3]);
    advance(f, 1);
    assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
    go_on(&look);
    assert_true(look.result);
    tamis_destroy(f);
  }
}

/* A look-up that has begun in the last period of a key may find it or not. */
static void a_look_up_takes_no_lock(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, false);
  struct call add = {.filter = f, .hash = 7};
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  advance(f, 1);
  add.function = tamis_add_hash;
  start_and_stop(&add, "window_epoch_read_locked");
  assert_true(tamis_contains_hash(f, 7)); /* while the key's stripes are held */
  go_on(&add);
  tamis_destroy(f);
}

/* ---- unique adds ---- */

static void of_two_unique_adds_that_miss_the_key_one_wins(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, false);
  struct call a = {.filter = f, .hash = 7}, b = a;
  schedule_stop_at("window_stripes_wanted");
  a.function = tamis_add_unique_hash;
  start(&a);
  b.function = tamis_add_unique_hash;
  start(&b);
  schedule_wait("window_stripes_wanted", 2);
  go_on(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal((a.result == TAMIS_PRESENT) + (b.result == TAMIS_PRESENT), 1);
  assert_int_equal(stats_of(f).count, 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* The first one has missed the key under its stripes, and has not written yet. */
static void a_second_unique_add_waits_for_the_stripes(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, false);
  struct call a = {.filter = f, .hash = 7}, b = a;
  a.function = tamis_add_unique_hash;
  start_and_stop(&a, "window_epoch_read_locked");
  b.function = tamis_add_unique_hash;
  start(&b);
  schedule_wait_either("stripe_wait", 1, "window_epoch_read_locked", 2);
  go_on(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal(stats_of(f).count, 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* A key that is remembered, and need not be renewed, takes no lock. */
static void a_present_key_does_not_wait(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, false);
  struct call add = {.filter = f, .hash = 7};
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  advance(f, 1);
  schedule_stop_at("window_epoch_read_locked");
  add.function = tamis_add_hash;
  start(&add); /* renews it, and holds its stripes */
  schedule_wait("window_epoch_read_locked", 1);
  schedule_pass_by();
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_PRESENT);
  go_on(&add);
  tamis_destroy(f);
}

/* ---- moves ----
 *
 * Keys are chosen by their buckets: L0 and L1 are two lower ones; U0 and FAR are two upper ones,
 * with these numbers of their half, so that they are in blocks of their own.  x stands in U0, and
 * L0 is empty.  An add of z, whose buckets L1 and U0 are full, moves x to L0. */

struct moves {
  tamis_filter *f;
  const struct window_geometry *g;
  uint64_t last, x, z;
};

enum { L0, L1, U0 = 0, FAR = 16 };

/* The next key with these buckets of the two halves. */
static uint64_t key_at(struct moves *m, uint64_t lower, uint64_t upper)
{
  struct window_place place;
  do
    place = window_place_of(m->g, window_mixed(window_of(m->f), ++m->last), false);
  while (place.lower != lower || place.upper != m->g->half + upper);
  return m->last;
}

static void fill(struct moves *m, uint64_t lower, uint64_t upper, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    assert_int_equal(tamis_add_hash(m->f, key_at(m, lower, upper)), TAMIS_OK);
}

static uint64_t used_lanes(const struct moves *m, uint64_t bucket)
{
  const struct window *w = const_window_of(m->f);
  return lanes_count(window_used(&m->g->shape, window_load(&w->first, bucket)));
}

/* x was added in period 1.  Period 2 runs: it is the last one of x, and the first one of all other
 * keys. */
static struct moves prepare_moves_with(tamis_kind kind, unsigned stripes)
{
  tamis_options options = window_options(kind, 1, 400, 0.0001, false);
  options.stripes = stripes;
  struct moves m = {.f = create(&options)};
  m.g = &const_window_of(m.f)->first.geometry;
  const unsigned lanes = m.g->shape.lane.lanes;
  assert_true(m.g->half > FAR && m.g->bucket_shift == 0);
  fill(&m, L0, FAR, 2 * lanes); /* both are full */
  advance(m.f, 1);
  m.x = key_at(&m, L0, U0);
  assert_int_equal(tamis_add_hash(m.f, m.x), TAMIS_OK); /* so it goes to U0 */
  advance(m.f, 1);                                      /* L0 is empty */
  fill(&m, L1, FAR, 2 * lanes);
  fill(&m, L1, U0, lanes - 1);
  m.z = key_at(&m, L1, U0);
  assert_int_equal(used_lanes(&m, L0), 0);
  assert_int_equal(used_lanes(&m, L1), lanes);
  assert_int_equal(used_lanes(&m, m.g->half), lanes);
  return m;
}

static struct moves prepare_moves(void)
{
  return prepare_moves_with(TAMIS_BLOOM, 64);
}

static void end_moves(struct moves *m)
{
  assert_int_equal(used_lanes(m, L0), 1);
  assert_true(tamis_contains_hash(m->f, m->x) && tamis_contains_hash(m->f, m->z));
  assert_valid(m->f);
  tamis_destroy(m->f);
}

/* The look-up has read the lower bucket before x came there, and reads the upper one after it
 * left. */
static void a_look_up_notices_a_move(void **state)
{
  (void) state;
  struct moves m = prepare_moves();
  struct call look = {.filter = m.f, .hash = m.x, .function = call_contains};
  stop_at(&look, "window_lower_read");
  assert_int_equal(tamis_add_hash(m.f, m.z), TAMIS_OK);
  go_on(&look);
  assert_true(look.result);
  assert_true(stats_of(m.f).lookup_retries >= 1);
  end_moves(&m);
}

/* The version that a move bumps follows from the fingerprint alone, as look-ups know no more.  Here
 * a fingerprint has fewer bits than the number of a version. */
static void a_move_bumps_a_version_that_look_ups_read(void **state)
{
  (void) state;
  enum { CAPACITY = 60000 };
  tamis_options options = window_options(TAMIS_BLOOM, 1, CAPACITY, 0.3, false);
  tamis_filter *f = create(&options);
  const struct window *w = const_window_of(f);
  const struct window_geometry *g = &w->first.geometry;
  assert_true(window_fingerprint_bits(&g->shape) < 64 - w->version_shift);
  for (unsigned period = 0; period < 4; period++) { /* with all stamps */
    for (uint64_t key = 0; key < CAPACITY; key++)
      assert_int_equal(tamis_add_hash(f, CAPACITY * period + key), TAMIS_OK);
    advance(f, 2);
    advance(f, period % 2);
  }
  assert_true(stats_of(f).evictions > 0);
  for (uint64_t i = 0; i < UINT64_C(1) << (64 - w->version_shift); i++)
    assert_true(!(i << w->version_shift & ~g->top) ||
                window_version_after(&w->state->versions[i]) == 0);
  tamis_destroy(f);
}

/* Between the steps of a move, the entry is in one of its buckets, and has one winner. */
static void a_key_that_is_moved_is_there(void **state)
{
  (void) state;
  static const char *const points[] = {"window_entry_copied", "window_version_bumped"};
  for (unsigned i = 0; i < 2; i++) {
    struct moves m = prepare_moves();
    struct call add = {.filter = m.f, .hash = m.z}, look = {.filter = m.f, .hash = m.x};
    add.function = tamis_add_hash;
    stop_at(&add, points[i]);
    assert_true(tamis_contains_hash(m.f, m.x));
    assert_int_equal(tamis_add_unique_hash(m.f, m.x), TAMIS_PRESENT);
    look.function = call_contains;
    start(&look);
    finish(&look);
    assert_true(look.result);
    assert_int_equal(go_on(&add), TAMIS_OK);
    end_moves(&m);
  }
}

/* A path was planned for an entry that is forgotten meanwhile, and the sweep has passed the entry's
 * other bucket: it is not moved there, where nothing would clear it.  (Whether the move or the
 * sweep gets the stripe first is left to chance.) */
static void a_forgotten_entry_is_not_moved(void **state)
{
  (void) state;
  for (unsigned round = 0; round < 20; round++) {
    struct moves m = prepare_moves();
    const struct window *w = const_window_of(m.f);
    struct call add = {.filter = m.f, .hash = m.z}, end = add;
    struct window_stripe *stripe = window_stripe(w, &w->first, m.g->half);
    assert_true(stripe > window_stripe(w, &w->first, L0));
    add.function = tamis_add_hash;
    start_and_stop(&add, "window_path_planned");
    window_lock(w, stripe);
    const bool jumps = round % 2; /* over the period of `add`, too */
    end.hash = stats_of(m.f).period + 2;
    end.function = jumps ? tamis_advance_to : call_advance;
    start(&end);
    schedule_wait("stripe_wait", 1);
    schedule_go();
    for (unsigned i = 0; i < 100; i++)
      sched_yield();
    window_unlock(w, stripe);
    finish(&add);
    finish(&end);
    assert_int_equal(add.result, TAMIS_OK);
    assert_int_equal(used_lanes(&m, L0), 0);
    assert_false(tamis_contains_hash(m.f, m.x));
    assert_true(jumps || tamis_contains_hash(m.f, m.z));
    assert_valid(m.f);
    tamis_destroy(m.f);
  }
}

/* A path was planned for x in its last period.  Then x is renewed where it stands, and is moved
 * with the stamp that it has now, and not with the one that the search has read, of which the
 * period may have left the window as well. */
static void a_renewed_entry_is_moved_with_its_new_stamp(void **state)
{
  (void) state;
  static const tamis_kind kinds[] = {TAMIS_BLOOM, TAMIS_CUCKOO};
  for (unsigned i = 0; i < 4; i++) {
    const unsigned ended = i / 2; /* periods, between the renewal and the move */
    struct moves m = prepare_moves_with(kinds[i % 2], 64);
    struct call add = {.filter = m.f, .hash = m.z, .function = tamis_add_hash};
    stop_at(&add, "window_path_planned");
    assert_int_equal(tamis_add_hash(m.f, m.x), TAMIS_OK);
    assert_int_equal(used_lanes(&m, L0), 0);
    advance(m.f, ended);
    assert_int_equal(go_on(&add), TAMIS_OK);
    assert_int_equal(used_lanes(&m, L0), 1);
    assert_true(tamis_contains_hash(m.f, m.x));
    assert_valid(m.f);
    advance(m.f, 1 - ended);
    assert_true(tamis_contains_hash(m.f, m.x)); /* for the period after its last add */
    advance(m.f, 1);
    assert_false(tamis_contains_hash(m.f, m.x));
    assert_valid(m.f);
    tamis_destroy(m.f);
  }
}

/* ---- saves ---- */

static int call_save(struct call *call)
{
  return tamis_save(call->filter, write_to, call->context);
}

/* L0 has been copied, and U0 has not, when an add would move x from U0 to L0.  It waits. */
static void nothing_is_moved_around_a_copy(void **state)
{
  (void) state;
  struct moves m = prepare_moves();
  FILE *file = tmpfile();
  assert_non_null(file);
  struct call save = {.filter = m.f, .context = file}, add = {.filter = m.f, .hash = m.z},
              end = add;
  save.whole = call_save;
  start_and_stop(&save, "window_words_copied");
  add.function = tamis_add_hash;
  start(&add);
  schedule_wait_either("stripe_wait", 1, "window_entry_copied", 1);
  end.function = call_advance;
  start(&end); /* it waits, too */
  schedule_pass_by();
  assert_true(tamis_contains_hash(m.f, m.x));
  assert_int_equal(tamis_add_hash(m.f, m.x), TAMIS_OK); /* a renewal does not wait */
  go_on(&save);
  finish(&add);
  finish(&end);
  assert_true(save.result == TAMIS_OK && add.result == TAMIS_OK && end.result == TAMIS_OK);
  tamis_filter *loaded;
  rewind(file);
  assert_int_equal(tamis_load(NULL, read_from, file, &loaded), TAMIS_OK);
  assert_true(tamis_contains_hash(loaded, m.x));
  assert_valid(loaded);
  fclose(file);
  tamis_destroy(loaded);
  assert_true(tamis_contains_hash(m.f, m.x) && tamis_contains_hash(m.f, m.z));
  assert_valid(m.f);
  tamis_destroy(m.f);
}

/* An add is moving x from U0 to L0 when a save begins.  It waits, however few stripes there are. */
static void a_copy_waits_for_a_move(void **state)
{
  (void) state;
  for (unsigned stripes = 1; stripes <= 64; stripes *= 64) {
    struct moves m = prepare_moves_with(TAMIS_BLOOM, stripes);
    FILE *file = tmpfile();
    assert_non_null(file);
    struct call save = {.filter = m.f, .context = file}, add = {.filter = m.f, .hash = m.z};
    add.function = tamis_add_hash;
    start_and_stop(&add, "window_entry_copied");
    save.whole = call_save;
    start(&save);
    schedule_wait_either("stripe_wait", 1, "window_words_copied",
                         (unsigned) m.g->half / WINDOW_LINE_WORDS + 1);
    go_on(&save);
    finish(&add);
    assert_true(save.result == TAMIS_OK && add.result == TAMIS_OK);
    tamis_filter *loaded;
    rewind(file);
    assert_int_equal(tamis_load(NULL, read_from, file, &loaded), TAMIS_OK); /* x is in once */
    assert_true(tamis_contains_hash(loaded, m.x));
    tamis_destroy(loaded);
    fclose(file);
    end_moves(&m);
  }
}

/* ---- layers ---- */

/* A unique add has chosen the stripes of the only layer.  Then another one is opened, in which the
 * key is won. */
static void a_layer_that_is_opened_meanwhile_is_noticed(void **state)
{
  (void) state;
  tamis_filter *f = make(10, true);
  struct window *w = window_of(f);
  struct call late = {.filter = f, .hash = 7, .function = tamis_add_unique_hash};
  stop_at(&late, "window_stripes_wanted");
  assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&late), TAMIS_PRESENT);
  assert_int_equal(stats_of(f).count, 1);
  assert_valid(f);
  tamis_destroy(f);
}

static int call_open(struct call *call)
{
  struct window *w = window_of(call->filter);
  return open_layer_after(w, &w->first);
}

/* A layer that is linked, but not published yet, is in no look-up's way, and periods end
 * meanwhile. */
static void a_period_ends_while_a_layer_is_opened(void **state)
{
  (void) state;
  static const char *const points[] = {"window_layer_wanted", "window_layer_linked",
                                       "window_layer_published"};
  for (unsigned i = 0; i < 3; i++) {
    tamis_filter *f = make(10, true);
    struct call open = {.filter = f};
    assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
    open.whole = call_open;
    stop_at(&open, points[i]);
    advance(f, 1);
    assert_true(tamis_contains_hash(f, 7));
    assert_int_equal(tamis_add_hash(f, 8), TAMIS_OK);
    assert_int_equal(go_on(&open), TAMIS_OK);
    assert_int_equal(stats_of(f).layers, 2);
    assert_true(tamis_contains_hash(f, 7) && tamis_contains_hash(f, 8));
    advance(f, 1);
    assert_true(!tamis_contains_hash(f, 7) && tamis_contains_hash(f, 8));
    advance(f, 1);
    advance(f, 1);
    advance(f, 1);
    assert_false(tamis_contains_hash(f, 8));
    assert_int_equal(stats_of(f).layers, 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* An add holds the stripes of what was the only layer when the next one is opened.  Its key comes
 * to the older layer, which does not leave before it is forgotten. */
static void a_layer_stays_for_an_add_that_is_late(void **state)
{
  (void) state;
  tamis_filter *f = make(10, true);
  struct window *w = window_of(f);
  struct call late = {.filter = f, .hash = 7}, end = late;
  late.function = tamis_add_hash;
  stop_at(&late, "window_epoch_read_locked");
  assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
  schedule_stop_at("window_lane_written");
  schedule_wait("window_lane_written", 1);
  end.function = call_advance;
  start(&end);
  schedule_wait("window_published", 1);
  go_on(&late);
  finish(&end);
  assert_int_equal(late.result, TAMIS_OK);
  for (unsigned now = 1; now < 5; now++) {
    assert_int_equal(tamis_contains_hash(f, 7), now <= 2);
    advance(f, 1);
  }
  assert_int_equal(stats_of(f).layers, 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* The sweep has passed the only layer, which is empty.  Then a key comes to it, and the next layer
 * is opened.  The sweep knows nothing of that key, so the layer stays. */
static void a_layer_that_is_closed_during_a_sweep_stays(void **state)
{
  (void) state;
  tamis_filter *f = make(10, true);
  struct window *w = window_of(f);
  struct window_stripe *last = &w->stripes.all[w->stripes.mask];
  struct call end = {.filter = f};
  window_lock(w, last);
  end.function = call_advance;
  start_and_stop(&end, "window_published");
  schedule_stop_at("stripe_wait");
  schedule_wait("stripe_wait", 1);
  schedule_pass_by();
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
  window_unlock(w, last);
  go_on(&end);
  for (unsigned now = 0; now < 3; now++) {
    assert_int_equal(tamis_contains_hash(f, 7), now < 2);
    assert_int_equal(stats_of(f).layers, now < 2 ? 2 : 1);
    advance(f, 1);
  }
  assert_valid(f);
  tamis_destroy(f);
}

/* Makes room for keys that have none in their buckets. */
static int call_evict(struct call *call)
{
  struct window *w = window_of(call->filter);
  const struct window_geometry *g = &w->first.geometry;
  const uint64_t epoch = epoch_before(&w->state->epoch), paths = stats_of(call->filter).evictions;
  for (uint64_t key = 1000; stats_of(call->filter).evictions == paths; key++) {
    struct window_place place = window_place_of(g, window_mixed(w, key), g->segments > 1);
    struct window_buckets full = {place.lower, place.upper};
    if (tamis__window_evict(w, &w->first, &full, epoch, true) == TAMIS_ABSENT)
      break;
  }
  return TAMIS_OK;
}

/* A layer is closed when the next one is opened.  Moves that were planned before could carry an
 * entry around a sweep, from a block that it has not seen yet to one that it has. */
static void nothing_is_moved_in_a_closed_layer(void **state)
{
  (void) state;
  enum { MOST_WORDS = 256 };
  tamis_filter *f = make(100, true);
  struct window *w = window_of(f);
  const uint64_t words = window_words(&w->first.geometry);
  uint64_t before[MOST_WORDS];
  struct call move = {.filter = f, .whole = call_evict};
  assert_true(words <= MOST_WORDS);
  for (uint64_t key = 0; stats_of(f).evictions == 0; key++) /* then the next ones need moves, too */
    assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  start_and_stop(&move, "window_move_wanted");
  for (uint64_t i = 0; i < words; i++)
    before[i] = word_load(&w->first.words[i]);
  assert_int_equal(stats_of(f).layers, 1);
  schedule_pass_by();
  assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
  assert_int_equal(go_on(&move), TAMIS_OK);
  for (uint64_t i = 0; i < words; i++)
    assert_true(word_load(&w->first.words[i]) == before[i]);
  assert_valid(f);
  tamis_destroy(f);
}

/* Two buckets have two stripes, mostly, and each layer has other ones. */
static void an_add_holds_the_stripes_of_both_buckets_in_each_layer(void **state)
{
  (void) state;
  tamis_filter *f = make(1000, true);
  struct window *w = window_of(f);
  struct call add = {.filter = f, .hash = 7};
  assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
  add.function = tamis_add_hash;
  start_and_stop(&add, "window_epoch_read_locked");
  unsigned held = 0, wanted = 0;
  for (const struct window_layer *layer = atomic_load(&w->newest); layer; layer = layer->older) {
    struct window_place place =
        window_place_of(&layer->geometry, window_mixed(w, 7), layer->geometry.segments > 1);
    held += owned_held(&window_stripe(w, layer, place.lower)->lock);
    held += owned_held(&window_stripe(w, layer, place.upper)->lock);
    wanted += 2;
  }
  go_on(&add);
  assert_int_equal(wanted, 4);
  assert_int_equal(held, wanted);
  tamis_destroy(f);
}

/* The same for the general path, which such a filter's look-ups take after the straight one. */
static void a_look_up_that_is_overtaken_in_layers_begins_anew(void **state)
{
  (void) state;
  tamis_filter *f = make(10, true);
  struct window *w = window_of(f);
  struct call look = {.filter = f, .hash = 7};
  assert_int_equal(open_layer_after(w, &w->first), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  look.function = call_contains;
  start_and_stop(&look, "window_lower_read");
  schedule_stop_at("window_epoch_read");
  schedule_wait("window_epoch_read", 1);
  schedule_pass_by();
  advance(f, 1);
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  go_on(&look);
  assert_true(look.result);
  tamis_destroy(f);
}

/* ---- two threads open a layer ---- */

static void one_of_two_threads_opens_a_layer(void **state)
{
  (void) state;
  tamis_filter *f = make(10, true);
  struct call a = {.filter = f}, b = a;
  a.whole = call_open;
  start_and_stop(&a, "window_layer_linked");
  b.whole = call_open;
  start(&b);
  schedule_wait_either("stripe_wait", 1, "window_layer_linked", 2);
  go_on(&a);
  finish(&b);
  assert_true(a.result == TAMIS_OK && b.result == TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 2);
  assert_int_equal(stats_of(f).growths, 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- segments that are full ---- */

static tamis_filter *advancing;
static unsigned refused_meanwhile;

/* Adds until the filter has refused many keys, once, when a sweep has begun. */
static void fill_during_a_sweep(const char *name)
{
  tamis_filter *f = advancing;
  if (!f || strcmp(name, "window_block_swept"))
    return;
  advancing = NULL;
  for (uint64_t key = UINT64_C(1) << 50; refused_meanwhile < 3000; key++)
    refused_meanwhile += tamis_add_hash(f, key * UINT64_C(0x9E3779B97F4A7C15)) == TAMIS_EFULL;
}

/* The rate leaves room for two layers.  While they are full, an add is refused; when the first one
 * has left, there is room for another. */
static void a_layer_that_leaves_makes_room(void **state)
{
  (void) state;
  void (*installed)(const char *) = atomic_load(&tamis__hook);
  tamis_options options = window_options(TAMIS_BLOOM, 1, 2000, 0.01, true);
  double low = 1e-12, high = 0.01;
  for (unsigned i = 0; i < 60; i++) {
    uint64_t bytes;
    options.fpp = (low + high) / 2;
    *(tamis_bytes_for(&options, &bytes) == TAMIS_OK ? &high : &low) = options.fpp;
  }
  options.fpp = 1.2 * high;
  tamis_filter *f = create(&options);
  uint64_t key = 0;
  while (stats_of(f).layers == 1)
    assert_int_equal(tamis_add_hash(f, key++ * UINT64_C(0x9E3779B97F4A7C15)), TAMIS_OK);
  /* The second layer gets no key of the first period that stays. */
  advance(f, 1);
  for (unsigned refused = 0; refused < 3000;)
    refused += tamis_add_hash(f, key++ * UINT64_C(0x9E3779B97F4A7C15)) == TAMIS_EFULL;
  assert_int_equal(stats_of(f).layers, 2);
  advancing = f;
  atomic_store(&tamis__hook, fill_during_a_sweep);
  advance(f, 1);
  atomic_store(&tamis__hook, installed);
  assert_int_equal(refused_meanwhile, 3000);
  for (uint64_t i = 0; i < 2000; i++)
    assert_int_equal(tamis_add_hash(f, ~i), TAMIS_OK);
  assert_valid(f);
  tamis_destroy(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_add_that_meets_the_end_of_a_period_is_in_the_next_one),
      cmocka_unit_test(a_renewal_that_meets_the_end_of_a_period_is_in_the_next_one),
      cmocka_unit_test(a_call_that_waits_for_stripes_reads_the_epoch_under_them),
      cmocka_unit_test(a_second_advance_waits_for_the_first_one),
      cmocka_unit_test(a_clock_that_is_behind_sets_no_period_back),
      cmocka_unit_test(a_jump_forgets_before_it_is_published),
      cmocka_unit_test(a_sweep_leaves_what_is_added_beside_it),
      cmocka_unit_test(a_sweep_waits_for_an_add),
      cmocka_unit_test(a_look_up_that_is_overtaken_by_a_period_begins_anew),
      cmocka_unit_test(a_look_up_takes_no_lock),
      cmocka_unit_test(of_two_unique_adds_that_miss_the_key_one_wins),
      cmocka_unit_test(a_second_unique_add_waits_for_the_stripes),
      cmocka_unit_test(a_present_key_does_not_wait),
      cmocka_unit_test(a_look_up_notices_a_move),
      cmocka_unit_test(a_move_bumps_a_version_that_look_ups_read),
      cmocka_unit_test(a_key_that_is_moved_is_there),
      cmocka_unit_test(a_forgotten_entry_is_not_moved),
      cmocka_unit_test(a_renewed_entry_is_moved_with_its_new_stamp),
      cmocka_unit_test(nothing_is_moved_around_a_copy),
      cmocka_unit_test(a_copy_waits_for_a_move),
      cmocka_unit_test(a_layer_that_is_opened_meanwhile_is_noticed),
      cmocka_unit_test(a_look_up_that_is_overtaken_in_layers_begins_anew),
      cmocka_unit_test(a_period_ends_while_a_layer_is_opened),
      cmocka_unit_test(a_layer_stays_for_an_add_that_is_late),
      cmocka_unit_test(a_layer_that_is_closed_during_a_sweep_stays),
      cmocka_unit_test(nothing_is_moved_in_a_closed_layer),
      cmocka_unit_test(an_add_holds_the_stripes_of_both_buckets_in_each_layer),
      cmocka_unit_test(one_of_two_threads_opens_a_layer),
      cmocka_unit_test(a_layer_that_leaves_makes_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
