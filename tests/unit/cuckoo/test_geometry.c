/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "cuckoo/geometry.h"
#include "harness.h"
#include "table/load.h"

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
  tamis_options spec = {.capacity = capacity, .fpp = fpp, .growable = growable};
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
  const struct cuckoo_geometry after = cuckoo_geometry_after(g);
  double lanes = (double) cuckoo_directory_size(g) * (double) cuckoo_lanes(&after);
  bool one_pair = g->pair_bits == 0 && !g->shape.ages;
  return one_pair ? lanes : lanes * cuckoo_geometry_full_load(g);
}

/* The geometry of segments of a depth. */
static struct cuckoo_geometry at_depth(const struct cuckoo_geometry *g, unsigned depth)
{
  return depth > g->uneven_at ? cuckoo_geometry_after(g) : *g;
}

/* Bits of the fingerprint that an entry is made of at any depth. */
static unsigned fingerprint_bits(const struct cuckoo_geometry *g)
{
  return cuckoo_prefix_bits(g, g->depth_limit) + at_depth(g, g->depth_limit).shape.width -
         g->shape.ages;
}

/* The same of the string after root0. */
static unsigned bits_in_use(const struct cuckoo_geometry *g)
{
  return g->root_shift + g->pair_bits + fingerprint_bits(g);
}

/* ---- sizes and rates ---- */

static void assert_sound(const struct cuckoo_geometry *g, bool ages)
{
  assert_int_equal(g->shape.ages, ages);
  assert_true(g->first_roots >= 1);
  assert_true(g->root0_bits == 64 || g->first_roots <= UINT64_C(1) << g->root0_bits);
  assert_true(ages || g->depth_limit == 0);
  assert_in_range(g->depth_limit, 0, g->later ? 9 : 14);
  assert_true(g->uneven_at == NEVER_UNEVEN || (ages && g->uneven_at < g->depth_limit));
  assert_true(!g->later || g->uneven_at == 0 || g->uneven_at == NEVER_UNEVEN);
  /* bits that still vary when a segment has split to the end */
  assert_true(!ages || g->shape.width - 1 - cuckoo_prefix_bits(g, g->depth_limit) >= 4);
  assert_int_equal((g->stripe_mask + 1) & g->stripe_mask, 0);
  assert_true(g->words_offset % 8 == 0 && cuckoo_segment_bytes(g) % 64 == 0);
  assert_true(cuckoo_segment_bytes(g) >= g->words_offset + 8 * cuckoo_buckets(g));
  /* a bucket and an entry go into 32 bits each */
  assert_true(g->pair_bits <= 31 && g->shape.width <= 32);
}

/* What absent keys of one class match in a full segment of depth D.  At each split it keeps half of its
 * entries or, at the uneven one, those of its class.  A key shares the prefix and the class with all that
 * are left. */
static double rate_in_class(const struct cuckoo_geometry *g, double class_share)
{
  double entries[16] = {0}, rate = 0;
  for (unsigned depth = 0; depth <= g->depth_limit; depth++) {
    const struct lane_shape s = at_depth(g, depth).shape;
    double old = 0;
    for (unsigned came = 0; came < depth; came++)
      old += entries[came] *= depth - 1 == g->uneven_at ? class_share : 0.5;
    entries[depth] = 2 * s.lanes * (s.ages ? tamis__table_load(s.lanes, false).mean : 1) - old;
    assert_true(entries[depth] > 0);
  }
  for (unsigned came = 0; came <= g->depth_limit; came++) {
    unsigned known = cuckoo_prefix_bits(g, came) + at_depth(g, came).shape.width - g->shape.ages;
    rate += entries[came] * exp2(cuckoo_prefix_bits(g, g->depth_limit) - (double) known);
  }
  return g->uneven_at < g->depth_limit ? rate / class_share : rate;
}

static void assert_rate_of_all_ages(const struct cuckoo_geometry *g)
{
  const double share = CUCKOO_CLASS_SHARE * 0x1p-32;
  double sum = share * rate_in_class(g, share) + (1 - share) * rate_in_class(g, 1 - share);
  assert_true(fabs(g->rate / sum - 1) < 1e-9);
}

TEST(every_plan_keeps_within_its_rate)
{
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
        assert_rate_of_all_ages(&g);
      }
}

TEST(first_generations_split_as_documented)
{
  static const struct {
    double fpp;
    unsigned width, then, at, depth;
  } rows[] = {{0.03, 12, 16, 7, 8}, /* docs/internals/growth.md */
              {0.01, 16, 16, 0, 12},
              {0.001, 16, 21, 5, 12},
              {1e-4, 21, 21, 0, 14},
              {1e-6, 32, 32, 0, 14}};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    for (uint64_t n = 1000; n <= 1000000; n *= 10) {
      const struct cuckoo_geometry g = plan(n, rows[i].fpp, true),
                                   after = cuckoo_geometry_after(&g);
      assert_int_equal(g.shape.width, rows[i].width);
      assert_int_equal(after.shape.width, rows[i].then);
      assert_int_equal(g.uneven_at, rows[i].at);
      assert_int_equal(g.depth_limit, rows[i].depth);
    }
}

/* The index in an earlier generation of the keys whose string begins like this. */
static uint64_t index_of(const struct cuckoo_geometry *g, uint64_t bits)
{
  struct cuckoo_geometry one_hash = *g;
  one_hash.needs_second_hash = false;
  const struct cuckoo_address a =
      cuckoo_address_of(&one_hash, (struct cuckoo_hash_string){.bits = bits}, 0);
  return cuckoo_address_index(g, &a);
}

/* A generation follows another one only if the bits that its entries know for life give the index there. */
static void check_following(const struct cuckoo_geometry *before, const struct cuckoo_geometry *g)
{
  struct cuckoo_geometry other = *g;
  assert_true(cuckoo_geometry_may_follow(before, g));
  for (other.pair_bits = 0; other.pair_bits < g->pair_bits; other.pair_bits++) {
    const unsigned known = (unsigned) other.root_shift + other.pair_bits + other.shape.width - 1;
    const uint64_t next_bit = known < 64 ? UINT64_C(1) << (63 - known) : 0;
    for (uint64_t i = 0; i < 50 && cuckoo_geometry_may_follow(before, &other); i++)
      assert_int_equal(index_of(before, i * CUCKOO_OTHER_MULTIPLIER),
                       index_of(before, (i * CUCKOO_OTHER_MULTIPLIER) ^ next_bit));
  }
}

/* A filter can grow a million times, in a few generations, each of which leaves something of the
 * rate to the next.  One begins with room for a part of the keys that there are, and can grow to
 * many times as many. */
static void check_growth(uint64_t n, double rate)
{
  struct cuckoo_geometry first = plan(n, rate, true), g = first, before;
  double sum = first.rate, keys = keys_at_most(&first), times = rate < 4.5e-8 ? 1e5 : 1e6;
  unsigned generations = 1;
  for (; keys < times * (double) n; generations++) {
    before = g;
    if (cuckoo_geometry_next(&before, (uint64_t) keys, rate - sum, &g) != TAMIS_OK)
      fail_msg("rate %g, capacity %lu: the end at %g keys", rate, n, keys);
    assert_sound(&g, true);
    assert_rate_of_all_ages(&g);
    check_following(&before, &g);
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
  if (cuckoo_geometry_next(&first, 0, rate - first.rate, &g) == TAMIS_OK) /* all keys are gone */
    check_following(&first, &g);
  const double left[] = {0, -1e-3, 1e-15};
  before = g;
  for (unsigned i = 0; i < 3; i++)
    assert_int_equal(cuckoo_geometry_next(&first, 1000000, left[i], &g), TAMIS_EFULL);
  assert_memory_equal(&g, &before, sizeof g);
}

/* However near a shape comes to the rate asked for. */
TEST(growing_keeps_within_the_rate)
{
  for (double rate = 3e-8; rate < 0.3; rate *= rate < 1e-5 ? 1.002 : 1.7) {
    const bool many_rates = rate > 5e-8 && rate < 1e-5;
    for (uint64_t n = 1; n; n = !many_rates ? next_capacity(n) : n < 100000 ? n * 10 : 0)
      if (possible(n, rate, true))
        check_growth(n, rate);
  }
}

/* What the user wants, rounded up, within limits, and in all generations. */
TEST(stripes_are_as_many_as_wanted)
{
  for (unsigned stripes = 1; stripes <= 64; stripes++)
    for (int growable = 0; growable < 2; growable++) {
      tamis_options spec = {
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

TEST(capacity_is_kept_but_once_in_a_billion_filters)
{
  const unsigned stripes[] = {0, 1, 32};
  for (unsigned i = 0; i < sizeof stripes / sizeof *stripes; i++)
    for (unsigned r = 0; r < RATES; r++)
      for (uint64_t n = 1; n < UINT64_C(1) << 48; n += n + 1) {
        tamis_options spec = {.capacity = n, .fpp = rates[r], .stripes = stripes[i]};
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
enum { MOST_KINDS = 900 };
static struct cuckoo_geometry kinds[MOST_KINDS];
static unsigned kind_count;

static int make_kinds(void **state)
{
  (void) state;
  const uint64_t capacities[] = {1,      5,       17,       100,       1000,           33333,
                                 250000, 1000001, 50000000, 999999999, 30000000000ull, 1ull << 40};
  for (unsigned r = 1; r < RATES; r++)
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
 * from, and the class.  So has the first index of a segment of any depth. */
static void check_address(const struct cuckoo_geometry *g, const struct cuckoo_address *a)
{
  const uint64_t index = cuckoo_address_index(g, a);
  assert_true(index < cuckoo_directory_size(g));
  assert_true(a->lower < cuckoo_buckets(g) / 2);
  assert_true(a->upper >= cuckoo_buckets(g) / 2 && a->upper < cuckoo_buckets(g));
  for (unsigned depth = 0; depth <= g->depth_limit; depth++) {
    unsigned bits = cuckoo_prefix_bits(g, depth);
    uint64_t first = cuckoo_first_index(g, index, depth), prefix = cuckoo_prefix(g, first);
    assert_in_range(index - first, 0, (UINT64_C(1) << (g->depth_limit - depth)) - 1);
    assert_int_equal(cuckoo_root_of_index(g, first), a->root);
    assert_int_equal(prefix, bits ? a->fingerprint >> (64 - bits) << (64 - bits) : 0);
    assert_int_equal(cuckoo_class_of_index(g, first), depth > g->uneven_at && a->class);
    assert_int_equal(cuckoo_index(g, a->root, prefix, depth > g->uneven_at && a->class), first);
  }
}

/* A join makes the entry that knows as much as it can at the depth before, and finds its key. */
static void check_join(const struct cuckoo_geometry *g, const struct cuckoo_address *a,
                       uint64_t fingerprint, unsigned known, unsigned depth)
{
  const struct cuckoo_geometry before = at_depth(g, depth);
  uint64_t entry = cuckoo_entry(&before, fingerprint, known, depth);
  uint64_t new = bucket_entry(&before.shape, a->fingerprint << cuckoo_prefix_bits(g, depth));
  unsigned most = cuckoo_known_of_fingerprint(&before, depth, 0);
  assert_int_equal(entry, cuckoo_entry(&before, a->fingerprint, known, depth));
  assert_int_equal(bucket_age(&before.shape, entry), known < most ? most - known : 0);
  assert_int_equal(lanes_count(bucket_match(&before.shape, entry, new)), 1);
}

/* An entry that was added at any depth says at any later depth where its other bucket is, and which
 * class it has.  In wider lanes it is as old as if it had come to them and aged. */
static void check_entries(const struct cuckoo_geometry *g, const struct cuckoo_address *a)
{
  for (unsigned depth = 0; depth <= g->depth_limit; depth++) {
    const struct cuckoo_geometry now = at_depth(g, depth);
    const uint64_t prefix =
        cuckoo_prefix(g, cuckoo_first_index(g, cuckoo_address_index(g, a), depth));
    for (unsigned then = 0; then <= depth; then++) {
      const struct cuckoo_geometry old = at_depth(g, then);
      unsigned bits = cuckoo_prefix_bits(g, then);
      unsigned age = cuckoo_prefix_bits(g, depth) - bits + now.shape.width - old.shape.width;
      uint64_t entry =
          bucket_entry(&old.shape, a->fingerprint << bits) << age & lane_bits(now.shape.width);
      assert_int_equal(bucket_age(&now.shape, entry), age);
      assert_true(age <= cuckoo_most_age(&now, depth));
      uint64_t fingerprint = cuckoo_fingerprint(&now, entry, prefix, depth);
      uint64_t other = cuckoo_other_mask(g, fingerprint);
      assert_int_equal(a->lower ^ other, a->upper);
      assert_int_equal(a->upper ^ other, a->lower);
      assert_int_equal(cuckoo_class(g, fingerprint), a->class);
      assert_int_equal(cuckoo_known_bits(&now, depth, age),
                       g->root_shift + g->pair_bits + bits + old.shape.width - 1);
      unsigned known = cuckoo_known_of_fingerprint(&now, depth, age);
      assert_int_equal(cuckoo_entry(&now, fingerprint, known, depth), entry);
      if (depth > 0)
        check_join(g, a, fingerprint, known, depth - 1);
    }
  }
}

/* And at every depth the entries of new keys take all values that a lane can hold but 0. */
TEST(from_either_bucket_an_entry_finds_the_other)
{
  unsigned two[2] = {0};
  for (unsigned i = 0; i < kind_count; i++) {
    const struct cuckoo_geometry *g = &kinds[i];
    uint64_t ones[15] = {0}, zeros[15] = {0};
    for (uint64_t j = 0; j < 502; j++) {
      struct cuckoo_address a = cuckoo_address(g, j < 2 ? j - 1 : random_at(i, j));
      check_address(g, &a);
      check_entries(g, &a);
      for (unsigned depth = 0; depth <= g->depth_limit; depth++) {
        const struct lane_shape s = at_depth(g, depth).shape;
        uint64_t entry = bucket_entry(&s, a.fingerprint << cuckoo_prefix_bits(g, depth));
        assert_true(entry != 0 && entry <= lane_bits(s.width));
        ones[depth] |= entry, zeros[depth] |= ~entry;
      }
    }
    for (unsigned depth = 0; depth <= g->depth_limit; depth++) {
      const uint64_t all = lane_bits(at_depth(g, depth).shape.width);
      assert_true((ones[depth] & all) == all && (zeros[depth] & all) == all - g->shape.ages);
    }
    const struct cuckoo_address last = cuckoo_address(g, unspread(UINT64_MAX));
    const unsigned bits = cuckoo_prefix_bits(g, g->depth_limit);
    assert_int_equal(last.root, cuckoo_roots(g) - 1);
    assert_int_equal(cuckoo_top_bits(last.fingerprint, bits), (1U << bits) - 1);
    assert_int_equal(cuckoo_address(g, unspread(0)).root, 0);
    two[g->shape.ages] += g->needs_second_hash;
  }
  /* so that these tests are about geometries with one hash and with two */
  assert_true(two[0] >= 3 && two[1] >= 3 && two[0] + two[1] < kind_count);
}

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
  uint64_t low_root = address.root & ((UINT64_C(1) << g->root_shift) - 1);
  *root0 = address.root >> g->root_shift;
  string all = prepend(address.lower, g->pair_bits, (string) address.fingerprint << 64);
  return prepend(low_root, g->root_shift, all);
}

/* Otherwise a remove could take the entry of another key. */
TEST(the_strings_of_all_generations_agree_bit_for_bit)
{
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

/* By the high part of root and prefix, or the low part; by a bucket, or both; by the last bits that a
 * new entry at full depth knows; by three bits each of prefix, bucket and entry, none of which must
 * follow from the others. */
enum by { HIGH_INDEX, LOW_INDEX, LOWER, UPPER, BOTH_BUCKETS, LAST_BITS, ALL_THREE };

/* Roots and prefixes. */
static uint64_t places(const struct cuckoo_geometry *g)
{
  return cuckoo_roots(g) << cuckoo_prefix_bits(g, g->depth_limit);
}

static uint64_t part_of(const struct cuckoo_geometry *g, const struct cuckoo_address *a, enum by by)
{
  unsigned bits = cuckoo_prefix_bits(g, g->depth_limit);
  uint64_t place = a->root << bits | cuckoo_top_bits(a->fingerprint, bits);
  switch (by) {
  case HIGH_INDEX:
    return class_of(place, places(g), CLASSES);
  case LOW_INDEX:
    return place;
  case LOWER:
    return a->lower;
  case UPPER:
    return a->upper;
  case BOTH_BUCKETS:
    return (a->lower % 16) * 32 + a->upper % 32;
  case LAST_BITS:
    return a->fingerprint >> (64 - fingerprint_bits(g));
  default:
    return place % 8 * 64 + a->lower % 8 * 8 + (a->fingerprint << bits >> 61);
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

/* Of the fingerprints that begin with any bits, one class has its share, to three of them: of some
 * thousand that follow one another, a random run for each prefix, or of all. */
TEST(both_classes_have_their_share_of_every_prefix)
{
  const unsigned widths[] = {12, 16, 21, 32};
  for (unsigned i = 0; i < 4; i++)
    for (unsigned bits = 0; bits <= 14 && widths[i] - 1 - bits >= 6; bits++) {
      const struct cuckoo_geometry g = {.fixed_shift = (uint8_t) (64 - widths[i])};
      const unsigned rest = widths[i] - 1 - bits, run = 1U << (rest < 12 ? rest : 12);
      for (uint64_t prefix = 0; prefix < UINT64_C(1) << bits; prefix++) {
        uint64_t first = prefix << rest | (random_at(bits, prefix) & ((UINT64_C(1) << rest) - run));
        unsigned in_class = 0;
        for (uint64_t j = first; j < first + run; j++)
          in_class += cuckoo_class(&g, j << (65 - widths[i]));
        if (fabs(in_class - (sqrt(2) - 1) * run) > 3)
          fail_msg("%u bits, a prefix of %u: %u of %u", widths[i], bits, in_class, run);
      }
    }
}

TEST(keys_are_spread_evenly)
{
  unsigned tries = 0;
  for (unsigned i = 0; i < kind_count; i++) {
    const struct cuckoo_geometry *g = &kinds[i];
    uint64_t entries = places(g);
    /* classes of exactly equal size, or of nearly */
    bool equal = entries % CLASSES == 0 || entries > 1000000;
    if (equal) {
      spread(g, i, HIGH_INDEX);
      spread(g, i, LOW_INDEX);
    }
    if (g->pair_bits >= 9) {
      spread(g, i, LOWER);
      spread(g, i, UPPER);
    }
    if (g->pair_bits >= 5 && g->shape.width >= 12) /* narrower ones know few distances */
      spread(g, i, BOTH_BUCKETS);
    if (g->shape.width >= 10)
      spread(g, i, LAST_BITS);
    if (g->pair_bits >= 3 && entries % 8 == 0)
      spread(g, i, ALL_THREE);
    tries += g->needs_second_hash;
  }
  assert_true(tries > 5);
}

/* The second generation of a filter for 2.5 million keys at 1e-5 takes all 64 bits of a hash, but
 * no second one: an entry that ages has a bit less than its lane.  The last bits are random too. */
TEST(a_marker_takes_no_bit_of_the_hash)
{
  const struct cuckoo_geometry first = plan(2500000, 1e-5, true);
  struct cuckoo_geometry g;
  assert_int_equal(cuckoo_geometry_next(&first, 2500000 * 64, 1e-5 - first.rate, &g), TAMIS_OK);
  assert_int_equal(g.root0_bits + bits_in_use(&g) + (g.uneven_at == 0), 64); /* 1 for the class */
  assert_false(g.needs_second_hash);
  spread(&g, 1, LAST_BITS);
}

int main(void)
{
  return run_all_tests_between(make_kinds, NULL);
}
