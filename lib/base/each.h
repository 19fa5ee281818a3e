/* SPDX-License-Identifier: MIT
 *
 * Layer 0: looks one key up in many filters.
 *
 *    filters   | block | block | block | ...      of a few filters each
 *                  │       │       └ heads are fetched
 *                  │       └ each filter fetches the memory that its look-up will read
 *                  └ the key is looked up in each filter
 *
 * So the look-ups of a block wait for memory at the same time, not one after the other.  Each
 * look-up reads the current memory, even if the filter has changed since the fetch.  So the answers
 * are those of single look-ups in the order of the filters.
 *
 * The filters of one call are usually *alike*: they have the same kind, seed and shape.  Parts of
 * the key's addresses are then equal in all filters, and a kind computes them once (struct
 * each_way).  A block whose filters are not alike is searched filter by filter.
 */
#ifndef TAMIS_LIB_EACH_H
#define TAMIS_LIB_EACH_H

#include "base/compiler.h"
#include "base/filter.h"

/* The number of filters in a block.  In filters of one size, a key's cache lines often have the
 * same offset in their pages, and so do the heads.  The first-level cache holds only 8 to 16 lines
 * of one offset, so in a larger block they would evict each other before they are read. */
enum { EACH_BLOCK = 8 };

struct wanted {
  const tamis_key *key; /* NULL: `hash` is given, and is the same in all filters */
  uint64_t hash;
  const tamis_filter *hashed_by; /* the filter that `hash` was computed for; NULL: none yet */
};

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

/* How a kind of filter searches a block whose filters are alike and use the library's hash
 * function.  `common`: values that the kind has computed from the first filter. */
struct each_way {
  /* Prefetches what look-ups in a block will read and, if `more`, the heads of the next block.
   * Returns false if the filters of the block are not all alike.  Writes to `places` a number for
   * each filter, which `contains` reads. */
  bool (*prefetch)(const tamis_filter *const *filters, const void *common,
                   uint64_t places[EACH_BLOCK], bool more);
  /* Returns false, and leaves `found` undefined, if the filters of the block are not all alike. */
  bool (*contains)(const tamis_filter *const *filters, const void *common,
                   const uint64_t places[EACH_BLOCK], bool *found);
};

/* Looks a key up in n filters of any kinds, some of which may be NULL.  Returns the number of hits.
 * `way` is NULL if no two filters are alike. */
size_t tamis__each_search(const tamis_filter *const *filters, size_t n, struct wanted *wanted,
                          bool *found, const struct each_way *way, const void *common);

/* Returns true if a filter is not NULL, uses the library's hash function and this seed, and has
 * this `contains`.  Only the kind can tell whether such filters are alike. */
FORCE_INLINE bool each_is_alike(const tamis_filter *f, uint64_t seed,
                                bool (*contains)(const tamis_filter *, uint64_t))
{
  return f && f->keys.seed == seed && !filter_has_own_hash(f) &&
         operations_of(f)->contains == contains;
}

/* Prefetches the heads of a block.  `bytes`: how much of each head a look-up reads. */
FORCE_INLINE void each_fetch_heads(const tamis_filter *const *filters, unsigned bytes)
{
  enum { LINE = 64 };
  UNROLL
  for (unsigned i = 0; i < EACH_BLOCK; i++) {
    const uintptr_t head = (uintptr_t) filters[i]; /* a prefetch from NULL does no harm */
    for (unsigned at = 0; at < bytes - 1; at += LINE)
      __builtin_prefetch((const void *) (head + at));      /* NOLINT(performance-no-int-to-ptr) */
    __builtin_prefetch((const void *) (head + bytes - 1)); /* NOLINT(performance-no-int-to-ptr) */
  }
}

#endif
