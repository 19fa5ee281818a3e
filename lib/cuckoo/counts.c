/* SPDX-License-Identifier: MIT */
#include "cuckoo/counts.h"

static unsigned char *put_number(unsigned char *to, uint64_t x)
{
  for (; x >= 0x80; x >>= 7)
    *to++ = (unsigned char) (x | 0x80);
  *to++ = (unsigned char) x;
  return to;
}

unsigned char *tamis__counts_put(const struct bucket_shape *s, const uint64_t *words,
                                 const struct duplicates *duplicates, uint32_t first, uint32_t n,
                                 unsigned char *to, uint64_t *copies)
{
  uint64_t counts[DUPLICATES_POSITIONS], without = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i % DUPLICATES_BUCKETS == 0)
      tamis__duplicates_read(duplicates, (first + i) / DUPLICATES_BUCKETS, counts);
    for (unsigned lane = 0; lane < s->lanes; lane++) {
      uint64_t count = counts[i % DUPLICATES_BUCKETS * s->lanes + lane];
      if (!bucket_lane(s, words[first + i], lane))
        continue;
      if (!count) {
        without++;
        continue;
      }
      to = put_number(put_number(to, without), count);
      *copies += count;
      without = 0;
    }
  }
  return to;
}

static bool read_number(struct saved_counts *counts, uint64_t *out)
{
  enum { MOST_BYTES = 8 };
  *out = 0;
  for (unsigned i = 0; i < MOST_BYTES && counts->at < counts->end; i++) {
    unsigned char byte = *counts->at++;
    *out |= (uint64_t) (byte & 0x7f) << 7 * i;
    if (byte < 0x80)
      return byte || i == 0;
  }
  return false;
}

bool tamis__counts_next(struct saved_counts *counts)
{
  counts->count = 0;
  return counts->at == counts->end ||
         (read_number(counts, &counts->skip) && read_number(counts, &counts->count) &&
          counts->count && counts->count < saved_most_copies);
}

bool tamis__counts_spread(const struct bucket_shape *s, const uint64_t *words, uint32_t buckets,
                          struct saved_counts *counts, uint64_t to[DUPLICATES_POSITIONS])
{
  memset(to, 0, DUPLICATES_POSITIONS * sizeof *to);
  for (uint32_t i = 0; i < buckets && counts->count; i++) {
    uint64_t value = words[i];
    for (unsigned lane = 0; lane < s->lanes && counts->count; lane++) {
      if (!bucket_lane(s, value, lane) || counts->skip--)
        continue;
      to[(size_t) i * s->lanes + lane] = counts->count;
      if (!tamis__counts_next(counts))
        return false;
    }
  }
  return true;
}
