/* SPDX-License-Identifier: MIT
 *
 * Layer 2: contains.
 *
 *    hash ──► cuckoo_address() ──► directory ──► segment ──► lower bucket ┐ a word of lanes each; the
 *             (geometry.h)                           └────► upper bucket ┘ entry stands in either
 *
 * in each generation, of which most filters have one.
 *
 * [D] A look-up takes no lock.  It reads the version of a stripe, then the buckets, then the
 *     version again.  It begins anew if an entry has meanwhile left a bucket of the stripe or the
 *     segment has been marked as leaving and, on the general path, if the directory has changed.
 *
 *     Hit: the entry was there when its word was read; or, if the segment had left the directory by
 *     then, when the segment left, which was after this call had read the first directory entry of
 *     the root.
 *
 *     Miss with one generation: of the key's two buckets, A is the lower one, which is read first,
 *     and B the upper one.  The look-up reads the version of B's stripe, bucket A, bucket B, and
 *     that version again.  (An entry that moves from A to B cannot be missed: its copy is in B
 *     before A is cleared, and A is read first.)  If the two versions are equal, no entry has left
 *     B in between.  So what is not in B at the end was not in B when A was read; it was not in A
 *     then; and the miss takes effect at the read of A.
 *
 *         One case remains: an entry was about to leave B, and the version was bumped before its
 *         first read.  If a move took the entry, its copy was in A by then, where the look-up sees
 *         it.  If a remove took it, the remove has held the stripes of both buckets since.  So
 *         nothing has come to A, and the miss takes effect when the remove clears the lane in B.
 *
 *     Miss with several generations: the newest one, which has most keys, is searched first, and so
 *     on back to generation 0, which is searched last, as if it were the only one.  Where an
 *     observation of a later one is compared after that search, its stripes are not marked and have
 *     the same versions, and its words are the same.  So the segment was the key's all the time.  And
 *     no entry that matches was in an observed bucket pair at any time in between: it would have come
 *     after the first reading of its word, which has no match, and left before the second one, and
 *     leaving would have bumped the version.  Where there was no segment, there still is none, and
 *     the number of generations is the same too.  Thus the miss takes effect where that of generation
 *     0 does.  (The directory of generation 0 is read after the observations, so whatever its pair
 *     says was true in between, even if the segment has left since.)
 *
 * [A] No false negative.  Moves copy before they clear, and bump the version in between; stripe.h
 *     says why that is enough.  Splits and joins fill new segments before they publish them.
 */
#include "cuckoo/lookup.h"

#include "base/compiler.h"
#include "cuckoo/pair.h"

/* ---- one generation: the only one, or that which is searched last ---- */

/* A look-up whose memory is known, and may be fetched before it is read. */
struct lookup {
  const struct stripe *stripe; /* of the upper bucket; NULL: there is no segment */
  const word *lower, *upper;
  uint64_t entry;
};

/* (`g`, here and below: the geometry of the pair's generation, of which parts may be constants.) */
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

/* Reads nothing, and NULL does no harm. */
static inline void lookup_prefetch(const struct lookup *lookup)
{
  __builtin_prefetch(lookup->stripe);
  __builtin_prefetch(lookup->lower);
  __builtin_prefetch(lookup->upper);
}

struct lookup_result {
  bool hit;   /* it holds, but for a batch if it is stale: see finish_group() */
  bool moved; /* an entry has left a bucket meanwhile, or the segment was marked: a miss does not
                 hold */
  bool stale; /* the segment had been marked before, or there was none */
};

FORCE_INLINE struct lookup_result lookup_finish(const struct lookup *lookup,
                                                const struct cuckoo_geometry *g)
{
  if (!lookup->stripe)
    return (struct lookup_result){.stale = true};
  uint64_t version = version_before(lookup->stripe);
  HOOK(cuckoo_versions_read);
  uint64_t lower = word_load(lookup->lower);
  HOOK(cuckoo_lower_read);
  uint64_t upper = word_load(lookup->upper);
  bool moved = version_after(lookup->stripe) != version;
  return (struct lookup_result){match_either(g, lower, upper, lookup->entry), moved,
                                version_has_left(version)};
}

/* ---- later generations ---- */

/* Where the buckets of a pair are, and their stripes. */
struct places {
  const struct stripe *lower_stripe, *upper_stripe;
  const word *lower, *upper;
};

FORCE_INLINE struct places places_of(const struct cuckoo_geometry *g, const struct segment *segment,
                                     uint32_t lower, uint32_t upper)
{
  const word *words = segment_words(g, segment);
  return (struct places){stripe_of_bucket(g, segment, lower), stripe_of_bucket(g, segment, upper),
                         &words[lower], &words[upper]};
}

/* What a key's bucket pair held, in a generation that has a segment for it. */
struct observation {
  struct places at;
  uint64_t lower_version, upper_version;
  uint64_t lower, upper;
};

FORCE_INLINE struct observation observe(const struct places *at)
{
  struct observation seen = {.at = *at};
  seen.lower_version = version_before(at->lower_stripe);
  seen.upper_version = version_before(at->upper_stripe);
  HOOK(cuckoo_observed_versions_read);
  seen.lower = word_load(at->lower);
  HOOK(cuckoo_observed_lower_read);
  seen.upper = word_load(at->upper);
  return seen;
}

/* Whether the pair has been the key's, and has held the same, all the time since.  There is one
 * branch for all comparisons, as they nearly always hold.  (The versions are read again in the same
 * order as before, as they must show a mark.) */
FORCE_INLINE bool observation_holds(const struct observation *seen)
{
  uint64_t lower = word_load(seen->at.lower);
  HOOK(cuckoo_observed_lower_read_again);
  uint64_t upper = word_load(seen->at.upper);
  uint64_t lower_version = version_before(seen->at.lower_stripe);
  uint64_t upper_version = version_before(seen->at.upper_stripe);
  uint64_t changed = (lower ^ seen->lower) | (upper ^ seen->upper) |
                     (lower_version ^ seen->lower_version) | (upper_version ^ seen->upper_version);
  return !(changed | version_has_left(lower_version));
}

/* ---- any number of generations ---- */

/* A hit holds; a miss holds if *sure. */
static bool search_generations(const struct cuckoo *c, unsigned n, uint64_t hash, bool *sure)
{
  struct observation seen[CUCKOO_MAX_GENERATIONS];
  struct bucket_pair pair[CUCKOO_MAX_GENERATIONS];
  for (unsigned i = n - 1; i > 0; i--) {
    const struct cuckoo_geometry *g = &c->generation[i]->geometry;
    pair[i] = pair_find(c->generation[i], hash);
    HOOK(cuckoo_observed_pair_found);
    if (!pair[i].segment)
      continue;
    struct places at = places_of(g, pair[i].segment, pair[i].lower, pair[i].upper);
    seen[i] = observe(&at);
    if (match_either(g, seen[i].lower, seen[i].upper, pair[i].entry))
      return true;
  }
  const struct cuckoo_geometry *g = &c->generation[0]->geometry;
  pair[0] = pair_find(c->generation[0], hash);
  struct lookup lookup = lookup_prepare(g, &pair[0]);
  struct lookup_result result = lookup_finish(&lookup, g);
  *sure = !result.moved;
  for (unsigned i = 1; i < n; i++)
    *sure &= pair[i].segment ? observation_holds(&seen[i]) : !directory_load(pair[i].root_entry);
  return result.hit;
}

/* The caller is a reader. */
static bool search(const struct cuckoo *c, uint64_t hash)
{
  bool sure;
  do {
    unsigned n = cuckoo_generations(c);
    if (search_generations(c, n, hash, &sure))
      return true;
    sure = sure && cuckoo_generations(c) == n;
  } while (!sure);
  return false;
}

bool tamis__contains_mixed_any(const struct cuckoo *c, uint64_t hash)
{
  reader_token token = cuckoo_enter(c);
  bool found = search(c, hash);
  cuckoo_leave(c, token);
  return found;
}

bool tamis__cuckoo_contains_any(const tamis_filter *f, uint64_t hash)
{
  return tamis__contains_mixed_any(const_cuckoo_of(f), hash_mix(&f->keys, hash));
}

/* Looks up key by key, each in a call of its own, after a group's memory has been fetched. */
static size_t contains_many(const struct cuckoo *c, const uint64_t *hashes, size_t n, bool *found,
                            bool (*contains_mixed)(const struct cuckoo *, uint64_t))
{
  size_t hits = 0;
  for (size_t start = 0, length; start < n; start += length) {
    uint64_t mixed[FILTER_GROUP];
    length = n - start < FILTER_GROUP ? n - start : FILTER_GROUP;
    tamis__mix_and_prefetch(c, hashes + start, length, mixed);
    for (size_t i = 0; i < length; i++) {
      bool in = contains_mixed(c, mixed[i]);
      hits += in;
      if (found)
        found[start + i] = in;
    }
  }
  return hits;
}

size_t tamis__cuckoo_contains_many_any(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                       bool *found)
{
  return contains_many(const_cuckoo_of(f), hashes, n, found, tamis__contains_mixed_any);
}

/* ---- the same, faster: one generation or two, a registered reader, and nothing has moved ----
 *
 * The functions below do in a straight line what the general path above does in its usual cases,
 * and leave all other cases to it.  docs/performance.md says what they gain. */

/* Each half loads the geometry for itself, and this one loads it twice.  Values that are loaded
 * before the directory entry is read would wait for it in registers, which are scarce.  In a filter
 * that does not grow, a look-up takes 99 instructions; it takes 6 more without the second load
 * here, and 5 more if the other half does not load. */
FORCE_INLINE struct lookup first_lookup_prepare(struct generation *first, uint64_t hash,
                                                bool growable)
{
  struct cuckoo_geometry g = first_geometry(first, growable);
  struct bucket_pair pair = pair_find_with(&g, first, hash);
  g = first_geometry(first, growable);
  return lookup_prepare(&g, &pair);
}

FORCE_INLINE struct lookup_result first_lookup_finish(const struct generation *first,
                                                      const struct lookup *lookup, bool growable)
{
  const struct cuckoo_geometry g = first_geometry(first, growable);
  return lookup_finish(lookup, &g);
}

/* In a segment of depth 0 no entry has aged, so there are no unknown bits to leave out. */
FORCE_INLINE struct lookup_result first_lookup_growable(struct generation *first, uint64_t hash)
{
  struct cuckoo_geometry g = first_geometry(first, true);
  struct bucket_pair pair = pair_find_with(&g, first, hash);
  if (directory_depth(pair.root_value) > 0) {
    g = first_geometry(first, true);
    struct lookup lookup = lookup_prepare(&g, &pair);
    return lookup_finish(&lookup, &g);
  }
  g = first_geometry(first, true);
  g.shape.ages = false;
  struct lookup lookup = lookup_prepare(&g, &pair);
  return lookup_finish(&lookup, &g);
}

FORCE_INLINE struct lookup_result first_lookup(struct generation *first, uint64_t hash,
                                               bool growable)
{
  if (growable)
    return first_lookup_growable(first, hash);
  struct lookup lookup = first_lookup_prepare(first, hash, false);
  return first_lookup_finish(first, &lookup, false);
}

enum answer { MISS, HIT, UNSURE };

/* Goes on with generation 0 where the second one's pair has no match.  `lower` and `upper` are what
 * its words were. */
static NEVER_INLINE enum answer search_first_of_two(const struct cuckoo *c, uint64_t hash,
                                                    const struct segment *segment, uint64_t buckets,
                                                    uint64_t lower, uint64_t upper)
{
  struct places at = places_of(&c->generation[1]->geometry, segment, (uint32_t) buckets,
                               (uint32_t) (buckets >> 32));
  struct observation seen = observe(&at);
  uint64_t changed = (seen.lower ^ lower) | (seen.upper ^ upper);
  struct lookup_result result = first_lookup_growable(c->generation[0], hash);
  if (result.hit)
    return HIT;
  bool holds = observation_holds(&seen);
  return holds & (changed == 0) & !result.moved & (cuckoo_generations(c) == 2) ? MISS : UNSURE;
}

/* The caller is a reader, and the second generation needs one hash. */
FORCE_INLINE enum answer search_two(const struct cuckoo *c, uint64_t hash)
{
  struct generation *second = c->generation[1];
  struct cuckoo_geometry g = later_geometry(second);
  struct bucket_pair pair = pair_find_with(&g, second, hash);
  HOOK(cuckoo_observed_pair_found);
  if (!pair.segment)
    return UNSURE;
  g = later_geometry(second); /* again, as in first_lookup_prepare() */
  const word *words = segment_words(&g, pair.segment);
  uint64_t lower = word_load(&words[pair.lower]), upper = word_load(&words[pair.upper]);
  if (match_either(&g, lower, upper, pair.entry))
    return HIT;
  return search_first_of_two(c, hash, pair.segment, (uint64_t) pair.upper << 32 | pair.lower, lower,
                             upper);
}

static bool contains_mixed_two(const struct cuckoo *c, uint64_t hash)
{
  reader_token token;
  if (c->generation[1]->geometry.needs_second_hash || !(token = registered_reader_enter()))
    return tamis__contains_mixed_any(c, hash);
  enum answer answer = search_two(c, hash);
  registered_reader_leave(token);
  return __builtin_expect(answer != UNSURE, 1) ? answer == HIT : tamis__contains_mixed_any(c, hash);
}

FORCE_INLINE bool contains_growable(const struct cuckoo *c, uint64_t hash)
{
  struct generation *first = c->generation[0];
  unsigned n = cuckoo_generations(c);
  reader_token token;
  if (n != 1 || !(token = registered_reader_enter()))
    return n == 2 ? contains_mixed_two(c, hash) : tamis__contains_mixed_any(c, hash);
  struct lookup_result result = first_lookup(first, hash, true);
  bool sure = result.hit | (!result.moved & (cuckoo_generations(c) == 1));
  registered_reader_leave(token);
  return __builtin_expect(sure, 1) ? result.hit : tamis__contains_mixed_any(c, hash);
}

FORCE_INLINE bool contains_fixed(const struct cuckoo *c, uint64_t hash)
{
  struct lookup_result result = first_lookup(c->generation[0], hash, false);
  bool sure = result.hit | !result.moved;
  return __builtin_expect(sure, 1) ? result.hit : tamis__contains_mixed_any(c, hash);
}

bool tamis__cuckoo_contains_growable(const tamis_filter *f, uint64_t hash)
{
  return contains_growable(const_cuckoo_of(f), hash_mix(&f->keys, hash));
}

bool tamis__cuckoo_contains_fixed(const tamis_filter *f, uint64_t hash)
{
  return contains_fixed(const_cuckoo_of(f), hash_mix(&f->keys, hash));
}

bool tamis__contains_mixed_growable(const struct cuckoo *c, uint64_t hash)
{
  return contains_growable(c, hash);
}

bool tamis__contains_mixed_fixed(const struct cuckoo *c, uint64_t hash)
{
  return contains_fixed(c, hash);
}

/* ---- the same, faster: batches ---- */

/* Keys for which one step is done before the next step is: so each loop has few variables. */
enum { LOOKUP_GROUP = 8 };

FORCE_INLINE void prepare_group(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                struct lookup *lookups, bool growable)
{
  for (size_t i = 0; i < n; i++) {
    lookups[i] =
        first_lookup_prepare(c->generation[0], hash_mix(&c->head.keys, hashes[i]), growable);
    lookup_prefetch(&lookups[i]);
  }
}

/* Finishes look-ups that were prepared FILTER_AHEAD keys earlier.  By now a segment may have left
 * the directory, or may have been created, perhaps before the turn of the previous key, whose
 * answer must not be the newer one: each key is a call of its own.  Such a key is looked up
 * anew. */
FORCE_INLINE size_t finish_group(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                 const struct lookup *lookups, bool *found, bool growable)
{
  size_t hits = 0;
  for (size_t i = 0; i < n; i++) {
    struct lookup_result result = first_lookup_finish(c->generation[0], &lookups[i], growable);
    bool hit = result.hit;
    if (__builtin_expect((!hit & result.moved) | (growable & result.stale), 0))
      hit = tamis__cuckoo_contains_any(&c->head, hashes[i]);
    hits += hit;
    if (found)
      found[i] = hit;
  }
  return hits;
}

static inline size_t group_size(size_t i, size_t n)
{
  return n - i < LOOKUP_GROUP ? n - i : LOOKUP_GROUP;
}

/* The misses hold if there is still one generation after the last of them. */
FORCE_INLINE size_t contains_many_in_first(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                           bool *found, bool growable)
{
  struct lookup ahead[FILTER_AHEAD];
  size_t hits = 0;
  for (size_t i = 0; i < n + FILTER_AHEAD; i += LOOKUP_GROUP) {
    struct lookup *lookups = &ahead[i % FILTER_AHEAD];
    size_t turn = i - FILTER_AHEAD;
    if (i >= FILTER_AHEAD)
      hits += finish_group(c, hashes + turn, group_size(turn, n), lookups,
                           found ? found + turn : NULL, growable);
    if (i < n)
      prepare_group(c, hashes + i, group_size(i, n), lookups, growable);
  }
  return !growable || cuckoo_generations(c) == 1
             ? hits
             : contains_many(c, hashes, n, found, tamis__contains_mixed_growable);
}

/* Keys of a batch that are looked up inside one read section.  Grace periods pass quickly only
 * while all read sections are short. */
enum { READER_BATCH = 512 };

static size_t contains_some_growable(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                     bool *found)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  if (cuckoo_generations(c) != 1)
    return contains_many(c, hashes, n, found, tamis__contains_mixed_growable);
  reader_token token = reader_enter();
  size_t hits = contains_many_in_first(c, hashes, n, found, true);
  reader_leave(token);
  return hits;
}

size_t tamis__cuckoo_contains_many_growable(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                            bool *found)
{
  size_t hits = 0;
  for (size_t start = 0, length; start < n; start += length) {
    length = n - start < READER_BATCH ? n - start : READER_BATCH;
    hits += contains_some_growable(f, hashes + start, length, found ? found + start : NULL);
  }
  return hits;
}

size_t tamis__cuckoo_contains_many_fixed(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                         bool *found)
{
  return contains_many_in_first(const_cuckoo_of(f), hashes, n, found, false);
}
