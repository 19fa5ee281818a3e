/* SPDX-License-Identifier: MIT
 *
 * Question: how close are the statistics of a filter that other threads change at the same time?
 *
 * Owners count the calls that have begun and those that have returned.  So bounds are known for a
 * count that tamis_get_stats returns.  It is at least the adds that had returned before the call,
 * less the removes that had begun by its end.  It is at most the adds that had begun by its end,
 * less the removes that had returned before it.  Besides, figures that only grow must not fall,
 * memory must not exceed max_bytes, and no figure may be impossible.
 */
#include "create.h"
#include "harness.h"
#include "owner.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum {
  /* A copy that is folded from a lane into a duplicate count is in neither or in both for an
   * instant.  So is a copy that is added to one shard of a counter and removed from another. */
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
  _Atomic uint64_t answers;
};

struct sums {
  uint64_t adds_begun, adds_done, removes_begun, removes_done;
};

/* Acquire: pairs with mark() in owner.c.  Returned calls are read first and begun ones last, which
 * can only make the bounds wider. */
static struct sums sum_marks(struct run *run)
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

static uint64_t count_if(bool wrong, const char *what)
{
  if (wrong)
    printf("impossible: %s\n", what);
  return wrong;
}

static uint64_t check_stats(struct run *run, const struct sums *before, const tamis_stats *s,
                            const struct sums *after, const tamis_stats *last)
{
  double slack = (double) (SLACK_PER_THREAD * run->settings->shared.threads);
  double lowest = (double) before->adds_done - (double) after->removes_begun - slack;
  double highest = (double) after->adds_begun - (double) before->removes_done + slack;
  uint64_t wrong = 0;
  wrong += count_if((double) s->count < lowest, "count too low");
  wrong += count_if((double) s->count > highest, "count too high");
  wrong += count_if(s->growths < last->growths || s->joins < last->joins ||
                        s->generations < last->generations,
                    "a figure that only grows fell");
  wrong += count_if(run->options.max_bytes && s->bytes > run->options.max_bytes,
                    "more bytes than max_bytes");
  wrong += count_if(!(s->occupancy >= 0 && s->occupancy <= 2), "occupancy");
  wrong += count_if(!(s->fpp_estimate >= 0 && s->fpp_estimate <= 1), "fpp_estimate");
  wrong += count_if(!(s->load >= 0 && isfinite(s->load)), "load");
  wrong += count_if(s->estimated_count != (double) s->count, "estimated_count");
  wrong += count_if(s->kind != TAMIS_CUCKOO || s->capacity != run->options.capacity ||
                        s->fpp != run->options.fpp || s->seed != run->options.seed,
                    "a constant figure changed");
  return wrong;
}

static void watch(struct run *run, struct worker *worker)
{
  tamis_stats last = TAMIS_STATS_INIT;
  uint64_t answers = 0;
  while (atomic_load(&run->writing) && worker->result < 10) {
    tamis_stats stats = TAMIS_STATS_INIT;
    struct sums before = sum_marks(run);
    uint64_t began = call_begins(worker);
    worker->result += tamis_get_stats(run->filter, &stats) != TAMIS_OK;
    call_ends(worker, began);
    struct sums after = sum_marks(run);
    worker->result += check_stats(run, &before, &stats, &after, &last);
    last = stats;
    answers++;
  }
  atomic_fetch_add(&run->answers, answers);
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

static bool run_round(const struct settings *s, uint64_t round)
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
  run.filter = create_filter(&run.options);
  owners_init(run.owners, run.writers, run.filter, s->keys, seed);
  for (unsigned i = 0; i < run.writers; i++)
    run.owners[i].limited = run.options.max_bytes != 0;
  atomic_store(&run.writing, run.writers);
  atomic_store(&run.answers, 0);
  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, &run, workers);
  uint64_t wrong = harness_results(workers, n) + owners_verify(run.owners, run.writers, 0.01);
  owners_free(run.owners, run.writers);
  tamis_destroy(run.filter);
  harness_report(!wrong, "%" PRIu64 " answers: %" PRIu64 " wrong\n", run.answers, wrong);
  return wrong == 0;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 4096, .calls = 50000, .shared = {.threads = 4, .rounds = 4}};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys of each writer (default: 4096)", .number = &s.keys, .least = 64},
      {"calls", 'c', "Calls of each writer in a round (default: 50000)", .number = &s.calls},
      {0}};
  harness_parse("Finds statistics that are impossible.", options, argc, argv, &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= run_round(&s, round);
  return harness_verdict(&s.shared, good);
}
