/* SPDX-License-Identifier: MIT */
#include "cuckoo/geometry.h"

#include "base/compiler.h"
#include "base/reals.h"
#include "table/load.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
  GROWING_PAIR_BITS = SMALL(11, 3), /* 4096 buckets: few, as each split copies all of them */
  FIXED_PAIR_BITS = SMALL(15, 7),   /* 65536 buckets: many, as no split copies them */
  LARGEST_PAIR_BITS = 20,           /* the limit if smaller segments do not suffice */
  GROWING_BUCKETS_PER_STRIPE = SMALL(256, 2),
  FIXED_BUCKETS_PER_STRIPE = SMALL(1024, 4),
  FEW_BUCKETS = SMALL(64, 4), /* growable segments with so few buckets have 2 stripes */
  MANY_ROOTS = SMALL(64, 16), /* with so many roots, a segment has few writers: 4 stripes suffice */
  FIRST_DEPTH = SMALL(14, 4), /* depth limit of generation 0: its arrays can be copied in 0.1 ms */
  NEXT_DEPTH = SMALL(9, 5),
  SURE_DEPTH = SMALL(7, 4), /* limit_depth() lowers no depth limit below this one */
  MIN_DEPTH = 4,            /* with a lower depth limit, a generation costs more than it helps */
  MIN_VARYING_BITS = 4,     /* splits leave each entry at least this many bits */
  NEXT_MIN_KEYS = SMALL(8192, 64) /* a later generation has room for at least so many keys */
};
/* The fraction of the remaining rate that one generation may use.  The first generation gets most
 * of the rate, because most filters never have a second one. */
static const double generation_share = 0.9;

/* The lowest rate of a growable filter.  Filters with this rate grow to at least 100,000 times
 * their capacity, and filters with a rate of 4.5e-8 or more to a million times. */
static const double lowest_growing_rate = 3e-8;

/* Below this rate, an uneven split in generation 0 leaves too little rate for later generations. */
static const double lowest_uneven_rate = 4e-8;

/* The greatest lane width for each number of lanes in a bucket, from 8 down to 2. */
static const unsigned char widths[] = {8, 9, 10, 12, 16, 21, 32};
enum { WIDTHS = sizeof widths };

static unsigned width_number(unsigned width)
{
  unsigned i = 0;
  while (i < WIDTHS && widths[i] != width)
    i++;
  return i;
}

/* The load factor of full segments: higher in fixed filters, whose searches visit more buckets. */
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
 * One split of a segment is uneven: one child gets the square root of 2 times as many keys as the
 * other, and so splits earlier.  All segments together have room for at most 1.76 times their keys
 * (docs/internals/growth.md).  If all splits were even, all segments would fill up and split at
 * about the same time, and then the filter would take twice the memory that its keys need.
 *
 * If the rate allows it, the first split is uneven, and the lanes keep their width.  Otherwise the
 * uneven split is the last split that the rate allows with lanes of the present width.  Its
 * children have the next wider lanes, which cost memory but hardly any rate. */

/* Returns the lane width of the children of an uneven split that widens lanes, or 0 if none may:
 * with two lanes in a bucket, instead of three, a child would have no room for the larger class. */
static unsigned next_width(unsigned width)
{
  unsigned next = width_number(width) + 1;
  return next < WIDTHS && 64 / widths[next] > 2 ? widths[next] : 0;
}

struct cuckoo_geometry cuckoo_geometry_after(const struct cuckoo_geometry *g)
{
  struct cuckoo_geometry after = *g;
  const bool splits = g->uneven_at > 0 && g->uneven_at < g->depth_limit;
  const unsigned width = splits ? next_width(g->shape.width) : 0;
  if (width)
    after.shape = bucket_shape(width, g->shape.ages);
  return after;
}

/* The mean number of lanes in use in a bucket pair of a full segment. */
static double lanes_in_pair(const struct cuckoo_geometry *g)
{
  return 2.0 * g->shape.lanes * (g->shape.ages ? load_of(g).mean : 1);
}

/* The look-up of an absent key compares the key with all lanes of its two buckets.  A new entry of
 * `bits` bits matches the key with probability 2^-bits.
 * Source: Fan et al., "Cuckoo filter: practically better than Bloom", CoNEXT 2014
 *
 * An entry of age i knows i bits fewer than a new one, so it matches 2^i times as many keys.  A
 * split by a fingerprint bit leaves half of the entries in each child, where an entry matches twice
 * as often.  So the entries that were added while their segment had depth j add the same to the
 * rate at any later depth.  If n(j) lanes of a pair are in use at depth j, and a new entry has b(j)
 * bits,
 *
 *    rate = n(0) 2^-b(0) + sum over j = 1 ... depth of (n(j) - n(j-1) / 2) 2^-b(j)
 *
 * After the uneven split, the bits of an entry determine its class.  So a key of a class with share
 * s matches a new entry of this class 1 / s times as often.  The mean over all keys is the sum of s
 * × 1 / s over both classes, or 2: the rate of new entries is doubled. */
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

/* Returns the largest depth limit with which the generation keeps `rate`, if segments of depth
 * `uneven_at` split unevenly.  Splits leave each entry at least MIN_VARYING_BITS bits. */
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

/* Chooses the depth of the uneven split that allows the greatest depth limit.  If several depths
 * allow this limit, takes depth 0 if it is among them, else the greatest: lanes become wider at the
 * uneven split, so a late one keeps them narrow for longer.  A later generation splits unevenly at
 * depth 0, even if this lowers its depth limit. */
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

/* Chooses the narrowest lanes with which `rate` allows enough splits, and a depth limit. */
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
      begins = nextafter(begins, 1); /* because the quotient was rounded down */
    if (begins > rate)
      next = fmin(next, begins);
  }
  return next;
}

static uint8_t bits_for(uint64_t values)
{
  return values > 1 ? (uint8_t) (64 - __builtin_clzll(values - 1)) : 0;
}

static void derive_from_stripes(struct cuckoo_geometry *g)
{
  uint32_t stripes = g->stripe_mask + 1;
  uint32_t offset = CUCKOO_SEGMENT_HEADER + stripes * CUCKOO_STRIPE_BYTES;
  /* Segments of a fixed filter are saved as they are, and the file format rounds this offset up. */
  g->words_offset = (uint16_t) (g->shape.ages ? offset : (offset + 63) & ~UINT32_C(63));
  unsigned bits = (unsigned) g->root0_bits + g->root_shift + g->pair_bits;
  const struct cuckoo_geometry after = cuckoo_geometry_after(g);
  /* If shape.ages is 1, one bit of a lane is the marker. */
  unsigned known = (unsigned) g->depth_limit + after.shape.width - g->shape.ages;
  g->needs_second_hash = bits + known > CUCKOO_HASH_BITS;
}

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

/* ---- the number of segments ----
 *
 * A segment gets a random number X of the keys, with mean m, and has no more room when F lanes are
 * in use.  Measurements show that F is normally distributed.  If X > F, a growable filter splits
 * the segment early, so its plan only makes X > F rare.  A fixed filter refuses a key, so its plan
 * gives X > F at most the probability `load_early`. */

/* A growable filter has one segment only if its keys are so many standard deviations below the mean
 * of F, the number of lanes in use when the segment is full.  So one filter of a million splits
 * early.  (And at most 4 of 10^5 do because a bucket pair gets more keys than it has lanes.) */
static const double only_growing_segment_deviations = 4.75;

/* Returns the mean number of keys in a segment that is 5 standard deviations of F - X below the
 * mean of F, `full`.  (A segment gets X keys, and has room for F: see above.) */
double cuckoo_geometry_full_keys(const struct cuckoo_geometry *g)
{
  double lanes = (double) cuckoo_lanes(g), full = cuckoo_geometry_full_load(g) * lanes;
  double deviation = cuckoo_geometry_full_deviation(g) * lanes, half = full + 12.5;
  double mean = half - sqrt(half * half - full * full + 25 * deviation * deviation);
  return fmax(mean, lanes / 4); /* the minimum is for tiny segments */
}

static double growing_roots(const struct cuckoo_geometry *g, double keys)
{
  double lanes = (double) cuckoo_lanes(g);
  if (g->pair_bits == 0) /* all keys have the same two buckets */
    return keys <= lanes ? 1 : ceil(keys / (lanes / 4));
  double full = cuckoo_geometry_full_load(g) * lanes;
  double deviation = cuckoo_geometry_full_deviation(g) * lanes;
  /* A single segment gets all keys, so its number of keys is not random. */
  if (keys <= fmax(full - only_growing_segment_deviations * deviation, lanes / 4))
    return 1;
  return ceil(keys / cuckoo_geometry_full_keys(g));
}

/* Returns the largest m with which this is rare: any of s = n / m segments gets more of the n keys
 * (X) than it has room for (F).  Rare means at most the probability `load_early`.  F has mean
 * `full` and standard deviation d.  For any t > 0,
 *
 *    P(X > F) <= E e^(t (X - F)) / max(1, t d sqrt(2 pi))
 *    E e^(t X) = (1 + (e^t - 1) / s)^n     E e^(-t F) = e^(-t full + t^2 d^2 / 2)     (E: mean)
 *
 * The divisor is valid as the density of X - F is at most the greatest of F, 1 / (d sqrt(2 pi)).
 * For each t, the loop computes the s for which this t is best (the bound's derivative is 0).
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

/* The number of roots of a fixed filter; INFINITY if segments of this size cannot hold `keys`. */
static double fixed_roots(const struct cuckoo_geometry *g, double keys)
{
  double lanes = (double) cuckoo_lanes(g);
  if (g->pair_bits == 0) /* all keys have the same two buckets, and can fill all lanes */
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

/* Plans segments of 2^(m+1) buckets, and returns the bytes of all of them. */
static double plan_segments(double keys, unsigned m, struct cuckoo_geometry *g)
{
  g->pair_bits = (uint8_t) m;
  double roots = g->shape.ages ? growing_roots(g, keys) : fixed_roots(g, keys);
  g->first_roots = (uint64_t) fmin(roots, 0x1p62);
  g->root0_bits = bits_for(g->first_roots);
  derive_sizes(g);
  unsigned depth = g->shape.width - 1U - MIN_VARYING_BITS;
  /* The bytes of a root's directory entries, once its segments have split. */
  double directory = 8.0 * (double) (1u << (depth < SURE_DEPTH ? depth : SURE_DEPTH));
  if (!g->shape.ages)
    directory = 8;
  return roots * ((double) cuckoo_segment_bytes(g) + directory);
}

/* Chooses the number and size of segments.  A size is chosen only if it takes 0.3 % fewer bytes
 * than the best larger size.  Sizes above the usual one (`largest`) are tried only if, in all
 * smaller sizes, too many bucket pairs would get more keys than lanes. */
static bool choose_segments(uint64_t capacity, struct cuckoo_geometry *g)
{
  struct cuckoo_geometry best = {0}, candidate = *g;
  double fewest_bytes = 0x1p56; /* 2^56: no address space is larger */
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

/* Lowers the depth limit if keys need a second hash, because look-ups with one hash are faster, and
 * if segments have few buckets: headers and directory take most of their bytes, and later
 * generations have larger segments.  If the new limit excludes the uneven split, the first split
 * becomes uneven or, if the rate forbids this, the last one. */
static void limit_depth(double rate, struct cuckoo_geometry *g)
{
  bool few = cuckoo_buckets(g) <= FEW_BUCKETS;
  while ((few || g->needs_second_hash) && g->depth_limit > SURE_DEPTH) {
    g->depth_limit--;
    derive_from_stripes(g);
  }
  const uint8_t depth = g->depth_limit;
  if (g->uneven_at != NEVER_UNEVEN && g->uneven_at >= depth &&
      depth_with(g, 0, rate, depth) < depth)
    g->uneven_at = depth - 1;
  g->depth_limit = depth;
  derive_from_stripes(g);
  g->rate = cuckoo_geometry_rate(g, g->depth_limit);
}

int cuckoo_geometry_plan(const tamis_options *options, struct cuckoo_geometry *out)
{
  struct cuckoo_geometry g = {.stripes_wanted = (uint16_t) options->stripes};
  if (!(options->growable ? options->fpp >= lowest_growing_rate &&
                                choose_growing_shape(generation_share * options->fpp, true, &g)
                          : choose_fixed_shape(options->fpp, &g)))
    return TAMIS_EUNSUPPORTED;
  if (!choose_segments(options->capacity, &g))
    return TAMIS_EINVAL;
  if (options->growable)
    limit_depth(generation_share * options->fpp, &g);
  if (options->fpp < hash_collision_rate(options->capacity))
    return TAMIS_EUNSUPPORTED;
  *out = g;
  return TAMIS_OK;
}

bool cuckoo_geometry_may_follow(const struct cuckoo_geometry *before,
                                const struct cuckoo_geometry *g)
{
  return cuckoo_least_bits(g) >= cuckoo_least_bits(before);
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
  /* A generation begins with room for half as many keys as the filter has (if its depth limit D is
   * above 8, for 2^(7 - D) times as many).  When all its segments have split D times, it has room
   * for at most 128 times as many keys as the filter had. */
  keys >>= g.depth_limit > 8 ? g.depth_limit - 7 : 1;
  double wanted = (double) (keys > NEXT_MIN_KEYS ? keys : NEXT_MIN_KEYS);
  double buckets = wanted / g.shape.lanes / load_of(&g).mean;
  double of_root = buckets / (double) g.first_roots;
  unsigned bits = (unsigned) fmax(1, rint(real_log2(of_root))) - 1;
  /* Raises `bits` if cuckoo_geometry_may_follow() would be false, as after many removes. */
  unsigned known = cuckoo_least_bits(&g), least = cuckoo_least_bits(before);
  bits = known + bits < least ? least - known : bits;
  g.pair_bits = (uint8_t) (bits < GROWING_PAIR_BITS ? bits : GROWING_PAIR_BITS);
  g.root_shift = (uint8_t) (bits - g.pair_bits);
  if (g.root0_bits + bits >= CUCKOO_HASH_BITS)
    return TAMIS_EFULL; /* one hash cannot address so many buckets */
  derive_sizes(&g);
  *out = g;
  return TAMIS_OK;
}

/* Whether the geometry is within the limits that each plan keeps.  Otherwise a geometry from a file
 * could make the library shift by an amount that C does not define. */
static bool is_possible(const struct cuckoo_geometry *g)
{
  unsigned width = g->shape.width, stripes = g->stripe_mask + 1;
  unsigned max_stripes = g->shape.ages ? CUCKOO_GROWING_STRIPES : CUCKOO_FIXED_STRIPES;
  unsigned max_pair_bits = g->shape.ages ? GROWING_PAIR_BITS : LARGEST_PAIR_BITS;
  unsigned max_depth = !g->shape.ages ? 0 : g->later ? NEXT_DEPTH : FIRST_DEPTH;
  if (width_number(width) == WIDTHS || g->pair_bits > max_pair_bits || g->depth_limit > max_depth ||
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

/* Returns the lowest `n` bits of `value`, followed by `others`, from bit 63 down. */
static uint64_t put_before(uint64_t value, unsigned n, uint64_t others)
{
  return value << 1 << (63 - n) | others >> n;
}

struct cuckoo_address cuckoo_address_in(const struct cuckoo_geometry *g,
                                        const struct cuckoo_geometry *own, uint64_t root,
                                        uint64_t lower, uint64_t fingerprint)
{
  uint64_t of_root = root & ((UINT64_C(1) << own->root_shift) - 1);
  uint64_t bits =
      put_before(of_root, own->root_shift, put_before(lower, own->pair_bits, fingerprint));
  struct cuckoo_geometry one_hash = *g;
  one_hash.needs_second_hash = false; /* the second hash is unknown: only `bits` is used */
  return cuckoo_address_of(&one_hash, (struct cuckoo_hash_string){root >> own->root_shift, bits},
                           0);
}

uint64_t cuckoo_string_with_second_hash(const struct cuckoo_geometry *g, uint64_t hash,
                                        uint64_t bits)
{
  uint64_t more = hash_spread(hash_fold(hash, UINT64_C(0x2545F4914F6CDD1D), 0));
  unsigned used = g->root_shift + g->pair_bits;
  unsigned lacking = 64 - CUCKOO_HASH_BITS;
  unsigned before = lacking + g->root0_bits + used;
  assert(before < 64);
  return bits >> lacking >> g->root0_bits << before | cuckoo_top_bits(more, before);
}
