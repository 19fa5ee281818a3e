/* SPDX-License-Identifier: MIT */
#include "cuckoo/counts.h"

unsigned char *tamis__counts_put(const struct lane_shape *s, const uint64_t *words,
                                 const struct duplicates *duplicates, uint32_t first, uint32_t n,
                                 unsigned char *to, uint64_t *copies)
{
  uint64_t counts[DUPLICATES_POSITIONS], without = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i % DUPLICATES_BUCKETS == 0)
      tamis__duplicates_read(duplicates, (first + i) / DUPLICATES_BUCKETS, counts);
    for (unsigned lane = 0; lane < s->lanes; lane++) {
      uint64_t count = counts[i % DUPLICATES_BUCKETS * s->lanes + lane];
      if (!lane_get(s, words[first + i], lane))
        continue;
      if (!count) {
        without++;
        continue;
      }
      to = number_put(number_put(to, without), count);
      *copies += count;
      without = 0;
    }
  }
  return to;
}

bool tamis__counts_spread(const struct lane_shape *s, const uint64_t *words, uint32_t buckets,
                          struct saved_counts *counts, uint64_t to[DUPLICATES_POSITIONS])
{
  memset(to, 0, DUPLICATES_POSITIONS * sizeof *to);
  for (uint32_t i = 0; i < buckets && counts->count; i++) {
    uint64_t value = words[i];
    for (unsigned lane = 0; lane < s->lanes && counts->count; lane++) {
      if (!lane_get(s, value, lane) || counts->skip--)
        continue;
      to[(size_t) i * s->lanes + lane] = counts->count;
      if (!saved_counts_next(counts))
        return false;
    }
  }
  return true;
}

bool tamis__counts_sum(const struct lane_shape *s, const uint64_t *words, uint32_t n,
                       const struct saved_block *block, uint64_t *copies)
{
  struct saved_counts counts = {.at = block->payload, .end = block->payload + block->size};
  uint64_t lanes = 0; /* in use, after the last count */
  for (uint32_t i = 0; i < n; i++)
    lanes += lanes_count(lanes_in_use(s, words[i]));
  do {
    if (!saved_counts_next(&counts) || (counts.count && counts.skip >= lanes) ||
        counts.count >= saved_most_copies - *copies)
      return false;
    lanes -= counts.count ? counts.skip + 1 : 0;
    *copies += counts.count;
  } while (counts.count);
  return true;
}

int tamis__counts_begin(struct saved_reader *r, const struct saved_mapping *file, const char *end)
{
  *r = (struct saved_reader){.mapping = file->at, .mapping_size = file->size};
  return tamis__saved_jump(r, (uint64_t) (end - (const char *) file->at));
}

int tamis__counts_read_block(struct saved_reader *r, struct saved_block *block)
{
  if (block->type == SAVED_COUNTS && block->meanings[3])
    return TAMIS_ABSENT; /* it was the segment's last one */
  int result;
  do
    result = tamis__saved_read_block(r, block);
  while (result == TAMIS_OK && block->type == SAVED_SUMS);
  return result == TAMIS_OK && block->type != SAVED_COUNTS ? TAMIS_ECORRUPT : result;
}

/* `rows` rows of a bucket of each stripe: adds up the lanes in use.  0: all entries are possible.
 * `ages` is a constant, and the loop has one condition, so that compilers use vectors. */
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

bool tamis__words_check(const struct cuckoo_geometry *g, const uint64_t *words, unsigned depth,
                        uint32_t used[CUCKOO_FIXED_STRIPES])
{
  const struct lane_shape *s = &g->shape;
  const uint32_t stripes = g->stripe_mask + 1, buckets = (uint32_t) cuckoo_buckets(g);
  const uint32_t columns = stripes < buckets ? stripes : buckets; /* powers of two, both */
  /* One of the bits up to that of the oldest possible marker is set in each entry. */
  const uint64_t markers = s->low * ((UINT64_C(2) << depth) - 1);
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
