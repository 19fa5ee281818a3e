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
  g.pair_bits = pair_bits;
  g.segment_bytes = g.words_offset + cuckoo_buckets(&g) * sizeof(uint64_t);
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

static bool measure(const struct harness_settings *s, unsigned width, unsigned pair_bits)
{
  struct cuckoo_geometry g = one_segment(width, pair_bits);
  double sum = 0, squares = 0, least = 1;
  for (uint64_t i = 0; i < s->rounds; i++) {
    tamis_filter *filter = create(&g, s->seed + i);
    double load = fill(filter);
    tamis_destroy(filter);
    sum += load;
    squares += load * load;
    least = fmin(least, load);
  }
  double mean = sum / (double) s->rounds;
  double planned = cuckoo_geometry_full_load(&g), spread = cuckoo_geometry_full_deviation(&g);
  bool good = mean > planned - spread && least > planned - 5 * spread;
  printf("%5u %8u %9.4f %9.4f %9.4f %9.4f %9.4f%s\n", g.shape.lanes, 2u << pair_bits, mean,
         sqrt(fmax(0, squares / (double) s->rounds - mean * mean)), least, planned, spread,
         good ? "" : "  FAILED");
  return good;
}

int main(int argc, char **argv)
{
  static const unsigned char widths[] = {8, 9, 10, 12, 16, 21, 32};
  struct harness_settings s = {.rounds = 20, .threads = 1};
  harness_parse("Fills segments of the cuckoo filter; a round fills one of each kind.", NULL, argc,
                argv, &s);
  bool good = true;
  printf("lanes  buckets      mean deviation     least   planned deviation  (of the lanes, when "
         "full)\n");
  for (unsigned i = 0; i < sizeof widths; i++)
    for (unsigned pair_bits = 7; pair_bits <= 15; pair_bits += 2)
      good &= measure(&s, widths[i], pair_bits);
  return harness_verdict(&s, good);
}
