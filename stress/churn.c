/* SPDX-License-Identifier: MIT
 *
 * Question: while keys are added and removed all the time, by single calls and in batches, is every
 * answer right?  The filters grow, or are full and fixed, or reach max_bytes; they have one stripe
 * or many.
 *
 * All threads work on one filter, in which each owns keys of its own (owner.h).  Each round uses a
 * new filter, whose options follow from the number of the round.
 */
#include "create.h"
#include "harness.h"
#include "owner.h"

#include <inttypes.h>
#include <stdio.h>

enum variant { GROWS, GROWS_FROM_ONE, LIMITED, FIXED, FIXED_SMALL_RATE, ONE_STRIPE, VARIANTS };
static const char *const variant_names[] = {"grows", "grows from one key", "max_bytes",
                                            "fixed", "fixed, 1e-4",        "one stripe"};

struct settings {
  struct harness_settings shared;
  uint64_t keys, calls;
  int mix;
};

struct run {
  const struct settings *settings;
  struct owner owners[MAX_THREADS];
};

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  owner_work(&run->owners[worker->index], worker, run->settings->calls);
  owner_check(&run->owners[worker->index]);
}

static void remove_all(struct worker *worker)
{
  struct run *run = worker->arg;
  owner_remove_all(&run->owners[worker->index], worker);
}

static tamis_options options_of(const struct settings *s, uint64_t variant, uint64_t seed)
{
  uint64_t all = s->keys * s->shared.threads;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = variant == GROWS_FROM_ONE ? 1 : 1000;
  options.seed = seed;
  if (variant == LIMITED)
    options.max_bytes = 64 * 1024 + all;
  if (variant == FIXED || variant == FIXED_SMALL_RATE) {
    options.growable = false;
    options.capacity = all / 2; /* too small for all keys: some adds are refused */
  }
  if (variant == FIXED_SMALL_RATE)
    options.fpp = 1e-4;
  if (variant == ONE_STRIPE)
    options.stripes = 1;
  return options;
}

static bool run_round(const struct settings *s, uint64_t round)
{
  static struct run run;
  uint64_t variant = round % VARIANTS, seed = random_at(s->shared.seed, round),
           n = s->shared.threads;
  tamis_options options = options_of(s, variant, seed);
  tamis_filter *filter = create_filter(&options);
  run.settings = s;
  owners_init(run.owners, n, filter, s->keys, seed);
  for (unsigned i = 0; i < n; i++) {
    run.owners[i].mix = (enum owner_mix) s->mix;
    run.owners[i].limited = options.max_bytes || !options.growable;
  }
  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, &run, workers);
  uint64_t wrong = owners_verify(run.owners, n, options.fpp);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  wrong += options.max_bytes && stats.bytes > options.max_bytes;
  harness_run(n, seed, remove_all, &run, workers);
  wrong += owners_verify(run.owners, n, options.fpp);

  uint64_t refused = owners_refused(run.owners, n);
  owners_free(run.owners, n);
  harness_report(!wrong,
                 "%s: %" PRIu64 " keys, %.2f full, %" PRIu64 " growths, %" PRIu64
                 " joins, %u generations, %" PRIu64 " refused%s\n",
                 variant_names[variant], stats.count, stats.occupancy, stats.growths, stats.joins,
                 stats.generations, refused, wrong ? ": WRONG" : "");
  tamis_destroy(filter);
  return wrong == 0;
}

int main(int argc, char **argv)
{
  static const char *const mixes[] = {"single", "batches", "both", NULL};
  struct settings s = {.keys = 4096,
                       .calls = 50000,
                       .mix = BOTH_KINDS,
                       .shared = {.threads = 4, .rounds = VARIANTS}};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys of each thread (default: 4096)", .number = &s.keys, .least = 64},
      {"calls", 'c', "Calls of each thread in a round (default: 50000)", .number = &s.calls},
      {"mix", 'm', "single, batches or both (the default)", .choice = &s.mix,
       .choice_names = mixes},
      {0}};
  harness_parse("Finds wrong answers while keys are added and removed all the time.", options, argc,
                argv, &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= run_round(&s, round);
  return harness_verdict(&s.shared, good);
}
