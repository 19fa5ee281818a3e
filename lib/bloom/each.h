/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the search of one key in several Bloom filters of one seed, or in layers of a filter.
 *
 *   hash ──► struct common: offsets from the first word, masks     (once for the key)
 *               │
 *               ├─► filter or layer 1: first word ──► words
 *               ├─► filter or layer 2: first word ──► words        (no filter waits for another)
 *               └─► ...
 *
 * The lines of all filters are prefetched before the first line is read.  The answers do not depend
 * on the prefetch: like any look-up, that in each filter first reads the filter's operations and
 * then its words.  So if a filter has grown since the prefetch, all its layers are searched.
 */
#ifndef TAMIS_LIB_BLOOM_EACH_H
#define TAMIS_LIB_BLOOM_EACH_H

#include "base/compiler.h"
#include "base/each.h"
#include "base/hook.h"
#include "bloom/bloom.h"

/* The offsets and masks of a key, for all filters that have one seed, one shape and one section.  A
 * layer with fewer probes uses only the first offsets and masks.  The struct saves a third of the
 * instructions in each layer but the first. */
struct common {
  uint64_t mixed;
  uint64_t offset[BLOOM_MAX_PROBES]; /* each word's index xor the first word's index */
  uint64_t others[BLOOM_MAX_PROBES]; /* for each word: the bits that do not belong to the key */
};

FORCE_INLINE struct common common_of(uint64_t mixed, struct bloom_shape shape)
{
  struct common c = {.mixed = mixed};
  struct bloom_probes probes = bloom_probes_from(0, mixed, shape);
  UNROLL
  for (unsigned i = 0; i < shape.probes; i++) {
    const struct bloom_probe probe = bloom_probes_next(&probes, shape);
    c.offset[i] = probe.word;
    c.others[i] = ~probe.mask;
  }
  return c;
}

/* Returns true if the words of the probes `begin` to `end` - 1 have the key's bits. */
FORCE_INLINE bool common_matches(const word *words, uint64_t first, const struct common *c,
                                 unsigned begin, unsigned end, tamis_layout layout)
{
  uint64_t in = UINT64_MAX;
  UNROLL
  for (unsigned i = begin; i < end; i++)
    in &= bloom_positions_set(word_load(&words[first ^ c->offset[i]]), layout) | c->others[i];
  return !~in;
}

/* What a look-up computes once for all filters that have this seed and this `contains`, which a
 * filter that has grown, or that other processes may grow, does not have. */
struct bloom_alike {
  bool (*contains)(const tamis_filter *f, uint64_t hash); /* the look-up function of the shape */
  uint64_t seed;
  uint64_t product; /* mixed hash * multiplier: see bloom_first_word() */
  struct common common;
};

/* The `contains` of struct each_way, for one shape.  Reads a filter's operations, then words. */
FORCE_INLINE bool bloom_contains_alike(const tamis_filter *const *filters,
                                       const struct bloom_alike *alike,
                                       const uint64_t places[EACH_BLOCK], bool *found,
                                       struct bloom_shape shape)
{
  const struct common c = alike->common;
  bool (*const contains)(const tamis_filter *, uint64_t) = alike->contains;
  HOOK(each_fetched);
  UNROLL
  for (unsigned i = 0; i < EACH_BLOCK; i++) {
    const struct bloom *b = const_bloom_of(filters[i]);
    if (operations_of(&b->head)->contains != contains)
      return false;
    found[i] = common_matches(b->words, places[i], &c, 0, shape.probes, shape.layout);
  }
  return true;
}

/* The `contains_each` of struct filter_operations, for one shape. */
FORCE_INLINE size_t bloom_contains_each(const tamis_filter *const *filters, size_t n,
                                        struct wanted *wanted, bool *found,
                                        const struct each_way *way, struct bloom_shape shape,
                                        bool (*contains)(const tamis_filter *, uint64_t))
{
  const struct hash_keys *keys = &filters[0]->keys;
  const uint64_t mixed = hash_mix(keys, wanted_hash(wanted, filters[0]));
  const struct bloom_alike alike = {contains, keys->seed, mixed * HASH_MULTIPLIER,
                                    common_of(mixed, shape)};
  return tamis__each_search(filters, n, wanted, found, way, &alike);
}

#endif
