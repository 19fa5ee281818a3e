/* SPDX-License-Identifier: MIT
 *
 * Question: while threads add and remove keys, does a Bloom filter that counts lose none that is
 * in, and keep its rate?
 *
 * Each thread has a window of keys that are in: with each step it adds a new key, by a plain add or
 * a unique one, and removes the oldest one, so the filter is always nearly at its capacity.  Now
 * and then it looks for some key of its window, and in the end for all of them.  Then absent keys
 * are looked up.  The rate may be 1.1 times the one asked for, and four standard deviations of the
 * measurement.  At last all keys are removed, and nothing may be left of them.
 */
#include "base/filter.h"
#include "create.h"
#include "harness.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct settings {
  struct harness_settings shared;
  uint64_t capacity, steps, probes;
  double fpp;
  bool fixed;
};

struct window {
  uint64_t *keys; /* UINT64_MAX: a false positive hid the key that was to be here */
  uint64_t next;  /* the number of the thread's next new key */
};

struct run {
  const struct settings *settings;
  tamis_filter *filter;
  uint64_t size; /* of a window */
  struct window windows[MAX_THREADS];
};

/* No two threads have a key in common, and absent keys are those of no thread. */
static uint64_t key_of(uint64_t thread, uint64_t i)
{
  return (thread + 1) << 48 | i;
}

/* Takes the next new key into the window, at `at`. */
static void add_next(struct run *run, struct worker *worker, uint64_t at)
{
  struct window *window = &run->windows[worker->index];
  uint64_t key = key_of(worker->index, window->next++);
  bool unique = random_next(&worker->seed) % 4 == 0;
  uint64_t began = call_begins(worker);
  int result = unique ? tamis_add_unique_hash(run->filter, key) : tamis_add_hash(run->filter, key);
  call_ends(worker, began);
  worker->result += result < 0;
  window->keys[at] = result == TAMIS_OK ? key : UINT64_MAX;
}

static void remove_at(struct run *run, struct worker *worker, uint64_t at)
{
  uint64_t key = run->windows[worker->index].keys[at];
  if (key == UINT64_MAX)
    return;
  uint64_t began = call_begins(worker);
  worker->result += tamis_remove_hash(run->filter, key) != TAMIS_OK;
  call_ends(worker, began);
}

static void look_at(struct run *run, struct worker *worker, uint64_t at)
{
  uint64_t key = run->windows[worker->index].keys[at];
  worker->result += key != UINT64_MAX && !tamis_contains_hash(run->filter, key);
}

static void fill(struct worker *worker)
{
  struct run *run = worker->arg;
  for (uint64_t i = 0; i < run->size; i++)
    add_next(run, worker, i);
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  struct range steps = harness_share(worker, run->settings->steps);
  for (uint64_t i = 0; i < steps.end - steps.begin; i++) {
    remove_at(run, worker, i % run->size);
    add_next(run, worker, i % run->size);
    look_at(run, worker, random_next(&worker->seed) % run->size);
  }
  for (uint64_t i = 0; i < run->size; i++)
    look_at(run, worker, i);
}

static void drain(struct worker *worker)
{
  struct run *run = worker->arg;
  for (uint64_t i = 0; i < run->size; i++)
    remove_at(run, worker, i);
}

/* Looks up absent keys. */
static void probe(struct worker *worker)
{
  struct run *run = worker->arg;
  struct range share = harness_share(worker, run->settings->probes);
  for (uint64_t i = share.begin; i < share.end; i++)
    worker->result += tamis_contains_hash(run->filter, key_of(MAX_THREADS, i));
}

/* What the threads have counted: wrong answers, or hits. */
static uint64_t run_all(struct run *run, void (*body)(struct worker *), uint64_t seed)
{
  struct worker workers[MAX_THREADS];
  uint64_t threads = run->settings->shared.threads;
  harness_run(threads, seed, body, run, workers);
  return harness_results(workers, threads);
}

static uint64_t keys_in(const struct run *run)
{
  uint64_t in = 0;
  for (uint64_t t = 0; t < run->settings->shared.threads; t++)
    for (uint64_t i = 0; i < run->size; i++)
      in += run->windows[t].keys[i] != UINT64_MAX;
  return in;
}

static bool run_round(const struct settings *s, uint64_t seed)
{
  struct run run = {.settings = s, .size = s->capacity / s->shared.threads};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_COUNTING_BLOOM;
  options.capacity = s->capacity;
  options.fpp = s->fpp;
  options.growable = !s->fixed;
  options.seed = seed;
  run.filter = create_filter(&options);
  for (uint64_t t = 0; t < s->shared.threads; t++)
    if (!(run.windows[t].keys = calloc(run.size, sizeof(uint64_t))))
      error(2, 0, "no memory");
  uint64_t wrong = run_all(&run, fill, seed) + run_all(&run, work, seed + 1);
  uint64_t hits = run_all(&run, probe, seed + 2);
  tamis_stats full = TAMIS_STATS_INIT, empty = TAMIS_STATS_INIT;
  tamis_get_stats(run.filter, &full);
  wrong += full.count != keys_in(&run);
  wrong += run_all(&run, drain, seed + 3);
  tamis_get_stats(run.filter, &empty);
  const char *reason = NULL;
  wrong += empty.count != 0 || empty.bits_set != 0 || !filter_validate(run.filter, &reason);
  double bound = 1.1 * s->fpp * (double) s->probes;
  bool good = wrong == 0 && (double) hits <= bound + 4 * sqrt(bound);
  harness_report(good,
                 "%" PRIu64 " threads, capacity %" PRIu64 ", %" PRIu64 " keys in, %" PRIu64
                 " added and removed: %" PRIu64 " wrong answers, measured rate %.3f of %g\n",
                 s->shared.threads, s->capacity, full.count, s->steps, wrong,
                 (double) hits / (double) s->probes / s->fpp, s->fpp);
  for (uint64_t t = 0; t < s->shared.threads; t++)
    free(run.windows[t].keys);
  tamis_destroy(run.filter);
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.capacity = 100000,
                       .steps = 1000000,
                       .probes = 2000000,
                       .fpp = 0.01,
                       .shared = {.threads = 4, .rounds = 1}};
  const struct harness_option options[] = {
      {"capacity", 'n', "Capacity, and keys that are in (default: 100000)", .number = &s.capacity,
       .least = MAX_THREADS},
      {"keys", 'k', "Keys that are added and removed (default: 1000000)", .number = &s.steps},
      {"probes", 'q', "Absent keys to look up (default: 2000000)", .number = &s.probes, .least = 1},
      {"fpp", 'p', "Requested false-positive rate (default: 0.01)", .rate = &s.fpp},
      {"fixed", 'f', "Not growable", .flag = &s.fixed},
      {0}};
  harness_parse("Adds and removes keys of a Bloom filter that counts.", options, argc, argv,
                &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= run_round(&s, random_at(s.shared.seed, round) | 1);
  return harness_verdict(&s.shared, good);
}
