/* SPDX-License-Identifier: MIT
 *
 * Question: is anything lost, or kept for ever, when threads come, make a few calls, and end, again and
 * again?
 *
 * Every worker starts one thread after the other, each of which works for the worker's owner for a short
 * while.  Such a thread's first call makes it known to liburcu, its end has it forgotten; meanwhile the
 * filter grows and shrinks, so somebody always waits for all readers that are known.
 */
#include "harness.h"
#include "owner.h"

#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

enum { LIFETIME = 200 }; /* calls of a thread */

struct settings {
  struct harness_settings shared;
  uint64_t keys, lives;
};

struct run {
  const struct settings *settings;
  struct owner owners[MAX_THREADS];
};

static void *live(void *arg)
{
  struct worker *worker = arg;
  struct run *run = worker->arg;
  owner_work(&run->owners[worker->index], worker, LIFETIME);
  return NULL;
}

static void work(struct worker *worker)
{
  const struct run *run = worker->arg;
  for (uint64_t i = 0; i < run->settings->lives; i++) {
    pthread_t thread;
    int failure = pthread_create(&thread, NULL, live, worker);
    if (failure)
      error(2, failure, "cannot start a thread");
    pthread_join(thread, NULL);
  }
}

static bool play(const struct settings *s, uint64_t round)
{
  static struct run run;
  uint64_t seed = random_at(s->shared.seed, round), n = s->shared.threads;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 100;
  options.seed = seed;
  tamis_filter *filter;
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK)
    error(2, 0, "cannot create a filter: %s", tamis_strerror(result));
  run.settings = s;
  for (unsigned i = 0; i < n; i++)
    owner_init(&run.owners[i], filter, i, s->keys, random_at(seed, i));
  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, &run, workers);
  for (unsigned i = 0; i < n; i++)
    owner_check(&run.owners[i]);
  uint64_t wrong = owners_judge(run.owners, n, options.fpp);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  harness_tell(!wrong,
               "%" PRIu64 " threads came and went, %" PRIu64 " growths, %" PRIu64 " joins: %" PRIu64
               " wrong\n",
               n * s->lives, stats.growths, stats.joins, wrong);
  for (unsigned i = 0; i < n; i++)
    owner_free(&run.owners[i]);
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
  harness_parse("Looks for wrong answers while threads come and go.", options, argc, argv,
                &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= play(&s, round);
  return harness_verdict(&s.shared, good);
}
