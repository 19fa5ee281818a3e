/* SPDX-License-Identifier: MIT
 *
 * Layer 2: one key in many Bloom filters of one seed: in the layers of one filter, or in filters that
 * belong together.
 *
 *    hash ──► struct common: offsets from the first word, masks     (once for the key)
 *                │
 *                ├─► filter or layer 1: first word ──► words
 *                ├─► filter or layer 2: first word ──► words        (no filter waits for another one)
 *                └─► ...
 *
 * The lines of all filters are fetched before the first one is read.  What is fetched decides
 * nothing: each filter's look-up then reads the filter's operations, and after that the words, as a
 * single call does at that moment.  So a filter that has grown since is searched in all its layers,
 * and the essays in operations.c and layers.c hold without a further word.
 */
#ifndef TAMIS_LIB_BLOOM_EACH_H
#define TAMIS_LIB_BLOOM_EACH_H

#include "base/compiler.h"
#include "base/each.h"
#include "base/hook.h"
#include "bloom/bloom.h"

/* Those of struct filter_operations, for a filter of one layer, and for one that may have several. */
void tamis__bloom_prefetch(const tamis_filter *f, uint64_t hash);
void tamis__layered_prefetch(const tamis_filter *f, uint64_t hash);

/* What a key has in common in all filters of one seed and of a shape with one section.  The layers of
 * a filter differ in their probes: those of more probes only have more words.  In a filter of several
 * layers, a look-up takes a third fewer instructions from the second layer on.  That counts because
 * a look-up in eleven layers fills all that the processor works on at a time: only what is left of
 * that is for the next look-up, whose memory could be fetched meanwhile. */
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

/* What a call with many filters has worked out for those that are alike.  Others have grown, are shared
 * by processes, or are of another shape or kind. */
struct bloom_alike {
  bool (*contains)(const tamis_filter *f, uint64_t hash); /* of the shape */
  uint64_t seed;
  uint64_t product; /* of the mixed hash: see bloom_first_word() */
  struct common common;
};

/* That of struct each_way, for all shapes.  A place is the key's first word. */
bool tamis__bloom_prefetch_alike(const tamis_filter *const *filters, const void *alike,
                                 uint64_t places[EACH_BLOCK], bool more);

/* That of a shape.  The operations of each filter are read again before its words. */
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
