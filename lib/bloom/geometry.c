/* SPDX-License-Identifier: MIT */
#include "bloom/geometry.h"

#include "base/reals.h"
#include "bloom/ranges.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define LN2 0.69314718055994530942

/* Of a thousand filters, at most one may exceed the promised rate times this factor. */
static const double tolerance = 1.1;

/* Returns a factor: one filter of a thousand has a rate above this factor times the expected rate.
 * The formula was fitted to simulations.  In small filters a few full lines decide the rate, so the
 * tail is longer than a normal distribution's. */
static double one_in_a_thousand(double deviation)
{
  return 1 + 3.1 * deviation + 17 * deviation * deviation / (1 + deviation);
}

/* The reserve for each bit of a key, as a fraction of the rate: a simple generator computes the
 * bits, which are not quite random (docs/internals/bloom.md). */
static const double generator_reserve = 0.002;

/* Sets *ranges to a layout's ranges, and returns their number. */
static unsigned ranges_of(tamis_layout layout, const struct shape_range **ranges)
{
#define RANGES(of) (*ranges = (of), (unsigned) (sizeof(of) / sizeof *(of)))
  return layout == TAMIS_LAYOUT_CLASSIC    ? RANGES(classic_range)
         : layout == TAMIS_LAYOUT_BLOCKED  ? RANGES(blocked_ranges)
         : layout == BLOOM_LAYOUT_COUNTING ? RANGES(counting_ranges)
                                           : RANGES(word_ranges);
#undef RANGES
}

enum {
  MAX_DRAWS = 14,  /* the most bits that two keys of the word layout can have together */
  MAX_TERMS = 256, /* four probes with three bits give 4^4 terms; no shape gives more */
  SPREADS = 4
};

/* The standard deviation of the rates of filters with different seeds, divided by the mean rate, is
 * proportional to this power of the rate (measured). */
static const double deviation_power = -0.19;

static const double max_lines = 0x1p41; /* 2^47 bytes, the address space of a process */

/* ---- the rate of the blocked, classic and counting layouts ---- */

/* docs/internals/bloom.md ("The rate, exactly") derives the rate of a section as a sum over subsets
 * S of an absent key's bits.  q(S) is the probability that an added key in the absent key's line
 * sets no bit of S.  All subsets with the same number of bits in each word are one term. */
struct terms {
  double hit[MAX_TERMS]; /* 1 - q(S) for each term; if blocked, in the order of next_counts() */
  /* The index is the number of bits in one word.  In the blocked layout, the weight of a term is
   * the product of the weights of its words.  In the word layouts a term has one word: `weight` is
   * for one absent key, and `weight_of_two` for two absent keys. */
  double weight[MAX_DRAWS + 1], weight_of_two[MAX_DRAWS + 1];
};

static double choose(unsigned n, unsigned k)
{
  double product = 1;
  for (unsigned i = 0; i < k; i++)
    product *= (double) (n - i) / (i + 1); /* if k > n, one factor is 0 */
  return product;
}

/* Draws t bits of a word with replacement: distinct[u] is the probability of u distinct bits. */
static void draw_bits(unsigned t, double distinct[])
{
  distinct[0] = 1;
  for (unsigned u = 1; u <= t; u++)
    distinct[u] = 0;
  for (unsigned draw = 0; draw < t; draw++)
    for (unsigned u = draw + 2; u-- > 0;)
      distinct[u] = distinct[u] * u / 64 + (u ? distinct[u - 1] * (65 - u) / 64 : 0);
}

/* Sets each weight[a], for a from 0 to t, to the mean of (-1)^a choose(u, a) over distinct[u]. */
static void subset_weights(const double distinct[], unsigned t, double weight[])
{
  for (unsigned a = 0; a <= t; a++) {
    weight[a] = 0;
    for (unsigned u = a; u <= t; u++)
      weight[a] += distinct[u] * choose(u, a) * (a % 2 ? -1 : 1);
  }
}

/* Goes to the next counts a[], each from 0 to bits_per_probe.  Returns false after the last. */
static bool next_counts(struct bloom_shape shape, unsigned a[])
{
  for (unsigned wheel = 0; wheel < shape.probes; wheel++) {
    if (++a[wheel] <= shape.bits_per_probe)
      return true;
    a[wheel] = 0;
  }
  return false;
}

/* Returns the xor of a key's first word and the word of probe `i`. */
static unsigned word_offset(unsigned spread, unsigned i)
{
  unsigned offset = 0;
  while (i--)
    offset ^= spread + bloom_steps[i];
  return offset;
}

/* Computes which words two keys A and B of one line share.  Bit i of m stands for A's probe i.
 * shared[m] is the probability that B uses the words of exactly the probes that m stands for. */
static void shared_words(struct bloom_shape shape, double shared[1 << BLOOM_MAX_PROBES])
{
  memset(shared, 0, sizeof *shared << BLOOM_MAX_PROBES);
  for (unsigned spread = 0; spread < SPREADS; spread++)
    for (unsigned start = 0; start < LINE_WORDS; start++)
      for (unsigned other = 0; other < SPREADS; other++) {
        unsigned used = 0, mask = 0;
        for (unsigned i = 0; i < shape.probes; i++)
          used |= 1u << (start ^ word_offset(other, i));
        for (unsigned i = 0; i < shape.probes; i++)
          mask |= (used >> word_offset(spread, i) & 1) << i;
        shared[mask] += 1.0 / (SPREADS * LINE_WORDS * SPREADS);
      }
}

/* For all counts a[], in the order of next_counts(): adds to q[] the probability that, for every
 * probe i, an added key in this line sets none of a[i] given bits of the probe's word.
 * coefficient[m] is the probability that the added key uses the words of exactly those probes whose
 * bits are set in `m`.  miss[a] is the probability that it sets none of `a` given bits in a word
 * that it uses.  Each level of the recursion tries all counts of the last of the `probes` probes.
 * Returns the end of the changed part of q[]. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as a key has probes, at most five */
static double *add_misses(unsigned probes, unsigned bits, const double miss[],
                          const double coefficient[], double *q)
{
  if (probes == 0) {
    *q += coefficient[0];
    return q + 1;
  }
  double rest[1 << (BLOOM_MAX_PROBES - 1)] = {0};
  unsigned half = 1u << (probes - 1);
  for (unsigned a = 0; a <= bits; a++) {
    for (unsigned m = 0; m < half; m++)
      rest[m] = coefficient[m] + miss[a] * coefficient[half + m];
    q = add_misses(probes - 1, bits, miss, rest, q);
  }
  return q;
}

static void blocked_terms(struct bloom_shape shape, struct terms *terms)
{
  for (unsigned a = 0; a <= shape.bits_per_probe; a++)
    terms->weight[a] = choose(shape.bits_per_probe, a) * (a % 2 ? -1 : 1);
  double shared[1 << BLOOM_MAX_PROBES], *q = terms->hit, *q_end = q;
  shared_words(shape, shared);
  memset(terms->hit, 0, sizeof terms->hit);
  const bool counting = shape.layout == BLOOM_LAYOUT_COUNTING;
  const struct overlap *o = (counting ? counting_overlaps : overlaps)[shape.bits_per_probe - 1];
  for (const struct overlap *end = o + OVERLAPS; o < end; o++) {
    double coefficient[1 << BLOOM_MAX_PROBES] = {0}, miss[4];
    for (unsigned a = 0; a <= shape.bits_per_probe; a++)
      miss[a] = 1 - o->hits[a] * bloom_shape_width(shape) / 64;
    for (unsigned m = 0; m < 1u << shape.probes; m++)
      coefficient[m] = o->probability * shared[m];
    if (o->probability > 0)
      q_end = add_misses(shape.probes, shape.bits_per_probe, miss, coefficient, q);
  }
  assert(q_end - q <= MAX_TERMS);
  for (; q < q_end; q++)
    *q = 1 - *q;
}

/* Returns the rate of one section. */
static double blocked_rate(struct bloom_shape shape, const struct terms *terms, double keys,
                           double lines)
{
  double rate = 0;
  unsigned a[BLOOM_MAX_PROBES] = {0}, i = 0;
  do {
    double weight = 1;
    for (unsigned w = 0; w < shape.probes; w++)
      weight *= terms->weight[a[w]];
    rate += weight * real_exp(keys * real_log1p(-terms->hit[i++] / lines));
  } while (next_counts(shape, a));
  return fmin(1, fmax(0, rate));
}

/* ---- the rate of the word layouts ---- */

/* The probability that a key sets any of `a` given bits of its word.  In the marked layout, a key
 * sets none of these bits in two cases: it draws neither these bits nor the mark; or it draws the
 * mark and none of these bits, and none of these bits replaces the mark. */
static double word_hit(struct bloom_shape shape, unsigned a)
{
  double miss = real_power(1 - a / 64.0, shape.bits_per_probe);
  if (shape.layout != BLOOM_LAYOUT_MARKED)
    return 1 - miss;
  double without_mark = real_power(1 - (a + 1) / 64.0, shape.bits_per_probe);
  return 1 - without_mark - (miss - without_mark) * (1 - a / (double) MARKED_POSITIONS);
}

/* Computes the probability size[u] that a key has u bits.  In the marked layout, one of u drawn
 * bits is the mark with probability u / 64. */
static void word_sizes(struct bloom_shape shape, double size[])
{
  draw_bits(shape.bits_per_probe, size);
  for (unsigned u = 1; shape.layout == BLOOM_LAYOUT_MARKED && u <= shape.bits_per_probe; u++) {
    /* the probability that the bit in the mark's place is already a bit of the key */
    double lost = size[u] * u / 64 * (u - 1) / MARKED_POSITIONS;
    size[u] -= lost;
    size[u - 1] += lost;
  }
}

/* Computes the probability both[u] that two keys have u bits together. */
static void union_sizes(unsigned bits_per_key, unsigned positions, const double size[],
                        double both[])
{
  for (unsigned u = 0; u <= 2 * bits_per_key; u++)
    both[u] = 0;
  for (unsigned a = 0; a <= bits_per_key; a++)
    for (unsigned b = 0; b <= bits_per_key; b++)
      for (unsigned common = 0; common <= a && common <= b; common++)
        both[a + b - common] += size[a] * size[b] * choose(a, common) *
                                choose(positions - a, b - common) / choose(positions, b);
}

/* The expected rate is that of the blocked layout with one word in place of a line.
 *
 * The deviation is exact, too, except for terms that vanish as the number of words grows.  First,
 * the number of keys in a word is taken to be a Poisson number: the second moment of a word's rate
 * is the probability that two absent keys with this word are both found (all bits of both are set).
 * Then the variance that the Poisson number causes, keys * slope^2 (slope: d rate / d keys), is
 * subtracted, because the number of all keys is in fact fixed. */
static void word_terms(struct bloom_shape shape, struct terms *terms)
{
  double size[MAX_DRAWS + 1] = {0}, both[MAX_DRAWS + 1] = {0};
  unsigned bits_per_key = shape.bits_per_probe;
  word_sizes(shape, size);
  union_sizes(bits_per_key, shape.layout == BLOOM_LAYOUT_MARKED ? MARKED_POSITIONS : 64, size,
              both);
  subset_weights(size, bits_per_key, terms->weight);
  subset_weights(both, 2 * bits_per_key, terms->weight_of_two);
  for (unsigned a = 0; a <= 2 * bits_per_key; a++)
    terms->hit[a] = word_hit(shape, a);
}

static double word_rate(struct bloom_shape shape, const struct terms *terms, double keys,
                        double words, double *relative_deviation)
{
  double rate = 0, slope = 0, square = 0;
  for (unsigned a = 0; a <= 2 * shape.bits_per_probe; a++) {
    double hit = terms->hit[a] / words;
    double none_set = real_exp(keys * real_log1p(-hit));
    square += terms->weight_of_two[a] * none_set;
    if (a <= shape.bits_per_probe) {
      rate += terms->weight[a] * none_set;
      slope -= terms->weight[a] * none_set * hit;
    }
  }
  double variance = (square - rate * rate) / words - keys * slope * slope;
  *relative_deviation = rate > 0 ? sqrt(fmax(0, variance)) / rate : 0;
  return fmin(1, fmax(0, rate));
}

/* ---- all layouts ---- */

/* Returns the logarithm of the probability that one key leaves a bit 0. */
static double log_miss(const struct bloom_geometry *g)
{
  if (bloom_shape_is_word(g->shape))
    return real_log1p(-word_hit(g->shape, 1) / (double) g->words);
  return real_log1p(-(double) bloom_shape_bits_per_key(g->shape) / bloom_geometry_usable_bits(g));
}

static double lines_of_section(const struct bloom_geometry *g)
{
  return (double) bloom_section_words(g->shape, g->words) / LINE_WORDS;
}

double bloom_geometry_rate(const struct bloom_geometry *g, double keys)
{
  double deviation, rate;
  struct terms terms = {0};
  if (bloom_shape_is_word(g->shape)) {
    word_terms(g->shape, &terms);
    rate = word_rate(g->shape, &terms, keys, (double) g->words, &deviation);
  } else {
    blocked_terms(g->shape, &terms);
    rate = blocked_rate(g->shape, &terms, keys, lines_of_section(g));
  }
  /* Rounding errors of the sums may exceed the smallest rates.  So the result is raised to a lower
   * bound: the rate if all lines were equally full. */
  double fill = bloom_geometry_bits_set(g, keys) / bloom_geometry_usable_bits(g);
  rate = fmax(rate > 1e-11 ? rate : 0, real_power(fill, g->shape.probes * g->shape.bits_per_probe));
  return real_power(rate, g->shape.sections);
}

double bloom_geometry_bits_set(const struct bloom_geometry *g, double keys)
{
  return bloom_geometry_usable_bits(g) * (0 - real_expm1(keys * log_miss(g))); /* 0, and not -0 */
}

double bloom_geometry_keys(const struct bloom_geometry *g, uint64_t bits_set)
{
  double bits = bloom_geometry_usable_bits(g);
  /* With all bits set, the number would be infinite: returns the number that leaves one bit 0. */
  double set = fmin((double) bits_set, bits - 1);
  return real_log1p(-set / bits) / log_miss(g);
}

void bloom_geometry_estimate(const struct bloom_geometry *g, tamis_stats *out)
{
  out->estimated_count = bloom_geometry_keys(g, out->bits_set / bloom_shape_width(g->shape));
  out->load = out->estimated_count / (double) g->capacity;
  out->fpp_estimate = bloom_geometry_rate(g, out->estimated_count);
}

struct plan {
  struct bloom_geometry geometry;
  const struct shape_range *range;
  struct terms terms;
};

double bloom_geometry_layout_begins(tamis_layout layout)
{
  const struct shape_range *ranges;
  unsigned n = ranges_of(layout, &ranges);
  return layout == TAMIS_LAYOUT_BLOCKED || layout == TAMIS_LAYOUT_CLASSIC ? 0
                                                                          : ranges[n - 1].min_fpp;
}

/* A key has two bits in each section.  The filter is smallest when half of all bits are set, and
 * then the rate is 2^-(2 * sections). */
static unsigned classic_sections(double rate)
{
  return (unsigned) fmin(BLOOM_MAX_SECTIONS, fmax(1, floor((1 - real_log2(rate)) / 2)));
}

double bloom_geometry_next_shape(tamis_layout layout, double rate)
{
  const struct shape_range *ranges;
  unsigned n = ranges_of(layout, &ranges);
  rate *= 1 + 0x1p-40; /* `rate` may be an earlier result, rounded down */
  if (layout == TAMIS_LAYOUT_CLASSIC) {
    unsigned sections = classic_sections(rate);
    return sections > 1 ? real_exp(-(2.0 * sections - 1) * LN2) : 1;
  }
  while (n && ranges[n - 1].min_fpp <= rate)
    n--;
  return n ? ranges[n - 1].min_fpp : 1;
}

/* Each section has the same numbers of keys and bits, and a key's hashes in the sections are
 * independent.  So the rate is a product of independent rates, whose relative variances add up. */
static double rate_of_sections(const struct plan *plan, double lines, double *deviation)
{
  const unsigned sections = plan->geometry.shape.sections;
  double keys = (double) plan->geometry.capacity;
  double rate = blocked_rate(plan->geometry.shape, &plan->terms, keys, lines);
  double least = real_exp(real_log(plan->range->min_fpp) / plan->range->sections);
  /* Rounding errors spoil computed rates below 10^-13, so the formula then uses 10^-13. */
  *deviation = plan->range->line_deviation * sqrt(sections / lines) *
               real_exp(deviation_power * real_log(fmax(rate, 1e-13) / least));
  return real_power(rate, sections);
}

/* Returns the planned false-positive rate of a filter with `lines` lines: the expected rate, raised
 * for filters with unlucky seeds, plus the rate of hash collisions. */
static double rate_of_lines(struct plan *plan, double lines)
{
  struct bloom_geometry *g = &plan->geometry;
  double deviation, rate;
  g->words = (uint64_t) lines * LINE_WORDS;
  if (!bloom_section_words(g->shape, g->words))
    return INFINITY;
  if (bloom_shape_is_word(g->shape))
    rate = word_rate(g->shape, &plan->terms, (double) g->capacity, lines * LINE_WORDS, &deviation);
  else
    rate = rate_of_sections(plan, lines_of_section(g), &deviation);
  double reserve = 1 + generator_reserve * bloom_shape_bits_per_key(g->shape);
  return rate * reserve * fmax(1, one_in_a_thousand(deviation) / tolerance) +
         hash_collision_rate(g->capacity);
}

/* The most lines that are known to break the promise (0: none), and the fewest known to keep it. */
struct known {
  struct {
    double lines, rate;
  } breaks, keeps;
};

/* Returns true if `lines` lines keep the promise.  If they break it, fewer lines break it, too. */
static bool ask(struct plan *plan, struct known *known, double lines)
{
  if (lines <= known->breaks.lines || lines >= known->keeps.lines)
    return lines >= known->keeps.lines;
  double rate = rate_of_lines(plan, lines);
  const bool keeps = rate <= plan->geometry.fpp;
  *(keeps ? &known->keeps.lines : &known->breaks.lines) = lines;
  *(keeps ? &known->keeps.rate : &known->breaks.rate) = rate;
  return keeps;
}

/* Returns the smallest number of lines that keeps the promise, to 0.01 %:
 * 1. Begins at -log2(rate) bits for each key, as no filter takes fewer, and doubles the lines.
 * 2. Tries four numbers near the answer.  They assume that the rate is a power of the number of
 *    lines, which is nearly true.  Three are below the answer, the last a little above.
 * 3. Bisects, mostly without computing rates, each of which takes as long as hundreds of adds. */
static double fewest_lines(struct plan *plan)
{
  const struct bloom_geometry *g = &plan->geometry;
  struct known known = {.keeps.lines = INFINITY};
  double low = 0, high = 1, too_few = (double) g->capacity * -real_log2(g->fpp) / LINE_BITS;
  while (2 * high <= too_few)
    high *= 2;
  while (high < max_lines && !ask(plan, &known, high)) {
    low = high;
    high *= 2;
  }
  for (unsigned i = 0; i < 4 && known.breaks.lines > 0 && known.breaks.rate < INFINITY; i++) {
    double part = real_log(known.breaks.rate / g->fpp) /
                  real_log(known.breaks.rate / known.keeps.rate),
           ratio = real_exp(part * real_log(known.keeps.lines / known.breaks.lines));
    (void) ask(plan, &known, floor(known.breaks.lines * ratio + (i < 3 ? 0 : 1 + high * 2e-5)));
  }
  while (high - low > fmax(1, high * 1e-4)) {
    double middle = floor((low + high) / 2);
    *(ask(plan, &known, middle) ? &high : &low) = middle;
  }
  return high;
}

/* Chooses the shape for a rate.  A rate below the lowest range gets the shape of that range. */
static void choose_shape(struct plan *plan)
{
  struct bloom_shape *shape = &plan->geometry.shape;
  double fpp = plan->geometry.fpp;
  const unsigned ranges = ranges_of(shape->layout, &plan->range);
  const struct shape_range *last = plan->range + ranges - 1;
  while (fpp < plan->range->min_fpp && plan->range != last)
    plan->range++;
  shape->probes = plan->range->probes;
  shape->bits_per_probe = plan->range->bits_per_probe;
  shape->sections =
      shape->layout == TAMIS_LAYOUT_CLASSIC ? classic_sections(fpp) : plan->range->sections;
  (bloom_shape_is_word(*shape) ? word_terms : blocked_terms)(*shape, &plan->terms);
}

static int plan_any(tamis_layout layout, uint64_t capacity, double fpp, struct bloom_geometry *out)
{
  struct plan plan;
  plan.geometry =
      (struct bloom_geometry){.shape = {.layout = layout}, .capacity = capacity, .fpp = fpp};
  choose_shape(&plan);
  double lines = fewest_lines(&plan);
  if (fpp < plan.range->tries_next) { /* a filter for the next lower range may need fewer bits */
    struct plan next = plan;
    next.geometry.fpp = nextafter(plan.range->min_fpp, 0);
    choose_shape(&next);
    double fewer = fewest_lines(&next);
    if (fewer < lines)
      plan = next, lines = fewer;
    plan.geometry.fpp = fpp;
  }
  if (lines >= max_lines)
    return TAMIS_EINVAL;
  uint64_t words = bloom_section_words(plan.geometry.shape, (uint64_t) lines * LINE_WORDS) *
                   plan.geometry.shape.sections;
  plan.geometry.words = (words + LINE_WORDS - 1) / LINE_WORDS * LINE_WORDS;
  *out = plan.geometry;
  return TAMIS_OK;
}

/* Returns true if this filter has at most twice the lines that a blocked filter needs.  With dozens
 * of keys, the result alternates as the rate falls: there are no fractions of lines. */
static bool dense_enough(const struct bloom_geometry *g)
{
  struct plan blocked;
  blocked.geometry = *g;
  blocked.geometry.shape = (struct bloom_shape){.layout = TAMIS_LAYOUT_BLOCKED};
  choose_shape(&blocked);
  uint64_t too_few = (g->words / LINE_WORDS - 1) / 2;
  return too_few == 0 || rate_of_lines(&blocked, (double) too_few) > g->fpp;
}

int bloom_geometry_plan(tamis_layout layout, uint64_t capacity, double fpp,
                        struct bloom_geometry *out)
{
  /* Refuses a filter too large for any address space first, even if its rate is unsupported. */
  if ((double) capacity * -real_log(fpp) >= max_lines * LINE_BITS)
    return TAMIS_EINVAL;
  if (fpp <= hash_collision_rate(capacity) || fpp < bloom_geometry_layout_begins(layout))
    return TAMIS_EUNSUPPORTED;
  int result = plan_any(layout, capacity, fpp, out);
  if (result == TAMIS_OK && bloom_shape_is_word(out->shape) && !dense_enough(out))
    return TAMIS_EUNSUPPORTED;
  return result;
}

/* ---- plans of layers ---- */

double bloom_geometry_share(unsigned layer)
{
  const double pi = 3.14159265358979323846;
  return 6 / (pi * pi * layer * layer);
}

/* Returns how many keys are offered to a layer before it has counted `capacity` keys.  (The others
 * are hidden.)  The formula uses the average of the rate during the adds: with the best number of
 * bits per key, the rate is about proportional to n^ln(1 / rate) for n keys. */
static uint64_t keys_offered(uint64_t capacity, double rate)
{
  return (uint64_t) round((double) capacity / (1 - rate / (1 - real_log(rate))));
}

/* Limits a filter of the word layout to twice the lines of the blocked layout. */
static void limit_lines(struct bloom_geometry *g)
{
  struct bloom_geometry blocked;
  if (!bloom_shape_is_word(g->shape) ||
      plan_any(TAMIS_LAYOUT_BLOCKED, g->capacity, g->fpp, &blocked) != TAMIS_OK ||
      g->words <= 2 * blocked.words)
    return;
  g->words = 2 * blocked.words;
}

/* Plans the first layer for `rate`, its share of `fpp`, or for `fpp` if 64-bit hashes do not allow
 * `rate`.  Refuses only what bloom_geometry_plan() refuses for `fpp`. */
static int plan_first(tamis_layout layout, uint64_t capacity, double fpp, uint64_t keys,
                      double rate, struct bloom_geometry *out)
{
  const bool shared = rate > hash_collision_rate(keys);
  /* If 64-bit hashes are the only limit of rates, a plan for `fpp`, too, would only take time. */
  if (shared && bloom_geometry_layout_begins(layout) == 0 && fpp > hash_collision_rate(capacity) &&
      plan_any(layout, keys, rate, out) == TAMIS_OK)
    return TAMIS_OK;
  int result = bloom_geometry_plan(layout, capacity, fpp, out);
  if (result == TAMIS_OK && shared && plan_any(layout, keys, rate, out) == TAMIS_OK)
    limit_lines(out);
  return result;
}

int bloom_geometry_plan_layer(tamis_layout layout, unsigned layer, uint64_t capacity, double fpp,
                              struct bloom_geometry *out)
{
  double rate = fpp * bloom_geometry_share(layer);
  if ((double) capacity * -real_log(rate) >= max_lines * LINE_BITS)
    return TAMIS_EINVAL;
  uint64_t keys = keys_offered(capacity, rate);
  tamis_layout later = layout == TAMIS_LAYOUT_WORD ? TAMIS_LAYOUT_BLOCKED : layout;
  int result = layer == 1 ? plan_first(layout, capacity, fpp, keys, rate, out)
                          : bloom_geometry_plan(later, keys, rate, out);
  if (result == TAMIS_OK) {
    out->capacity = capacity;
    out->fpp = layer == 1 ? fpp : rate;
  }
  return result;
}
