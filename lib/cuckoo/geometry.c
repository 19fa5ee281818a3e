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
  FIRST_DEPTH = SMALL(14, 4), /* an array of 2^14 entries is copied in a tenth of a millisecond */
  NEXT_DEPTH = SMALL(9, 5),
  SURE_DEPTH =
      SMALL(7, 4),      /* as often a first generation may split even if that takes a second hash */
  MIN_DEPTH = 4,        /* a generation that may split less often is not worth its look-ups */
  MIN_VARYING_BITS = 6, /* fingerprint bits in which the keys of a segment still differ */
  NEXT_MIN_KEYS = SMALL(8192, 64)
};
/* The part of the rate that is left which one generation may use.  The first gets most of the rate,
 * because most filters never have a second one. */
static const double generation_share = 0.9;

/* From this rate on a filter grows to a million times its capacity or more, as
 * unit/cuckoo/test_geometry.c checks.  With a lower rate growth would end too soon. */
static const double lowest_growing_rate = 3e-8;

/* Below this rate an uneven split of the first generation would leave too little for later ones. */
static const double lowest_uneven_rate = 4e-8;

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

/* ---- the uneven split ----
 *
 * If all segments of a generation got as many keys, they would be full, and split, at the same
 * time, and right after that the filter would take twice the memory that its keys need.  The two
 * classes of the uneven split have shares of the keys whose ratio is the square root of 2.  So
 * while the keys double, all segments of the one class split, and later all of the other: then
 * segments have room for at most 1.76 times the keys that they hold, instead of twice; the mean
 * stays 1 / ln 2.
 *
 * Where the rate allows it, the first split is the uneven one, and lanes stay as they are.
 * Otherwise it is the last one that the rate allows with lanes of that width, and its children have
 * the next wider ones: these cost memory, and nearly nothing of the rate. */

/* The width of the children of an uneven split of this width; 0: there is none.  In two wider lanes
 * for each three, the larger class would not find room. */
static unsigned next_width(unsigned width)
{
  for (unsigned i = 0; i + 1 < WIDTHS && 64 / widths[i + 1] > 2; i++)
    if (widths[i] == width)
      return widths[i + 1];
  return 0;
}

struct cuckoo_geometry cuckoo_geometry_after(const struct cuckoo_geometry *g)
{
  struct cuckoo_geometry after = *g;
  if (g->uneven_at > 0 && g->uneven_at < g->depth_limit)
    after.shape = bucket_shape(next_width(g->shape.width), g->shape.ages);
  return after;
}

/* The lanes of two buckets that a full segment of this shape has in use. */
static double lanes_in_pair(const struct cuckoo_geometry *g)
{
  return 2.0 * g->shape.lanes * (g->shape.ages ? load_of(g).mean : 1);
}

/* The look-up of an absent key compares the 2b lanes of its two buckets.  A lane that is in use
 * matches with probability 2^-bits if its entry is new.
 * Source: Fan et al., "Cuckoo filter: practically better than Bloom", CoNEXT 2014
 *
 * An entry that has aged a steps knows a bits less, and so matches 2^a times as often.  A split
 * that goes by a bit leaves half of the entries in each child, and each then matches twice as
 * often: so what the entries that came to depth j contribute to the rate stays the same for ever.
 * With n(j) lanes of a pair in use at depth j, and b(j) bits of a new entry,
 *
 *    rate = n(0) 2^-b(0) + sum over j = 1 ... depth of (n(j) - n(j-1) / 2) 2^-b(j)
 *
 * From the uneven split on, an entry's bits say which class it has, so a key of a class with a
 * share s matches a new entry of its class 1 / s times as often.  Over both classes, such entries
 * count twice. */
double cuckoo_geometry_rate(const struct cuckoo_geometry *g, unsigned depth)
{
  const struct cuckoo_geometry after = cuckoo_geometry_after(g);
  double before = lanes_in_pair(g), rate = 0;
  double even = before * ldexp(1, -(int) (g->shape.width - g->shape.ages));
  unsigned narrow = depth < g->uneven_at ? depth : g->uneven_at;
  rate = even * (1 + narrow / 2.0);
  if (depth > narrow) {
    double lanes = lanes_in_pair(&after), wide = 2 * ldexp(1, -(int) (after.shape.width - 1));
    rate += (lanes - before / 2) * wide + (depth - narrow - 1) * lanes / 2 * wide;
  }
  return rate;
}

/* The largest depth that keeps within a rate, if the split at this depth is uneven.  The bits of
 * the fingerprint that do not become a prefix must differ among the keys of a segment. */
static unsigned depth_with(struct cuckoo_geometry *g, unsigned uneven_at, double rate,
                           unsigned max_depth)
{
  unsigned most = g->shape.width - 1U - MIN_VARYING_BITS + (uneven_at != NEVER_UNEVEN);
  unsigned depth = most < max_depth ? most : max_depth;
  g->uneven_at = (uint8_t) uneven_at;
  for (; depth > 0; depth--) {
    g->depth_limit = (uint8_t) depth;
    if (cuckoo_geometry_rate(g, depth) <= rate)
      break;
  }
  return depth;
}

/* Chooses the uneven split that lets segments split most often, the first one if there is a choice;
 * of those that need wider lanes, the last one, as it saves memory longest.  A later generation,
 * which has no wider lanes, does with fewer splits for it. */
static void choose_uneven_split(double rate, bool first, struct cuckoo_geometry *g)
{
  unsigned best = g->depth_limit, at = NEVER_UNEVEN;
  if (first && rate < generation_share * lowest_uneven_rate)
    return;
  unsigned depth = depth_with(g, 0, rate, first ? FIRST_DEPTH : NEXT_DEPTH);
  if (depth >= best || (!first && depth >= MIN_DEPTH)) {
    best = depth;
    at = 0;
  }
  for (unsigned i = 1; first && i < FIRST_DEPTH && next_width(g->shape.width); i++) {
    depth = depth_with(g, i, rate, FIRST_DEPTH);
    if (depth > i && (depth > best || (depth == best && at != 0))) {
      best = depth;
      at = i;
    }
  }
  g->uneven_at = (uint8_t) at;
  g->depth_limit = (uint8_t) best;
}

/* Chooses the narrowest shape with which segments may split often enough, and then the largest
 * depth that keeps within a rate. */
static bool choose_growing_shape(double rate, bool first, struct cuckoo_geometry *g)
{
  for (unsigned i = 0; i < WIDTHS; i++) {
    g->shape = bucket_shape(widths[i], true);
    g->fixed_shift = g->shape.shift;
    if (widths[i] < MIN_DEPTH + 1 + MIN_VARYING_BITS)
      continue;
    unsigned depth = depth_with(g, NEVER_UNEVEN, rate, first ? FIRST_DEPTH : NEXT_DEPTH);
    if (depth < MIN_DEPTH && (depth == 0 || i < WIDTHS - 1))
      continue;
    choose_uneven_split(rate, first, g);
    g->rate = cuckoo_geometry_rate(g, g->depth_limit);
    return true;
  }
  return false;
}

static bool choose_fixed_shape(double rate, struct cuckoo_geometry *g)
{
  for (unsigned i = 0; i < WIDTHS; i++) {
    g->shape = bucket_shape(widths[i], false);
    g->fixed_shift = g->shape.shift;
    g->uneven_at = NEVER_UNEVEN;
    g->depth_limit = 0;
    g->rate = cuckoo_geometry_rate(g, 0);
    if (g->rate <= rate)
      return true;
  }
  return false;
}

double cuckoo_geometry_next_rate(double rate, bool growable)
{
  double next = 1;
  for (unsigned i = 0; i < WIDTHS; i++) {
    struct cuckoo_geometry g = {.shape = bucket_shape(widths[i], growable),
                                .uneven_at = NEVER_UNEVEN};
    if (growable && widths[i] < MIN_DEPTH + 1 + MIN_VARYING_BITS)
      continue;
    double begins =
        growable ? fmax(cuckoo_geometry_rate(&g, MIN_DEPTH) / generation_share, lowest_growing_rate)
                 : cuckoo_geometry_rate(&g, 0);
    if (growable && generation_share * begins < cuckoo_geometry_rate(&g, MIN_DEPTH))
      begins = nextafter(begins, 1); /* what has been rounded down */
    if (begins > rate)
      next = fmin(next, begins);
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
  g->words_offset = (uint16_t) (g->shape.ages ? offset : (offset + 63) & ~UINT32_C(63));
  unsigned bits = (unsigned) g->root0_bits + g->root_shift + g->pair_bits;
  /* An entry that ages has a bit less: the marker. */
  const struct cuckoo_geometry after = cuckoo_geometry_after(g);
  unsigned known = (unsigned) g->depth_limit + after.shape.width - g->shape.ages;
  g->needs_second_hash = bits + known > CUCKOO_HASH_BITS;
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
  unsigned depth = g->shape.width - 1U - MIN_VARYING_BITS;
  double directory = 8.0 * (double) (1u << (depth < SURE_DEPTH ? depth : SURE_DEPTH)); /* grown */
  if (!g->shape.ages)
    directory = 8;
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

/* Segments may split less often than the rate allows if one hash gives all that an entry knows
 * then, as keys are found faster; or if they have few buckets, as such segments are mostly head and
 * directory, and those of the next generation are larger.  If so few splits are left that none is
 * uneven, the first one becomes it, as far as the rate allows. */
static void limit_depth(double rate, struct cuckoo_geometry *g)
{
  bool few = cuckoo_buckets(g) <= FEW_BUCKETS;
  while ((few || g->needs_second_hash) && g->depth_limit > SURE_DEPTH) {
    g->depth_limit--;
    derive_from_stripes(g);
  }
  if (g->uneven_at != NEVER_UNEVEN && g->uneven_at >= g->depth_limit)
    g->depth_limit = (uint8_t) depth_with(g, 0, rate, g->depth_limit);
  g->rate = cuckoo_geometry_rate(g, g->depth_limit);
}

int cuckoo_geometry_plan(const struct cuckoo_spec *spec, struct cuckoo_geometry *out)
{
  struct cuckoo_geometry g = {.stripes_wanted = (uint16_t) spec->stripes};
  if (!(spec->growable ? spec->fpp >= lowest_growing_rate &&
                             choose_growing_shape(generation_share * spec->fpp, true, &g)
                       : choose_fixed_shape(spec->fpp, &g)))
    return TAMIS_EUNSUPPORTED;
  if (!choose_segments(spec->capacity, &g))
    return TAMIS_EINVAL;
  if (spec->growable)
    limit_depth(generation_share * spec->fpp, &g);
  /* A lower rate than that of equal 64-bit hashes is not possible. */
  if (spec->fpp < hash_collision_rate(spec->capacity))
    return TAMIS_EUNSUPPORTED;
  *out = g;
  return TAMIS_OK;
}

/* The bits of the hash string after root0 that an entry knows for life. */
static unsigned known_for_life(const struct cuckoo_geometry *g)
{
  return (unsigned) g->root_shift + g->pair_bits + 63U - g->fixed_shift;
}

bool cuckoo_geometry_may_follow(const struct cuckoo_geometry *before,
                                const struct cuckoo_geometry *g)
{
  return known_for_life(g) >= known_for_life(before);
}

int cuckoo_geometry_next(const struct cuckoo_geometry *before, uint64_t keys, double left,
                         struct cuckoo_geometry *out)
{
  struct cuckoo_geometry g = {.first_roots = before->first_roots,
                              .later = true,
                              .root0_bits = before->root0_bits,
                              .stripes_wanted = before->stripes_wanted};
  if (left <= 0 || !choose_growing_shape(generation_share * left, false, &g))
    return TAMIS_EFULL;
  /* At first the generation has room for a part of the keys that are in the filter: such a part
   * that it holds 128 times these keys when all its segments have split D times, but at most half
   * of them.  (Its first segments stay, however many keys are removed.) */
  keys >>= g.depth_limit > 8 ? g.depth_limit - 7 : 1;
  double wanted = (double) (keys > NEXT_MIN_KEYS ? keys : NEXT_MIN_KEYS);
  double buckets = wanted / g.shape.lanes / load_of(&g).mean;
  double of_root = buckets / (double) g.first_roots;
  unsigned bits = (unsigned) fmax(1, rint(real_log2(of_root))) - 1;
  /* Room for cuckoo_geometry_may_follow(), which matters only after nearly all keys have been
   * removed. */
  unsigned known = known_for_life(&g), least = known_for_life(before);
  bits = known + bits < least ? least - known : bits;
  g.pair_bits = (uint8_t) (bits < GROWING_PAIR_BITS ? bits : GROWING_PAIR_BITS);
  g.root_shift = (uint8_t) (bits - g.pair_bits);
  if (g.root0_bits + bits >= CUCKOO_HASH_BITS)
    return TAMIS_EFULL; /* one hash does not lead to so many buckets */
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
  unsigned max_depth = !g->shape.ages ? 0 : g->later ? NEXT_DEPTH : FIRST_DEPTH;
  if (!is_planned_width(width) || g->pair_bits > max_pair_bits || g->depth_limit > max_depth ||
      g->stripe_mask >= max_stripes || (stripes & g->stripe_mask) || !(g->rate > 0 && g->rate < 1))
    return false;
  bool uneven = g->uneven_at < g->depth_limit;
  if (g->shape.ages ? !g->depth_limit || width + uneven < g->depth_limit + 1U + MIN_VARYING_BITS
                    : g->uneven_at != NEVER_UNEVEN)
    return false;
  if (uneven && g->uneven_at > 0 && (g->later || !next_width(width)))
    return false;
  return g->first_roots && g->first_roots < UINT64_C(1) << 48 && g->root_shift < 48 &&
         (g->later || !g->root_shift) &&
         g->root0_bits + g->root_shift + g->pair_bits < CUCKOO_HASH_BITS;
}

bool cuckoo_geometry_restore(const struct cuckoo_geometry *before, struct cuckoo_geometry *g)
{
  g->later = before != NULL;
  g->root0_bits = bits_for(g->first_roots);
  g->fixed_shift = (uint8_t) (64 - g->shape.width);
  if (!is_possible(g))
    return false;
  g->shape = bucket_shape(g->shape.width, g->shape.ages);
  derive_from_stripes(g);
  double bytes = (double) cuckoo_roots(g) * (double) (cuckoo_segment_bytes(g) + sizeof(uint64_t));
  return bytes < 0x1p56 && (!before || cuckoo_geometry_may_follow(before, g));
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
  struct cuckoo_hash_string string = {.root0 = root >> g->root_shift};
  uint64_t of_root = root & ((UINT64_C(1) << g->root_shift) - 1);
  string.bits = put_before(of_root, g->root_shift, put_before(pair, g->pair_bits, fingerprint));
  return string;
}

uint64_t cuckoo_string_with_second_hash(const struct cuckoo_geometry *g, uint64_t hash,
                                        uint64_t bits)
{
  uint64_t more = hash_spread(hash_fold(hash, UINT64_C(0x2545F4914F6CDD1D), 0));
  unsigned used = g->root_shift + g->pair_bits;
  unsigned lacking = 64 - CUCKOO_HASH_BITS;
  unsigned before = lacking + g->root0_bits + used; /* bits of the string before `more` goes on */
  assert(before < 64);
  return bits >> lacking >> g->root0_bits << before | cuckoo_top_bits(more, before);
}
