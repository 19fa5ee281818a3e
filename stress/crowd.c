/* SPDX-License-Identifier: MIT
 *
 * Question: does a cuckoo filter keep its throughput when far more threads share it than there are
 * cores, so that threads are descheduled while they hold locks?
 *
 * In each round a few threads and many threads do the same work: 90 % contains, 5 % add, 5 %
 * remove, on a filter that may grow.  The result is the median over the rounds of the ratio of the
 * two speeds.  A missed key is a failure.  A low ratio is a failure only with --check, as it
 * depends on the machine.
 */
#include "harness.h"
#include "tamis/tamis.h"

#include <error.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  FEW = 2,
  CHANGE_PERCENT = 5, /* adds; there are as many removes */
  MAX_ROUNDS = 1000
};

static const double min_ratio = 0.8;

struct settings {
  struct harness_settings shared; /* threads: how many "many" are */
  uint64_t keys, calls;
  double fpp;
  bool check;
};

struct run {
  const struct settings *settings;
  tamis_filter *filter;
  uint64_t seed;
};

/* A key that its thread adds and later removes.  Keys that stay are smaller than all of these. */
static uint64_t own_key(const struct worker *worker, uint64_t i)
{
  return (uint64_t) (worker->index + 1) << 40 | i;
}

static uint64_t change_one(const struct run *run, const struct worker *worker, bool add,
                           uint64_t *oldest, uint64_t *newest)
{
  if (add)
    return tamis_add_hash(run->filter, own_key(worker, (*newest)++)) != TAMIS_OK;
  return *oldest < *newest &&
         tamis_remove_hash(run->filter, own_key(worker, (*oldest)++)) != TAMIS_OK;
}

static void work(struct worker *worker)
{
  const struct run *run = worker->arg;
  struct range share = harness_share(worker, run->settings->calls);
  uint64_t seed = worker->seed, oldest = 0, newest = 0, wrong = 0;
  for (uint64_t i = share.begin; i < share.end; i++) {
    uint64_t random = random_next(&seed), kind = (random >> 32) % 100;
    if (kind < 2 * CHANGE_PERCENT)
      wrong += change_one(run, worker, kind < CHANGE_PERCENT, &oldest, &newest);
    else
      wrong += !tamis_contains_hash(run->filter, (random & UINT32_MAX) % run->settings->keys);
  }
  while (oldest < newest)
    wrong += change_one(run, worker, false, &oldest, &newest);
  worker->result = wrong;
}

/* Calls per second. */
static double measure_speed(struct run *run, uint64_t threads, uint64_t *wrong)
{
  struct worker workers[MAX_THREADS];
  double begin = harness_seconds();
  harness_run(threads, run->seed++, work, run, workers);
  double seconds = harness_seconds() - begin;
  *wrong += harness_results(workers, threads);
  return (double) run->settings->calls / seconds;
}

static tamis_filter *create(const struct settings *s)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = s->keys;
  options.fpp = s->fpp;
  options.seed = s->shared.seed;
  tamis_filter *f;
  int result = tamis_create(&options, &f);
  for (uint64_t key = 0; key < s->keys && result == TAMIS_OK; key++)
    result = tamis_add_hash(f, key);
  if (result != TAMIS_OK)
    error(2, 0, "cannot fill a filter: %s", tamis_strerror(result));
  return f;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  struct settings s = {
      .shared = {.threads = 16, .rounds = 11}, .keys = 1000000, .calls = 2000000, .fpp = 0.01};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys in the filter (default: 1000000)", .number = &s.keys, .least = 1},
      {"calls", 'c', "Calls of each measurement, over all threads (default: 2000000)",
       .number = &s.calls, .least = 1},
      {"fpp", 'p', "Requested false-positive rate (default: 0.01)", .rate = &s.fpp},
      {"check", 'k', "Fail if many threads are less than 0.8 times as fast as 2", .flag = &s.check},
      {0}};
  harness_parse("Compares the measure_speed of many threads with that of two.", options, argc, argv,
                &s.shared);
  struct run run = {.settings = &s, .filter = create(&s), .seed = s.shared.seed};
  double ratio[MAX_ROUNDS];
  uint64_t wrong = 0, round = 0;
  for (; round < MAX_ROUNDS && harness_more(&s.shared, round); round++) {
    bool many_first = round % 2;
    double first = measure_speed(&run, many_first ? s.shared.threads : FEW, &wrong);
    double second = measure_speed(&run, many_first ? FEW : s.shared.threads, &wrong);
    double few = many_first ? second : first, many = many_first ? first : second;
    ratio[round] = many / few;
    printf("%d threads: %.2f million calls per second; %" PRIu64 " threads: %.2f; ratio %.2f\n",
           FEW, few * 1e-6, s.shared.threads, many * 1e-6, ratio[round]);
  }
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(run.filter, &stats);
  tamis_destroy(run.filter);
  qsort(ratio, round, sizeof *ratio, compare);
  double median = ratio[round / 2];
  printf("median ratio %.2f, from %.2f to %.2f; %" PRIu64 " wrong answers, count %s\n", median,
         ratio[0], ratio[round - 1], wrong, stats.count == s.keys ? "right" : "WRONG");
  bool good = wrong == 0 && stats.count == s.keys && (!s.check || median >= min_ratio);
  return harness_verdict(&s.shared, good);
}
