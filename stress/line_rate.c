/* SPDX-License-Identifier: MIT */
#include "line_rate.h"

#include <math.h>

enum { PATTERNS = 16, SPREADS = 4, MOST_PROBES = 5 };

/* The part of all rotations with which a word has all bits of a pattern. */
static double match(uint64_t word, uint64_t pattern, struct bloom_shape shape)
{
  uint64_t rotations = UINT64_MAX;
  for (; pattern; pattern &= pattern - 1)
    rotations &= rotate_right(word, (unsigned) __builtin_ctzll(pattern));
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

double line_rate(struct bloom_shape shape, const uint64_t words[LINE_WORDS], uint64_t line)
{
  if (bloom_shape_is_word(shape))
    return word_line_rate(shape, words);
  const struct bloom_geometry g = {.shape = shape};
  uint64_t offset[SPREADS][MOST_PROBES];
  for (uint64_t spread = 0; spread < SPREADS; spread++) {
    struct bloom_probes probes = bloom_probes_from(0, spread << SPREAD_FROM_BIT, shape);
    for (unsigned i = 0; i < shape.probes; i++)
      offset[spread][i] = bloom_probes_next(g.words, &probes, shape).word;
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
