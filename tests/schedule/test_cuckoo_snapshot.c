/* SPDX-License-Identifier: MIT
 *
 * Snapshots of filters that change between the segments that are copied, and while one is.
 *
 * With one key all is said: its copies are added to and removed from the generations at certain
 * moments, and what the loaded filter has of them must be what the filter had at some moment.
 */
#include "cuckoo_schedule.h"

#include "cuckoo/generation.h"
#include "cuckoo/snapshot.h"
#include "saved_unit.h"

static const struct setup setups[] = {
    {"tiny", SMALL_FILTER(64 / LANES, 0.5, 1, 1)},
    {"with arrays", SMALL_FILTER(64 / LANES, 0.5, 1, 3)},
    {"of two roots", SMALL_FILTER(64 / LANES, 0.5, 2, 1)},
    {"usual", .kind = TAMIS_CUCKOO, .capacity = 100},
};
enum { TINY = 1, ARRAYS = 2, ROOTS = 4, USUAL = 8 };

/* ---- verbs ---- */

/* Opens a generation whose entries know no more bits than those of the first one: of two that match, a
 * remove takes the older one. */
STEP(open_short, unused)
{
  struct cuckoo *c = cuckoo_of(f);
  struct cuckoo_geometry g = {.shape = {.width = 12, .ages = true},
                              .first_roots = small.geometry.first_roots,
                              .root_shift = 64 / LANES - 12,
                              .pair_bits = 2,
                              .depth_limit = 2,
                              .uneven_at = NEVER_UNEVEN,
                              .stripe_mask = 3,
                              .rate = 0.001};
  assert_true(cuckoo_geometry_restore(&small.geometry, &g));
  unsigned n = cuckoo_generations(c);
  int result;
  assert_int_equal(tamis__growth_provide(c), TAMIS_OK);
  struct generation *next = tamis__generation_create(c, &g, &result);
  assert_non_null(next);
  tamis__generation_append(c, next, n);
}
LISTED_DEED(open_short, open_short)

/* x is a key of a segment. */
DEED(x_of_segment, index)
{
  do
    stage.x = hash_at(&small, HOME, OTHER_UPPER);
  while (index_of(&small, stage.x) != index);
}

DEED(count_copies, n)
{
  cuckoo_of(f)->counts_copies = true;
}

DEED(split_until, n)
{
  while (stats_of(f).segments < n)
    split(&small);
}

/* With keys that nobody asks for. */
DEED(split_aside, n)
{
  const uint64_t before = stats_of(f).growths;
  while (stats_of(f).growths == before)
    assert_int_equal(tamis_add_hash(f, hash_at(&small, LOWER, UPPER)), TAMIS_OK);
}

static unsigned gone; /* so many of the keys, the first ones */

DEED(join_by_removes, n)
{
  const uint64_t before = stats_of(f).joins;
  for (gone = 0; gone < small.n && stats_of(f).joins == before; gone++)
    assert_int_equal(tamis_remove_hash(f, small.in[gone]), TAMIS_OK);
}

/* Takes all keys but so many. */
DEED(keep, n)
{
  while (small.n > n)
    take(&small, small.in[0]);
}

/* How many copies of a key can be removed from what has been loaded. */
VERB(saved, hash)
{
  int n = 0;
  while (tamis_remove_hash(stage.from, hash) == TAMIS_OK)
    n++;
  return n;
}

/* Nobody has touched the other keys: they are there, once, and nothing else is. */
VERB(saved_rest, n)
{
  for (unsigned i = 0; i < small.n; i++)
    assert_int_equal(tamis_remove_hash(stage.from, small.in[i]), TAMIS_OK);
  return (int) stats_of(stage.from).count;
}

/* Those that have been removed meanwhile may be there, and the others are. */
DEED(each_is_saved, n)
{
  for (unsigned i = 0; i < small.n; i++)
    assert_in_range(do_saved(f, small.in[i]), i >= gone, 1);
  gone = 0;
}

/* Saves the filter, of which another thread has another snapshot.  The key may have a copy
 * there. */
VERB(save_too, hash)
{
  tamis_filter *loaded = copy_of(f);
  const uint64_t copies = tamis_count_hash(loaded, hash), count = stats_of(loaded).count;
  tamis_destroy(loaded);
  return copies <= 1 && count == copies ? TAMIS_OK : TAMIS_PRESENT;
}

/* ---- schedules ---- */

static const struct row rows[] = {
    /* Several generations: things happen when so many of them, but for one, have been copied.  x
     * was in a generation that has been, and is in one that has not been. */
    {"a_key_is_removed_and_added_again", TINY, "cuckoo_snapshot_next#2",
     "x_at 26; add x; open_short; a: save @*; remove x; add x; a = OK; saved x = 0..1; saved_rest"},
    {"a_remove_takes_the_entry_of_an_older_generation", TINY, "cuckoo_snapshot_next#%",
     "each 1..2; x_at 26; add x; open_short; a: save @*; add x; remove x; entries 1 = 1; a = OK;"
     "saved x = 1..2; saved_rest"},
    /* At a limit, an add looks for room in the older generation, where x has been copied.  There is
     * some when the save is over. */
    {"an_add_falls_back_to_an_older_generation", TINY, "cuckoo_snapshot_next#2",
     "x_at 26; add x; open_short; a: save @*; limit; add x = FULL; a = OK; add x; remove x;"
     "saved x = 1; saved_rest"},
    {"a_unique_add_falls_back_to_an_older_generation", TINY, "cuckoo_snapshot_next#2",
     "x_at 26; add x; open_short; a: save @*; limit; remove x; unique x = FULL; a = OK;"
     "saved x = 0..1; saved_rest"},
    /* A copy is counted with an entry of an older generation. */
    {"a_copy_is_counted_in_an_older_generation", TINY, "cuckoo_snapshot_next#2",
     "x_at 26; add x; open_short; a: save @*; count_copies; add x; remove x; a = OK;"
     "saved x = 1..2; saved_rest"},
    /* The key moves to a generation that is opened meanwhile, or is added to it twice. */
    {"a_generation_is_opened", TINY,
     "cuckoo_snapshot_next#1 cuckoo_snapshot_next#2 cuckoo_snapshot_next#3",
     "each 0..1; split; x_of_segment %; add x; a: save @*; open_short; add x; remove x;"
     "entries 1 = 1; a = OK; saved x = 1..2; saved_rest"},
    {"a_generation_is_opened", TINY,
     "cuckoo_snapshot_next#1 cuckoo_snapshot_next#2 cuckoo_snapshot_next#3",
     "each 0..1; split; x_of_segment %; add x; a: save @*; open_short; remove x; add x*2; a = OK;"
     "saved x = 0..2; saved_rest"},
    /* What is noted of removes is no more than needed: a key that is final is not noted. */
    {"a_removed_key_is_final", TINY, "cuckoo_snapshot_next#2",
     "split; x_of_segment 0; add x; a: save @*; remove x; a = OK; saved x = 1; saved_rest"},
    {"a_removed_key_is_final", TINY, "cuckoo_snapshot_next#3",
     "x_at 26; open_short; add x; a: save @*; remove x; a = OK; saved x = 1; saved_rest"},
    {"two_saves_at_once", TINY, "cuckoo_snapshot_next#2",
     "x_at 26; add x; open_short; a: save_too x @*; b: save_too x @*; remove x; add x; a b = OK "
     "OK"},

    /* Splits and joins.  Nobody touches the keys that the filter has at first. */
    {"segments_split", ARRAYS, "cuckoo_snapshot_next#%",
     "each 1..3; split; split; a: save @*; split_aside; a = OK; each_is_saved"},
    /* What the file says of growth was written before.  The loaded filter has segments to join. */
    {"the_first_split_comes_in_a_save", USUAL, "cuckoo_snapshot_next#1",
     "add 0..99; a: save @*; add 100..399; a = OK; other growths = 0; other segments = 2..9;"
     "take 0..399; other segments = 1; other joins = 1..9"},
    /* All but the last pieces are of segments that have been there, and the rest of a joined
     * one. */
    {"segments_join", ARRAYS, "cuckoo_snapshot_next#%",
     "each 1..6; split_until 6; a: save @*; join_by_removes; a = OK; each_is_saved;"
     "other count = 0"},
    /* Of an older generation, segments that have been copied stay until the save is over. */
    {"joins_of_what_has_been_copied_are_put_off", TINY, "cuckoo_snapshot_next#3",
     "split; x_of_segment 0; add x; open_short; a: save @*; keep 1; joins = 0; a = OK; remove x;"
     "joins = 1..9; saved x = 1"},

    /* Roots without a segment.  Keys of one that has left must not be there as they never were. */
    {"segments_are_dropped", ROOTS, "cuckoo_snapshot_next#%",
     "each 1..2; fill 151; fill 1151; open_short; fill 151; entries 1 = 1; a: save @*; keep 0;"
     "a = OK; segments = 0; other count = 0"},
    {"segments_are_created", ROOTS, "cuckoo_snapshot_next#%",
     "each 1..3; x_at 15; open_short; a: save @*; add x; a = OK; saved x = 0..1; saved_rest"},
    {"segments_are_created", ROOTS, "cuckoo_snapshot_next#%",
     "each 1..3; x_at 115; open_short; a: save @*; add x; a = OK; saved x = 0..1; saved_rest"},

    /* A writer that comes while its segment is copied waits.  Readers do not. */
    {"a_writer_while_a_segment_is_copied", TINY, "cuckoo_snapshot_copied",
     "x_at 26; y_at 26; add x; a: save @*; b: add y; contains x = 1; returned = 0; a b = OK OK;"
     "saved x = 1; saved_rest; contains y = 1"},
};

/* ---- ends ---- */

/* Notes that nobody asks for any more are released. */
static int refuse_bytes(void *context, const void *data, size_t size)
{
  (void) context, (void) data, (void) size;
  return 1;
}

TEST(a_snapshot_ends_early)
{
  struct cuckoo_snapshot s;
  struct snapshot_piece piece;
  open_stage(&setups[0]);
  struct cuckoo *c = cuckoo_of(stage.f);
  const uint64_t hash = hash_at(&small, HOME, OTHER_UPPER);
  add(&small, hash);
  open_short(stage.f, 0);
  tamis__snapshot_begin(&s, c);
  assert_int_equal(tamis__snapshot_next(&s, &piece), TAMIS_OK);
  take(&small, hash);
  assert_non_null(s.notes);
  tamis__snapshot_end(&s);
  assert_null(c->snapshots);
  assert_int_equal(tamis_save(stage.f, refuse_bytes, NULL), TAMIS_EIO);
  assert_null(c->snapshots);
  close_stage();
}

int main(void)
{
  return run_schedules(setups, rows, sizeof rows / sizeof *rows);
}
