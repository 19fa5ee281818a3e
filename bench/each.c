/* SPDX-License-Identifier: MIT
 *
 * One key in many filters: tamis_contains_each, beside as many single calls and one read of random
 * memory for each filter, prefetched as far ahead.
 *
 *    bench-each [--filters N] [--keys N] [--kind bloom|cuckoo|fixed] [--fpp P] [--hot] [--rounds N]
 *
 * The key of a look-up is in one of the filters.  Each round does everything once, in turns, so that
 * whatever else the machine does affects all of it alike; the results are medians over the rounds, by
 * the time for which the process has a core.  --hot looks up one key all the time, whose lines stay
 * in the cache; without it, each look-up has another key.
 */
#include "tamis/tamis.h"

#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ROUNDS = 101, KEY_BYTES = 16, AHEAD = 16 };

static struct {
  size_t filters;
  uint64_t keys;
  tamis_kind kind;
  bool growable, hot;
  double fpp;
  unsigned rounds;
} settings = {256, 100000, TAMIS_BLOOM, true, false, 0.01, 21};

struct key {
  char text[KEY_BYTES + 1];
};

static struct key key_of(size_t filter, uint64_t number)
{
  struct key key;
  snprintf(key.text, sizeof key.text, "%06zx%010" PRIx64, filter & 0xFFFFFF,
           number & UINT64_C(0xFFFFFFFFFF));
  return key;
}

static tamis_filter **create_filters(void)
{
  tamis_filter **filters = calloc(settings.filters, sizeof *filters);
  tamis_options o = TAMIS_OPTIONS_INIT;
  o.kind = settings.kind, o.growable = settings.growable, o.fpp = settings.fpp;
  o.capacity = settings.keys, o.seed = 42;
  if (!filters)
    error(2, ENOMEM, "filters");
  for (size_t i = 0; i < settings.filters; i++) {
    int result = tamis_create(&o, &filters[i]);
    for (uint64_t k = 0; k < settings.keys && result == TAMIS_OK; k++)
      result = tamis_add(filters[i], key_of(i, k).text, KEY_BYTES);
    if (result != TAMIS_OK)
      error(2, 0, "filter %zu: %s", i, tamis_strerror(result));
  }
  return filters;
}

static double now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double) now.tv_sec * 1e9 + (double) now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
  qsort(values, n, sizeof *values, compare);
  return values[n / 2];
}

/* A number that nobody can foresee, so that reads are where no processor guesses them. */
static uint64_t next_random(uint64_t *state)
{
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 20;
}

static volatile uint64_t answers; /* no compiler drops a call */

static double single_calls(tamis_filter **filters, const struct key *keys, size_t n)
{
  double begin = now_ns();
  uint64_t hits = 0;
  for (size_t k = 0; k < n; k++)
    for (size_t i = 0; i < settings.filters; i++)
      hits += tamis_contains(filters[i], keys[k].text, KEY_BYTES);
  answers += hits;
  return now_ns() - begin;
}

static double calls_of_many(tamis_filter **filters, const struct key *keys, size_t n, bool *found)
{
  double begin = now_ns();
  uint64_t hits = 0;
  for (size_t k = 0; k < n; k++)
    hits += tamis_contains_each((const tamis_filter *const *) filters, settings.filters,
                                keys[k].text, KEY_BYTES, found);
  answers += hits;
  return now_ns() - begin;
}

/* As many reads as single_calls() has look-ups, in as much memory as the filters take. */
static double reads(const uint64_t *memory, size_t words, size_t n)
{
  double begin = now_ns();
  uint64_t sum = 0, state = 1, same = 1;
  size_t ahead[AHEAD] = {0};
  for (size_t i = 0; i < n * settings.filters; i++) {
    if (settings.hot && i % settings.filters == 0)
      state = same;
    sum += memory[ahead[i % AHEAD]];
    ahead[i % AHEAD] = next_random(&state) % words;
    __builtin_prefetch(&memory[ahead[i % AHEAD]]);
  }
  answers += sum;
  return now_ns() - begin;
}

static void measure(void)
{
  tamis_filter **filters = create_filters();
  bool *found = calloc(settings.filters, sizeof *found);
  const size_t n = 400000 / settings.filters + 2;
  struct key *keys = calloc(n, sizeof *keys);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filters[0], &stats);
  const size_t words = (size_t) stats.bytes / 8 * settings.filters;
  uint64_t *memory = calloc(words, sizeof *memory), state = 7;
  double single[MAX_ROUNDS], many[MAX_ROUNDS], read[MAX_ROUNDS], ratio[MAX_ROUNDS];
  if (!found || !keys || !memory)
    error(2, ENOMEM, "keys");
  memset(memory, 1, words * sizeof *memory);
  for (unsigned round = 0; round < settings.rounds; round++) {
    for (size_t k = 0; k < n; k++)
      keys[k] = settings.hot ? key_of(0, 1)
                             : key_of(next_random(&state) % settings.filters,
                                      next_random(&state) % settings.keys);
    const double calls = (double) (n * settings.filters);
    single[round] = single_calls(filters, keys, n) / calls;
    if (!settings.hot)
      for (size_t k = 0; k < n; k++)
        keys[k] =
            key_of(next_random(&state) % settings.filters, next_random(&state) % settings.keys);
    many[round] = calls_of_many(filters, keys, n, found) / calls;
    read[round] = reads(memory, words, n) / calls;
    ratio[round] = many[round] / single[round];
  }
  printf("%zu filters of %" PRIu64 " keys, %" PRIu64 " KiB each%s: single calls %.1f ns a filter, "
         "tamis_contains_each %.1f ns, one read %.1f ns; ratio %.2f\n",
         settings.filters, settings.keys, stats.bytes / 1024, settings.hot ? ", one key" : "",
         median(single, settings.rounds), median(many, settings.rounds),
         median(read, settings.rounds), median(ratio, settings.rounds));
  for (size_t i = 0; i < settings.filters; i++)
    tamis_destroy(filters[i]);
  free(filters), free(found), free(keys), free(memory);
}

static void usage(void)
{
  error(2, 0,
        "usage: bench-each [--filters N] [--keys N] [--kind bloom|cuckoo|fixed] [--fpp P] "
        "[--hot] [--rounds N]");
}

static void set_kind(const char *name)
{
  if (strcmp(name, "bloom") && strcmp(name, "cuckoo") && strcmp(name, "fixed"))
    usage();
  settings.kind = strcmp(name, "bloom") ? TAMIS_CUCKOO : TAMIS_BLOOM;
  settings.growable = strcmp(name, "fixed") != 0;
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(argv[i], "--hot")) {
      settings.hot = true;
      continue;
    }
    if (!value)
      usage();
    if (!strcmp(argv[i], "--filters"))
      settings.filters = strtoull(value, NULL, 10);
    else if (!strcmp(argv[i], "--keys"))
      settings.keys = strtoull(value, NULL, 10);
    else if (!strcmp(argv[i], "--fpp"))
      settings.fpp = strtod(value, NULL);
    else if (!strcmp(argv[i], "--rounds"))
      settings.rounds = (unsigned) strtoul(value, NULL, 10);
    else if (!strcmp(argv[i], "--kind"))
      set_kind(value);
    else
      usage();
    i++;
  }
  if (!settings.filters || !settings.keys || !settings.rounds || settings.rounds > MAX_ROUNDS)
    usage();
  measure();
}
