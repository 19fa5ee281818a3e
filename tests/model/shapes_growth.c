/* SPDX-License-Identifier: MIT
 *
 * Splits and joins while other threads look up, add and remove keys.
 */
#include "fixture.h"

void set_up_split(void)
{
  make_cuckoo(1, 0, 1);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(i % 2, ANY, ANY));
  t.x = t.in[0];
  t.y = key_at(0, ANY, ANY);
  t.z = key_at(1, ANY, ANY);
}

static void run_lookup_and_split(unsigned thread)
{
  if (thread == 0)
    must_add(t.y);
  else
    must_find(t.x);
}

const char *check_split(void)
{
  const char *reason = whole_with_count(5);
  return reason                   ? reason
         : !contains(t.y)         ? "the add was lost"
         : figures().growths != 1 ? "no split"
                                  : NULL;
}

static void run_two_splits(unsigned thread)
{
  must_add(thread == 0 ? t.y : t.z);
}

static const char *check_two_splits(void)
{
  const char *reason = whole_with_count(6);
  return reason ? reason : !contains(t.y) || !contains(t.z) ? "an add was lost" : NULL;
}

/* x is removed while its segment splits. */
static void set_up_remove_and_split(void)
{
  set_up_split();
  t.in[0] = t.in[--t.n];
}

static void run_remove_and_split(unsigned thread)
{
  if (thread == 0)
    must_add(t.y);
  else
    must_remove(t.x);
}

static const char *check_remove_and_split(void)
{
  const char *reason = whole_with_count(4);
  return reason           ? reason
         : contains(t.x)  ? "a removed key is still there"
         : !contains(t.y) ? "the add was lost"
                          : NULL;
}

/* One lane is free at first.  Another add may take it, or come after the split. */
static void set_up_add_and_split(void)
{
  set_up_split();
  take(t.in[--t.n]);
  t.x = key_at(0, ANY, ANY);
}

static void run_add_and_split(unsigned thread)
{
  if (thread == 0) {
    must_add(t.x);
    must_add(t.y);
  } else {
    must_add(t.z);
  }
}

static const char *check_add_and_split(void)
{
  const char *reason = whole_with_count(6);
  return reason                                               ? reason
         : !contains(t.x) || !contains(t.y) || !contains(t.z) ? "an add was lost"
                                                              : NULL;
}

/* Releases what the set-up has retired: the backlog is empty when the search begins. */
static void empty_backlog(void)
{
  for (unsigned i = 0; i < 3; i++) {
    model_wait_for_readers();
    figures();
  }
  const struct backlog *backlog = &cuckoo_growth(cuckoo())->backlog;
  expect(!backlog->waiting && !backlog->fresh, "empty backlog");
}

void set_up_join(void)
{
  set_up_split();
  put(t.y);
  expect(figures().growths == 1, "split");
  for (unsigned i = 1; i < 4; i++)
    take(t.in[i]);
  t.n = 1;
  expect(figures().segments == 2, "two segments");
  empty_backlog();
}

static void run_lookup_and_join(unsigned thread)
{
  if (thread == 0)
    must_remove(t.y);
  else
    must_find(t.x);
}

const char *check_join(void)
{
  const char *reason = whole_with_count(1);
  return reason ? reason : figures().segments != 1 ? "no join" : NULL;
}

static void run_add_and_join(unsigned thread)
{
  if (thread == 0)
    must_remove(t.y);
  else
    must_add(t.z);
}

const char *check_add_and_join(void)
{
  const char *reason = whole_with_count(2);
  return reason ? reason : !contains(t.z) ? "the add was lost" : NULL;
}

const struct shape growth_shapes[] = {
    {"lookup_and_split", "is a key found while its segment splits?", 2, false, set_up_split,
     run_lookup_and_split, check_split, FULL, FULL},
    {"splits", "do two adds split once, and both arrive?", 2, false, set_up_split, run_two_splits,
     check_two_splits, BOUND(3), BOUND(3)},
    {"add_and_split", "does an add arrive while its segment splits?", 2, false,
     set_up_add_and_split, run_add_and_split, check_add_and_split, BOUND(3), BOUND(3)},
    {"remove_and_split", "is a key gone that is removed while its segment splits?", 2, false,
     set_up_remove_and_split, run_remove_and_split, check_remove_and_split, BOUND(3), BOUND(3)},
    {"lookup_and_join", "is a key found while its segment is joined?", 2, false, set_up_join,
     run_lookup_and_join, check_join, FULL, FULL},
    {"add_and_join", "does an add arrive while its segment is joined?", 2, false, set_up_join,
     run_add_and_join, check_add_and_join, FULL, FULL},
    {.name = NULL},
};
