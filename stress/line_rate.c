/* SPDX-License-Identifier: MIT */
#include "line_rate.h"

#include <math.h>

enum { PATTERNS = 16, SPREADS = 4 };

/* The part of all rotations with which a word has all bits of a pattern. */
static double match(uint64_t bits, uint64_t pattern, struct bloom_shape shape)
{
  uint64_t rotations = UINT64_MAX;
  for (; pattern; pattern &= pattern - 1)
    rotations &= rotate_right(bits, (unsigned) __builtin_ctzll(pattern));
  return __builtin_popcountll(rotations) / (64.0 / bloom_shape_width(shape));
}

/* Two numbers of 5 bits for the distances in the pattern.  With i from 0 to 15 the first one takes
 * every second value, and the second one all even ones, as it is made odd. */
static uint64_t pattern_of(struct bloom_shape shape, uint64_t line, uint64_t i)
{
  uint64_t second = (2 * i + line) % 32, third = (6 * i + 2 * (line / 32)) % 32;
  return bloom_pattern(second << DISTANCES_FROM_BIT | third << (DISTANCES_FROM_BIT + DISTANCE_BITS),
                       shape);
}

/* Each of a key's bits is any of the word's.  In the marked layout some draws are the mark, and one
 * more bit. */
static double word_line_rate(struct bloom_shape shape, const uint64_t words[LINE_WORDS])
{
  const struct bloom_geometry g = {.shape = shape};
  double sum = 0;
  for (unsigned w = 0; w < LINE_WORDS; w++) {
    double set = __builtin_popcountll(words[w] & bloom_key_bits(g.shape.layout));
    double match = pow(set / 64, shape.bits_per_probe);
    if (shape.layout == BLOOM_LAYOUT_MARKED)
      match += (pow((set + 1) / 64, shape.bits_per_probe) - match) * set / MARKED_POSITIONS;
    sum += match;
  }
  return sum / LINE_WORDS;
}

/* The part of all keys in a line that match its `words`.  In the blocked layout, all first words,
 * spreads and rotations are tried, but only 16 of the patterns: other ones for each number `line`,
 * so that the average over many lines is exact. */
static double line_rate(struct bloom_shape shape, const uint64_t words[LINE_WORDS], uint64_t line)
{
  if (bloom_shape_is_word(shape))
    return word_line_rate(shape, words);
  uint64_t offset[SPREADS][BLOOM_MAX_PROBES];
  for (uint64_t spread = 0; spread < SPREADS; spread++) {
    struct bloom_probes probes = bloom_probes_from(0, spread << SPREAD_FROM_BIT, shape);
    for (unsigned i = 0; i < shape.probes; i++)
      offset[spread][i] = bloom_probes_next(&probes, shape).word;
  }
  double sum = 0;
  for (uint64_t p = 0; p < PATTERNS; p++) {
    double matches[LINE_WORDS];
    for (unsigned w = 0; w < LINE_WORDS; w++)
      matches[w] = match(words[w], pattern_of(shape, line, p), shape);
    for (uint64_t spread = 0; spread < SPREADS; spread++)
      for (uint64_t first = 0; first < LINE_WORDS; first++) {
        double all = 1;
        for (unsigned i = 0; i < shape.probes; i++)
          all *= matches[first ^ offset[spread][i]];
        sum += all;
      }
  }
  return sum / (PATTERNS * SPREADS * LINE_WORDS);
}

/* Of one section, which begins at word `first`.  If a key has one word, the section need not end with
 * a line: the rest is taken word by word. */
static double section_rate(const struct bloom_geometry *g, uint64_t first,
                           double *relative_variance,
                           uint64_t (*load)(const void *words, uint64_t i), const void *words)
{
  const uint64_t n = bloom_section_words(g->shape, g->words), lines = n / LINE_WORDS;
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < n;) {
    uint64_t line[LINE_WORDS];
    const unsigned step = i < lines * LINE_WORDS ? LINE_WORDS : 1;
    for (unsigned w = 0; w < LINE_WORDS; w++)
      line[w] = load(words, first + i + w % step);
    double rate = line_rate(g->shape, line, i / LINE_WORDS), part = step / (double) LINE_WORDS;
    sum += rate * part;
    squares += rate * rate * part;
    i += step;
  }
  double all = (double) n / LINE_WORDS, mean = sum / all;
  double variance = fmax(0, squares / all - mean * mean) / all;
  *relative_variance += mean > 0 ? variance / (mean * mean) : 0;
  return mean;
}

double rate_from_bits(const struct bloom_geometry *g, double *deviation,
                      uint64_t (*load)(const void *words, uint64_t i), const void *words)
{
  double rate = 1, relative_variance = 0;
  for (unsigned i = 0; i < g->shape.sections; i++)
    rate *= section_rate(g, i * bloom_section_words(g->shape, g->words), &relative_variance, load,
                         words);
  *deviation = rate * sqrt(relative_variance);
  return rate;
}

static uint64_t positions_of_word(const void *filter, uint64_t i)
{
  const struct bloom *b = filter;
  return bloom_positions_set(word_load(&b->words[i]), b->layout);
}

double rate_of_filter(const struct bloom *b, double *deviation)
{
  const struct bloom_geometry g = bloom_geometry_of(b);
  return rate_from_bits(&g, deviation, positions_of_word, b);
}

unsigned probes_of_key(const struct bloom_geometry *g, uint64_t mixed,
                       struct bloom_probe out[MOST_PROBES_OF_KEY])
{
  const uint64_t section_words = bloom_section_words(g->shape, g->words);
  struct bloom_probes probes = bloom_probes_begin(section_words, mixed, g->shape);
  unsigned n = 0;
  for (unsigned section = 0; section < g->shape.sections; section++) {
    for (unsigned i = 0; i < g->shape.probes; i++)
      out[n++] = bloom_probes_next(&probes, g->shape);
    bloom_probes_next_section(section_words, &probes, g->shape);
  }
  return n;
}
