/* SPDX-License-Identifier: MIT
 *
 * Layer 2: batches of look-ups in a Bloom filter, eight keys at a time.
 *
 * The answers are those of operations.c, because the same loads read the words in the same order:
 * all words of one key, then those of the next key (base/vector.h says why the order matters).
 * This code serves only shapes of one or two sections: most look-ups of absent keys end after the
 * first section, so with more sections it would read many words in vain.
 */
#ifndef TAMIS_LIB_BLOOM_VECTORS_H
#define TAMIS_LIB_BLOOM_VECTORS_H

#include "base/vector.h"
#include "bloom/gaps.h"

#ifdef TAMIS_VECTORS

enum { VECTOR_SECTIONS = 2, VECTOR_WORDS = 2 * SECTION_PROBES };

struct bloom_keys {
  vector hash[VECTOR_SECTIONS]; /* the mixed hashes of the keys in each section */
  vector word[VECTOR_WORDS];    /* the indices of the words, section by section */
};

VECTOR_CODE FORCE_INLINE vector vector_word_mask(vector hash, struct bloom_shape shape)
{
  vector mask = vector_of(0), rotations = hash;
  UNROLL
  for (unsigned i = 0; i < shape.bits_per_probe; i++, rotations >>= ROTATION_BITS)
    mask = vector_rotate_left(mask | 1, rotations);
  if (shape.layout == BLOOM_LAYOUT_MARKED)
    mask = (mask & ~WORD_MARK) | (mask >> MARKED_POSITIONS)
                                     << vector_upper_half(hash, MARKED_POSITIONS);
  return mask;
}

VECTOR_CODE FORCE_INLINE vector vector_pattern(vector hash, struct bloom_shape shape)
{
  vector pattern = vector_of(UINT64_C(1) << 32);
  if (shape.bits_per_probe > 1)
    pattern |= vector_of(1) << (hash >> DISTANCES_FROM_BIT) % 32;
  if (shape.bits_per_probe > 2)
    pattern |= vector_of(UINT64_C(1) << 32)
               << (hash >> (DISTANCES_FROM_BIT + DISTANCE_BITS) | 1) % 32;
  return pattern;
}

VECTOR_CODE FORCE_INLINE void vector_prepare(const struct bloom *b, const uint64_t *hashes,
                                             size_t n, struct bloom_keys *keys,
                                             struct bloom_shape shape)
{
  const word *words = b->words;
  const uint64_t of_section = section_words(b, shape);
  vector hash = vector_mix(&b->head.keys, vector_load(hashes, n)), *at = keys->word;
  UNROLL
  for (unsigned section = 0; section < shape.sections; section++, at += shape.probes) {
    if (section > 0)
      hash = vector_spread(hash);
    keys->hash[section] = hash;
    const vector spread = hash >> SPREAD_FROM_BIT, begin = vector_of(section * of_section);
    vector in_section = vector_upper_half(hash * HASH_MULTIPLIER, of_section);
    at[0] = in_section + begin;
    UNROLL
    for (unsigned i = 1; i < shape.probes; i++) {
      in_section ^= spread + bloom_steps[i - 1];
      at[i] = in_section + begin;
    }
    UNROLL
    for (unsigned lane = 0; lane < VECTOR_LANES; lane++)
      __builtin_prefetch(&words[at[0][lane]]);
  }
}

VECTOR_CODE FORCE_INLINE void vector_read(const word *words, const struct bloom_keys *keys,
                                          vector values[VECTOR_WORDS], struct bloom_shape shape)
{
  const unsigned n = shape.sections * shape.probes;
  uint64_t of_probe[VECTOR_WORDS][VECTOR_LANES];
  UNROLL
  for (unsigned lane = 0; lane < VECTOR_LANES; lane++) {
    UNROLL
    for (unsigned i = 0; i < n; i++)
      of_probe[i][lane] = word_load(&words[keys->word[i][lane]]);
  }
  UNROLL
  for (unsigned i = 0; i < n; i++)
    values[i] = vector_from(of_probe[i]);
}

/* Returns the lanes whose keys have all their bits in a section with the words `values`. */
VECTOR_CODE FORCE_INLINE vector_lanes vector_lookup_section(const vector *values, vector hash,
                                                            struct bloom_shape shape)
{
  vector in = vector_rotate_right(values[0], hash);
  UNROLL
  for (unsigned i = 1; i < shape.probes; i++)
    in &= vector_rotate_right(values[i], hash >> (ROTATION_BITS * i));
  return vector_zero_lanes(vector_pattern(hash, shape) & ~in);
}

VECTOR_CODE FORCE_INLINE vector_lanes vector_lookup(const word *words,
                                                    const struct bloom_keys *keys,
                                                    struct bloom_shape shape)
{
  vector values[VECTOR_WORDS];
  vector_read(words, keys, values, shape);
  if (bloom_shape_is_word(shape))
    return vector_zero_lanes(vector_word_mask(keys->hash[0], shape) & ~values[0]);
  vector_lanes in = vector_lookup_section(values, keys->hash[0], shape);
  if (shape.sections == VECTOR_SECTIONS)
    in &= vector_lookup_section(values + shape.probes, keys->hash[1], shape);
  return in;
}

VECTOR_CODE FORCE_INLINE size_t vector_contains_many(const struct bloom *b, const uint64_t *hashes,
                                                     size_t n, bool *found,
                                                     struct bloom_shape shape)
{
  struct bloom_keys ahead[FILTER_AHEAD / VECTOR_LANES];
  const word *words = b->words;
  size_t hits = 0;
  for (size_t i = 0; i < n + FILTER_AHEAD; i += VECTOR_LANES) {
    struct bloom_keys *keys = &ahead[i % FILTER_AHEAD / VECTOR_LANES];
    size_t turn = i - FILTER_AHEAD;
    if (i >= FILTER_AHEAD)
      hits +=
          vector_found(vector_lookup(words, keys, shape), n - turn, found ? found + turn : NULL);
    if (i < n)
      vector_prepare(b, hashes + i, n - i, keys, shape);
  }
  return hits;
}

#endif

#endif
