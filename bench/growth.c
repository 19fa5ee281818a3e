/* SPDX-License-Identifier: MIT */
#include "growth.h"

#include "histogram.h"
#include "measure.h"
#include "record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { PARTS = 1000 }; /* of a run, each a line of the time series */

static uint64_t nanoseconds(const struct growth *growth)
{
  struct timespec t;
  clock_gettime(growth->cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

void growth_write_headers(const struct growth *growth)
{
  if (growth->times)
    fprintf(growth->times, "subject,round,keys,longest_ns,mean_ns\n");
  if (growth->rates)
    fprintf(growth->rates, "subject,fpp,keys,bits_per_key,rate\n");
  if (growth->calls)
    fprintf(growth->calls, "subject,up_to_ns,calls,part\n");
  if (growth->quantiles)
    fprintf(growth->quantiles, "subject,part,ns\n");
}

/* ---- the time of each call ---- */

/* Adds the keys of one part.  A call begins when the last one ends, so the clock is read once a
 * call. */
static void add_timed(const struct growth *growth, const struct subject *subject, void *state,
                      struct span span, struct histogram *h, uint64_t *longest)
{
  uint64_t end = span.first + span.count, before = nanoseconds(growth);
  *longest = 0;
  for (span.count = 1; span.first < end; span.first++) {
    subject->run(subject, state, CALL_ADD, &span);
    uint64_t after = nanoseconds(growth), took = after - before;
    histogram_add(h, took);
    *longest = took > *longest ? took : *longest;
    before = after;
  }
}

static void grow_timed(const struct growth *growth, const struct subject *subject, unsigned round,
                       struct histogram *h)
{
  const struct spec spec = {.capacity = growth->from, .fpp = growth->fpp};
  void *state = subject->create(subject, &spec);
  for (uint64_t part = 0; part < PARTS; part++) {
    uint64_t first = growth->to * part / PARTS, end = growth->to * (part + 1) / PARTS, longest;
    if (first == end)
      continue;
    uint64_t began = nanoseconds(growth);
    add_timed(growth, subject, state, (struct span){.first = first, .count = end - first}, h,
              &longest);
    double mean = (double) (nanoseconds(growth) - began) / (double) (end - first);
    if (growth->times)
      fprintf(growth->times, "%s,%u,%" PRIu64 ",%" PRIu64 ",%.1f\n", subject->name, round, end,
              longest, mean);
  }
  subject->destroy(subject, state);
}

/* The first value above a bucket of the histogram (histogram.h). */
static uint64_t bucket_end(unsigned bucket)
{
  unsigned power = bucket / HISTOGRAM_PARTS, part = bucket % HISTOGRAM_PARTS;
  return power ? (uint64_t) (HISTOGRAM_PARTS + part + 1) << (power - 1) : part + 1;
}

/* Writes eight lines for each power of two: how many calls took about that long, and the fraction
 * of all calls that took no longer. */
static void write_calls(FILE *to, const char *subject, const struct histogram *h)
{
  enum { TOGETHER = HISTOGRAM_PARTS / 8 };
  uint64_t before = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS && before < h->all; i += TOGETHER) {
    uint64_t calls = 0;
    for (unsigned j = i; j < i + TOGETHER; j++)
      calls += h->count[j];
    before += calls;
    uint64_t end = before < h->all ? bucket_end(i + TOGETHER - 1) - 1 : h->longest;
    if (calls)
      fprintf(to, "%s,%" PRIu64 ",%" PRIu64 ",%.10g\n", subject, end, calls,
              (double) before / (double) h->all);
  }
}

static void write_histogram(const struct growth *growth, const char *subject,
                            const struct histogram *h)
{
  if (growth->calls)
    write_calls(growth->calls, subject, h);
  if (growth->quantiles) {
    for (const double *part = parts_shown; *part < 1; part++)
      fprintf(growth->quantiles, "%s,%g,%" PRIu64 "\n", subject, *part,
              histogram_quantile(h, *part));
    fprintf(growth->quantiles, "%s,1,%" PRIu64 "\n", subject, h->longest);
  }
  record_calls(subject, growth->from, growth->to, growth->fpp, h);
}

void growth_times(const struct growth *growth, const struct subject *const *subjects, unsigned n,
                  struct growth_times *times)
{
  struct histogram *all = calloc(n, sizeof *all), *one = calloc(1, sizeof *one);
  struct series *series = calloc(n, sizeof *series);
  if (!all || !one || !series)
    abort();
  for (unsigned round = 0; round < growth->rounds; round++) {
    for (unsigned i = 0; i < n; i++) {
      grow_timed(growth, subjects[i], round, one);
      series[i].ns[series[i].rounds++] = (double) one->longest;
      histogram_move(&all[i], one);
    }
  }
  if (!growth->quiet)
    printf("\nadds, each timed, to a structure created for %" PRIu64 " keys, up to %" PRIu64
           " keys, fpp %g\n",
           growth->from, growth->to, growth->fpp);
  for (unsigned i = 0; i < n; i++) {
    times[i] = (struct growth_times){series_quartile(&series[i], 2),
                                     (double) histogram_quantile(&all[i], 0.9999)};
    write_histogram(growth, subjects[i]->name, &all[i]);
    if (growth->quiet)
      continue;
    printf("  %-20s ", subjects[i]->name);
    histogram_print(&all[i]);
  }
  fflush(stdout);
  free(series);
  free(one);
  free(all);
}

/* ---- bits and rates ---- */

static double rate_of(const struct subject *subject, void *state, double fpp)
{
  uint64_t lookups = (uint64_t) (2000 / fpp); /* finds 2000 at the requested rate: known to 2 % */
  lookups = lookups < 20000000 ? lookups : 20000000;
  const struct span span = {.first = first_absent, .count = lookups};
  return (double) subject->run(subject, state, CALL_CONTAINS, &span) / (double) lookups;
}

struct growth_bits growth_rates(const struct growth *growth, const struct subject *subject)
{
  const struct spec spec = {.capacity = growth->from, .fpp = growth->fpp};
  void *state = subject->create(subject, &spec);
  struct growth_bits bits = {0};
  uint64_t keys = 0;
  for (uint64_t next = 1000; keys < growth->to;
       next += next / 11) { /* eight measurements for each doubling */
    struct span span = {.first = keys, .count = next - keys};
    if (keys + span.count > growth->to)
      span.count = growth->to - keys;
    subject->run(subject, state, CALL_ADD, &span);
    keys += span.count;
    bits.last = 8 * (double) subject->bytes_now(subject, state) / (double) keys;
    if (keys >= 10 * growth->from && bits.last > bits.most)
      bits.most = bits.last;
    if (growth->rates)
      fprintf(growth->rates, "%s,%g,%" PRIu64 ",%.3f,%.3g\n", subject->name, growth->fpp, keys,
              bits.last, rate_of(subject, state, growth->fpp));
  }
  subject->destroy(subject, state);
  return bits;
}
