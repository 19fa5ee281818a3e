/* SPDX-License-Identifier: MIT
 *
 * Layer 2: one key in many Bloom filters of one seed: in the layers of one filter, or in filters
 * that belong together.
 *
 *    hash ──► struct common: offsets from the first word, masks     (once for the key)
 *                │
 *                ├─► filter or layer 1: first word ──► words
 *                ├─► filter or layer 2: first word ──► words        (no filter waits for another one)
 *                └─► ...
 *
 * The lines of all filters are fetched before the first one is read.  What is fetched decides
 * nothing: the look-up in each filter then reads the filter's operations, and after that the words,
 * as a single call does.  So a filter that has grown since the fetch is searched in all its layers,
 * and the essays in operations.c and layers.c hold unchanged.
 */
#ifndef TAMIS_LIB_BLOOM_EACH_H
#define TAMIS_LIB_BLOOM_EACH_H

#include "base/compiler.h"
#include "base/each.h"
#include "base/hook.h"
#include "bloom/bloom.h"

/* Members of struct filter_operations, for one layer and for what may be several layers. */
void tamis__bloom_prefetch(const tamis_filter *f, uint64_t hash);
void tamis__layered_prefetch(const tamis_filter *f, uint64_t hash);

/* What a key has in common in all filters of one seed and of a shape with one section.  Layers
 * differ in their number of probes: a key has more words in a layer of more probes, and the others
 * are the same.  From the second layer on, this saves a third of the instructions of a look-up.  A
 * look-up in eleven layers fills all that the processor works on at a time, and only the room that
 * is left lets the next look-up fetch its memory meanwhile. */
struct common {
  uint64_t mixed;
  uint64_t offset[BLOOM_MAX_PROBES]; /* from the first word, by xor */
  uint64_t others[BLOOM_MAX_PROBES]; /* the bits that are not the key's */
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

FORCE_INLINE bool common_matches(const word *words, uint64_t first, const struct common *c,
                                 unsigned probes, tamis_layout layout)
{
  uint64_t in = UINT64_MAX;
  UNROLL
  for (unsigned i = 0; i < probes; i++)
    in &= bloom_positions_set(word_load(&words[first ^ c->offset[i]]), layout) | c->others[i];
  return !~in;
}

/* What a call with many filters computes once for all filters that are alike.  A filter is not
 * alike if it has grown, is shared by processes, or is of another shape or kind. */
struct bloom_alike {
  bool (*contains)(const tamis_filter *f, uint64_t hash); /* of the shape */
  uint64_t seed;
  uint64_t product; /* of the mixed hash: see bloom_first_word() */
  struct common common;
};

/* The first function of struct each_way, for all shapes.  A place is the key's first word. */
bool tamis__bloom_prefetch_alike(const tamis_filter *const *filters, const void *alike,
                                 uint64_t places[EACH_BLOCK], bool more);

/* The second function of struct each_way, for one shape.  It reads operations before words. */
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
    found[i] = common_matches(b->words, places[i], &c, shape.probes, shape.layout);
  }
  return true;
}

/* The `contains_each` of a shape. */
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
