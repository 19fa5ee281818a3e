/* SPDX-License-Identifier: MIT
 *
 * Sizes and rates of windows, and addresses of keys.
 */
#include "filter_unit.h"

#include "harness.h"
#include "window/table.h"

#include <math.h>

static const unsigned windows[] = {1, 2, 4, 5, 8, 13, 14, 24, 29, 30, 61, 62, 64};
enum { WINDOWS = sizeof windows / sizeof *windows };

static const double rates[] = {0.9, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-5};
enum { RATES = sizeof rates / sizeof *rates };

static struct window_geometry planned(const struct window_spec *spec)
{
  struct window_geometry g = {0};
  assert_int_equal(window_geometry_plan(spec, &g), TAMIS_OK);
  return g;
}

/* ---- plans ---- */

static void check_plan(const struct window_spec *spec, const struct window_geometry *g,
                       double share)
{
  const struct window_shape *s = &g->shape;
  unsigned buckets = 1u << g->bucket_shift;
  assert_true(g->rate > 0 && g->rate <= share * spec->fpp / 1.019);
  assert_int_equal(s->stamp_bits, window_stamp_bits(spec->periods));
  assert_true(window_fingerprint_bits(s) >= 6 && s->lane.width <= LANE_MAX_WIDTH);
  assert_true(s->lane.width * s->lane.lanes * buckets <= 64);
  assert_int_equal(g->whole.lane.lanes, s->lane.lanes * buckets);
  assert_int_equal(g->half % buckets, 0);
  assert_true(g->half >= buckets && g->segments >= 1);
  assert_true(window_lanes(g) >= g->capacity);
  assert_int_equal(window_lanes(g), g->segments * 2 * g->half * s->lane.lanes);
  /* rate_at() is that of geometry.c when all lanes are in use */
  double values = ldexp(1, (int) window_fingerprint_bits(s));
  double most = 2 * s->lane.lanes * (1 + 2 / values) / values;
  assert_true(fabs(window_geometry_rate(g, window_lanes(g)) - most) < 1e-12);
  assert_true(g->rate <= most && g->rate > 0.85 * most);
}

TEST(shares_add_up_to_less_than_one)
{
  double sum = 0;
  for (unsigned index = 1; index < 100000; index++) {
    assert_true(window_geometry_share(index) > 0);
    sum += window_geometry_share(index);
  }
  assert_true(sum < 1 && sum > 0.999);
}

/* A window that begins with 1,000 keys can have layers up to a million times as large at once. */
TEST(growth_goes_on)
{
  for (unsigned i = 0; i < WINDOWS; i++)
    for (double fpp = 0.1; fpp > 0.0009; fpp /= 10) {
      struct window_spec spec = {windows[i], 1000, fpp, true};
      struct window_geometry g;
      for (unsigned index = 1; index <= 21; index++) {
        uint64_t keys = UINT64_C(1000) << (index - 1);
        assert_int_equal(window_geometry_plan_layer(&spec, index, keys, &g), TAMIS_OK);
        check_plan(&spec, &g, window_geometry_share(index));
      }
    }
  struct window_geometry g;
  struct window_spec spec = {64, 1000, 1e-5, true};
  assert_int_equal(window_geometry_plan_layer(&spec, 20, 1000, &g), TAMIS_EFULL);
}

/* (unit/test_planning.c tries the lowest rates.) */
TEST(lowest_rates_are_what_the_header_says)
{
  assert_true(window_geometry_lowest_rate(1, false) < 4e-9);
  assert_true(window_geometry_lowest_rate(64, false) < 1.1e-7);
  assert_true(window_geometry_lowest_rate(1, true) < 6e-8);
  assert_true(window_geometry_lowest_rate(64, true) < 1.8e-6);
}

TEST(what_is_saved_is_restored)
{
  for (unsigned i = 0; i < WINDOWS; i++)
    for (unsigned j = 0; j < RATES; j++) {
      const struct window_spec spec = {windows[i], 12345, rates[j], false};
      const struct window_geometry g = planned(&spec), saved = {.shape_index = g.shape_index,
                                                                .segments = g.segments,
                                                                .half = g.half,
                                                                .capacity = g.capacity};
      struct window_geometry r = saved;
      assert_true(window_geometry_restore(windows[i], &r));
      assert_memory_equal(&r, &g, sizeof g);
      struct window_geometry bad[] = {saved, saved, saved, saved, saved};
      bad[0].shape_index = WINDOW_SHAPES;
      bad[1].half = 0;
      bad[2].half = (UINT64_C(1) << 28) + 2, bad[2].segments = 1; /* beyond 32 bits */
      bad[3].segments = 0;
      bad[4].segments = UINT64_C(1) << 60;
      for (unsigned k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_false(window_geometry_restore(windows[i], &bad[k]));
      assert_false(window_geometry_restore(0, &r));
      assert_false(window_geometry_restore(WINDOW_MOST_PERIODS + 1, &r));
    }
  struct window_geometry g = {.shape_index = 0, .segments = 1, .half = 8, .capacity = 1};
  assert_false(window_geometry_restore(64, &g)); /* one bit is left for the fingerprint */
  g = (struct window_geometry){.shape_index = 5, .segments = 1, .half = 7, .capacity = 1};
  assert_false(window_geometry_restore(8, &g)); /* half of a word */
}

/* ---- addresses ---- */

static void check_addresses(const struct window_geometry *g)
{
  uint64_t buckets = g->segments * window_segment_buckets(g);
  for (uint64_t i = 0; i < 2000 / SCALE; i++) {
    uint64_t mixed = i < 2 ? i - 1 : random_at(1, i);
    struct window_place p = window_place_of(g, mixed, g->segments > 1);
    uint64_t fingerprint = window_fingerprint(&g->shape, &p);
    assert_true(p.lower < buckets && p.upper < buckets);
    assert_int_equal(p.lower / window_segment_buckets(g), p.upper / window_segment_buckets(g));
    assert_true(p.lower % window_segment_buckets(g) < g->half);
    assert_true(p.upper % window_segment_buckets(g) >= g->half);
    assert_true(fingerprint && !(fingerprint & ~lane_bits(g->shape.lane.width)));
    assert_int_equal(window_fingerprint_of(&g->shape, fingerprint), fingerprint);
    /* whatever the stamp, either bucket leads to the other */
    uint64_t entry = fingerprint | 1;
    assert_int_equal(window_other_bucket(g, p.lower, entry), p.upper);
    assert_int_equal(window_other_bucket(g, p.upper, entry), p.lower);
  }
}

TEST(either_bucket_leads_to_the_other)
{
  for (unsigned i = 0; i < WINDOWS; i++)
    for (unsigned j = 0; j < RATES; j++)
      for (uint64_t capacity = 1; capacity < UINT64_C(1) << 34; capacity = capacity * 37 + 5) {
        struct window_spec spec = {windows[i], capacity, rates[j], false};
        struct window_geometry g = planned(&spec);
        check_addresses(&g);
      }
}

/* ---- what plans promise, in filters ---- */

/* Of the layers that are searched at the same time, each has a share of the rate of its own. */
TEST(layers_have_shares_of_their_own)
{
  tamis_options options = seeded_options(TAMIS_BLOOM, 100, 0.01, true);
  options.window = 4;
  tamis_filter *f = make_with_options(&options);
  uint64_t next = 0, seen = 0;
  while (stats_of(f).layers < 6)
    assert_int_equal(tamis_add_hash(f, random_at(9, ++next)), TAMIS_OK);
  uint64_t epoch = epoch_read(&window_of(f)->state->epoch);
  const struct window_layer *layer = window_newest(window_of(f), epoch);
  for (; layer; layer = window_next(layer, epoch)) {
    assert_true(layer->index >= 1 && layer->index <= 6);
    assert_false(seen >> layer->index & 1);
    seen |= UINT64_C(1) << layer->index;
    assert_true(layer->geometry.rate <= window_geometry_share(layer->index) * 0.01);
  }
  tamis_destroy(f);
}
