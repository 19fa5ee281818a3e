/* SPDX-License-Identifier: MIT
 *
 * Layer 2: look-ups in a cuckoo filter.  lookup.c explains why their answers are right.
 *
 * These functions are members of the tables of operations.  They take hashes that are not mixed.
 * Each function is for a *sort* of filter.  Filters of the sorts `growable` and `fixed` have one
 * generation, which needs one hash of the key.  Functions of the sort `any` work on all filters.  A
 * filter that opens a second generation gets the operations of `any`.  If a call has read the
 * operations of `growable` before, its function calls the general path (lookup.c).
 */
#ifndef TAMIS_LIB_CUCKOO_LOOKUP_H
#define TAMIS_LIB_CUCKOO_LOOKUP_H

#include "base/each.h"
#include "cuckoo/directory.h"
#include "cuckoo/pair.h"

/* The most keys that a batch looks up in one read section.  Grace periods wait for the section. */
enum { READER_BATCH = SMALL(512, 24) };

bool tamis__cuckoo_contains_any(const tamis_filter *f, uint64_t hash);
bool tamis__cuckoo_contains_growable(const tamis_filter *f, uint64_t hash);
bool tamis__cuckoo_contains_fixed(const tamis_filter *f, uint64_t hash);

void tamis__cuckoo_prefetch(const tamis_filter *f, uint64_t hash);
size_t tamis__cuckoo_contains_many_any(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                       bool *found);
size_t tamis__cuckoo_contains_many_growable(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                            bool *found);
size_t tamis__cuckoo_contains_many_fixed(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                         bool *found);

/* contains_each() for the sorts `growable` and `fixed`.  cuckoo/each.c defines both functions. */
size_t tamis__cuckoo_contains_each_growable(const tamis_filter *const *filters, size_t n,
                                            struct wanted *wanted, bool *found);
size_t tamis__cuckoo_contains_each_fixed(const tamis_filter *const *filters, size_t n,
                                         struct wanted *wanted, bool *found);

/* Look-ups for unique adds.  `hash` is a mixed hash. */
bool tamis__contains_mixed_any(const struct cuckoo *c, uint64_t hash);
bool tamis__contains_mixed_growable(const struct cuckoo *c, uint64_t hash);
bool tamis__contains_mixed_fixed(const struct cuckoo *c, uint64_t hash);

/* Repeats a look-up whose miss was not final, and counts a retry. */
bool tamis__contains_again(const struct cuckoo *c, uint64_t hash);

/* ---- the bucket pair in the newest generation ---- */

/* The addresses that a look-up reads, which may be prefetched. */
struct lookup {
  const struct stripe *stripe; /* the upper bucket's stripe; NULL: the root has no segment */
  const word *lower, *upper;
  uint64_t entry;
};

struct lookup_result {
  bool hit;       /* an entry matches; this is final, but not in a batch if `stale` */
  uint64_t moved; /* not 0: a miss is not final, because between the reads an entry left a bucket,
                     or the segment was marked as having left */
  bool stale;     /* the segment was marked before the look-up, or the root has no segment */
};

/* Here and below, `g` is the geometry of the pair's segment.  Members may be constant values. */
FORCE_INLINE struct lookup lookup_prepare(const struct cuckoo_geometry *g,
                                          const struct bucket_pair *pair)
{
  struct lookup lookup = {.stripe = NULL};
  if (!pair->segment)
    return lookup;
  const word *words = segment_words(g, pair->segment);
  lookup.stripe = stripe_of_bucket(g, pair->segment, pair->upper);
  lookup.lower = &words[pair->lower];
  lookup.upper = &words[pair->upper];
  lookup.entry = pair->entry;
  return lookup;
}

/* Prefetches a look-up's memory, without reading it.  The addresses may be NULL. */
static inline void lookup_prefetch(const struct lookup *lookup)
{
  __builtin_prefetch(lookup->stripe);
  __builtin_prefetch(lookup->lower);
  __builtin_prefetch(lookup->upper);
}

FORCE_INLINE struct lookup_result lookup_finish(const struct lookup *lookup,
                                                const struct cuckoo_geometry *g)
{
  if (!lookup->stripe)
    return (struct lookup_result){.stale = true};
  uint64_t version = version_before(&lookup->stripe->version);
  HOOK(cuckoo_versions_read);
  uint64_t lower = word_load(lookup->lower);
  HOOK(cuckoo_lower_read);
  uint64_t upper = word_load(lookup->upper);
  uint64_t moved = version_after(&lookup->stripe->version) ^ version;
  return (struct lookup_result){match_either(g, lower, upper, lookup->entry), moved,
                                version_has_left(version)};
}

#endif
