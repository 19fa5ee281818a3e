/* SPDX-License-Identifier: MIT
 *
 * Question: when several threads add the same keys in step, has every key exactly one winner?
 *
 * All threads call add_unique on key 0, 1, 2, ...; now and then they wait for each other, so that
 * they stay close together.  A key with two winners is a failure; a key without one was hidden by a
 * false positive, and there may be no more of these than the filter's rate allows.  A cuckoo filter
 * starts tiny, and grows all the while: its segments split, and new generations open, under the calls.
 */
#include "harness.h"
#include "tamis/tamis.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 512, CUCKOO_CAPACITY = 1000 };

struct run {
  tamis_filter *filter;
  uint64_t keys;
  _Atomic unsigned char *winners;
  pthread_barrier_t in_step;
  bool batches;
};

static void claim(struct run *run, uint64_t key, int result)
{
  if (result == TAMIS_OK)
    atomic_fetch_add_explicit(&run->winners[key], 1, memory_order_relaxed);
}

static void add_step(struct run *run, uint64_t begin, uint64_t end)
{
  if (run->batches) {
    uint64_t hashes[STEP] = {0};
    int results[STEP];
    for (uint64_t key = begin; key < end; key++)
      hashes[key - begin] = key;
    tamis_add_unique_many_hash(run->filter, hashes, end - begin, results);
    for (uint64_t key = begin; key < end; key++)
      claim(run, key, results[key - begin]);
  } else {
    for (uint64_t key = begin; key < end; key++)
      claim(run, key, tamis_add_unique_hash(run->filter, key));
  }
}

static void add_all(struct worker *worker)
{
  struct run *run = worker->arg;
  for (uint64_t key = 0; key < run->keys; key += STEP) {
    pthread_barrier_wait(&run->in_step);
    add_step(run, key, key + STEP < run->keys ? key + STEP : run->keys);
  }
}

struct settings {
  struct harness_settings shared;
  uint64_t keys;
  double fpp;
  bool batches;
  tamis_kind kind;
};

static bool one_winner(const struct settings *s, tamis_layout layout)
{
  struct run run = {.keys = s->keys, .winners = calloc(s->keys, 1), .batches = s->batches};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = s->kind;
  options.capacity = s->kind == TAMIS_CUCKOO ? CUCKOO_CAPACITY : s->keys;
  options.fpp = s->fpp;
  options.layout = layout;
  options.seed = s->shared.seed;
  int result = tamis_create(&options, &run.filter);
  if (result != TAMIS_OK || !run.winners ||
      pthread_barrier_init(&run.in_step, NULL, s->shared.threads))
    error(2, 0, "cannot start: %s", tamis_strerror(result));

  struct worker workers[MAX_THREADS];
  harness_run(s->shared.threads, s->shared.seed, add_all, &run, workers);

  uint64_t none = 0, several = 0;
  for (uint64_t key = 0; key < s->keys; key++) {
    none += run.winners[key] == 0;
    several += run.winners[key] > 1;
  }
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(run.filter, &stats);
  tamis_destroy(run.filter);
  pthread_barrier_destroy(&run.in_step);
  free(run.winners);

  double bound = 1.1 * s->fpp * (double) s->keys;
  bool good =
      several == 0 && (double) none <= bound + 4 * sqrt(bound) && stats.count == s->keys - none;
  printf("%s %u threads, %" PRIu64 " keys, fpp %g: %" PRIu64 " keys with several winners, %" PRIu64
         " hidden (at most %.0f allowed), count %s\n",
         s->kind == TAMIS_CUCKOO          ? "cuckoo"
         : layout == TAMIS_LAYOUT_BLOCKED ? "blocked"
                                          : "classic",
         s->shared.threads, s->keys, s->fpp, several, none, bound + 4 * sqrt(bound),
         stats.count == s->keys - none ? "right" : "WRONG");
  return good;
}

static const struct argp_option options[] = {
    {"keys", 'n', "N", 0, "Keys (default: 1000000)", 0},
    {"fpp", 'p', "P", 0, "Rate asked of the filter (default: 0.01)", 0},
    {"batches", 'b', NULL, 0, "Use batch calls", 0},
    {"kind", 'k', "KIND", 0, "bloom (the default) or cuckoo, which grows from capacity 1000", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
  struct settings *s = state->input;
  switch (key) {
  case 'n':
    s->keys = harness_number(arg);
    break;
  case 'p':
    s->fpp = harness_rate(arg);
    break;
  case 'b':
    s->batches = true;
    break;
  case 'k':
    s->kind = strcmp(arg, "cuckoo") == 0 ? TAMIS_CUCKOO : TAMIS_BLOOM;
    if (s->kind == TAMIS_BLOOM && strcmp(arg, "bloom") != 0)
      argp_error(state, "kind: bloom or cuckoo");
    break;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 1000000, .kind = TAMIS_BLOOM, .shared.threads = 4, .fpp = 0.01};
  harness_parse("Looks for unique adds with two winners.", options, parse, argc, argv, &s);
  bool good = one_winner(&s, TAMIS_LAYOUT_BLOCKED);
  if (s.kind == TAMIS_BLOOM)
    good &= one_winner(&s, TAMIS_LAYOUT_CLASSIC);
  return harness_verdict("unique", s.shared.seed, good);
}
