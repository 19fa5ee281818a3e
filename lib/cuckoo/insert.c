/* SPDX-License-Identifier: MIT
 *
 * Layer 2: add and unique add, which put a key into a cuckoo filter.
 *
 *    1. Find the key's bucket pair in the newest generation or, after limits are reached there, in
 *       an older one.  Take the pair's stripes.  (A plain add takes only the stripe of the bucket
 *       that it writes or, in a fixed filter, none.)
 *    2. Check that the segment has not left the directory, and that no generation was opened.
 *    3. Write the entry into a free lane, or count a duplicate.
 *    4. If there is no room: release the stripes, make room by an eviction or by growth, and try
 *       again.  If the segment is marked as full, try older generations, or refuse the add.
 *
 * [B] One winner.  To show: two unique adds P and Q of one key take turns.  A unique add takes the
 *     stripes of the key's bucket pairs in all generations, reads the number of generations again,
 *     searches, and inserts.  Then it releases the stripes.
 *
 *     1. If P and Q have read the same number, they take turns at the stripes in the newest
 *        generation.  Otherwise let Q be the add that has read the larger number, and N the
 *        generation that is the newest for P.
 *     2. If Q found a segment for the key in N, they take turns at the stripes in N.
 *     3. If Q found none, and the segment was created later, P takes its stripes later still, reads
 *        the larger number, and begins again.
 *     4. If Q found none because the segment had been dropped, P finds the segment marked and
 *        begins again, or had released the stripes before the drop.
 *
 * [F] Duplicates.  A copy of a key is counted if max_lanes_per_key() lanes match the key already,
 *     if there is no lane for the copy, or if the segment counts copies (segment.h).  It is counted
 *     with the match that knows the most bits in the newest generation or, without a match there,
 *     with a match in the oldest generation that has one and still accepts adds.  Any match is
 *     correct, because a remove may take any match.  (See also [O].)
 *
 * [O] One stripe or none.  If no entry of either bucket matches the key, a plain add chooses a free
 *     lane without a lock.  Let A be the bucket of this lane, and B the key's other bucket.
 *
 *     Growable filter: the add takes the stripe of A, and reads both buckets again.  If neither has
 *     changed, it writes the entry; otherwise it takes both stripes.  All calls that change A hold
 *     A's stripe (splits, joins, drops and folds: all stripes), so the write overwrites nothing.
 *
 *     Fixed filter, whose segments stay: the add replaces the word of A by a compare-and-swap.  If
 *     A has changed, the add takes both stripes.  So a plain add may fill a lane although a call X
 *     holds the stripes of A and B.  X loses no entry, because X also fills lanes by a
 *     compare-and-swap, and clears lanes by an atomic AND.  X relies only on the entries that it
 *     has found, which stay.  If the add fills the free lane that X has chosen, X undoes its steps.
 *
 *     Simultaneous adds of a key fill at most two lanes, which max_lanes_per_key() always allows,
 *     with one exception.  All entries that match the key are in A or B.  So every other call that
 *     adds, moves, counts or removes such an entry holds the stripes of A and B, except for another
 *     plain add, which may write to B.  Both adds have found no match in A or B, so at most two
 *     such adds write, one to each bucket.  (A growable filter's add reads B again, because other
 *     calls could have filled B with copies since its first read.  The exception is a fixed filter
 *     in which this happens, and A has its first value again when the add writes.  Then the key
 *     gets one more lane for each thread that adds it at the same moment.)
 *
 *     The order in a fixed filter.  Let R be a call that holds both stripes, and P a plain add of
 *     R's key that writes to a bucket after R has read this bucket.  R takes effect before P.  R
 *     may have seen the entry of another plain add Q in the other bucket, although Q wrote it after
 *     P.  But Q found no match, so Q had read both buckets before P wrote.  So all three calls were
 *     running when P wrote, and take effect then: Q, R, P.  Thus a unique add may win although a
 *     plain add of its key has just returned, and a count or a save may miss that add.
 */
#include "base/compiler.h"
#include "cuckoo/growth.h"
#include "cuckoo/lookup.h"
#include "cuckoo/pair.h"
#include "cuckoo/segment.h"
#include "cuckoo/snapshot.h"
#include "table/put.h"

/* ---- step 3: the caller must hold the stripes of the pair ---- */

static int count_copy_locked(struct cuckoo *c, const struct bucket_pair *pair,
                             const struct best_match *best)
{
  int result = tamis__segment_add_copies(c, pair->geometry, pair->segment,
                                         (struct lane){best->bucket, best->lane}, 1, true);
  if (result == TAMIS_OK)
    cuckoo_count_change(pair->generation, DUPLICATES, 1);
  return result;
}

/* Counts a copy of a key that an entry of the pair matches, unless the copy should get a lane.
 * Returns false if the copy needs a lane, otherwise true, with the add's result in *result. */
static bool settle_duplicate_locked(struct cuckoo *c, const struct bucket_pair *pair, bool room,
                                    bool no_path, int *result)
{
  const struct cuckoo_geometry *g = pair->geometry;
  struct best_match best = match_pair(pair);
  bool counted = segment_counts_copies(pair->segment) || best.matches >= max_lanes_per_key(g);
  bool without_room = !room && (no_path || segment_refuses_copies(c, pair->segment));
  if (!counted && !without_room)
    return false;
  *result = count_copy_locked(c, pair, &best);
  if (*result == TAMIS_OK && !counted && no_path)
    segment_start_counting(pair->segment);
  return *result != TAMIS_EFULL; /* TAMIS_EFULL: the copy may still get a free lane */
}

/* Writes the entry of an absent key, or of a copy that gets a lane.  Returns TAMIS_OK, NO_ROOM,
 * MARKED_FULL, or RETRY if a plain add has filled the chosen lane meanwhile. */
FORCE_INLINE int insert_entry_locked(struct cuckoo *c, const struct bucket_pair *pair,
                                     const struct cuckoo_geometry *g, struct pair_words words)
{
  assert(stripe_held(stripe_of_bucket(g, pair->segment, pair->lower)));
  if (!pair_has_room(words))
    return segment_is_full(c, pair->segment) ? MARKED_FULL : NO_ROOM;
  return write_entry(pair, g, choose_place(pair, &g->shape, words)) ? TAMIS_OK : RETRY;
}

/* Inserts a key, or counts a copy.  If `no_path`, no eviction makes room.  Returns the result of
 * the add, NO_ROOM, MARKED_FULL or RETRY. */
FORCE_INLINE int insert_locked(struct cuckoo *c, const struct bucket_pair *pair,
                               const struct cuckoo_geometry *g, bool no_path)
{
  struct pair_words words = pair_load(pair, g);
  int result;
  if (!match_either(g, words.lower, words.upper, pair->entry))
    return insert_entry_locked(c, pair, g, words);
  if (settle_duplicate_locked(c, pair, pair_has_room(words), no_path, &result))
    return result;
  if (!pair_has_room(words) && segment_refuses_copies(c, pair->segment))
    return MARKED_FULL;
  result = insert_entry_locked(c, pair, g, words);
  if (result == TAMIS_OK)
    tamis__note_copy_in_lane(pair->segment);
  return result;
}

/* ---- the attempts of one call ---- */

/* The state of a call's attempts.  The first attempts are in the newest generation.  After limits
 * are reached there, attempts are in older generations, in which removes may have made room. */
struct attempt {
  unsigned generations; /* the number of generations when these attempts began */
  unsigned older;       /* how many generations are newer than the one of the next attempt */
  bool no_path;         /* the pair is full, and no cuckoo path makes room */
};

static unsigned attempt_generation(struct attempt *attempt, unsigned n)
{
  if (attempt->generations != n)
    *attempt = (struct attempt){.generations = n};
  return n - 1 - attempt->older;
}

/* Makes the next attempt go to an older generation, unless a new generation was opened.  Returns
 * RETRY, or TAMIS_EFULL if there is no older generation. */
static int try_older(const struct cuckoo *c, struct attempt *attempt)
{
  if (cuckoo_generations(c) != attempt->generations)
    return RETRY;
  if (attempt->older + 1 == attempt->generations)
    return TAMIS_EFULL;
  attempt->older++;
  return RETRY;
}

/* Makes room after an attempt that found none.  Returns RETRY, or the error of the add. */
static int make_room(struct cuckoo *c, const struct bucket_pair *full, struct attempt *attempt)
{
  int result = tamis__grow(c, full, attempt->generations, false);
  if (result == TAMIS_OK || cuckoo_generations(c) != attempt->generations)
    return RETRY;
  return result == TAMIS_EFULL ? try_older(c, attempt) : result;
}

/* Makes an attempt, in a read section.  Sets *pair.  Returns a result of tamis.h or table/put.h. */
typedef int try_call(struct cuckoo *c, uint64_t hash, struct attempt *attempt,
                     struct bucket_pair *pair);

/* Counts a copy of a key that only older generations match, or returns NO_ROOM. */
static int count_older_copy(struct cuckoo *c, const struct locked_pairs *locked)
{
  const struct bucket_pair *newest = &locked->pair[locked->n - 1];
  if (newest->segment && match_pair(newest).matches)
    return NO_ROOM;
  for (unsigned i = 0; i + 1 < locked->n; i++) {
    const struct bucket_pair *pair = &locked->pair[i];
    struct best_match best = {0};
    if (pair->segment)
      best = match_pair(pair);
    if (best.matches && pair_lets_add(c, pair, locked->n)) {
      int result = count_copy_locked(c, pair, &best);
      return result == TAMIS_EFULL ? NO_ROOM : result; /* NO_ROOM: the copy may still get a lane */
    }
  }
  return NO_ROOM;
}

/* An attempt that locks the pairs in all generations.  If only older generations have a match, the
 * attempt may count a copy there.  Otherwise it inserts the key into the newest generation. */
static int try_all(struct cuckoo *c, uint64_t hash, struct attempt *attempt,
                   struct bucket_pair *pair)
{
  struct locked_pairs locked;
  tamis__lock_pairs(c, hash, &locked);
  *pair = locked.pair[attempt_generation(attempt, locked.n)];
  int result = count_older_copy(c, &locked);
  if (result == TAMIS_OK && attempt->no_path && pair->segment)
    segment_start_counting(pair->segment);
  if (result == NO_ROOM && pair->segment)
    result = insert_locked(c, pair, pair->geometry, attempt->no_path);
  tamis__unlock_pairs(&locked);
  return result;
}

static int try_add(struct cuckoo *c, uint64_t hash, struct attempt *attempt,
                   struct bucket_pair *pair)
{
  unsigned n = cuckoo_generations(c);
  *pair = pair_find(cuckoo_generation(c, attempt_generation(attempt, n)), hash);
  HOOK(cuckoo_pair_found);
  if (n > 1 && attempt->older == 0 &&
      (attempt->no_path ||
       (pair->segment ? segment_counts_copies(pair->segment) : filter_counts_copies(c))))
    return try_all(c, hash, attempt, pair);
  if (!pair->segment)
    return NO_ROOM;
  if (!pair_lock(pair, pair->geometry))
    return RETRY;
  /* If a generation was opened meanwhile, RETRY: the key belongs in that generation. */
  int result = cuckoo_generations(c) != n ? RETRY
               : !pair_lets_add(c, pair, n)
                   ? MARKED_FULL
                   : insert_locked(c, pair, pair->geometry, attempt->no_path);
  pair_unlock(pair, pair->geometry);
  return result;
}

static int try_add_unique(struct cuckoo *c, uint64_t hash, struct attempt *attempt,
                          struct bucket_pair *pair)
{
  struct locked_pairs locked;
  tamis__lock_pairs(c, hash, &locked);
  *pair = locked.pair[attempt_generation(attempt, locked.n)];
  const struct cuckoo_geometry *g = pair->geometry;
  int result = pair->segment ? TAMIS_OK : NO_ROOM;
  for (unsigned i = 0; i < locked.n; i++)
    if (locked.pair[i].segment && match_pair(&locked.pair[i]).matches)
      result = TAMIS_PRESENT;
  HOOK(cuckoo_unique_checked);
  if (result == TAMIS_OK)
    result = pair_lets_add(c, pair, locked.n) ? insert_entry_locked(c, pair, g, pair_load(pair, g))
                                              : MARKED_FULL;
  tamis__unlock_pairs(&locked);
  return result;
}

static NEVER_INLINE int refuse(const struct cuckoo *c, int result)
{
  cuckoo_note(c, REFUSED_ADDS);
  return result;
}

/* Makes attempts until the key is added or refused.  If a search finds no path, the next attempt
 * may count the key as a copy.  The filter grows only if that attempt fails, too.  attempt.no_path
 * is valid only in the read section of the search. */
static NEVER_INLINE int insert(struct cuckoo *c, uint64_t hash, try_call *try)
{
  struct attempt attempt = {0};
  struct bucket_pair pair;
  int result;
  do {
    reader_token token = cuckoo_enter(c);
    do {
      result = try(c, hash, &attempt, &pair);
      if (result == NO_ROOM && pair.segment && !attempt.no_path)
        result = evict_for(c, &pair, &attempt.no_path);
    } while (result == RETRY);
    attempt.no_path = false;
    cuckoo_leave(c, token);
    if (result == NO_ROOM)
      result = make_room(c, &pair, &attempt);
    else if (result == MARKED_FULL)
      result = try_older(c, &attempt);
  } while (result == RETRY);
  return result < 0 ? refuse(c, result) : result;
}

/* The argument `hash` of this function and the next one is a mixed hash. */
static int add_any(struct cuckoo *c, uint64_t hash)
{
  return insert(c, hash, try_add);
}

static int add_unique_any(struct cuckoo *c, uint64_t hash)
{
  return tamis__contains_mixed_any(c, hash) ? TAMIS_PRESENT : insert(c, hash, try_add_unique);
}

/* ---- the straight path: one generation, a registered reader, and a free lane ---- */

/* Adds a key without a stripe in a fixed filter, and with one stripe in a growable filter: see [O]
 * above.  Returns TAMIS_OK, or RETRY if the add needs both stripes. */
FORCE_INLINE int add_at(struct cuckoo *c, const struct bucket_pair *pair,
                        const struct cuckoo_geometry *g)
{
  HOOK(cuckoo_pair_found);
  struct pair_words words = pair_load(pair, g);
  if (__builtin_expect(match_either(g, words.lower, words.upper, pair->entry), 0) ||
      __builtin_expect(!pair_has_room(words), 0))
    return RETRY;
  struct free_place place = choose_place(pair, &g->shape, words);
  struct stripe *stripe = stripe_of_bucket(g, pair->segment, place.bucket);
  HOOK(cuckoo_place_chosen);
  if (!g->shape.ages)
    return write_entry(pair, g, place) ? TAMIS_OK : RETRY;
  if (__builtin_expect(!stripe_trylock(stripe), 0) &&
      !tamis__segment_wait(true, pair->segment, stripe))
    return RETRY;
  const word *both = segment_words(g, pair->segment);
  uint64_t changed = (word_load(&both[pair->lower]) ^ words.lower) |
                     (word_load(&both[pair->upper]) ^ words.upper) | stripe_has_left(stripe) |
                     (cuckoo_generations(c) ^ 1);
  HOOK(cuckoo_place_checked);
  if (!changed)
    write_entry(pair, g, place);
  stripe_unlock(stripe);
  return changed ? RETRY : TAMIS_OK;
}

FORCE_INLINE int add_unique_at(struct cuckoo *c, const struct bucket_pair *pair,
                               const struct cuckoo_geometry *g)
{
  if (!pair_lock(pair, g))
    return RETRY;
  HOOK(cuckoo_pairs_locked);
  int result = RETRY;
  if (cuckoo_generations(c) == 1) {
    struct pair_words words = pair_load(pair, g);
    bool present = match_either(g, words.lower, words.upper, pair->entry);
    HOOK(cuckoo_unique_checked);
    result = present ? TAMIS_PRESENT : insert_entry_locked(c, pair, g, words);
  }
  pair_unlock(pair, g);
  return result;
}

FORCE_INLINE int insert_into_first(struct cuckoo *c, uint64_t hash, bool growable, bool unique)
{
  struct generation *first = cuckoo_generation(c, 0);
  int result = NO_ROOM;
  reader_token token = NULL;
  if (!growable || (cuckoo_generations(c) == 1 && (token = registered_reader_enter()))) {
    HOOK(cuckoo_generations_read);
    const struct cuckoo_geometry at_first = cuckoo_first_geometry(&first->geometry, growable);
    struct bucket_pair pair = pair_find_with(&at_first, first, hash);
    const struct cuckoo_geometry g =
        cuckoo_first_geometry(growable ? pair.geometry : &first->geometry, growable);
    if (pair.segment)
      result = unique ? add_unique_at(c, &pair, &g) : add_at(c, &pair, &g);
    if (growable)
      registered_reader_leave(token);
  }
  if (result < NO_ROOM) /* no reason to try again */
    return result;
  if (result == MARKED_FULL && (!growable || cuckoo_generations(c) == 1))
    return refuse(c, TAMIS_EFULL); /* no other generation can take the key */
  return insert(c, hash, unique ? try_add_unique : try_add);
}

#define STRAIGHT(sort, growable)                                                               \
  static int add_##sort(struct cuckoo *c, uint64_t hash)                                       \
  {                                                                                            \
    return insert_into_first(c, hash, growable, false);                                        \
  }                                                                                            \
  static int add_unique_##sort(struct cuckoo *c, uint64_t hash)                                \
  {                                                                                            \
    return tamis__contains_mixed_##sort(c, hash) ? TAMIS_PRESENT                               \
                                                 : insert_into_first(c, hash, growable, true); \
  }
STRAIGHT(growable, true)
STRAIGHT(fixed, false)

/* Prefetches a group for writing if the last add of the thread's previous group wrote its key. */
#define CALLS(call, sort)                                                                    \
  int tamis__cuckoo_##call##_##sort(tamis_filter *f, uint64_t hash)                          \
  {                                                                                          \
    return call##_##sort(cuckoo_of(f), hash_mix(&f->keys, hash));                            \
  }                                                                                          \
  void tamis__cuckoo_##call##_many_##sort(tamis_filter *f, const uint64_t *hashes, size_t n, \
                                          int *results)                                      \
  {                                                                                          \
    static _Thread_local int last DIRECT_TLS = TAMIS_OK;                                     \
    uint64_t mixed[FILTER_GROUP];                                                            \
    tamis__mix_and_prefetch(cuckoo_of(f), hashes, n, mixed, last == TAMIS_OK);               \
    for (size_t i = 0; i < n; i++)                                                           \
      results[i] = call##_##sort(cuckoo_of(f), mixed[i]);                                    \
    last = n ? results[n - 1] : last;                                                        \
  }
#define OPERATIONS(sort) CALLS(add, sort) CALLS(add_unique, sort)
OPERATIONS(any)
OPERATIONS(growable)
OPERATIONS(fixed)
