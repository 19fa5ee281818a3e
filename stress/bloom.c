/* SPDX-License-Identifier: MIT
 *
 * Question: while many threads make all kinds of calls, is a key ever missed whose add has
 * returned, and are the counters right in the end?
 *
 * Each thread adds keys of its own and publishes how many it has added; every thread looks up keys
 * that others have published.  The filter is small for the number of threads, so that they contend
 * for its words, and each round uses a new one.
 */
#include "create.h"
#include "harness.h"
#include "tamis/tamis.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

struct published {
  _Alignas(64) _Atomic uint64_t keys; /* that the thread has added so far */
};

struct run {
  tamis_filter *filter;
  uint64_t keys_per_thread;
  struct published published[MAX_THREADS];
};

/* No two threads share a key. */
static uint64_t key_of(unsigned thread, uint64_t i)
{
  return (uint64_t) thread << 40 | i;
}

/* Half of the keys are added by unique adds. */
static bool add_key(tamis_filter *f, uint64_t key)
{
  return key & 1 ? tamis_add_hash(f, key) == TAMIS_OK : tamis_add_unique_hash(f, key) >= 0;
}

/* Looks up a key that a thread has published, preferably a recent one; returns 1 if it is
 * missed. */
static uint64_t look_up_published(const struct run *run, unsigned thread, uint64_t random)
{
  /* Acquire: pairs with the release in work(), so the adds of these keys have returned. */
  uint64_t added = atomic_load_explicit(&run->published[thread].keys, memory_order_acquire);
  if (added == 0)
    return 0;
  uint64_t recent = added < 64 ? added : 64;
  return !tamis_contains_hash(run->filter, key_of(thread, added - 1 - random % recent));
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  uint64_t seed = worker->seed;
  for (uint64_t i = 0; i < run->keys_per_thread; i++) {
    uint64_t began = call_begins(worker);
    worker->result += !add_key(run->filter, key_of(worker->index, i));
    call_ends(worker, began);
    atomic_store_explicit(&run->published[worker->index].keys, i + 1, memory_order_release);
    uint64_t random = random_next(&seed);
    began = call_begins(worker);
    worker->result +=
        look_up_published(run, (unsigned) ((random >> 32) % worker->threads), random & 0xffffff);
    call_ends(worker, began);
    if (i % 1024 == 0) {
      tamis_stats stats = TAMIS_STATS_INIT; /* while others write */
      worker->result += tamis_get_stats(run->filter, &stats) != TAMIS_OK;
    }
  }
}

struct settings {
  struct harness_settings shared;
  uint64_t keys;
};

static uint64_t run_round(const struct settings *s, uint64_t seed, tamis_layout layout)
{
  static struct run run;
  run = (struct run){.keys_per_thread = s->keys};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = s->keys * s->shared.threads;
  options.layout = layout;
  options.seed = seed;
  run.filter = create_filter(&options);
  struct worker workers[MAX_THREADS];
  harness_run(s->shared.threads, seed, work, &run, workers);

  uint64_t wrong = harness_results(workers, s->shared.threads);
  for (unsigned t = 0; t < s->shared.threads; t++) {
    for (uint64_t i = 0; i < s->keys; i++)
      wrong += !tamis_contains_hash(run.filter, key_of(t, i));
  }
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(run.filter, &stats);
  wrong += stats.count > s->keys * s->shared.threads;
  wrong += (double) stats.count < 0.98 * (double) (s->keys * s->shared.threads);
  tamis_destroy(run.filter);
  return wrong;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 5000, .shared = {.threads = 4, .rounds = 50}};
  const struct harness_option options[] = {{"keys", 'n',
                                            "Keys of each thread in a round (default: 5000)",
                                            .number = &s.keys, .least = 1},
                                           {0}};
  harness_parse("Finds keys that a Bloom filter misses although their add has returned.", options,
                argc, argv, &s.shared);
  uint64_t wrong = 0, round = 0;
  for (; harness_more(&s.shared, round); round++)
    wrong += run_round(&s, random_at(s.shared.seed, round), (tamis_layout) (round % 3));
  printf("%" PRIu64 " rounds, %" PRIu64 " threads: %" PRIu64 " wrong answers\n", round,
         s.shared.threads, wrong);
  return harness_verdict(&s.shared, wrong == 0);
}
