/* SPDX-License-Identifier: MIT
 *
 * What is peculiar to unions of Bloom filters: how many keys one counts, what it leaves room for, and layers
 * that do not fit together; and intersections and comparisons.  test_unite.c has what holds for all kinds.
 */
#include "saved_unit.h"

#include "bloom/bloom.h"

#include <math.h>

static tamis_options options_of(unsigned layout, uint64_t capacity, bool growable)
{
  tamis_options options = seeded_options(TAMIS_BLOOM, capacity, 0.01, growable);
  options.layout = (tamis_layout) layout;
  return options;
}

static tamis_filter *make(unsigned layout, uint64_t capacity, bool growable)
{
  tamis_options options = options_of(layout, capacity, growable);
  return make_with_options(&options);
}

/* With all keys from `begin` on, but not `end`. */
static tamis_filter *make_with_keys(unsigned layout, uint64_t capacity, bool growable,
                                    uint64_t begin, uint64_t end)
{
  tamis_filter *f = make(layout, capacity, growable);
  add_range(f, begin, end);
  return f;
}

/* ---- how many keys a union counts ---- */

/* All filters have the first `common` keys, and keys of their own.  A union that brings nothing changes
 * nothing. */
static void unite_and_count(unsigned layout, uint64_t capacity, unsigned filters, uint64_t common,
                            uint64_t own, uint64_t tolerance)
{
  tamis_filter *a = make_with_keys(layout, capacity, true, 0, common + own);
  const uint64_t before = stats_of(a).count, all = common + filters * own;
  for (uint64_t i = 1; i <= filters; i++) {
    tamis_filter *b = make_with_keys(layout, capacity, true, 0, i < filters ? common : 0);
    add_range(b, common + i * own, common + (i < filters ? i + 1 : i) * own);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK);
    struct bytes united = saved_bytes(a);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK);
    assert_true(is_saved_as(a, &united));
    free(united.data);
    tamis_destroy(b);
  }
  tamis_stats s = stats_of(a);
  assert_in_range(s.count, all - tolerance, all + tolerance);
  assert_in_range(s.estimated_count, all - tolerance - 2, all + tolerance + 2);
  assert_int_equal(s.united_count, s.count - before);
  tamis_destroy(a);
}

/* Within five standard deviations, and one part in a hundred that false positives hide.  Of the bits of the
 * largest filters a sample is counted, but not where few of them are set.  What the bits of the common keys
 * hide, each union would count again. */
TEST(a_union_counts_its_keys)
{
  for (unsigned layout = 0; layout <= TAMIS_LAYOUT_WORD; layout++) {
    for (uint64_t n = 1000; n <= 3000000 / SCALE; n *= n < 5000 ? 30 : 100)
      for (unsigned part = 0; part < 4; part++) {
        const uint64_t common = part ? n / 2 / (2 * part - 1) : 0;
        unite_and_count(layout, n, 2, common, n / 2 - common,
                        n / 100 + 5 * (uint64_t) sqrt((double) n));
      }
    unite_and_count(layout, 2000000, 2, 750, 250, 3);
    unite_and_count(layout, 20000, 10, 10000, 100, 30);
  }
}

/* ---- capacity ---- */

/* How many of these keys are let in. */
static uint64_t accepted(tamis_filter *f, uint64_t from, uint64_t n)
{
  uint64_t accepted = 0;
  for (uint64_t i = from; i < from + n; i++)
    accepted += tamis_add_unique_hash(f, i) == TAMIS_OK;
  return accepted;
}

/* As many keys as before, and no more than by the bits that the capacity allows. */
static void keep_to_the_capacity(unsigned layout, uint64_t n)
{
  tamis_filter *a = make_with_keys(layout, n, false, 0, n * 4 / 10),
               *b = make_with_keys(layout, n, false, n * 3 / 10, n * 7 / 10);
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  add_range(a, n, n * 13 / 10); /* to the capacity: none is refused */
  assert_in_range(accepted(a, 2 * n, n), 0, n / 50 + 4 * (uint64_t) sqrt((double) n));
  const struct bloom_geometry g = bloom_geometry_of(const_bloom_of(a));
  uint64_t marks, bits = tamis__bloom_count_bits(&g, (uint64_t *) const_bloom_of(a)->words, &marks);
  assert_true((double) bits <= bloom_geometry_most_bits(&g) + 4 * sqrt((double) bits));
  assert_true(tamis_add_hash(a, 3 * n) == TAMIS_EFULL || tamis_contains_hash(a, 3 * n));
  assert_valid(a);
  tamis_destroy(a), tamis_destroy(b);
}

/* A union fills the first layer of a filter that grows: the next key opens another one. */
static void open_a_layer(unsigned layout, uint64_t n)
{
  tamis_filter *a = make(layout, n, true), *b = make(layout, n, true);
  for (uint64_t key = 0; stats_of(b).count < n; key += n - stats_of(b).count)
    add_range(b, key, key + n - stats_of(b).count);
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  assert_int_equal(stats_of(a).layers, 1);
  add_range(a, 10 * n, 10 * n + 10);
  assert_int_equal(stats_of(a).layers, 2);
  tamis_destroy(a), tamis_destroy(b);
}

TEST(adds_after_a_union_keep_to_the_capacity)
{
  for (unsigned layout = 0; layout <= TAMIS_LAYOUT_WORD; layout++)
    for (uint64_t n = 100; n <= 200000; n *= n < 10000 ? 10 : 20)
      keep_to_the_capacity(layout, n), open_a_layer(layout, n);
}

/* Where it is certain that the capacity is reached, no key is let in.  A union brings keys, and not the marks
 * of the words of a filter that is full. */
TEST(the_union_with_a_full_filter_is_full)
{
  for (unsigned i = 0; i < 6; i++) {
    const unsigned layout = i / 2, capacity = i % 2 ? 1000 : 100;
    tamis_filter *a = make(layout, capacity, false), *b = make(layout, capacity, false),
                 *one = make(layout, capacity, false);
    (void) accepted(b, 0, 100000);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK);
    const struct bloom *x = const_bloom_of(a), *y = const_bloom_of(b);
    const uint64_t keys = bloom_key_bits(x->layout);
    for (uint64_t w = 0; w < x->word_count; w++)
      assert_int_equal(word_load(&x->words[w]), word_load(&y->words[w]) & keys);
    if (stats_of(b).count == capacity)
      assert_int_equal(accepted(a, 200000, 1000), 0);
    struct bytes full = saved_bytes(b);
    assert_int_equal(tamis_merge(b, a), TAMIS_OK); /* nothing is missing */
    uint64_t key = 100000;
    while (tamis_contains_hash(b, key))
      key++;
    add_range(one, key, key + 1);
    assert_int_equal(tamis_merge(b, one), TAMIS_EFULL);
    assert_true(is_saved_as(b, &full));
    assert_valid(a), assert_valid(b);
    free(full.data);
    tamis_destroy(a), tamis_destroy(b), tamis_destroy(one);
  }
}

/* ---- what does not fit together ---- */

/* Filters of one size fit, whatever their capacity, but later layers may have different sizes.
 * This is found before a layer is opened. */
TEST(later_layers_must_fit)
{
  for (unsigned layout = 0; layout <= TAMIS_LAYOUT_WORD; layout++) {
    unsigned refused = 0, refused_later = 0;
    for (uint64_t n = 1000; n < 1100; n++) {
      tamis_filter *empty = make(layout, n, true),
                   *grown = make_with_keys(layout, n, true, 0, n + 100),
                   *from = make_with_keys(layout, n + 1, true, 0, n + 100);
      const struct bloom *x = const_bloom_of(grown), *y = const_bloom_of(from);
      const bool first_fits = bloom_fit_together(x, y),
                 fit = first_fits && bloom_fit_together(newest_layer(x), newest_layer(y));
      assert_int_equal(stats_of(from).layers, 2);
      assert_int_equal(tamis_merge(grown, from), fit ? TAMIS_OK : TAMIS_EINVAL);
      assert_int_equal(tamis_merge(empty, from), fit ? TAMIS_OK : TAMIS_EINVAL);
      assert_int_equal(stats_of(empty).layers, fit ? 2 : 1);
      assert_true(fit || stats_of(empty).bits_set == 0);
      refused += !fit, refused_later += first_fits && !fit;
      tamis_destroy(empty), tamis_destroy(grown), tamis_destroy(from);
    }
    assert_in_range(refused, 1, 99);
    assert_in_range(refused_later, 1, 99);
  }
}

/* ---- intersection ---- */

/* An intersection is a filter with the options of its first one. */
TEST(an_intersection_has_the_options_of_its_first_filter)
{
  for (unsigned i = 0; i < 24; i++) {
    tamis_options options = options_of(i / 8, i & 1 ? 50 : 5000, i & 2);
    tamis_filter *b = make_with_options(&options), *both;
    options.max_bytes = i & 4 ? 1234567 : 0;
    options.stripes = i & 4 ? 64 : 1;
    tamis_filter *a = make_with_options(&options);
    if (const_bloom_of(a)->is_long) {
      bloom_long_of(bloom_of(a))->cleared_from = 7;
      bloom_long_of(bloom_of(a))->closes_at -= !const_bloom_of(a)->limited;
    }
    assert_int_equal(tamis_intersect(a, b, &both), TAMIS_OK);
    const struct bloom *x = const_bloom_of(a), *y = const_bloom_of(both);
    assert_int_equal(bloom_max_bytes(y), bloom_max_bytes(x));
    assert_int_equal(bloom_stripes_wanted(y), bloom_stripes_wanted(x));
    assert_int_equal(bloom_cleared_from(y), bloom_cleared_from(x));
    assert_int_equal(bloom_closes_at(y), bloom_closes_at(x));
    assert_int_equal(bloom_most_keys(y), bloom_most_keys(x));
    assert_int_equal(stats_of(both).bytes, stats_of(a).bytes);
    tamis_destroy(a), tamis_destroy(b), tamis_destroy(both);
  }
}

static void intersect(unsigned layout, uint64_t n, bool growable)
{
  tamis_filter *a = make_with_keys(layout, n, growable, 0, n * 6 / 10),
               *b = make_with_keys(layout, n, growable, n * 4 / 10, n), *both, *mapped;
  struct bytes saved = saved_bytes(a);
  assert_int_equal(map_source(source_of(&saved), false, &mapped), TAMIS_OK);
  assert_int_equal(tamis_intersect(mapped, b, &both), TAMIS_OK);
  for (uint64_t i = 0; i < 3 * n + 10000; i++)
    assert_int_equal(tamis_contains_hash(both, i),
                     tamis_contains_hash(a, i) && tamis_contains_hash(b, i));
  const double common = (double) (n * 6 / 10 - n * 4 / 10), tolerance = 5 * sqrt((double) n) + 1;
  tamis_stats stats = stats_of(both);
  assert_true(fabs((double) stats.count - common) <= tolerance);
  assert_true(stats.estimated_count >= common - tolerance);
  assert_true(stats.fpp_estimate <= stats_of(a).fpp_estimate * 1.0001);
  assert_true(stats.capacity == n && stats.bits == stats_of(a).bits && stats.seed == 42);
  for (uint64_t i = 0; i < n / 10; i++) /* it is a filter like any other */
    assert_int_not_equal(tamis_add_unique_hash(both, 10 * n + i), TAMIS_EFULL);
  assert_valid(both);
  tamis_destroy(both);
  assert_int_equal(tamis_intersect(a, a, &both), TAMIS_OK);
  assert_int_equal(stats_of(both).bits_set, stats_of(a).bits_set);
  tamis_destroy(both), tamis_destroy(mapped), tamis_destroy(a), tamis_destroy(b);
  free(saved.data);
}

TEST(an_intersection_answers_as_both_do)
{
  const uint64_t capacities[] = {1, 10, 1000, 100000};
  for (unsigned i = 0; i < 3 * 2 * 4; i++)
    intersect(i / 8, capacities[i % 4], i / 4 % 2);
}

/* ---- inclusion ---- */

static void includes(unsigned layout, bool growable, tamis_kind kind)
{
  tamis_options options = options_of(layout, 3000, growable);
  options.kind = kind;
  tamis_filter *a = make_with_options(&options), *b = make_with_options(&options);
  assert_int_equal(tamis_includes(a, b), TAMIS_OK);
  for (uint64_t i = 0; i < 3000; i++) {
    assert_int_equal(tamis_add_hash(a, i), TAMIS_OK);
    if (!tamis_contains_hash(b, i))
      assert_int_equal(tamis_includes(b, a), TAMIS_ABSENT);
    assert_int_equal(tamis_includes(a, b), TAMIS_OK);
    assert_int_equal(tamis_add_hash(b, i), TAMIS_OK);
    assert_int_equal(tamis_includes(b, a), TAMIS_OK);
  }
  assert_int_equal(tamis_includes(a, a), TAMIS_OK);
  (void) tamis_add_hash(a, 2999); /* a copy more of what both have */
  assert_int_equal(tamis_includes(a, b), TAMIS_OK);
  assert_int_equal(tamis_includes(b, a), kind == TAMIS_COUNTING_BLOOM ? TAMIS_ABSENT : TAMIS_OK);
  tamis_destroy(a), tamis_destroy(b);
}

TEST(a_filter_includes_what_it_has)
{
  for (unsigned layout = 0; layout <= TAMIS_LAYOUT_WORD; layout++) {
    includes(layout, false, TAMIS_BLOOM);
    includes(layout, true, TAMIS_BLOOM);
  }
  includes(TAMIS_LAYOUT_BLOCKED, true, TAMIS_COUNTING_BLOOM);
}

/* A full filter of the word layout has marks, which are no bits of keys. */
TEST(marks_are_not_included)
{
  tamis_filter *a = make_with_keys(TAMIS_LAYOUT_WORD, 100, false, 0, 50), *b;
  assert_int_equal(tamis_intersect(a, a, &b), TAMIS_OK); /* without marks */
  word_or(&bloom_of(a)->words[0], WORD_MARK);
  assert_int_equal(tamis_includes(a, b), TAMIS_OK);
  assert_int_equal(tamis_includes(b, a), TAMIS_OK);
  tamis_destroy(a), tamis_destroy(b);
}

/* Further layers are compared by their numbers, and one that is not there has no bits. */
TEST(layers_include_layers)
{
  for (unsigned layout = 0; layout <= TAMIS_LAYOUT_WORD; layout++) {
    tamis_filter *a = make_with_keys(layout, 100, true, 0, 2000),
                 *b = make_with_keys(layout, 100, true, 0, 50), *other = make(layout, 100000, true);
    tamis_filter *copy = copy_of(a);
    assert_true(stats_of(a).layers > 2);
    assert_int_equal(tamis_includes(a, b), TAMIS_OK);
    assert_int_equal(tamis_includes(b, a), TAMIS_ABSENT);
    assert_int_equal(tamis_includes(a, copy), TAMIS_OK);
    assert_int_equal(tamis_includes(copy, a), TAMIS_OK);
    assert_int_equal(tamis_add_hash(copy, 1000000), TAMIS_OK);
    assert_int_equal(tamis_includes(a, copy), TAMIS_ABSENT);
    assert_int_equal(tamis_includes(a, other), TAMIS_EINVAL);
    tamis_destroy(a), tamis_destroy(b), tamis_destroy(copy), tamis_destroy(other);
  }
}

TEST(other_kinds_are_not_compared)
{
  tamis_options options = options_of(0, 100, true);
  tamis_filter *bloom = make_with_options(&options);
  options.kind = TAMIS_CUCKOO;
  tamis_filter *cuckoo = make_with_options(&options);
  options.window = 3;
  tamis_filter *window = make_with_options(&options);
  assert_int_equal(tamis_includes(cuckoo, cuckoo), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_includes(window, window), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_includes(cuckoo, bloom), TAMIS_EINVAL);
  assert_int_equal(tamis_includes(NULL, bloom), TAMIS_EINVAL);
  assert_int_equal(tamis_includes(bloom, NULL), TAMIS_EINVAL);
  tamis_destroy(bloom), tamis_destroy(cuckoo), tamis_destroy(window);
}

/* ---- similarity ---- */

/* docs/internals/bloom.md has this formula. */
static double sum_of_pairs(double scale, double a, double b, double united, double common)
{
  return exp(scale * united) - exp(scale * a) - exp(scale * b) + 2 * exp(scale * common) - 1 -
         scale * common;
}

static double deviation_of_common(const tamis_stats *s, uint64_t a, uint64_t b, uint64_t common)
{
  double m = (double) s->bits, k = s->bits_per_key, load = k / m;
  double x = load * (double) a, y = load * (double) b, c = load * (double) common;
  double variance = sum_of_pairs(1, x, y, x + y - c, c),
         unit = s->layout == TAMIS_LAYOUT_WORD ? 64 : 512;
  if (s->layout != TAMIS_LAYOUT_CLASSIC)
    variance += unit * sum_of_pairs(k / unit, x, y, x + y - c, c);
  return sqrt(m * variance) / k;
}

/* At most, in any layout. */
static double deviation_of_one(const tamis_stats *s, uint64_t keys)
{
  double m = (double) s->bits, k = s->bits_per_key, x = k / m * (double) keys;
  return 1.34 * sqrt(m * (exp(x) - x - 1)) / k;
}

/* The errors over many seeds are as large as the formula says, and have no bias. */
TEST(estimates_err_as_documented)
{
  enum { SEEDS = 200 / SCALE, OF_A = 3000 };
  const uint64_t of_b[] = {3000, 3000, 500}, common[] = {0, 1000, 400};
  for (unsigned n = 0; n < 9; n++) {
    const unsigned i = n % 3;
    double sum = 0, squares = 0, deviation = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      tamis_options options = options_of(n / 3, 6000, true);
      options.seed = seed;
      tamis_filter *a = make_with_options(&options), *b = make_with_options(&options);
      add_range(a, 0, OF_A);
      add_range(b, OF_A - common[i], OF_A - common[i] + of_b[i]);
      tamis_similarity_stats s = TAMIS_SIMILARITY_STATS_INIT;
      assert_int_equal(tamis_similarity(a, b, &s), TAMIS_OK);
      double error = s.estimated_a + s.estimated_b - s.united - (double) common[i];
      tamis_stats stats = stats_of(a);
      deviation = deviation_of_common(&stats, OF_A, of_b[i], common[i]);
      assert_true(fabs(error) < 5 * deviation);
      assert_true(fabs(s.estimated_a - OF_A) < 5 * deviation_of_one(&stats, OF_A) + 1);
      assert_true(fabs(s.estimated_b - (double) of_b[i]) <
                  5 * deviation_of_one(&stats, of_b[i]) + 1);
      assert_true(fabs(s.common - fmax(error + (double) common[i], 0)) < 1e-6);
      assert_true(fabs(s.jaccard - s.common / s.united) < 1e-9);
      sum += error;
      squares += error * error;
      tamis_destroy(a), tamis_destroy(b);
    }
    double rms = sqrt(squares / SEEDS) / deviation, noise = 4 / sqrt(2.0 * SEEDS);
    assert_true(rms > 1 - noise && rms < 1.1 + noise);
    assert_true(fabs(sum / SEEDS) < 4 * deviation / sqrt(SEEDS) + 1);
  }
}

TEST(empty_and_equal_and_grown_filters)
{
  for (unsigned layout = 0; layout <= TAMIS_LAYOUT_WORD; layout++) {
    tamis_filter *a = make(layout, 100, true), *b = make(layout, 100, true), *both = a;
    tamis_similarity_stats s = TAMIS_SIMILARITY_STATS_INIT;
    assert_int_equal(tamis_similarity(a, b, &s), TAMIS_OK);
    assert_true(s.estimated_a == 0 && s.estimated_b == 0 && s.united == 0 && s.common == 0 &&
                s.jaccard == 0);
    add_range(a, 0, 80);
    add_range(b, 0, 80);
    assert_int_equal(tamis_similarity(a, b, &s), TAMIS_OK);
    assert_true(s.jaccard == 1 && s.common == s.united && s.estimated_a == s.estimated_b);
    assert_int_equal(tamis_similarity(a, a, &s), TAMIS_OK);
    assert_true(s.jaccard == 1);
    add_range(a, 0, 100000); /* it has many layers then */
    s.united = 7;
    assert_int_equal(tamis_similarity(a, b, &s), TAMIS_EUNSUPPORTED);
    assert_int_equal(tamis_similarity(b, a, &s), TAMIS_EUNSUPPORTED);
    assert_true(s.united == 7);
    assert_int_equal(tamis_intersect(a, b, &both), TAMIS_EUNSUPPORTED);
    assert_null(both);
    assert_int_equal(tamis_merge(b, a), TAMIS_OK); /* all keys of b are in a */
    assert_true(stats_of(b).layers == stats_of(a).layers && stats_of(b).fpp_estimate < 0.01);
    assert_valid(b);
    tamis_destroy(a), tamis_destroy(b);
  }
}
