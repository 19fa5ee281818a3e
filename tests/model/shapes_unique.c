/* SPDX-License-Identifier: MIT
 *
 * Unique adds of one key: one of them wins.
 */
#include "fixture.h"

#include "cuckoo/growth.h"
#include "cuckoo/segment.h"

static void set_up_unique(void)
{
  make_cuckoo(1, 0, 1);
  t.x = key();
  put_to_stay(key());
}

void run_unique(unsigned thread)
{
  t.result[thread][0] = add_unique(t.x);
}

unsigned winners(unsigned threads)
{
  unsigned n = 0;
  for (unsigned i = 0; i < threads; i++)
    n += t.result[i][0] == TAMIS_OK;
  return n;
}

static const char *check_unique(unsigned threads, unsigned count)
{
  for (unsigned i = 0; i < threads; i++)
    if (t.result[i][0] != TAMIS_OK && t.result[i][0] != TAMIS_PRESENT)
      return "a unique add failed";
  const char *reason = whole_with_count(count);
  return reason                 ? reason
         : winners(threads) > 1 ? "two winners"
         : winners(threads) < 1 ? "no winner"
         : !contains(t.x)       ? "the add was lost"
                                : NULL;
}

static const char *check_unique_2(void)
{
  return check_unique(2, 2);
}

static const char *check_unique_3(void)
{
  return check_unique(3, 2);
}

/* A plain add of x counts as well, and hides it if it is the first. */
static void run_unique_and_add(unsigned thread)
{
  if (thread == 0)
    must_add(t.x);
  else
    run_unique(thread);
}

static const char *check_unique_and_add(void)
{
  const char *reason = whole_with_count(t.result[1][0] == TAMIS_OK ? 3 : 2);
  return reason ? reason : !contains(t.x) ? "the add was lost" : NULL;
}

/* x is there and moves: no unique add of it wins. */
static void run_unique_and_move(unsigned thread)
{
  if (thread == 0)
    move_to_and_fro(1);
  else if (add_unique(t.x) != TAMIS_PRESENT)
    model_fail("the key was there");
}

/* The one segment is full and may not split: the next add opens a generation and makes its first
 * segment. */
static void set_up_open(void)
{
  make_cuckoo(1, 0, 0);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key());
  t.x = key();
  t.y = key();
}

static void run_unique_and_open(unsigned thread)
{
  if (thread == 2)
    must_add(t.y);
  else
    run_unique(thread);
}

static const char *check_unique_opens(void)
{
  return check_unique(2, 5);
}

static const char *check_unique_and_open(void)
{
  const char *reason = check_unique(2, 6);
  return reason ? reason : !contains(t.y) ? "the other add was lost" : NULL;
}

void set_up_make(void)
{
  set_up_open();
  struct cuckoo *c = cuckoo();
  uint64_t hash = hash_mix(&t.keys, t.x);
  struct bucket_pair full = pair_find(cuckoo_generation(c, 0), hash);
  expect(tamis__grow(c, &full, cuckoo_generations(c), false) == TAMIS_OK &&
             cuckoo_generations(c) == 2,
         "open");
  expect(!pair_find(cuckoo_generation(c, 1), hash).segment, "no segment");
}

/* One add of x may find room in the old generation while another thread opens a new one: only
 * one of the adds wins. */
static void set_up_room_and_open(void)
{
  set_up_open();
  take(t.in[--t.n]);
}

static const char *check_room_and_open(void)
{
  const char *reason = check_unique(2, 5);
  return reason ? reason : !contains(t.y) ? "the other add was lost" : NULL;
}

void set_up_roots(unsigned fresh)
{
  make_cuckoo(2, 0, 0);
  struct generation *generation = cuckoo_generation(cuckoo(), 0);
  for (unsigned i = 0; i < fresh; i++) {
    struct segment *segment =
        directory_segment(directory_load(generation_directory_entry(generation, i)));
    directory_publish(generation_directory_entry(generation, i), NULL);
    tamis__segment_destroy(cuckoo(), &t.geometry, segment);
    generation->segments--;
  }
  t.x = key_at(0, ANY, ANY);
  t.y = key_at(1, ANY, ANY);
}

/* x has room in the old generation, but y, of another root, opens a new one. */
static void set_up_open_elsewhere(void)
{
  set_up_roots(0);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(1, ANY, ANY));
}

static void run_unique_late(unsigned thread)
{
  if (thread == 1)
    must_add(t.y);
  run_unique(thread);
}

const struct shape unique_shapes[] = {
    {"unique", "one winner of two?", 2, false, set_up_unique, run_unique, check_unique_2, FULL,
     FULL},
    {"unique_3", "one winner of three?", 3, false, set_up_unique, run_unique, check_unique_3,
     BOUND(3), BOUND(3)},
    {"unique_and_add", "... or an add before it?", 2, false, set_up_unique, run_unique_and_add,
     check_unique_and_add, FULL, FULL},
    {"unique_and_move", "no winner if the key is there, and moved?", 2, false, set_up_move,
     run_unique_and_move, check_moved, FULL, FULL},
    {"unique_opens", "one winner of two that open a generation?", 2, false, set_up_open, run_unique,
     check_unique_opens, BOUND(2), BOUND(2)},
    {"unique_makes", "one winner of two that make a segment?", 2, false, set_up_make, run_unique,
     check_unique_opens, BOUND(2), BOUND(2)},
    {"unique_and_open", "one winner while another add opens a generation?", 3, false, set_up_open,
     run_unique_and_open, check_unique_and_open, BOUND(2), BOUND(1)},
    {"unique_room_and_open", "... and there is room for one in the old one?", 3, false,
     set_up_room_and_open, run_unique_and_open, check_room_and_open, BOUND(2), BOUND(1)},
    {"unique_late", "... and one of two does not know it yet?", 2, false, set_up_open_elsewhere,
     run_unique_late, check_unique_and_open, BOUND(3), BOUND(2)},
    {.name = NULL},
};
