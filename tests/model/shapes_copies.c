/* SPDX-License-Identifier: MIT
 *
 * The copies of a key are counted while they move, come and go.
 */
#include "fixture.h"

#include "cuckoo/fold.h"

static void must_count(uint64_t hash, uint64_t least, uint64_t most)
{
  uint64_t copies = tamis_count_hash(t.filter, hash);
  if (copies < least)
    model_fail("a copy was not counted");
  if (copies > most)
    model_fail("a copy was counted twice");
}

static void run_move(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(2);
  else
    must_count(t.x, 1, 1);
}

/* x has a lane and a counted copy, which moves along. */
static void set_up_counted(void)
{
  set_up_move();
  count_x();
}

static void run_counted(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(1);
  else
    must_count(t.x, 2, 2);
}

static const char *check_counted(void)
{
  const char *reason = whole_with_count(8);
  return reason ? reason : tamis_count_hash(t.filter, t.x) != 2 ? "a copy was lost" : NULL;
}

static void run_fold(unsigned thread)
{
  if (thread == 1)
    must_count(t.x, 2, 2);
  else if (tamis__fold(cuckoo(), pair_of(t.x).generation, pair_of(t.x).segment) != TAMIS_OK)
    model_fail("not folded");
}

/* Both copies of x stand in lanes. */
static void set_up_fold(void)
{
  set_up_move();
  put(t.x);
  t.n--;
  expect(entries_of(t.x) == 2, "where the copy is");
}

static void run_split(unsigned thread)
{
  if (thread == 0)
    must_add(t.y);
  else
    must_count(t.x, 1, 1);
}

/* A copy goes while another one comes: never more than one, and the second is there in the end. */
static void run_replace(unsigned thread)
{
  if (thread == 0) {
    must_remove(t.x);
    must_add(t.x);
  } else {
    must_count(t.x, 0, 1);
  }
}

/* A copy comes before the other one goes: never less than one. */
static void run_go_on(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_remove(t.x);
  } else {
    must_count(t.x, 1, 2);
  }
}

static const char *check_one(void)
{
  const char *reason = whole_with_count(t.n);
  return reason ? reason : tamis_count_hash(t.filter, t.x) != 1 ? "a copy was lost" : NULL;
}

const struct shape copies_shapes[] = {
    {"sum_and_move", "is a key counted once that is moved?", 2, false, set_up_move, run_move,
     check_moved, FULL, FULL},
    {"sum_and_counted_move", "... twice with a counted copy?", 2, false, set_up_counted,
     run_counted, check_counted, FULL, FULL},
    {"sum_and_fold", "... while copies are folded?", 2, false, set_up_fold, run_fold, check_counted,
     FULL, FULL},
    {"sum_and_split", "is a key counted once while its segment splits?", 2, false, set_up_split,
     run_split, check_split, BOUND(3), BOUND(3)},
    {"sum_and_replace", "... whose copy goes to a newer generation?", 2, false, set_up_copy_goes_on,
     run_replace, check_one, FULL, FULL},
    {"sum_and_make", "... where it makes a segment?", 2, false, set_up_copy_goes_on_to_nothing,
     run_replace, check_one, FULL, FULL},
    {"sum_and_go_on", "is it counted if the new copy comes first?", 2, false, set_up_copy_goes_on,
     run_go_on, check_one, FULL, FULL},
    {.name = NULL},
};
