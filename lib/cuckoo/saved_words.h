/* SPDX-License-Identifier: MIT
 *
 * Layer 2: checks the words of a saved segment.
 */
#ifndef TAMIS_LIB_CUCKOO_SAVED_WORDS_H
#define TAMIS_LIB_CUCKOO_SAVED_WORDS_H

#include "cuckoo/table.h"
#include "table/lanes.h"

/* Checks `rows` rows of words.  Column j has the words of stripe j.  Adds to each lane of sums[j]
 * the number of these words in which the lane is in use.  Returns 0 if all entries are valid.
 * `ages` is a constant, and the loop has only one condition, so that compilers use vectors. */
FORCE_INLINE uint64_t check_rows(const struct lane_shape *s, const uint64_t *words, uint32_t rows,
                                 uint32_t columns, uint64_t markers, bool ages, uint64_t *sums)
{
  const struct lane_shape shape = *s;
  const uint64_t lanes = shape.low * lane_bits(shape.width);
  uint64_t wrong = 0;
  for (uint32_t row = 0; row < rows; row++, words += columns)
    for (uint32_t j = 0; j < columns; j++) {
      uint64_t in_use = lanes_as_ones(&shape, words[j]);
      sums[j] += in_use;
      wrong |= words[j] & ~lanes;
      if (ages)
        wrong |= lanes_as_ones(&shape, words[j] & markers) ^ in_use;
    }
  return wrong;
}

/* Sets used[i] to stripe i's lanes in use.  Returns false if an entry is invalid or too old. */
static inline bool check_words(const struct cuckoo_geometry *g, const uint64_t *words,
                               unsigned most_age, uint32_t used[CUCKOO_FIXED_STRIPES])
{
  const struct lane_shape *s = &g->shape;
  const uint32_t stripes = g->stripe_mask + 1, buckets = (uint32_t) cuckoo_buckets(g);
  const uint32_t columns = stripes < buckets ? stripes : buckets; /* both are powers of two */
  /* The bits at which the marker of an entry may be (bucket.h).  An entry has one of them set. */
  const uint64_t markers = s->low * ((UINT64_C(2) << most_age) - 1);
  uint64_t wrong = 0;
  memset(used, 0, stripes * sizeof *used);
  for (uint32_t left = buckets / columns, rows; left; left -= rows, words += rows * columns) {
    uint64_t sums[CUCKOO_FIXED_STRIPES] = {0};
    rows = left < LANES_ROWS ? left : LANES_ROWS;
    wrong |= s->ages ? check_rows(s, words, rows, columns, markers, true, sums)
                     : check_rows(s, words, rows, columns, 0, false, sums);
    for (uint32_t j = 0; j < columns; j++)
      used[j] += (uint32_t) lanes_sum(s, sums[j]);
  }
  return !wrong;
}

#endif
