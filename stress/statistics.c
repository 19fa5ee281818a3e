/* SPDX-License-Identifier: MIT
 *
 * Question: what do statistics say beside writers?  They are only close then; but how close?
 *
 * Owners count what they have begun and what has returned.  Whoever asks knows: the count is not lower
 * than what had returned before he asked, less the removes that had begun by the time he had his answer;
 * and not higher than the adds that had begun by then, less the removes that had returned before.  What
 * only ever grows must not go back, memory must keep to max_bytes, and no figure may be absurd.
 */
#include "harness.h"
#include "owner.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum {
  /* A copy that is folded from a lane into a count is in neither or in both for an instant; so is one
   * that is added to one shard of a counter and removed from another. */
  SLACK_PER_THREAD = 16
};

struct settings {
  struct harness_settings shared;
  uint64_t keys, calls;
};

struct run {
  const struct settings *settings;
  tamis_filter *filter;
  tamis_options options;
  struct owner owners[MAX_THREADS];
  uint64_t writers;
  _Atomic uint64_t writing;
  _Atomic uint64_t asked;
};

struct sums {
  uint64_t adds_begun, adds_done, removes_begun, removes_done;
};

/* Acquire: pairs with the marks in owner.c.  What is lowest when it is read early is read first. */
static struct sums sum(struct run *run)
{
  struct sums s = {0};
  for (unsigned i = 0; i < run->writers; i++) {
    const struct owner *owner = &run->owners[i];
    s.removes_done += atomic_load_explicit(&owner->removes_done, memory_order_acquire);
    s.adds_done += atomic_load_explicit(&owner->adds_done, memory_order_acquire);
    s.removes_begun += atomic_load_explicit(&owner->removes_begun, memory_order_acquire);
    s.adds_begun += atomic_load_explicit(&owner->adds_begun, memory_order_acquire);
  }
  return s;
}

static uint64_t fails(bool bad, const char *what)
{
  if (bad)
    printf("absurd: %s\n", what);
  return bad;
}

static uint64_t judge(struct run *run, const struct sums *before, const tamis_stats *s,
                      const struct sums *after, const tamis_stats *last)
{
  double slack = (double) (SLACK_PER_THREAD * run->settings->shared.threads);
  double least = (double) before->adds_done - (double) after->removes_begun - slack;
  double most = (double) after->adds_begun - (double) before->removes_done + slack;
  uint64_t wrong = 0;
  wrong += fails((double) s->count < least, "count too low");
  wrong += fails((double) s->count > most, "count too high");
  wrong += fails(s->growths < last->growths || s->joins < last->joins ||
                     s->generations < last->generations,
                 "something went back");
  wrong += fails(run->options.max_bytes && s->bytes > run->options.max_bytes, "bytes");
  wrong += fails(!(s->occupancy >= 0 && s->occupancy <= 2), "occupancy");
  wrong += fails(!(s->fpp_estimate >= 0 && s->fpp_estimate <= 1), "fpp_estimate");
  wrong += fails(!(s->load >= 0 && isfinite(s->load)), "load");
  wrong += fails(s->estimated_count != (double) s->count, "estimated_count");
  wrong += fails(s->kind != TAMIS_CUCKOO || s->capacity != run->options.capacity ||
                     s->fpp != run->options.fpp || s->seed != run->options.seed,
                 "what never changes has changed");
  return wrong;
}

static void watch(struct run *run, struct worker *worker)
{
  tamis_stats last = TAMIS_STATS_INIT;
  uint64_t asked = 0;
  while (atomic_load(&run->writing) && worker->result < 10) {
    tamis_stats stats = TAMIS_STATS_INIT;
    struct sums before = sum(run);
    uint64_t began = call_begins(worker);
    worker->result += tamis_get_stats(run->filter, &stats) != TAMIS_OK;
    call_ends(worker, began);
    struct sums after = sum(run);
    worker->result += judge(run, &before, &stats, &after, &last);
    last = stats;
    asked++;
  }
  atomic_fetch_add(&run->asked, asked);
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  if (worker->index >= run->writers) {
    watch(run, worker);
    return;
  }
  owner_work(&run->owners[worker->index], worker, run->settings->calls);
  atomic_fetch_sub(&run->writing, 1);
}

static bool play(const struct settings *s, uint64_t round)
{
  static struct run run;
  uint64_t seed = random_at(s->shared.seed, round), n = s->shared.threads;
  run.settings = s;
  run.writers = n > 1 ? n - (n + 3) / 4 : 1;
  run.options = (tamis_options) TAMIS_OPTIONS_INIT;
  run.options.kind = TAMIS_CUCKOO;
  run.options.capacity = 1 + round % 2 * 1000;
  run.options.seed = seed;
  run.options.max_bytes = round % 4 == 3 ? 64 * 1024 + s->keys * n : 0;
  int result = tamis_create(&run.options, &run.filter);
  if (result != TAMIS_OK)
    error(2, 0, "cannot create a filter: %s", tamis_strerror(result));
  for (unsigned i = 0; i < run.writers; i++) {
    owner_init(&run.owners[i], run.filter, i, s->keys, random_at(seed, i));
    run.owners[i].limited = run.options.max_bytes != 0;
  }
  atomic_store(&run.writing, run.writers);
  atomic_store(&run.asked, 0);
  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, &run, workers);
  uint64_t wrong = harness_results(workers, n) + owners_judge(run.owners, run.writers, 0.01);
  for (unsigned i = 0; i < run.writers; i++)
    owner_free(&run.owners[i]);
  tamis_destroy(run.filter);
  harness_tell(!wrong, "asked %" PRIu64 " times: %" PRIu64 " wrong\n", run.asked, wrong);
  return wrong == 0;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 4096, .calls = 50000, .shared = {.threads = 4, .rounds = 4}};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys of each writer (default: 4096)", .number = &s.keys, .least = 64},
      {"calls", 'c', "Calls of each writer in a round (default: 50000)", .number = &s.calls},
      {0}};
  harness_parse("Looks for statistics that cannot be.", options, argc, argv, &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= play(&s, round);
  return harness_verdict(&s.shared, good);
}
