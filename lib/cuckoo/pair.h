/* SPDX-License-Identifier: MIT
 *
 * Layer 2: locks a key's bucket pairs for writers, and finds the entry that matches best.
 */
#ifndef TAMIS_LIB_CUCKOO_PAIR_H
#define TAMIS_LIB_CUCKOO_PAIR_H

#include "cuckoo/directory.h"

/* ---- one pair ---- */

/* Takes the stripes of a pair.  False: the segment has left the directory, no stripe is held, and
 * the caller must not touch the segment again. */
FORCE_INLINE bool pair_lock(const struct bucket_pair *pair, const struct cuckoo_geometry *g)
{
  if (!segment_lock(g, pair->segment, pair->lower, pair->upper))
    return false;
  if (!stripe_has_left(stripe_of_bucket(g, pair->segment, pair->lower)))
    return true;
  segment_unlock(g, pair->segment, pair->lower, pair->upper);
  return false;
}

FORCE_INLINE void pair_unlock(const struct bucket_pair *pair, const struct cuckoo_geometry *g)
{
  segment_unlock(g, pair->segment, pair->lower, pair->upper);
}

/* Prefetches the memory of a pair, without reading the segment. */
static inline void pair_prefetch(const struct bucket_pair *pair, const struct cuckoo_geometry *g)
{
  if (!pair->segment)
    return;
  const word *words = segment_words(g, pair->segment);
  __builtin_prefetch(stripe_of_bucket(g, pair->segment, pair->upper));
  __builtin_prefetch(&words[pair->lower]);
  __builtin_prefetch(&words[pair->upper]);
}

/* Whether one of two buckets has an entry that matches.  The code has no branch between the
 * buckets: which of them holds the entry is random, and a mispredicted branch costs more than a
 * comparison. */
FORCE_INLINE bool match_either(const struct cuckoo_geometry *g, uint64_t lower, uint64_t upper,
                               uint64_t entry)
{
  return (bucket_has_match(&g->shape, lower, entry) | bucket_has_match(&g->shape, upper, entry)) !=
         0;
}

/* The matching entry of a pair that knows most bits of the hash string. */
struct best_match {
  unsigned matches;    /* how many entries match; if 0, the other members are 0 */
  unsigned known_bits; /* 1 + the number of bits after root0 that it knows */
  unsigned age;        /* in one segment, younger entries know more bits */
  uint64_t bucket;
  unsigned lane;
  uint64_t entry;
};

/* The same among entries of at least this age.  Which bucket has the match is random, so the code
 * chooses without a branch. */
static inline struct best_match match_pair_of_age(const struct bucket_pair *pair,
                                                  unsigned least_age)
{
  const struct cuckoo_geometry *g = pair->geometry;
  const word *words = segment_words(g, pair->segment);
  uint64_t lower = word_load(&words[pair->lower]), upper = word_load(&words[pair->upper]);
  uint64_t in_lower = bucket_match(&g->shape, lower, pair->entry);
  uint64_t in_upper = bucket_match(&g->shape, upper, pair->entry);
  struct best_match best = {0};
  while (in_lower | in_upper) {
    uint64_t up = -(uint64_t) (in_lower == 0); /* all ones if the match is in the upper bucket */
    uint64_t set = in_lower | (in_upper & up), rest = set & (set - 1);
    unsigned lane = lanes_first(&g->shape, set);
    uint64_t entry = lane_get(&g->shape, lower ^ ((lower ^ upper) & up), lane);
    unsigned age = bucket_age(&g->shape, entry);
    in_lower = rest & ~up;
    in_upper ^= (in_upper ^ rest) & up;
    if (age < least_age || (best.matches++ && age >= best.age))
      continue;
    best.age = age;
    best.bucket = pair->lower ^ ((pair->lower ^ pair->upper) & up);
    best.lane = lane;
    best.entry = entry;
  }
  if (best.matches)
    best.known_bits = 1 + cuckoo_known_bits(g, pair->segment->depth, best.age);
  return best;
}

static inline struct best_match match_pair(const struct bucket_pair *pair)
{
  return match_pair_of_age(pair, 0);
}

/* Mixes the hashes of at most FILTER_GROUP keys, and prefetches their pairs in all generations.
 * The caller need not be a reader. */
void tamis__mix_and_prefetch(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                             uint64_t mixed[FILTER_GROUP]);

/* ---- all pairs of a key ---- */

/* A key's bucket pairs in all generations; their stripes are held. */
struct locked_pairs {
  unsigned n;
  struct bucket_pair pair[CUCKOO_MAX_GENERATIONS];
};

void tamis__lock_pairs(const struct cuckoo *c, uint64_t hash, struct locked_pairs *locked);
void tamis__unlock_pairs(const struct locked_pairs *locked);

#endif
