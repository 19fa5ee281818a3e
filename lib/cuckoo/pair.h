/* SPDX-License-Identifier: MIT
 *
 * Layer 2: for writers: locks a key's bucket pairs, and finds the best match or a free lane.
 */
#ifndef TAMIS_LIB_CUCKOO_PAIR_H
#define TAMIS_LIB_CUCKOO_PAIR_H

#include "cuckoo/directory.h"

/* ---- one bucket pair ---- */

/* Takes the stripes of a pair.  Returns false, without a stripe, if the segment has left the
 * directory.  Then the caller must not touch the segment again. */
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

static inline void pair_prefetch(const struct bucket_pair *pair, const struct cuckoo_geometry *g,
                                 bool to_write)
{
  if (!pair->segment)
    return;
  const word *words = segment_words(g, pair->segment);
  /* A plain add to a fixed filter, whose entries have no ages, takes no stripe. */
  prefetch_line(stripe_of_bucket(g, pair->segment, pair->upper), to_write && g->shape.ages);
  prefetch_line(&words[pair->lower], to_write);
  prefetch_line(&words[pair->upper], to_write);
}

/* Whether one of two buckets has an entry that matches.  There is no branch between the buckets:
 * which of them has the entry is random, and a mispredicted branch costs more than a comparison. */
FORCE_INLINE bool match_either(const struct cuckoo_geometry *g, uint64_t lower, uint64_t upper,
                               uint64_t entry)
{
  return (bucket_has_match(&g->shape, lower, entry) | bucket_has_match(&g->shape, upper, entry)) !=
         0;
}

/* Of a pair's entries that match a key, the one that knows the most bits of the hash string. */
struct best_match {
  unsigned matches;    /* the number of entries that match; if 0, all members are 0 */
  unsigned known_bits; /* 1 + the number of bits after root0 that the entry knows */
  unsigned age;        /* the number of bits that the entry has lost (bucket.h) */
  uint64_t bucket;
  unsigned lane;
};

/* Finds the best match among the entries that have at least this age.  If `any`, stops at the first
 * match.  `g` is the geometry of the pair's segment, or a copy with constant members. */
FORCE_INLINE struct best_match match_pair_with(const struct bucket_pair *pair,
                                               const struct cuckoo_geometry *g, unsigned least_age,
                                               bool any)
{
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
    if (any)
      break;
  }
  if (best.matches)
    best.known_bits = 1 + cuckoo_known_bits(g, pair->segment->depth, best.age);
  return best;
}

static inline struct best_match match_pair(const struct bucket_pair *pair)
{
  return match_pair_with(pair, pair->geometry, 0, false);
}

/* Mixes the hashes of at most FILTER_GROUP keys, and prefetches their pairs in all generations
 * (in the newest one for writing, if `to_write`).  The caller need not be a reader. */
void tamis__mix_and_prefetch(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                             uint64_t mixed[FILTER_GROUP], bool to_write);

/* ---- a free lane ---- */

/* The values of a pair's two buckets, and the sets of free lanes in them (lanes_empty()). */
struct pair_words {
  uint64_t lower, upper;
  uint64_t room_lower, room_upper;
};

FORCE_INLINE struct pair_words pair_load(const struct bucket_pair *pair,
                                         const struct cuckoo_geometry *g)
{
  const word *words = segment_words(g, pair->segment);
  uint64_t lower = word_load(&words[pair->lower]), upper = word_load(&words[pair->upper]);
  return (struct pair_words){lower, upper, lanes_empty(&g->shape, lower),
                             lanes_empty(&g->shape, upper)};
}

FORCE_INLINE bool pair_has_room(struct pair_words words)
{
  return (words.room_lower | words.room_upper) != 0;
}

/* The bucket to which an entry is written, and the bucket's value before and after the write. */
struct free_place {
  uint64_t bucket;
  uint64_t old, value;
};

/* Chooses the first free lane of the emptier bucket, which leaves the most choice to later keys.
 * (Lanes fill from the lowest up, so its first free lane is the lower one.)  A lane must be
 * free. */
FORCE_INLINE struct free_place choose_place(const struct bucket_pair *pair,
                                            const struct lane_shape *s, struct pair_words words)
{
  /* `up` is all ones if the upper bucket is chosen, else 0.  (x & -x) - 1 grows with the number of
   * the first free lane in x, and is UINT64_MAX if x has none. */
  uint64_t up = -(uint64_t) ((words.room_upper & -words.room_upper) - 1 <
                             (words.room_lower & -words.room_lower) - 1);
  uint64_t value = words.lower ^ ((words.lower ^ words.upper) & up);
  uint64_t free = words.room_lower ^ ((words.room_lower ^ words.room_upper) & up);
  uint64_t bucket = pair->lower ^ ((pair->lower ^ pair->upper) & up);
  return (struct free_place){bucket, value, lanes_fill_first(s, value, free, pair->entry)};
}

/* Writes the pair's entry into the place.  In a growable filter, the caller must hold the bucket's
 * stripe, and know that the bucket has not changed since choose_place().  In a fixed filter, the
 * caller need not hold the stripe; if the bucket has changed, the function returns false. */
FORCE_INLINE bool write_entry(const struct bucket_pair *pair, const struct cuckoo_geometry *g,
                              struct free_place place)
{
  word *w = &segment_words(g, pair->segment)[place.bucket];
  if (g->shape.ages)
    word_store(w, place.value);
  else if (__builtin_expect(word_replace(w, place.old, place.value) != place.old, 0))
    return false;
  segment_use(g, stripe_of_bucket(g, pair->segment, place.bucket), 1);
  cuckoo_count_change(pair->generation, ENTRIES, 1);
  return true;
}

/* Clears the lane of an entry.  The caller must hold the bucket's stripe. */
FORCE_INLINE void clear_lane_locked(const struct generation *generation,
                                    const struct cuckoo_geometry *g, struct segment *segment,
                                    uint64_t bucket, unsigned lane)
{
  struct stripe *stripe = stripe_of_bucket(g, segment, bucket);
  version_bump(stripe);
  word_and(&segment_words(g, segment)[bucket], lane_put(&g->shape, UINT64_MAX, lane, 0));
  segment_use(g, stripe, -1);
  cuckoo_count_change(generation, ENTRIES, -1);
  segment_has_room(g, segment);
}

/* ---- all pairs of a key ---- */

/* A key's bucket pairs in all `n` generations.  The call holds the stripes of these pairs. */
struct locked_pairs {
  unsigned n;
  struct bucket_pair pair[CUCKOO_MAX_GENERATIONS];
};

void tamis__lock_pairs(const struct cuckoo *c, uint64_t hash, struct locked_pairs *locked);
void tamis__unlock_pairs(const struct locked_pairs *locked);

#endif
