/* SPDX-License-Identifier: MIT
 *
 * Memory that is released.
 */
#include "fixture.h"

/* The join retires two segments; the figures are asked for to have them released. */
static void run_retire_and_look(unsigned thread)
{
  if (thread == 0) {
    must_remove(t.y);
    figures();
  } else {
    must_find(t.x);
  }
}

static void run_retire_and_add(unsigned thread)
{
  if (thread == 0) {
    must_remove(t.y);
    figures();
  } else {
    must_add(t.z);
  }
}

/* A split retires one, the next call that looks at backlog releases it. */
static void run_retire_of_split(unsigned thread)
{
  if (thread == 0) {
    must_add(t.y);
    figures();
  } else {
    must_find(t.x);
  }
}

static void run_counted(unsigned thread)
{
  if (thread == 0)
    model_counted_replace();
  else
    model_counted_read();
}

const struct shape reclaim_shapes[] = {
    {"retire_and_look", "is a joined segment released under a reader?", 2, true, set_up_join,
     run_retire_and_look, check_join, BOUND(3), BOUND(3)},
    {"retire_and_add", "... or under a writer?", 2, true, set_up_join, run_retire_and_add,
     check_add_and_join, BOUND(3), BOUND(3)},
    {"retire_of_split", "is a split segment released under a reader?", 2, true, set_up_split,
     run_retire_of_split, check_split, BOUND(3), BOUND(3)},
    {"counted", "is a block released under a counted reader?", 2, false, model_counted_set_up,
     run_counted, check_nothing, FULL, NEVER},
    {"counted_2", "... under one of two?", 3, false, model_counted_set_up, run_counted,
     check_nothing, BOUND(3), NEVER},
    {.name = NULL},
};
