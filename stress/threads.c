/* SPDX-License-Identifier: MIT
 *
 * Question: does the library lose anything, or keep anything for ever, when threads start, make a
 * few calls, and end, again and again?
 *
 * Every worker starts one thread after the other, each of which makes a few calls for the worker's
 * owner.  The first call of such a thread registers it with liburcu as a reader, and its end
 * removes it.  Meanwhile the filter grows and shrinks, so grace periods wait for all registered
 * readers.
 */
#include "create.h"
#include "harness.h"
#include "owner.h"

#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

enum { CALLS_PER_THREAD = 200 };

struct settings {
  struct harness_settings shared;
  uint64_t keys, lives;
};

struct run {
  const struct settings *settings;
  struct owner owners[MAX_THREADS];
};

static void *short_thread(void *arg)
{
  struct worker *worker = arg;
  struct run *run = worker->arg;
  owner_work(&run->owners[worker->index], worker, CALLS_PER_THREAD);
  return NULL;
}

static void work(struct worker *worker)
{
  const struct run *run = worker->arg;
  for (uint64_t i = 0; i < run->settings->lives; i++) {
    pthread_t thread;
    int failure = pthread_create(&thread, NULL, short_thread, worker);
    if (failure)
      error(2, failure, "cannot start a thread");
    pthread_join(thread, NULL);
  }
}

static bool run_round(const struct settings *s, uint64_t round)
{
  static struct run run;
  uint64_t seed = random_at(s->shared.seed, round), n = s->shared.threads;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 100;
  options.seed = seed;
  tamis_filter *filter = create_filter(&options);
  run.settings = s;
  owners_init(run.owners, n, filter, s->keys, seed);
  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, &run, workers);
  for (unsigned i = 0; i < n; i++)
    owner_check(&run.owners[i]);
  uint64_t wrong = owners_verify(run.owners, n, options.fpp);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  harness_report(!wrong,
                 "%" PRIu64 " threads started and ended, %" PRIu64 " growths, %" PRIu64
                 " joins: %" PRIu64 " wrong\n",
                 n * s->lives, stats.growths, stats.joins, wrong);
  owners_free(run.owners, n);
  tamis_destroy(filter);
  return wrong == 0;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 2048, .lives = 500, .shared = {.threads = 4, .rounds = 2}};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys of each worker (default: 2048)", .number = &s.keys, .least = 64},
      {"lives", 'l', "Threads that each worker starts in a round (default: 500)",
       .number = &s.lives},
      {0}};
  harness_parse("Finds wrong answers while threads start and end.", options, argc, argv, &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= run_round(&s, round);
  return harness_verdict(&s.shared, good);
}
