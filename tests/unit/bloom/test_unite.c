/* SPDX-License-Identifier: MIT
 *
 * Union, intersection and similarity of Bloom filters.
 */
#include "unit.h"

#include "bloom_unit.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static tamis_options options_of(tamis_layout layout, uint64_t capacity, bool growable)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = layout;
  options.capacity = capacity;
  options.growable = growable;
  options.seed = 42;
  return options;
}

static tamis_filter *make_with(const tamis_options *options)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(options, &f), TAMIS_OK);
  return f;
}

static tamis_filter *make(tamis_layout layout, uint64_t capacity, bool growable)
{
  tamis_options options = options_of(layout, capacity, growable);
  return make_with(&options);
}

static void add_range(tamis_filter *f, uint64_t first, uint64_t n)
{
  for (uint64_t i = first; i < first + n; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
}

static bool same_bits(const tamis_filter *a, const tamis_filter *b)
{
  const struct bloom *x = const_bloom_of(a), *y = const_bloom_of(b);
  const uint64_t keys = bloom_key_bits(x->layout);
  for (uint64_t i = 0; i < x->word_count; i++)
    if ((word_load(&x->words[i]) ^ word_load(&y->words[i])) & keys)
      return false;
  return true;
}

/* What a filter is, to see that a call has not changed it. */
struct state {
  tamis_stats stats;
  uint64_t *words;
};

static struct state state_of(const tamis_filter *f)
{
  const struct bloom *b = const_bloom_of(f);
  struct state state = {stats_of(f), malloc(b->word_count * sizeof(uint64_t))};
  assert_non_null(state.words);
  for (uint64_t i = 0; i < b->word_count; i++)
    state.words[i] = word_load(&b->words[i]);
  return state;
}

static void assert_unchanged(const tamis_filter *f, struct state before)
{
  struct state now = state_of(f);
  assert_memory_equal(&now.stats, &before.stats, sizeof now.stats);
  assert_memory_equal(now.words, before.words, const_bloom_of(f)->word_count * sizeof(uint64_t));
  free(now.words);
  free(before.words);
  assert_valid(f);
}

/* ---- union ---- */

/* All bits are those of a filter to which the keys of both were added. */
static void a_union_is_the_filter_of_all_keys(tamis_layout layout)
{
  const uint64_t capacities[] = {1, 2, 10, 100, 1000, 50000, 2000000 / SCALE};
  for (unsigned c = 0; c < sizeof capacities / sizeof *capacities; c++)
    for (unsigned growable = 0; growable < 2; growable++) {
      uint64_t n = capacities[c], of_a = n / 2, of_b = n - of_a;
      tamis_filter *a = make(layout, n, growable), *b = make(layout, n, growable);
      tamis_filter *all = make(layout, n, growable);
      add_range(a, 0, of_a);
      add_range(b, of_a, of_b);
      add_range(all, 0, n);
      struct state before = state_of(b);
      assert_int_equal(tamis_merge(a, b), TAMIS_OK);
      assert_unchanged(b, before);
      assert_true(same_bits(a, all));
      for (uint64_t i = 0; i < n; i++)
        assert_true(tamis_contains_hash(a, i));
      assert_valid(a);
      tamis_destroy(a);
      tamis_destroy(b);
      tamis_destroy(all);
    }
}
EACH_LAYOUT(a_union_is_the_filter_of_all_keys)

/* The count of keys after a union, with `common` keys in both. */
static uint64_t count_after(tamis_layout layout, uint64_t capacity, uint64_t of_a, uint64_t of_b,
                            uint64_t common)
{
  tamis_filter *a = make(layout, capacity, true), *b = make(layout, capacity, true);
  add_range(a, 0, of_a);
  add_range(b, of_a - common, of_b);
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  uint64_t count = stats_of(a).count;
  tamis_destroy(a);
  tamis_destroy(b);
  return count;
}

/* Within five standard deviations, and one part in a hundred that false positives hide.  In the
 * largest filter the bits of a sample are counted. */
static void a_union_counts_its_keys(tamis_layout layout)
{
  const uint64_t capacities[] = {1000, 30000, 3000000 / SCALE};
  for (unsigned c = 0; c < 3; c++) {
    uint64_t n = capacities[c], tolerance = n / 100 + 5 * (uint64_t) sqrt((double) n);
    const uint64_t common[] = {0, n / 10, n / 3, n / 2};
    for (unsigned i = 0; i < 4; i++) {
      uint64_t count = count_after(layout, n, n / 2, n / 2, common[i]);
      assert_in_range(count, n - common[i] - tolerance, n - common[i] + tolerance);
    }
  }
}
EACH_LAYOUT(a_union_counts_its_keys)

/* A short sample of the bits would have few of them. */
static void few_keys_in_large_filters_are_counted(tamis_layout layout)
{
  enum { CAPACITY = 2000000 };
  tamis_filter *a = make(layout, CAPACITY, true), *b = make(layout, CAPACITY, true);
  add_range(a, 0, 1000);
  add_range(b, 250, 1000);
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  tamis_stats s = stats_of(a);
  assert_in_range(s.count, 1247, 1253);
  assert_in_range(s.estimated_count, 1245, 1255);
  assert_int_equal(s.united_count, s.count - 1000);
  tamis_destroy(a);
  tamis_destroy(b);
}
EACH_LAYOUT(few_keys_in_large_filters_are_counted)

/* What the bits of the common keys hide, each union would count again. */
static void unions_of_nearly_the_same_keys_are_counted(tamis_layout layout)
{
  enum { COMMON = 10000, OWN = 100, FILTERS = 10, ALL = COMMON + FILTERS * OWN };
  tamis_filter *a = make(layout, 20000, true);
  for (uint64_t i = 0; i < FILTERS; i++) {
    tamis_filter *b = make(layout, 20000, true);
    add_range(b, 0, COMMON);
    add_range(b, COMMON + i * OWN, OWN);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK);
    tamis_destroy(b);
  }
  assert_in_range(stats_of(a).count, ALL - 30, ALL + 30);
  tamis_destroy(a);
}
EACH_LAYOUT(unions_of_nearly_the_same_keys_are_counted)

static void the_count_is_exact_where_it_can_be(tamis_layout layout)
{
  for (unsigned growable = 0; growable < 2; growable++) {
    tamis_filter *a = make(layout, 10000, growable), *b = make(layout, 10000, growable);
    add_range(b, 0, 7000);
    tamis_stats of_b = stats_of(b);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK); /* into an empty one */
    assert_int_equal(stats_of(a).count, of_b.count);
    assert_int_equal(stats_of(a).bits_set, of_b.bits_set);
    struct state before = state_of(a);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK); /* of what is in */
    assert_unchanged(a, before);
    tamis_filter *empty = make(layout, 10000, growable);
    before = state_of(a);
    assert_int_equal(tamis_merge(a, empty), TAMIS_OK);
    assert_unchanged(a, before);
    tamis_destroy(a);
    tamis_destroy(b);
    tamis_destroy(empty);
  }
}
EACH_LAYOUT(the_count_is_exact_where_it_can_be)

/* ---- capacity ---- */

static void a_union_beyond_the_capacity_is_refused(tamis_layout layout)
{
  const uint64_t capacities[] = {10, 100, 1000, 10000, 200000};
  for (unsigned c = 0; c < sizeof capacities / sizeof *capacities; c++) {
    uint64_t n = capacities[c];
    tamis_filter *a = make(layout, n, false), *b = make(layout, n, false);
    add_range(a, 0, n * 9 / 10);
    add_range(b, n, n * 9 / 10);
    struct state before = state_of(a);
    assert_int_equal(tamis_merge(a, b), TAMIS_EFULL);
    assert_unchanged(a, before);
    tamis_destroy(a);
    tamis_destroy(b);
  }
}
EACH_LAYOUT(a_union_beyond_the_capacity_is_refused)

/* What adds of new keys return after a union. */
static uint64_t accepted(tamis_filter *f, uint64_t from, uint64_t n)
{
  uint64_t accepted = 0;
  for (uint64_t i = from; i < from + n; i++)
    accepted += tamis_add_unique_hash(f, i) == TAMIS_OK;
  return accepted;
}

/* As many keys as before, and no more than by the bits that the capacity allows. */
static void adds_after_a_union_keep_to_the_capacity(tamis_layout layout)
{
  const uint64_t capacities[] = {100, 1000, 10000, 200000};
  for (unsigned c = 0; c < sizeof capacities / sizeof *capacities; c++) {
    uint64_t n = capacities[c];
    tamis_filter *a = make(layout, n, false), *b = make(layout, n, false);
    add_range(a, 0, n * 4 / 10);
    add_range(b, n * 3 / 10, n * 4 / 10);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK);
    add_range(a, n, n * 3 / 10); /* to the capacity: none is refused */
    uint64_t more = accepted(a, 2 * n, n);
    assert_in_range(more, 0, n / 50 + 4 * (uint64_t) sqrt((double) n));
    const struct bloom *bloom = const_bloom_of(a);
    double most = tamis__bloom_max_bits(bloom) + bloom_shape_bits_per_key(bloom_shape_of(bloom));
    assert_true((double) stats_of(a).bits_set <= most);
    assert_int_equal(
        tamis_add_hash(a, 3 * n + 1) == TAMIS_EFULL || tamis_contains_hash(a, 3 * n + 1), 1);
    assert_valid(a);
    tamis_destroy(a);
    tamis_destroy(b);
  }
}
EACH_LAYOUT(adds_after_a_union_keep_to_the_capacity)

/* A union fills the first layer of a filter that grows: the next key opens another one. */
static void adds_after_a_union_open_a_layer(tamis_layout layout)
{
  const uint64_t capacities[] = {100, 1000, 10000, 200000};
  for (unsigned c = 0; c < sizeof capacities / sizeof *capacities; c++) {
    uint64_t n = capacities[c];
    tamis_filter *a = make(layout, n, true), *b = make(layout, n, true);
    for (uint64_t key = 0; stats_of(b).count < n; key += n - stats_of(b).count)
      add_range(b, key, n - stats_of(b).count);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK);
    assert_int_equal(stats_of(a).layers, 1);
    add_range(a, 10 * n, 10);
    assert_int_equal(stats_of(a).layers, 2);
    tamis_destroy(a);
    tamis_destroy(b);
  }
}
EACH_LAYOUT(adds_after_a_union_open_a_layer)

/* Where it is certain that the capacity is reached, no key is let in. */
static void the_union_with_a_full_filter_is_full(tamis_layout layout)
{
  tamis_filter *a = make(layout, 1000, false), *b = make(layout, 1000, false);
  uint64_t n = 0;
  while (tamis_add_unique_hash(b, n) != TAMIS_EFULL)
    n++;
  uint64_t of_b = stats_of(b).count;
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  assert_true(same_bits(a, b));
  if (of_b == 1000)
    assert_int_equal(accepted(a, 100000, 1000), 0);
  struct state before = state_of(b);
  assert_int_equal(tamis_merge(b, a), TAMIS_OK); /* full, but nothing is missing */
  assert_unchanged(b, before);
  tamis_filter *one = make(layout, 1000, false);
  uint64_t key = 100000;
  while (tamis_contains_hash(b, key))
    key++;
  add_range(one, key, 1);
  before = state_of(b);
  assert_int_equal(tamis_merge(b, one), TAMIS_EFULL);
  assert_unchanged(b, before);
  tamis_destroy(a);
  tamis_destroy(b);
  tamis_destroy(one);
}
EACH_LAYOUT(the_union_with_a_full_filter_is_full)

/* A filter whose words are marked: a union brings keys, and no marks. */
static void marks_stay_where_they_are(void **state)
{
  (void) state;
  tamis_filter *full = make(TAMIS_LAYOUT_WORD, 100, false);
  for (uint64_t i = 0; i < 100000; i++)
    (void) tamis_add_unique_hash(full, i);
  tamis_filter *a = make(TAMIS_LAYOUT_WORD, 100, false);
  assert_int_equal(tamis_merge(a, full), TAMIS_OK);
  uint64_t marks = 0, marks_full = 0;
  for (uint64_t i = 0; i < const_bloom_of(a)->word_count; i++) {
    marks += word_load(&const_bloom_of(a)->words[i]) >> MARKED_POSITIONS;
    marks_full += word_load(&const_bloom_of(full)->words[i]) >> MARKED_POSITIONS;
  }
  assert_int_equal(marks, 0);
  assert_true(marks_full > 0);
  assert_true(same_bits(a, full));
  assert_valid(a);
  tamis_destroy(a);
  tamis_destroy(full);
}

/* ---- what does not fit together ---- */

/* An intersection is a filter with the options of its first one. */
static void an_intersection_has_the_options_of_its_first_filter(tamis_layout layout)
{
  for (unsigned i = 0; i < 8; i++) {
    tamis_options options = options_of(layout, i & 1 ? 50 : 5000, i & 2);
    tamis_filter *b = make_with(&options), *both;
    options.max_bytes = i & 4 ? 1234567 : 0;
    options.stripes = i & 4 ? 64 : 1;
    tamis_filter *a = make_with(&options);
    if (bloom_is_long(const_bloom_of(a))) {
      bloom_long_of(bloom_of(a))->cleared_from = 7;
      bloom_long_of(bloom_of(a))->closes_at -= !const_bloom_of(a)->limited;
    }
    assert_int_equal(tamis_intersect(a, b, &both), TAMIS_OK);
    const struct bloom *x = const_bloom_of(a), *y = const_bloom_of(both);
    assert_int_equal(bloom_max_bytes(y), bloom_max_bytes(x));
    assert_int_equal(bloom_stripes_wanted(y), bloom_stripes_wanted(x));
    assert_int_equal(bloom_cleared_from(y), bloom_cleared_from(x));
    assert_int_equal(bloom_closes_at(y), bloom_closes_at(x));
    assert_true(tamis__bloom_max_bits(y) == tamis__bloom_max_bits(x));
    assert_int_equal(stats_of(both).bytes, stats_of(a).bytes);
    tamis_destroy(a);
    tamis_destroy(b);
    tamis_destroy(both);
  }
}
EACH_LAYOUT(an_intersection_has_the_options_of_its_first_filter)

/* Filters of one size fit, whatever their capacity, but later layers may have different sizes.
 * This is found before a layer is opened. */
static void later_layers_must_fit(tamis_layout layout)
{
  unsigned refused = 0, refused_later = 0;
  for (uint64_t capacity = 1000; capacity < 1100; capacity++) {
    tamis_filter *into = make(layout, capacity, true), *from = make(layout, capacity + 1, true);
    add_range(from, 0, capacity + 100);
    assert_int_equal(stats_of(from).layers, 2);
    int result = tamis_merge(into, from);
    refused += result == TAMIS_EINVAL;
    refused_later +=
        result == TAMIS_EINVAL && bloom_fit_together(const_bloom_of(into), const_bloom_of(from));
    assert_int_equal(stats_of(into).layers, result == TAMIS_OK ? 2 : 1);
    assert_true(result == TAMIS_OK || stats_of(into).bits_set == 0);
    tamis_destroy(into);
    into = make(layout, capacity, true);
    add_range(into, 0, capacity + 100); /* which has a second layer, too */
    const struct bloom *first = const_bloom_of(into), *of_from = const_bloom_of(from);
    bool fit = bloom_fit_together(first, of_from) &&
               bloom_fit_together(newest_layer(first), newest_layer(of_from));
    assert_int_equal(tamis_merge(into, from), fit ? TAMIS_OK : TAMIS_EINVAL);
    tamis_destroy(into);
    tamis_destroy(from);
  }
  assert_in_range(refused, 1, 99);
  assert_in_range(refused_later, 1, 99);
}
EACH_LAYOUT(later_layers_must_fit)

/* ---- saved and mapped filters ---- */

/* A mapped filter can be united with, but not into; and what a union has brought is saved. */
static void unions_of_mapped_filters(tamis_layout layout)
{
  for (unsigned growable = 0; growable < 2; growable++) {
    char path[] = "/tmp/unite-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    tamis_filter *a = make(layout, 10000, growable), *b = make(layout, 10000, growable), *mapped;
    add_range(a, 0, 4000);
    add_range(b, 3000, 4000);
    assert_int_equal(tamis_save_file(b, path), TAMIS_OK);
    assert_int_equal(tamis_map_file(NULL, path, &mapped), TAMIS_OK);
    assert_int_equal(tamis_merge(mapped, a), TAMIS_EUNSUPPORTED);
    assert_true(same_bits(mapped, b));
    assert_int_equal(tamis_merge(a, mapped), TAMIS_OK);
    for (uint64_t i = 0; i < 7000; i++)
      assert_true(tamis_contains_hash(a, i));
    tamis_filter *both;
    assert_int_equal(tamis_intersect(mapped, a, &both), TAMIS_OK);
    assert_true(same_bits(both, b));
    assert_int_equal(tamis_add_hash(both, 1), TAMIS_OK);
    assert_valid(both);
    tamis_destroy(both);
    tamis_destroy(mapped);
    assert_int_equal(tamis_save_file(a, path), TAMIS_OK);
    assert_int_equal(tamis_load_file(NULL, path, &mapped), TAMIS_OK);
    assert_int_equal(stats_of(mapped).count, stats_of(a).count);
    assert_true(same_bits(mapped, a));
    assert_valid(mapped);
    tamis_destroy(mapped);
    tamis_destroy(a);
    tamis_destroy(b);
    unlink(path);
  }
}
EACH_LAYOUT(unions_of_mapped_filters)

/* ---- intersection ---- */

static void an_intersection_answers_as_both_do(tamis_layout layout)
{
  const uint64_t capacities[] = {1, 10, 1000, 100000};
  for (unsigned c = 0; c < 4; c++)
    for (unsigned growable = 0; growable < 2; growable++) {
      uint64_t n = capacities[c];
      tamis_filter *a = make(layout, n, growable), *b = make(layout, n, growable), *both = NULL;
      add_range(a, 0, n * 6 / 10);
      add_range(b, n * 4 / 10, n * 6 / 10);
      assert_int_equal(tamis_intersect(a, b, &both), TAMIS_OK);
      for (uint64_t i = 0; i < 3 * n + 10000; i++)
        assert_int_equal(tamis_contains_hash(both, i),
                         tamis_contains_hash(a, i) && tamis_contains_hash(b, i));
      uint64_t common = n * 6 / 10 - n * 4 / 10;
      double tolerance = 5 * sqrt((double) n) + 1;
      tamis_stats stats = stats_of(both);
      assert_true(fabs((double) stats.count - (double) common) <= tolerance);
      assert_true(stats.estimated_count >= (double) common - tolerance);
      assert_true(stats.fpp_estimate <= stats_of(a).fpp_estimate * 1.0001);
      assert_int_equal(stats.capacity, n);
      assert_int_equal(stats.bits, stats_of(a).bits);
      assert_int_equal(stats.seed, 42);
      assert_valid(both);
      for (uint64_t i = 0; i < n / 10; i++) /* it is a filter like any other */
        assert_int_not_equal(tamis_add_unique_hash(both, 10 * n + i), TAMIS_EFULL);
      assert_valid(both);
      tamis_filter *with_itself;
      assert_int_equal(tamis_intersect(a, a, &with_itself), TAMIS_OK);
      assert_true(same_bits(a, with_itself));
      tamis_destroy(with_itself);
      tamis_destroy(a);
      tamis_destroy(b);
      tamis_destroy(both);
    }
}
EACH_LAYOUT(an_intersection_answers_as_both_do)

/* ---- similarity ---- */

/* docs/bloom.md has this formula. */
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
static void estimates_err_as_documented(tamis_layout layout)
{
  enum { SEEDS = 200 / SCALE, OF_A = 3000 };
  const uint64_t of_b[] = {3000, 3000, 500}, common[] = {0, 1000, 400};
  for (unsigned i = 0; i < 3; i++) {
    double sum = 0, squares = 0, deviation = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      tamis_options options = options_of(layout, 6000, true);
      options.seed = seed;
      tamis_filter *a = make_with(&options), *b = make_with(&options);
      add_range(a, 0, OF_A);
      add_range(b, OF_A - common[i], of_b[i]);
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
      tamis_destroy(a);
      tamis_destroy(b);
    }
    double rms = sqrt(squares / SEEDS) / deviation, noise = 4 / sqrt(2.0 * SEEDS);
    assert_true(rms > 1 - noise && rms < 1.1 + noise);
    assert_true(fabs(sum / SEEDS) < 4 * deviation / sqrt(SEEDS) + 1);
  }
}
EACH_LAYOUT(estimates_err_as_documented)

static void empty_and_equal_and_grown_filters(tamis_layout layout)
{
  tamis_filter *a = make(layout, 100, true), *b = make(layout, 100, true);
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
  tamis_filter *both = a;
  assert_int_equal(tamis_intersect(a, b, &both), TAMIS_EUNSUPPORTED);
  assert_null(both);
  assert_int_equal(tamis_merge(b, a), TAMIS_OK); /* all keys of b are in a */
  assert_true(stats_of(b).layers == stats_of(a).layers && stats_of(b).fpp_estimate < 0.01);
  for (uint64_t i = 0; i < 100000; i++)
    assert_true(tamis_contains_hash(b, i));
  assert_valid(a);
  assert_valid(b);
  tamis_destroy(a);
  tamis_destroy(b);
}
EACH_LAYOUT(empty_and_equal_and_grown_filters)

/* ---- while both are in use ---- */

enum { THREADS = 4, MANY = 40000 / SCALE, ROUNDS = 8 };

struct user {
  tamis_filter *mine, *other;
  uint64_t first;
  unsigned char *won; /* for each key, how many unique adds have won */
  bool good;
  pthread_t thread;
};

/* Adds keys of its own to both filters, and keys of all threads uniquely; and merges one of them
 * into the other. */
static void *use(void *arg)
{
  struct user *user = arg;
  user->good = true;
  for (uint64_t i = 0; i < MANY; i++) {
    (void) tamis_add_hash(user->other, user->first + i);
    if (tamis_add_unique_hash(user->mine, i) == TAMIS_OK)
      __atomic_fetch_add(&user->won[i], 1, __ATOMIC_RELAXED);
    if (i % (MANY / ROUNDS) == 0)
      user->good &= tamis_merge(user->mine, user->other) == TAMIS_OK;
    if (tamis_add_unique_hash(user->mine, i) == TAMIS_OK) /* again: never new */
      user->good = false;
  }
  return NULL;
}

static void both_may_be_in_use(tamis_layout layout)
{
  tamis_filter *f[2] = {make_filter(layout, (THREADS + 2) * MANY, low_rate(layout)),
                        make_filter(layout, (THREADS + 2) * MANY, low_rate(layout))};
  unsigned char *won[2] = {calloc(MANY, 1), calloc(MANY, 1)};
  struct user users[THREADS];
  for (unsigned i = 0; i < THREADS; i++) {
    users[i] = (struct user){.mine = f[i % 2],
                             .other = f[!(i % 2)],
                             .first = (i + 1) * UINT64_C(10000000),
                             .won = won[i % 2]};
    assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
  }
  for (unsigned i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(users[i].thread, NULL), 0);
    assert_true(users[i].good);
  }
  assert_int_equal(tamis_merge(f[0], f[1]), TAMIS_OK);
  assert_int_equal(tamis_merge(f[1], f[0]), TAMIS_OK);
  assert_true(same_bits(f[0], f[1]));
  for (unsigned i = 0; i < 2; i++) {
    for (uint64_t key = 0; key < MANY; key++) {
      assert_in_range(won[i][key], 0, 1);
      assert_true(tamis_contains_hash(f[i], key));
      for (unsigned j = 0; j < THREADS; j++)
        assert_true(tamis_contains_hash(f[i], users[j].first + key));
    }
    assert_valid(f[i]);
    tamis_destroy(f[i]);
    free(won[i]);
  }
}
EACH_LAYOUT(both_may_be_in_use)

/* Threads fill a limited filter while others unite a second one with it. */
static void *fill(void *arg)
{
  struct user *user = arg;
  uint64_t refused = 0;
  for (uint64_t i = 0; i < 4 * MANY; i++)
    refused += tamis_add_unique_hash(user->mine, user->first + i) == TAMIS_EFULL;
  user->good = refused > 0;
  return NULL;
}

static void the_capacity_holds_while_adds_run(tamis_layout layout)
{
  for (unsigned round = 0; round < ROUNDS; round++) {
    tamis_filter *into = make(layout, MANY, false), *from = make(layout, MANY, false);
    add_range(from, 0, MANY * 9 / 10);
    struct user users[2];
    for (unsigned i = 0; i < 2; i++) {
      users[i] = (struct user){.mine = into, .first = (i + 1) * UINT64_C(10000000)};
      assert_int_equal(pthread_create(&users[i].thread, NULL, fill, &users[i]), 0);
    }
    int result = tamis_merge(into, from);
    for (unsigned i = 0; i < 2; i++) {
      assert_int_equal(pthread_join(users[i].thread, NULL), 0);
      assert_true(users[i].good);
    }
    assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
    for (uint64_t i = 0; result == TAMIS_OK && i < MANY * 9 / 10; i++)
      assert_true(tamis_contains_hash(into, i));
    const struct bloom *b = const_bloom_of(into);
    /* One chunk of the union, and 64 keys of each thread. */
    double most =
        tamis__bloom_max_bits(b) + 64 * 512 + 2 * 64 * bloom_shape_bits_per_key(bloom_shape_of(b));
    assert_true((double) stats_of(into).bits_set <= most);
    assert_valid(into);
    tamis_destroy(into);
    tamis_destroy(from);
  }
}
EACH_LAYOUT(the_capacity_holds_while_adds_run)

int main(void)
{
  const struct CMUnitTest tests[] = {
      EACH(a_union_is_the_filter_of_all_keys),
      EACH(a_union_counts_its_keys),
      EACH(few_keys_in_large_filters_are_counted),
      EACH(unions_of_nearly_the_same_keys_are_counted),
      EACH(the_count_is_exact_where_it_can_be),
      EACH(a_union_beyond_the_capacity_is_refused),
      EACH(adds_after_a_union_keep_to_the_capacity),
      EACH(adds_after_a_union_open_a_layer),
      EACH(the_union_with_a_full_filter_is_full),
      cmocka_unit_test(marks_stay_where_they_are),
      EACH(an_intersection_has_the_options_of_its_first_filter),
      EACH(later_layers_must_fit),
      EACH(unions_of_mapped_filters),
      EACH(an_intersection_answers_as_both_do),
      EACH(estimates_err_as_documented),
      EACH(empty_and_equal_and_grown_filters),
      EACH_WITH_THREADS(both_may_be_in_use),
      EACH_WITH_THREADS(the_capacity_holds_while_adds_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
