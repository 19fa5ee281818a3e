/* SPDX-License-Identifier: MIT
 *
 * Question: when many filters are in use at the same time, and others are created and destroyed all
 * the while, does one ever affect another?
 *
 * Every thread owns keys in each of several shared filters, with the same hashes in all of them,
 * and works on these filters in random order.  In between it creates a filter of its own, uses it,
 * and destroys it.  All filters share what the library has only once: the thread that waits for
 * grace periods, liburcu's registry of readers, and the thread indices.
 */
#include "create.h"
#include "harness.h"
#include "owner.h"

#include <inttypes.h>
#include <stdio.h>

enum { FILTERS = 12, SPELL_CALLS = 64, OWN_KEYS = 512 };

struct settings {
  struct harness_settings shared;
  uint64_t keys, spells;
};

struct run {
  const struct settings *settings;
  double fpp[FILTERS];
  struct owner owners[FILTERS][MAX_THREADS];
  _Atomic uint64_t created;
};

static tamis_filter *create(tamis_kind kind, uint64_t capacity, double fpp, uint64_t seed)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = kind;
  options.capacity = capacity;
  options.fpp = fpp;
  options.seed = seed;
  return create_filter(&options);
}

static uint64_t use_bloom(tamis_filter *filter, struct worker *worker)
{
  uint64_t wrong = 0;
  for (uint64_t key = 0; key < OWN_KEYS; key++) {
    uint64_t began = call_begins(worker);
    wrong += tamis_add_hash(filter, key) != TAMIS_OK;
    call_ends(worker, began);
  }
  for (uint64_t key = 0; key < OWN_KEYS; key++)
    wrong += !tamis_contains_hash(filter, key);
  return wrong;
}

static uint64_t use_cuckoo(tamis_filter *filter, struct worker *worker, uint64_t seed)
{
  struct owner owner;
  owner_init(&owner, filter, worker->index, OWN_KEYS, seed);
  owner_work(&owner, worker, OWN_KEYS);
  if (seed & 1) /* the other half is destroyed as it is, with a backlog of retired memory */
    owner_remove_all(&owner, worker);
  uint64_t wrong = owners_verify(&owner, 1, 0.01);
  owner_free(&owner);
  return wrong;
}

static uint64_t use_own_filter(struct run *run, struct worker *worker, uint64_t random)
{
  bool bloom = random % 8 == 0;
  tamis_filter *filter =
      create(bloom ? TAMIS_BLOOM : TAMIS_CUCKOO, bloom ? OWN_KEYS : 1, 0.01, random | 1);
  uint64_t wrong = bloom ? use_bloom(filter, worker) : use_cuckoo(filter, worker, random >> 8);
  tamis_destroy(filter);
  atomic_fetch_add_explicit(&run->created, 1, memory_order_relaxed);
  return wrong;
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  uint64_t seed = worker->seed;
  for (uint64_t i = 0; i < run->settings->spells; i++) {
    uint64_t random = random_next(&seed);
    owner_work(&run->owners[random % FILTERS][worker->index], worker, SPELL_CALLS);
    if (random >> 32 & 1)
      worker->result += use_own_filter(run, worker, random >> 33);
  }
}

static bool run_round(const struct settings *s, uint64_t round)
{
  static struct run run;
  static const double rates[] = {0.01, 0.001, 0.1};
  uint64_t seed = random_at(s->shared.seed, round), n = s->shared.threads, growths = 0, wrong = 0;
  run.settings = s;
  run.created = 0;
  for (unsigned f = 0; f < FILTERS; f++) {
    run.fpp[f] = rates[f % 3];
    tamis_filter *filter = create(TAMIS_CUCKOO, f % 2 ? 1 : 500, run.fpp[f], seed + f);
    owners_init(run.owners[f], n, filter, s->keys, seed + f);
  }
  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, &run, workers);
  wrong += harness_results(workers, n);
  for (unsigned f = 0; f < FILTERS; f++) {
    tamis_stats stats = TAMIS_STATS_INIT;
    tamis_get_stats(run.owners[f][0].filter, &stats);
    growths += stats.growths;
    for (unsigned i = 0; i < n; i++)
      owner_check(&run.owners[f][i]);
    wrong += owners_verify(run.owners[f], n, run.fpp[f]);
    tamis_destroy(run.owners[f][0].filter);
    owners_free(run.owners[f], n);
  }
  harness_report(!wrong,
                 "%d filters with %" PRIu64 " growths, %" PRIu64
                 " created and destroyed meanwhile: %" PRIu64 " wrong\n",
                 FILTERS, growths, run.created, wrong);
  return wrong == 0;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 1024, .spells = 1000, .shared = {.threads = 4, .rounds = 2}};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys of each thread in each filter (default: 1024)", .number = &s.keys,
       .least = 64},
      {"spells", 'c', "Spells of 64 calls that each thread makes in a round (default: 1000)",
       .number = &s.spells},
      {0}};
  harness_parse("Finds wrong answers in filters that are in use at the same time.", options, argc,
                argv, &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= run_round(&s, round);
  return harness_verdict(&s.shared, good);
}
