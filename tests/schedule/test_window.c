/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of a filter with a window, each replayed exactly, in windows of both kinds, in
 * such as two processes share, and in a cuckoo filter that two processes share.  Built with the hooks.
 *
 * Most windows are one period, so there are three stamps: the tightest case.
 */
#include "play.h"

#include "saved_unit.h"
#include "window/copies.h"
#include "window/evict.h"
#include "window/layers.h"
#include "window/pair.h"
#include "window_unit.h"

/* ---- moves ----
 *
 * Keys are chosen by their buckets: L0 and L1 are two lower ones; U0 and FAR are two upper ones,
 * with these numbers of their half, so that they are in blocks of their own.  x stands in U0, and
 * L0 is empty.  An add of z, whose buckets L1 and U0 are full, moves x to L0. */

enum { L0, L1, U0 = 0, FAR = 16 };

static const struct window_geometry *geometry_of(const tamis_filter *f)
{
  return &const_window_of(f)->first.geometry;
}

/* The next key with these buckets of the two halves. */
static uint64_t key_at(tamis_filter *f, uint64_t *last, uint64_t lower, uint64_t upper)
{
  struct window_place place;
  do
    place = window_place_of(geometry_of(f), window_mixed(window_of(f), ++*last), false);
  while (place.lower != lower || place.upper != geometry_of(f)->half + upper);
  return *last;
}

static void fill(tamis_filter *f, uint64_t *last, uint64_t lower, uint64_t upper, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    assert_int_equal(tamis_add_hash(f, key_at(f, last, lower, upper)), TAMIS_OK);
}

static int used_lanes(tamis_filter *f, uint64_t bucket)
{
  const struct window_shape *shape = &geometry_of(f)->shape;
  return (int) lanes_count(window_used(shape, window_load(&const_window_of(f)->first, bucket)));
}
LISTED_VERB(lanes, used_lanes)

VERB(upper_lanes, key)
{
  struct window *w = window_of(f);
  return used_lanes(f, pair_in(&w->first, window_mixed(w, key)).place.upper);
}

/* x was added in period 1.  Period 2 runs: it is the last one of x, and the first one of all other
 * keys.  Or, without periods, what filled other buckets is removed. */
STEP(prepare_moves, counted)
{
  const unsigned lanes = geometry_of(f)->shape.lane.lanes;
  uint64_t last = stage.y;
  assert_true(geometry_of(f)->half > FAR && geometry_of(f)->bucket_shift == 0);
  fill(f, &stage.y, L0, FAR, 2 * lanes); /* both are full */
  if (!counted)
    advance(f, 1);
  stage.x = key_at(f, &stage.y, L0, U0);
  assert_int_equal(tamis_add_hash(f, stage.x), TAMIS_OK); /* so it goes to U0 */
  for (unsigned i = 0; i < 2 * lanes && counted; i++)
    assert_int_equal(tamis_remove_hash(f, key_at(f, &last, L0, FAR)), TAMIS_OK);
  if (!counted)
    advance(f, 1); /* L0 is empty */
  fill(f, &stage.y, L1, FAR, 2 * lanes);
  fill(f, &stage.y, L1, U0, lanes - 1);
  stage.z = key_at(f, &stage.y, L1, U0);
  assert_int_equal(used_lanes(f, L0), 0);
  assert_int_equal(used_lanes(f, L1), lanes);
  assert_int_equal(used_lanes(f, geometry_of(f)->half), lanes);
}

/* x is removed, and y takes its lane, whose other bucket is L1.  So z has no room any more. */
DEED(replace, n)
{
  assert_int_equal(tamis_remove_hash(f, stage.x), TAMIS_OK);
  fill(f, &stage.y, L1, U0, 1);
}

/* ---- layers that leave ---- */

VERB(last_keys, n)
{
  return last_keys_are_in(f, n) && (!stage.from || last_keys_are_in(stage.from, n));
}

/* Keys that come until there are so many layers.  Then x of them have come. */
DEED(grow, layers)
{
  const uint64_t first = next_key;
  while (stats_of(f).layers < layers)
    add_keys(f, 1);
  stage.x = next_key - first;
}

static bool has_grown(const tamis_filter *f)
{
  return epoch_has_grown(epoch_read(&const_window_of(f)->state->epoch));
}

/* The first layer has left, and the newest one is empty. */
STEP(prepare_grown, n)
{
  next_key = 1;
  add_keys(f, 2000);
  advance(f, 3);
  assert_true(stats_of(f).layers <= 2 && has_grown(f));
}

STEP(let_leave, n)
{
  advance(f, 6);
  assert_int_equal(stats_of(f).layers, 1);
  assert_false(has_grown(f));
}
LISTED_DEED(let_leave, let_leave)

DEED(let_from_leave, n)
{
  let_leave(stage.from, n);
  await_release(stage.from, n);
}

DEED(grow_from, n)
{
  prepare_grown(stage_from(), n);
}

VERB(held, n)
{
  return atomic_load(&window_of(f)->backlog.held) > 0;
}

/* ---- filters ---- */

#define RACES .window = 1, .fpp = 0.0001, .stripes = 64
#define MOVES .window = 1, .fpp = 0.0001, .capacity = 400, .fixed = true, .prepare = prepare_moves
#define GROWN .window = 1, .fpp = 0.0001, .capacity = 100, .prepare = prepare_grown

static const struct setup setups[] = {
    {"Bloom", RACES, .fixed = true},
    {"Bloom, growable", RACES},
    {"cuckoo", .kind = TAMIS_CUCKOO, RACES, .fixed = true},
    {"cuckoo, growable", .kind = TAMIS_CUCKOO, RACES},
    {"shared", RACES, .fixed = true, .shared = true},
    {"moves, Bloom", MOVES, .stripes = 64},
    {"moves, cuckoo", .kind = TAMIS_CUCKOO, MOVES, .stripes = 64},
    {"moves, shared", MOVES, .stripes = 64, .shared = true},
    {"moves, one stripe", MOVES, .stripes = 1},
    {"four periods, Bloom", .window = 4, .fpp = 1e-5, .stripes = 1, .fixed = true},
    {"four periods, cuckoo", .kind = TAMIS_CUCKOO, .window = 4, .fpp = 1e-5, .stripes = 1},
    {"four periods, shared", .window = 4, .fpp = 1e-5, .stripes = 1, .fixed = true, .shared = true},
    {"grown, Bloom", GROWN},
    {"grown, cuckoo", .kind = TAMIS_CUCKOO, GROWN},
    {"three periods, Bloom", .window = 3, .fpp = 0.0001, .capacity = 100},
    {"three periods, cuckoo", .kind = TAMIS_CUCKOO, .window = 3, .fpp = 0.0001, .capacity = 100},
    {"shared cuckoo", .kind = TAMIS_CUCKOO, .fpp = 0.0001, .stripes = 64, .fixed = true,
     .shared = true},
    {"moves, shared cuckoo", .kind = TAMIS_CUCKOO, .fpp = 0.0001, .stripes = 64, .capacity = 400,
     .fixed = true, .shared = true, .prepare = prepare_moves, .n = 1},
};

/* Their bits. */
enum {
  BLOOM = 3,
  CUCKOO = 12,
  FIXED_CUCKOO = 4,
  GROWABLE_CUCKOO = 8,
  GROWABLE = 10,
  SHARED = 16,
  KEYS = BLOOM | SHARED, /* a key that is added again is renewed, and not counted again */
  ALL = KEYS | CUCKOO,
  MOVE_KEYS = 1 << 5 | 1 << 7,
  CUCKOO_MOVES = 1 << 6,
  ALL_MOVES = MOVE_KEYS | CUCKOO_MOVES,
  ONE_STRIPE_MOVES = 1 << 8,
  FOUR_PERIODS = 7 << 9,
  ALL_GROWN = 3 << 12,
  GROWN_CUCKOO = 1 << 13,
  THREE_PERIODS = 3 << 14,
  COUNTED = 1 << 16,
  COUNTED_MOVES = 1 << 17
};

/* ---- verbs ---- */

/* The other one of 0 and 1 periods. */
DEED(advance_unless, n)
{
  advance(f, 1 - (unsigned) n);
}

DEED(advance_from, n)
{
  advance(stage_from(), (unsigned) n);
}

VERB(open, n)
{
  struct window *w = window_of(f);
  lock_take(&w->opening);
  int result = tamis__window_open_layer(w, &w->first);
  lock_release(&w->opening);
  return result;
}

VERB(has_retried, n)
{
  return stats_of(stage.f).lookup_retries > 0;
}

/* The test's own lock: of a bucket's stripe, of the last stripe, or of the counts beside a key. */
static struct window_stripe *held_stripe;
static struct lock *counts_held;

/* U0, to which a sweep comes after L0. */
DEED(hold_upper, n)
{
  struct window *w = window_of(f);
  held_stripe = window_stripe(w, &w->first, geometry_of(f)->half);
  assert_true(held_stripe > window_stripe(w, &w->first, L0));
  assert_int_equal(window_join(w), TAMIS_OK);
  window_lock(w, held_stripe);
}

DEED(hold_last, n)
{
  held_stripe = &window_of(f)->stripes.all[window_of(f)->stripes.mask];
  window_lock(window_of(f), held_stripe);
}

DEED(free, n)
{
  window_unlock(window_of(f), held_stripe);
}

/* The lock of the counts beside a key's entry in the first layer. */
DEED(hold_counts, key)
{
  struct window *w = window_of(f);
  struct pair pair = pair_in(&w->first, window_mixed(w, key));
  struct view view = look_at(&pair);
  struct found found = find_entry(&pair, &view);
  struct window_lane lane = window_lane(&w->first, found.bucket, found.lane);
  counts_held = &window_plane_of(&w->first, lane.index)->lock;
  lock_take(counts_held);
}

DEED(free_counts, n)
{
  lock_release(counts_held);
}

/* Whatever is held goes on, as far as it comes. */
DEED(let_go, n)
{
  schedule_go();
  for (; n; n--)
    sched_yield();
}

/* How many stripes of a key's buckets in all layers are held. */
VERB(held_stripes, key)
{
  struct window *w = window_of(f);
  int held = 0;
  for (const struct window_layer *layer = atomic_load(&w->newest); layer; layer = layer->older) {
    struct window_place place =
        window_place_of(&layer->geometry, window_mixed(w, key), layer->geometry.segments > 1);
    held += owned_held(&window_stripe(w, layer, place.lower)->lock);
    held += owned_held(&window_stripe(w, layer, place.upper)->lock);
  }
  return held;
}

/* Keys until the next ones need moves, too. */
DEED(need_room, n)
{
  for (uint64_t key = 0; stats_of(f).evictions == 0; key++)
    assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
}

/* Makes room for keys that have none in their buckets. */
VERB(evict, n)
{
  struct window *w = window_of(f);
  const struct window_geometry *g = &w->first.geometry;
  const uint64_t epoch = epoch_read(&w->state->epoch), paths = stats_of(f).evictions;
  for (uint64_t key = 100000; stats_of(f).evictions == paths; key++) {
    struct window_place place = window_place_of(g, window_mixed(w, key), g->segments > 1);
    struct window_buckets full = {place.lower, place.upper};
    if (tamis__window_evict(w, &w->first, &full, epoch, true) == TAMIS_ABSENT)
      break;
  }
  return TAMIS_OK;
}

/* The sum of the first layer's words, as an int. */
VERB(changed, n)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i < window_words(geometry_of(f)); i++)
    sum = (sum ^ word_load(&window_of(f)->first.words[i])) * HASH_MULTIPLIER;
  const int changed = stage.y != sum;
  stage.y = sum;
  return changed;
}

/* x and y have the first bucket of all for a lower one. */
DEED(choose, n)
{
  assert_int_equal(geometry_of(f)->bucket_shift, 0);
  while (window_place_of(geometry_of(f), window_mixed(window_of(f), stage.x), false).lower)
    stage.x++;
  for (stage.y = stage.x + 1;
       window_place_of(geometry_of(f), window_mixed(window_of(f), stage.y), false).lower;)
    stage.y++;
}

/* max_bytes is what the filter has.  (Nothing else runs, or it has read it.) */
STEP(limit, n)
{
  window_of(f)->max_bytes = stats_of(f).bytes;
}
LISTED_DEED(limit, limit)

/* Fills the first layer until a key, y, has room only after moves.  Entries with counts are in its
 * first half, and there is no memory for any in the other one. */
DEED(need_moves, n)
{
  struct window *w = window_of(f);
  const uint64_t first = next_key, paths = stats_of(f).evictions;
  while (stats_of(f).evictions == paths)
    add_keys(f, 1);
  for (uint64_t key = first; key < next_key; key++) {
    struct pair pair = pair_in(&w->first, window_mixed(w, key * HASH_MULTIPLIER));
    struct view view = look_at(&pair);
    if (find_entry(&pair, &view).bucket < w->first.geometry.half)
      assert_int_equal(tamis_add_hash(f, key * HASH_MULTIPLIER), TAMIS_OK);
  }
  limit(f, 0);
  while (tamis_add_hash(f, stage.y = next_key * HASH_MULTIPLIER) == TAMIS_OK)
    next_key++;
  struct pair pair = pair_in(&w->first, window_mixed(w, stage.y));
  assert_true(stats_of(f).layers == 1 && tamis__window_path_exists(w, pair.layer, &pair.place));
}

/* Until grace periods are over that have begun after this call. */
DEED(await_grace, n)
{
  tamis_options options = window_options(TAMIS_BLOOM, 1, 100, 0.0001, true);
  tamis_filter *other = make_with_options(&options);
  prepare_grown(other, n);
  let_leave(other, n);
  await_release(other, n);
  tamis_destroy(other);
}

DEED(end_limit, n)
{
  window_of(f)->max_bytes = 0;
}

VERB(more_bytes, n)
{
  return stats_of(f).bytes > stage.noted.bytes;
}

/* What is saved is written while the layers leave. */
static tamis_filter *saving;

static int write_and_let_leave(void *bytes, const void *data, size_t size)
{
  tamis_filter *f = saving;
  saving = NULL;
  if (f) {
    let_leave(f, 0);
    await_release(f, 0);
    assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  }
  return write_bytes(bytes, data, size);
}

DEED(save_and_let_leave, n)
{
  struct bytes saved = {0};
  saving = f;
  assert_int_equal(tamis_save(f, write_and_let_leave, &saved), TAMIS_OK);
  assert_int_equal(load_from(&saved, NULL, &stage.from), TAMIS_OK);
  free(saved.data);
}

VERB(brief, key)
{
  return tamis_add_for_hash(f, key, 0);
}

LISTED_DEED(keys, add_keys)
LISTED_DEED(released, await_release)
LISTED_VERB(set_period, tamis_set_period)

/* ---- schedules ---- */

static const struct row rows[] = {
    /* The end of a period.  An add has read the epoch word, or has written its lane: from its
     * return on, the key is remembered for a period. */
    {"an_add_that_meets_the_end_of_a_period_is_in_the_next_one", ALL,
     "window_epoch_read_locked window_lane_written",
     "a: unique 7 @*; b: advance; a b = OK OK; contains 7 = 1; advance; contains 7 = 1; advance;"
     "contains 7 = 0"},
    {"an_add_that_meets_the_end_of_a_period_is_in_the_next_one", ALL,
     "window_epoch_read_locked window_lane_written",
     "a: add 7 @*; b: advance; a b = OK OK; contains 7 = 1; advance; contains 7 = 1; advance;"
     "contains 7 = 0"},
    {"a_renewal_that_meets_the_end_of_a_period_is_in_the_next_one", KEYS,
     "window_epoch_read_locked window_lane_written",
     "add 7; advance; a: add 7 @*; b: advance; a b = OK OK; contains 7 = 1; advance;"
     "contains 7 = 1; count = 1"},
    {"a_copy_that_meets_the_end_of_a_period_is_renewed", CUCKOO,
     "window_epoch_read_locked window_lane_written",
     "add 7*2; a: add 7 @*; b: advance; a b = OK OK; advance; copies 7 = 3; advance;"
     "copies 7 = 0; count = 0"},
    /* A key that is to end with the running period ends with the next one, if that has begun. */
    {"a_brief_add_that_meets_the_end_of_a_period_is_in_the_next_one", ALL,
     "window_epoch_read_locked window_lane_written",
     "a: brief 7 @*; b: advance; a b = OK OK; contains 7 = 1; advance; contains 7 = 0; count = 0"},
    {"a_brief_add_that_meets_the_end_of_a_period_leaves_the_later_end", ALL,
     "window_stripes_wanted",
     "a: brief 7 @*; advance; add 7; a = OK; advance; contains 7 = 1; advance; contains 7 = 0"},
    /* The sweep of a jump has left the stripe.  The stamp for the wish would be one of a period that
     * never runs, or be young after the jump. */
    {"a_brief_add_beside_a_jump_is_in_the_next_period", FOUR_PERIODS, "window_block_swept",
     "each 2..4; a: jump % @*; brief 7..8; a = OK; contains 7..8 = 1; advance; contains 7..8 = 0"},
    /* What has no stripes yet has read nothing: the key is won with a stamp that was dead before. */
    {"a_call_that_waits_for_stripes_reads_the_epoch_under_them", ALL, "window_stripes_wanted",
     "a: unique 7 @*; advance; unique 7; a = PRESENT"},
    /* While a sweep clears one stamp, that is not made the one of a new period: not before the
     * sweep reads which stamp is dead, and not after it has swept one block. */
    {"a_second_advance_waits_for_the_first_one", ALL, "window_published window_block_swept",
     "a: advance @*; b: advance; add 0..99; a b = OK OK; contains 0..99 = 1"},
    /* One clock ends three periods, and the other one asks for the second.  Later it asks for the
     * fourth, while the periods get lower numbers, of which the second would be the fourth of
     * those before. */
    {"a_clock_that_is_behind_sets_no_period_back", ALL, NULL,
     "a: jump 3 @window_published#1; b: jump 2; returned = 0; a b = OK OK; period = 3;"
     "a: jump 4 @window_numbers_read; set_period 1; advance; a = OK; period = 4"},
    /* Old stamps would be young ones after a jump. */
    {"a_jump_forgets_before_it_is_published", FOUR_PERIODS, "window_published",
     "each 6..8; add 7; periods 4; a: jump % @*; contains 7 = 0; a = OK"},
    /* What is added beside a sweep has one winner.  (Some look-ups would fail if lanes that are
     * dead stood beside live ones with the same fingerprint, but not with every dead stamp.) */
    {"a_sweep_leaves_what_is_added_beside_it", KEYS, "window_published",
     "each 0..2; periods %; add 0..899; advance; add 0..449; a: advance @*; contains 0..449 = 1;"
     "contains 450..899 = 0; unique 450..899; contains 0..899 = 1; unique 0..899 = PRESENT;"
     "add 0..899; a = OK; contains 0..899 = 1; count = 900"},
    {"a_sweep_waits_for_an_add", ALL, "window_epoch_read_locked",
     "a: add 7 @*; b: advance; returned = 0; a b = OK OK"},

    /* Look-ups.  One has read the epoch word; then the key gets a stamp that was dead before. */
    {"a_look_up_that_is_overtaken_by_a_period_begins_anew", ALL,
     "window_epoch_read window_version_read window_lower_read",
     "add 7; a: contains 7 @*; advance; add 7; a = 1"},
    /* The same for the general path, which look-ups in layers take after the straight one. */
    {"a_look_up_that_is_overtaken_in_layers_begins_anew", GROWABLE, "window_lower_read",
     "open; add 7; a: contains 7 @*; a @window_epoch_read; advance; add 7; a = 1"},
    /* The key's stripes are held, and it need not be renewed. */
    {"a_present_key_does_not_wait", ALL, "window_epoch_read_locked",
     "add 7; advance; a: add 7 @*; contains 7 = 1; unique 7 = PRESENT; a = OK"},

    /* Unique adds. */
    {"of_two_unique_adds_that_miss_the_key_one_wins", ALL | COUNTED, "window_stripes_wanted",
     "a: unique 7 @*; b: unique 7 @*; a b = OK PRESENT; count = 1"},
    {"a_second_unique_add_waits_for_the_stripes", ALL | COUNTED, "window_epoch_read_locked",
     "a: unique 7 @*; b: unique 7; a b = OK PRESENT; count = 1"},

    /* Moves.  The look-up has read the lower bucket before x comes there, and the upper one after
     * it left. */
    {"a_look_up_notices_a_move", ALL_MOVES | COUNTED_MOVES, "window_lower_read",
     "a: contains x @*; add z; a = 1; has_retried = 1; lanes 0 = 1; contains x = 1;"
     "contains z = 1"},
    {"a_key_that_is_moved_is_there", ALL_MOVES | COUNTED_MOVES,
     "window_entry_copied window_version_bumped",
     "a: add z @*; contains x = 1; unique x = PRESENT; b: contains x; returned = 1; a b = OK 1;"
     "lanes 0 = 1; contains x = 1; contains z = 1"},
    /* A sweep or a jump has passed x's other bucket.  (Whether the move or the sweep gets the
     * stripe first is left to chance.) */
    {"a_forgotten_entry_is_not_moved", ALL_MOVES, "window_path_planned",
     "each 1..10; a: add z @*; hold_upper; b: advance; let_go 100; free; a b = OK OK;"
     "lanes 0 = 0; contains x = 0; contains z = 1"},
    {"a_forgotten_entry_is_not_moved", ALL_MOVES, "window_path_planned",
     "each 1..10; a: add z @*; hold_upper; b: jump 4; let_go 100; free; a b = OK OK;"
     "lanes 0 = 0; contains x = 0"},
    /* x is renewed where it stands, and is moved with the stamp that it has now, and not with the
     * one that the search has read, of which the period may have left the window as well. */
    {"a_renewed_entry_is_moved_with_its_new_stamp", ALL_MOVES, "window_path_planned",
     "each 0..1; a: add z @*; add x; lanes 0 = 0; periods %; a = OK; lanes 0 = 1;"
     "contains x = 1; advance_unless %; contains x = 1; advance; contains x = 0"},
    {"a_move_takes_no_other_key", CUCKOO_MOVES | COUNTED_MOVES, "window_path_planned",
     "a: add z @*; replace; a = FULL; lanes 0 = 0; contains y = 1"},

    /* The entry counts its own copies, and takes them along. */
    {"a_count_notices_a_move", COUNTED_MOVES, "window_lower_read",
     "add x*2; a: copies x @*; add z; lanes 0 = 1; a = 3; has_retried = 1; copies x = 3"},
    {"a_moved_key_has_its_present_copies", COUNTED_MOVES, "window_path_planned",
     "note; a: add z @*; add x*3; a = OK; lanes 0 = 1; copies x = 4; more count = 4"},
    {"a_moved_key_has_its_present_copies", COUNTED_MOVES, "window_path_planned",
     "add x*3; a: add z @*; remove x*2; a = OK; lanes 0 = 1; copies x = 2"},
    {"a_copy_is_not_removed_during_a_move", COUNTED_MOVES,
     "window_entry_copied window_version_bumped",
     "add x*2; note; a: add z @*; copies x = 3; b: remove x; c: copies x; a b c = OK OK 3;"
     "lanes 0 = 1; copies x = 2; more count = 0"},
    {"a_copy_is_not_removed_during_a_move", COUNTED_MOVES,
     "window_entry_copied window_version_bumped",
     "a: add z @*; b: remove x; returned = 0; a b = OK OK; lanes 0 = 0; copies x = 0"},
    {"a_move_waits_for_a_remove", COUNTED_MOVES, "window_home_found window_lane_written",
     "add x; a: remove x @*; b: add z; a b = OK OK; lanes 0 = 1; copies x = 1; contains z = 1"},
    {"a_move_waits_for_a_remove", COUNTED_MOVES, "window_home_found window_lane_written",
     "a: remove x @*; b: add z; a b = OK OK; lanes 0 = 0; copies x = 0; contains z = 1"},
    {"a_remove_finds_its_key_under_its_stripes", COUNTED_MOVES, "window_stripes_wanted",
     "a: remove x @*; add z; lanes 0 = 1; a = OK; lanes 0 = 0; copies x = 0; contains z = 1"},
    {"nothing_is_moved_around_a_copy", COUNTED_MOVES, "window_words_copied",
     "add x*2; a: save @*; b: add z; a b = OK OK; loaded x = 3; copies x = 3; contains z = 1"},

    /* Saves.  L0 has been copied, and U0 has not, when an add would move x from U0 to L0.  It
     * waits, as does an end of a period, but no renewal. */
    {"nothing_is_moved_around_a_copy", MOVE_KEYS, "window_words_copied",
     "a: save @*; b: add z; c: advance; contains x = 1; add x; a b c = OK OK OK; loaded x = 1;"
     "contains x = 1; contains z = 1"},
    {"a_copy_waits_for_a_move", MOVE_KEYS | ONE_STRIPE_MOVES, "window_entry_copied",
     "a: add z @*; b: save; a b = OK OK; loaded x = 1; lanes 0 = 1; contains x = 1;"
     "contains z = 1"},
    /* The first bucket has been copied when its key is removed, and comes back to the other
     * bucket. */
    {"a_copy_of_a_segment_has_a_key_once", FIXED_CUCKOO | COUNTED, "window_words_copied",
     "choose; add x; lanes 0 = 1; a: save @*; remove x; add y; add x; upper_lanes x = 1; a = OK;"
     "loaded x = 1"},
    /* Another key takes its lane, with more copies. */
    {"a_copied_count_is_that_of_its_entry", FIXED_CUCKOO | COUNTED, "window_words_copied",
     "choose; add x*3; lanes 0 = 1; a: save @*; remove x*3; lanes 0 = 0; add y*5; lanes 0 = 1;"
     "a = OK; loaded x = 3"},
    /* The header is made, and then the oldest layer leaves. */
    {"a_save_has_all_layers_of_its_header", THREE_PERIODS, "window_described",
     "grow 2; advance; grow 3; a: save @*; periods 3; layers = 2; a = OK; last_keys x = 1"},

    /* Layers.  A unique add has chosen the stripes of the only one; the key is won in the next
     * one. */
    {"a_layer_that_is_opened_meanwhile_is_noticed", GROWABLE, "window_stripes_wanted",
     "a: unique 7 @*; open; unique 7; a = PRESENT; count = 1"},
    {"a_remove_looks_in_a_layer_that_is_opened_meanwhile", GROWABLE_CUCKOO, "window_stripes_wanted",
     "a: remove 7 @*; open; add 7; a = OK; count = 0"},
    /* A layer that is not published yet is in no look-up's way. */
    {"a_period_ends_while_a_layer_is_opened", GROWABLE,
     "window_layer_wanted window_layer_linked window_layer_published",
     "add 7; a: open @*; advance; contains 7 = 1; add 8; a = OK; layers = 2; contains 7..8 = 1;"
     "advance; contains 7 = 0; contains 8 = 1; periods 3; contains 8 = 0; layers = 1"},
    /* The key comes to the older layer, which does not leave before it is forgotten. */
    {"a_layer_stays_for_an_add_that_is_late", GROWABLE, "window_epoch_read_locked",
     "a: add 7 @*; open; a @window_lane_written; b: advance; a b = OK OK; contains 7 = 1;"
     "advance; contains 7 = 1; advance; contains 7 = 0; periods 2; contains 7 = 0; layers = 1"},
    /* The sweep has passed the only layer, which is empty.  Then a key comes to it, and the next
     * layer is opened.  The sweep knows nothing of that key. */
    {"a_layer_that_is_closed_during_a_sweep_stays", GROWABLE, "window_published",
     "hold_last; a: advance @*; a @stripe_wait; add 7; open; free; a = OK; contains 7 = 1;"
     "layers = 2; advance; contains 7 = 1; layers = 2; advance; contains 7 = 0; layers = 1"},
    /* Moves that were planned before could carry an entry around a sweep. */
    {"nothing_is_moved_in_a_closed_layer", GROWABLE, "window_move_wanted",
     "need_room; a: evict @*; changed = 1; layers = 1; open; a = OK; changed = 0"},
    /* Each layer has other ones. */
    {"an_add_holds_the_stripes_of_both_buckets_in_each_layer", GROWABLE, "window_epoch_read_locked",
     "open; a: add 7 @*; held_stripes 7 = 4; a = OK"},
    {"one_of_two_threads_opens_a_layer", GROWABLE, "window_layer_linked",
     "a: open @*; b: open; a b = OK OK; layers = 2; growths = 1"},
    {"a_layer_is_opened_once", GROWABLE, NULL, "open; open; layers = 2"},

    /* Layers that leave.  A look-up is in its read section, and has read a bucket of one.  (It
     * came to the hook on the straight path before.) */
    {"a_look_up_keeps_a_layer_that_leaves", ALL_GROWN, "window_lower_read#2",
     "a: contains 7 @*; let_leave; held = 1; a = 0; released"},
    /* The add waits for its stripes in no read section. */
    {"an_add_notices_that_its_layers_have_left", ALL_GROWN, "window_stripes_wanted",
     "a: add 7 @*; let_leave; released; a = OK; contains 7 = 1"},
    {"moves_end_when_their_layer_has_left", ALL_GROWN,
     "window_room_wanted window_path_planned window_move_wanted",
     "a: keys 2000 @*; let_leave; released; a = OK; last_keys 1000 = 1"},
    {"a_union_outlives_the_layer_it_copies", ALL_GROWN, "window_epoch_read_locked",
     "grow_from; advance; advance_from 1; give 7; a: merge @*; let_from_leave; a = OK;"
     "contains 7 = 1"},
    /* More is saved than is written at once. */
    {"a_save_outlives_layers", ALL_GROWN, NULL,
     "keys 500000; save_and_let_leave; other count = 0..1"},
    /* One waits for a reader, and max_bytes leaves no memory for a count: of a further copy, of a
     * key that comes with copies in a union, or of an entry that must be moved.  When the reader is
     * gone, the next call has it, without an end of a period. */
    {"counts_find_memory_that_comes_free", GROWN_CUCKOO, "window_lower_read#2",
     "released; a: contains 7 @*; let_leave; held = 1; add 7; limit; add 7 = FULL; a; await_grace;"
     "add 7"},
    {"counts_find_memory_that_comes_free", GROWN_CUCKOO, "window_lower_read#2",
     "give 8*2; released; a: contains 7 @*; let_leave; held = 1; add 7; limit; merge = FULL; a;"
     "await_grace; merge"},
    {"counts_find_memory_that_comes_free", GROWN_CUCKOO, "window_lower_read#2",
     "released; a: contains 7 @*; let_leave; held = 1; add 7; need_moves; limit; add y = FULL; a;"
     "await_grace; add y"},

    /* Copies.  Both have found the last one, or the second one waits until the first one has taken
     * it. */
    {"a_copy_is_removed_once", CUCKOO | COUNTED, "window_home_found",
     "add 7; a: remove 7 @*; b: remove 7; a b = OK ABSENT; copies 7 = 0; count = 0"},
    {"a_copy_is_removed_once", CUCKOO | COUNTED, "window_home_found",
     "add 7*2; a: remove 7 @*; b: remove 7; a b = OK OK; copies 7 = 0; count = 0"},
    /* The key has a stamp of its own.  A unique add takes no stripe. */
    {"a_key_is_won_again_when_it_has_been_removed", CUCKOO, "window_home_found",
     "add 7; periods 2; add 7; a: remove 7 @*; unique 7 = PRESENT; b: add 7; returned = 0;"
     "a b = OK OK; copies 7 = 1"},
    /* 8 is added in the lane that is to be swept. */
    {"a_key_that_is_not_swept_yet_is_absent", CUCKOO, "window_published",
     "add 7..8*3; advance; a: advance @*; copies 7 = 0; remove 7 = ABSENT; add 8; copies 8 = 1;"
     "add 8; a = OK; copies 8 = 2; count = 2"},
    {"counts_are_changed_under_their_lock", CUCKOO, NULL,
     "add 7*3; advance; hold_counts 7; a: add 7; returned = 0; free_counts; a = OK;"
     "hold_counts 7; a: copies 7; returned = 0; free_counts; a = 4; hold_counts 7; a: remove 7;"
     "returned = 0; free_counts; a = OK; advance; hold_counts 7; a: advance; returned = 0;"
     "free_counts; a = OK; copies 7 = 0; count = 0"},
    /* There is none for a layer. */
    {"memory_for_counts_is_counted_before_it_is_allocated", GROWABLE_CUCKOO, "memory_counted",
     "add 7; note; a: add 7 @*; more_bytes = 1; limit; open = FULL; end_limit; a = OK;"
     "copies 7 = 2"},

    /* Unions.  One is about to write the key. */
    {"a_union_and_a_unique_add_have_one_winner", ALL | COUNTED, "window_epoch_read_locked",
     "give 7; a: merge @*; b: unique 7; a b = OK PRESENT; count = 1"},
    {"a_union_adds_nothing_to_a_layer_that_is_closed", GROWABLE,
     "window_words_copied window_stripes_wanted",
     "give 7; a: merge @*; open; a = FULL; contains 7 = 0; count = 0; advance; layers = 1"},
    /* Keys of the last age are forgotten at once, and younger ones a period later. */
    {"a_union_that_meets_the_end_of_a_period_leaves_no_dead_key", ALL, "window_epoch_read_locked",
     "give 7; a: merge @*; b: advance; a b = OK OK; copies 7 = 1; advance; copies 7 = 0;"
     "count = 0; periods 3; count = 0"},
    {"a_union_that_meets_the_end_of_a_period_leaves_no_dead_key", ALL, "window_epoch_read_locked",
     "give 7; advance_from 1; a: merge @*; b: advance; a b = OK OK; copies 7 = 0; advance;"
     "copies 7 = 0; count = 0; periods 3; count = 0"},
    /* The sweep of a jump has left the stripe. */
    {"a_union_beside_a_jump_brings_nothing_back", FOUR_PERIODS, "window_block_swept",
     "each 2..4; give 7; advance_from 4; a: jump % @*; merge; a = OK; contains 7 = 0"},
};

/* ---- races of other forms ---- */

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
    refused_meanwhile += tamis_add_hash(f, key * HASH_MULTIPLIER) == TAMIS_EFULL;
}

/* The rate leaves room for two layers.  While they are full, an add is refused; when the first one
 * has left, there is room for another. */
TEST(a_layer_that_leaves_makes_room)
{
  void (*installed)(const char *) = atomic_load(&tamis__hook);
  tamis_options options = window_options(TAMIS_BLOOM, 1, 2000, 0.01, true);
  double low = 1e-12, high = 0.01;
  for (unsigned i = 0; i < 60; i++) {
    uint64_t bytes;
    options.fpp = (low + high) / 2;
    *(tamis_bytes_for(&options, &bytes) == TAMIS_OK ? &high : &low) = options.fpp;
  }
  options.fpp = 1.2 * high;
  tamis_filter *f = make_with_options(&options);
  uint64_t key = 0;
  while (stats_of(f).layers == 1)
    assert_int_equal(tamis_add_hash(f, key++ * HASH_MULTIPLIER), TAMIS_OK);
  /* The second layer gets no key of the first period that stays. */
  advance(f, 1);
  for (unsigned refused = 0; refused < 3000;)
    refused += tamis_add_hash(f, key++ * HASH_MULTIPLIER) == TAMIS_EFULL;
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

static const tamis_kind kinds[] = {TAMIS_BLOOM, TAMIS_CUCKOO};

static tamis_filter *make_grown(tamis_kind kind)
{
  tamis_options options = window_options(kind, 1, 100, 0.0001, true);
  tamis_filter *f = make_with_options(&options);
  prepare_grown(f, 0);
  return f;
}

/* A look-up is held in its read section. */
static void hold_in_layers(struct call *look)
{
  schedule_stop_at_nth("window_lower_read", 2); /* the first one is on the straight path */
  start(look);
  schedule_wait("window_lower_read", 2);
  schedule_pass_by();
}

/* The result of an add.  Each layer that has left has a grace period of its own, and on a busy machine the
 * memory of one may come free later than that of another. */
static int add_patiently(tamis_filter *f, uint64_t hash)
{
  int result = TAMIS_EFULL;
  AWAIT((result = tamis_add_hash(f, hash)) != TAMIS_EFULL);
  return result;
}

/* Layers wait for a reader, and a larger one has no room within max_bytes.  When the reader is
 * gone, the next add has room, without an end of a period.  It holds no lock while it releases. */
TEST_WITH_THREADS(memory_that_comes_free_is_room_at_once)
{
  static const unsigned refusals[] = {1, 1, 200}; /* after many, the segment is known to be full */
  for (unsigned i = 0; i < 2; i++) {
    uint64_t limit = 0;
    for (unsigned round = 0; round < 3; round++) {
      tamis_options options = window_options(kinds[i], 1, 100, 0.0001, true);
      options.max_bytes = limit;
      tamis_filter *f = make_with_options(&options), *other = make_grown(kinds[i]);
      struct call look = {.filter = f, .hash = 7, .function = call_contains},
                  last = {.filter = f, .function = add_patiently};
      next_key = 1;
      add_keys(f, 8000);
      const uint64_t most = stats_of(f).bytes;
      if (round) {
        hold_in_layers(&look);
      }
      advance(f, 2);
      if (round)
        assert_true(do_held(f, 0));
      else
        await_release(f, 0);
      const unsigned long changes = window_of(f)->changes;
      for (unsigned refused = 0; refused < refusals[round] && window_of(f)->changes == changes;) {
        last.hash = next_key++ * HASH_MULTIPLIER;
        refused += tamis_add_hash(f, last.hash) == TAMIS_EFULL;
      }
      if (!round)
        limit = stats_of(f).bytes > most ? stats_of(f).bytes : most;
      if (round) {
        assert_int_equal(window_of(f)->changes, changes);
        go_on(&look);
        let_leave(other, 0);
        await_release(other, 0); /* its grace period has begun later, and is over */
        stop_at(&last, "window_layer_released");
        assert_false(lock_is_held(&window_of(f)->opening));
        assert_int_equal(go_on(&last), TAMIS_OK);
        for (unsigned n = 0; n < 400; n++)
          assert_true(add_patiently(f, next_key++ * HASH_MULTIPLIER) >= 0);
      }
      assert_valid(f);
      tamis_destroy(other);
      tamis_destroy(f);
    }
  }
}

int main(void)
{
  return run_schedules(setups, rows, sizeof rows / sizeof *rows);
}
