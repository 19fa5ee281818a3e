/* SPDX-License-Identifier: MIT */
#include "window/geometry.h"

#include "base/compiler.h"
#include "base/reals.h"
#include "table/load.h"
#include "tamis/tamis.h"

#include <math.h>

static const struct form {
  unsigned char width, lanes, buckets; /* bits of a lane, lanes of a bucket, buckets of a word */
  /* The fewest bits of a fingerprint.  With fewer, a bucket has too few partners (see below). */
  unsigned char least_bits;
} forms[WINDOW_SHAPES] = {{8, 8, 1, 6},  {9, 7, 1, 6},   {10, 6, 1, 6},  {12, 5, 1, 6},
                          {16, 4, 1, 8}, {16, 2, 2, 10}, {21, 3, 1, 10}, {32, 2, 1, 10}};

/* The *partners* of a bucket are the other buckets that its entries can have, one for each
 * fingerprint.  With short fingerprints a bucket has few partners, at equal distances, so adds fail
 * at a lower load factor.  Each doubling of the table beyond 4096 buckets lowers the load factor:
 * with fingerprints of 10 + i bits, by `fall` + falls_faster[i]. */
enum { MANY_PARTNERS = 10, ENOUGH_PARTNERS = 15, MEASURED_BUCKETS = 4096 };
static const double falls_faster[ENOUGH_PARTNERS - MANY_PARTNERS] = {0.0023, 0.0014, 0.0008, 0.0005,
                                                                     0.0003};
static const struct table_load few_partners = {0.9600, 0.0040, 0.0100};

enum {
  USUAL_SEGMENT_WORDS = SMALL(65536, 64), /* half a MiB: the segments of larger tables */
  MOST_WORDS_OF_ONE = SMALL(262144, 256), /* 2 MiB: the largest table of one segment */
  MOST_HALF = 1 << 28 /* the most buckets in half a segment: searches number them in 32 bits */
};

/* A safety factor: the rates of filters vary, and rate_at() may be up to 1.5 % too low. */
static const double reserve = 1.02;

static const double first_share = 0.9;

static struct window_shape shape_of(unsigned index, unsigned periods, unsigned buckets)
{
  const struct form *form = &forms[index];
  return window_shape(form->width, form->lanes * buckets, window_stamp_bits(periods));
}

/* An absent key is compared with the lanes of two buckets.  Of the n = 2^f fingerprints of f bits,
 * 1 is twice as frequent as any other, as it replaces 0.  So an entry matches the key with
 * probability (1 + 2 / n) / n. */
static double rate_at(const struct window_shape *s, double load)
{
  double values = ldexp(1, (int) window_fingerprint_bits(s));
  return 2 * s->lane.lanes * load * (1 + 2 / values) / values;
}

static struct table_load load_of(const struct window_shape *s)
{
  return window_fingerprint_bits(s) < MANY_PARTNERS ? few_partners
                                                    : tamis__table_load(s->lane.lanes, true);
}

/* The rate of a full layer of 64 buckets.  A larger full layer has a lower load factor and rate. */
static double full_rate(const struct window_shape *s)
{
  struct table_load load = tamis__table_load(s->lane.lanes, true);
  return rate_at(s, tamis__table_load_of(&load, -6));
}

double window_geometry_rate(const struct window_geometry *g, uint64_t used)
{
  return rate_at(&g->shape, (double) used / (double) window_lanes(g));
}

static double full_load(const struct window_shape *s, double buckets)
{
  struct table_load load = load_of(s);
  unsigned bits = window_fingerprint_bits(s);
  double doublings = real_log2(buckets / MEASURED_BUCKETS);
  if (bits >= MANY_PARTNERS && bits < ENOUGH_PARTNERS && doublings > 0)
    load.fall += falls_faster[bits - MANY_PARTNERS];
  return tamis__table_load_of(&load, doublings);
}

double window_geometry_full_lanes(const struct window_geometry *g)
{
  return full_load(&g->shape, 2 * (double) g->half) * (double) window_lanes(g);
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
  return reserve * full_rate(&s) / (growable ? first_share : 1);
}

double window_geometry_lowest_rate(unsigned periods, bool growable)
{
  const unsigned widest = WINDOW_SHAPES - 1;
  double fixed = window_geometry_lowest_of_shape(periods, false, widest);
  return growable ? fixed / window_geometry_share(2) : fixed;
}

/* The mean number of keys for which each of `segments` segments of `lanes` lanes has room. */
static double room_of_segment(const struct window_shape *s, double lanes, double segments)
{
  double full = full_load(s, lanes / s->lane.lanes);
  struct table_load load = load_of(s);
  double deviation = tamis__table_load_deviation(&load, s->lane.lanes, lanes);
  /* With x deviations, all segments together overflow as rarely as one with load_early_deviations:
   * the tail of a normal distribution beyond x is about exp(-x^2 / 2). */
  double x = sqrt(load_early_deviations * load_early_deviations + 2 * real_log(segments));
  double random = segments > 1 ? full / lanes : 0;
  return lanes * fmax(full - x * sqrt(deviation * deviation + random), 0.2);
}

/* The number of lanes that each of `segments` segments needs for `keys` keys in all. */
static double lanes_for(const struct window_shape *s, double keys, double segments)
{
  double low = 0, high = 5 * keys / segments + s->lane.lanes;
  while (high - low > 0.5 && high - low > 1e-6 * high) {
    double middle = (low + high) / 2;
    *(room_of_segment(s, middle, segments) * segments >= keys ? &high : &low) = middle;
  }
  return high;
}

/* Plans the segments of a table.  Returns false if the table exceeds any address space. */
static bool plan_table(double keys, struct window_geometry *g)
{
  const struct window_shape *s = &g->shape;
  double segments = 1, lanes = lanes_for(s, keys, 1), words = lanes / g->whole.lane.lanes;
  if (words > MOST_WORDS_OF_ONE) {
    segments = ceil(words / USUAL_SEGMENT_WORDS);
    lanes = lanes_for(s, keys, segments);
  }
  double half = ceil(lanes / s->lane.lanes / 2), step = 1u << g->bucket_shift;
  /* Adds buckets while overfull sets (load.c) are likely, unless one pair has room for all keys. */
  while (keys > 2 * s->lane.lanes &&
         tamis__overfull_sets(s->lane.lanes, half, segments, keys / segments) > load_early)
    half = ceil(half * 1.03) + 1;
  half = ceil(half / step) * step;
  if (half > MOST_HALF || segments * half * 2 / step > 0x1p53)
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
  g->rate = full_rate(&g->shape);
}

/* Chooses the shape that takes the least memory within `rate`.  If several take the same memory,
 * chooses the lowest rate, as tables for few keys may get fuller than full_rate() assumes. */
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
    derive(spec->periods, &g);
    if (plan_table((double) keys, &g) && (double) window_words(&g) <= fewest) {
      fewest = (double) window_words(&g);
      *out = g;
    }
  }
  return !possible ? TAMIS_EUNSUPPORTED : fewest == INFINITY ? TAMIS_EINVAL : TAMIS_OK;
}

int window_geometry_plan(const struct window_spec *spec, struct window_geometry *out)
{
  struct window_geometry g;
  if (spec->fpp < window_geometry_lowest_rate(spec->periods, spec->growable))
    return TAMIS_EUNSUPPORTED;
  int result = plan(spec, share_of(spec, 1) * spec->fpp, spec->capacity, &g);
  if (result != TAMIS_OK)
    return result;
  if (spec->fpp < hash_collision_rate(spec->capacity))
    return TAMIS_EUNSUPPORTED;
  *out = g;
  return TAMIS_OK;
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
      g->half > MOST_HALF || g->half % forms[g->shape_index].buckets || !g->segments ||
      !g->capacity)
    return false;
  derive(periods, g);
  return (double) g->segments * (double) g->half <= 0x1p53;
}
