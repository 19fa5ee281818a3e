/* SPDX-License-Identifier: MIT
 *
 * Splits, joins, drops and new generations under writers.
 */
#include "cuckoo_schedule.h"

#include "cuckoo/generation.h"

/* ---- filters ---- */

/* Some pairs, such as LOWER and UPPER, have both their buckets under one stripe. */
STEP(use_few_stripes, n)
{
  small.geometry.stripe_mask = cuckoo_of(f)->first.geometry.stripe_mask = 3;
}

static const struct setup setups[] = {
    {"tiny", SMALL_FILTER(64 / LANES, 0.5, 1, 1), .finish = finish_small},
    {"of few stripes", SMALL_FILTER(64 / LANES, 0.5, 1, 1), .prepare = use_few_stripes,
     .finish = finish_small},
    {"with arrays", SMALL_FILTER(64 / LANES, 0.5, 1, 3), .finish = finish_small},
    {"of two roots, without splits", SMALL_FILTER(64 / LANES, 0.5, 2, 0), .finish = finish_small},
    {"usual", .kind = TAMIS_CUCKOO, .capacity = 100},
};
enum { TINY = 1, FEW_STRIPES = 2, ARRAYS = 4, ROOTS = 8, USUAL = 16 };

/* ---- verbs ---- */

/* All keys that verbs have added. */
DEED(there, n)
{
  for (unsigned i = 0; i < small.n; i++)
    assert_true(tamis_contains_hash(f, small.in[i]));
}

/* x has the buckets of one stripe. */
DEED(x_of_stripe, bucket)
{
  stage.x = hash_at(&small, (uint32_t) bucket, (uint32_t) bucket + 4);
}

VERB(backlog, n)
{
  return cuckoo_growth(cuckoo_of(f))->backlog.held > 0;
}

/* Parts of the directory: 0 is all of it, 10 and 11 are its halves, and 20 to 23 its quarters. */
static bool is_in_part(uint64_t hash, uint64_t part)
{
  return index_of(&small, hash) >> (small.geometry.depth_limit - part / 10) == part % 10;
}

/* A new hash of a key of a part. */
static uint64_t hash_in_part(uint64_t part)
{
  uint64_t hash;
  do
    hash = hash_at(&small, LOWER, UPPER);
  while (!is_in_part(hash, part));
  return hash;
}

DEED(x_in_part, part)
{
  stage.x = hash_in_part(part);
}

DEED(y_in_part, part)
{
  stage.y = hash_in_part(part);
}

/* Adds keys of both halves in turn. */
DEED(fill_halves, keys)
{
  for (uint64_t i = 0; i < keys; i++)
    add(&small, hash_in_part(10 + i % 2));
}

/* Adds keys of a part until their segment splits. */
DEED(split_part, part)
{
  const uint64_t before = stats_of(f).growths;
  while (stats_of(f).growths == before)
    add(&small, hash_in_part(part));
}

/* Removes them until two segments join. */
DEED(join_part, part)
{
  const uint64_t before = stats_of(f).joins;
  for (unsigned i = small.n; i-- > 0 && stats_of(f).joins == before;)
    if (is_in_part(small.in[i], part))
      take(&small, small.in[i]);
  assert_int_equal(stats_of(f).joins, before + 1);
}

/* Of the array's 2^k entries; 0: the root leads to a segment. */
VERB(array, n)
{
  return (int) directory_depth(directory_load(root_entry(&cuckoo_of(f)->first, 0)));
}

/* The row's numbers stand for a look-up, an add and a remove. */
VERB(call, hash)
{
  return stage.value == 0   ? !tamis_contains_hash(f, hash)
         : stage.value == 1 ? tamis_add_hash(f, hash)
                            : tamis_remove_hash(f, hash);
}

DEED(time, ns)
{
  const struct counters counters = generation_counters(&cuckoo_of(f)->first);
  tamis__counter_raise(&counters, LONGEST_GROWTH, ns);
}

/* What comes with the first growth, so that the next step is a split. */
VERB(provide, n)
{
  return tamis__growth_provide(cuckoo_of(f));
}

/* The test's own locks: of growth in the first root, and of what opens generations. */
static struct growth_stripes growth_held;

DEED(hold_growth, n)
{
  growth_held = growth_lock(cuckoo_of(f), &cuckoo_of(f)->first, 0, 0);
}

DEED(free_growth, n)
{
  growth_unlock(growth_held);
}

DEED(hold_opening, n)
{
  lock_take(&cuckoo_growth(cuckoo_of(f))->opening);
}

DEED(free_opening, n)
{
  lock_release(&cuckoo_growth(cuckoo_of(f))->opening);
}

DEED(take_nth, n)
{
  take(&small, small.in[n]);
}

/* Waits until a call has returned, or has tried so often. */
DEED(await_tries, n)
{
  schedule_wait_either("call_returned", 1, "cuckoo_pair_found", (unsigned) n);
}

VERB(has_segment, root)
{
  return directory_load(root_entry(&cuckoo_of(f)->first, root)) != NULL;
}

/* The next add needs the first split, and max_bytes has room for what comes with it once only. */
DEED(need_first_growth, n)
{
  struct cuckoo *c = cuckoo_of(f);
  const struct cuckoo_geometry *g = &c->first.geometry;
  c->max_bytes = c->bytes;
  while (tamis_add_hash(f, stage.x) == TAMIS_OK)
    stage.x++;
  assert_int_equal(tamis_remove_hash(f, 0), TAMIS_OK); /* it is not known to be full */
  assert_int_equal(tamis_add_hash(f, 0), TAMIS_OK);
  c->max_bytes = c->bytes + sizeof(struct cuckoo_growth) + 2 * cuckoo_segment_bytes(g) +
                 directory_array_bytes(1);
}

/* ---- schedules ---- */

static const struct row rows[] = {
    /* Splits.  A writer has found its segment, which then splits.  No reader would find what it
     * wrote there. */
    {"a_split_under_a_writer", TINY, "cuckoo_pair_found",
     "x_at 26; a: add x @*; split; a = OK; contains x = 1"},
    /* The second time, it is about to take both stripes. */
    {"a_split_under_a_writer", TINY, NULL,
     "x_at 26; add x; a: add x @cuckoo_pair_found#2; split; a = OK; copies x = 2"},
    /* One that comes while its segment is copied waits, whichever its stripe is, and adds to the
     * new one. Readers do not wait. */
    {"a_writer_while_a_segment_is_copied", FEW_STRIPES, "cuckoo_split_copied",
     "each 0..3; fill 158; y_at 15; x_of_stripe %; a: add y @*; b: add x; there; a b = OK OK;"
     "contains x = 1"},
    {"a_writer_while_a_segment_is_copied", FEW_STRIPES, "cuckoo_split_copied",
     "each 0..3; fill 158; y_at 15; x_of_stripe %; a: add y @*; b: unique x; there; a b = OK OK;"
     "contains x = 1"},
    /* While directory entries still lead to a segment, it may not even begin to wait for readers:
     * those that come later find it, too. */
    {"a_segment_is_retired_when_it_has_left", TINY, "cuckoo_directory_published",
     "fill 158; x_at 15; a: add x @*; backlog = 0; a = OK; growths = 1"},
    /* The filter has no growth before.  The first split is made under growth stripes all the
     * same. */
    {"two_adds_of_a_first_growth_split_once", TINY, NULL,
     "fill 158; x_at 15; y_at 15; a: add x @cuckoo_split_copied#1; b: add y; a b = OK OK;"
     "growths = 1"},
    /* What comes with it is made for a union, when an add needs it for a split.  The add waits for
     * that.  (If it made it, too, it would pass.) */
    {"a_first_growth_under_a_union", USUAL, NULL,
     "need_first_growth; a: merge @cuckoo_growth_made#1; b: add x; a b = OK OK; growths = 1"},
    /* A longer step ends while one has read the longest time, and has not written its own yet. */
    {"a_longer_step_meanwhile_is_kept", TINY, "counter_read",
     "a: time 5 @*; time 7; a = OK; longest_growth_ns = 7"},

    /* Arrays of the directory. */
    {"an_array_is_as_large_as_needed", ARRAYS, NULL,
     "split_part 0; array = 1; split_part 10; array = 2; split_part 11; array = 2; join_part 10;"
     "array = 2; join_part 11; array = 1; join_part 0; array = 0"},
    /* A call has read the word of the root, and not yet the array, which is then replaced.  After
     * that the segment of x splits and is joined, and a copy of x comes and goes. */
    {"an_array_is_doubled_under_a_call", ARRAYS, "cuckoo_root_read",
     "each 0..2; x_in_part 21; add x; split_part 0; array = 1; a: call x @*; split_part 11;"
     "array = 2; split_part 10; add x; remove x; join_part 10; a = OK; drain"},
    {"an_array_is_halved_under_a_call", ARRAYS, "cuckoo_root_read",
     "each 0..2; x_in_part 21; add x; split_part 0; split_part 11; array = 2; a: call x @*;"
     "join_part 11; array = 1; split_part 10; add x; remove x; join_part 10; a = OK; drain"},
    {"an_array_becomes_a_segment_under_a_call", ARRAYS, "cuckoo_root_read",
     "each 0..2; x_in_part 21; add x; split_part 0; array = 1; a: call x @*; join_part 0;"
     "array = 0; split_part 0; add x; remove x; join_part 0; a = OK; drain"},
    /* Two adds need splits of two segments of a root.  One is about to publish its children when
     * the other one comes, whose larger array has them. */
    {"two_splits_double_an_array_once", ARRAYS, NULL,
     "fill_halves 16; array = 1; x_in_part 10; y_in_part 11; a: add x @cuckoo_split_copied#1;"
     "b: add y; a b = OK OK; array = 2; growths = 3"},

    /* Growth stripes.  Two threads find a segment full.  One of them splits it; the pair that the
     * other one has found is stale.  The holder of the stripe may rely on the segment. */
    {"two_adds_split_a_segment_once", TINY, NULL,
     "provide; fill 158; x_at 15; y_at 15; hold_growth; a: add x; b: add y; growths = 0; "
     "free_growth;"
     "a b = OK OK; growths = 1"},
    /* A key is removed when an add that has found no room is about to split. */
    {"room_is_made_before_a_split", TINY, NULL,
     "provide; fill 158; x_at 15; hold_growth; a: add x; unfill 1; free_growth; a = OK;"
     "growths = 0"},
    /* A lane that an eviction can reach becomes free when an add that has found no path is about to
     * split. A few tries are enough. */
    {"a_path_opens_before_a_split", TINY, NULL,
     "provide; fill 252; fill 267; fill 161; fill 156; x_at 15; hold_growth; a: add x; take_nth 4;"
     "count = 15; free_growth; await_tries 50; returned = 1; a = OK; growths = 0"},
    /* A remove would join two segments. */
    {"a_join_waits_for_growth", TINY, NULL,
     "split; hold_growth; a: join; joins = 0; free_growth; a = OK; joins = 1"},

    /* Joins. */
    {"a_join_under_a_writer", TINY, "cuckoo_pair_found",
     "each 10..11; x_in_part %; split; a: add x @*; join; a = OK; contains x = 1"},
    /* The sibling of an empty segment has split: the segment must not be joined with one half of
     * it. */
    {"a_join_needs_a_whole_sibling", ARRAYS, NULL,
     "x_in_part 10; add x; split_part 11; split_part 11; generations = 1; remove x; joins = 0"},

    /* New generations.  A writer has found its pair when one opens: an older one takes no more
     * entries. */
    {"a_new_generation_under_a_writer", TINY, "cuckoo_pair_found",
     "x_at 26; split; a: add x @*; open; a = OK; in_home x = 0; in_upper x = 0"},
    /* The second time, it is about to take both stripes. */
    {"a_new_generation_under_a_copy", TINY, "cuckoo_pair_found",
     "x_at 26; split; add x; a: add x @cuckoo_pair_found#2; open; entries 1 = 1; a = OK;"
     "entries 1 = 2; copies x = 2"},
    /* Two threads find their segments full, which may not split: one of them opens a generation for
     * both. */
    {"two_adds_open_one_generation", ROOTS, NULL,
     "fill 158; fill 1158; x_at 15; y_at 115; hold_opening; a: add x; b: add y;"
     "free_opening; a b = OK OK; generations = 2"},
    /* The first key of a root is about to get a segment when a generation opens: the key goes
     * there. */
    {"a_new_generation_while_a_segment_is_made", ROOTS, NULL,
     "lose 1; x_at 115; hold_opening; a: add x; open_bare; free_opening; a = OK;"
     "has_segment 1 = 0"},
};

/* ---- drops ---- */

/* A segment of the first generation is empty and about to be dropped.  Before all its stripes
 * are locked, another thread adds a key to it, as adds do that find no room anywhere else. */
TEST_WITH_THREADS(an_entry_comes_before_a_drop)
{
  struct tiny t = make_with(16, 1e-5, 1, 0);
  struct generation *first = cuckoo_generation(cuckoo_of(t.filter), 0);
  open_generation(&t);
  while (cuckoo_count(first, ENTRIES) > 1)
    take(&t, t.in[0]);
  uint64_t last = t.in[0];
  uint64_t key = hash_at(&t, HOME, OTHER_UPPER);
  struct bucket_pair pair = pair_find(first, hash_mix(&t.keys, key));
  assert_true(pair.segment && pair_find(first, hash_mix(&t.keys, last)).segment == pair.segment);
  struct stripe *stripe = stripe_of_bucket(&t.geometry, pair.segment, HOME);
  struct call remover = call_of(&t, tamis_remove_hash, last);
  schedule_stop_at("no point");
  stripe_lock(stripe);
  start_beside(&remover);
  word_store(&segment_words(&t.geometry, pair.segment)[HOME], pair.entry);
  stripe_use(stripe, 1);
  cuckoo_count_change(first, ENTRIES, 1);
  stripe_unlock(stripe);
  assert_int_equal(finish(&remover), TAMIS_OK);
  expect_out(&t, last);
  expect_in(&t, key);
  assert_ptr_equal(directory_segment(directory_load(pair.own_entry)), pair.segment);
  finish_tiny(&t);
}

int main(void)
{
  return run_schedules(setups, rows, sizeof rows / sizeof *rows);
}
