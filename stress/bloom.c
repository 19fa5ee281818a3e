/* SPDX-License-Identifier: MIT
 *
 * Question: under a mix of all calls from many threads, is a key whose add has returned ever missed,
 * and do the counters add up in the end?
 *
 * Each thread adds keys of its own and publishes how far it has come; every thread looks up keys
 * that others have published.  The filter is small for its threads, so that words are fought over,
 * and is thrown away and made anew many times.
 */
#include "harness.h"
#include "tamis/tamis.h"

#include <error.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct published {
  _Alignas(64) _Atomic uint64_t keys; /* how many of its keys a thread has added */
};

struct run {
  tamis_filter *filter;
  uint64_t keys_per_thread;
  struct published published[MAX_THREADS];
};

/* Keys of different threads never meet. */
static uint64_t key_of(unsigned thread, uint64_t i)
{
  return (uint64_t) thread << 40 | i;
}

/* Half of the threads' keys go in by unique adds. */
static bool add(tamis_filter *f, uint64_t key)
{
  return key & 1 ? tamis_add_hash(f, key) == TAMIS_OK : tamis_add_unique_hash(f, key) >= 0;
}

/* Each look-up is for a key that some thread has published: its add returned before the acquire. */
static uint64_t check(const struct run *run, unsigned thread, uint64_t random)
{
  /* Pairs with the release in churn(). */
  uint64_t added = atomic_load_explicit(&run->published[thread].keys, memory_order_acquire);
  if (added == 0)
    return 0;
  uint64_t recent = added < 64 ? added : 64; /* fresh ones are the interesting ones */
  return !tamis_contains_hash(run->filter, key_of(thread, added - 1 - random % recent));
}

static void churn(struct worker *worker)
{
  struct run *run = worker->arg;
  uint64_t seed = worker->seed;
  for (uint64_t i = 0; i < run->keys_per_thread; i++) {
    uint64_t began = call_begins(worker);
    worker->result += !add(run->filter, key_of(worker->index, i));
    call_ends(worker, began);
    atomic_store_explicit(&run->published[worker->index].keys, i + 1, memory_order_release);
    uint64_t random = random_next(&seed);
    began = call_begins(worker);
    worker->result += check(run, (unsigned) ((random >> 32) % worker->threads), random & 0xffffff);
    call_ends(worker, began);
    if (i % 1024 == 0) {
      tamis_stats stats = TAMIS_STATS_INIT; /* beside the writers */
      worker->result += tamis_get_stats(run->filter, &stats) != TAMIS_OK;
    }
  }
}

struct settings {
  struct harness_settings shared;
  uint64_t keys;
};

static uint64_t round_misses(const struct settings *s, uint64_t seed, tamis_layout layout)
{
  static struct run run;
  run = (struct run){.keys_per_thread = s->keys};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = s->keys * s->shared.threads;
  options.layout = layout;
  options.seed = seed;
  int result = tamis_create(&options, &run.filter);
  if (result != TAMIS_OK)
    error(2, 0, "cannot create a filter: %s", tamis_strerror(result));
  struct worker workers[MAX_THREADS];
  harness_run(s->shared.threads, seed, churn, &run, workers);

  uint64_t misses = harness_results(workers, s->shared.threads);
  for (unsigned t = 0; t < s->shared.threads; t++) {
    for (uint64_t i = 0; i < s->keys; i++)
      misses += !tamis_contains_hash(run.filter, key_of(t, i));
  }
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(run.filter, &stats);
  misses += stats.count > s->keys * s->shared.threads;
  misses += (double) stats.count < 0.98 * (double) (s->keys * s->shared.threads);
  tamis_destroy(run.filter);
  return misses;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 5000, .shared = {.threads = 4, .rounds = 50}};
  const struct harness_option options[] = {{"keys", 'n',
                                            "Keys of each thread in a round (default: 5000)",
                                            .number = &s.keys, .least = 1},
                                           {0}};
  harness_parse("Looks for keys that are missed after their add returned.", options, argc, argv,
                &s.shared);
  uint64_t misses = 0, round = 0;
  for (; harness_more(&s.shared, round); round++)
    misses += round_misses(&s, random_at(s.shared.seed, round), (tamis_layout) (round % 2));
  printf("%" PRIu64 " rounds, %" PRIu64 " threads: %" PRIu64 " wrong answers\n", round,
         s.shared.threads, misses);
  return harness_verdict(&s.shared, misses == 0);
}
