/* SPDX-License-Identifier: MIT
 *
 * Question: is memory ever released under a reader, released twice, or not at all, while a filter grows
 * and shrinks as fast as it can?
 *
 * Some threads own keys that come in bursts and go again; the others only look for keys that stay.  The
 * filter's memory comes from an allocator that overwrites what is released, so a reader that is still
 * there misses its key (and a sanitizer reports it), and that keeps books.
 */
#include "harness.h"
#include "owner.h"

#include <error.h>
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
  struct owner owners[MAX_THREADS]; /* the last one's keys stay */
  uint64_t writers;
  _Atomic uint64_t writing; /* writers that are not done */
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
    owner_leave(owner, worker);
  }
  atomic_fetch_sub(&run->writing, 1);
}

static void read_on(struct run *run, struct worker *worker)
{
  const struct owner *stays = &run->owners[MAX_THREADS - 1];
  uint64_t seed = worker->seed, misses = 0;
  while (atomic_load(&run->writing)) {
    uint64_t began = call_begins(worker);
    misses += !tamis_contains_hash(stays->filter, stays->base + random_next(&seed) % STAYING);
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
    read_on(run, worker);
}

/* ---- rounds ---- */

/* What waits for readers comes back in the end, by calls that come later. */
static bool comes_back(const struct run *run, const tamis_filter *filter)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  double until = harness_seconds() + 10;
  do
    tamis_get_stats(filter, &stats);
  while (stats.bytes != atomic_load(&run->bytes) && harness_seconds() < until);
  return stats.bytes == atomic_load(&run->bytes);
}

static bool play(const struct settings *s, uint64_t round)
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
  tamis_filter *filter;
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK)
    error(2, 0, "cannot create a filter: %s", tamis_strerror(result));
  for (unsigned i = 0; i < run.writers; i++)
    owner_init(&run.owners[i], filter, i, s->keys, random_at(seed, i));
  struct owner *stays = &run.owners[MAX_THREADS - 1];
  owner_init(stays, filter, MAX_THREADS - 1, STAYING, seed);
  for (uint64_t key = 0; key < STAYING; key++)
    run.wrong += tamis_add_hash(filter, stays->base + key) != TAMIS_OK;

  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, &run, workers);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  uint64_t wrong = run.wrong;
  bool back = comes_back(&run, filter);
  for (uint64_t key = 0; key < STAYING; key++)
    wrong += tamis_remove_hash(filter, stays->base + key) != TAMIS_OK;
  wrong += owners_judge(run.owners, run.writers, options.fpp);
  for (unsigned i = 0; i < run.writers; i++)
    owner_free(&run.owners[i]);
  owner_free(stays);
  tamis_destroy(filter);
  bool good = wrong == 0 && back && run.blocks == 0 && run.bytes == 0;
  harness_tell(good,
               "%" PRIu64 " growths, %" PRIu64 " joins, %" PRIu64
               " wrong answers, books %s, %" PRIu64 " blocks left\n",
               stats.growths, stats.joins, wrong, back ? "right" : "WRONG", run.blocks);
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 8192, .bursts = 8, .shared = {.threads = 4, .rounds = 3}};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys of a burst (default: 8192)", .number = &s.keys, .least = 64},
      {"bursts", 'b', "Bursts of each writer in a round (default: 8)", .number = &s.bursts},
      {0}};
  harness_parse("Looks for memory that is released too early, twice, or never.", options, argc,
                argv, &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= play(&s, round);
  return harness_verdict(&s.shared, good);
}
