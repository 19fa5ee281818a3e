/* SPDX-License-Identifier: MIT
 *
 * Plans of filters.  What each promises, for all forms, windows, capacities and rates: a legal rate or
 * the lowest one, its bytes, those bytes and no fewer, room for its keys, and its rate.  And every row
 * of the tables by which filters are planned: a filter is made for each, at the lowest rate that the
 * row serves, filled, and its rate measured.  A row that no plan chooses fails.
 */
#include "filter_unit.h"

#include "bloom/bloom.h"
#include "bloom/ranges.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "harness.h"
#include "line_rate.h"
#include "window/layers.h"

#include <math.h>

/* ---- filters ---- */

static const double deviations = 6.5;

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
  tamis_filter *f = make_with_options(o);
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
      const double lowest = fmax(ranges[i].min_fpp, ranges[i].tries_next);
      double fpp = fmax(lowest * 1.001, 4 * hash_collision_rate(capacity));
      const struct bloom_shape shape = {layout, ranges[i].probes, ranges[i].bits_per_probe,
                                        ranges[i].sections};
      tamis_options o = seeded_options(kind, capacity, fpp, growable);
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

TEST(every_range_of_a_bloom_filter)
{
#define RANGES(of) of, sizeof(of) / sizeof *(of)
  check_ranges(TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, RANGES(blocked_ranges));
  check_ranges(TAMIS_BLOOM, TAMIS_LAYOUT_WORD, RANGES(word_ranges));
  check_ranges(TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, RANGES(counting_ranges));
#undef RANGES
}

/* Each number of sections that a filter of this capacity may have. */
TEST(every_number_of_sections)
{
  for (unsigned sections = 1; sections <= 25; sections++)
    for (unsigned growable = 0; growable < (sections <= 6 ? 2 : 1); growable++) {
      tamis_options o = seeded_options(TAMIS_BLOOM, 2000, ldexp(1, -2 * (int) sections), growable);
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
  const struct segment *segment = directory_segment(directory_at(&c->first, 0));
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
    tamis_filter *f = make_with_options(&o);
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
    tamis_options spec = {.capacity = o->capacity, .fpp = o->fpp, .growable = o->growable};
    assert_int_equal(cuckoo_geometry_plan(&spec, &g), TAMIS_OK);
  }
}

TEST(every_width_of_a_fixed_cuckoo_filter)
{
  for (unsigned i = 0; i < WIDTHS; i++) {
    char what[40];
    (void) snprintf(what, sizeof what, "fixed, %u bits", widths[i]);
    double rate = 2.0 * (64 / widths[i]) * ldexp(1, -(int) widths[i]);
    tamis_options o = seeded_options(TAMIS_CUCKOO, 1, rate, false);
    choose_capacity(&o);
    tamis_filter *f = make_with_options(&o);
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
TEST(every_width_and_depth_of_a_cuckoo_filter_that_grows)
{
  unsigned seen[64] = {0};
  for (double fpp = cuckoo_geometry_next_rate(0, true); fpp < 1;
       fpp = cuckoo_geometry_next_rate(fpp, true)) {
    tamis_options o = seeded_options(TAMIS_CUCKOO, 1, fpp, true);
    choose_capacity(&o);
    tamis_options spec = {.capacity = o.capacity, .fpp = fpp, .growable = true};
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
    tamis_filter *f = make_with_options(&o);
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
TEST(every_shape_of_a_window)
{
  unsigned chosen = 0;
  for (unsigned periods = 1; periods <= WINDOW_MOST_PERIODS; periods++) {
    if (periods > 1 && window_stamp_bits(periods) == window_stamp_bits(periods - 1))
      continue;
    for (unsigned i = 0; i < WINDOW_SHAPES; i++) {
      double fpp = window_geometry_lowest_of_shape(periods, false, i);
      if (!(fpp < 1))
        continue;
      tamis_options o = seeded_options(TAMIS_BLOOM, 10000, fpp, false);
      o.window = periods;
      tamis_filter *f = make_with_options(&o);
      uint64_t epoch = epoch_read(&window_of(f)->state->epoch);
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

/* ---- what each plan promises ---- */

/* One plan, and what is wrong with it. */
static struct {
  const struct form *form;
  tamis_options o;
  uint64_t bytes;
  char why[300];
} plan;

static void require(bool good, const char *what, double value)
{
  if (!good)
    fail_msg("%s, window of %u, capacity %lu, fpp %g: %s (%.17g) %s", plan.form->name,
             plan.o.window, plan.o.capacity, plan.o.fpp, what, value, plan.why);
}

/* What all calls that take options say of them.  Without memory, TAMIS_ENOMEM is that nothing is
 * wrong. */
static int result_of(const tamis_options *options)
{
  tamis_options o = *options;
  tamis_filter *f;
  uint64_t bytes = 7;
  int result = tamis_options_check(&o, plan.why, sizeof plan.why);
  require(tamis_options_check(&o, NULL, 0) == result, "without words", result);
  require((result == TAMIS_OK) == !*plan.why, "words", result);
  o.allocator = &without_memory; /* which takes some bytes of a limit */
  int created = tamis_create(&o, &f), checked = tamis_options_check(&o, NULL, 0);
  require(created == (checked ? checked : TAMIS_ENOMEM) && !f, "created otherwise", created);
  require(checked == result || (o.max_bytes && checked == TAMIS_EFULL), "with memory", checked);
  o.allocator = NULL;
  int planned = tamis_bytes_for(&o, &bytes);
  require(planned == (result == TAMIS_EFULL ? TAMIS_OK : result), "planned otherwise", planned);
  require((bytes == 7) == (planned != TAMIS_OK), "bytes", (double) bytes);
  return result;
}

/* What the words name: a field, and the end of its range. */
static double bound_of(const char *field, const char *before)
{
  const char *at = strstr(plan.why, before);
  require(strncmp(plan.why, field, strlen(field)) == 0 && at, "the words", 0);
  return at ? strtod(at + strlen(before), NULL) : 0;
}

/* Whoever follows the words gets a filter, and one step further does not. */
static void check_refusal(int result)
{
  tamis_options o = plan.o;
  if (result == TAMIS_EUNSUPPORTED) {
    o.fpp = bound_of("fpp is ", "at least ");
    if (o.capacity > UINT64_C(1) << 41)
      return; /* the rate is legal then, and the capacity is not */
    require(result_of(&o) == TAMIS_OK, "the lowest rate", o.fpp);
    /* the word layout takes some lower rates, but not the next one of three digits */
    o.fpp = o.layout == TAMIS_LAYOUT_WORD ? round(o.fpp * 1e6 - (o.fpp > 1e-3 ? 10 : 1)) / 1e6
                                          : o.fpp / 1.02;
    require(result_of(&o) == TAMIS_EUNSUPPORTED, "a rate below the lowest", o.fpp);
    return;
  }
  require(result == TAMIS_EINVAL, "the result", result);
  if (strncmp(plan.why, "fpp", 3) == 0) { /* no capacity would do */
    o.fpp = bound_of("fpp is ", "at least ");
    require(result_of(&o) == TAMIS_EINVAL, "the lowest rate of all", o.fpp);
  }
  (void) bound_of("capacity is ", " from 1 to ");
  o.capacity = strtoull(strstr(plan.why, " from 1 to ") + strlen(" from 1 to "), NULL, 10);
  require(result_of(&o) == TAMIS_OK, "the largest capacity", (double) o.capacity);
  o.capacity++;
  require(result_of(&o) != TAMIS_OK, "a larger capacity", (double) o.capacity);
}

/* The bytes are those of the lowest rate that fits in them, and enough as a limit. */
static void check_bytes(void)
{
  tamis_options o = plan.o;
  double fpp = 7, none = 7;
  uint64_t again;
  o.fpp = (double) NAN; /* is ignored */
  require(tamis_fpp_for(&o, plan.bytes, &fpp) == TAMIS_OK, "no rate", fpp);
  /* the lowest rates of the word layout, to and fro */
  const double most = plan.o.fpp * (plan.o.layout == TAMIS_LAYOUT_WORD ? 1.05 : 1.01);
  require(fpp <= most, "a rate that is too high", fpp);
  require(tamis_fpp_for(&o, 10, &none) == TAMIS_EFULL && none > 6, "a rate for ten bytes", none);
  o.fpp = fpp;
  require(tamis_bytes_for(&o, &again) == TAMIS_OK && again <= plan.bytes, "bytes", (double) again);
  o.fpp = fpp / 1.03;
  require(tamis_bytes_for(&o, &again) != TAMIS_OK || again > plan.bytes || o.capacity < 20,
          "a lower rate", (double) again);
  o = plan.o;
  o.max_bytes = plan.bytes;
  require(tamis_options_check(&o, NULL, 0) == TAMIS_OK, "the limit", (double) o.max_bytes);
  require(tamis_fpp_for(&o, plan.bytes, &fpp) == TAMIS_OK && fpp <= most, "a rate within a limit",
          fpp);
  o.max_bytes = plan.bytes / 2;
  require(result_of(&o) == TAMIS_EFULL, "half of the bytes", (double) o.max_bytes);
  double least = bound_of("max_bytes is ", "at least ");
  require(least <= (double) plan.bytes, "more than the bytes", least);
  o.max_bytes = (uint64_t) least;
  require(result_of(&o) == TAMIS_OK, "the least bytes", least);
  o.max_bytes--;
  require(result_of(&o) == TAMIS_EFULL, "a byte less", least);
}

/* Capacities are not rounded, and nothing wraps. */
static void check_neighbour(void)
{
  tamis_options o = plan.o;
  uint64_t bytes;
  o.capacity += o.capacity / 10;
  if (o.capacity < 1000000 || tamis_bytes_for(&o, &bytes) != TAMIS_OK)
    return;
  double ratio = (double) bytes / (double) plan.bytes;
  bool rough = o.kind == TAMIS_CUCKOO && o.growable && !o.window;
  require(rough ? ratio > 0.9 && ratio < 1.3 : ratio > 1.05 && ratio < 1.15, "ten % more", ratio);
}

/* ---- what each filter keeps of its plan ---- */

enum { MOST_KEYS = 900000, PROBES = 20000, REFUSALS = 200 };

static bool is_bloom(void)
{
  return plan.o.kind != TAMIS_CUCKOO && !plan.o.window;
}

/* Keys from `first` on by both calls, as many as are told, or until one is refused.  `in`: which of
 * them are in, and not hidden by others.  Returns the number of the key after the last one. */
static uint64_t add_from(tamis_filter *f, uint64_t first, uint64_t end, unsigned char *in)
{
  for (uint64_t i = first; i < end; i++) {
    bool there = tamis_contains_hash(f, i);
    int result = i % 2 ? tamis_add_unique_hash(f, i) : tamis_add_hash(f, i);
    in[i] = result == TAMIS_OK;
    if (result < 0) {
      require(result == TAMIS_EFULL && (!there || plan.form->removes), "an add fails", result);
      return i;
    }
    require((result == TAMIS_PRESENT) == (i % 2 && there), "the winner", (double) i);
    require(tamis_contains_hash(f, i), "a key is missing", (double) i);
  }
  return end;
}

/* After `n` keys, as many as there is room for. */
static void check_rate(const tamis_filter *f, uint64_t n)
{
  tamis_stats s = stats_of(f);
  const double hits = rate_of(f, PROBES) * PROBES;
  /* The promise for one small filter allows for chance; and at the highest rates adds end late. */
  const double most = plan.o.fpp * (n > 2000 ? 1.05 : 1.3) * PROBES, told = s.fpp_estimate * PROBES;
  require(s.fpp_estimate <= plan.o.fpp * (n > 2000 ? 1.05 : 1.3) || plan.o.fpp > 0.8, "the rate",
          s.fpp_estimate);
  require(s.fpp_estimate <= plan.o.fpp || s.layers == 1 || n < 2000, "the rates of layers",
          s.fpp_estimate);
  require(hits <= most + 6 * sqrt(most) + 2, "false positives", hits);
  if (is_bloom())
    require(fabs(hits - told) <= 0.05 * told + 6 * sqrt(told) + 2, "another rate", told);
  const double off = fabs(s.estimated_count / (double) n - 1);
  if (n > 900 && plan.o.fpp < (plan.o.window ? 0.02 : s.layers > 1 ? 0.51 : 0.4))
    require(off < (is_bloom() && s.layers > 1 ? 0.03 : 0.06), "the estimate", s.estimated_count);
  require(fabs(s.load - s.estimated_count / (double) s.capacity) < 1e-9, "the load", s.load);
  require(s.growths || s.kind == TAMIS_CUCKOO || s.bytes == plan.bytes, "bytes", (double) s.bytes);
  assert_valid(f);
}

static void check_empty(const tamis_filter *f)
{
  tamis_stats s = stats_of(f);
  require(s.kind == plan.o.kind && s.layout == plan.o.layout && s.capacity == plan.o.capacity &&
              s.seed == plan.o.seed && fabs(s.fpp - plan.o.fpp) <= 0 && s.layers == 1 &&
              s.parts == (plan.o.window ? plan.o.window + 1 : 1) && !s.growths && !s.joins,
          "a filter is not what was asked for", s.fpp);
  require(s.bytes == plan.bytes || (plan.o.kind == TAMIS_CUCKOO && s.bytes < plan.bytes),
          "bytes of an empty filter", (double) s.bytes);
  require(!s.count && !s.bits_set && s.estimated_count <= 0 && s.load <= 0 && s.occupancy <= 0 &&
              s.fpp_estimate < 1e-9 && !signbit(s.fpp_estimate) && !signbit(s.load),
          "figures of an empty filter", s.fpp_estimate);
}

/* Where copies do not count, adds of keys that are in change nothing. */
static void check_duplicates(tamis_filter *f, uint64_t n)
{
  tamis_stats before = stats_of(f), after;
  for (uint64_t i = 0; i < n && plan.o.kind == TAMIS_BLOOM; i++)
    require(tamis_add_hash(f, i) == TAMIS_OK, "an add of a key that is in", (double) i);
  after = stats_of(f);
  require(!memcmp(&before, &after, sizeof after), "duplicates change figures", 0);
}

/* What is full refuses what is not in, and changes nothing. */
static void check_full(tamis_filter *f, uint64_t n, unsigned char *in)
{
  tamis_stats before = stats_of(f), after;
  uint64_t refused = 0;
  memset(in + n, 0, REFUSALS);
  for (uint64_t i = n; i < n + REFUSALS; i++) {
    bool there = tamis_contains_hash(f, i);
    int result = tamis_add_unique_hash(f, i);
    require(result == (there ? TAMIS_PRESENT : TAMIS_EFULL) || !is_bloom(), "refuses", result);
    refused += result < 0;
    in[i] = result == TAMIS_OK;
    if (in[i])
      return; /* others have moved */
  }
  after = stats_of(f);
  require(after.refused_adds - before.refused_adds == refused, "refusals", (double) refused);
  after.refused_adds = before.refused_adds, after.failed_searches = before.failed_searches;
  after.evictions = before.evictions;
  require(!memcmp(&before, &after, sizeof after), "a refusal changes figures", 0);
  if (plan.o.kind == TAMIS_COUNTING_BLOOM)
    require(after.count == after.capacity, "copies", (double) after.count);
}

/* Removes, or ends of periods, leave nothing, and then there is room for all again. */
static void check_emptied(tamis_filter *f, uint64_t n, unsigned char *in)
{
  for (uint64_t i = 0; i < n && plan.form->removes; i++)
    if (in[i])
      require(tamis_remove_hash(f, i) == TAMIS_OK, "a key cannot be removed", (double) i);
  for (unsigned i = 0; i <= plan.o.window && plan.o.window && !plan.form->removes; i++)
    require(tamis_advance(f) == TAMIS_OK, "a period does not end", i);
  if (!plan.form->removes && !plan.o.window)
    return;
  tamis_stats s = stats_of(f);
  if (plan.o.fpp < 0.9) /* no counter is stuck */
    require(!s.count && !s.bits_set && s.occupancy <= 0, "something is left", (double) s.count);
  int result = tamis_remove_hash(f, ~UINT64_C(0));
  require(plan.o.fpp > 0.3 || result == (plan.form->removes ? TAMIS_ABSENT : TAMIS_EUNSUPPORTED),
          "removes", result);
  assert_valid(f);
  uint64_t left = add_from(f, 0, plan.o.capacity, in);
  require(left == plan.o.capacity, "no room again", (double) left);
}

static void check_filter(void)
{
  static unsigned char in[MOST_KEYS + REFUSALS];
  const uint64_t capacity = plan.o.capacity;
  /* as many as fill all layers, or as are refused */
  const uint64_t times = is_bloom() && capacity < 2000 ? 64 : 8;
  const uint64_t most = !plan.o.growable                      ? 20 * capacity + 2000
                        : plan.o.kind == TAMIS_COUNTING_BLOOM ? capacity
                                                              : times * capacity;
  tamis_filter *f = make_with_options(&plan.o);
  check_empty(f);
  uint64_t n = add_from(f, 0, capacity, in);
  require(n == capacity, "refused below the capacity", (double) n);
  require(stats_of(f).layers == 1, "layers up to the capacity", stats_of(f).layers);
  check_rate(f, n);
  check_duplicates(f, n);
  n = add_from(f, n, most, in);
  /* where not all keys are found, nor hashes or the narrowest shares are used up */
  if (plan.o.fpp < 0.99 && plan.o.fpp > (plan.o.window ? 1e-4 : 1e-12))
    require(plan.o.growable == (n == most), "ends", (double) n);
  if (plan.o.kind == TAMIS_BLOOM && is_bloom() && !plan.o.growable && capacity > 2000 &&
      plan.o.fpp <= 0.5)
    require((double) n <= 1.04 * (double) capacity, "more than the capacity", (double) n);
  if (n < most)
    check_full(f, n, in);
  else if (plan.o.kind == TAMIS_BLOOM && is_bloom() && plan.o.growable && plan.o.fpp < 0.15)
    require(stats_of(f).layers == (times > 8 ? 7 : 4), "layers", stats_of(f).layers);
  check_rate(f, n);
  for (uint64_t i = 0; i < n; i++)
    require(tamis_contains_hash(f, i), "a key is gone", (double) i);
  check_emptied(f, n < most ? n + REFUSALS : n, in);
  tamis_destroy(f);
}

static void check_plan(bool filter)
{
  int result = result_of(&plan.o);
  if (result != TAMIS_OK) {
    check_refusal(result);
    return;
  }
  plan.bytes = planned_bytes(&plan.o);
  if (plan.o.fpp < 0.99) /* the highest that bytes are asked for */
    check_bytes();
  check_neighbour();
  if (filter)
    check_filter();
}

TEST(every_plan_keeps_its_promises)
{
  static const uint64_t capacities[] = {1,    3,     10,         45,         300,
                                        1001, 25000, 1ull << 34, 1ull << 40, 1ull << 60};
  static const double rates[] = {0.999999, 0.9,  0.5,  0.3,  0.1,   0.01, 0.0025,
                                 1e-3,     1e-4, 1e-6, 1e-8, 1e-15, 1e-19};
  static const unsigned windows[] = {3, 1, 14, 64};
  for (plan.form = NULL; (plan.form = next_form(plan.form));)
    for (unsigned i = 0; i < sizeof capacities / sizeof *capacities; i++)
      for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
        plan.o = plan.form->options;
        plan.o.window = plan.o.window ? windows[(i + r) % 4] : 0;
        plan.o.capacity = capacities[i], plan.o.fpp = rates[r];
        if (plan.o.layout == TAMIS_LAYOUT_WORD && plan.o.fpp < 1e-7)
          continue; /* the words for a refusal take a while to find */
        check_plan(capacities[i] < 2000 || (capacities[i] < 50000 && SCALE == 1 && r % 4 == 1));
      }
}

/* Rates are not monotone in bytes where the shape changes, or the number of sections, and where the
 * first layer is planned for all of the rate; nor where a cuckoo filter's stripes make a part of a small segment. */
TEST(every_rate_is_found_by_its_bytes)
{
  for (plan.form = NULL; (plan.form = next_form(plan.form));)
    for (uint64_t capacity = 797; capacity < UINT64_C(1) << 34;
         capacity = capacity == 797 ? 6673 : capacity * 900) {
      plan.o = plan.form->options, plan.o.capacity = capacity;
      plan.o.stripes = capacity == 797 ? 16 : 0;
      double near = is_bloom() && capacity < 10000 ? 1.015 : 2.3;
      for (double rate = 0.98; rate > 1e-17; rate /= rate > 2e-3 ? near : 2.3) {
        plan.o.fpp = rate;
        if (tamis_bytes_for(&plan.o, &plan.bytes) == TAMIS_OK)
          check_bytes();
      }
    }
}
