/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "bloom/bloom.h"
#include "harness.h"
#include "line_rate.h"

#include <math.h>

static const double rates[] = {0.9,  0.5,  0.3,  0.1,  0.05, 0.02, 0.01,
                               4e-3, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8};
enum { RATES = sizeof rates / sizeof *rates };

/* The lowest rate that 64-bit hashes allow. */
static bool possible(uint64_t capacity, double fpp)
{
  return fpp > 1000 * (double) capacity * 0x1p-64;
}

static struct bloom_geometry plan(tamis_layout layout, uint64_t capacity, double fpp)
{
  struct bloom_geometry g = {0};
  assert_int_equal(bloom_geometry_plan(layout, capacity, fpp, &g), TAMIS_OK);
  return g;
}

/* All of them, with the ones that the library has for itself. */
enum { LAYOUTS = BLOOM_LAYOUT_COUNTING + 1 };

/* The word and counting layouts are not planned for low rates. */
static bool planned(int layout, uint64_t capacity, double fpp)
{
  struct bloom_geometry g;
  return layout <= TAMIS_LAYOUT_CLASSIC ||
         bloom_geometry_plan((tamis_layout) layout, capacity, fpp, &g) == TAMIS_OK;
}

static void assert_close(double a, double b, double relative)
{
  if (!(fabs(a - b) <= relative * fabs(b)))
    fail_msg("%g is not within %g of %g", a, relative, b);
}

/* Probes stay in the array.  In the blocked layout they stay in one line, in different words of
 * it, and every word is used.  Large arrays are used beyond their first 2^32 bits. */
TEST(probes_are_where_they_should_be)
{
  for (unsigned r = 0; r < RATES; r++)
    for (int layout = 0; layout < LAYOUTS; layout++)
      for (uint64_t capacity = 1; capacity <= UINT64_C(1) << 34; capacity <<= 17) {
        if (!planned(layout, capacity, rates[r]))
          continue;
        struct bloom_geometry g = plan((tamis_layout) layout, capacity, rates[r]);
        uint64_t highest = 0, words_used = 0, masks = 0;
        for (uint64_t i = 0; i < 4000; i++) {
          struct bloom_probe probes[MOST_PROBES_OF_KEY];
          const unsigned n = probes_of_key(&g, random_at(r, i), probes);
          const uint64_t section_words = bloom_section_words(g.shape, g.words);
          uint64_t line = 0, seen = 0;
          assert_int_equal(n, g.shape.sections * g.shape.probes);
          for (unsigned t = 0; t < n; t++) {
            const struct bloom_probe probe = probes[t];
            const bool begins = t % g.shape.probes == 0;
            assert_in_range(probe.word, t / g.shape.probes * section_words,
                            (t / g.shape.probes + 1) * section_words - 1);
            assert_true(probe.word < g.words);
            assert_in_range(__builtin_popcountll(probe.mask), 1, g.shape.bits_per_probe);
            masks |= probe.mask;
            highest = probe.word > highest ? probe.word : highest;
            words_used |= UINT64_C(1) << probe.word % LINE_WORDS;
            assert_int_equal(probe.mask & ~bloom_key_bits(g.shape.layout), 0);
            if (g.shape.probes > 1) {
              assert_true(begins || probe.word / LINE_WORDS == line);
              seen = begins ? 0 : seen;
              assert_false(seen >> probe.word % LINE_WORDS & 1);
              seen |= UINT64_C(1) << probe.word % LINE_WORDS;
              line = probe.word / LINE_WORDS;
            }
          }
        }
        uint64_t in_use = bloom_section_words(g.shape, g.words) * g.shape.sections;
        assert_int_equal(words_used, in_use < LINE_WORDS ? (1 << in_use) - 1 : 0xff);
        if (g.shape.layout == BLOOM_LAYOUT_COUNTING) /* at the lowest bits of counters */
          assert_int_equal(masks & ~UINT64_C(0x1111111111111111), 0);
        if (capacity == UINT64_C(1) << 34 && rates[r] <= 0.5)
          assert_true(highest * 64 > UINT64_C(1) << 32);
      }
}

/* The formula against a filter of plain bits, on small arrays where it is easy to be wrong. */
TEST(rate_formula_matches_simulation)
{
  enum { FILTERS = 400, PROBES = 4000 };
  const struct {
    struct bloom_shape shape; /* layout, probes, bits, sections */
    uint64_t lines, keys;
  } cases[] = {{{TAMIS_LAYOUT_BLOCKED, 2, 3, 1}, 1, 50},  {{TAMIS_LAYOUT_BLOCKED, 2, 3, 1}, 5, 300},
               {{TAMIS_LAYOUT_BLOCKED, 1, 3, 1}, 4, 300}, {{TAMIS_LAYOUT_BLOCKED, 4, 3, 1}, 3, 90},
               {{TAMIS_LAYOUT_BLOCKED, 2, 2, 1}, 2, 250}, {{TAMIS_LAYOUT_BLOCKED, 2, 2, 1}, 4, 90},
               {{TAMIS_LAYOUT_BLOCKED, 3, 3, 2}, 4, 160}, {{TAMIS_LAYOUT_BLOCKED, 3, 3, 3}, 3, 90},
               {{TAMIS_LAYOUT_CLASSIC, 1, 2, 3}, 1, 60},  {{TAMIS_LAYOUT_CLASSIC, 1, 2, 1}, 2, 400},
               {{TAMIS_LAYOUT_CLASSIC, 1, 2, 5}, 4, 150}, {{TAMIS_LAYOUT_WORD, 1, 1, 1}, 1, 400},
               {{TAMIS_LAYOUT_WORD, 1, 3, 1}, 3, 300},    {{TAMIS_LAYOUT_WORD, 1, 5, 1}, 5, 180},
               {{TAMIS_LAYOUT_WORD, 1, 7, 1}, 4, 90},     {{BLOOM_LAYOUT_MARKED, 1, 1, 1}, 1, 400},
               {{BLOOM_LAYOUT_MARKED, 1, 3, 1}, 3, 300},  {{BLOOM_LAYOUT_MARKED, 1, 5, 1}, 5, 180},
               {{BLOOM_LAYOUT_MARKED, 1, 7, 1}, 4, 90},   {{BLOOM_LAYOUT_COUNTING, 1, 1, 1}, 2, 60},
               {{BLOOM_LAYOUT_COUNTING, 1, 2, 1}, 3, 90}, {{BLOOM_LAYOUT_COUNTING, 2, 2, 1}, 4, 80},
               {{BLOOM_LAYOUT_COUNTING, 3, 2, 1}, 1, 12}, {{BLOOM_LAYOUT_COUNTING, 4, 2, 1}, 5, 50},
               {{BLOOM_LAYOUT_COUNTING, 5, 2, 1}, 5, 40}};
  for (unsigned s = 0; s < sizeof cases / sizeof *cases; s++) {
    const struct bloom_geometry of_case = {.shape = cases[s].shape,
                                           .capacity = cases[s].keys,
                                           .words = cases[s].lines * LINE_WORDS},
                                *g = &of_case;
    const double keys = (double) g->capacity, rate = bloom_geometry_rate(g, keys);
    const uint64_t absent = rate < 0.002 ? 4 * PROBES : PROBES;
    uint64_t hits = 0, set = 0, seed = s;
    for (unsigned f = 0; f < FILTERS; f++) {
      uint64_t words[5 * LINE_WORDS] = {0};
      for (uint64_t i = 0; i < g->capacity + absent; i++) {
        struct bloom_probe probes[MOST_PROBES_OF_KEY];
        const unsigned n = probes_of_key(g, random_next(&seed), probes);
        unsigned missing = 0;
        for (unsigned t = 0; t < n; t++) {
          if (i < g->capacity)
            words[probes[t].word] |= probes[t].mask;
          else
            missing |= (probes[t].mask & ~words[probes[t].word]) != 0;
        }
        hits += i >= g->capacity && !missing;
      }
      for (unsigned w = 0; w < g->words; w++)
        set += (unsigned) __builtin_popcountll(words[w]);
    }
    assert_close((double) hits / FILTERS / (double) absent, rate, 0.02 + 5 / sqrt((double) hits));
    assert_close((double) set / FILTERS, bloom_geometry_bits_set(g, keys), 0.005);
  }
}

#define SHAPE(probes, bits) {TAMIS_LAYOUT_BLOCKED, probes, bits, 1},
#define COUNTING_SHAPE(probes, bits) {BLOOM_LAYOUT_COUNTING, probes, bits, 1},
static const struct bloom_shape blocked_shapes[] = {BLOOM_BLOCKED_SHAPES(SHAPE)
                                                        BLOOM_COUNTING_SHAPES(COUNTING_SHAPE)};
#undef SHAPE
#undef COUNTING_SHAPE
enum { BLOCKED_SHAPES = sizeof blocked_shapes / sizeof *blocked_shapes };

/* A look-up tests for the pattern that an add sets.  Its bits differ. */
TEST(patterns_match_themselves)
{
  for (unsigned s = 0; s < BLOCKED_SHAPES; s++)
    for (uint64_t i = 0; i < 100000; i++) {
      uint64_t hash = random_at(s, 2 * i), bits = random_at(s, 2 * i + 1);
      uint64_t pattern = bloom_pattern(hash, blocked_shapes[s]);
      assert_int_equal(__builtin_popcountll(pattern), blocked_shapes[s].bits_per_probe);
      assert_true(bloom_pattern_matches(bits | pattern, hash, blocked_shapes[s]) & 1);
      assert_int_equal(bloom_pattern_matches(bits, hash, blocked_shapes[s]) & 1,
                       (bits & pattern) == pattern);
    }
}

/* The independent parts of a key's probe sequence: the first word of the line, the spread, the
 * pattern's two distances, and the rotations. */
enum { FIXED_PARTS = 4, MOST_PARTS = FIXED_PARTS + 5 };

static unsigned parts_of(const struct bloom_geometry *g, uint64_t hash, unsigned parts[MOST_PARTS])
{
  struct bloom_probes probes = bloom_probes_begin(g->words, hash, g->shape);
  uint64_t pattern = bloom_pattern(hash, g->shape);
  parts[0] = (unsigned) probes.word % LINE_WORDS;
  parts[1] = (unsigned) probes.spread;
  parts[2] = (unsigned) __builtin_ctzll(pattern) % 32 / bloom_shape_width(g->shape);
  parts[3] = g->shape.bits_per_probe > 2 ? (31 - (unsigned) __builtin_clzll(pattern)) / 2 : 0;
  for (unsigned i = 0; i < g->shape.probes; i++)
    parts[FIXED_PARTS + i] =
        bloom_probes_next(&probes, g->shape).rotation / bloom_shape_width(g->shape);
  return FIXED_PARTS + g->shape.probes;
}

TEST(parts_do_not_depend_on_each_other)
{
  enum { MANY_KEYS = 300000 };
  static unsigned together[MOST_PARTS][MOST_PARTS][64][64];
  for (unsigned s = 0; s < BLOCKED_SHAPES; s++) {
    struct bloom_shape shape = blocked_shapes[s];
    const struct bloom_geometry g = {.shape = shape, .words = 8000};
    const unsigned rotations = 64 / bloom_shape_width(shape);
    const unsigned values[MOST_PARTS] = {8,
                                         4,
                                         shape.bits_per_probe > 1 ? rotations / 2 : 1,
                                         shape.bits_per_probe > 2 ? 16 : 1,
                                         rotations,
                                         rotations,
                                         rotations,
                                         rotations,
                                         rotations};
    unsigned parts[MOST_PARTS], n = 0;
    memset(together, 0, sizeof together);
    for (uint64_t i = 0; i < MANY_KEYS; i++) {
      n = parts_of(&g, random_at(s, i), parts);
      for (unsigned a = 0; a < n; a++)
        for (unsigned b = 0; b < a; b++)
          together[a][b][parts[a]][parts[b]]++;
    }
    for (unsigned a = 0; a < n; a++)
      for (unsigned b = 0; b < a; b++) {
        double expected = (double) MANY_KEYS / values[a] / values[b];
        for (unsigned x = 0; x < values[a]; x++)
          for (unsigned y = 0; y < values[b]; y++)
            assert_close(together[a][b][x][y], expected, 6 / sqrt(expected));
      }
  }
}

static uint64_t plain_word(const void *words, uint64_t i)
{
  return ((const uint64_t *) words)[i];
}

/* One in a thousand, and three deviations of that. */
static unsigned most_above(unsigned filters)
{
  double expected = filters / 1000.0;
  return (unsigned) (expected + 3 * sqrt(expected));
}

/* A small filter is one draw: at most one in a thousand is more than a tenth above the rate,
 * whatever the average of all is. */
TEST(small_filters_keep_the_rate_too)
{
  enum { MOST_LINES = 300, LARGEST_MARGIN = 4 };
  const struct {
    tamis_layout layout;
    uint64_t keys;
    double fpp;
  } small[] = {{TAMIS_LAYOUT_BLOCKED, 100, 0.01},   {TAMIS_LAYOUT_BLOCKED, 500, 0.001},
               {TAMIS_LAYOUT_BLOCKED, 500, 1e-4},   {TAMIS_LAYOUT_BLOCKED, 1000, 1e-4},
               {TAMIS_LAYOUT_BLOCKED, 1000, 1e-6},  {TAMIS_LAYOUT_BLOCKED, 1000, 1e-7},
               {TAMIS_LAYOUT_BLOCKED, 300, 2e-7},   {TAMIS_LAYOUT_BLOCKED, 1000, 1e-8},
               {TAMIS_LAYOUT_BLOCKED, 3000, 1e-5},  {TAMIS_LAYOUT_CLASSIC, 100, 0.01},
               {TAMIS_LAYOUT_CLASSIC, 100, 1e-9},   {TAMIS_LAYOUT_WORD, 100, 0.1},
               {TAMIS_LAYOUT_WORD, 300, 0.01},      {TAMIS_LAYOUT_WORD, 1000, 0.01},
               {TAMIS_LAYOUT_WORD, 1000, 0.001},    {TAMIS_LAYOUT_WORD, 3000, 0.0003},
               {BLOOM_LAYOUT_MARKED, 30, 0.01},     {BLOOM_LAYOUT_MARKED, 1000, 0.003},
               {BLOOM_LAYOUT_MARKED, 3000, 0.0003}, {BLOOM_LAYOUT_COUNTING, 30, 0.1},
               {BLOOM_LAYOUT_COUNTING, 100, 0.01},  {BLOOM_LAYOUT_COUNTING, 1000, 0.01},
               {BLOOM_LAYOUT_COUNTING, 300, 0.001}, {BLOOM_LAYOUT_COUNTING, 1000, 0.0005},
               {BLOOM_LAYOUT_COUNTING, 500, 1e-4},  {BLOOM_LAYOUT_COUNTING, 300, 2e-5}};
  unsigned all_above = 0, all_filters = 0;
  for (unsigned s = 0; s < sizeof small / sizeof *small; s++) {
    struct bloom_geometry g = plan(small[s].layout, small[s].keys, small[s].fpp);
    assert_true(g.words <= MOST_LINES * LINE_WORDS);
    /* Where the margin is largest, fewer filters would not tell whether it is large enough. */
    const unsigned filters = (is_long() || s == LARGEST_MARGIN ? 3000 : 1000) / SCALE;
    unsigned above = 0;
    uint64_t seed = s;
    for (unsigned f = 0; f < filters; f++) {
      uint64_t words[MOST_LINES * LINE_WORDS] = {0};
      for (uint64_t i = 0; i < small[s].keys; i++) {
        struct bloom_probe probes[MOST_PROBES_OF_KEY];
        const unsigned n = probes_of_key(&g, random_next(&seed), probes);
        for (unsigned t = 0; t < n; t++)
          words[probes[t].word] |= probes[t].mask;
      }
      double unused;
      above += rate_from_bits(&g, &unused, plain_word, words) > 1.1 * small[s].fpp;
    }
    assert_in_range(above, 0, most_above(filters));
    all_above += above;
    all_filters += filters;
  }
  assert_in_range(all_above, 0, all_filters / 1000);
}

/* Two missing bits count as much as three where a key has one line. */
static int width_of(const struct bloom_geometry *g, uint64_t missing)
{
  int width = __builtin_popcountll(missing);
  return g->shape.sections == 1 && !bloom_shape_is_word(g->shape) && width > 2 ? 2 : width;
}

/* How many keys of a whole filling get the bits of their widest gap from another key, if one is added
 * between the look and the OR of each: the OR of the other key is in the same word with the
 * probability of probes / words, and there it has a pattern of its own. */
static double lost_keys(tamis_layout layout, double fpp, double *deviation)
{
  enum { ALL_KEYS = 20000 / SCALE, ROUNDS = 100, MOST_WORDS = 1 << 15 };
  const struct bloom_geometry g = plan(layout, ALL_KEYS, fpp);
  const uint64_t section_words = bloom_section_words(g.shape, g.words);
  static uint64_t words[MOST_WORDS];
  uint64_t hits = 0, seed = 1;
  assert_true(g.words <= MOST_WORDS);
  for (unsigned round = 0; round < ROUNDS; round++) {
    memset(words, 0, sizeof words);
    for (unsigned key = 0; key < ALL_KEYS; key++) {
      struct bloom_probe probes[MOST_PROBES_OF_KEY];
      const unsigned n = probes_of_key(&g, random_next(&seed), probes);
      uint64_t other = random_next(&seed), widest = 0;
      for (unsigned i = 0; i < n; i++) {
        uint64_t missing = probes[i].mask & ~words[probes[i].word];
        if (missing && width_of(&g, missing) >= width_of(&g, widest))
          widest = missing;
        words[probes[i].word] |= probes[i].mask;
      }
      other = bloom_shape_is_word(g.shape)
                  ? bloom_word_mask(other, g.shape)
                  : rotate_left(bloom_pattern(other, g.shape), (unsigned) random_next(&seed) % 64);
      hits += widest && !(widest & ~other);
    }
  }
  *deviation = 1 / sqrt(fmax(1, (double) hits));
  return (double) hits / ROUNDS * g.shape.probes / (double) section_words;
}

/* The figures of guarantee B in docs/internals/correctness.md. */
TEST(another_key_rarely_fills_the_last_gap)
{
  const struct {
    tamis_layout layout;
    double fpp, keys;
  } figures[] = {
      {TAMIS_LAYOUT_BLOCKED, 0.1, 0.24},    {TAMIS_LAYOUT_BLOCKED, 0.01, 0.04},
      {TAMIS_LAYOUT_BLOCKED, 0.001, 0.018}, {TAMIS_LAYOUT_BLOCKED, 1e-4, 0.011},
      {TAMIS_LAYOUT_BLOCKED, 1e-6, 0.002},  {TAMIS_LAYOUT_BLOCKED, 1e-9, 0.001},
      {TAMIS_LAYOUT_CLASSIC, 0.01, 0.09},   {TAMIS_LAYOUT_CLASSIC, 1e-6, 0.016},
      {TAMIS_LAYOUT_WORD, 0.01, 0.01},
  };
  for (unsigned i = 0; i < sizeof figures / sizeof *figures; i++) {
    double deviation, keys = lost_keys(figures[i].layout, figures[i].fpp, &deviation);
    double most = 1.4 * (1 + 4 * deviation);
    if (keys > most * figures[i].keys || keys < figures[i].keys / most)
      fail_msg("layout %d, fpp %g: %g keys of a filling", (int) figures[i].layout, figures[i].fpp,
               keys);
  }
}

/* The plan keeps its promise, with what docs/internals/bloom.md sets aside for the generator of positions,
 * and no plan 2 % smaller would. */
TEST(plan_is_the_smallest_that_keeps_the_rate)
{
  for (unsigned r = 0; r < RATES; r++)
    for (int layout = 0; layout < LAYOUTS; layout++)
      for (uint64_t capacity = 1; capacity <= UINT64_C(1) << 40 && possible(capacity, rates[r]);
           capacity *= 32) {
        if (!planned(layout, capacity, rates[r]))
          continue;
        struct bloom_geometry g = plan((tamis_layout) layout, capacity, rates[r]);
        assert_int_equal(g.capacity, capacity);
        double reserve = 1 + 0.002 * bloom_shape_bits_per_key(g.shape);
        assert_true(bloom_geometry_rate(&g, (double) capacity) * reserve <= rates[r]);
        double bits = bloom_geometry_bits_set(&g, (double) capacity);
        if (capacity > 1000) /* the inverse */
          assert_close(bloom_geometry_keys(&g, (uint64_t) bits), (double) capacity, 0.01);
        assert_true(bloom_geometry_keys(&g, 0) == 0 && bloom_geometry_bits_set(&g, 0) == 0);
        assert_true(isfinite(bloom_geometry_keys(&g, bloom_geometry_bits(&g)))); /* every bit set */
        /* Saved filters have such figures, and are the same from every compiler: 0, and not -0. */
        assert_false(signbit(bloom_geometry_bits_set(&g, 0)) ||
                     signbit(bloom_geometry_rate(&g, 0)));
        if (capacity < UINT64_C(1) << 25)
          continue; /* smaller ones have a margin for chance */
        const double textbook = -log(rates[r]) / (M_LN2 * M_LN2) * (double) capacity;
        if (layout == TAMIS_LAYOUT_CLASSIC && rates[r] < 0.4)
          assert_close((double) bloom_geometry_bits(&g), textbook, 0.025);
        g.words = g.words / LINE_WORDS / 100 * 98 * LINE_WORDS;
        assert_true(bloom_geometry_rate(&g, (double) capacity) > 0.96 * rates[r]);
      }
}

/* Two words for each key need at most 0.8 % more bits than three, and fewer instructions. */
TEST(a_higher_rate_needs_no_more_bits)
{
  for (uint64_t capacity = 100; capacity <= 10000000; capacity *= 10) {
    uint64_t words = UINT64_MAX;
    for (double fpp = 1e-8; fpp < 0.5; fpp *= 1.03) {
      const struct bloom_geometry g = plan(TAMIS_LAYOUT_BLOCKED, capacity, fpp);
      assert_true((double) g.words <= (double) words * 1.008);
      assert_true(fpp / 1.1 < g.fpp && g.fpp <= fpp);
      words = g.words;
    }
  }
}

TEST(the_default_rate_has_two_words)
{
  for (uint64_t capacity = 1000; capacity <= 10000000; capacity *= 10) {
    assert_int_equal(plan(TAMIS_LAYOUT_BLOCKED, capacity, 0.01).shape.probes, 2);
    assert_int_equal(
        plan(TAMIS_LAYOUT_BLOCKED, capacity, 0.01 * bloom_geometry_share(1)).shape.probes, 2);
  }
}

/* Of a word layout: each rate that would cost more is refused. */
TEST(a_word_takes_at_most_twice_what_blocked_takes)
{
  for (int layout = TAMIS_LAYOUT_WORD; layout <= (int) BLOOM_LAYOUT_MARKED; layout++)
    for (uint64_t capacity = 1; capacity <= 1000000000; capacity = capacity * 5 / 2 + 1) {
      double lowest = tamis__bloom_lowest_rate((tamis_layout) layout, capacity);
      assert_true(lowest < 0.0025 && (capacity < 100000 || (lowest > 1.4e-4 && lowest < 1.75e-4)));
      for (double fpp = 0.9; fpp > 1e-5; fpp *= 0.8) {
        struct bloom_geometry g, blocked = plan(TAMIS_LAYOUT_BLOCKED, capacity, fpp);
        int result = bloom_geometry_plan((tamis_layout) layout, capacity, fpp, &g);
        assert_true(result == TAMIS_OK || (result == TAMIS_EUNSUPPORTED && fpp < lowest));
        assert_true(result != TAMIS_OK || g.words <= 2 * blocked.words);
      }
    }
}
