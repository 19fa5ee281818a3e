/* SPDX-License-Identifier: MIT
 *
 * The Bloom filter.
 */
#include "fixture.h"

static void make_bloom(void)
{
  memset(&t, 0, sizeof t);
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 10;
  options.fpp = 0.1;
  options.seed = SEED;
  options.stripes = 1;
  options.allocator = &from_the_world;
  expect(tamis_create(&options, &t.filter) == TAMIS_OK, "create");
  t.x = 1;
  t.y = 2;
}

static const char *check_bloom_unique(void)
{
  return winners(2) != 1        ? "not one winner"
         : !contains(t.x)       ? "the add was lost"
         : figures().count != 1 ? "the key was not counted once"
                                : NULL;
}

static void run_bloom_unique_and_add(unsigned thread)
{
  if (thread == 0)
    t.result[0][0] = add_unique(t.x);
  else
    must_add(t.x);
}

static const char *check_bloom_added(void)
{
  return !contains(t.x)         ? "the add was lost"
         : figures().count != 1 ? "the key was not counted once"
                                : NULL;
}

static void run_bloom_adds(unsigned thread)
{
  (void) thread;
  must_add(t.x);
}

static void run_bloom_unique_2_and_add(unsigned thread)
{
  if (thread < 2)
    t.result[thread][0] = add_unique(t.x);
  else
    must_add(t.x);
}

static const char *check_bloom_unique_and_add(void)
{
  return winners(2) > 1 ? "two winners" : check_bloom_added();
}

const struct shape bloom_shapes[] = {
    {"bloom_unique", "one winner of two?", 2, false, make_bloom, run_unique, check_bloom_unique,
     FULL, FULL},
    {"bloom_unique_and_add", "... or an add before them?", 2, false, make_bloom,
     run_bloom_unique_and_add, check_bloom_added, FULL, FULL},
    {"bloom_unique_2_and_add", "... two, and an add?", 3, false, make_bloom,
     run_bloom_unique_2_and_add, check_bloom_unique_and_add, BOUND(3), BOUND(3)},
    {"bloom_adds", "do two adds of a key count it once?", 2, false, make_bloom, run_bloom_adds,
     check_bloom_added, FULL, FULL},
    {"bloom_store_buffer", "do two adds miss each other?", 2, false, make_bloom, run_store_buffer,
     check_store_buffer, FULL, NEVER},
    {"bloom_independent", "do two readers agree on the order of two adds?", 4, false, make_bloom,
     run_independent, check_independent, BOUND(2), NEVER},
    {.name = NULL},
};
