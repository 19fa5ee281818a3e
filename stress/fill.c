/* SPDX-License-Identifier: MIT
 *
 * Question: how full is a segment of the cuckoo filter when an add first finds no room?
 *
 * The program fills single segments of every width and of many sizes, several times each.  The load
 * factors that lib/cuckoo/geometry.c plans with were measured by it; a mean that is lower is a
 * failure.
 */
#include "cuckoo/cuckoo.h"
#include "harness.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* The geometry of a single segment that does not grow. */
static struct cuckoo_geometry one_segment(unsigned width, unsigned pair_bits)
{
  struct cuckoo_geometry g;
  struct cuckoo_spec spec = {.capacity = 1, .fpp = 0.01};
  if (cuckoo_geometry_plan(&spec, &g) != TAMIS_OK)
    error(2, 0, "cannot plan");
  g.shape = bucket_shape(width, false);
  g.pair_bits = (uint8_t) pair_bits;
  return g;
}

static tamis_filter *create(const struct cuckoo_geometry *g, uint64_t seed)
{
  struct tamis_filter head = {.keys = hash_keys_from_seed(seed)};
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *filter = NULL;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 1;
  options.growable = false;
  if (tamis__cuckoo_create_with(&options, &head, g, &filter) != TAMIS_OK)
    error(2, 0, "no memory");
  return filter;
}

struct load {
  double mean, deviation, least;
};

/* Returns the load factor at which an add first fails.  (It does not follow from the number of
 * keys: a key that matches an entry may be counted as a copy instead of taking a lane.) */
static double fill(tamis_filter *filter)
{
  uint64_t keys = 0;
  tamis_stats stats = TAMIS_STATS_INIT;
  while (tamis_add_hash(filter, keys) == TAMIS_OK)
    keys++;
  tamis_get_stats(filter, &stats);
  return stats.occupancy;
}

static struct load measure(const struct harness_settings *s, const struct cuckoo_geometry *g)
{
  double sum = 0, squares = 0, least = 1;
  for (uint64_t i = 0; i < s->rounds; i++) {
    tamis_filter *filter = create(g, s->seed + i);
    double load = fill(filter);
    tamis_destroy(filter);
    sum += load;
    squares += load * load;
    least = fmin(least, load);
  }
  double mean = sum / (double) s->rounds;
  return (struct load){mean, sqrt(fmax(0, squares / (double) s->rounds - mean * mean)), least};
}

static bool judge(const struct harness_settings *s, unsigned width, unsigned pair_bits)
{
  struct cuckoo_geometry g = one_segment(width, pair_bits);
  struct load load = measure(s, &g);
  double planned = cuckoo_geometry_full_load(&g), spread = cuckoo_geometry_full_deviation(&g);
  bool good = load.mean > planned - spread && load.least > planned - 5 * spread;
  printf("%5u %8u %9.4f %9.4f %9.4f %9.4f %9.4f%s\n", g.shape.lanes, 2u << pair_bits, load.mean,
         load.deviation, load.least, planned, spread, good ? "" : "  FAILED");
  return good;
}

static const unsigned char widths[] = {8, 9, 10, 12, 16, 21, 32};
enum { WIDTHS = sizeof widths, SMALLEST = 7, LARGEST = 15 };

static bool judge_all(const struct harness_settings *s)
{
  bool good = true;
  printf("lanes  buckets      mean deviation     least   planned deviation  (of the lanes, when "
         "full)\n");
  for (unsigned i = 0; i < WIDTHS; i++)
    for (unsigned pair_bits = SMALLEST; pair_bits <= LARGEST; pair_bits += 2)
      good &= judge(s, widths[i], pair_bits);
  return good;
}

/* The means alone, as they stand in docs/space.md. */
static void print_table(const struct harness_settings *s)
{
  printf("| buckets |");
  for (unsigned i = 0; i < WIDTHS; i++)
    printf(" %u lanes |", bucket_shape(widths[i], false).lanes);
  puts("\n|--:|--:|--:|--:|--:|--:|--:|--:|");
  for (unsigned pair_bits = SMALLEST; pair_bits <= LARGEST; pair_bits += 2) {
    printf("| %u |", 2u << pair_bits);
    for (unsigned i = 0; i < WIDTHS; i++) {
      struct cuckoo_geometry g = one_segment(widths[i], pair_bits);
      printf(" %.1f %% |", 100 * measure(s, &g).mean);
    }
    putchar('\n');
  }
}

int main(int argc, char **argv)
{
  struct harness_settings s = {.rounds = 20, .threads = 1};
  bool table = false;
  const struct harness_option options[] = {
      {"markdown", 'm', "Print the mean loads as a table, and nothing else", .flag = &table}, {0}};
  harness_parse("Fills segments of the cuckoo filter; a round fills one of each kind.", options,
                argc, argv, &s);
  if (!table)
    return harness_verdict(&s, judge_all(&s));
  print_table(&s);
  return 0;
}
