/* SPDX-License-Identifier: MIT
 *
 * Adds to a Bloom filter by threads that take turns; unit/test_planning.c and unit/test_batches.c have
 * the calls of one thread.
 */
#include "bloom_unit.h"
#include "harness.h"

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

static void take_turns(struct worker *worker)
{
  struct turns *turns = worker->arg;
  bool full = false;
  while (!full) {
    sem_wait(&turns->may_add[worker->index]);
    if (!turns->full) {
      turns->hidden += tamis_contains_hash(turns->filter, turns->next);
      turns->full = tamis_add_hash(turns->filter, turns->next) != TAMIS_OK;
      turns->next += !turns->full;
    }
    full = turns->full;
    sem_post(&turns->may_add[(worker->index + 1) % TURNS_THREADS]);
  }
}

static void fill_in_turns(tamis_layout layout, uint64_t capacity)
{
  tamis_options options = seeded_options(TAMIS_BLOOM, capacity, low_rate(layout), false);
  options.layout = layout;
  options.seed = capacity;
  struct turns turns = {.filter = make_with_options(&options)};
  struct worker workers[TURNS_THREADS];
  for (unsigned i = 0; i < TURNS_THREADS; i++)
    assert_int_equal(sem_init(&turns.may_add[i], 0, i == 0), 0);
  harness_run(TURNS_THREADS, 1, take_turns, &turns, workers);
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
