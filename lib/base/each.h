/* SPDX-License-Identifier: MIT
 *
 * Layer 0: one key in many filters.
 *
 *    filters   | block | block | block | ...      of a few filters each
 *                  │       │       └ heads are fetched
 *                  │       └ each filter fetches the memory that its look-up will read
 *                  └ each filter is looked up
 *
 * So no filter waits for another one's memory.  A filter may change after its memory was fetched.
 * This makes the fetch useless, and nothing else: the look-up reads the filter's operations again, and
 * is what a single call does at that moment, in a read section of its own where the kind needs one.
 * So the answer for each filter is that of a single call, these calls take effect in the order of the
 * filters, and no read section outlasts one look-up.
 */
#ifndef TAMIS_LIB_EACH_H
#define TAMIS_LIB_EACH_H

#include "base/filter.h"

/* Filters of one size often have a key's line, and their heads, at the same place of a page each.
 * The first-level cache has eight to sixteen lines for such a place: with larger blocks they would
 * drive each other out before they are read. */
enum { EACH_BLOCK = 8 };

/* A key, or its hash in all filters. */
struct wanted {
  const tamis_key *key; /* NULL: the hash is given */
  uint64_t hash;
  const tamis_filter *hashed_by; /* NULL: the key has not been hashed yet */
};

/* Whether a key has the same hash in both. */
static inline bool hashed_alike(const tamis_filter *a, const tamis_filter *b)
{
  if (a->keys.seed != b->keys.seed || filter_has_own_hash(a) != filter_has_own_hash(b))
    return false;
  return !filter_has_own_hash(a) ||
         (filter_own_more(a)->hash == filter_own_more(b)->hash &&
          filter_own_more(a)->hash_context == filter_own_more(b)->hash_context);
}

static inline uint64_t wanted_hash(struct wanted *wanted, const tamis_filter *f)
{
  if (wanted->key && !(wanted->hashed_by && hashed_alike(wanted->hashed_by, f))) {
    wanted->hash = filter_hash(f, wanted->key->data, wanted->key->len);
    wanted->hashed_by = f;
  }
  return wanted->hash;
}

/* A head is at most so large, and look-ups read little more of a filter itself. */
enum { EACH_HEAD_BYTES = 64 };

static inline size_t each_length(size_t start, size_t n)
{
  return n - start < EACH_BLOCK ? n - start : EACH_BLOCK;
}

/* Those of the next block, or of no filter. */
FORCE_INLINE void each_fetch_heads(const tamis_filter *const *filters, size_t start, size_t n)
{
  const tamis_filter *const *next = filters + start + EACH_BLOCK;
  if (n - start < 2 * EACH_BLOCK)
    return;
  UNROLL
  for (unsigned i = 0; i < EACH_BLOCK; i++) {
    __builtin_prefetch(next[i]);
    __builtin_prefetch(next[i] ? (const char *) next[i] + EACH_HEAD_BYTES - 1 : NULL);
  }
}

/* ---- a block of filters of any kinds; some may be NULL ---- */

/* The hash of the key in each filter. */
struct each_block {
  uint64_t hash[EACH_BLOCK];
};

static inline void each_hashed(struct each_block *block, uint64_t hash)
{
  for (unsigned i = 0; i < EACH_BLOCK; i++)
    block->hash[i] = hash;
}

__attribute__((unused)) NEVER_INLINE static void each_prefetch(const tamis_filter *const *filters,
                                                               size_t n, struct wanted *wanted,
                                                               struct each_block *block)
{
  for (size_t i = 0; i < n; i++)
    if (filters[i]) {
      block->hash[i] = wanted_hash(wanted, filters[i]);
      operations_of(filters[i])->prefetch(filters[i], block->hash[i]);
    }
}

__attribute__((unused)) NEVER_INLINE static size_t each_contains(const tamis_filter *const *filters,
                                                                 size_t n,
                                                                 const struct each_block *block,
                                                                 bool *found)
{
  size_t hits = 0;
  for (size_t i = 0; i < n; i++) {
    found[i] = filters[i] && operations_of(filters[i])->contains(filters[i], block->hash[i]);
    hits += found[i];
  }
  return hits;
}

#endif
