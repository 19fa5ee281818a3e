/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the cuckoo filter, each replayed exactly: adds that meet, moves, copies that are
 * counted and folded, look-ups beside a move, a split or a join, and unions.  Built with the hooks.
 */
#include "cuckoo_schedule.h"

#include "cuckoo/segment.h"
#include "filter_unit.h"

/* ---- filters ---- */

/* The buckets LOWER and UPPER, of the second generation with n = 1, are full.  An add of z, a key
 * of that pair, moves the entry of x from UPPER to HOME.  With n = 2, UPPER is the other bucket of HOME
 * for an empty lane, too. */
static tamis_filter *make_to_push(const struct setup *setup)
{
  small = setup->n == 1 ? make_tiny_with_two(64 / LANES) : make_tiny(64 / LANES);
  const uint32_t half = (uint32_t) cuckoo_buckets(&small.geometry) / 2;
  const uint32_t upper = half + (setup->n == 2 ? HOME : LOWER);
  /* New entries go into the emptier bucket, or the lower one. */
  const uint64_t first_at_home = hash_at(&small, HOME, half + HOME);
  add(&small, first_at_home);
  stage.x = hash_at(&small, HOME, upper);
  add(&small, stage.x);
  take(&small, first_at_home);
  assert_true(stands_in_bucket(&small, stage.x, upper));
  assert_false(stands_in_bucket(&small, stage.x, HOME));
  add_at(&small, LOWER, upper, 2U * small.geometry.shape.lanes - 1);
  stage.z = hash_at(&small, LOWER, upper);
  return small.filter;
}

static const struct setup setups[] = {
    {"tiny", SMALL_FILTER(64 / LANES, 0.5, 1, 1), .finish = finish_small},
    {"pushed", .make = make_to_push, .finish = finish_small},
    {"pushed, second generation", .make = make_to_push, .n = 1, .finish = finish_small},
    {"usual", .kind = TAMIS_CUCKOO, .fpp = 0.01},
    {"usual, for ten", .kind = TAMIS_CUCKOO, .capacity = 10},
    {"of 32 bits", SMALL_FILTER(32, 0.5, 1, 1), .finish = finish_small},
    {"of 21 bits", SMALL_FILTER(21, 0.5, 1, 1), .finish = finish_small},
    {"pushed as an empty lane", .make = make_to_push, .n = 2, .finish = finish_small},
};
enum {
  TINY = 1,
  PUSHED = 2,
  PUSHED_IN_EITHER = 6,
  USUAL = 8,
  USUAL_FOR_TEN = 16,
  OF_32_BITS = 32,
  ALL_WIDTHS = 1 | 32 | 64,
  PUSHED_AS_EMPTY = 128
};

/* ---- verbs ---- */

/* HOME becomes full. */
DEED(fill_home, n)
{
  const struct cuckoo_geometry *g = &small.geometry;
  add_at(&small, HOME, (uint32_t) cuckoo_buckets(g) / 2 + HOME, 2U * g->shape.lanes);
}

/* Removes keys of a usual filter, up to x. */
DEED(join_from, first)
{
  for (stage.x = first; stats_of(f).joins == 0; stage.x++)
    assert_int_equal(tamis_remove_hash(f, stage.x), TAMIS_OK);
}

VERB(batch, hash)
{
  return (int) tamis_contains_many_hash(f, &hash, 1, NULL);
}

static struct segment *first_segment(tamis_filter *f)
{
  return directory_segment(directory_at(cuckoo_generation(cuckoo_of(f), 0), 0));
}

VERB(used, n)
{
  return (int) tamis__segment_used(&small.geometry, first_segment(f));
}

VERB(fold, n)
{
  struct cuckoo *c = cuckoo_of(f);
  struct growth_stripes growth = growth_lock(c, &c->first, 0, 0);
  int result = tamis__fold(c, &c->first, first_segment(f));
  growth_unlock(growth);
  return result;
}

/* The test's own lock: of HOME, of the counts of a segment, or of all its buckets. */
static struct lock *held;

DEED(hold_home, n)
{
  lock_take(held = &stripe_of_bucket(&small.geometry, first_segment(f), HOME)->lock);
}

DEED(hold_counts, n)
{
  lock_take(held = &first_segment(f)->duplicates_lock);
}

DEED(free, n)
{
  lock_release(held);
}

DEED(hold_all, n)
{
  segment_lock_all(&small.geometry, first_segment(f));
}

DEED(free_all, n)
{
  segment_unlock_all(&small.geometry, first_segment(f));
}

/* Its entry leaves the older generation, and comes to the newer one. */
VERB(replace, hash)
{
  int result = tamis_remove_hash(f, hash);
  return result == TAMIS_OK ? tamis_add_hash(f, hash) : result;
}

/* The other filter gets keys, for which it has several generations.  x is in the first segment of
 * the first one. */
DEED(give_generations, keys)
{
  tamis_filter *from = stage_from();
  struct generation *older = &cuckoo_of(from)->first;
  older->split_limit = 5;
  add_range(from, 0, keys);
  assert_true(stats_of(from).generations > 1);
  while (pair_find(older, hash_mix(&from->keys, stage.x)).segment != first_segment(from))
    stage.x++;
  assert_true(stage.x < keys / 4);
}

/* ---- schedules ---- */

static const struct row rows[] = {
    /* Unique adds.  The second one must wait from the check of the first one, which has found the
     * key missing, until that has added it; a reader does not wait. */
    {"two_unique_adds", TINY, "cuckoo_unique_checked",
     "x_at 25; a: unique x @*; b: unique x; contains x = 0; a b = OK PRESENT; count = 1"},
    /* The second one would add in the new generation; it must wait for the first one in the
     * generation that both know. */
    {"two_unique_adds_and_a_new_generation", TINY, "cuckoo_unique_checked",
     "x_at 26; split; a: unique x @*; open; b: unique x; a b = OK PRESENT; copies x = 1"},
    /* It takes no lock. */
    {"a_unique_add_of_a_present_key_does_not_wait", TINY, "cuckoo_unique_checked",
     "x_at 25; y_at 25; add x; a: unique y @*; b: unique x; returned = 1; a b = OK PRESENT;"
     "count = 2"},
    /* The late add knows of one generation, and holds no stripe yet. */
    {"a_unique_add_that_knows_a_generation_too_few", TINY, "cuckoo_generations_read",
     "x_at 26; split; a: unique x @*; open; unique x; a = PRESENT; copies x = 1"},

    /* Plain adds, which take the stripe of the bucket that they write.  One has chosen a lane, but
     * holds no stripe yet, when another key takes that lane. */
    {"a_lane_is_taken_before_the_stripe", TINY, "cuckoo_place_chosen",
     "x_at 25; y_at 26; a: add x @*; add y; a = OK; contains x = 1; contains y = 1; count = 2"},
    {"an_add_waits_for_one_to_its_bucket", TINY, "cuckoo_place_checked",
     "x_at 25; y_at 26; a: add x @*; b: add y; a b = OK OK; contains x = 1; contains y = 1;"
     "count = 2"},
    {"an_add_waits_for_a_unique_one", TINY, "cuckoo_unique_checked",
     "x_at 25; a: unique x @*; b: add x; contains x = 0; a b = OK OK; copies x = 2"},
    /* It is about to write to HOME.  A writer of UPPER, its other bucket, does not wait. */
    {"an_add_holds_one_stripe", TINY, "cuckoo_place_checked",
     "x_at 25; y_at 15; a: add x @*; b: unique y; returned = 1; contains x = 0; a b = OK OK;"
     "contains x = 1; contains y = 1; count = 2"},
    /* It has found its key in neither bucket.  Before it takes the stripe of HOME, the key gets as
     * many lanes of UPPER as one key may have, while HOME becomes full and empty again: the fourth
     * copy is counted. */
    {"copies_come_to_the_other_bucket", TINY, "cuckoo_place_chosen",
     "x_at 25; a: add x @*; fill 168; fill 264; add x*3; unfill 4; in_upper x = 1; a = OK;"
     "in_home x = 0; copies x = 4"},

    /* Moves.  No thread stops: this is what the others build on. */
    {"a_key_is_pushed", PUSHED_IN_EITHER, NULL,
     "note; add z; in_home x = 1; in_upper x = 0; more growths = 0"},
    {"a_move_half_done", PUSHED_IN_EITHER, "cuckoo_entry_copied",
     "a: add z @*; contains x = 1; in_home x = 1; in_upper x = 1; a = OK; contains x = 1;"
     "copies x = 1; contains z = 1"},
    {"a_key_that_is_moved_is_counted_once", PUSHED, "cuckoo_entry_copied",
     "a: add z @*; b: copies x; a b = OK 1; contains z = 1"},
    /* A thread that holds a stripe may rely on its buckets: no entry is moved there. */
    {"a_move_waits_for_the_stripe_of_its_target", PUSHED, NULL,
     "hold_home; a: add z; in_home x = 0; free; a = OK; in_home x = 1; contains z = 1"},
    {"a_remove_of_a_key_that_moves", PUSHED_IN_EITHER, "cuckoo_entry_copied",
     "a: add z @*; b: remove x; a b = OK OK; contains x = 0; contains z = 1"},
    /* Plans that are out of date: another entry stands in the lane, or in the room; none does. */
    {"a_planned_entry_is_replaced", PUSHED, "cuckoo_path_planned path_found",
     "y_at 15; a: add z @*; remove x; add y; in_upper y = 1; a = OK; contains x = 0;"
     "contains y = 1; contains z = 1"},
    {"a_planned_entry_is_removed", PUSHED | PUSHED_AS_EMPTY, "cuckoo_path_planned path_found",
     "a: add z @*; remove x; a = OK; contains x = 0; contains z = 1"},
    {"planned_room_is_taken", PUSHED, "cuckoo_path_planned",
     "a: add z @*; fill 268; a = OK; contains x = 1; contains z = 1"},
    {"a_split_between_plan_and_move", PUSHED, "cuckoo_path_planned",
     "a: add z @*; split; a = OK; contains x = 1; contains z = 1"},

    /* Look-ups.  One has read the lower bucket, where x is not; then x moves there. */
    {"a_move_between_two_reads", PUSHED_IN_EITHER, "cuckoo_lower_read",
     "a: contains x @*; add z; a = 1; lookup_retries = 1"},
    {"a_move_between_two_reads_of_a_batch", PUSHED_IN_EITHER, "cuckoo_lower_read",
     "a: batch x @*; add z; a = 1; lookup_retries = 1"},
    {"a_move_between_two_reads_in_many_filters", PUSHED, "cuckoo_lower_read",
     "a: each_of_many x @*; add z; a = 1; lookup_retries = 1"},
    {"a_move_before_the_first_read", PUSHED_IN_EITHER, "cuckoo_versions_read",
     "a: contains x @*; add z; in_home x = 1; a = 1; lookup_retries = 0"},
    /* Between two reads the key moves, and is pushed back: the words have not changed. */
    {"moves_there_and_back", PUSHED_IN_EITHER, "cuckoo_versions_read",
     "note; a: contains x @*; add z; in_home x = 1; remove z; fill_home; more growths = 0; a = 1"},
    /* One that is inside a segment while that splits, or is joined, goes on in the old one, which
     * is still there and right. */
    {"a_split_under_a_reader", PUSHED, "cuckoo_lower_read",
     "a: contains x @*; split; a = 1; contains x = 1"},
    {"a_join_under_a_reader", TINY, "cuckoo_lower_read",
     "fill 251; x_at 26; add x; split; a: contains x @*; join; a = 1; contains x = 1"},

    /* Copies.  While a segment splits, they are in it and in its successors. */
    {"a_segment_that_splits_is_counted_once", TINY, "cuckoo_split_copied",
     "x_at 26; y_at 15; add x*4; fill 158; note; a: add y @*; b: copies x; a b = OK 4;"
     "more growths = 1; contains y = 1"},
    /* The counts of a segment belong to keys of other pairs and stripes, too. */
    {"counts_are_read_under_their_lock", TINY, NULL,
     "x_at 25; add x*4; hold_counts; a: copies x; returned = 0; free; a = 4"},
    {"copies_are_counted_under_their_lock", TINY, NULL,
     "x_at 25; add x*4; hold_counts; a: add x; returned = 0; count = 4; free; a = OK; hold_counts;"
     "a: remove x; returned = 0; count = 5; free; a = OK; copies x = 4"},
    {"an_absent_key_waits_for_nobody", TINY, NULL,
     "x_at 25; y_at 25; add x; hold_all; copies y = 0; free_all"},
    /* The copy in the upper bucket is folded between the two reads of a look-up.  Another copy has
     * come to the lower bucket after the first read.  (All entries of these three buckets have both
     * their buckets among them, so there is no path to room.) */
    {"a_copy_is_folded_between_two_reads", TINY, "cuckoo_lower_read",
     "y_at 25; x_at 25; add y; add x; remove y; in_upper x = 1; fill 253; fill 156; fill 251;"
     "a: contains x @*; add x; in_home x = 1; fold; in_upper x = 0; a = 1; copies x = 2"},
    /* Copies are folded under the stripes of their own pair, whichever key needs room. */
    {"folding_waits_for_a_writer", TINY, NULL,
     "x_at 25; add x*2; fill 253; fill 157; used = 12; hold_home; a: fold; used = 12; free; a = OK;"
     "used = 11; copies x = 2"},

    /* A key is replaced.  There are never more copies than two: the remove takes the older one,
     * which knows more.  (One key has opened the second generation.) */
    {"all_generations_are_counted_at_one_moment", OF_32_BITS, "cuckoo_pair_counted",
     "x_at 26; add x; open; add x; entries 1 = 2; a: copies x @*; b: replace x; a b = 2 OK;"
     "entries 1 = 3"},
    /* However often a key is added, another key of its pair finds lanes. */
    {"copies_leave_room_for_another_key", ALL_WIDTHS, NULL,
     "x_at 25; add x*10; fill 252; growths = 0; remove x*10"},

    /* Unions.  One has found the segment for an entry when that joins its sibling: the union begins
     * again at the directory. */
    {"a_segment_leaves_before_an_entry_comes", USUAL, "cuckoo_union_pair_found",
     "give 7; add 100..2999; a: merge @*; join_from 100; a = OK; contains x..2999 = 1;"
     "remove 7"},
    /* A unique add has missed a key under its stripes when a union brings it: the union waits, and
     * the key is in twice. */
    {"a_union_waits_for_a_unique_add", USUAL, "cuckoo_unique_checked",
     "give 7; a: unique 7 @*; b: merge; contains 7 = 0; a b = OK OK; count = 2; unique 7 = PRESENT;"
     "remove 7*2; remove 7 = ABSENT"},
    /* The first segment of an older generation has been copied when a key that has its entry there
     * is removed, and added again.  The new entry stands in the newest generation, and comes
     * later. */
    {"a_key_that_leaves_and_comes_again_comes_once", USUAL_FOR_TEN, "cuckoo_union_piece",
     "give_generations 4000; a: merge @*; take x; give x; a = OK; count = 4000; remove 0..3999;"
     "count = 0"},
};

/* ---- room ---- */

/* Three generations of one segment, all of them full. */
static struct tiny make_full(void)
{
  struct tiny t = make_with(16, 1e-5, 1, 0);
  struct cuckoo *c = cuckoo_of(t.filter);
  for (unsigned i = 0; i < 2; i++) {
    open_without_keys(&t);
    add(&t, ++t.last_hash); /* only the newest generation gets a segment */
  }
  c->max_bytes = c->bytes;
  for (unsigned refused = 0; refused < 1000; refused++) {
    uint64_t hash = ++t.last_hash;
    if (tamis_add_hash(t.filter, hash) == TAMIS_OK) {
      expect_in(&t, hash);
      refused = 0;
    }
  }
  return t;
}

/* Takes a key that has its entry in this generation. */
static uint64_t take_from(struct tiny *t, unsigned generation)
{
  uint64_t before = entries_of(t, generation);
  for (unsigned i = 0; i < t->n; i++) {
    uint64_t hash = t->in[i];
    assert_int_equal(tamis_remove_hash(t->filter, hash), TAMIS_OK);
    if (entries_of(t, generation) < before)
      return hash;
    assert_int_equal(tamis_add_hash(t->filter, hash), TAMIS_OK);
  }
  fail_msg("no key of generation %u", generation);
  return 0;
}

/* An add finds the only free lane, whichever generation has it. */
TEST(room_in_any_generation_is_found)
{
  struct tiny t = make_full();
  for (unsigned generation = 3; generation-- > 0;)
    for (unsigned unique = 0; unique < 2; unique++) {
      uint64_t entries = entries_of(&t, generation), hash = take_from(&t, generation);
      assert_int_equal((unique ? tamis_add_unique_hash : tamis_add_hash)(t.filter, hash), TAMIS_OK);
      assert_int_equal(entries_of(&t, generation), entries);
    }
  finish_tiny(&t);
}

int main(void)
{
  return run_schedules(setups, rows, sizeof rows / sizeof *rows);
}
