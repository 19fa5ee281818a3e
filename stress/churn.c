/* SPDX-License-Identifier: MIT
 *
 * Question: when keys come and go for ever, by single calls and by batches, is every answer right: in
 * filters that grow, in full ones that may not, in ones that run into max_bytes, with one stripe or many?
 *
 * Every thread owns keys of its own (owner.h) in one filter.  A round is one filter; its options follow
 * from the round's number.
 */
#include "harness.h"
#include "owner.h"

#include <error.h>
#include <inttypes.h>
#include <stdio.h>

enum { GROWS, GROWS_FROM_ONE, LIMITED, FIXED, FIXED_SMALL_RATE, ONE_STRIPE, SORTS };
static const char *const sort_names[] = {"grows", "grows from one key", "max_bytes",
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

static void leave(struct worker *worker)
{
  struct run *run = worker->arg;
  owner_leave(&run->owners[worker->index], worker);
}

static tamis_options options_of(const struct settings *s, uint64_t sort, uint64_t seed)
{
  uint64_t all = s->keys * s->shared.threads;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = sort == GROWS_FROM_ONE ? 1 : 1000;
  options.seed = seed;
  if (sort == LIMITED)
    options.max_bytes = 64 * 1024 + all;
  if (sort == FIXED || sort == FIXED_SMALL_RATE) {
    options.growable = false;
    options.capacity = all / 2; /* refuses some keys */
  }
  if (sort == FIXED_SMALL_RATE)
    options.fpp = 1e-4;
  if (sort == ONE_STRIPE)
    options.stripes = 1;
  return options;
}

static bool play(const struct settings *s, uint64_t round)
{
  static struct run run;
  uint64_t sort = round % SORTS, seed = random_at(s->shared.seed, round), n = s->shared.threads;
  tamis_options options = options_of(s, sort, seed);
  tamis_filter *filter;
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK)
    error(2, 0, "cannot create a filter: %s", tamis_strerror(result));
  run.settings = s;
  for (unsigned i = 0; i < n; i++) {
    owner_init(&run.owners[i], filter, i, s->keys, random_at(seed, i));
    run.owners[i].mix = (enum owner_mix) s->mix;
    run.owners[i].limited = options.max_bytes || !options.growable;
  }
  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, &run, workers);
  uint64_t wrong = owners_judge(run.owners, n, options.fpp);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  wrong += options.max_bytes && stats.bytes > options.max_bytes;
  harness_run(n, seed, leave, &run, workers);
  wrong += owners_judge(run.owners, n, options.fpp);

  uint64_t refused = 0;
  for (unsigned i = 0; i < n; i++) {
    refused += run.owners[i].refused;
    owner_free(&run.owners[i]);
  }
  harness_tell(!wrong,
               "%s: %" PRIu64 " keys, %.2f full, %" PRIu64 " growths, %" PRIu64
               " joins, %u generations, %" PRIu64 " refused%s\n",
               sort_names[sort], stats.count, stats.occupancy, stats.growths, stats.joins,
               stats.generations, refused, wrong ? ": WRONG" : "");
  tamis_destroy(filter);
  return wrong == 0;
}

int main(int argc, char **argv)
{
  static const char *const mixes[] = {"single", "batches", "both", NULL};
  struct settings s = {
      .keys = 4096, .calls = 50000, .mix = BOTH_KINDS, .shared = {.threads = 4, .rounds = SORTS}};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys of each thread (default: 4096)", .number = &s.keys, .least = 64},
      {"calls", 'c', "Calls of each thread in a round (default: 50000)", .number = &s.calls},
      {"mix", 'm', "single, batches or both (the default)", .choice = &s.mix,
       .choice_names = mixes},
      {0}};
  harness_parse("Looks for wrong answers while keys come and go.", options, argc, argv, &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= play(&s, round);
  return harness_verdict(&s.shared, good);
}
