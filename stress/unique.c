/* SPDX-License-Identifier: MIT
 *
 * Question: when several threads add the same keys in step, does every key have exactly one winner?
 *
 * All threads call add_unique on the keys 0, 1, 2, ...; they wait for each other after every few
 * hundred keys, so that they stay close together.  A key with two winners is a failure.  A key
 * without a winner was hidden by a false positive, and there may be no more of these than the
 * filter's rate allows.  A cuckoo filter starts small and grows meanwhile: its segments split, and
 * it opens new generations.  So does a Bloom filter with a small --capacity: it opens layers.
 *
 * With --shared, each thread opens the filter for itself, from one file in memory: to the library
 * that is what as many processes do.
 */
#include "create.h"
#include "harness.h"
#include "tamis/tamis.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STEP = 512, CUCKOO_CAPACITY = 1000 };

struct run {
  tamis_filter *filter;
  tamis_options options;
  int file; /* -1: the threads use `filter` */
  uint64_t keys;
  _Atomic unsigned char *winners;
  pthread_barrier_t in_step;
  bool batches;
};

static void count_winner(struct run *run, uint64_t key, int result)
{
  if (result == TAMIS_OK)
    atomic_fetch_add_explicit(&run->winners[key], 1, memory_order_relaxed);
}

static void add_step(struct run *run, tamis_filter *filter, uint64_t begin, uint64_t end)
{
  if (run->batches) {
    uint64_t hashes[STEP] = {0};
    int results[STEP];
    for (uint64_t key = begin; key < end; key++)
      hashes[key - begin] = key;
    tamis_add_unique_many_hash(filter, hashes, end - begin, results);
    for (uint64_t key = begin; key < end; key++)
      count_winner(run, key, results[key - begin]);
  } else {
    for (uint64_t key = begin; key < end; key++)
      count_winner(run, key, tamis_add_unique_hash(filter, key));
  }
}

static void add_all(struct worker *worker)
{
  struct run *run = worker->arg;
  tamis_filter *own = NULL;
  if (run->file >= 0)
    require_created(tamis_open_shared_fd(&run->options, run->file, &own));
  for (uint64_t key = 0; key < run->keys; key += STEP) {
    pthread_barrier_wait(&run->in_step);
    add_step(run, own ? own : run->filter, key, key + STEP < run->keys ? key + STEP : run->keys);
  }
  tamis_destroy(own);
}

/* The same filter for the main thread. */
static int create(struct run *run, bool shared)
{
  if (!shared)
    return tamis_create(&run->options, &run->filter);
  run->options.max_bytes = UINT64_C(1) << 32;
  run->file = memfd_create("stress-unique", MFD_CLOEXEC);
  return run->file < 0 ? TAMIS_EIO : tamis_open_shared_fd(&run->options, run->file, &run->filter);
}

struct settings {
  struct harness_settings shared;
  uint64_t keys, capacity; /* capacity 0: as many keys, or CUCKOO_CAPACITY */
  double fpp;
  bool batches, one_file;
  int kind; /* index in kinds[] */
};

static const char *const kinds[] = {"bloom", "cuckoo", "counting", NULL}; /* as numbered */
static const char *const layout_names[] = {"blocked", "classic", "word"};

static uint64_t capacity_for(const struct settings *s, tamis_kind kind)
{
  return s->capacity ? s->capacity : kind == TAMIS_CUCKOO ? CUCKOO_CAPACITY : s->keys;
}

/* A Bloom filter has opened a layer each time that it had as many keys as it was made for. */
static bool good_layers(const struct settings *s, const tamis_stats *stats, uint64_t winners)
{
  unsigned least = 1;
  for (uint64_t room = stats->capacity; stats->kind == TAMIS_BLOOM && room < winners / 2; room *= 2)
    least++;
  return stats->layers >= least && (s->keys > stats->capacity || stats->layers == 1);
}

static bool run_round(const struct settings *s, tamis_layout layout, uint64_t seed)
{
  struct run run = {
      .keys = s->keys, .winners = calloc(s->keys, 1), .batches = s->batches, .file = -1};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = (tamis_kind) (s->kind + 1);
  options.capacity = capacity_for(s, options.kind);
  options.fpp = s->fpp;
  options.layout = layout;
  options.seed = seed;
  run.options = options;
  int result = create(&run, s->one_file);
  if (result != TAMIS_OK || !run.winners ||
      pthread_barrier_init(&run.in_step, NULL, (unsigned) s->shared.threads))
    error(2, 0, "cannot start: %s", tamis_strerror(result));

  struct worker workers[MAX_THREADS];
  harness_run(s->shared.threads, seed, add_all, &run, workers);

  uint64_t none = 0, several = 0;
  for (uint64_t key = 0; key < s->keys; key++) {
    none += run.winners[key] == 0;
    several += run.winners[key] > 1;
  }
  const tamis_stats stats = stats_of(run.filter);
  tamis_destroy(run.filter);
  if (run.file >= 0)
    close(run.file);
  pthread_barrier_destroy(&run.in_step);
  free(run.winners);

  double bound = 1.1 * s->fpp * (double) s->keys;
  bool counted = stats.count == s->keys - none;
  bool grown = good_layers(s, &stats, s->keys - none);
  bool good = several == 0 && (double) none <= bound + 4 * sqrt(bound) && counted && grown;
  harness_report(good,
                 "%s %" PRIu64 " threads, %" PRIu64 " keys, fpp %g, %u layers%s: %" PRIu64
                 " keys with several winners, %" PRIu64
                 " hidden (at most %.0f allowed), count %s\n",
                 s->kind ? kinds[s->kind] : layout_names[layout], s->shared.threads, s->keys,
                 s->fpp, stats.layers, grown ? "" : " (WRONG)", several, none,
                 bound + 4 * sqrt(bound), counted ? "right" : "WRONG");
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 1000000, .fpp = 0.01, .shared = {.threads = 4, .rounds = 1}};
  const struct harness_option options[] = {
      {"keys", "Keys of a round (default: 1000000)", .number = &s.keys, .least = 1},
      {"capacity",
       "Capacity; a Bloom filter with more keys opens layers (default: the keys; "
       "1000 for a cuckoo filter)",
       .number = &s.capacity},
      {"fpp", "Requested false-positive rate (default: 0.01)", .rate = &s.fpp},
      {"batches", "Use batch calls", .flag = &s.batches},
      {"shared", "Each thread opens the filter from one file", .flag = &s.one_file},
      {"kind", "bloom (the default), cuckoo or counting", .choice = &s.kind, .choice_names = kinds},
      {0}};
  harness_parse("Finds keys for which two unique adds win.", options, argc, argv, &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++) {
    uint64_t seed = random_at(s.shared.seed, round);
    for (int layout = 0; layout < (s.kind ? 1 : 3); layout++)
      good &= run_round(&s, (tamis_layout) layout, seed);
  }
  return harness_verdict(&s.shared, good);
}
