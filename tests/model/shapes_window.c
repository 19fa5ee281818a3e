/* SPDX-License-Identifier: MIT
 *
 * Windows: adds, look-ups and moves while periods end and layers are opened.
 *
 * The filters remember one period beside the one that runs, so there are three stamps, the fewest.
 * The first layer has four buckets of two lanes, 0 and 1 lower, 2 and 3 upper; each has a stripe of
 * its own.
 */
#include "fixture.h"

#include "window/create.h"
#include "window/evict.h"

enum { WORDS_OF_LANES = 7, CAPACITY = 4 }; /* the shape of two lanes in a word */

static struct window *window(void)
{
  return window_of(t.filter);
}

static void make_window_of(bool growable, bool copies)
{
  memset(&t, 0, sizeof t);
  t.keys = hash_keys_from_seed(SEED);
  struct window_plan plan = {
      .spec = {.periods = 1, .capacity = CAPACITY, .fpp = 1e-3, .growable = growable},
      .geometry = {.shape_index = WORDS_OF_LANES, .segments = 1, .half = 2, .capacity = CAPACITY},
      .index = 1,
      .copies = copies,
      .stripes_wanted = 4};
  expect(window_geometry_restore(1, &plan.geometry), "geometry");
  const struct filter_more more = {.allocator = from_the_world};
  struct tamis_filter head = {.keys = t.keys};
  filter_set_more(&head, &more);
  struct window *w = tamis__window_create(&head, &plan);
  expect(w != NULL, "create");
  w->first.block_shift = 0;
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    model_mark_figure(&w->stripes.all[i].lanes);
  t.filter = &w->head;
}

static void make_window(bool growable)
{
  make_window_of(growable, false);
}

static struct window_place place_of(uint64_t hash)
{
  return window_place_of(&window()->first.geometry, hash_mix(&t.keys, hash), false);
}

static struct window_buckets buckets_of(uint64_t hash)
{
  const struct window_place place = place_of(hash);
  return (struct window_buckets){place.lower, place.upper};
}

static uint64_t window_key(unsigned lower, unsigned upper)
{
  struct window_place place;
  do
    place = place_of(++t.last_hash);
  while ((lower != ANY && place.lower != lower) || (upper != ANY && place.upper != upper));
  return t.last_hash;
}

static void advance(void)
{
  if (tamis_advance(t.filter) != TAMIS_OK)
    model_fail("advance");
}

/* ---- periods ---- */

static void set_up_key(void)
{
  make_window(false);
  t.x = put(window_key(HOME, UPPER));
}

static void set_up_empty(void)
{
  make_window(false);
  t.x = window_key(HOME, UPPER);
}

/* The key is remembered all the time, by its renewal. */
static void run_renewal(unsigned thread)
{
  if (thread == 0) {
    must_find(t.x);
  } else {
    advance();
    must_add(t.x);
    advance();
  }
}

/* z is forgotten when the next period ends. */
static void set_up_late_add(void)
{
  make_window(false);
  t.z = put(window_key(LOWER, OTHER));
  t.x = window_key(HOME, UPPER);
  advance();
}

/* Whoever finds that the period has ended, and x is absent, knows that x is added in the next
 * one. */
static void run_late_add(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
  } else if (thread == 1) {
    advance();
  } else {
    t.result[thread][0] = !contains(t.z);
    t.result[thread][1] = !contains(t.x);
  }
}

static const char *check_late_add(void)
{
  advance();
  const char *reason = whole();
  bool later = t.result[2][0] && t.result[2][1];
  return reason ? reason : later && !contains(t.x) ? "a key was forgotten too early" : NULL;
}

/* Periods that end at the same time as adds leave nothing that is forgotten. */
static void run_two_periods(unsigned thread)
{
  if (thread == 0)
    must_add(t.x);
  else
    advance();
}

/* The add comes after one end of a period, so only one more may come after the add. */
static void run_ends_of_periods(unsigned thread)
{
  advance();
  if (thread == 0) {
    must_add(t.x);
    must_find(t.x);
  }
}

static void run_unique_and_advance(unsigned thread)
{
  if (thread == 2)
    advance();
  else
    run_unique(thread);
}

static const char *check_one_winner(void)
{
  const char *reason = whole();
  return reason ? reason : winners(2) != 1 ? "not one winner" : NULL;
}

/* ---- copies ---- */

/* x has so many copies, and its last period runs. */
static void set_up_copies(unsigned copies)
{
  make_window_of(false, true);
  t.x = window_key(HOME, UPPER);
  for (unsigned i = 0; i < copies; i++)
    expect(tamis_add_hash(t.filter, t.x) == TAMIS_OK, "add");
  advance();
  expect(tamis_count_hash(t.filter, t.x) == copies, "copies");
}

static void set_up_one_copy(void)
{
  set_up_copies(1);
}

static void set_up_two_copies(void)
{
  set_up_copies(2);
}

/* A copy comes and another one goes, while the key is forgotten, or is not because of the
 * former. */
static void run_copies_and_period(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    t.result[0][0] = (int) tamis_count_hash(t.filter, t.x);
  } else {
    advance();
    t.result[1][0] = tamis_remove_hash(t.filter, t.x);
  }
}

static const char *check_copies_and_period(void)
{
  const char *reason = whole();
  bool removed = t.result[1][0] == TAMIS_OK;
  uint64_t count = tamis_count_hash(t.filter, t.x), counted = (uint64_t) t.result[0][0];
  if (reason)
    return reason;
  if (count + removed != 1 && count + removed != 3)
    return "copies were forgotten in part";
  return counted != count && counted != count + removed ? "a count that there never was" : NULL;
}

/* Both remove what is there, once, unless it is forgotten before. */
static void run_removes_and_period(unsigned thread)
{
  if (thread == 2)
    advance();
  else
    t.result[thread][0] = tamis_remove_hash(t.filter, t.x);
}

static const char *check_removes_and_period(void)
{
  const char *reason = whole_with_count(0);
  if (reason)
    return reason;
  return t.result[0][0] == TAMIS_OK && t.result[1][0] == TAMIS_OK ? "a copy was removed twice"
                                                                  : NULL;
}

/* ---- moves ---- */

/* x stands in UPPER and can move to HOME; LOWER and UPPER are full. */
static void set_up_window_move(void)
{
  make_window(false);
  struct window_layer *layer = &window()->first;
  t.x = window_key(HOME, UPPER);
  static const unsigned buckets[4] = {UPPER, UPPER, LOWER, LOWER}, lanes[4] = {0, 1, 0, 1};
  for (unsigned i = 0; i < 4; i++) {
    struct window_place place = place_of(i ? window_key(LOWER, UPPER) : t.x);
    uint64_t fingerprint = window_fingerprint(&layer->geometry.shape, &place);
    struct window_stripe *stripe = window_stripe(window(), layer, buckets[i]);
    window_lock(window(), stripe);
    window_store(layer, buckets[i], lanes[i], fingerprint | 1); /* the first stamp */
    window_use(stripe, 1);
    window_unlock(window(), stripe);
  }
  t.y = window_key(LOWER, UPPER);
  expect(contains(t.x), "where x stands");
}

static void move_x(void)
{
  struct window_buckets full = buckets_of(t.y);
  if (tamis__window_evict(window(), &window()->first, &full, epoch_before(&window()->state->epoch),
                          true) != TAMIS_OK)
    model_fail("no path");
}

static void run_window_move(unsigned thread)
{
  if (thread == 0)
    move_x();
  else
    must_find(t.x);
}

static void run_window_add_that_moves(unsigned thread)
{
  if (thread == 0)
    must_add(t.y);
  else
    must_find(t.x);
}

static const char *check_window_moved(void)
{
  const char *reason = whole_with_count(4);
  return reason ? reason : !contains(t.x) ? "an entry has been lost" : NULL;
}

static const char *check_window_added(void)
{
  const char *reason = whole_with_count(5);
  return reason ? reason : !contains(t.x) || !contains(t.y) ? "an entry has been lost" : NULL;
}

/* All that is in is forgotten while it is moved. */
static void set_up_last_move(void)
{
  set_up_window_move();
  advance();
}

static void run_last_move(unsigned thread)
{
  struct window_buckets full = buckets_of(t.y);
  if (thread == 0)
    (void) tamis__window_evict(window(), &window()->first, &full,
                               epoch_before(&window()->state->epoch), true);
  else
    advance();
}

/* Over more periods than are remembered. */
static void jump(void)
{
  if (tamis_advance_to(t.filter, 3) != TAMIS_OK)
    model_fail("no jump");
}

static void run_move_and_jump(unsigned thread)
{
  if (thread == 0)
    run_last_move(0);
  else
    jump();
}

static void set_up_clock(void)
{
  set_up_empty();
  t.y = window_key(LOWER, UPPER);
}

/* Each thread goes by the clock before it adds. */
static void run_jumps_and_adds(unsigned thread)
{
  jump();
  must_add(thread ? t.y : t.x);
}

static const char *check_clock(void)
{
  advance(); /* into their last period */
  return !contains(t.x) || !contains(t.y) ? "a key was forgotten early" : whole();
}

static const char *check_forgotten(void)
{
  const char *reason = whole_with_count(0);
  return reason ? reason : contains(t.x) ? "an entry has come back" : NULL;
}

/* ---- layers ---- */

/* There is no room for x. */
static void set_up_window_full(void)
{
  make_window(true);
  struct window_layer *layer = &window()->first;
  unsigned n = 0;
  while (n < 8) {
    uint64_t hash = window_key(ANY, ANY);
    struct window_place place = place_of(hash);
    for (unsigned i = 0; i < 4; i++) {
      unsigned bucket = i / 2 ? (unsigned) place.upper : (unsigned) place.lower, lane = i % 2;
      if (lane_get(&layer->geometry.shape.lane, window_load(layer, bucket), lane))
        continue;
      put_to_stay(hash);
      n++;
      break;
    }
  }
  t.x = window_key(HOME, UPPER);
  expect(figures().layers == 1 && figures().count == 8, "a full layer");
}

/* Adds so many keys beside those of a full first layer, or until there is a third one.  Returns how
 * many it has added. */
static uint64_t fill_second_layer(uint64_t keys)
{
  set_up_window_full();
  uint64_t n = 0;
  for (; n < keys && figures().layers < 3; n++)
    (void) tamis_add_unique_hash(t.filter, t.y = window_key(ANY, ANY));
  return n;
}

/* x would be the first key of the third layer.  y is in the second one. */
static void set_up_two_full_layers(void)
{
  uint64_t keys = fill_second_layer(UINT64_MAX);
  tamis_destroy(t.filter);
  (void) fill_second_layer(keys - 1);
  t.x = window_key(ANY, ANY);
  expect(figures().layers == 2 && contains(t.y), "two full layers");
}

static void run_add_to_new_layer(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_find(t.x);
  } else {
    must_add(t.y); /* which reads the layers, also while there are two */
    (void) contains(t.x);
    must_find(t.y);
  }
}

static const char *check_new_layer(void)
{
  const char *reason = figures().layers == 3 ? whole() : "there is no third layer";
  return reason ? reason : !contains(t.x) ? "an add was lost" : NULL;
}

/* ---- segments that are full ---- */

/* Fills all lanes with keys, one of which is z.  Whether moves would make room for y if z were
 * gone. */
static bool fill_window(void)
{
  struct window_layer *first = &window()->first;
  t.y = window_key(HOME, OTHER);
  t.z = window_key(LOWER, UPPER);
  struct window_buckets place = buckets_of(t.y);
  (void) tamis_add_hash(t.filter, t.z);
  for (unsigned i = 0; figures().count < 8 && i < 100; i++)
    (void) tamis_add_unique_hash(t.filter, window_key(ANY, ANY));
  if (figures().count < 8 || contains(t.y))
    return false;
  (void) tamis_remove_hash(t.filter, t.z);
  bool has_path = tamis__window_path_exists(window(), first, &place);
  return tamis_add_hash(t.filter, t.z) == TAMIS_OK && has_path;
}

/* y is refused, or finds room.  The next search that fails marks the segment. */
static void set_up_full_window(void)
{
  uint64_t last = 0;
  make_window_of(false, true);
  while (!fill_window()) {
    last = t.last_hash;
    tamis_destroy(t.filter);
    make_window_of(false, true);
    t.last_hash = last;
  }
  fullness *full = &window()->first.full[0];
  atomic_store(full, FULLNESS_FAILURES);
}

static void run_full_window(unsigned thread)
{
  if (thread == 0)
    (void) tamis_add_hash(t.filter, t.y);
  else if (tamis_remove_hash(t.filter, t.z) != TAMIS_OK)
    model_fail("remove");
}

static void run_full_period(unsigned thread)
{
  if (thread == 0)
    (void) tamis_add_hash(t.filter, t.y);
  else
    advance();
}

static const char *check_full_window(void)
{
  if (!contains(t.y) && tamis_add_hash(t.filter, t.y) != TAMIS_OK)
    return "there is room, and an add is refused";
  return whole();
}

static void set_up_full_old_window(void)
{
  set_up_full_window();
  advance();
}

const struct shape window_shapes[] = {
    {"window_renewal", "is a key found that is renewed from period to period?", 2, false,
     set_up_key, run_renewal, whole, BOUND(3), BOUND(3)},
    {"window_late_add", "is a key remembered that was added at the end of a period?", 3, false,
     set_up_late_add, run_late_add, check_late_add, BOUND(2), NEVER},
    {"window_two_periods", "do two ends of periods and an add leave what is forgotten?", 3, false,
     set_up_empty, run_two_periods, whole, BOUND(2), BOUND(2)},
    {"window_ends", "does the end of a period forget what the next one remembers?", 2, false,
     set_up_empty, run_ends_of_periods, whole, BOUND(2), BOUND(2)},
    {"window_unique", "has a key one winner while a period ends?", 3, false, set_up_empty,
     run_unique_and_advance, check_one_winner, BOUND(2), BOUND(2)},
    {"window_copies", "are copies forgotten together, or kept?", 2, false, set_up_two_copies,
     run_copies_and_period, check_copies_and_period, BOUND(3), BOUND(3)},
    {"window_removes", "is a copy removed once, while it is forgotten?", 3, false, set_up_one_copy,
     run_removes_and_period, check_removes_and_period, BOUND(2), BOUND(2)},
    {"window_lookup_and_move", "is a key found that is moved?", 2, false, set_up_window_move,
     run_window_move, check_window_moved, FULL, FULL},
    {"window_lookup_and_add", "... by an add that needs room?", 2, false, set_up_window_move,
     run_window_add_that_moves, check_window_added, BOUND(3), BOUND(3)},
    {"window_last_move", "does an entry come back that is moved while it is forgotten?", 2, false,
     set_up_last_move, run_last_move, check_forgotten, BOUND(3), BOUND(3)},
    {"window_last_jump", "... or while a jump forgets it?", 2, false, set_up_last_move,
     run_move_and_jump, check_forgotten, BOUND(3), BOUND(3)},
    {"window_clock", "do adds stay whose threads go by the clock first?", 2, false, set_up_clock,
     run_jumps_and_adds, check_clock, BOUND(2), BOUND(2)},
    {"window_new_layer", "is a layer complete when it is found?", 2, false, set_up_two_full_layers,
     run_add_to_new_layer, check_new_layer, BOUND(2), BOUND(2)},
    {"window_unique_layer", "has a key one winner that opens a layer?", 2, false,
     set_up_window_full, run_unique, check_one_winner, BOUND(2), BOUND(2)},
    {"window_full_and_remove", "does a remove make room in a segment that is found full?", 2, false,
     set_up_full_window, run_full_window, check_full_window, BOUND(2), NEVER},
    {"window_full_and_period", "... and the end of a period?", 2, false, set_up_full_old_window,
     run_full_period, check_full_window, BOUND(1), NEVER},
    {.name = NULL},
};
