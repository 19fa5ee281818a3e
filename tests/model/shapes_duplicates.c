/* SPDX-License-Identifier: MIT
 *
 * A key of which there is always a copy, while other copies come and go.
 */
#include "fixture.h"

#include "cuckoo/fold.h"

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

const struct shape duplicates_shapes[] = {
    {"copies", "is a key found of which copies come and go?", 2, false, set_up_copies, run_copies,
     check_copies, FULL, FULL},
    {"more_copies", "... more often?", 2, false, set_up_copies, run_more_copies, check_copies, FULL,
     FULL},
    {"copies_fold", "... while copies are counted?", 2, false, set_up_move, run_fold, check_fold,
     FULL, FULL},
    {"copies_in_generations", "... in two generations?", 2, false, set_up_copies_in_generations,
     run_copies, check_copies_in_generations, FULL, FULL},
    {"copies_change_generations", "... from one to the other?", 2, false,
     set_up_copies_in_generations, run_copies_in_generations, check_copies_change_generations, FULL,
     FULL},
    {.name = NULL},
};
