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

/* Whether a block of filters can be searched for what a key has in common, as filter_operations that
 * have the shape's `contains` say.  0: yes.  One cannot if it has grown, is shared by processes, is of
 * another shape or kind, or hashes otherwise.  The words that look-ups will read are fetched. */
FORCE_INLINE uint64_t common_prefetch(const tamis_filter *const *filters, const struct common *c,
                                      uint64_t first[EACH_BLOCK], uint64_t seed,
                                      bool (*contains)(const tamis_filter *, uint64_t))
{
  uint64_t other = 0;
  UNROLL
  for (unsigned i = 0; i < EACH_BLOCK; i++) {
    const struct bloom *b = const_bloom_of(filters[i]);
    if (!b)
      return 1;
    other |= (b->head.keys.seed ^ seed) | filter_has_own_hash(&b->head) |
             ((uintptr_t) operations_of(&b->head)->contains ^ (uintptr_t) contains);
    if (__builtin_expect(other != 0, 0))
      return other;
    first[i] = bloom_first_word(b->word_count, c->mixed);
    __builtin_prefetch(&b->words[first[i]]);
  }
  return other;
}

/* Looks up a block whose words have been fetched.  The operations of each filter are read again
 * before its words.  If they are not all those that common_prefetch() has seen, the answers mean
 * nothing, and *other is not 0. */
FORCE_INLINE size_t common_contains(const tamis_filter *const *filters, const struct common *c,
                                    const uint64_t first[EACH_BLOCK], bool *found,
                                    struct bloom_shape shape, uint64_t *other,
                                    bool (*contains)(const tamis_filter *, uint64_t))
{
  size_t hits = 0;
  HOOK(each_fetched);
  UNROLL
  for (unsigned i = 0; i < EACH_BLOCK; i++) {
    const struct bloom *b = const_bloom_of(filters[i]);
    *other |= (uintptr_t) operations_of(&b->head)->contains ^ (uintptr_t) contains;
    found[i] = common_matches(b->words, first[i], c, shape.probes, shape.layout);
    hits += found[i];
  }
  return hits;
}

/* The `contains_each` of a shape, whose `contains` this is. */
FORCE_INLINE size_t bloom_contains_each(const tamis_filter *const *filters, size_t n,
                                        struct wanted *wanted, bool *found,
                                        struct bloom_shape shape,
                                        bool (*contains)(const tamis_filter *, uint64_t))
{
  const uint64_t seed = filters[0]->keys.seed, hash = wanted_hash(wanted, filters[0]);
  const struct common c = common_of(hash_mix(&filters[0]->keys, hash), shape);
  uint64_t first[2][EACH_BLOCK], other[2];
  struct each_block blocks[2];
  size_t hits = 0;
  for (size_t i = 0, turn = 0; i < n + EACH_BLOCK; i += EACH_BLOCK, turn = !turn) {
    if (i < n) {
      each_fetch_heads(filters, i, n);
      other[turn] = each_length(i, n) < EACH_BLOCK ||
                    common_prefetch(filters + i, &c, first[turn], seed, contains);
      if (__builtin_expect(other[turn] != 0, 0))
        each_prefetch(filters + i, each_length(i, n), wanted, &blocks[turn]);
    }
    if (i < EACH_BLOCK)
      continue;
    const size_t at = i - EACH_BLOCK;
    uint64_t changed = other[!turn];
    size_t of_block = 0;
    if (__builtin_expect(!changed, 1)) {
      of_block =
          common_contains(filters + at, &c, first[!turn], found + at, shape, &changed, contains);
      if (__builtin_expect(changed != 0, 0))
        each_hashed(&blocks[!turn], hash);
    }
    if (__builtin_expect(changed != 0, 0))
      of_block = each_contains(filters + at, each_length(at, n), &blocks[!turn], found + at);
    hits += of_block;
  }
  return hits;
}

#endif
