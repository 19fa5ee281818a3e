/* SPDX-License-Identifier: MIT
 *
 * Adds to a Bloom filter by threads that take turns; unit/test_planning.c and unit/test_batches.c have
 * the calls of one thread.
 */
#include "unit.h"

#include "bloom_unit.h"

#include <semaphore.h>

/* Threads add a key each in turn: their shards fill evenly, and the limit is exact all the same. */
enum { TURNS_THREADS = 8 };

struct turns {
  tamis_filter *filter;
  sem_t may_add[TURNS_THREADS]; /* posted when it is the thread's turn */
  uint64_t next, hidden;        /* the next key, and how many false positives hid; of the thread
                                 * whose turn it is */
  bool full;
};

struct turn {
  struct turns *turns;
  unsigned index;
};

static void *take_turns(void *arg)
{
  const struct turn *turn = arg;
  struct turns *turns = turn->turns;
  bool full = false;
  while (!full) {
    sem_wait(&turns->may_add[turn->index]);
    if (!turns->full) {
      turns->hidden += tamis_contains_hash(turns->filter, turns->next);
      turns->full = tamis_add_hash(turns->filter, turns->next) != TAMIS_OK;
      turns->next += !turns->full;
    }
    full = turns->full;
    sem_post(&turns->may_add[(turn->index + 1) % TURNS_THREADS]);
  }
  return NULL;
}

static void fill_in_turns(tamis_layout layout, uint64_t capacity)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = layout;
  options.capacity = capacity;
  options.fpp = low_rate(layout);
  options.growable = false;
  options.seed = capacity;
  struct turns turns = {0};
  struct turn turn[TURNS_THREADS];
  pthread_t threads[TURNS_THREADS];
  assert_int_equal(tamis_create(&options, &turns.filter), TAMIS_OK);
  for (unsigned i = 0; i < TURNS_THREADS; i++)
    assert_int_equal(sem_init(&turns.may_add[i], 0, i == 0), 0);
  for (unsigned i = 0; i < TURNS_THREADS; i++) {
    turn[i] = (struct turn){&turns, i};
    assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &turn[i]), 0);
  }
  for (unsigned i = 0; i < TURNS_THREADS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (unsigned i = 0; i < TURNS_THREADS; i++)
    sem_destroy(&turns.may_add[i]);
  assert_int_equal(turns.next - turns.hidden, capacity);
  tamis_destroy(turns.filter);
}

/* The last one is so large that the counters are looked at less often at first. */
EACH_LAYOUT_WITH_THREADS(threads_in_turn_keep_to_the_capacity)
{
  for (uint64_t capacity = 300; capacity < 1500; capacity += 37)
    fill_in_turns(layout, capacity);
  fill_in_turns(layout, 12000);
}
