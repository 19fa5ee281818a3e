/* SPDX-License-Identifier: MIT
 *
 * Questions about the cuckoo filter's sizes:
 *
 * Without growth: does a filter take all the keys that it was made for, at the rate asked, in the
 * memory promised?  For six rates and several numbers of keys, odd ones among them.
 *
 * With --grow: do the rate and the memory stay within their bounds all the way from 1,000 keys to
 * 10,000 times as many, and from 10,000?  Looks at the rate at each doubling, and at the memory
 * after every 1,000 keys.  Prints how long the calls took, too, without a judgement.
 *
 * A split leaves memory that waits for a grace period.  How soon that ends depends on what else the
 * machine does, so a filter that is too large at first is looked at again for a while.
 *
 * With --live: does a filter that was made for 1,000 keys keep to 24 bits per key while a million
 * keys are in it, and each new one replaces the oldest one?
 */
#include "harness.h"
#include "tamis/tamis.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PROBES = 2000000 };

struct settings {
  struct harness_settings shared;
  uint64_t keys;
  bool grow, live;
};

static tamis_filter *create(uint64_t capacity, double fpp, bool growable, uint64_t seed)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = capacity;
  options.fpp = fpp;
  options.growable = growable;
  options.seed = seed;
  tamis_filter *filter;
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK)
    error(2, 0, "cannot create: %s", tamis_strerror(result));
  return filter;
}

static tamis_stats stats_of(const tamis_filter *filter)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  return stats;
}

/* Bits for each of n keys: as soon as these are no more than allowed, or after twenty seconds. */
static double bits_per_key(const tamis_filter *filter, uint64_t n, double allowed_bits)
{
  double until = harness_seconds() + 20;
  for (;;) {
    double bits = 8 * (double) stats_of(filter).bytes / (double) n;
    if (bits <= allowed_bits || harness_seconds() > until)
      return bits;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

/* Keys are 0, 1, 2, ...; what is far from them was never added. */
static double rate_of(const tamis_filter *filter)
{
  uint64_t hits = 0;
  for (uint64_t i = 0; i < PROBES; i++)
    hits += tamis_contains_hash(filter, (UINT64_C(1) << 60) + i);
  return (double) hits / PROBES;
}

static double allowed(double rate)
{
  return rate + 4 * sqrt(rate / PROBES);
}

static uint64_t missing(const tamis_filter *filter, uint64_t keys)
{
  uint64_t missing = 0;
  for (uint64_t i = 0; i < keys; i++)
    missing += !tamis_contains_hash(filter, i);
  return missing;
}

/* ---- without growth ---- */

static const struct promise {
  double fpp, bits_per_key;
} promises[] = {{0.03, 10.5}, {0.01, 14}, {0.001, 17.8}, {1e-4, 24}, {1e-6, 40}, {1e-9, 40}};

static bool fits(const struct promise *promise, uint64_t keys, uint64_t seed)
{
  tamis_filter *filter = create(keys, promise->fpp, false, seed);
  uint64_t added = 0;
  while (added < keys && tamis_add_hash(filter, added) == TAMIS_OK)
    added++;
  tamis_stats stats = stats_of(filter);
  double bits = 8 * (double) stats.bytes / (double) keys, rate = rate_of(filter);
  uint64_t lost = missing(filter, added);
  bool good = added == keys && lost == 0 && rate <= allowed(1.1 * promise->fpp) &&
              (keys < 1000000 || bits <= promise->bits_per_key);
  printf("fpp %-6g %10" PRIu64 " keys: %6.2f bits per key, rate %-9.3g (formula %-8.3g) %" PRIu64
         " missing%s\n",
         promise->fpp, keys, bits, rate, stats.fpp_estimate, lost + keys - added,
         good ? "" : "  FAILED");
  tamis_destroy(filter);
  return good;
}

static bool without_growth(const struct settings *s)
{
  const uint64_t numbers[] = {1, 10, 1000, s->keys / 10 * 33 / 10, s->keys, s->keys * 7 / 3 + 1};
  bool good = true;
  for (unsigned i = 0; i < sizeof promises / sizeof *promises; i++)
    for (unsigned j = 0; j < sizeof numbers / sizeof *numbers; j++)
      good &= fits(&promises[i], numbers[j], s->shared.seed + j);
  return good;
}

/* ---- with growth ---- */

/* `allowed_bits` per key, from 100,000 keys on. */
static bool grows(uint64_t capacity, double fpp, double allowed_bits, const struct settings *s)
{
  tamis_filter *filter = create(capacity, fpp, true, s->shared.seed);
  struct histogram calls = {0};
  double most_bits = 0, highest = 0;
  uint64_t look_at = capacity, refused = 0;
  for (uint64_t n = 0; n < s->keys; n++) {
    uint64_t before = harness_nanoseconds();
    refused += tamis_add_hash(filter, n) != TAMIS_OK;
    histogram_add(&calls, harness_nanoseconds() - before);
    if (n >= 100000 && n % 1000 == 0)
      most_bits = fmax(most_bits, bits_per_key(filter, n, allowed_bits));
    if (n + 1 == look_at || n + 1 == s->keys) {
      highest = fmax(highest, rate_of(filter));
      look_at *= 2;
    }
  }
  uint64_t lost = missing(filter, s->keys);
  tamis_stats stats = stats_of(filter);
  bool good = refused == 0 && lost == 0 && highest <= allowed(fpp) && stats.count == s->keys &&
              most_bits <= allowed_bits;
  printf("fpp %g: %" PRIu64 " to %" PRIu64
         " keys: highest rate %.3g (formula at the end %.3g), at most %.1f "
         "bits per key from 100000 on, %u generations, %" PRIu64 " growths, %" PRIu64
         " missing, %" PRIu64 " refused%s\n",
         fpp, capacity, s->keys, highest, stats.fpp_estimate, most_bits, stats.generations,
         stats.growths, lost, refused, good ? "" : "  FAILED");
  histogram_print(&calls);
  tamis_destroy(filter);
  return good;
}

static bool with_growth(const struct settings *s)
{
  bool good = grows(1000, 0.01, 36, s);
  good &= grows(1000, 0.001, 42, s);
  good &= grows(10000, 0.001, 38, s);
  good &= grows(1000, 1e-6, 80, s);
  return good;
}

/* ---- keys that come and go ---- */

static bool with_live_keys(const struct settings *s)
{
  enum { CAPACITY = 1000, LIVE = 1000000 };
  const double fpp = 0.01, most_bits = 24;
  tamis_filter *filter = create(CAPACITY, fpp, true, s->shared.seed);
  uint64_t wrong = 0, calls = s->keys > LIVE ? s->keys : LIVE;
  for (uint64_t n = 0; n < calls; n++) {
    wrong += tamis_add_hash(filter, n) != TAMIS_OK;
    if (n >= LIVE)
      wrong += tamis_remove_hash(filter, n - LIVE) != TAMIS_OK;
  }
  for (uint64_t n = calls - LIVE; n < calls; n++)
    wrong += !tamis_contains_hash(filter, n);
  double rate = rate_of(filter);
  tamis_stats stats = stats_of(filter);
  double bits = bits_per_key(filter, LIVE, most_bits);
  bool good = wrong == 0 && stats.count == LIVE && bits <= most_bits && rate <= allowed(fpp);
  printf("fpp %g: %d keys, after %" PRIu64 " have come: %.2f bits per key, rate %.3g, %" PRIu64
         " growths, %" PRIu64 " joins, %" PRIu64 " wrong answers%s\n",
         fpp, LIVE, calls, bits, rate, stats.growths, stats.joins, wrong, good ? "" : "  FAILED");
  tamis_destroy(filter);
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 1000000, .shared.threads = 1};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys (default: 1000000)", .number = &s.keys, .least = 1},
      {"grow", 'g', "Grow a filter made for 1,000 to that many", .flag = &s.grow},
      {"live", 'l', "Let that many come, of which a million are in at any time", .flag = &s.live},
      {0}};
  harness_parse("Looks at the size and the rate of cuckoo filters.", options, argc, argv,
                &s.shared);
  return harness_verdict(&s.shared, s.grow   ? with_growth(&s)
                                    : s.live ? with_live_keys(&s)
                                             : without_growth(&s));
}
