/* SPDX-License-Identifier: MIT
 *
 * Windows: adds, look-ups and moves while periods end and layers are opened.
 *
 * The windows remember one period beside the one that runs, so there are three stamps, the fewest.
 * The first layer has four buckets of two lanes, 0 and 1 lower, 2 and 3 upper; each has a stripe of
 * its own.
 */
#include "fixture.h"

#include "window/counted.h"
#include "window/create.h"
#include "window/evict.h"

enum { WORDS_OF_LANES = 7, CAPACITY = 4 }; /* the shape of two lanes in a word */

static struct window *window(void)
{
  return window_of(t.filter);
}

static void make_table(unsigned periods, bool growable, bool copies, bool counted)
{
  memset(&t, 0, sizeof t);
  t.keys = hash_keys_from_seed(SEED);
  struct window_plan plan = {
      .spec = {.periods = periods, .capacity = CAPACITY, .fpp = 1e-3, .growable = growable},
      .geometry = {.shape_index = WORDS_OF_LANES, .segments = 1, .half = 2, .capacity = CAPACITY},
      .index = 1,
      .copies = copies,
      .counted = counted,
      .stripes_wanted = 4};
  expect(window_geometry_restore(periods, &plan.geometry), "geometry");
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

static void make_window(bool growable, bool copies)
{
  make_table(1, growable, copies, false);
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

int advance(uint64_t unused)
{
  (void) unused;
  return tamis_advance(t.filter);
}

/* ---- periods ---- */

static void set_up_empty(void)
{
  make_window(false, false);
  t.x = window_key(HOME, UPPER);
}

static void set_up_key(void)
{
  set_up_empty();
  put(t.x);
}

/* z is forgotten when the next period ends. */
static void set_up_late_add(void)
{
  make_window(false, false);
  t.z = put(window_key(LOWER, OTHER));
  t.x = window_key(HOME, UPPER);
  advance(0);
}

static const char *check_late_add(void)
{
  advance(0);
  const char *reason = whole();
  bool later = !answer(2, 0) && !answer(2, 1);
  return reason ? reason : later && !contains(t.x) ? "a key was forgotten too early" : NULL;
}

/* Each of the ends that meet the add may come after it. */
static const char *check_brief_add(void)
{
  advance(0);
  return contains(t.x) ? "a key outlives the period that was to be its last" : whole();
}

static const char *check_later_end(void)
{
  return contains(t.x) ? whole() : "an add for fewer periods has shortened a key's life";
}

/* ---- copies ---- */

/* x has one copy or two, and its last period runs. */
static void set_up_one_copy(void)
{
  make_window(false, true);
  t.x = put(window_key(HOME, UPPER));
  advance(0);
}

static void set_up_two_copies(void)
{
  make_window(false, true);
  t.x = put(put(window_key(HOME, UPPER)));
  advance(0);
}

static const char *check_copies(void)
{
  const char *reason = whole();
  bool removed = answer(1, 1) == TAMIS_OK;
  uint64_t count = tamis_count_hash(t.filter, t.x), counted = (uint64_t) answer(0, 1);
  if (reason)
    return reason;
  if (count + removed != 1 && count + removed != 3)
    return "copies were forgotten in part";
  return counted != count && counted != count + removed ? "a count that there never was" : NULL;
}

static const char *check_empty(void)
{
  return figures().count || contains(t.x) ? "something is left that is forgotten" : whole();
}

static const char *check_removes(void)
{
  return !answer(0, 0) && !answer(1, 0) ? "a copy was removed twice" : check_empty();
}

/* ---- moves ---- */

/* x stands in UPPER and can move to HOME; LOWER and UPPER are full. */
static void fill_for_a_move(unsigned stamp)
{
  struct window_layer *layer = &window()->first;
  t.x = window_key(HOME, UPPER);
  static const unsigned buckets[4] = {UPPER, UPPER, LOWER, LOWER}, lanes[4] = {0, 1, 0, 1};
  for (unsigned i = 0; i < 4; i++) {
    struct window_place place = place_of(i ? window_key(LOWER, UPPER) : t.x);
    uint64_t fingerprint = window_fingerprint(&layer->geometry.shape, &place);
    struct window_stripe *stripe = window_stripe(window(), layer, buckets[i]);
    window_lock(window(), stripe);
    window_store(layer, buckets[i], lanes[i], fingerprint | stamp);
    window_use(stripe, 1);
    window_unlock(window(), stripe);
  }
  t.y = window_key(LOWER, UPPER);
  expect(contains(t.x), "where x stands");
}

static void set_up_window_move(void)
{
  make_window(false, false);
  fill_for_a_move(1);
}

/* The same in a counted table: each key has one copy. */
static void set_up_move_in_counted(void)
{
  make_table(COUNTED_PERIODS, false, false, true);
  fill_for_a_move(COUNTED_NOW);
}

int push_in_window(uint64_t unused)
{
  struct window *w = window();
  struct window_buckets full = buckets_of(t.y);
  (void) unused;
  return tamis__window_evict(w, &w->first, &full, epoch_read(&w->state->epoch), true);
}

/* All that is in is forgotten while it is moved. */
static void set_up_last_move(void)
{
  set_up_window_move();
  advance(0);
}

/* Over more periods than are remembered. */
int jump(uint64_t unused)
{
  (void) unused;
  return tamis_advance_to(t.filter, 3);
}

static void set_up_clock(void)
{
  set_up_empty();
  t.y = window_key(LOWER, UPPER);
}

static const char *check_clock(void)
{
  advance(0); /* into their last period */
  return !contains(t.x) || !contains(t.y) ? "a key was forgotten early" : whole();
}

/* ---- layers ---- */

/* There is no room for x. */
static void set_up_window_full(void)
{
  make_window(true, false);
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

static const char *check_new_layer(void)
{
  return figures().layers == 3 ? NULL : "there is no third layer";
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
  make_window(false, true);
  while (!fill_window()) {
    last = t.last_hash;
    tamis_destroy(t.filter);
    make_window(false, true);
    t.last_hash = last;
  }
  fullness *full = &window()->first.full[0];
  atomic_store(full, FULLNESS_FAILURES);
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
  advance(0);
}

const struct shape window_shapes[] = {
    {"window_renewal", "is a key found that is renewed from period to period?", set_up_key,
     "has x | advance; add x; advance", BOUND(3), BOUND(3)},
    {"window_late_add", "is a key remembered that was added at the end of a period?",
     set_up_late_add, "add x | advance | has? z; has? x", BOUND(2), NEVER,
     .instead = check_late_add},
    {"window_two_periods", "do two ends of periods and an add leave what is forgotten?",
     set_up_empty, "add x | advance | advance", BOUND(2), BOUND(2), .instead = whole},
    {"window_ends", "does the end of a period forget what the next one remembers?", set_up_empty,
     "advance; add x; has x | advance", BOUND(2), BOUND(2)},
    {"window_unique", "has a key one winner while a period ends?", set_up_empty,
     "unique x | unique x | advance", BOUND(2), BOUND(2)},
    {"window_brief_add", "does a key with an end of its own end then?", set_up_empty,
     "brief x | advance | advance", BOUND(2), BOUND(2), .instead = check_brief_add},
    {"window_brief_add_and_jump", "... beside a jump?", set_up_empty, "brief x | jump", BOUND(3),
     BOUND(3), .instead = check_brief_add},
    {"window_later_end", "does the later of two ends hold?", set_up_empty,
     "add x | brief x | advance", BOUND(2), BOUND(2), .instead = check_later_end},
    {"window_copies", "are copies forgotten together, or kept?", set_up_two_copies,
     "add x; count x | advance; remove? x", BOUND(3), BOUND(3), .instead = check_copies},
    {"window_removes", "is a copy removed once, while it is forgotten?", set_up_one_copy,
     "remove? x | remove? x | advance", BOUND(2), BOUND(2), .instead = check_removes},
    {"window_lookup_and_move", "is a key found that is moved?", set_up_window_move,
     "push_in_window | has x"},
    {"window_lookup_and_add", "... by an add that needs room?", set_up_window_move, "add y | has x",
     BOUND(3), BOUND(3)},
    {"counted_remove_and_move", "does the move of a key lose or double a copy that others change?",
     set_up_move_in_counted, "add x; count x | push_in_window; remove? x", BOUND(3), BOUND(3)},
    {"counted_lookup_and_move", "... or hide the key from look-ups?", set_up_move_in_counted,
     "count x; remove x | push_in_window? | has x", BOUND(3), BOUND(2)},
    {"window_last_move", "does an entry come back that is moved while it is forgotten?",
     set_up_last_move, "push_in_window? | advance", BOUND(3), BOUND(3), .instead = check_empty},
    {"window_last_jump", "... or while a jump forgets it?", set_up_last_move,
     "push_in_window? | jump", BOUND(3), BOUND(3), .instead = check_empty},
    {"window_clock", "do adds stay whose threads go by the clock first?", set_up_clock,
     "jump; add x | jump; add y", BOUND(2), BOUND(2), .instead = check_clock},
    {"window_new_layer", "is a layer complete when it is found?", set_up_two_full_layers,
     "add x; has x | add y; has? x; has y", BOUND(2), BOUND(2), check_new_layer},
    {"window_unique_layer", "has a key one winner that opens a layer?", set_up_window_full,
     "unique x | unique x", BOUND(2), BOUND(2)},
    {"window_full_and_remove", "does a remove make room in a segment that is found full?",
     set_up_full_window, "add? y | remove z", BOUND(2), NEVER, .instead = check_full_window},
    {"window_full_and_period", "... and the end of a period?", set_up_full_old_window,
     "add? y | advance", BOUND(1), NEVER, .instead = check_full_window},
    {.name = NULL},
};
