/* SPDX-License-Identifier: MIT
 *
 * Question: while several threads add and remove copies of a few keys, is every copy counted, and
 * is a key found as long as the filter holds a copy of it?
 *
 * A thread removes only copies that it has added itself, so the key must be found while it has one
 * left.  In the end exactly as many removes of a key succeed as the filter holds copies.  In the
 * first part the filter holds nothing else, and a million copies may take no more memory than a
 * few.  In the second part one thread adds and removes many other keys at the same time, so that
 * the copies go through splits, joins and new generations.
 */
#include "create.h"
#include "cuckoo/cuckoo.h"
#include "harness.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MAX_KEYS = 64, FEW_COPIES = 16 };

struct settings {
  struct harness_settings shared;
  uint64_t copies, others, keys;
};

struct run {
  const struct settings *settings;
  tamis_filter *filter;
  bool crowded; /* thread 0 adds and removes other keys */
  uint64_t key[MAX_KEYS];
  uint64_t max_bytes;                   /* not checked if crowded */
  uint64_t left[MAX_THREADS][MAX_KEYS]; /* copies that a thread has added and not removed */
  _Atomic unsigned working;
};

static uint64_t bytes_of(const tamis_filter *f)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(f, &stats);
  return stats.bytes;
}

/* Adds or removes the same key many times in a row, so that its duplicate count rises and falls
 * far. */
static uint64_t change_copies(struct run *run, struct worker *worker, uint64_t *seed)
{
  uint64_t wrong = 0, *left = run->left[worker->index];
  for (uint64_t i = 0, n; i < run->settings->copies; i += n) {
    uint64_t random = random_next(seed);
    unsigned k = (unsigned) ((random >> 32) % run->settings->keys);
    bool adds = random & 1;
    n = 1 + (random >> 1) % 64;
    for (uint64_t j = 0; j < n && (adds || left[k] > 0); j++) {
      if (left[k] > 0)
        wrong += !tamis_contains_hash(run->filter, run->key[k]);
      uint64_t began = call_begins(worker);
      wrong += (adds ? tamis_add_hash : tamis_remove_hash)(run->filter, run->key[k]) != TAMIS_OK;
      call_ends(worker, began);
      left[k] += adds ? 1 : (uint64_t) -1;
    }
    if (left[k] > 0)
      wrong += tamis_add_unique_hash(run->filter, run->key[k]) != TAMIS_PRESENT;
    wrong += !run->crowded && bytes_of(run->filter) > run->max_bytes;
  }
  return wrong;
}

static uint64_t other_key(uint64_t i)
{
  return UINT64_C(1) << 63 | i;
}

static uint64_t change_others(struct run *run)
{
  uint64_t wrong = 0, others = run->settings->others;
  do {
    for (uint64_t i = 0; i < others; i++)
      wrong += tamis_add_hash(run->filter, other_key(i)) != TAMIS_OK;
    for (uint64_t i = 0; i < others; i++)
      wrong += tamis_remove_hash(run->filter, other_key(i)) != TAMIS_OK;
  } while (atomic_load_explicit(&run->working, memory_order_relaxed));
  return wrong;
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  uint64_t seed = worker->seed;
  if (run->crowded && worker->index == 0) {
    worker->result = change_others(run);
    return;
  }
  worker->result = change_copies(run, worker, &seed);
  atomic_fetch_sub_explicit(&run->working, 1, memory_order_relaxed);
}

/* Chooses keys that the filter does not confuse, adds a few copies of each, and notes the memory
 * that the filter then takes. */
static void choose_keys(struct run *run, uint64_t seed)
{
  for (unsigned k = 0; k < run->settings->keys; k++) {
    do
      run->key[k] = random_next(&seed) >> 1;
    while (tamis_contains_hash(run->filter, run->key[k]));
    tamis_add_hash(run->filter, run->key[k]);
  }
  for (unsigned k = 0; k < run->settings->keys; k++)
    for (unsigned i = 1; i < FEW_COPIES; i++)
      tamis_add_hash(run->filter, run->key[k]);
  /* Where codes have few bits, blocks differ more. */
  run->max_bytes = bytes_of(run->filter) + SMALL(0, 64);
}

/* Removes all copies of a key; returns the number of wrong answers. */
static uint64_t remove_copies(struct run *run, unsigned k)
{
  uint64_t copies = FEW_COPIES, wrong = 0;
  for (unsigned t = 0; t < run->settings->shared.threads; t++)
    copies += run->left[t][k];
  for (uint64_t i = 0; i < copies; i++) {
    wrong += !tamis_contains_hash(run->filter, run->key[k]);
    wrong += tamis_remove_hash(run->filter, run->key[k]) != TAMIS_OK;
  }
  wrong += tamis_remove_hash(run->filter, run->key[k]) != TAMIS_ABSENT;
  return wrong + tamis_contains_hash(run->filter, run->key[k]);
}

static bool run_round(const struct settings *s, double fpp, bool crowded, uint64_t seed)
{
  static struct run run;
  run = (struct run){.settings = s,
                     .crowded = crowded,
                     .working = (unsigned) s->shared.threads - (crowded && s->shared.threads > 1)};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 1000;
  options.fpp = fpp;
  options.seed = seed;
  run.filter = create_filter(&options);
  choose_keys(&run, seed);

  struct worker workers[MAX_THREADS];
  uint64_t wrong_in_the_end = 0, copies = 0;
  double begin = harness_seconds();
  harness_run(s->shared.threads, seed, work, &run, workers);
  double seconds = harness_seconds() - begin;
  uint64_t wrong = harness_results(workers, s->shared.threads);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(run.filter, &stats);
  for (unsigned t = 0; t < s->shared.threads; t++)
    for (unsigned k = 0; k < s->keys; k++)
      copies += run.left[t][k];
  bool right = stats.count == copies + (uint64_t) FEW_COPIES * s->keys;
  for (unsigned k = 0; k < s->keys; k++)
    wrong_in_the_end += remove_copies(&run, k);
  const char *reason = "whole";
  bool whole = filter_validate(run.filter, &reason);
  tamis_stats empty = TAMIS_STATS_INIT;
  tamis_get_stats(run.filter, &empty);
  bool good = wrong == 0 && wrong_in_the_end == 0 && right && whole && empty.count == 0;
  harness_report(good,
                 "fpp %g%s, %" PRIu64 " threads, %.2f s: %" PRIu64 " growths, %" PRIu64
                 " joins, %" PRIu64 " copies left, %" PRIu64 " wrong answers, %" PRIu64
                 " in the end, count %s, %" PRIu64 " left, %s\n",
                 fpp, crowded ? " and other keys" : "", s->shared.threads, seconds, stats.growths,
                 stats.joins, copies, wrong, wrong_in_the_end, right ? "right" : "WRONG",
                 empty.count, whole ? "whole" : reason);
  tamis_destroy(run.filter);
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {
      .copies = 1000000, .keys = 8, .others = 20000, .shared = {.threads = 4, .rounds = 1}};
  const struct harness_option options[] = {
      {"copies", 'n', "Adds and removes of each thread (default: 1000000)", .number = &s.copies,
       .least = 1},
      {"keys", 'k', "Keys that have copies (default: 8)", .number = &s.keys, .least = 1,
       .most = MAX_KEYS},
      {"others", 'x', "Other keys (default: 20000)", .number = &s.others, .least = 1},
      {0}};
  harness_parse("Finds copies of keys that are lost or counted twice.", options, argc, argv,
                &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++) {
    uint64_t seed = random_at(s.shared.seed, round);
    good &= run_round(&s, 0.01, false, seed);
    good &= run_round(&s, 1e-6, false, seed);
    if (s.shared.threads > 1) /* at a rate low enough that other keys are not mistaken for these */
      good &= run_round(&s, 1e-6, true, seed);
  }
  return harness_verdict(&s.shared, good);
}
