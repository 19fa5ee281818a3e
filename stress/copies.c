/* SPDX-License-Identifier: MIT
 *
 * Question: what do copies cost, if every key of a filter is added several times?
 *
 * For each kind of filter, rate, number of copies and order, one filter gets each key once and
 * another one gets each key as often as that.  Compared are bytes, rate, and time for each call.
 * Then several threads remove all copies in random order.  A thread removes keys of its own, so a
 * key must be found while the thread has not removed all of its copies.
 */
#include "create.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/table.h"
#include "harness.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FIXED, GROWABLE, GROWN, SORTS, PASSES = 0, KEY_BY_KEY, RANDOM, ORDERS };

static const char *const sort_name[SORTS] = {"fixed", "growable", "grown from 1000"};
static const char *const order_name[ORDERS] = {"in passes", "key by key", "in random order"};

struct settings {
  struct harness_settings shared;
  uint64_t keys, copies;
  double fpp;
  uint64_t sort, order;
  bool times; /* mean times are checked, not only printed */
};

struct run {
  tamis_filter *filter;
  uint64_t keys, copies, threads;
  uint64_t wrong;
  double seconds[MAX_THREADS]; /* that removes took */
};

/* ---- figures ---- */

/* What the thread has used: other work on the machine does not count. */
static double cpu_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static tamis_stats stats_of(const tamis_filter *f)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(f, &stats);
  return stats;
}

/* When nothing waits for readers any more. */
static uint64_t bytes_at_rest(tamis_filter *f)
{
  double patience = harness_seconds() + 30;
  const struct cuckoo_growth *growth = cuckoo_has_growth(cuckoo_of(f));
  while (growth && atomic_load(&growth->backlog.held) && harness_seconds() < patience) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    stats_of(f);
  }
  return stats_of(f).bytes;
}

static uint64_t false_positives(const tamis_filter *f, uint64_t keys)
{
  uint64_t found = 0, probes = keys < 5000 ? 40 * keys : 200000;
  for (uint64_t i = 0; i < probes; i++)
    found += tamis_contains_hash(f, UINT64_C(1) << 62 | i);
  return found;
}

/* ---- adds ---- */

/* A bijection of the numbers below n: a few rounds of mixing, repeated until the result is below
 * n. */
static uint64_t shuffle(uint64_t i, uint64_t n)
{
  unsigned bits = n > 1 ? 64 - (unsigned) __builtin_clzll(n - 1) : 1;
  uint64_t mask = UINT64_MAX >> (64 - bits);
  do
    for (unsigned round = 0; round < 3; round++) {
      i = (i * UINT64_C(0xD1342543DE82EF95) + UINT64_C(0x9E3779B97F4A7C15)) & mask;
      i ^= i >> (bits + 1) / 2;
    }
  while (i >= n);
  return i;
}

static uint64_t key_at(uint64_t i, uint64_t keys, uint64_t copies, uint64_t order)
{
  return order == PASSES       ? i % keys
         : order == KEY_BY_KEY ? i / copies
                               : shuffle(i, keys * copies) % keys;
}

/* Adds all copies; returns the nanoseconds of a call.  *peak is the most bytes that it took. */
static double add_all(struct run *run, uint64_t order, uint64_t *peak)
{
  uint64_t n = run->keys * run->copies, group[1024];
  double seconds = 0;
  *peak = 0;
  for (uint64_t i = 0; i < n; i += 1024) {
    uint64_t count = n - i < 1024 ? n - i : 1024;
    for (uint64_t j = 0; j < count; j++)
      group[j] = key_at(i + j, run->keys, run->copies, order);
    double begin = cpu_seconds();
    for (uint64_t j = 0; j < count; j++)
      run->wrong += tamis_add_hash(run->filter, group[j]) != TAMIS_OK;
    seconds += cpu_seconds() - begin;
    uint64_t bytes = i / 1024 % 64 ? 0 : stats_of(run->filter).bytes;
    *peak = bytes > *peak ? bytes : *peak;
  }
  return 1e9 * seconds / (double) n;
}

/* ---- removes ---- */

static void remove_own(struct worker *worker)
{
  struct run *run = worker->arg;
  uint64_t own = (run->keys - worker->index + run->threads - 1) / run->threads, wrong = 0;
  uint32_t *left = malloc((own ? own : 1) * sizeof *left);
  if (!left)
    abort();
  for (uint64_t i = 0; i < own; i++)
    left[i] = (uint32_t) run->copies;
  uint64_t n = own * run->copies;
  double begin = cpu_seconds();
  for (uint64_t i = 0; i < n; i++) {
    uint64_t k = shuffle(i, n) % own, key = k * run->threads + worker->index;
    if (left[k] == 1 || i % 16 == 0)
      wrong += !tamis_contains_hash(run->filter, key);
    wrong += tamis_remove_hash(run->filter, key) != TAMIS_OK;
    left[k]--;
  }
  run->seconds[worker->index] = cpu_seconds() - begin;
  for (uint64_t i = 0; i < own; i++)
    wrong += left[i] != 0;
  free(left);
  worker->result = wrong;
}

/* Returns the nanoseconds of a call. */
static double remove_all(struct run *run, uint64_t seed)
{
  struct worker workers[MAX_THREADS];
  harness_run(run->threads, seed, remove_own, run, workers);
  run->wrong += harness_results(workers, run->threads);
  double seconds = 0;
  for (uint64_t t = 0; t < run->threads; t++)
    seconds += run->seconds[t];
  return 1e9 * seconds / (double) (run->keys * run->copies);
}

/* ---- one filter with copies, and one without ---- */

struct figures {
  uint64_t wrong, bytes, peak, found, after;
  double add, remove;
};

static struct figures measure(const struct settings *s, uint64_t sort, double fpp, uint64_t copies,
                              uint64_t order, uint64_t seed, bool *whole)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = sort == GROWN ? 1000 : s->keys;
  options.fpp = fpp;
  options.growable = sort != FIXED;
  options.seed = seed;
  struct run run = {.filter = create_filter(&options),
                    .keys = s->keys,
                    .copies = copies,
                    .threads = s->shared.threads};
  struct figures f = {0};
  const char *reason;
  f.add = add_all(&run, order, &f.peak);
  f.bytes = bytes_at_rest(run.filter);
  f.found = false_positives(run.filter, s->keys);
  for (uint64_t i = 0; i < s->keys; i++)
    run.wrong += !tamis_contains_hash(run.filter, i);
  run.wrong += stats_of(run.filter).count != s->keys * copies;
  *whole &= filter_validate(run.filter, &reason);
  f.remove = remove_all(&run, seed);
  f.after = bytes_at_rest(run.filter);
  run.wrong += stats_of(run.filter).count;
  *whole &= filter_validate(run.filter, &reason);
  tamis_destroy(run.filter);
  f.wrong = run.wrong;
  return f;
}

static bool compare(const struct settings *s, uint64_t sort, double fpp, uint64_t copies,
                    uint64_t order, const struct figures *one, uint64_t seed)
{
  bool whole = true;
  struct figures many = measure(s, sort, fpp, copies, order, seed, &whole);
  double bytes = (double) many.bytes / (double) one->bytes;
  double after = (double) many.after / (double) one->after;
  double peak = (double) many.peak / (double) one->peak;
  double add = many.add / one->add, removal = many.remove / one->remove;
  bool good = whole && many.wrong == 0 && bytes <= 1.5 && after <= 1.1 &&
              (double) many.found <= 1.1 * (double) one->found + 30;
  if (s->times)
    good &= add <= 3 && removal <= 3;
  harness_report(good,
                 "fpp %g, %s, %" PRIu64 " copies %s: bytes %.3f (at most %.3f), after the removes "
                 "%.3f, %" PRIu64 " false positives (%" PRIu64 "), add %.0f ns (%.2f), remove %.0f "
                 "ns (%.2f), %" PRIu64 " wrong%s\n",
                 fpp, sort_name[sort], copies, order_name[order], bytes, peak, after, many.found,
                 one->found, many.add, add, many.remove, removal, many.wrong,
                 whole ? "" : ", NOT whole");
  return good;
}

static bool run_round(const struct settings *s, uint64_t seed)
{
  const double rates[] = {0.03, 0.01, 1e-3, 1e-6};
  const uint64_t numbers[] = {2, 3, 4, 16};
  bool good = true;
  for (unsigned r = 0; r < 4; r++)
    for (uint64_t sort = 0; sort < SORTS; sort++) {
      if ((s->fpp > 0 && s->fpp != rates[r]) || (s->sort && s->sort != sort + 1))
        continue;
      struct figures one = measure(s, sort, rates[r], 1, PASSES, seed, &good);
      good &= one.wrong == 0;
      for (unsigned c = 0; c < 4; c++)
        for (uint64_t order = 0; order < ORDERS; order++) {
          if (s->order && s->order != order + 1)
            continue;
          if (!s->copies || c == 0)
            good &=
                compare(s, sort, rates[r], s->copies ? s->copies : numbers[c], order, &one, seed);
        }
    }
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 1000000, .shared = {.threads = 4, .rounds = 1}};
  const struct harness_option options[] = {
      {"keys", 'k', "Distinct keys (default: 1000000)", .number = &s.keys, .least = 1},
      {"copies", 'c', "Copies of each key (default: 2, 3, 4 and 16)", .number = &s.copies,
       .least = 2},
      {"fpp", 'p', "The rate (default: 0.03, 0.01, 0.001 and 1e-6)", .rate = &s.fpp},
      {"sort", 'g', "1: fixed, 2: growable, 3: grown from 1000 (default: all)", .number = &s.sort,
       .least = 1, .most = SORTS},
      {"order", 'd', "1: in passes, 2: key by key, 3: at random (default: all)", .number = &s.order,
       .least = 1, .most = ORDERS},
      {"times", 'm', "Check mean times too", .flag = &s.times},
      {0}};
  harness_parse("Measures what copies of all keys cost.", options, argc, argv, &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= run_round(&s, random_at(s.shared.seed, round));
  return harness_verdict(&s.shared, good);
}
