/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "cuckoo/geometry.h"
#include "harness.h"

#include <math.h>

static const double rates[] = {0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9};
enum { RATES = sizeof rates / sizeof *rates };

static const uint64_t largest = UINT64_C(1) << 40;

/* 1, 2, 3, and odd numbers up to 2^40. */
static uint64_t next_capacity(uint64_t n)
{
  return n < 12 ? n + 1 : n < largest ? (n * 7 / 3 < largest ? n * 7 / 3 | 1 : largest) : 0;
}

/* What 64-bit hashes can give, and the widest lanes, which keep a growing filter's marker. */
static bool possible(uint64_t capacity, double fpp, bool growable)
{
  return fpp >= 4 * (double) capacity * 0x1p-64 && fpp >= (growable ? 3e-8 : 1e-9);
}

static int try_plan(uint64_t capacity, double fpp, bool growable, struct cuckoo_geometry *g)
{
  struct cuckoo_spec spec = {.capacity = capacity, .fpp = fpp, .growable = growable};
  return cuckoo_geometry_plan(&spec, g);
}

static struct cuckoo_geometry plan(uint64_t capacity, double fpp, bool growable)
{
  struct cuckoo_geometry g = {0};
  assert_int_equal(try_plan(capacity, fpp, growable, &g), TAMIS_OK);
  return g;
}

/* How many keys it holds when every segment has split as often as it may. */
static double keys_at_most(const struct cuckoo_geometry *g)
{
  double lanes = (double) cuckoo_directory_size(g) * (double) cuckoo_lanes(g);
  bool one_pair = g->pair_bits == 0 && !g->shape.ages;
  return one_pair ? lanes : lanes * cuckoo_geometry_full_load(g);
}

/* Bits of the string, after root0, that an entry is made of at any depth. */
static unsigned bits_in_use(const struct cuckoo_geometry *g)
{
  return cuckoo_root_bits(g) + g->pair_bits + g->depth_limit + g->shape.width - g->shape.ages;
}

/* ---- sizes and rates ---- */

static void assert_sound(const struct cuckoo_geometry *g, bool ages)
{
  assert_int_equal(g->shape.ages, ages);
  assert_true(g->first_roots >= 1);
  assert_true(g->root0_bits == 64 || g->first_roots <= UINT64_C(1) << g->root0_bits);
  assert_true(ages || g->depth_limit == 0);
  assert_in_range(g->depth_limit, 0, 10);
  /* bits that still vary when a segment has split to the end */
  assert_true(!ages || g->shape.width - 1 - g->depth_limit >= 6);
  assert_int_equal((g->stripe_mask + 1) & g->stripe_mask, 0);
  assert_true(g->words_offset % 8 == 0 && cuckoo_segment_bytes(g) % 64 == 0);
  assert_true(cuckoo_segment_bytes(g) >= g->words_offset + 8 * cuckoo_buckets(g));
  /* a bucket and an entry go into 32 bits each */
  assert_true(g->pair_bits <= 31 && g->shape.width <= 32);
}

/* Of the entries of a segment that has split D times half are new, a quarter know a bit less,
 * and so on; the oldest know D bits less. */
static void assert_rate_of_all_ages(const struct cuckoo_geometry *g)
{
  double sum = 0, part = 1;
  for (unsigned age = 0; age <= g->depth_limit; age++) {
    part = age < g->depth_limit ? part / 2 : part;
    sum += part * ldexp(1, (int) age + (int) g->shape.ages - (int) g->shape.width);
  }
  double lanes = 2.0 * g->shape.lanes * (g->shape.ages ? cuckoo_geometry_full_load(g) : 1);
  assert_true(fabs(g->rate / (lanes * sum) - 1) < 0.03); /* the load of another size */
}

static void every_plan_keeps_within_its_rate(void **state)
{
  (void) state;
  for (unsigned r = 0; r < RATES; r++)
    for (int growable = 0; growable < 2; growable++)
      for (uint64_t n = 1; n; n = next_capacity(n)) {
        struct cuckoo_geometry g;
        int result = try_plan(n, rates[r], growable, &g);
        assert_int_equal(result, possible(n, rates[r], growable) ? TAMIS_OK : TAMIS_EUNSUPPORTED);
        if (result != TAMIS_OK)
          continue;
        assert_sound(&g, growable);
        assert_true(g.rate > 0 && g.rate <= rates[r]);
        assert_true(keys_at_most(&g) >= (double) n);
        if (n > 1000)
          assert_rate_of_all_ages(&g);
      }
}

/* A filter can grow a million times, in a few generations, each of which leaves something of the
 * rate to the next.  One begins with room for a part of the keys that there are, and can grow to
 * many times as many. */
static void check_growth(uint64_t n, double rate)
{
  struct cuckoo_geometry first = plan(n, rate, true), g = {.pair_bits = 99};
  double sum = first.rate, keys = keys_at_most(&first);
  unsigned generations = 1;
  for (; keys < 1e6 * (double) n; generations++) {
    if (cuckoo_geometry_next(&first, (uint64_t) keys, rate - sum, &g) != TAMIS_OK)
      fail_msg("rate %g, capacity %lu: the end at %g keys", rate, n, keys);
    assert_sound(&g, true);
    assert_int_equal(g.first_roots, first.first_roots);
    assert_int_equal(g.root0_bits, first.root0_bits);
    assert_int_equal(g.stripe_mask, first.stripes_wanted ? first.stripe_mask : g.stripe_mask);
    if (keys > 1e6 && keys < 0x1p36 && n <= 1000) {
      assert_true((double) cuckoo_roots(&g) * (double) cuckoo_lanes(&g) <= 0.75 * keys);
      assert_true(keys_at_most(&g) >= 5 * keys);
    }
    sum += g.rate;
    keys += keys_at_most(&g);
  }
  assert_true(sum <= rate);
  assert_in_range(generations, 1, 8);
  const double left[] = {0, -1e-3, 1e-15};
  struct cuckoo_geometry before = g;
  for (unsigned i = 0; i < 3; i++)
    assert_int_equal(cuckoo_geometry_next(&first, 1000000, left[i], &g), TAMIS_EFULL);
  assert_memory_equal(&g, &before, sizeof g);
}

/* However near a shape comes to the rate asked for. */
static void growing_keeps_within_the_rate(void **state)
{
  (void) state;
  for (double rate = 3e-8; rate < 0.3; rate *= rate < 1e-5 ? 1.002 : 1.7)
    for (uint64_t n = 1; n; n = n < 100000 ? n * 10 : rate > 1e-5 ? next_capacity(n) : 0)
      if (possible(n, rate, true))
        check_growth(n, rate);
}

/* What the user wants, rounded up, within limits, and in all generations. */
static void stripes_are_as_many_as_wanted(void **state)
{
  (void) state;
  for (unsigned stripes = 1; stripes <= 64; stripes++)
    for (int growable = 0; growable < 2; growable++) {
      struct cuckoo_spec spec = {
          .capacity = 1000000, .fpp = 0.001, .growable = growable, .stripes = stripes};
      struct cuckoo_geometry g;
      assert_int_equal(cuckoo_geometry_plan(&spec, &g), TAMIS_OK);
      unsigned most = growable ? 16 : 32, wanted = stripes < most ? stripes : most;
      assert_true(g.stripe_mask + 1 >= wanted && (g.stripe_mask + 1) / 2 < wanted);
      if (growable) {
        struct cuckoo_geometry later;
        assert_int_equal(cuckoo_geometry_next(&g, 10000000, 0.001 - g.rate, &later), TAMIS_OK);
        assert_int_equal(later.stripe_mask, g.stripe_mask);
      }
    }
}

static void what_cannot_be_is_refused(void **state)
{
  (void) state;
  struct cuckoo_geometry g;
  for (int growable = 0; growable < 2; growable++) {
    assert_int_equal(try_plan(1000, 1e-12, growable, &g), TAMIS_EUNSUPPORTED);
    assert_int_equal(try_plan(1000, 1e-300, growable, &g), TAMIS_EUNSUPPORTED);
    assert_int_equal(try_plan(largest, 1e-7, growable, &g), TAMIS_EUNSUPPORTED);
    assert_int_equal(try_plan(largest, 3e-7, growable, &g), TAMIS_OK);
    /* no address space */
    assert_int_equal(try_plan(UINT64_MAX, 0.3, growable, &g), TAMIS_EINVAL);
    assert_int_equal(try_plan(UINT64_C(1) << 57, 0.3, growable, &g), TAMIS_EINVAL);
  }
}

/* 2b + 1 of n keys on one of 4^m pairs of buckets, in a segment that cannot split: hardly ever. */
static void keys_do_not_crowd_on_one_pair(void **state)
{
  (void) state;
  for (unsigned r = 0; r < RATES; r++)
    for (uint64_t n = 1; n < 1000000; n = n < 300 ? n + 1 : next_capacity(n)) {
      struct cuckoo_geometry g = plan(n, rates[r], false);
      if (g.pair_bits == 0)
        continue; /* one pair, which is planned to hold them all */
      double full = cuckoo_geometry_full_load(&g) * (double) cuckoo_lanes(&g);
      double keys = fmin((double) n / (double) cuckoo_roots(&g), full);
      double many = 2.0 * g.shape.lanes + 1;
      double choices = lgamma(keys + 1) - lgamma(many + 1) - lgamma(fmax(keys - many, 0) + 1);
      double log_chance = choices - (many - 1) * g.pair_bits * log(4);
      assert_true(keys < many || log_chance < log(1e-9));
    }
}

/* ---- that a filter which does not grow is full before its capacity ---- */

/* The probability that a segment gets more than it has room for, of `keys` keys that fall into
 * `segments` segments; the room is normally distributed.  Summed up, in at most 500 strides. */
static double chance_of_full_segment(double full, double deviation, double keys, double segments)
{
  if (segments == 1)
    return erfc((full - keys) / deviation / sqrt(2)) / 2;
  double mean = keys / segments, first = floor(fmax(0, mean - 9 * sqrt(mean)));
  double last = fmin(fmax(full + 9 * deviation, mean + 9 * sqrt(mean)), keys);
  double stride = ceil((last - first) / 500), chance = 0;
  for (double x = first; x <= last; x += stride) {
    double log_weight = x * log(mean) - mean - lgamma(x + 1); /* Poisson: no less in the tail */
    if (segments < 1000)
      log_weight = lgamma(keys + 1) - lgamma(x + 1) - lgamma(keys - x + 1) - x * log(segments) +
                   (keys - x) * log1p(-1 / segments);
    chance += stride * exp(log_weight) * erfc((full - x) / deviation / sqrt(2)) / 2;
  }
  return chance;
}

/* The expected number of pairs of buckets, and of three buckets with two pairs, that get more keys
 * than lanes. */
static double crowded_sets(const struct cuckoo_geometry *g, double keys, double segments)
{
  double buckets = (double) cuckoo_buckets(g) / 2, pairs = buckets * buckets;
  double two = 2.0 * g->shape.lanes + 1, three = 3.0 * g->shape.lanes + 1;
  double mean = keys / segments;
  double log_two = log(pairs) + two * log(mean / pairs) - lgamma(two + 1);
  double log_three = log(pairs * (buckets - 1)) + three * log(2 * mean / pairs) - lgamma(three + 1);
  return segments * (exp(log_two) + exp(log_three));
}

static void capacity_is_kept_but_once_in_a_billion_filters(void **state)
{
  (void) state;
  const unsigned stripes[] = {0, 1, 32};
  for (unsigned i = 0; i < sizeof stripes / sizeof *stripes; i++)
    for (unsigned r = 0; r < RATES; r++)
      for (uint64_t n = 1; n < UINT64_C(1) << 48; n += n + 1) {
        struct cuckoo_spec spec = {.capacity = n, .fpp = rates[r], .stripes = stripes[i]};
        struct cuckoo_geometry g;
        if (cuckoo_geometry_plan(&spec, &g) != TAMIS_OK)
          continue;
        double keys = (double) n, roots = (double) cuckoo_roots(&g);
        double lanes = (double) cuckoo_lanes(&g);
        if (g.pair_bits == 0) {
          assert_true(roots == 1 && keys <= lanes);
          continue;
        }
        double full = cuckoo_geometry_full_load(&g) * lanes;
        double deviation = cuckoo_geometry_full_deviation(&g) * lanes;
        double segments = roots * chance_of_full_segment(full, deviation, keys, roots);
        double pairs = crowded_sets(&g, keys, roots);
        if (!(segments + pairs <= 1e-9))
          fail_msg("%lu keys at %g: %g and %g", n, rates[r], segments, pairs);
        /* and where that costs memory, not much more is spent on it than must be */
        if (roots > 1 && n > 100000)
          assert_true((roots - 1) * chance_of_full_segment(full, deviation, keys, roots - 1) >
                      1e-10);
      }
}

/* ---- addresses ---- */

/* Geometries of all kinds: small, large, growing, not growing, first, later. */
enum { MOST_KINDS = 400 };
static struct cuckoo_geometry kinds[MOST_KINDS];
static unsigned kind_count;

static int make_kinds(void **state)
{
  (void) state;
  const uint64_t capacities[] = {1,      5,       17,       100,       1000,           33333,
                                 250000, 1000001, 50000000, 999999999, 30000000000ull, 1ull << 40};
  for (unsigned r = 1; r < RATES; r += 2) /* .1 .01 1e-4 1e-6 1e-8 */
    for (unsigned c = 0; c < sizeof capacities / sizeof *capacities; c++)
      for (int growable = 0; growable < 2; growable++) {
        struct cuckoo_geometry first, g;
        if (try_plan(capacities[c], rates[r], growable, &first) != TAMIS_OK)
          continue;
        assert_true(kind_count + 3 <= MOST_KINDS);
        kinds[kind_count++] = first;
        double factor = 30;
        while (growable && factor < 10000 &&
               cuckoo_geometry_next(&first, (uint64_t) (factor * (double) capacities[c]),
                                    rates[r] - first.rate, &g) == TAMIS_OK) {
          kinds[kind_count++] = g;
          factor *= 50;
        }
      }
  return 0;
}

/* The hash that hash_spread() makes x of. */
static uint64_t unspread(uint64_t x)
{
  uint64_t inverse = HASH_MULTIPLIER;
  for (unsigned i = 0; i < 6; i++) /* Newton: doubles the correct low bits each time */
    inverse *= 2 - HASH_MULTIPLIER * inverse;
  x *= inverse;
  return x ^ x >> 32;
}

/* It is inside the directory, whose index has the first bits of the fingerprint that entries are cut
 * from. */
static void check_address(const struct cuckoo_geometry *g, const struct cuckoo_address *a)
{
  assert_true(a->index < cuckoo_directory_size(g));
  assert_true(a->lower < cuckoo_buckets(g) / 2);
  assert_true(a->upper >= cuckoo_buckets(g) / 2 && a->upper < cuckoo_buckets(g));
  assert_int_equal(a->index & ((UINT64_C(1) << g->depth_limit) - 1),
                   cuckoo_top_bits(a->fingerprint, g->depth_limit));
}

/* An entry that was added at any depth says at any later depth where its other bucket is. */
static void check_entries(const struct cuckoo_geometry *g, const struct cuckoo_address *a)
{
  for (unsigned depth = 0; depth <= g->depth_limit; depth++) {
    uint64_t prefix = depth ? a->fingerprint >> (64 - depth) << (64 - depth) : 0;
    for (unsigned then = 0; then <= depth; then++) {
      unsigned age = depth - then;
      uint64_t entry =
          bucket_entry(&g->shape, a->fingerprint << then) << age & lane_bits(g->shape.width);
      assert_int_equal(bucket_age(&g->shape, entry), age);
      uint64_t fingerprint = cuckoo_fingerprint(g, entry, prefix, depth);
      uint32_t other = cuckoo_other_mask(g, fingerprint);
      assert_int_equal(a->lower ^ other, a->upper);
      assert_int_equal(a->upper ^ other, a->lower);
      /* a cell has 7 bits, 5 of which are in the fingerprint */
      unsigned of_cell = g->unequal_roots ? 7 - 5 : 0;
      assert_int_equal(cuckoo_known_bits(g, entry, depth),
                       of_cell + g->root_shift + g->pair_bits + then + g->shape.width);
    }
  }
}

/* And at every depth the entries of new keys take all values that a lane can hold but 0. */
static void from_either_bucket_an_entry_finds_the_other(void **state)
{
  (void) state;
  unsigned two[2] = {0};
  for (unsigned i = 0; i < kind_count; i++) {
    const struct cuckoo_geometry *g = &kinds[i];
    const uint64_t all = lane_bits(g->shape.width);
    uint64_t ones[11] = {0}, zeros[11] = {0};
    for (uint64_t j = 0; j < 502; j++) {
      struct cuckoo_address a = cuckoo_address(g, j < 2 ? j - 1 : random_at(i, j));
      check_address(g, &a);
      check_entries(g, &a);
      for (unsigned depth = 0; depth <= g->depth_limit; depth++) {
        uint64_t entry = bucket_entry(&g->shape, a.fingerprint << depth);
        assert_true(entry != 0 && entry <= all);
        ones[depth] |= entry, zeros[depth] |= ~entry;
      }
    }
    for (unsigned depth = 0; depth <= g->depth_limit; depth++)
      assert_true((ones[depth] & all) == all && (zeros[depth] & all) == all - g->shape.ages);
    assert_true(cuckoo_address(g, unspread(UINT64_MAX)).index == cuckoo_directory_size(g) - 1);
    assert_true(cuckoo_address(g, unspread(0)).index < UINT64_C(1) << g->depth_limit);
    two[g->shape.ages] += g->needs_second_hash;
  }
  /* so that these tests are about geometries with one hash and with two */
  assert_true(two[0] >= 3 && two[1] >= 3 && two[0] + two[1] < kind_count);
}

/* The first cell of each of the unequal roots, and the end of the last one. */
static const unsigned first_cells[] = {0, 29, 58, 84, 107, 128};

typedef unsigned __int128 string;

/* The string `rest` with the `n` bits of x before it. */
static string prepend(uint64_t x, unsigned n, string rest)
{
  return n ? rest >> n | (string) x << (128 - n) : rest;
}

/* A key's string after root0, from bit 127 on. */
static string string_of(const struct cuckoo_geometry *g, uint64_t hash, uint64_t *root0)
{
  struct cuckoo_address address = cuckoo_address(g, hash);
  uint64_t root = cuckoo_root_of_index(g, address.index), fingerprint = address.fingerprint;
  uint64_t low_root = root & ((UINT64_C(1) << g->root_shift) - 1), cell = 0;
  *root0 = root >> g->root_shift;
  if (g->unequal_roots) { /* the cell's number is five bits after the first D ones */
    uint64_t after = fingerprint << g->depth_limit;
    unsigned of_five = (unsigned) (*root0 % 5);
    cell = first_cells[of_five] + (after >> 59);
    assert_true(cell < first_cells[of_five + 1]);
    *root0 /= 5;
    fingerprint = (fingerprint & ~(UINT64_MAX >> g->depth_limit)) | after << 5 >> g->depth_limit;
  }
  string all = prepend(address.lower, g->pair_bits, (string) fingerprint << 64);
  return prepend(cell, g->unequal_roots ? 7 : 0, prepend(low_root, g->root_shift, all));
}

/* Otherwise a remove could take the entry of another key. */
static void the_strings_of_all_generations_agree_bit_for_bit(void **state)
{
  (void) state;
  unsigned pairs = 0;
  for (unsigned r = 0; rates[r] > 5e-8; r++)
    for (uint64_t n = 1; n; n = next_capacity(n)) {
      struct cuckoo_geometry first, later;
      if (try_plan(n, rates[r], true, &first) != TAMIS_OK)
        continue;
      for (double keys = 10 * (double) n; keys < fmin(1e6 * (double) n, 0x1p44); keys *= 9) {
        if (cuckoo_geometry_next(&first, (uint64_t) keys, rates[r] - first.rate, &later) !=
            TAMIS_OK)
          break;
        pairs++;
        unsigned bits =
            bits_in_use(&first) < bits_in_use(&later) ? bits_in_use(&first) : bits_in_use(&later);
        assert_in_range(bits, 8, 127);
        for (uint64_t j = 0; j < 50; j++) {
          uint64_t root_first, root_later, hash = random_at(pairs, j);
          string difference =
              string_of(&first, hash, &root_first) ^ string_of(&later, hash, &root_later);
          assert_int_equal(root_first, root_later);
          assert_true(difference >> (128 - bits) == 0);
        }
      }
    }
  assert_true(pairs > 500);
}

/* ---- spread ---- */

enum { CLASSES = 512, SAMPLES = 100 * CLASSES };

/* 511 degrees of freedom: 511 on average, with a deviation of 32.  Over the thousands of tries here
 * six deviations do not happen by chance; the seeds are fixed anyway. */
static void assert_even(const unsigned *counts)
{
  double sum = 0, expected = SAMPLES / (double) CLASSES;
  for (unsigned i = 0; i < CLASSES; i++)
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  if (sum > 511 + 6.5 * 32)
    fail_msg("chi-square is %g", sum);
}

/* Of numbers below n: which of m classes of about equal size, as evenly as n allows. */
static unsigned class_of(uint64_t x, uint64_t n, unsigned m)
{
  return (unsigned) ((unsigned __int128) x * m / n);
}

/* By the high part of the directory index, or the low part; by a bucket, or both; by the last bits
 * that a new entry at full depth knows; by three bits each of index, bucket and entry, none of which
 * must follow from the others. */
enum by { HIGH_INDEX, LOW_INDEX, LOWER, UPPER, BOTH_BUCKETS, LAST_BITS, ALL_THREE };

static uint64_t part_of(const struct cuckoo_geometry *g, const struct cuckoo_address *a, enum by by)
{
  unsigned known = (unsigned) (g->depth_limit + g->shape.width - g->shape.ages);
  unsigned before = g->depth_limit + (g->unequal_roots ? (unsigned) CUCKOO_CELL_NUMBER_BITS : 0);
  switch (by) {
  case HIGH_INDEX:
    return class_of(a->index, cuckoo_directory_size(g), CLASSES);
  case LOW_INDEX:
    return a->index;
  case LOWER:
    return a->lower;
  case UPPER:
    return a->upper;
  case BOTH_BUCKETS:
    return (a->lower % 16) * 32 + a->upper % 32;
  case LAST_BITS:
    return a->fingerprint >> (64 - known);
  default:
    return a->index % 8 * 64 + a->lower % 8 * 8 + (a->fingerprint << before >> 61);
  }
}

static void spread(const struct cuckoo_geometry *g, uint64_t seed, enum by by)
{
  unsigned counts[CLASSES] = {0};
  for (uint64_t i = 0; i < SAMPLES; i++) {
    struct cuckoo_address address = cuckoo_address(g, random_at(seed, i));
    counts[part_of(g, &address, by) % CLASSES]++;
  }
  assert_even(counts);
}

/* Of the unequal roots, each gets the share of its cells, and each cell gets as many keys. */
static void unequal_roots_get_the_keys_of_their_cells(void **state)
{
  (void) state;
  for (unsigned i = 0; i < kind_count; i++) {
    const struct cuckoo_geometry *g = &kinds[i];
    unsigned counts[128] = {0};
    double sum = 0;
    for (uint64_t j = 0; g->unequal_roots && j < 128 * 100; j++) {
      struct cuckoo_address address = cuckoo_address(g, random_at(i, j));
      unsigned root = (unsigned) ((address.root >> g->root_shift) % 5);
      unsigned cell = first_cells[root] + (unsigned) (address.fingerprint << g->depth_limit >> 59);
      assert_true(cell < first_cells[root + 1]);
      counts[cell]++;
    }
    for (unsigned cell = 0; g->unequal_roots && cell < 128; cell++)
      sum += (counts[cell] - 100.) * (counts[cell] - 100.) / 100;
    assert_true(sum < 127 + 6.5 * 16);
  }
}

/* While keys come, the roots split one after the other (but for two that are equal).  So the
 * segments never have room for more than 1.65 times the keys, where equal roots would have it for
 * twice as many; and none splits near the power of two at which all of these would. */
static void unequal_roots_split_at_different_times(void **state)
{
  (void) state;
  double least = 2, most = 0;
  for (double keys = 1; keys < 2; keys *= 1.0001) { /* in segments of room 1 */
    double segments = 0;
    for (unsigned root = 0; root < 5; root++) {
      double in_root = 64 * keys * (first_cells[root + 1] - first_cells[root]) / 128.0;
      segments += exp2(ceil(log2(in_root)));
      assert_true(fabs(keys - 1) > 0.08 || exp2(ceil(log2(in_root))) == 16);
    }
    least = fmin(least, segments / (64 * keys));
    most = fmax(most, segments / (64 * keys));
  }
  assert_true(least > 1.13 && most < 1.65);
  for (unsigned cell = 0, root = 0; cell < 128; cell++) {
    root += cell == first_cells[root + 1];
    assert_int_equal(tamis__cuckoo_cells[cell], root << 5 | (cell - first_cells[root]));
  }
}

static void keys_are_spread_evenly(void **state)
{
  (void) state;
  unsigned tries = 0;
  for (unsigned i = 0; i < kind_count; i++) {
    const struct cuckoo_geometry *g = &kinds[i];
    uint64_t entries = cuckoo_directory_size(g);
    /* classes of exactly equal size, or of nearly */
    bool equal = entries % CLASSES == 0 || entries > 1000000;
    if (equal && !g->unequal_roots)
      spread(g, i, HIGH_INDEX);
    if (equal && (!g->unequal_roots || g->root_shift + g->depth_limit >= 9))
      spread(g, i, LOW_INDEX);
    if (g->pair_bits >= 9) {
      spread(g, i, LOWER);
      spread(g, i, UPPER);
    }
    if (g->pair_bits >= 5 && g->shape.width >= 12) /* narrower ones know few distances */
      spread(g, i, BOTH_BUCKETS);
    if (g->shape.width >= (g->unequal_roots ? 16 : 10))
      spread(g, i, LAST_BITS);
    if (g->pair_bits >= 3 && entries % 8 == 0)
      spread(g, i, ALL_THREE);
    tries += g->needs_second_hash;
  }
  assert_true(tries > 5);
}

/* The second generation of a filter for 2.5 million keys at 1e-5 takes all 64 bits of a hash, but
 * no second one: an entry that ages has a bit less than its lane.  The last bits are random too. */
static void a_marker_takes_no_bit_of_the_hash(void **state)
{
  (void) state;
  const struct cuckoo_spec spec = {.capacity = 2500000, .fpp = 1e-5, .growable = true};
  struct cuckoo_geometry first, g;
  assert_int_equal(cuckoo_geometry_plan(&spec, &first), TAMIS_OK);
  assert_int_equal(cuckoo_geometry_next(&first, spec.capacity * 64, spec.fpp - first.rate, &g),
                   TAMIS_OK);
  assert_int_equal(g.root0_bits + bits_in_use(&g), 64);
  assert_false(g.needs_second_hash);
  spread(&g, 1, LAST_BITS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_plan_keeps_within_its_rate),
      cmocka_unit_test(growing_keeps_within_the_rate),
      cmocka_unit_test(stripes_are_as_many_as_wanted),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(keys_do_not_crowd_on_one_pair),
      cmocka_unit_test(capacity_is_kept_but_once_in_a_billion_filters),
      cmocka_unit_test(from_either_bucket_an_entry_finds_the_other),
      cmocka_unit_test(the_strings_of_all_generations_agree_bit_for_bit),
      cmocka_unit_test(unequal_roots_get_the_keys_of_their_cells),
      cmocka_unit_test(unequal_roots_split_at_different_times),
      cmocka_unit_test(keys_are_spread_evenly),
      cmocka_unit_test(a_marker_takes_no_bit_of_the_hash),
  };
  return cmocka_run_group_tests_name("cuckoo_geometry", tests, make_kinds, NULL);
}
