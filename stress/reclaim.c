/* SPDX-License-Identifier: MIT
 *
 * Question: while a filter grows and shrinks as fast as it can, is memory ever released while a
 * reader uses it, released twice, or never released?
 *
 * Some threads add keys in bursts and remove them again; the others only look up keys that stay in
 * the filter.  The filter's memory comes from an allocator that counts what is in use and
 * overwrites what is released.  So a reader of released memory misses its key (and a sanitizer
 * reports the access).
 */
#include "create.h"
#include "harness.h"
#include "owner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAYING = 2048, POISON = 0xDB };

struct settings {
  struct harness_settings shared;
  uint64_t keys, bursts;
};

struct run {
  const struct settings *settings;
  struct owner owners[MAX_THREADS]; /* the last one owns the staying keys */
  uint64_t writers;
  _Atomic uint64_t writing; /* writers that have not finished */
  _Atomic uint64_t bytes, blocks, wrong;
};

/* ---- the allocator ---- */

static void *allocate(void *context, size_t alignment, size_t size)
{
  struct run *run = context;
  void *block;
  if (posix_memalign(&block, alignment, size))
    return NULL;
  memset(block, POISON, size);
  atomic_fetch_add(&run->bytes, size);
  atomic_fetch_add(&run->blocks, 1);
  return block;
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  struct run *run = context;
  (void) alignment;
  memset(block, POISON, size);
  atomic_fetch_sub(&run->bytes, size);
  atomic_fetch_sub(&run->blocks, 1);
  free(block);
}

/* ---- threads ---- */

static void write_bursts(struct run *run, struct worker *worker)
{
  struct owner *owner = &run->owners[worker->index];
  for (uint64_t i = 0; i < run->settings->bursts; i++) {
    owner->goal = owner->keys;
    owner_work(owner, worker, owner->keys);
    owner_remove_all(owner, worker);
  }
  atomic_fetch_sub(&run->writing, 1);
}

static void read_until_done(struct run *run, struct worker *worker)
{
  const struct owner *staying = &run->owners[MAX_THREADS - 1];
  uint64_t seed = worker->seed, misses = 0;
  while (atomic_load(&run->writing)) {
    uint64_t began = call_begins(worker);
    misses += !tamis_contains_hash(staying->filter, staying->base + random_next(&seed) % STAYING);
    call_ends(worker, began);
  }
  atomic_fetch_add(&run->wrong, misses);
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  if (worker->index < run->writers)
    write_bursts(run, worker);
  else
    read_until_done(run, worker);
}

/* ---- rounds ---- */

/* Whether the filter and the allocator agree on the bytes in use.  The backlog is released by later
 * calls, so this waits for a while. */
static bool figures_agree(const struct run *run, const tamis_filter *filter)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  double until = harness_seconds() + 30;
  do
    tamis_get_stats(filter, &stats);
  while (stats.bytes != atomic_load(&run->bytes) && harness_seconds() < until);
  return stats.bytes == atomic_load(&run->bytes);
}

static bool run_round(const struct settings *s, uint64_t round)
{
  static struct run run;
  uint64_t seed = random_at(s->shared.seed, round), n = s->shared.threads;
  memset(&run, 0, sizeof run);
  run.settings = s;
  run.writers = (n + 1) / 2;
  run.writing = run.writers;
  tamis_allocator allocator = {allocate, release, &run};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 1 + round % 3 * 100;
  options.seed = seed;
  options.allocator = &allocator;
  tamis_filter *filter = create_filter(&options);
  owners_init(run.owners, run.writers, filter, s->keys, seed);
  struct owner *staying = &run.owners[MAX_THREADS - 1];
  owner_init(staying, filter, MAX_THREADS - 1, STAYING, seed);
  for (uint64_t key = 0; key < STAYING; key++)
    run.wrong += tamis_add_hash(filter, staying->base + key) != TAMIS_OK;

  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, &run, workers);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  uint64_t wrong = run.wrong;
  bool agree = figures_agree(&run, filter);
  for (uint64_t key = 0; key < STAYING; key++)
    wrong += tamis_remove_hash(filter, staying->base + key) != TAMIS_OK;
  wrong += owners_verify(run.owners, run.writers, options.fpp);
  owners_free(run.owners, run.writers);
  owner_free(staying);
  tamis_destroy(filter);
  bool good = wrong == 0 && agree && run.blocks == 0 && run.bytes == 0;
  harness_report(good,
                 "%" PRIu64 " growths, %" PRIu64 " joins, %" PRIu64
                 " wrong answers, bytes in use %s, %" PRIu64 " blocks left\n",
                 stats.growths, stats.joins, wrong, agree ? "right" : "WRONG", run.blocks);
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 8192, .bursts = 8, .shared = {.threads = 4, .rounds = 3}};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys of a burst (default: 8192)", .number = &s.keys, .least = 64},
      {"bursts", 'b', "Bursts of each writer in a round (default: 8)", .number = &s.bursts},
      {0}};
  harness_parse("Finds memory that is released too early, twice, or never.", options, argc, argv,
                &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= run_round(&s, round);
  return harness_verdict(&s.shared, good);
}
