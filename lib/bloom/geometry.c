/* SPDX-License-Identifier: MIT */
#include "bloom/geometry.h"

#include <assert.h>
#include <math.h>

#define LN2 0.69314718055994530942

/* A filter is one draw of a random experiment, and the rate of small ones differs from draw to
 * draw.  The promise is kept by the filter that you have, not by the average one: three standard
 * deviations above the expected rate must still be within a tenth of the promise. */
static const double tolerance = 1.1, deviations = 3;

/* Set aside, as a part of the rate for each bit of a key, for what the formulas do not know: that
 * positions come from a short generator.  (Classic at 1e-6, 20 bits, measured 1.02 to 1.04 times its
 * formula in 3 * 10^9 probes.) */
static const double generator_reserve = 0.002;

/* The shapes of the blocked layout: for each range of rates, the fewest probes that need at most
 * 3 % more bits than the best shape.  `spread` is the standard deviation of the rate from line to
 * line over its mean, at the lower end of the range (simulated: docs/bloom.md). */
static const struct {
  double at_least; /* smallest fpp of the range */
  unsigned probes, bits_per_probe;
  double spread;
} shapes[] = {
    {0.45, 1, 1, 0.05},  {0.17, 1, 2, 0.14},   {0.13, 1, 3, 0.20},  {0.025, 2, 2, 0.39},
    {0.004, 3, 2, 0.75}, {0.0006, 3, 3, 1.32}, {2.5e-5, 4, 3, 2.9}, {9e-6, 5, 3, 4.4},
    {9e-7, 5, 3, 6.9},   {9e-8, 5, 3, 9.6},    {1e-8, 5, 3, 18.2},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MAX_TERMS = 1024 };

/* 2^47 bytes of user address space. */
static const double max_lines = 0x1p41;

/* ---- classic ---- */

/* Source: Bloom, CACM 13 (1970), with the second moment of the number of set bits (balls into
 * bins), which counts in small filters: E[(X/m)^k] = mu^k (1 + k(k-1)/2 (sigma/mu)^2 + ...). */
static double classic_rate(double keys, double bits, unsigned k, double *relative_deviation)
{
  double balls = keys * k / bits;
  double empty = exp(keys * k * log1p(-1 / bits));
  double fill = 1 - empty;
  double variance = fmax(0, empty * (1 - (1 + balls) * empty)) / bits;
  double relative = fill > 0 ? variance / (fill * fill) : 0;
  *relative_deviation = k * sqrt(relative);
  return fmin(1, pow(fill, k) * (1 + 0.5 * k * (k - 1) * relative));
}

/* ---- blocked ---- */

/* The rate, exactly, by inclusion and exclusion over the bits of the key that is looked up:
 *
 *   P(all its bits set) = sum over subsets S of its bits of (-1)^|S| P(no added key sets a bit of S)
 *
 * An added key hits the line with probability 1/lines, and then misses S with a probability q(S)
 * that only depends on how many bits of S lie in which of the eight words; so with n keys the
 * inner probability is (1 - (1 - q(S)) / lines)^n.  Subsets with the same counts are one term.
 * All starts and odd strides are equivalent (multiplying by an odd number permutes the words), so
 * the key that is looked up may be taken to use words 0 .. probes-1. */
struct terms {
  unsigned count;
  double weight[8];      /* of a given bits in one word; a term's weight is their product */
  double hit[MAX_TERMS]; /* 1 - q, in the order of the odometer */
};

/* For t bits drawn with replacement from a word: weight[a] = E[(-1)^a C(distinct bits, a)]. */
static void word_weights(unsigned t, double weight[])
{
  double distinct[8] = {1};
  for (unsigned draw = 0; draw < t; draw++)
    for (unsigned u = draw + 2; u-- > 0;)
      distinct[u] = distinct[u] * u / 64 + (u ? distinct[u - 1] * (65 - u) / 64 : 0);
  for (unsigned a = 0; a <= t; a++) {
    weight[a] = 0;
    for (unsigned u = a; u <= t; u++) {
      double choose = 1;
      for (unsigned j = 0; j < a; j++)
        choose = choose * (u - j) / (j + 1);
      weight[a] += distinct[u] * choose * (a % 2 ? -1 : 1);
    }
  }
}

/* Counts a[0 .. probes-1] up, each from 0 to bits_per_probe; false after the last. */
static bool odometer(struct bloom_shape shape, unsigned a[])
{
  for (unsigned wheel = 0; wheel < shape.probes; wheel++) {
    if (++a[wheel] <= shape.bits_per_probe)
      return true;
    a[wheel] = 0;
  }
  return false;
}

/* The probability that a key in this line misses a[w] given bits of each word w, where word_miss[a]
 * is the probability that it misses a bits of a word that it uses. */
static double miss_probability(struct bloom_shape shape, const double word_miss[],
                               const unsigned a[LINE_WORDS])
{
  double sum = 0, patterns = 0;
  for (unsigned start = 0; start < LINE_WORDS; start++)
    for (unsigned stride = 1; stride < LINE_WORDS; stride += 2) {
      double miss = 1;
      for (unsigned i = 0; i < shape.probes; i++)
        miss *= word_miss[a[(start + i * stride) % LINE_WORDS]];
      sum += miss;
      patterns++;
    }
  return sum / patterns;
}

static void blocked_terms(struct bloom_shape shape, struct terms *terms)
{
  word_weights(shape.bits_per_probe, terms->weight);
  double word_miss[8];
  for (unsigned i = 0; i <= shape.bits_per_probe; i++)
    word_miss[i] = pow(1 - i / 64.0, shape.bits_per_probe);
  unsigned a[LINE_WORDS] = {0};
  terms->count = 0;
  do {
    assert(terms->count < MAX_TERMS);
    terms->hit[terms->count++] = 1 - miss_probability(shape, word_miss, a);
  } while (odometer(shape, a));
}

static double blocked_rate(struct bloom_shape shape, const struct terms *terms, double keys,
                           double lines)
{
  double rate = 0;
  unsigned a[LINE_WORDS] = {0}, i = 0;
  do {
    double weight = 1;
    for (unsigned w = 0; w < shape.probes; w++)
      weight *= terms->weight[a[w]];
    rate += weight * exp(keys * log1p(-terms->hit[i++] / lines));
  } while (odometer(shape, a));
  return fmin(1, fmax(0, rate));
}

/* The probability that one key sets one given bit of its line. */
static double bit_hit(const struct bloom_geometry *g)
{
  return g->shape.probes / (double) LINE_WORDS * (1 - pow(63.0 / 64, g->shape.bits_per_probe));
}

/* ---- both ---- */

/* log of the probability that a bit is still 0 after one key. */
static double log_miss(const struct bloom_geometry *g)
{
  if (g->shape.layout == TAMIS_LAYOUT_BLOCKED)
    return log1p(-bit_hit(g) / (double) g->lines);
  return g->shape.probes * log1p(-1 / (double) bloom_geometry_bits(g));
}

double bloom_geometry_rate(const struct bloom_geometry *g, double keys)
{
  double deviation;
  if (g->shape.layout != TAMIS_LAYOUT_BLOCKED)
    return classic_rate(keys, (double) bloom_geometry_bits(g), g->shape.probes, &deviation);
  struct terms terms;
  blocked_terms(g->shape, &terms);
  double rate = blocked_rate(g->shape, &terms, keys, (double) g->lines);
  /* The alternating sum loses the smallest rates to rounding.  If all lines were filled alike the rate
   * would be this; they are not, so it is more. */
  double fill = bloom_geometry_bits_set(g, keys) / (double) bloom_geometry_bits(g);
  return fmax(rate > 1e-11 ? rate : 0, pow(fill, bloom_geometry_bits_per_key(g)));
}

double bloom_geometry_bits_set(const struct bloom_geometry *g, double keys)
{
  return (double) bloom_geometry_bits(g) * -expm1(keys * log_miss(g));
}

double bloom_geometry_keys(const struct bloom_geometry *g, uint64_t bits_set)
{
  double bits = (double) bloom_geometry_bits(g);
  /* With every bit set any number of keys may have been added: say what one 0 left would say. */
  double set = fmin((double) bits_set, bits - 1);
  return log1p(-set / bits) / log_miss(g);
}

struct plan {
  struct bloom_geometry geometry;
  double spread;      /* blocked only */
  struct terms terms; /* blocked only */
};

double bloom_geometry_range(tamis_layout layout, unsigned range)
{
  if (layout != TAMIS_LAYOUT_BLOCKED || range >= SHAPES)
    return BLOOM_HIGHEST_RATE;
  return shapes[SHAPES - 1 - range].at_least;
}

static bool keeps_promise(const struct plan *plan, double lines)
{
  const struct bloom_geometry *g = &plan->geometry;
  double keys = (double) g->capacity, deviation, rate;
  if (g->shape.layout == TAMIS_LAYOUT_BLOCKED) {
    rate = blocked_rate(g->shape, &plan->terms, keys, lines);
    deviation = plan->spread / sqrt(lines);
  } else {
    rate = classic_rate(keys, lines * LINE_BITS, g->shape.probes, &deviation);
  }
  double reserve = 1 + generator_reserve * bloom_geometry_bits_per_key(g);
  return rate * reserve * fmax(1, (1 + deviations * deviation) / tolerance) +
             hash_collision_rate(g->capacity) <=
         g->fpp;
}

/* The smallest number of lines that keeps the promise, to 0.01 %. */
static double fewest_lines(const struct plan *plan)
{
  double low = 0, high = 1;
  while (high < max_lines && !keeps_promise(plan, high)) {
    low = high;
    high *= 2;
  }
  while (high - low > fmax(1, high * 1e-4)) {
    double middle = floor((low + high) / 2);
    if (keeps_promise(plan, middle))
      high = middle;
    else
      low = middle;
  }
  return high;
}

int bloom_geometry_plan(tamis_layout layout, uint64_t capacity, double fpp,
                        struct bloom_geometry *out)
{
  struct plan plan;
  plan.geometry =
      (struct bloom_geometry){.shape = {layout, 1, 1}, .capacity = capacity, .fpp = fpp};
  if (fpp < shapes[SHAPES - 1].at_least)
    plan.geometry.shape.layout = TAMIS_LAYOUT_CLASSIC;
  if (plan.geometry.shape.layout == TAMIS_LAYOUT_BLOCKED) {
    unsigned i = 0;
    while (fpp < shapes[i].at_least)
      i++;
    plan.geometry.shape.probes = shapes[i].probes;
    plan.geometry.shape.bits_per_probe = shapes[i].bits_per_probe;
    plan.spread = shapes[i].spread;
    blocked_terms(plan.geometry.shape, &plan.terms);
  } else {
    /* k = round(m/n ln 2) with m/n = -ln p / (ln 2)^2 */
    plan.geometry.shape.probes = (unsigned) fmin(BLOOM_MAX_PROBES, fmax(1, round(-log(fpp) / LN2)));
  }

  /* More keys than lines in an address space, whatever the rate: said first. */
  if ((double) capacity * -log(fpp) >= max_lines * LINE_BITS)
    return TAMIS_EINVAL;
  /* (In the classic layout, where a pattern is a stretch of one long sequence, patterns that overlap in
   * all but one bit add about twice as much as equal hashes.) */
  if (fpp <= hash_collision_rate(capacity))
    return TAMIS_EUNSUPPORTED;
  double lines = fewest_lines(&plan);
  if (lines >= max_lines)
    return TAMIS_EINVAL;
  plan.geometry.lines = (uint64_t) lines;
  *out = plan.geometry;
  return TAMIS_OK;
}
