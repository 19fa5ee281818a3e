/* SPDX-License-Identifier: MIT */
#include "cuckoo/geometry.h"

#include "base/overfull.h"
#include "base/reals.h"
#include "base/small.h"
#include "table/load.h"
#include "tamis/tamis.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
  GROWING_PAIR_BITS = SMALL(11, 3), /* 4096 buckets, all of which one split copies */
  FIXED_PAIR_BITS =
      SMALL(15, 7), /* never copied, so larger: the loads of larger segments differ less */
  LARGEST_PAIR_BITS = 20,
  GROWING_BUCKETS_PER_STRIPE = SMALL(256, 2),
  FIXED_BUCKETS_PER_STRIPE = SMALL(1024, 4),
  FEW_BUCKETS =
      SMALL(64, 4), /* a segment of so many that may split has two stripes: few writers meet */
  MANY_ROOTS =
      SMALL(64, 16), /* these spread the writers: each needs no more stripes than a line holds */
  FIRST_DEPTH = SMALL(7, 4), /* the directory has 2^depth entries for each root: 3 % of a segment */
  NEXT_DEPTH = SMALL(9, 5),
  MIN_DEPTH = 4,        /* a generation that may split less often is not worth its look-ups */
  MIN_VARYING_BITS = 6, /* fingerprint bits in which the keys of a segment still differ */
  NEXT_MIN_KEYS = SMALL(8192, 64),
  CELLS = 1 << CUCKOO_CELL_BITS
};
/* Every entry knows the number of its cell for life: it comes after the bits that splits take. */
_Static_assert((int) CUCKOO_CELL_NUMBER_BITS < (int) MIN_VARYING_BITS, "or entries would lose it");

/* ---- unequal roots ----
 *
 * If all segments of a generation got as many keys, they would be full, and split, at the same
 * time.  Right after that the filter would take twice the memory that its keys need.  So the roots
 * of a later generation get unequal shares of the keys: 29, 29, 26, 23 and 21 of 128.  While the
 * keys double, each root splits its segments once, at 1.10, 1.10, 1.23, 1.39 and 1.52 times the
 * keys with which a root of 32 cells would.  The segments then have room for between 1.13 and 1.64
 * times the keys that they hold, instead of between 1 and 2 times; the mean stays 1 / ln 2 = 1.44.
 *
 * No split is due between 0.77 and 1.10 times those keys; of all such shares of five roots, these
 * come closest to the least peak. */

#define TO_21(cell)                                                                            \
  (cell), (cell) + 1, (cell) + 2, (cell) + 3, (cell) + 4, (cell) + 5, (cell) + 6, (cell) + 7,  \
      (cell) + 8, (cell) + 9, (cell) + 10, (cell) + 11, (cell) + 12, (cell) + 13, (cell) + 14, \
      (cell) + 15, (cell) + 16, (cell) + 17, (cell) + 18, (cell) + 19, (cell) + 20
#define TO_23(cell) TO_21(cell), (cell) + 21, (cell) + 22
#define TO_26(cell) TO_23(cell), (cell) + 23, (cell) + 24, (cell) + 25
#define TO_29(cell) TO_26(cell), (cell) + 26, (cell) + 27, (cell) + 28
#define ROOT(root) ((root) << CUCKOO_CELL_NUMBER_BITS)
const unsigned char tamis__cuckoo_cells[CELLS] = {TO_29(ROOT(0)), TO_29(ROOT(1)), TO_26(ROOT(2)),
                                                  TO_23(ROOT(3)), TO_21(ROOT(4))};

/* The part of the rate that is left which one generation may use.  The first gets most of the rate,
 * because most filters never have a second one. */
static const double generation_share = 0.85;

/* From this rate on a filter grows to a million times its capacity or more, as
 * unit/cuckoo/test_geometry.c checks.  With a lower rate growth would end too soon. */
static const double lowest_growing_rate = 3e-8;

/* For each number of lanes, the largest width. */
static const unsigned char widths[] = {8, 9, 10, 12, 16, 21, 32};
enum { WIDTHS = sizeof widths };

/* A filter that does not grow searches for room thoroughly. */
static struct table_load load_of(const struct cuckoo_geometry *g)
{
  return tamis__table_load(g->shape.lanes, !g->shape.ages);
}

double cuckoo_geometry_full_load(const struct cuckoo_geometry *g)
{
  struct table_load load = load_of(g);
  return tamis__table_load_of(&load, (double) g->pair_bits - 11);
}

double cuckoo_geometry_full_deviation(const struct cuckoo_geometry *g)
{
  struct table_load load = load_of(g);
  return tamis__table_load_deviation(&load, g->shape.lanes, (double) cuckoo_lanes(g));
}

/* The false-positive rate of a generation whose segments are full and have split `depth` times.
 *
 * The look-up of an absent key compares the 2b lanes of its two buckets.  A lane that is in use
 * matches with probability 2^-bits if its entry is new.
 * Source: Fan et al., "Cuckoo filter: practically better than Bloom", CoNEXT 2014
 *
 * An entry that has aged a steps knows a bits less, and so matches 2^a times as often.  After D
 * splits a part 2^-(a+1) of the entries has aged a steps, for a < D, and 2^-D has aged D steps.  So
 * the rate is multiplied by the sum of 2^-(a+1) 2^a over a < D, plus 2^-D 2^D: that is 1 + D/2.
 *
 * An entry of one of the unequal roots contains the number of its cell, 5 bits of which only 21 to
 * 29 values occur.  So it matches 32 / 29 to 32 / 21 times as often.  A root of s cells gets
 * s / 128 of the look-ups; the sum over five roots is 5 * 32 / 128. */
static double rate_of(const struct cuckoo_geometry *g, unsigned depth)
{
  const struct lane_shape *shape = &g->shape;
  double cells =
      g->unequal_roots ? (double) (CUCKOO_UNEQUAL_ROOTS << CUCKOO_CELL_NUMBER_BITS) / CELLS : 1;
  double lanes = 2.0 * shape->lanes * (shape->ages ? load_of(g).mean : 1);
  return lanes * ldexp(1, -(int) (shape->width - shape->ages)) * (1 + depth / 2.0) * cells;
}

/* Chooses the narrowest shape, and then the largest depth, that keep within a rate. */
static bool choose_growing_shape(double rate, unsigned max_depth, struct cuckoo_geometry *g)
{
  for (unsigned i = 0; i < WIDTHS; i++) {
    g->shape = bucket_shape(widths[i], true);
    if (widths[i] < MIN_DEPTH + 1 + MIN_VARYING_BITS)
      continue;
    unsigned depth = widths[i] - 1 - MIN_VARYING_BITS;
    depth = depth < max_depth ? depth : max_depth;
    while (depth > 0 && rate_of(g, depth) > rate)
      depth--;
    g->depth_limit = (uint8_t) depth;
    g->rate = rate_of(g, depth);
    if (depth >= MIN_DEPTH || (depth > 0 && i == WIDTHS - 1))
      return true;
  }
  return false;
}

static bool choose_fixed_shape(double rate, struct cuckoo_geometry *g)
{
  for (unsigned i = 0; i < WIDTHS; i++) {
    g->shape = bucket_shape(widths[i], false);
    g->depth_limit = 0;
    g->rate = rate_of(g, 0);
    if (g->rate <= rate)
      return true;
  }
  return false;
}

double cuckoo_geometry_next_rate(double rate, bool growable)
{
  double next = 1, of_narrower = 1; /* where the shapes that are narrower begin */
  for (unsigned i = 0; i < WIDTHS; i++) {
    struct cuckoo_geometry g = {.shape = bucket_shape(widths[i], growable)};
    unsigned least = growable ? MIN_DEPTH : 0, most = growable ? FIRST_DEPTH : 0;
    if (growable && widths[i] < MIN_DEPTH + 1 + MIN_VARYING_BITS)
      continue;
    for (unsigned depth = most + 1; depth-- > least;) {
      double begins = growable ? fmax(rate_of(&g, depth) / generation_share, lowest_growing_rate)
                               : rate_of(&g, 0);
      if (begins > rate && begins < of_narrower)
        next = fmin(next, begins);
      if (depth == least)
        of_narrower = begins;
    }
  }
  return next;
}

static uint8_t bits_for(uint64_t values)
{
  return values > 1 ? (uint8_t) (64 - __builtin_clzll(values - 1)) : 0;
}

/* Derives the sizes and the need for a second hash from the shape, the roots, the pairs and the
 * stripes. */
static void derive_from_stripes(struct cuckoo_geometry *g)
{
  uint32_t stripes = g->stripe_mask + 1;
  uint32_t offset = CUCKOO_SEGMENT_HEADER + stripes * CUCKOO_STRIPE_BYTES;
  /* Segments that do not grow are saved as they are, and files say that this is so rounded. */
  g->words_offset = g->shape.ages ? offset : (offset + 63) & ~UINT32_C(63);
  unsigned bits = g->root0_bits + cuckoo_root_bits(g) + g->pair_bits;
  /* An entry that ages has a bit less: the marker. */
  g->needs_second_hash = bits + g->depth_limit + g->shape.width - g->shape.ages > CUCKOO_HASH_BITS;
}

/* The same, and the stripes. */
static void derive_sizes(struct cuckoo_geometry *g)
{
  uint64_t buckets = cuckoo_buckets(g);
  uint64_t max_stripes = g->shape.ages ? CUCKOO_GROWING_STRIPES : CUCKOO_FIXED_STRIPES;
  uint64_t stripes = g->shape.ages && buckets <= FEW_BUCKETS ? 2 : 4;
  uint64_t per_stripe = g->shape.ages ? GROWING_BUCKETS_PER_STRIPE : FIXED_BUCKETS_PER_STRIPE;
  bool many_roots = g->shape.ages && g->first_roots >= MANY_ROOTS;
  while (stripes < max_stripes && stripes * per_stripe < buckets && !many_roots)
    stripes *= 2;
  if (g->stripes_wanted)
    for (stripes = 1; stripes < max_stripes && stripes < g->stripes_wanted;)
      stripes *= 2;
  g->stripe_mask = (uint32_t) stripes - 1;
  derive_from_stripes(g);
}

struct cuckoo_geometry cuckoo_geometry_largest(const struct cuckoo_geometry *g)
{
  struct cuckoo_geometry largest = *g;
  largest.pair_bits = GROWING_PAIR_BITS;
  derive_sizes(&largest);
  return largest;
}

/* ---- how many segments ----
 *
 * A segment gets a random number X of the keys, with a mean of m, and finds no room when it has
 * about F lanes in use: F is normally distributed, as measured.  (That its tails are normal, too,
 * is an assumption.)  A growing filter then splits the segment, so it is enough that this is rare.
 * A filter that does not grow would refuse a key before its capacity. */

/* The deviations of a normal distribution that are exceeded with a probability of 10^-6.  A filter
 * that grows splits its only segment before its capacity as rarely as that, and besides where a few
 * buckets get more keys than they have lanes, which is not planned for: 4 of 10^5 filters for 12
 * keys at a rate of 1e-4 do, and fewer at other sizes and rates. */
static const double only_growing_segment_deviations = 4.75;

static double growing_roots(const struct cuckoo_geometry *g, double keys)
{
  double lanes = (double) cuckoo_lanes(g);
  if (g->pair_bits == 0) /* all keys share the two buckets */
    return keys <= lanes ? 1 : ceil(keys / (lanes / 4));
  double full = cuckoo_geometry_full_load(g) * lanes;
  double deviation = cuckoo_geometry_full_deviation(g) * lanes;
  /* the only segment gets all keys */
  if (keys <= fmax(full - only_growing_segment_deviations * deviation, lanes / 4))
    return 1;
  /* Room for five deviations of X and F together: m + 5 sqrt(deviation^2 + m) = full. */
  double half = full + 12.5;
  double mean = half - sqrt(half * half - full * full + 25 * deviation * deviation);
  return ceil(keys / fmax(mean, lanes / 4)); /* the latter for tiny segments */
}

/* The largest mean m with which the probability that X exceeds F in any of s = n / m segments is at
 * most `load_early`, if n keys fall into them.  For any t > 0, with d for the deviation of F,
 *
 *    P(X > F) <= E e^(t (X - F)) / max(1, t d sqrt(2 pi))
 *    E e^(t X) = (1 + (e^t - 1) / s)^n     E e^(-t F) = e^(-t full + t^2 d^2 / 2)
 *
 * as the density of X - F is nowhere larger than that of F, 1 / (d sqrt(2 pi)).  Each t serves one
 * s best, in which the derivative by t is zero.
 * Source: Bahadur and Rao, "On deviations of the sample mean", Ann. Math. Stat. 31, 1960 */
static double mean_of_many(double full, double deviation, double keys)
{
  enum { STEPS = 24 };
  const double sqrt_2_pi = 2.5066282746310002, variance = deviation * deviation;
  double low = 0, high = fmin(full / variance, 40 / sqrt(variance + full)), mean = 0;
  for (unsigned i = 0; i < STEPS; i++) {
    double t = (low + high) / 2, rest = full - t * variance;
    double segments = (keys * real_exp(t) - rest * real_expm1(t)) / rest;
    double exponent = keys * real_log1p(real_expm1(t) / segments) - t * full + t * t * variance / 2;
    bool rare = real_log(segments + 1) + exponent - real_log(fmax(1, t * deviation * sqrt_2_pi)) <
                real_log(load_early);
    if (rare)
      mean = keys / segments;
    *(rare ? &high : &low) = t;
  }
  return mean;
}

/* INFINITY: segments of this size cannot keep the promise. */
static double fixed_roots(const struct cuckoo_geometry *g, double keys)
{
  double lanes = (double) cuckoo_lanes(g);
  if (g->pair_bits == 0) /* one bucket pair, and its lanes are all that is promised */
    return keys <= lanes ? 1 : INFINITY;
  double full = cuckoo_geometry_full_load(g) * lanes;
  double deviation = cuckoo_geometry_full_deviation(g) * lanes;
  double roots = keys <= full - load_early_deviations * deviation
                     ? 1
                     : ceil(keys / mean_of_many(full, deviation, keys));
  double half = ldexp(1, (int) g->pair_bits);
  return tamis__overfull_sets(g->shape.lanes, half, roots, keys / roots) <= load_early ? roots
                                                                                       : INFINITY;
}

/* Plans segments of 2^m bucket pairs a bucket, and returns their bytes. */
static double plan_segments(double keys, unsigned m, struct cuckoo_geometry *g)
{
  g->pair_bits = (uint8_t) m;
  double roots = g->shape.ages ? growing_roots(g, keys) : fixed_roots(g, keys);
  g->first_roots = (uint64_t) fmin(roots, 0x1p62);
  g->root0_bits = bits_for(g->first_roots);
  derive_sizes(g);
  double directory = 8.0 * (double) (1u << g->depth_limit);
  return roots * ((double) cuckoo_segment_bytes(g) + directory);
}

/* Chooses the number and the size of segments: those that need the least memory, or larger ones if
 * these need only 0.3 % more.  Larger ones than usual serve where all others have too many overfull
 * pairs. */
static bool choose_segments(uint64_t capacity, struct cuckoo_geometry *g)
{
  struct cuckoo_geometry best = {0}, candidate = *g;
  double fewest_bytes = 0x1p56; /* more than that is no address space */
  unsigned largest = g->shape.ages ? GROWING_PAIR_BITS : FIXED_PAIR_BITS;
  for (unsigned i = 0; i <= LARGEST_PAIR_BITS; i++) {
    unsigned m = i <= largest ? largest - i : i;
    if (m > largest && best.first_roots)
      break;
    double bytes = plan_segments((double) capacity, m, &candidate);
    if (bytes < 0.997 * fewest_bytes) {
      fewest_bytes = bytes;
      best = candidate;
    }
  }
  *g = best;
  return best.first_roots > 0;
}

int cuckoo_geometry_plan(const struct cuckoo_spec *spec, struct cuckoo_geometry *out)
{
  struct cuckoo_geometry g = {.stripes_wanted = (uint16_t) spec->stripes};
  if (!(spec->growable ? spec->fpp >= lowest_growing_rate &&
                             choose_growing_shape(generation_share * spec->fpp, FIRST_DEPTH, &g)
                       : choose_fixed_shape(spec->fpp, &g)))
    return TAMIS_EUNSUPPORTED;
  if (!choose_segments(spec->capacity, &g))
    return TAMIS_EINVAL;
  /* A lower rate than that of equal 64-bit hashes is not possible. */
  if (spec->fpp < hash_collision_rate(spec->capacity))
    return TAMIS_EUNSUPPORTED;
  *out = g;
  return TAMIS_OK;
}

int cuckoo_geometry_next(const struct cuckoo_geometry *before, uint64_t keys, double left,
                         struct cuckoo_geometry *out)
{
  struct cuckoo_geometry g = {.first_roots = before->first_roots,
                              .unequal_roots = true,
                              .root0_bits = before->root0_bits,
                              .stripes_wanted = before->stripes_wanted};
  if (left <= 0 || !choose_growing_shape(generation_share * left, NEXT_DEPTH, &g))
    return TAMIS_EFULL;
  /* At first the generation has room for a part of the keys that are in the filter: such a part
   * that it holds 128 times these keys when all its segments have split D times, but at most half
   * of them.  (Its first segments stay, however many keys are removed.) */
  keys >>= g.depth_limit > 8 ? g.depth_limit - 7 : 1;
  double wanted = (double) (keys > NEXT_MIN_KEYS ? keys : NEXT_MIN_KEYS);
  double buckets = wanted / g.shape.lanes / load_of(&g).mean;
  double of_root = buckets / (double) (g.first_roots * CUCKOO_UNEQUAL_ROOTS);
  unsigned bits = (unsigned) fmax(1, rint(real_log2(of_root))) - 1;
  /* Its entries must know for life to which directory entries of earlier generations their keys
   * lead: see [E] in snapshot.c.  (This matters only after nearly all keys have been removed.) */
  unsigned known = CUCKOO_CELL_BITS + g.depth_limit, least = cuckoo_index_bits(before);
  bits = known + bits < least ? least - known : bits;
  g.pair_bits = (uint8_t) (bits < GROWING_PAIR_BITS ? bits : GROWING_PAIR_BITS);
  g.root_shift = (uint8_t) (bits - g.pair_bits);
  derive_sizes(&g);
  *out = g;
  return TAMIS_OK;
}

/* ---- a geometry that has been saved ---- */

static bool is_planned_width(unsigned width)
{
  for (unsigned i = 0; i < WIDTHS; i++)
    if (widths[i] == width)
      return true;
  return false;
}

/* The limits of what plans choose; and no shift is out of bounds. */
static bool is_possible(const struct cuckoo_geometry *g)
{
  unsigned width = g->shape.width, stripes = g->stripe_mask + 1;
  unsigned max_stripes = g->shape.ages ? CUCKOO_GROWING_STRIPES : CUCKOO_FIXED_STRIPES;
  unsigned max_pair_bits = g->shape.ages ? GROWING_PAIR_BITS : LARGEST_PAIR_BITS;
  unsigned max_depth = !g->shape.ages ? 0 : g->unequal_roots ? NEXT_DEPTH : FIRST_DEPTH;
  if (!is_planned_width(width) || g->pair_bits > max_pair_bits || g->depth_limit > max_depth ||
      g->stripe_mask >= max_stripes || (stripes & g->stripe_mask) || !(g->rate > 0 && g->rate < 1))
    return false;
  unsigned varying = g->unequal_roots ? MIN_VARYING_BITS : 1;
  if (g->shape.ages && (!g->depth_limit || width < g->depth_limit + 1 + varying))
    return false;
  return g->first_roots && g->first_roots < UINT64_C(1) << 48 && g->root_shift < 48 &&
         (g->unequal_roots || !g->root_shift) &&
         g->root0_bits + cuckoo_index_bits(g) - g->depth_limit < CUCKOO_HASH_BITS;
}

bool cuckoo_geometry_restore(const struct cuckoo_geometry *before, struct cuckoo_geometry *g)
{
  g->unequal_roots = before != NULL;
  g->root0_bits = bits_for(g->first_roots);
  if (!is_possible(g))
    return false;
  g->shape = bucket_shape(g->shape.width, g->shape.ages);
  derive_from_stripes(g);
  double bytes = (double) cuckoo_roots(g) *
                 ((double) cuckoo_segment_bytes(g) + 8.0 * (double) (1u << g->depth_limit));
  return bytes < 0x1p56 && (!before || cuckoo_index_bits(g) >= cuckoo_index_bits(before));
}

/* ---- entries ---- */

/* `n` bits before others. */
static uint64_t put_before(uint64_t value, unsigned n, uint64_t others)
{
  return value << 1 << (63 - n) | others >> n;
}

struct cuckoo_hash_string cuckoo_string_of(const struct cuckoo_geometry *g, uint64_t root,
                                           uint64_t pair, uint64_t fingerprint)
{
  static const unsigned char first_cells[CUCKOO_UNEQUAL_ROOTS] = {0, 29, 58, 84, 107};
  struct cuckoo_hash_string string = {.root0 = root >> g->root_shift};
  uint64_t after = UINT64_MAX >> g->depth_limit, cell = 0;
  if (g->unequal_roots) {
    cell = first_cells[string.root0 % CUCKOO_UNEQUAL_ROOTS] +
           cuckoo_top_bits(fingerprint << g->depth_limit, CUCKOO_CELL_NUMBER_BITS);
    string.root0 /= CUCKOO_UNEQUAL_ROOTS;
    fingerprint = (fingerprint & ~after) | (fingerprint << CUCKOO_CELL_NUMBER_BITS & after);
  }
  uint64_t of_root = root & ((UINT64_C(1) << g->root_shift) - 1);
  string.bits = put_before(of_root, g->root_shift, put_before(pair, g->pair_bits, fingerprint));
  if (g->unequal_roots)
    string.bits = put_before(cell, CUCKOO_CELL_BITS, string.bits);
  return string;
}

uint64_t cuckoo_string_with_second_hash(const struct cuckoo_geometry *g, uint64_t hash,
                                        uint64_t bits)
{
  uint64_t more = hash_spread(hash_fold(hash, UINT64_C(0x2545F4914F6CDD1D), 0));
  unsigned used =
      g->root_shift + g->pair_bits + (g->unequal_roots ? (unsigned) CUCKOO_CELL_BITS : 0);
  unsigned lacking = 64 - CUCKOO_HASH_BITS;
  unsigned before = lacking + g->root0_bits + used; /* bits of the string before `more` goes on */
  assert(before < 64);
  return bits >> lacking >> g->root0_bits << before | cuckoo_top_bits(more, before);
}
