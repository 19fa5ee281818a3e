/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what the writers of a key share: its bucket pairs, locked, and the entry that matches
 * best.
 */
#ifndef TAMIS_LIB_CUCKOO_PAIR_H
#define TAMIS_LIB_CUCKOO_PAIR_H

#include "cuckoo/directory.h"

/* ---- one pair ---- */

/* Takes the stripes of a pair.  False: the segment has left the directory, and none is held. */
FORCE_INLINE bool pair_lock(const struct bucket_pair *pair, const struct cuckoo_geometry *g)
{
  segment_lock(g, pair->segment, pair->lower, pair->upper);
  if (!stripe_has_left(stripe_of_bucket(g, pair->segment, pair->lower)))
    return true;
  segment_unlock(g, pair->segment, pair->lower, pair->upper);
  return false;
}

FORCE_INLINE void pair_unlock(const struct bucket_pair *pair, const struct cuckoo_geometry *g)
{
  segment_unlock(g, pair->segment, pair->lower, pair->upper);
}

/* Fetches the memory of a pair.  It reads nothing of the segment. */
static inline void pair_prefetch(const struct bucket_pair *pair, const struct cuckoo_geometry *g)
{
  if (!pair->segment)
    return;
  const word *words = segment_words(g, pair->segment);
  __builtin_prefetch(stripe_of_bucket(g, pair->segment, pair->upper));
  __builtin_prefetch(&words[pair->lower]);
  __builtin_prefetch(&words[pair->upper]);
}

/* Whether one of two buckets has an entry that matches.  There is no branch between the two: in
 * which of them an entry stands is a matter of chance, and a wrong guess costs more than the second
 * comparison. */
FORCE_INLINE bool match_either(const struct cuckoo_geometry *g, uint64_t lower, uint64_t upper,
                               uint64_t entry)
{
  return (bucket_has_match(&g->shape, lower, entry) | bucket_has_match(&g->shape, upper, entry)) !=
         0;
}

/* How many entries of a pair match. */
static inline unsigned count_matches(const struct bucket_pair *pair)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  const word *words = segment_words(g, pair->segment);
  return bucket_count(bucket_match(&g->shape, word_load(&words[pair->lower]), pair->entry)) +
         bucket_count(bucket_match(&g->shape, word_load(&words[pair->upper]), pair->entry));
}

/* Of the entries of a pair that match, the one that knows most bits of the hash string. */
struct best_match {
  unsigned matches;    /* how many match; 0: none does */
  unsigned known_bits; /* after root0 */
  uint32_t bucket;
  unsigned lane;
  uint64_t entry;
};

static inline void match_bucket(const struct bucket_pair *pair, uint32_t bucket,
                                struct best_match *best)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  uint64_t value = word_load(&segment_words(g, pair->segment)[bucket]);
  uint64_t set = bucket_match(&g->shape, value, pair->entry);
  for (; set; set &= set - 1) {
    unsigned lane = bucket_first(&g->shape, set);
    uint64_t entry = bucket_lane(&g->shape, value, lane);
    unsigned known_bits = cuckoo_known_bits(g, entry, pair->segment->depth);
    best->matches++;
    if (known_bits > best->known_bits) {
      best->known_bits = known_bits;
      best->bucket = bucket;
      best->lane = lane;
      best->entry = entry;
    }
  }
}

static inline struct best_match match_pair(const struct bucket_pair *pair)
{
  struct best_match best = {0};
  match_bucket(pair, pair->lower, &best);
  match_bucket(pair, pair->upper, &best);
  return best;
}

/* Mixes the hashes of at most FILTER_GROUP keys, and fetches the memory of their pairs in all
 * generations.  The caller need not be a reader: no segment is read. */
void tamis__mix_and_prefetch(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                             uint64_t mixed[FILTER_GROUP]);

/* ---- all pairs of a key ---- */

/* A key's bucket pairs in all generations, with their stripes held. */
struct locked_pairs {
  unsigned n;
  struct bucket_pair pair[CUCKOO_MAX_GENERATIONS];
};

void tamis__lock_pairs(const struct cuckoo *c, uint64_t hash, struct locked_pairs *locked);
void tamis__unlock_pairs(const struct locked_pairs *locked);

/* ---- readers ---- */

/* The segments of a filter that does not grow stay for ever, so it needs no read sections. */
static inline reader_token cuckoo_enter(const struct cuckoo *c)
{
  return c->growable ? reader_enter() : NULL;
}

static inline void cuckoo_leave(const struct cuckoo *c, reader_token token)
{
  if (c->growable)
    reader_leave(token);
}

#endif
