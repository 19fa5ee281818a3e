/* SPDX-License-Identifier: MIT
 *
 * Every row of the tables by which filters are planned: a filter is made for each, at the lowest
 * rate that the row serves, filled, and its rate measured.  A row that no plan chooses fails.
 */
#include "unit.h"

#include "bloom/bloom.h"
#include "bloom/ranges.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "harness.h"
#include "line_rate.h"
#include "window/layers.h"

#include <math.h>
#include <stdio.h>

/* ---- filters ---- */

static const double deviations = 6.5;

static tamis_options options_of(tamis_kind kind, uint64_t capacity, double fpp, bool growable)
{
  tamis_options o = TAMIS_OPTIONS_INIT;
  o.kind = kind, o.capacity = capacity, o.fpp = fpp, o.growable = growable, o.seed = 42;
  return o;
}

static tamis_filter *create(const tamis_options *o)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(o, &f), TAMIS_OK);
  return f;
}

static void add_keys(tamis_filter *f, uint64_t n)
{
  for (uint64_t i = 0; i < n; i++)
    assert_true(tamis_add_unique_hash(f, random_at(1, i)) >= 0);
}

/* Adds keys until one is refused. */
static void fill(tamis_filter *f)
{
  uint64_t i = 0;
  while (tamis_add_unique_hash(f, random_at(1, i)) >= 0)
    i++;
}

/* Look-ups find some hundred absent keys or, if even this many would find none, few are made. */
static const double most_probes = 1000000;

static void assert_measured(const tamis_filter *f, double low, double high, const char *what)
{
  enum { BATCH = 1024, ENOUGH = 400 };
  uint64_t hashes[BATCH], hits = 0, asked = 0;
  double most_asked = high * most_probes > 4 ? most_probes : most_probes / 100;
  double wanted = fmin(ENOUGH / high, is_long() ? 50 * most_probes : most_asked / SCALE);
  for (; (double) asked < wanted; asked += BATCH) {
    for (unsigned j = 0; j < BATCH; j++)
      hashes[j] = random_at(2, asked + j);
    hits += tamis_contains_many_hash(f, hashes, BATCH, NULL);
  }
  double least = low * (double) asked, most = high * (double) asked;
  if ((double) hits > most + deviations * sqrt(most) + 2 ||
      (double) hits < least - deviations * sqrt(least))
    fail_msg("%s: %lu of %lu absent keys are found, not %g to %g", what, hits, asked, least, most);
}

/* ---- Bloom ---- */

/* With so many keys the rate of one filter is within a few percent of the average. */
enum { BLOOM_KEYS = 20000 };

/* `deviation` is that of the rate of one filter, over its mean. */
static void check_bloom(const tamis_options *o, struct bloom_shape expected, double deviation)
{
  char what[100];
  tamis_filter *f = create(o);
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_geometry g = bloom_geometry_of(b);
  (void) snprintf(what, sizeof what, "layout %d, %u x %u x %u, fpp %g%s", (int) b->layout,
                  expected.sections, expected.probes, expected.bits_per_probe, o->fpp,
                  o->growable ? ", growable" : "");
  if (g.shape.probes != expected.probes || g.shape.bits_per_probe != expected.bits_per_probe ||
      g.shape.sections != expected.sections)
    fail_msg("%s is planned as %u x %u x %u", what, g.shape.sections, g.shape.probes,
             g.shape.bits_per_probe);
  assert_int_equal(stats_of(f).bits_per_key, bloom_shape_bits_per_key(expected));
  add_keys(f, o->capacity);
  double unused, rate = rate_of_filter(b, &unused),
                 planned = bloom_geometry_rate(&g, (double) o->capacity);
  if (fabs(rate / planned - 1) > 0.03 + 5 * deviation || planned > o->fpp)
    fail_msg("%s: the set bits give a rate of %g, the plan %g", what, rate, planned);
  assert_measured(f, 0.95 * rate, 1.05 * rate, what);
  tamis_destroy(f);
}

static void check_ranges(tamis_kind kind, tamis_layout layout, const struct shape_range *ranges,
                         unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    for (unsigned growable = 0; growable < 2; growable++) {
      const uint64_t capacity = BLOOM_KEYS / SCALE;
      /* (The last row of the blocked layout begins below what 64-bit hashes give so many keys.) */
      double fpp = fmax(ranges[i].min_fpp * 1.001, 4 * hash_collision_rate(capacity));
      const struct bloom_shape shape = {layout, ranges[i].probes, ranges[i].bits_per_probe,
                                        ranges[i].sections};
      tamis_options o = options_of(kind, capacity, fpp, growable);
      o.layout = layout;
      struct bloom_geometry g;
      if (layout == TAMIS_LAYOUT_WORD && /* refused at the end of the last range */
          bloom_geometry_plan(BLOOM_LAYOUT_MARKED, o.capacity, fpp, &g) != TAMIS_OK)
        o.fpp *= 3;
      if (growable && kind == TAMIS_BLOOM) /* a layer is planned for its share */
        o.fpp /= bloom_geometry_share(1);
      double lines = (double) o.capacity * -log2(o.fpp) / LINE_BITS; /* at least */
      if (o.fpp < 1)
        check_bloom(&o, shape,
                    ranges[i].sections * fmax(ranges[i].line_deviation, 0.3) / sqrt(lines));
    }
}

static void every_range_of_a_bloom_filter(void **state)
{
  (void) state;
#define RANGES(of) of, sizeof(of) / sizeof *(of)
  check_ranges(TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, RANGES(blocked_ranges));
  check_ranges(TAMIS_BLOOM, TAMIS_LAYOUT_WORD, RANGES(word_ranges));
  check_ranges(TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, RANGES(counting_ranges));
#undef RANGES
}

/* Each number of sections that a filter of this capacity may have. */
static void every_number_of_sections(void **state)
{
  (void) state;
  for (unsigned sections = 1; sections <= 25; sections++)
    for (unsigned growable = 0; growable < (sections <= 6 ? 2 : 1); growable++) {
      tamis_options o = options_of(TAMIS_BLOOM, 2000, ldexp(1, -2 * (int) sections), growable);
      o.layout = TAMIS_LAYOUT_CLASSIC;
      double share = growable ? bloom_geometry_share(1) : 1;
      unsigned planned = (unsigned) fmax(1, round(-log2(o.fpp * share) / 2)), bits = 2 * planned;
      double deviation = bits / sqrt((double) o.capacity * bits / log(2));
      check_bloom(&o, (struct bloom_shape){TAMIS_LAYOUT_CLASSIC, 1, 2, planned}, deviation);
    }
}

/* ---- cuckoo ---- */

static const unsigned widths[] = {8, 9, 10, 12, 16, 21, 32};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* Entries have so many bits of a fingerprint, and in all of them both values are as frequent. */
static void assert_entries(const struct cuckoo *c, unsigned bits)
{
  const struct cuckoo_geometry *g = &c->first.geometry;
  const struct segment *segment =
      directory_segment(directory_load(generation_directory_entry(&c->first, 0)));
  uint64_t ones[32] = {0}, entries = 0;
  for (uint32_t i = 0; i < cuckoo_buckets(g); i++) {
    uint64_t value = word_load(&segment_words(g, segment)[i]);
    assert_int_equal(value >> (g->shape.lanes * g->shape.width - 1) >> 1, 0);
    for (unsigned lane = 0; lane < g->shape.lanes; lane++) {
      uint64_t entry = lane_get(&g->shape, value, lane);
      entries += entry != 0;
      for (unsigned bit = 0; bit < bits; bit++)
        ones[bit] += entry >> (g->shape.width - 1 - bit) & 1;
    }
  }
  for (unsigned bit = 0; bit < bits; bit++)
    if (fabs((double) ones[bit] - (double) entries / 2) >
        deviations * sqrt((double) entries) / 2 + 0.004 * (double) entries) /* 0 is stored as 1 */
      fail_msg("bit %u of %u is set in %lu of %lu entries", bit, bits, ones[bit], entries);
}

/* How full the only segment is when an add finds no room in it, on average over some filters. */
static void check_fullness(const tamis_options *options, const char *what)
{
  enum { FILTERS = 4 };
  double sum = 0, full = 0, deviation = 0;
  for (unsigned i = 0; i < FILTERS; i++) {
    tamis_options o = *options;
    o.seed += i;
    tamis_filter *f = create(&o);
    const struct cuckoo_geometry *g = &const_cuckoo_of(f)->first.geometry;
    full = cuckoo_geometry_full_load(g), deviation = cuckoo_geometry_full_deviation(g);
    double lanes = (double) cuckoo_lanes(g);
    uint64_t n = 0;
    while (tamis_add_unique_hash(f, random_at(1, n++)) >= 0 && stats_of(f).growths == 0)
      ;
    sum += (double) stats_of(f).count / lanes;
    tamis_destroy(f);
  }
  if (fabs(sum / FILTERS - full) > 4 * deviation / sqrt(FILTERS))
    fail_msg("%s: full at a load of %g, not %g", what, sum / FILTERS, full);
}

/* As many keys as a filter of one segment has room for, or half as many. */
static void choose_capacity(tamis_options *o)
{
  struct cuckoo_geometry g = {0};
  o->capacity = 32000;
  while (g.first_roots != 1) {
    o->capacity /= 2;
    struct cuckoo_spec spec = {.capacity = o->capacity, .fpp = o->fpp, .growable = o->growable};
    assert_int_equal(cuckoo_geometry_plan(&spec, &g), TAMIS_OK);
  }
}

static void every_width_of_a_fixed_cuckoo_filter(void **state)
{
  (void) state;
  for (unsigned i = 0; i < WIDTHS; i++) {
    char what[40];
    (void) snprintf(what, sizeof what, "fixed, %u bits", widths[i]);
    double rate = 2.0 * (64 / widths[i]) * ldexp(1, -(int) widths[i]);
    tamis_options o = options_of(TAMIS_CUCKOO, 1, rate, false);
    choose_capacity(&o);
    tamis_filter *f = create(&o);
    const struct cuckoo_geometry *g = &const_cuckoo_of(f)->first.geometry;
    assert_int_equal(g->shape.width, widths[i]);
    assert_int_equal(g->shape.lanes, 64 / widths[i]);
    assert_int_equal(stats_of(f).fingerprint_bits, widths[i]);
    add_keys(f, o.capacity);
    fill(f);
    check_fullness(&o, what);
    assert_entries(const_cuckoo_of(f), widths[i]);
    double load = stats_of(f).occupancy;
    assert_measured(f, 0.9 * load * rate, load * rate, what);
    tamis_destroy(f);
  }
}

/* A row of filters that grow is a width, and how often segments may split. */
static void every_width_and_depth_of_a_cuckoo_filter_that_grows(void **state)
{
  (void) state;
  unsigned seen[64] = {0};
  for (double fpp = cuckoo_geometry_next_rate(0, true); fpp < 1;
       fpp = cuckoo_geometry_next_rate(fpp, true)) {
    tamis_options o = options_of(TAMIS_CUCKOO, 1, fpp, true);
    choose_capacity(&o);
    struct cuckoo_spec spec = {.capacity = o.capacity, .fpp = fpp, .growable = true};
    struct cuckoo_geometry g;
    assert_int_equal(cuckoo_geometry_plan(&spec, &g), TAMIS_OK);
    char what[80];
    (void) snprintf(what, sizeof what, "growable, fpp %g, %u bits, depth %u", fpp, g.shape.width,
                    g.depth_limit);
    if (!seen[g.shape.width])
      check_fullness(&o, what);
    if (seen[g.shape.width] >> g.depth_limit & 1)
      continue;
    seen[g.shape.width] |= 1u << g.depth_limit;
    o.capacity = 300;
    tamis_filter *f = create(&o);
    add_keys(f, 50000 / SCALE); /* until segments have split as often as they may, nearly */
    assert_measured(f, 0, 1.02 * fpp, what);
    assert_true(stats_of(f).fpp_estimate <= 1.02 * fpp);
    assert_true(stats_of(f).generations > 1 || stats_of(f).fingerprint_bits == g.shape.width - 1U);
    tamis_destroy(f);
  }
  for (unsigned i = 3; i < WIDTHS; i++) /* narrower ones have too few bits to grow */
    assert_true(seen[widths[i]]);
}

/* ---- windows ---- */

/* Each shape, with as many periods as leave it each possible number of bits for the stamp. */
static void every_shape_of_a_window(void **state)
{
  (void) state;
  unsigned chosen = 0;
  for (unsigned periods = 1; periods <= WINDOW_MOST_PERIODS; periods++) {
    if (periods > 1 && window_stamp_bits(periods) == window_stamp_bits(periods - 1))
      continue;
    for (unsigned i = 0; i < WINDOW_SHAPES; i++) {
      double fpp = window_geometry_lowest_of_shape(periods, false, i);
      if (!(fpp < 1))
        continue;
      tamis_options o = options_of(TAMIS_BLOOM, 10000, fpp, false);
      o.window = periods;
      tamis_filter *f = create(&o);
      uint64_t epoch = epoch_before(&window_of(f)->state->epoch);
      const struct window_geometry g = window_newest(window_of(f), epoch)->geometry;
      chosen |= 1u << g.shape_index;
      add_keys(f, o.capacity);
      fill(f);
      char what[80];
      (void) snprintf(what, sizeof what, "window of %u, shape %u for %u, fpp %g", periods,
                      g.shape_index, i, fpp);
      double full = window_geometry_full_lanes(&g), lanes = (double) window_lanes(&g);
      if (fabs((double) stats_of(f).count - full) > 0.035 * lanes)
        fail_msg("%s: full with %lu keys, not %g", what, stats_of(f).count, full);
      double rate = window_geometry_rate(&g, stats_of(f).count);
      assert_measured(f, 0.9 * rate * (1 - rate), 1.03 * rate, what);
      assert_true(rate <= 1.01 * fpp);
      tamis_destroy(f);
    }
  }
  assert_int_equal(chosen, (1u << WINDOW_SHAPES) - 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_range_of_a_bloom_filter),
      cmocka_unit_test(every_number_of_sections),
      cmocka_unit_test(every_width_of_a_fixed_cuckoo_filter),
      cmocka_unit_test(every_width_and_depth_of_a_cuckoo_filter_that_grows),
      cmocka_unit_test(every_shape_of_a_window),
  };
  return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
