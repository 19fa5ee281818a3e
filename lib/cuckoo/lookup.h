/* SPDX-License-Identifier: MIT
 *
 * Layer 2: look-ups in a cuckoo filter.  lookup.c explains why their answers are right.
 */
#ifndef TAMIS_LIB_CUCKOO_LOOKUP_H
#define TAMIS_LIB_CUCKOO_LOOKUP_H

#include "cuckoo/operations.h"
#include "cuckoo/pair.h"

/* The most keys that a batch looks up in one read section.  Grace periods wait for the section. */
enum { READER_BATCH = SMALL(512, 24) };

/* Repeats a look-up whose miss was not final, and counts a retry. */
bool tamis__contains_again(const struct cuckoo *c, uint64_t hash);

/* The addresses that a look-up reads, which may be prefetched. */
struct lookup {
  const struct stripe *stripe; /* the upper bucket's stripe; NULL: the root has no segment */
  const word *lower, *upper;
  uint64_t entry;
};

struct lookup_result {
  bool hit;       /* an entry matches: final, except in a batch if `stale` is set */
  uint64_t moved; /* not 0: a miss must be repeated, because during the look-up an entry left a
                     bucket of the stripe, or the segment was marked as having left */
  bool stale;     /* the segment was marked before the look-up, or the root has no segment */
};

/* Here and below, `g` is the geometry of the pair's segment, perhaps with constant members. */
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
