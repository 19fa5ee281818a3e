/* SPDX-License-Identifier: MIT */
#include "cuckoo/geometry.h"

#include "tamis/tamis.h"

#include <math.h>
#include <string.h>

enum {
  GROWING_PAIR_BITS = 11, /* 4096 buckets: what one split copies */
  FIXED_PAIR_BITS = 15,   /* nothing to copy: larger ones, as their loads differ less */
  GROWING_BUCKETS_PER_STRIPE = 256,
  FIXED_BUCKETS_PER_STRIPE = 1024,
  GROWING_STRIPES = 16, /* a split takes all of them */
  MANY_ROOTS = 64, /* spread writers by themselves: no more stripes each than a cache line has */
  FIXED_STRIPES = 32,
  FIRST_DEPTH = 7, /* the directory has 2^depth slots for each root: 3 % of a segment */
  NEXT_DEPTH = 10,
  MIN_DEPTH = 4, /* generations that may split less are not worth their look-ups */
  MIN_VARYING_BITS = 6,
  NEXT_MIN_KEYS = 8192
};

/* What one generation may use of the rate that is left: most of it for the first, as most filters
 * never have a second one. */
static const double share = 0.85;

/* With a lower rate a growing filter would come to its end too soon: from this one on it grows a
 * million times at least.  (tests/test_cuckoo_geometry.c) */
static const double lowest_growing_rate = 3e-8;

/* The width that gives the most bits for its number of lanes, for each number of lanes. */
static const unsigned char widths[] = {8, 9, 10, 12, 16, 21, 32};
enum { WIDTHS = sizeof widths };

/* Measured: the part of the lanes that is in use when an insert first finds no room, in segments of
 * 4096 buckets; how much more it is for each halving of a segment; and its deviation.  For each number
 * of lanes in a bucket.  stress/fill.c prints them, docs/cuckoo.md has the table. */
static const struct fullness {
  double load, per_halving, deviation;
} fullness[] = {
    [2] = {0.879, 0.0017, 0.0040}, [3] = {0.947, 0.0012, 0.0030},  [4] = {0.9695, 0.0010, 0.0025},
    [5] = {0.981, 0.0008, 0.0020}, [6] = {0.9875, 0.0007, 0.0015}, [7] = {0.9915, 0.0005, 0.0015},
    [8] = {0.9935, 0.0004, 0.0015}};

double cuckoo_geometry_full_load(const struct cuckoo_geometry *g)
{
  const struct fullness *f = &fullness[g->shape.lanes];
  return f->load + f->per_halving * (11 - (double) g->pair_bits);
}

double cuckoo_geometry_full_deviation(const struct cuckoo_geometry *g)
{
  double small = (g->shape.lanes == 2 ? 0.72 : 0.45) / sqrt((double) cuckoo_lanes(g));
  return fmax(fullness[g->shape.lanes].deviation, small);
}

/* A key that is absent meets 2b lanes, each of which matches with probability 2^-bits if it is in use
 * and new.  Of the entries of a segment that has split D times half are new, a quarter know a bit
 * less, and so on: sum of 2^-(a+1) * 2^a for a < D, and 2^-D * 2^D for the oldest: 1 + D/2. */
static double rate_of(const struct bucket_shape *shape, unsigned depth)
{
  double lanes = 2.0 * shape->lanes * (shape->ages ? fullness[shape->lanes].load : 1);
  return lanes * ldexp(1, -(int) (shape->width - shape->ages)) * (1 + depth / 2.0);
}

/* The narrowest shape, and the deepest splitting, that keep within a rate. */
static bool choose_growing_shape(double rate, unsigned most, struct cuckoo_geometry *g)
{
  for (unsigned i = 0; i < WIDTHS; i++) {
    g->shape = bucket_shape(widths[i], true);
    if (widths[i] < MIN_DEPTH + 1 + MIN_VARYING_BITS)
      continue;
    unsigned depth = widths[i] - 1 - MIN_VARYING_BITS;
    depth = depth < most ? depth : most;
    while (depth > 0 && rate_of(&g->shape, depth) > rate)
      depth--;
    g->depth_limit = depth;
    g->rate = rate_of(&g->shape, depth);
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
    g->rate = rate_of(&g->shape, 0);
    if (g->rate <= rate)
      return true;
  }
  return false;
}

unsigned cuckoo_geometry_shapes(void)
{
  return WIDTHS;
}

double cuckoo_geometry_lowest_rate(unsigned shape_index, bool growable)
{
  struct bucket_shape shape = bucket_shape(widths[shape_index], growable);
  return growable ? fmax(rate_of(&shape, MIN_DEPTH) / share, lowest_growing_rate)
                  : rate_of(&shape, 0);
}

static unsigned bits_for(uint64_t values)
{
  return values > 1 ? 64 - (unsigned) __builtin_clzll(values - 1) : 0;
}

/* What follows from the shape, the roots, and the pairs. */
static void finish(struct cuckoo_geometry *g)
{
  uint64_t buckets = cuckoo_buckets(g);
  uint64_t most = g->shape.ages ? GROWING_STRIPES : FIXED_STRIPES, stripes = 4;
  uint64_t each = g->shape.ages ? GROWING_BUCKETS_PER_STRIPE : FIXED_BUCKETS_PER_STRIPE;
  bool many = g->shape.ages && g->first_roots >= MANY_ROOTS;
  while (stripes < most && stripes * each < buckets && !many)
    stripes *= 2;
  if (g->stripes_wanted)
    for (stripes = 1; stripes < most && stripes < g->stripes_wanted;)
      stripes *= 2;
  g->stripe_mask = (uint32_t) stripes - 1;
  g->words_offset = (CUCKOO_SEGMENT_HEADER + stripes * CUCKOO_STRIPE_BYTES + 63) & ~(size_t) 63;
  g->segment_bytes = (g->words_offset + buckets * sizeof(uint64_t) + 63) & ~(size_t) 63;
  unsigned bits = g->root0_bits + g->root_shift + g->pair_bits;
  g->needs_second_hash = bits + g->depth_limit + g->shape.width > 64;
}

struct cuckoo_geometry cuckoo_geometry_largest(const struct cuckoo_geometry *g)
{
  struct cuckoo_geometry largest = *g;
  largest.pair_bits = GROWING_PAIR_BITS;
  finish(&largest);
  return largest;
}

/* How many keys a segment is planned for.  Keys fall into segments at random, with a deviation of the
 * root of their number; it should be rare that one segment is full early. */
static double keys_per_segment(const struct cuckoo_geometry *g, bool alone)
{
  double lanes = (double) cuckoo_lanes(g);
  if (g->pair_bits == 0)
    return lanes / (alone ? 1 : 4); /* all keys share the two buckets */
  /* `keys` and five deviations of the load and of the number of keys together fit:
   * keys + 5 sqrt(spread^2 + keys) = full, solved for keys. */
  double full = cuckoo_geometry_full_load(g) * lanes;
  double spread = cuckoo_geometry_full_deviation(g) * lanes;
  double half = full + 12.5;
  double keys =
      alone ? full - 5 * spread : half - sqrt(half * half - full * full + 25 * spread * spread);
  return fmax(keys, lanes / 4); /* tiny ones, which only a growing filter has */
}

/* In small segments it happens that more keys fall on one pair of buckets than it holds, however empty
 * the rest is: 2b + 1 of n keys on one of 4^m pairs of buckets, with probability about
 * C(n, 2b + 1) / 4^(2bm).  A growing filter splits then; for others this is below 10^-6 from here on.
 * Of m = 0 there is only one pair, which holds what it holds. */
static bool good_size(const struct cuckoo_geometry *g)
{
  return g->shape.ages || g->pair_bits == 0 || g->pair_bits >= (g->shape.lanes == 2 ? 7u : 5u);
}

/* The number and the size of segments: the least memory, but larger ones if they cost only a little
 * more. */
static bool choose_segments(uint64_t capacity, struct cuckoo_geometry *g)
{
  struct cuckoo_geometry best = {0}, trial = *g;
  double least = INFINITY;
  unsigned largest = g->shape.ages ? GROWING_PAIR_BITS : FIXED_PAIR_BITS;
  for (unsigned m = largest + 1; m-- > 0;) {
    trial.pair_bits = m;
    if (!good_size(&trial))
      continue;
    double keys = (double) capacity;
    double roots =
        keys <= keys_per_segment(&trial, true) ? 1 : ceil(keys / keys_per_segment(&trial, false));
    if (m == 0 && roots > 1 && !g->shape.ages)
      continue;
    trial.first_roots = (uint64_t) fmin(roots, 0x1p62);
    trial.root0_bits = bits_for(trial.first_roots);
    finish(&trial);
    double directory = 8.0 * (double) (1u << trial.depth_limit);
    double bytes = roots * ((double) trial.segment_bytes + directory);
    if (bytes < 0.997 * least) {
      least = bytes;
      best = trial;
    }
  }
  *g = best;
  return least < 0x1p56;
}

int cuckoo_geometry_plan(const struct cuckoo_spec *spec, struct cuckoo_geometry *out)
{
  struct cuckoo_geometry g = {.stripes_wanted = spec->stripes};
  if (!(spec->growable ? spec->fpp >= lowest_growing_rate &&
                             choose_growing_shape(share * spec->fpp, FIRST_DEPTH, &g)
                       : choose_fixed_shape(spec->fpp, &g)))
    return TAMIS_EUNSUPPORTED;
  if (!choose_segments(spec->capacity, &g))
    return TAMIS_EINVAL;
  /* Distinct keys collide already in their 64-bit hashes. */
  if (spec->fpp < hash_collision_rate(spec->capacity))
    return TAMIS_EUNSUPPORTED;
  *out = g;
  return TAMIS_OK;
}

int cuckoo_geometry_next(const struct cuckoo_geometry *first, uint64_t keys, double left,
                         struct cuckoo_geometry *out)
{
  struct cuckoo_geometry g = {.first_roots = first->first_roots,
                              .root0_bits = first->root0_bits,
                              .stripes_wanted = first->stripes_wanted};
  if (left <= 0 || !choose_growing_shape(share * left, NEXT_DEPTH, &g))
    return TAMIS_EFULL;
  /* Room for so many keys at first that it holds 64 times what is there in the end, but never for more
   * than half of that: what is made at first stays, however many keys are removed. */
  keys >>= g.depth_limit > 7 ? g.depth_limit - 6 : 1;
  double wanted = (double) (keys > NEXT_MIN_KEYS ? keys : NEXT_MIN_KEYS);
  double buckets = wanted / g.shape.lanes / fullness[g.shape.lanes].load;
  unsigned bits = (unsigned) fmax(1, rint(log2(buckets / (double) g.first_roots)));
  g.pair_bits = bits - 1 < GROWING_PAIR_BITS ? bits - 1 : GROWING_PAIR_BITS;
  g.root_shift = bits - 1 - g.pair_bits;
  finish(&g);
  *out = g;
  return TAMIS_OK;
}

uint64_t cuckoo_string_with_second_hash(const struct cuckoo_geometry *g, uint64_t hash,
                                       uint64_t rest, unsigned used)
{
  uint64_t more = hash_spread(hash_fold(hash, UINT64_C(0x2545F4914F6CDD1D), 0));
  unsigned before = g->root0_bits + used; /* bits of the string before `more` goes on */
  return rest >> g->root0_bits << before | cuckoo_top_bits(more, before);
}
