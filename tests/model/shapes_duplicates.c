/* SPDX-License-Identifier: MIT
 *
 * A key of which there is always a copy, while other copies come and go.
 */
#include "fixture.h"

#include "cuckoo/fold.h"
#include "cuckoo/generation.h"

/* x stands in LOWER.  A copy goes to UPPER, and one of the two is removed. */
static void set_up_copies(void)
{
  make_cuckoo(1, 1, 1);
  t.x = put_to_stay(key_at(ANY, LOWER, UPPER));
}

static void run_copies(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_remove(t.x);
  } else {
    must_find(t.x);
  }
}

static void run_more_copies(unsigned thread)
{
  if (thread == 0) {
    run_copies(0);
    run_copies(0);
  } else {
    must_find(t.x);
  }
}

static const char *check_copies(void)
{
  return whole_with_count(1);
}

/* x is not there.  Copies of it are added at the same time, and one may be removed. */
static void set_up_adds(void)
{
  make_cuckoo(1, 1, 1);
  put_to_stay(key_at(ANY, LOWER, UPPER));
  t.x = key_at(ANY, LOWER, UPPER);
}

static void run_adds(unsigned thread)
{
  must_add(t.x);
  if (thread == 2)
    must_remove(t.x);
}

static const char *check_adds(void)
{
  const char *reason = whole_with_count(3);
  return reason ? reason : entries_of(t.x) != 2 ? "a copy has been lost or doubled" : NULL;
}

static const char *check_adds_and_remove(void)
{
  const char *reason = whole_with_count(3);
  unsigned lanes = entries_of(t.x);
  return reason                   ? reason
         : !contains(t.x)         ? "the adds were lost"
         : lanes < 1 || lanes > 2 ? "a copy has been lost or doubled"
                                  : NULL;
}

/* x is in the old generation.  The copy goes to the new one, where it is the longest match, so the
 * remove takes it. */
static void set_up_copies_in_generations(void)
{
  set_up_make();
  t.x = t.in[0];
  put(t.y);
  t.n = 1;
}

static const char *check_copies_in_generations(void)
{
  return whole_with_count(5);
}

/* Removes take the copy in the new generation, as it knows more; so two copies are added. */
static void run_copies_in_generations(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_remove(t.x);
    must_add(t.x);
  } else {
    must_find(t.x);
  }
}

static const char *check_copies_change_generations(void)
{
  return whole_with_count(6);
}

/* x is in the old generation, whose entries know more than those of the new one, which has no
 * segment yet. */
void set_up_copy_goes_on_to_nothing(void)
{
  const double any_rate = 0.1;
  make_cuckoo(1, 0, 0);
  t.x = put_to_stay(key());
  put_to_stay(key());
  struct cuckoo *c = cuckoo();
  struct cuckoo_geometry g;
  int result = cuckoo_geometry_next(&t.geometry, 0, any_rate, &g);
  expect(result == TAMIS_OK, "plan");
  expect(tamis__growth_provide(c) == TAMIS_OK, "growth");
  struct generation *next = tamis__generation_create(c, &g, &result);
  expect(next != NULL, "create");
  tamis__generation_append(c, next, 1);
}

/* The same, but the new generation has a segment for x. */
void set_up_copy_goes_on(void)
{
  set_up_copy_goes_on_to_nothing();
  while (!pair_find(cuckoo_generation(cuckoo(), 1), hash_mix(&t.keys, t.x)).segment)
    put_to_stay(key());
}

/* The remove takes the old copy. */
static void run_copy_goes_on(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_remove(t.x);
  } else {
    must_find(t.x);
  }
}

static const char *check_copy_goes_on(void)
{
  const char *reason = whole_with_count(t.n);
  return reason ? reason : entries_of(t.x) > 0 ? "the remove took the copy that knows less" : NULL;
}

/* x stands in UPPER (set_up_move()).  Its copy goes to HOME, and the one in UPPER is folded. */
static void run_fold(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    struct bucket_pair full = pair_of(t.y);
    if (tamis__fold(cuckoo(), full.generation, full.segment) != TAMIS_OK)
      model_fail("nothing was folded");
  } else {
    must_find(t.x);
  }
}

static const char *check_fold(void)
{
  const char *reason = whole_with_count(8);
  return reason ? reason : entries_of(t.x) != 1 ? "the copy is not the one that was left" : NULL;
}

/* ---- counts of copies ---- */

/* A second copy of x is counted. */
void count_x(void)
{
  tamis__note_copy_without_room(cuckoo(), &t.geometry, pair_of(t.x).segment);
  while (!segment_counts_copies(pair_of(t.x).segment))
    tamis__note_copy_without_room(cuckoo(), &t.geometry, pair_of(t.x).segment);
  put(t.x);
  t.n--;
  expect(entries_of(t.x) == 1, "that the copy is counted");
}

void set_up_counted_move(void)
{
  set_up_move();
  count_x();
}

static void come_and_go(void)
{
  must_add(t.x);
  must_remove(t.x);
  must_remove(t.x);
}

static void run_counted_move(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(1);
  else
    come_and_go();
}

static const char *check_counted_move(void)
{
  const char *reason = whole_with_count(7);
  return reason ? reason : entries_of(t.x) != 1 ? "a copy has been lost or doubled" : NULL;
}

/* The copies of x come and go while they are folded. */
static void run_fold_and_add(unsigned thread)
{
  struct segment *segment = pair_of(t.x).segment;
  if (thread == 0 && tamis__fold(cuckoo(), pair_of(t.x).generation, segment) != TAMIS_OK)
    model_fail("not folded");
  if (thread == 1)
    come_and_go();
}

static void set_up_fold_and_add(void)
{
  set_up_move();
  put(t.x);
  t.n--;
  expect(entries_of(t.x) == 2, "where the copy is");
}

/* ---- segments that are full ---- */

/* All lanes are full, and the filter may not grow.  y is refused, or finds the room that a remove
 * makes at the end of a path. */
static uint64_t leaves;

static void set_up_full(void)
{
  set_up_move();
  leaves = put(key_at(ANY, HOME, OTHER));
  t.n--;
  expect(tamis__fold(cuckoo(), pair_of(t.x).generation, pair_of(t.x).segment) == TAMIS_OK, "fold");
  cuckoo()->max_bytes = atomic_load(&cuckoo()->bytes);
}

static void run_full(unsigned thread)
{
  if (thread == 0)
    tamis_add_hash(t.filter, t.y);
  else
    must_remove(leaves);
}

static const char *check_full(void)
{
  if (!contains(t.y) && tamis_add_hash(t.filter, t.y) != TAMIS_OK)
    return "a remove has made room, and an add is refused";
  return whole_with_count(8);
}

const struct shape duplicates_shapes[] = {
    {"copies", "is a key found of which copies come and go?", 2, false, set_up_copies, run_copies,
     check_copies, FULL, FULL},
    {"more_copies", "... more often?", 2, false, set_up_copies, run_more_copies, check_copies, FULL,
     FULL},
    {"adds", "do two copies that come at once both count?", 2, false, set_up_adds, run_adds,
     check_adds, FULL, FULL},
    {"adds_and_remove", "... and one that comes and goes?", 3, false, set_up_adds, run_adds,
     check_adds_and_remove, BOUND(3), BOUND(3)},
    {"copies_fold", "... while copies are counted?", 2, false, set_up_move, run_fold, check_fold,
     FULL, FULL},
    {"copies_in_generations", "... in two generations?", 2, false, set_up_copies_in_generations,
     run_copies, check_copies_in_generations, FULL, FULL},
    {"copies_change_generations", "... from one to the other?", 2, false,
     set_up_copies_in_generations, run_copies_in_generations, check_copies_change_generations, FULL,
     FULL},
    {"copy_goes_on", "... whose only copy goes to a newer one?", 2, false, set_up_copy_goes_on,
     run_copy_goes_on, check_copy_goes_on, FULL, FULL},
    {"copy_goes_on_to_nothing", "... where it makes a segment?", 2, false,
     set_up_copy_goes_on_to_nothing, run_copy_goes_on, check_copy_goes_on, FULL, FULL},
    {"count_and_move", "is a count carried along while copies come and go?", 2, false,
     set_up_counted_move, run_counted_move, check_counted_move, BOUND(3), BOUND(3)},
    {"count_and_fold", "... while copies are folded?", 2, false, set_up_fold_and_add,
     run_fold_and_add, check_counted_move, BOUND(3), BOUND(3)},
    {"full_and_remove", "does a remove make room in a segment that is found full?", 2, false,
     set_up_full, run_full, check_full, BOUND(3), NEVER},
    {.name = NULL},
};
