/* SPDX-License-Identifier: MIT */
#include "bloom/each.h"

#include "bloom/gaps.h"

void tamis__bloom_prefetch(const tamis_filter *f, uint64_t hash)
{
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_shape shape = bloom_shape_of(b);
  prefetch_key(b, key_of(b, hash, shape), shape);
}

/* A filter of more layers is larger than a machine's memory, or has grown from very few keys. */
enum { LAYERS_AHEAD = 16 };

void tamis__layered_prefetch(const tamis_filter *f, uint64_t hash)
{
  const struct bloom *first = const_bloom_of(f), *newest = newest_layer(first);
  if (newest == first) {
    tamis__bloom_prefetch(f, hash);
    return;
  }
  const uint64_t mixed = hash_mix(&f->keys, hash);
  const struct bloom_row *row = const_bloom_long_of(newest)->rows;
  for (unsigned i = 0; i < newest->number && i < LAYERS_AHEAD; i++, row++)
    __builtin_prefetch(&row->words[bloom_first_word(row->section_words, mixed)]);
}
