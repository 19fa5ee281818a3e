/* SPDX-License-Identifier: MIT
 *
 * Moves of entries while other threads look them up, move and remove them.
 */
#include "fixture.h"

#include "cuckoo/evict.h"

/* x stands in UPPER and can move to HOME, where one lane is free; all other lanes are full. */
void set_up_move(void)
{
  make_cuckoo(1, 1, 1);
  put_to_stay(key_at(ANY, HOME, OTHER));
  t.x = put_to_stay(key_at(ANY, HOME, UPPER));
  put_to_stay(key_at(ANY, HOME, OTHER));
  uint64_t hole = put(key_at(ANY, HOME, OTHER));
  put_to_stay(key_at(ANY, HOME, OTHER));
  for (unsigned i = 0; i < 3; i++)
    put_to_stay(key_at(ANY, LOWER, UPPER));
  take(hole);
  t.y = key_at(ANY, LOWER, UPPER);
  expect(matches_in(t.x, UPPER) == 1 && entries_of(hole) == 0, "where x stands");
}

static bool evict(unsigned lower, unsigned upper)
{
  return tamis__evict(cuckoo(), &t.geometry, pair_of(t.x).segment, lower, upper, true) == TAMIS_OK;
}

void move_to_and_fro(unsigned times)
{
  for (unsigned i = 0; i < times; i++)
    if (!(i % 2 ? evict(HOME, OTHER) : evict(LOWER, UPPER)))
      model_fail("no path");
}

const char *check_moved(void)
{
  const char *reason = whole_with_count(7);
  return reason ? reason : entries_of(t.x) != 1 ? "an entry has been lost or doubled" : NULL;
}

static void run_one_move(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(1);
  else
    must_find(t.x);
}

static void run_moves(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(2);
  else
    must_find(t.x);
}

static void run_many_moves(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(4);
  else
    must_find(t.x);
}

/* A whole add, which moves x. */
static void run_add_that_moves(unsigned thread)
{
  if (thread == 0)
    must_add(t.y);
  else
    must_find(t.x);
}

static const char *check_add_that_moves(void)
{
  const char *reason = whole_with_count(8);
  return reason ? reason : !contains(t.y) ? "the add was lost" : NULL;
}

/* Two moves of one entry, or of two entries, into the same lane. */
static void run_moves_of_one(unsigned thread)
{
  if (thread < 2)
    evict(LOWER, UPPER);
  else
    must_find(t.x);
}

static void run_moves_to_one(unsigned thread)
{
  if (thread == 0)
    evict(LOWER, UPPER);
  else if (thread == 1)
    evict(LOWER, OTHER);
  else
    must_find(t.x);
}

static const char *check_moves(void)
{
  const char *reason = whole_with_count(7);
  for (unsigned i = 0; i < t.n && !reason; i++)
    if (entries_of(t.in[i]) != 1)
      reason = "an entry has been lost or doubled";
  return reason;
}

/* The only free lane is in HOME.  A move and an add both want it, and the add finds room in any
 * case. */
static void set_up_add_and_move(void)
{
  set_up_move();
  t.y = key_at(ANY, HOME, OTHER);
}

static void run_add_and_move(unsigned thread)
{
  if (thread == 0)
    evict(LOWER, UPPER);
  else
    must_add(t.y);
}

static const char *check_add_and_move(void)
{
  const char *reason = check_add_that_moves();
  for (unsigned i = 0; i < t.n && !reason; i++)
    if (entries_of(t.in[i]) != 1)
      reason = "an entry has been lost or doubled";
  return reason;
}

static void run_remove_and_move(unsigned thread)
{
  if (thread == 0)
    evict(LOWER, UPPER);
  else
    must_remove(t.x);
}

static void set_up_remove_and_move(void)
{
  set_up_move();
  for (unsigned i = 0; i < t.n; i++)
    if (t.in[i] == t.x)
      t.in[i] = t.in[--t.n];
}

static const char *check_remove_and_move(void)
{
  const char *reason = whole_with_count(6);
  return reason ? reason : contains(t.x) ? "a removed key is still there" : NULL;
}

const struct shape moves_shapes[] = {
    {"lookup_and_move", "is a key found that is moved?", 2, false, set_up_move, run_one_move,
     check_moved, FULL, FULL},
    {"lookup_and_moves", "... to and fro?", 2, false, set_up_move, run_moves, check_moves, FULL,
     FULL},
    {"lookups_and_moves", "... more often, by two?", 3, false, set_up_move, run_many_moves,
     check_moves, BOUND(3), BOUND(3)},
    {"lookup_and_add", "... by an add that needs room?", 2, false, set_up_move, run_add_that_moves,
     check_add_that_moves, FULL, FULL},
    {"moves_of_one", "do two moves of an entry lose or double it?", 3, false, set_up_move,
     run_moves_of_one, check_moves, BOUND(3), BOUND(3)},
    {"moves_to_one", "do two moves into one lane lose an entry?", 3, false, set_up_move,
     run_moves_to_one, check_moves, BOUND(3), BOUND(3)},
    {"add_and_move", "does an add arrive while its lane is taken by a move?", 2, false,
     set_up_add_and_move, run_add_and_move, check_add_and_move, BOUND(3), BOUND(3)},
    {"remove_and_move", "does a remove find an entry that is moved?", 2, false,
     set_up_remove_and_move, run_remove_and_move, check_remove_and_move, FULL, FULL},
    {.name = NULL},
};
