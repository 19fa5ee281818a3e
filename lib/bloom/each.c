/* SPDX-License-Identifier: MIT */
#include "bloom/each.h"

#include "bloom/gaps.h"

void tamis__bloom_prefetch(const tamis_filter *f, uint64_t hash)
{
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_shape shape = bloom_shape_of(b);
  prefetch_key(b, key_of(b, hash, shape), shape, false);
}

/* The most layers whose memory is prefetched.  A filter with more layers has grown from very few
 * keys, or takes up a whole machine's memory. */
enum { LAYERS_AHEAD = 16 };

void tamis__layers_prefetch(const struct bloom *newest, uint64_t mixed)
{
  if (newest->number == 1)
    return;
  const struct bloom_row *row = const_bloom_long_of(newest)->rows;
  for (unsigned i = 0; i < newest->number && i < LAYERS_AHEAD; i++, row++)
    __builtin_prefetch(&row->words[bloom_first_word(row->section_words, mixed)]);
}

void tamis__layered_prefetch(const tamis_filter *f, uint64_t hash)
{
  const struct bloom *first = const_bloom_of(f), *newest = newest_layer(first);
  if (newest == first)
    tamis__bloom_prefetch(f, hash);
  else
    tamis__layers_prefetch(newest, hash_mix(&f->keys, hash));
}

bool tamis__bloom_prefetch_alike(const tamis_filter *const *filters, const void *alike,
                                 uint64_t places[EACH_BLOCK], bool more)
{
  enum { HEAD_BYTES = offsetof(struct bloom, word_count) + sizeof(uint64_t) };
  const struct bloom_alike a = *(const struct bloom_alike *) alike;
  if (more)
    each_fetch_heads(filters + EACH_BLOCK, HEAD_BYTES);
  UNROLL
  for (unsigned i = 0; i < EACH_BLOCK; i++) {
    const struct bloom *b = const_bloom_of(filters[i]);
    if (!each_is_alike(filters[i], a.seed, a.contains))
      return false;
    places[i] = hash_to_range(a.product, b->word_count);
    __builtin_prefetch(&b->words[places[i]]);
  }
  return true;
}
