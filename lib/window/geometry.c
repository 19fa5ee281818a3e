/* SPDX-License-Identifier: MIT */
#include "window/geometry.h"

#include "base/overfull.h"
#include "tamis/tamis.h"

#include <math.h>

/* What was measured of each shape, with the search of evict.c: the load factor at which a table of
 * 4096 lanes finds no room for the first time, on average; how much that falls when the table
 * doubles; its least deviation; and the deviation of small tables, as a multiple of the root of their
 * lanes.  Tables of few lanes may get fuller than `most`, which follows from the load. */
static const struct form {
  unsigned char width, lanes, buckets; /* of a lane, of a bucket, of a word */
  unsigned char least_bits;            /* of a fingerprint: with fewer, buckets have too few partners */
  double load, fall, deviation, small;
} forms[WINDOW_SHAPES] = {
    {8, 8, 1, 6, 0.9900, 0.0005, 0.0015, 0.27},  {9, 7, 1, 6, 0.9900, 0.0005, 0.0015, 0.27},
    {10, 6, 1, 6, 0.9850, 0.0007, 0.0015, 0.27}, {12, 5, 1, 6, 0.9770, 0.0009, 0.0012, 0.27},
    {16, 4, 1, 8, 0.9717, 0.0010, 0.0010, 0.27}, {16, 2, 2, 10, 0.8800, 0.0018, 0.0015, 0.40},
    {21, 3, 1, 10, 0.9450, 0.0014, 0.0012, 0.30}, {32, 2, 1, 10, 0.8800, 0.0018, 0.0015, 0.40}};

enum {
  USUAL_SEGMENT_WORDS = 65536, /* half a MiB, where there are several */
  MOST_WORDS_OF_ONE = 262144,  /* 2 MiB */
};

/* The part of the rate that is kept in reserve, as the rate of one filter varies, and the formula is
 * up to 1.5 % too low. */
static const double reserve = 1.02;

static const double first_share = 0.9;

/* The probability, over seeds, that a filter that does not grow refuses a key before its capacity is
 * 10^-9: half of it comes from overfull buckets, half from the load, and 6.11 deviations are exceeded
 * with this half.  A filter that grows would open a layer instead, which should be rare. */
static const struct certainty {
  double overfull, deviations;
} fixed_certainty = {0.5e-9, 6.11}, growing_certainty = {1e-3, 3.1};

static struct window_shape shape_of(unsigned index, unsigned periods, unsigned buckets)
{
  const struct form *form = &forms[index];
  return window_shape(form->width, form->lanes * buckets, window_stamp_bits(periods));
}

/* ---- rates ---- */

/* A look-up of an absent key compares the 2 b lanes of its two buckets.  One that is in use matches with
 * the probability that two fingerprints are equal, of which one value stands for 0, too: (1 + 2 / n) / n
 * with n = 2^f. */
static double rate_at(const struct window_shape *s, double load)
{
  double values = ldexp(1, (int) window_fingerprint_bits(s));
  return 2 * s->lanes * load * (1 + 2 / values) / values;
}

/* Of a layer that is full: the mean load of small tables, which are fuller than large ones. */
static double full_rate(unsigned index, const struct window_shape *s)
{
  return rate_at(s, fmin(1, forms[index].load + 0.01));
}

double window_geometry_rate(const struct window_geometry *g, uint64_t used)
{
  return rate_at(&g->shape, (double) used / (double) window_lanes(g));
}

double window_geometry_share(unsigned index)
{
  const double sum_of_squares = 1.6449340668482264; /* pi^2 / 6 */
  double before = (double) index - 1;
  return index == 1 ? first_share : (1 - first_share) / sum_of_squares / (before * before);
}

static double share_of(const struct window_spec *spec, unsigned index)
{
  return spec->growable ? window_geometry_share(index) : 1;
}

double window_geometry_lowest_of_shape(unsigned periods, bool growable, unsigned index)
{
  const struct form *form = &forms[index];
  if (form->width < window_stamp_bits(periods) + form->least_bits)
    return INFINITY;
  struct window_shape s = shape_of(index, periods, 1);
  return reserve * full_rate(index, &s) / (growable ? first_share : 1);
}

double window_geometry_lowest_rate(unsigned periods, bool growable)
{
  const unsigned widest = WINDOW_SHAPES - 1;
  double fixed = window_geometry_lowest_of_shape(periods, false, widest);
  return growable ? fixed / window_geometry_share(2) : fixed;
}

/* ---- sizes ---- */

static double full_load(const struct form *form, double lanes)
{
  return fmin(1, form->load - form->fall * log2(lanes / 4096));
}

static double deviation_of(const struct form *form, double lanes)
{
  return fmax(form->deviation, form->small / sqrt(lanes));
}

/* How many keys a table of so many lanes has room for, if it is one of several segments, into which
 * keys fall at random, and if it is the only one. */
static double room_of_segment(const struct form *form, double lanes, double segments,
                              const struct certainty *sure)
{
  double full = full_load(form, lanes), deviation = deviation_of(form, lanes);
  /* The tail of a normal distribution falls like exp (-x^2 / 2). */
  double x = sqrt(sure->deviations * sure->deviations + 2 * log(segments));
  double random = segments > 1 ? full / lanes : 0;
  return lanes * fmax(full - x * sqrt(deviation * deviation + random), 0.2);
}

/* The lanes of each of so many segments. */
static double lanes_for(const struct form *form, double keys, double segments,
                        const struct certainty *sure)
{
  double low = 0, high = 5 * keys / segments + 1;
  for (unsigned i = 0; i < 50 && high - low > 0.5; i++) {
    double middle = (low + high) / 2;
    if (middle > 1 && room_of_segment(form, middle, segments, sure) * segments >= keys)
      high = middle;
    else
      low = middle;
  }
  return high;
}

/* Plans the segments of a table; false: no address space holds it. */
static bool plan_table(const struct form *form, double keys, const struct certainty *sure,
                       struct window_geometry *g)
{
  double segments = 1, of_bucket = form->lanes, lanes = lanes_for(form, keys, 1, sure);
  double words = lanes / (of_bucket * form->buckets);
  if (words > MOST_WORDS_OF_ONE) {
    segments = ceil(words / USUAL_SEGMENT_WORDS);
    lanes = lanes_for(form, keys, segments, sure);
  }
  double half = ceil(lanes / of_bucket / 2);
  /* Keys that fit in one pair of buckets always do. */
  while (keys > 2 * of_bucket &&
         tamis__overfull_sets(form->lanes, half, segments, keys / segments) > sure->overfull)
    half = ceil(half * 1.03) + 1;
  half = fmax(form->buckets, ceil(half / form->buckets) * form->buckets);
  if (segments * half * 2 / form->buckets > 0x1p53)
    return false;
  g->segments = (uint64_t) segments;
  g->half = (uint64_t) half;
  return true;
}

static void derive(unsigned periods, struct window_geometry *g)
{
  const struct form *form = &forms[g->shape_index];
  g->shape = shape_of(g->shape_index, periods, 1);
  g->whole = shape_of(g->shape_index, periods, form->buckets);
  g->bucket_shift = form->buckets - 1;
  unsigned others = 64 - window_fingerprint_bits(&g->shape);
  g->one = UINT64_C(1) << others;
  g->top = ~(g->one - 1);
  g->rate = full_rate(g->shape_index, &g->shape);
}

/* The shape that takes the least memory within a rate. */
static int plan(const struct window_spec *spec, double rate, uint64_t keys,
                struct window_geometry *out)
{
  double fewest = INFINITY;
  bool possible = false;
  for (unsigned i = 0; i < WINDOW_SHAPES; i++) {
    struct window_geometry g = {.shape_index = i, .capacity = keys};
    if (window_geometry_lowest_of_shape(spec->periods, false, i) > rate)
      continue;
    possible = true;
    if (!plan_table(&forms[i], (double) keys, spec->growable ? &growing_certainty : &fixed_certainty,
                    &g))
      continue;
    derive(spec->periods, &g);
    if ((double) window_words(&g) < fewest) {
      fewest = (double) window_words(&g);
      *out = g;
    }
  }
  return !possible ? TAMIS_EUNSUPPORTED : fewest == INFINITY ? TAMIS_EINVAL : TAMIS_OK;
}

int window_geometry_plan(const struct window_spec *spec, struct window_geometry *out)
{
  if (spec->fpp < hash_collision_rate(spec->capacity) ||
      spec->fpp < window_geometry_lowest_rate(spec->periods, spec->growable))
    return TAMIS_EUNSUPPORTED;
  return plan(spec, share_of(spec, 1) * spec->fpp, spec->capacity, out);
}

int window_geometry_plan_layer(const struct window_spec *spec, unsigned index, uint64_t keys,
                               struct window_geometry *out)
{
  double rate = share_of(spec, index) * spec->fpp;
  return rate >= hash_collision_rate(keys) && plan(spec, rate, keys, out) == TAMIS_OK ? TAMIS_OK
                                                                                      : TAMIS_EFULL;
}

bool window_geometry_restore(unsigned periods, struct window_geometry *g)
{
  if (periods < 1 || periods > WINDOW_MOST_PERIODS || g->shape_index >= WINDOW_SHAPES ||
      window_geometry_lowest_of_shape(periods, false, g->shape_index) > 1 || !g->half ||
      g->half % forms[g->shape_index].buckets || !g->segments || !g->capacity)
    return false;
  derive(periods, g);
  return (double) g->segments * (double) g->half <= 0x1p53;
}
