/* SPDX-License-Identifier: MIT
 *
 * Threads that ask for an index at the same time.  Built with the hooks.
 */
#include "unit.h"

#include "base/counter.h"
#include "schedule.h"

#include <semaphore.h>

static struct counter_shard shards[MAX_SHARDS];
static const struct counters counters = {shards, MAX_SHARDS - 1};

static sem_t asked;
/* A thread keeps its index until it ends: so both stay until both have one. */
static pthread_barrier_t both_have_asked;

static void *ask(void *index)
{
  counter_add(&counters, 0, 1);
  *(unsigned *) index = tamis__thread_index;
  sem_post(&asked);
  pthread_barrier_wait(&both_have_asked);
  return NULL;
}

/* The second one takes what the first one has found, and the first one looks again. */
TEST(threads_that_ask_at_once_get_different_indices)
{
  pthread_t threads[2];
  unsigned indices[2];
  assert_int_equal(pthread_barrier_init(&both_have_asked, NULL, 2), 0);
  assert_int_equal(sem_init(&asked, 0, 0), 0);
  schedule_stop_at_nth("index_found", 1);
  assert_int_equal(pthread_create(&threads[0], NULL, ask, &indices[0]), 0);
  schedule_wait("index_found", 1);
  assert_int_equal(pthread_create(&threads[1], NULL, ask, &indices[1]), 0);
  sem_wait(&asked); /* the second one; the first one stands */
  schedule_go();
  for (unsigned i = 0; i < 2; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_in_range(indices[i], 1, MAX_SHARDS - 1);
  }
  assert_int_not_equal(indices[0], indices[1]);
  assert_int_equal(tamis__counter_sum(&counters, 0), 2);
  pthread_barrier_destroy(&both_have_asked);
  sem_destroy(&asked);
}
