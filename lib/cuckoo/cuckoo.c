/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the cuckoo filter.
 *
 *    hash ──► cuckoo_address() ──► slot ──► segment ──► lower bucket ┐ a word of lanes each;
 *             (cuckoo_geometry.h)                └──► upper bucket ┘ an entry stands in either
 *
 * in each generation, of which most filters have one.  cuckoo_table.h shows the structures.
 *
 * [D] A look-up takes no lock.  It reads the versions of the stripes, then the buckets, then the
 *     versions again, and begins anew if an entry has left a bucket of these stripes meanwhile, or a
 *     segment the directory.
 *
 *     Hit: the entry was there when its word was read; or, if the segment had left the directory by
 *     then, when it left, which was after this call had read the first slot of the root.
 *
 *     Miss, one generation: B's version is read, then A is, then B, then B's version, the same.  So no
 *     entry has left B between its two reads.  What is not in B at the end was not in B when A was
 *     read; and it was not in A then: the miss takes effect at the read of A.  (Or an entry was about to
 *     leave B, and its bump came before the first version.  A move had put the copy into A by then, where
 *     it would be seen; a remove has held the locks of both buckets since, so nothing has come to A, and
 *     the miss takes effect when B is cleared.)
 *
 *     Miss, several generations: the older ones are looked at first, the newest at last, as if it were the
 *     only one.  In the older ones nothing has come or gone since: their slots, words and versions are
 *     the same after the newest one's look; and so are the newest one's slots, and the number of
 *     generations.  So the miss takes effect where that of the newest does.
 *
 * [A] Moves copy before they clear, and bump in between (stripe.h says why that is enough); splits
 *     and joins fill new segments before they publish them.
 *
 * [B] One winner.  A unique add holds the stripes of the key's buckets in all generations while it
 *     looks and inserts, and has looked at the number of generations again under them.  Two unique
 *     adds that know of the same generations meet at the newest one's stripes.  If one knows of more,
 *     it holds those of the other's newest too, unless there was no segment yet when it looked; then
 *     the other, which must have made it later, sees the new number.
 *
 * Removes take the entry that knows most of all that match, in whatever generation: if it is not the
 * key's own, its owner shares more of the string than the key's own entry says, so that entry still
 * stands for the owner.
 *
 * [F] Copies beyond max_lanes_per_key(), or for which there is no lane, are counted in the side table of the
 *     segment, with the matching entry that knows most.  A remove takes those first.
 *
 * Locks are taken in this order: a growth stripe, the opening stripe; bucket stripes by generation and
 * index; a copies lock; backlog's or the slabs'.  Nobody who holds bucket stripes waits for a growth
 * stripe.
 */
#include "cuckoo/cuckoo.h"

#include "cuckoo/table.h"
#include "base/hook.h"
#include "base/memory.h"

#include <math.h>

/* Not a result: there was no lane free. */
enum { NO_ROOM = 100, RETRY = 101 };

/* How many lanes of a pair may match a key before further copies are counted instead: two keys of one
 * pair must be able to have theirs. */
static unsigned max_lanes_per_key(const struct cuckoo_geometry *g)
{
  return g->shape.lanes < 3 ? g->shape.lanes : 3;
}

static const struct bucket_shape *shape_of(const struct bucket_pair *pair)
{
  return &pair->generation->geometry.shape;
}

static word *word_of(const struct bucket_pair *pair, uint32_t bucket)
{
  return &segment_words(&pair->generation->geometry, pair->segment)[bucket];
}

static struct stripe *stripe_of_pair(const struct bucket_pair *pair, uint32_t bucket)
{
  return stripe_of_bucket(&pair->generation->geometry, pair->segment, bucket);
}

/* ---- look-up ---- */

/* (g here and below: the geometry of the pair's generation, parts of which may be constants) */
static inline bool matches(const struct bucket_pair *pair, const struct cuckoo_geometry *g,
                           uint32_t bucket)
{
  uint64_t value = word_load(&segment_words(g, pair->segment)[bucket]);
  return bucket_has_match(&g->shape, value, pair->entry);
}

/* A look at the only generation, or the newest one: where, and for what. */
struct lookup {
  const struct stripe *stripe; /* of the upper bucket; NULL: there is no segment */
  const word *lower, *upper;
  uint64_t entry;
};

static inline struct lookup lookup_prepare(const struct cuckoo_geometry *g, const struct bucket_pair *pair)
{
  struct lookup look = {.stripe = NULL};
  if (!pair->segment)
    return look;
  const word *words = segment_words(g, pair->segment);
  look.stripe = stripe_of_bucket(g, pair->segment, pair->upper);
  look.lower = &words[pair->lower];
  look.upper = &words[pair->upper];
  look.entry = pair->entry;
  return look;
}

/* Without a branch between the two buckets: where an entry stands is a matter of chance, and a wrong
 * guess costs more than the second match. */
static inline bool match_either(const struct cuckoo_geometry *g, uint64_t lower, uint64_t upper,
                                uint64_t entry)
{
  return (bucket_has_match(&g->shape, lower, entry) | bucket_has_match(&g->shape, upper, entry)) !=
         0;
}

/* What a look finds: a hit holds, and a miss if nothing has moved. */
struct lookup_result {
  bool hit, moved;
  bool old; /* the segment had left the directory before, or there was none */
};

static inline struct lookup_result lookup_finish(const struct lookup *look, const struct cuckoo_geometry *g)
{
  if (!look->stripe)
    return (struct lookup_result){.old = true};
  uint64_t version = version_before(look->stripe);
  HOOK(cuckoo_versions_read);
  uint64_t lower = word_load(look->lower);
  HOOK(cuckoo_lower_read);
  uint64_t upper = word_load(look->upper);
  bool moved = version_after(look->stripe) != version;
  return (struct lookup_result){match_either(g, lower, upper, look->entry), moved,
                          version_has_left(version)};
}

/* What a generation that is not the newest held. */
struct observation {
  const slot *root, *slot;
  directory_value root_value, directory_value;
  const struct stripe *lower_stripe, *upper_stripe; /* and what follows: if there is a segment */
  uint64_t lower_version, upper_version;
  const word *lower_word, *upper_word;
  uint64_t lower, upper;
};

static inline bool observe(const struct cuckoo_geometry *g, const struct bucket_pair *pair,
                                 struct observation *seen)
{
  *seen = (struct observation){.root = pair->root,
                        .root_value = pair->root_value,
                        .slot = pair->slot,
                        .directory_value = pair->seen};
  HOOK(cuckoo_older_found);
  if (!pair->segment)
    return false;
  struct lookup look = lookup_prepare(g, pair);
  seen->lower_stripe = stripe_of_bucket(g, pair->segment, pair->lower);
  seen->upper_stripe = look.stripe;
  seen->lower_version = version_before(seen->lower_stripe);
  seen->upper_version = version_before(seen->upper_stripe);
  seen->lower_word = look.lower;
  seen->upper_word = look.upper;
  seen->lower = word_load(look.lower);
  HOOK(cuckoo_older_lower_read);
  seen->upper = word_load(look.upper);
  return match_either(g, seen->lower, seen->upper, pair->entry);
}

/* Whether it has held that all the time. */
static inline bool observation_holds(const struct observation *seen)
{
  if (directory_load(seen->root) != seen->root_value || directory_load(seen->slot) != seen->directory_value)
    return false;
  if (!seen->lower_stripe)
    return true;
  bool same = word_load(seen->lower_word) == seen->lower;
  HOOK(cuckoo_older_lower_read_again);
  return same && word_load(seen->upper_word) == seen->upper &&
         version_after(seen->lower_stripe) == seen->lower_version &&
         version_after(seen->upper_stripe) == seen->upper_version;
}

/* Nothing of the segment is read; NULLs do no harm. */
static inline void fetch(const struct lookup *look)
{
  __builtin_prefetch(look->stripe);
  __builtin_prefetch(look->lower);
  __builtin_prefetch(look->upper);
}

/* The newest generation has the most keys, and may be large: its memory is fetched first and looked at last. */
static bool lookup_generations(const struct cuckoo *c, unsigned n, uint64_t hash, bool *sure)
{
  struct observation seen[CUCKOO_MAX_GENERATIONS];
  struct generation *newest = c->generation[n - 1];
  struct bucket_pair pair = pair_find(newest, hash);
  struct lookup look = lookup_prepare(&newest->geometry, &pair);
  fetch(&look);
  for (unsigned i = 0; i + 1 < n; i++) {
    struct bucket_pair older = pair_find(c->generation[i], hash);
    if (observe(&c->generation[i]->geometry, &older, &seen[i]))
      return true;
  }
  struct lookup_result finding = lookup_finish(&look, &newest->geometry);
  *sure = !finding.moved && pair_is_current(&pair);
  for (unsigned i = 0; i + 1 < n; i++)
    *sure &= observation_holds(&seen[i]);
  return finding.hit;
}

static bool look(const struct cuckoo *c, uint64_t hash)
{
  bool sure;
  do {
    unsigned n = cuckoo_generations(c);
    if (lookup_generations(c, n, hash, &sure))
      return true;
    sure = sure && cuckoo_generations(c) == n;
  } while (!sure);
  return false;
}

/* The segments of a filter that does not grow stay for ever: no need to be a reader. */
static inline reader_token enter(const struct cuckoo *c)
{
  return c->demand.growable ? reader_enter() : NULL;
}

static inline void leave(const struct cuckoo *c, reader_token pass)
{
  if (c->demand.growable)
    reader_leave(pass);
}

static bool contains_any(const tamis_filter *f, uint64_t hash)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  reader_token pass = enter(c);
  bool found = look(c, hash);
  leave(c, pass);
  return found;
}

/* The geometry of a generation that needs one hash, or of such a first one: parts of it are known when this
 * is compiled. */
static inline struct cuckoo_geometry later_geometry(const struct generation *generation)
{
  struct cuckoo_geometry g = generation->geometry;
  g.shape.ages = true;
  g.two_hashes = false;
  return g;
}

static inline struct cuckoo_geometry first_geometry(const struct generation *first, bool growable)
{
  struct cuckoo_geometry g = first->geometry;
  g.shape.ages = growable;
  g.two_hashes = false;
  g.root_shift = 0;
  if (!growable)
    g.depth_limit = 0;
  return g;
}

/* The two halves of a look.  Both ask for the geometry anew, as registers are few: what is loaded before the
 * slot would have to wait in them. */
FORCE_INLINE struct lookup first_lookup_prepare(struct generation *first, uint64_t hash, bool growable)
{
  struct cuckoo_geometry g = first_geometry(first, growable);
  struct bucket_pair pair = pair_find_with(&g, first, hash);
  g = first_geometry(first, growable);
  return lookup_prepare(&g, &pair);
}

FORCE_INLINE struct lookup_result first_lookup_finish(const struct generation *first, const struct lookup *look,
                                         bool growable)
{
  struct cuckoo_geometry g = first_geometry(first, growable);
  return lookup_finish(look, &g);
}

FORCE_INLINE struct lookup_result first_lookup(struct generation *first, uint64_t hash, bool growable)
{
  struct lookup look = first_lookup_prepare(first, hash, growable);
  return first_lookup_finish(first, &look, growable);
}

/* The usual cases in a straight line: one generation or two, a known reader, and nothing has moved
 * meanwhile. */
static bool contains_two(const tamis_filter *f, uint64_t hash)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  struct generation *first = c->generation[0], *second = c->generation[1];
  reader_token pass;
  struct observation seen;
  if (second->geometry.two_hashes || !(pass = registered_reader_enter()))
    return contains_any(f, hash);
  struct cuckoo_hash_string string = cuckoo_hash_string(&first->geometry, hash);
  struct cuckoo_geometry g = later_geometry(second);
  struct bucket_pair pair = pair_at(&g, second, cuckoo_address_of(&g, string, hash));
  g = later_geometry(second);
  struct lookup look = lookup_prepare(&g, &pair);
  fetch(&look);
  g = first_geometry(first, true);
  struct bucket_pair older = pair_at(&g, first, cuckoo_address_of(&g, string, hash));
  g = first_geometry(first, true);
  bool found = observe(&g, &older, &seen), sure = true;
  if (!found) {
    g = later_geometry(second);
    struct lookup_result finding = lookup_finish(&look, &g);
    found = finding.hit;
    sure = !finding.moved && pair_is_current(&pair) && observation_holds(&seen) && cuckoo_generations(c) == 2;
  }
  registered_reader_leave(pass);
  return __builtin_expect(found | sure, 1) ? found : contains_any(f, hash);
}

static bool contains_growable(const tamis_filter *f, uint64_t hash)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  struct generation *first = c->generation[0];
  unsigned n = cuckoo_generations(c);
  reader_token pass;
  if (n != 1 || !(pass = registered_reader_enter()))
    return n == 2 ? contains_two(f, hash) : contains_any(f, hash);
  struct lookup_result finding = first_lookup(first, hash, true);
  bool sure = finding.hit | (!finding.moved & (cuckoo_generations(c) == 1));
  registered_reader_leave(pass);
  return __builtin_expect(sure, 1) ? finding.hit : contains_any(f, hash);
}

/* As above. */
static bool contains_fixed(const tamis_filter *f, uint64_t hash)
{
  struct lookup_result finding = first_lookup(const_cuckoo_of(f)->generation[0], hash, false);
  bool sure = finding.hit | !finding.moved;
  return __builtin_expect(sure, 1) ? finding.hit : contains_any(f, hash);
}

/* ---- holding a key's buckets ---- */

static inline bool pair_lock(const struct bucket_pair *pair, const struct cuckoo_geometry *g)
{
  segment_lock(g, pair->segment, pair->lower, pair->upper);
  if (!stripe_has_left(stripe_of_bucket(g, pair->segment, pair->lower)))
    return true;
  segment_unlock(g, pair->segment, pair->lower, pair->upper);
  return false;
}

static inline void pair_unlock(const struct bucket_pair *pair, const struct cuckoo_geometry *g)
{
  segment_unlock(g, pair->segment, pair->lower, pair->upper);
}

/* A key's buckets in all generations, held. */
struct locked_pairs {
  unsigned n;
  struct bucket_pair pairs[CUCKOO_MAX_GENERATIONS];
};

static void unlock_pairs(const struct locked_pairs *hold)
{
  for (unsigned i = hold->n; i-- > 0;)
    if (hold->pairs[i].segment)
      pair_unlock(&hold->pairs[i], &hold->pairs[i].generation->geometry);
}

static void lock_pairs(const struct cuckoo *c, uint64_t hash, struct locked_pairs *hold)
{
  for (;;) {
    unsigned n = cuckoo_generations(c);
    HOOK(cuckoo_counted);
    for (hold->n = 0; hold->n < n; hold->n++) {
      struct bucket_pair *pair = &hold->pairs[hold->n];
      *pair = pair_find(c->generation[hold->n], hash);
      if (pair->segment && !pair_lock(pair, &pair->generation->geometry))
        break;
    }
    HOOK(cuckoo_held);
    if (hold->n == n && cuckoo_generations(c) == n)
      return;
    unlock_pairs(hold);
  }
}

/* ---- insert ---- */

static inline void count(const struct bucket_pair *pair, enum generation_counter what, int change)
{
  counter_add(&pair->generation->counters, what, (uint64_t) (int64_t) change);
}

/* The entry that matches best, and how many do. */
struct best_match {
  unsigned matches;
  unsigned known; /* bits of the string, after root0 */
  uint32_t bucket;
  unsigned lane;
  uint64_t entry;
};

static void match_bucket(const struct bucket_pair *pair, uint32_t bucket, struct best_match *best)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  uint64_t value = word_load(word_of(pair, bucket));
  uint64_t set = bucket_match(&g->shape, value, pair->entry);
  for (; set; set &= set - 1) {
    unsigned lane = bucket_first(&g->shape, set);
    uint64_t entry = bucket_lane(&g->shape, value, lane);
    unsigned known = cuckoo_known_bits(g, entry, pair->segment->depth);
    best->matches++;
    if (known > best->known) {
      best->known = known;
      best->bucket = bucket;
      best->lane = lane;
      best->entry = entry;
    }
  }
}

static struct best_match match_pair(const struct bucket_pair *pair)
{
  struct best_match best = {0};
  match_bucket(pair, pair->lower, &best);
  match_bucket(pair, pair->upper, &best);
  return best;
}

static int add_duplicate(struct cuckoo *c, const struct bucket_pair *pair, uint64_t entry, size_t most)
{
  int result = tamis__segment_add_duplicate(c, pair->segment, duplicates_key(pair->lower, entry), most);
  if (result == TAMIS_OK)
    count(pair, DUPLICATES, 1);
  return result;
}

/* How many entries of a side table may come from copies that were counted only for want of a lane, in a
 * filter that does not grow.  It is full at some point, and must not go on in its side tables, all the
 * less as keys that only seem to be present would. */
static size_t max_duplicates_without_room(const struct cuckoo *c, const struct cuckoo_geometry *g)
{
  return c->demand.growable ? SIZE_MAX : (size_t) (cuckoo_lanes(g) / 512 + 8);
}

/* One copy more of a key that is there, when it is not to have another lane.  TAMIS_EFULL: it is. */
static int put_duplicate(struct cuckoo *c, const struct bucket_pair *pair, bool room, bool no_path)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  struct best_match best = match_pair(pair);
  if (best.matches >= max_lanes_per_key(g))
    return add_duplicate(c, pair, best.entry, SIZE_MAX);
  if (!room && no_path)
    return add_duplicate(c, pair, best.entry, max_duplicates_without_room(c, g));
  return TAMIS_EFULL;
}

/* With the pair held.  Into the emptier bucket, whose first free lane is lower: that leaves the most
 * choice to later keys.  Which one it is, is a matter of chance, so without a branch.  `no_path`: no
 * eviction will make room, so a key that is there already is counted. */
static inline int put(struct cuckoo *c, const struct bucket_pair *pair, const struct cuckoo_geometry *g,
                      bool no_path)
{
  const struct bucket_shape *s = &g->shape;
  word *words = segment_words(g, pair->segment);
  uint64_t lower = word_load(&words[pair->lower]), upper = word_load(&words[pair->upper]);
  uint64_t room_lower = bucket_free(s, lower), room_upper = bucket_free(s, upper);
  bool room = room_lower | room_upper;
  if (match_either(g, lower, upper, pair->entry)) {
    int result = put_duplicate(c, pair, room, no_path);
    if (result != TAMIS_EFULL)
      return result;
  }
  if (!room)
    return NO_ROOM;
  /* All ones where the upper one is chosen.  (x & -x) - 1: what is below the lowest bit; all of it if
   * there is none.) */
  uint64_t up = -(uint64_t) ((room_upper & -room_upper) - 1 < (room_lower & -room_lower) - 1);
  uint64_t value = lower ^ ((lower ^ upper) & up);
  uint64_t free = room_lower ^ ((room_lower ^ room_upper) & up);
  uint32_t bucket = pair->lower ^ ((pair->lower ^ pair->upper) & (uint32_t) up);
  word_store(&words[bucket], bucket_replace(s, value, bucket_first(s, free), pair->entry));
  stripe_use(stripe_of_bucket(g, pair->segment, bucket), 1);
  count(pair, ENTRIES, 1);
  return TAMIS_OK;
}

/* Whose turn it is in a row of tries: the newest generation, or, after limits have been reached there,
 * the ones before it, where removes may have made room. */
struct attempt {
  unsigned generations; /* when the turns began */
  unsigned older;       /* generations gone back */
  bool no_path;        /* there is no room, and no way to make it by an eviction */
};

static unsigned attempt_generation(struct attempt *turn, unsigned n)
{
  if (turn->generations != n)
    *turn = (struct attempt){.generations = n};
  return n - 1 - turn->older;
}

/* After a try that found no room: RETRY, or why not. */
static int make_room(struct cuckoo *c, const struct bucket_pair *full, struct attempt *turn)
{
  int result = turn->older ? TAMIS_EFULL : tamis__grow(c, full);
  if (result == TAMIS_OK || cuckoo_generations(c) != turn->generations)
    return RETRY;
  if (result != TAMIS_EFULL || turn->older + 1 == turn->generations)
    return result;
  turn->older++;
  return RETRY;
}

/* Of a filter that had n generations when the pair was found.  A result, RETRY or NO_ROOM. */
static inline int add_at(struct cuckoo *c, const struct bucket_pair *pair, const struct cuckoo_geometry *g,
                         unsigned n, bool no_path)
{
  HOOK(cuckoo_located);
  if (!pair_lock(pair, g))
    return RETRY;
  /* Once a generation is open, no older one gets segments or entries by those who do not know yet. */
  int result = cuckoo_generations(c) == n ? put(c, pair, g, no_path) : RETRY;
  pair_unlock(pair, g);
  return result;
}

/* The same, of a key that is only added if it is new, in a filter that has one generation. */
static inline int add_unique_at(struct cuckoo *c, const struct bucket_pair *pair,
                                const struct cuckoo_geometry *g)
{
  if (!pair_lock(pair, g))
    return RETRY;
  HOOK(cuckoo_held);
  int result = RETRY;
  if (cuckoo_generations(c) == 1) {
    bool present = matches(pair, g, pair->lower) || matches(pair, g, pair->upper);
    HOOK(cuckoo_unique_looked);
    result = present ? TAMIS_PRESENT : put(c, pair, g, false);
  }
  pair_unlock(pair, g);
  return result;
}

/* An add, as reader: a result, RETRY or NO_ROOM. */
static int try_add(struct cuckoo *c, uint64_t hash, struct attempt *turn, struct bucket_pair *pair)
{
  unsigned n = cuckoo_generations(c);
  *pair = pair_find(c->generation[attempt_generation(turn, n)], hash);
  if (!pair->segment)
    return NO_ROOM;
  return add_at(c, pair, &pair->generation->geometry, n, turn->no_path);
}

static int try_add_unique(struct cuckoo *c, uint64_t hash, struct attempt *turn, struct bucket_pair *pair)
{
  struct locked_pairs hold;
  lock_pairs(c, hash, &hold);
  *pair = hold.pairs[attempt_generation(turn, hold.n)];
  int result = pair->segment ? TAMIS_OK : NO_ROOM;
  for (unsigned i = 0; i < hold.n; i++)
    if (hold.pairs[i].segment && match_pair(&hold.pairs[i]).matches)
      result = TAMIS_PRESENT;
  HOOK(cuckoo_unique_looked);
  if (result == TAMIS_OK)
    result = put(c, pair, &pair->generation->geometry, turn->no_path);
  unlock_pairs(&hold);
  return result;
}

typedef int try_call(struct cuckoo *c, uint64_t hash, struct attempt *turn, struct bucket_pair *pair);

static int insert(struct cuckoo *c, uint64_t hash, try_call *try)
{
  struct attempt turn = {0};
  struct bucket_pair pair;
  int result;
  do {
    reader_token pass = enter(c);
    do {
      result = try(c, hash, &turn, &pair);
      if (result == NO_ROOM && pair.segment && !turn.no_path) {
        turn.no_path =
            !tamis__evict(&pair.generation->geometry, pair.segment, pair.lower, pair.upper);
        result = RETRY;
      }
    } while (result == RETRY);
    turn.no_path = false;
    leave(c, pass);
    if (result == NO_ROOM)
      result = make_room(c, &pair, &turn);
  } while (result == RETRY);
  return result;
}

/* The usual case in a straight line: one generation, a known reader, and there is room. */
FORCE_INLINE int insert_usually(tamis_filter *f, uint64_t hash, bool growable, bool unique)
{
  struct cuckoo *c = cuckoo_of(f);
  struct generation *first = c->generation[0];
  int result = NO_ROOM;
  reader_token pass = NULL;
  if (!growable || (cuckoo_generations(c) == 1 && (pass = registered_reader_enter()))) {
    HOOK(cuckoo_counted);
    const struct cuckoo_geometry g = first_geometry(first, growable);
    struct bucket_pair pair = pair_find_with(&g, first, hash);
    if (pair.segment)
      result = unique ? add_unique_at(c, &pair, &g) : add_at(c, &pair, &g, 1, false);
    if (growable)
      registered_reader_leave(pass);
  }
  if (result == TAMIS_OK || result == TAMIS_PRESENT)
    return result;
  return insert(c, hash, unique ? try_add_unique : try_add);
}

static int add_growable(tamis_filter *f, uint64_t hash)
{
  return insert_usually(f, hash, true, false);
}

static int add_fixed(tamis_filter *f, uint64_t hash)
{
  return insert_usually(f, hash, false, false);
}

static int add_unique_growable(tamis_filter *f, uint64_t hash)
{
  return contains_growable(f, hash) ? TAMIS_PRESENT : insert_usually(f, hash, true, true);
}

static int add_unique_fixed(tamis_filter *f, uint64_t hash)
{
  return contains_fixed(f, hash) ? TAMIS_PRESENT : insert_usually(f, hash, false, true);
}

static int add_any(tamis_filter *f, uint64_t hash)
{
  return insert(cuckoo_of(f), hash, try_add);
}

static int add_unique_any(tamis_filter *f, uint64_t hash)
{
  return contains_any(f, hash) ? TAMIS_PRESENT : insert(cuckoo_of(f), hash, try_add_unique);
}

static void add_unique_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  for (size_t i = 0; i < n; i++)
    results[i] = f->operations->add_unique(f, hashes[i]);
}

/* ---- remove ---- */

/* Whether a copy of the entry was counted, and now is not any more. */
static bool remove_duplicate(const struct bucket_pair *pair, uint64_t entry)
{
  struct segment *segment = pair->segment;
  if (!has_duplicates(segment))
    return false;
  stripe_lock(&segment->duplicates_lock);
  struct duplicate_table *copies = atomic_load_explicit(&segment->copies, memory_order_relaxed);
  struct duplicate_count *found = tamis__duplicates_find(copies, duplicates_key(pair->lower, entry));
  if (found)
    tamis__duplicates_remove(copies, found);
  stripe_unlock(&segment->duplicates_lock);
  if (found)
    count(pair, DUPLICATES, -1);
  return found;
}

static void clear_entry(const struct bucket_pair *pair, const struct best_match *best)
{
  struct stripe *stripe = stripe_of_pair(pair, best->bucket);
  word *w = word_of(pair, best->bucket);
  version_bump(stripe);
  word_store(w, bucket_replace(shape_of(pair), word_load(w), best->lane, 0));
  stripe_use(stripe, -1);
  count(pair, ENTRIES, -1);
}

/* Now and then, when a stripe that has lost an entry holds little. */
static bool is_sparse(const struct bucket_pair *pair, uint32_t bucket)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  uint64_t used = stripe_used(stripe_of_pair(pair, bucket));
  uint64_t lanes = cuckoo_lanes(g) / (g->stripe_mask + UINT64_C(1));
  return used <= lanes * 3 / 8 && (used % 8 == 0 || lanes < 128);
}

static int remove_held(const struct locked_pairs *hold, struct bucket_pair *sparse)
{
  const struct bucket_pair *pair = NULL;
  struct best_match best = {0};
  for (unsigned i = 0; i < hold->n; i++) {
    if (!hold->pairs[i].segment)
      continue;
    struct best_match match = match_pair(&hold->pairs[i]);
    if (match.matches && match.known > best.known) {
      best = match;
      pair = &hold->pairs[i];
    }
  }
  if (!pair)
    return TAMIS_ABSENT;
  if (!remove_duplicate(pair, best.entry)) {
    clear_entry(pair, &best);
    if (is_sparse(pair, best.bucket))
      *sparse = *pair;
  }
  return TAMIS_OK;
}

static int remove_key(tamis_filter *f, uint64_t hash)
{
  struct cuckoo *c = cuckoo_of(f);
  struct locked_pairs hold;
  struct bucket_pair sparse = {.segment = NULL};
  reader_token pass = enter(c);
  lock_pairs(c, hash, &hold);
  int result = remove_held(&hold, &sparse);
  unlock_pairs(&hold);
  leave(c, pass);
  if (sparse.segment)
    tamis__shrink(c, &sparse);
  return result;
}

/* ---- batches ---- */

static void prefetch_pair(struct generation *generation, struct cuckoo_address place)
{
  struct bucket_pair pair = pair_at(&generation->geometry, generation, place);
  struct lookup look = lookup_prepare(&generation->geometry, &pair);
  fetch(&look);
}

static void prefetch(const tamis_filter *f, const uint64_t *hashes, size_t n)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  unsigned generations = cuckoo_generations(c);
  for (size_t i = 0; i < n; i++)
    for (unsigned j = 0; j < generations; j++)
      prefetch_pair(c->generation[j], cuckoo_address(&c->generation[j]->geometry, hashes[i]));
}

static size_t contains_many_any(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                bool *found)
{
  size_t hits = 0;
  for (size_t i = 0; i < n; i++) {
    bool in = contains_any(f, hash_mix(&f->keys, hashes[i]));
    hits += in;
    if (found)
      found[i] = in;
  }
  return hits;
}

/* Keys that one thing is done to at a time: so the loops that do it have few variables each. */
enum { LOOKUP_GROUP = 8 };

/* Some keys' pairs are found, and their memory fetched. */
FORCE_INLINE void prepare_group(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                              struct lookup *looks, bool growable)
{
  for (size_t i = 0; i < n; i++) {
    looks[i] = first_lookup_prepare(c->generation[0], hash_mix(&c->head.keys, hashes[i]), growable);
    fetch(&looks[i]);
  }
}

/* FILTER_AHEAD keys later.  So a segment may have left the directory, or been made, perhaps before the turn of
 * the key before it, whose answer must not be the newer one: each key is a call of its own.  Such a key is
 * looked up anew. */
FORCE_INLINE size_t finish_group(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                 const struct lookup *looks, bool *found, bool growable)
{
  size_t hits = 0;
  for (size_t i = 0; i < n; i++) {
    struct lookup_result finding = first_lookup_finish(c->generation[0], &looks[i], growable);
    bool hit = finding.hit;
    if (__builtin_expect((!hit & finding.moved) | (growable & finding.old), 0))
      hit = contains_any(&c->head, hash_mix(&c->head.keys, hashes[i]));
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

/* Misses hold if there is still one generation after the last look. */
FORCE_INLINE size_t lookup_many(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                  bool *found, bool growable)
{
  struct lookup ahead[FILTER_AHEAD];
  size_t hits = 0;
  for (size_t i = 0; i < n + FILTER_AHEAD; i += LOOKUP_GROUP) {
    struct lookup *looks = &ahead[i % FILTER_AHEAD];
    size_t turn = i - FILTER_AHEAD;
    if (i >= FILTER_AHEAD)
      hits += finish_group(c, hashes + turn, group_size(turn, n), looks, found ? found + turn : NULL,
                          growable);
    if (i < n)
      prepare_group(c, hashes + i, group_size(i, n), looks, growable);
  }
  return !growable || cuckoo_generations(c) == 1 ? hits
                                                 : contains_many_any(&c->head, hashes, n, found);
}

/* Keys of a batch that are looked up as one reader. */
enum { READER_BATCH = 512 };

typedef size_t many_call(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found);

static size_t contains_some_growable(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  if (cuckoo_generations(c) != 1)
    return contains_many_any(f, hashes, n, found);
  reader_token pass = reader_enter();
  size_t hits = lookup_many(c, hashes, n, found, true);
  reader_leave(pass);
  return hits;
}

/* In pieces, as grace periods go by quickly only while all readers are quick. */
static size_t in_reader_batches(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found,
                        many_call *call)
{
  size_t hits = 0;
  for (size_t start = 0, length; start < n; start += length) {
    length = n - start < READER_BATCH ? n - start : READER_BATCH;
    hits += call(f, hashes + start, length, found ? found + start : NULL);
  }
  return hits;
}

static size_t contains_some_fixed(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found)
{
  return lookup_many(const_cuckoo_of(f), hashes, n, found, false);
}

static size_t contains_many_growable(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                     bool *found)
{
  return in_reader_batches(f, hashes, n, found, contains_some_growable);
}

static size_t contains_many_fixed(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                  bool *found)
{
  return in_reader_batches(f, hashes, n, found, contains_some_fixed);
}

/* ---- figures ---- */

/* A generation that is full and has split to the end has its rate; with fewer splits the entries are
 * younger, with fewer entries there are fewer to meet. */
static double rate_now(struct generation *generation, uint64_t entries, uint64_t segments)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  if (!segments || !entries)
    return 0;
  double load = (double) entries / ((double) segments * (double) cuckoo_lanes(g));
  double full = g->shape.ages ? cuckoo_geometry_full_load(g) : 1;
  double depth = log2((double) segments / (double) cuckoo_roots(g));
  depth = fmin(fmax(depth, 0), g->depth_limit);
  return g->rate * load / full * (1 + depth / 2) / (1 + g->depth_limit / 2.0);
}

static void stats(const tamis_filter *f, tamis_stats *out)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  unsigned n = cuckoo_generations(c);
  tamis__backlog_drain(
      (struct backlog *) &c->backlog); /* no filter is ever const: it comes from create */
  out->kind = TAMIS_CUCKOO;
  out->capacity = c->demand.capacity;
  out->fpp = c->demand.fpp;
  out->bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
  out->growths = atomic_load_explicit(&c->splits, memory_order_relaxed) + n - 1;
  out->joins = atomic_load_explicit(&c->joins, memory_order_relaxed);
  out->generations = n;
  uint64_t lanes = 0, entries_in_all = 0;
  for (unsigned i = 0; i < n; i++) {
    struct generation *generation = c->generation[i];
    uint64_t entries = cuckoo_count(generation, ENTRIES);
    uint64_t segments = atomic_load_explicit(&generation->segments, memory_order_relaxed);
    entries_in_all += entries;
    out->count += entries + cuckoo_count(generation, DUPLICATES);
    out->segments += segments;
    out->fpp_estimate += rate_now(generation, entries, segments);
    lanes += segments * cuckoo_lanes(&generation->geometry);
    out->fingerprint_bits = generation->geometry.shape.width - generation->geometry.shape.ages;
  }
  out->estimated_count = (double) out->count;
  out->load = out->estimated_count / (double) out->capacity;
  out->occupancy = lanes ? (double) entries_in_all / (double) lanes : 0;
}

/* ---- creation ---- */

static void destroy(tamis_filter *f)
{
  struct cuckoo *c = cuckoo_of(f);
  tamis_allocator from = f->allocator;
  tamis__backlog_destroy(&c->backlog);
  for (unsigned i = 0; i < cuckoo_generations(c); i++)
    tamis__generation_destroy(c, c->generation[i]);
  stripe_destroy(&c->opening);
  stripe_destroy(&c->slabs.lock);
  stripe_destroy(&c->slabs.making);
  tamis__memory_release(&from, c, sizeof *c);
}

/* growable_operations and fixed_operations; and any_operations, for a first generation that needs two
 * hashes. */
#define OPERATIONS(sort)                                      \
  static const struct filter_operations sort##_operations = { \
      .destroy = destroy,                                     \
      .contains = contains_##sort,                            \
      .contains_many = contains_many_##sort,                  \
      .add = add_##sort,                                      \
      .add_unique = add_unique_##sort,                        \
      .add_unique_many = add_unique_many,                     \
      .remove = remove_key,                                   \
      .prefetch = prefetch,                                   \
      .stats = stats,                                         \
  };
OPERATIONS(growable)
OPERATIONS(fixed)
OPERATIONS(any)

static const struct filter_operations *operations_for(const struct cuckoo_geometry *g)
{
  return g->two_hashes ? &any_operations : g->shape.ages ? &growable_operations : &fixed_operations;
}

static struct cuckoo_spec spec_of(const tamis_options *o)
{
  return (struct cuckoo_spec){
      .capacity = o->capacity, .fpp = o->fpp, .growable = o->growable, .stripes = o->stripes};
}

static uint64_t total_bytes(const struct cuckoo_geometry *g)
{
  return sizeof(struct cuckoo) + sizeof(struct generation) +
         cuckoo_shards(g) * sizeof(struct counter_shard) + cuckoo_directory_size(g) * sizeof(slot) +
         cuckoo_roots(g) * g->segment_bytes + tamis__slab_heads(g);
}

int tamis__cuckoo_bytes(const tamis_options *options, uint64_t *bytes)
{
  struct cuckoo_geometry g;
  struct cuckoo_spec demand = spec_of(options);
  int result = cuckoo_geometry_plan(&demand, &g);
  if (result == TAMIS_OK)
    *bytes = total_bytes(&g);
  return result;
}

int tamis__cuckoo_fpp(const tamis_options *options, uint64_t bytes, double *fpp)
{
  tamis_options trial = *options;
  int result = TAMIS_EFULL;
  double least = hash_collisions(options->capacity); /* what 64-bit hashes can give */
  for (unsigned shape = cuckoo_geometry_shapes(); shape-- > 0;) {
    uint64_t needed;
    /* A hair more, so that rounding does not lead to the next shape. */
    trial.fpp = fmax(cuckoo_geometry_lowest_rate(shape, options->growable), least) * (1 + 1e-9);
    result = tamis__cuckoo_bytes(&trial, &needed);
    if (result == TAMIS_OK && needed <= bytes) {
      *fpp = trial.fpp;
      return TAMIS_OK;
    }
  }
  return result == TAMIS_OK ? TAMIS_EFULL : result;
}

/* The first generation's segments at once, if they are not too many: better here than in the first adds.
 * Those of a large filter are made as keys come. */
enum { EARLY_SEGMENTS = 1024 };

static int create_first_segments(struct cuckoo *c)
{
  struct generation *generation = c->generation[0];
  const struct cuckoo_geometry *g = &generation->geometry;
  if (!c->demand.growable || cuckoo_roots(g) > EARLY_SEGMENTS)
    return TAMIS_OK;
  for (uint64_t root = 0; root < cuckoo_roots(g); root++) {
    struct bucket_pair pair = {.generation = generation,
                        .index = root << g->depth_limit,
                        .slot = generation_directory_entry(generation, root << g->depth_limit),
                        .root = generation_directory_entry(generation, root << g->depth_limit)};
    int result = tamis__grow(c, &pair);
    if (result != TAMIS_OK)
      return result;
  }
  return TAMIS_OK;
}

static int fill(struct cuckoo *c, const struct cuckoo_geometry *g)
{
  int result = TAMIS_ENOMEM;
  if (!tamis__backlog_init(&c->backlog, tamis__segment_reclaim, c, &c->bytes))
    return result;
  c->generation[0] = tamis__generation_create(c, g, &result);
  if (!c->generation[0])
    return result;
  atomic_store_explicit(&c->generations, 1, memory_order_relaxed); /* not shared yet */
  return create_first_segments(c);
}

int tamis__cuckoo_create_with(const tamis_options *options, const struct tamis_filter *head,
                              const struct cuckoo_geometry *g, tamis_filter **out)
{
  if (options->max_bytes && total_bytes(g) > options->max_bytes)
    return TAMIS_EFULL;
  struct cuckoo *c = tamis__memory_allocate(&head->allocator, sizeof *c);
  if (!c)
    return TAMIS_ENOMEM;
  c->head = *head;
  c->head.operations = operations_for(g);
  c->demand = spec_of(options);
  c->max_bytes = options->max_bytes;
  c->bytes = sizeof *c;
  stripe_init(&c->opening);
  tamis__slabs_init(c, g, total_bytes(g));
  int result = fill(c, g);
  if (result == TAMIS_OK)
    *out = &c->head;
  else
    destroy(&c->head);
  return result;
}

int tamis__cuckoo_create(const tamis_options *options, const struct tamis_filter *head,
                         tamis_filter **out)
{
  struct cuckoo_geometry g;
  struct cuckoo_spec demand = spec_of(options);
  int result = cuckoo_geometry_plan(&demand, &g);
  return result == TAMIS_OK ? tamis__cuckoo_create_with(options, head, &g, out) : result;
}

/* ---- validation, for tests ---- */

static bool stands_in_bucket(const struct cuckoo_geometry *g, const struct segment *segment,
                      uint32_t bucket, uint64_t entry)
{
  uint64_t value = word_load(&segment_words(g, segment)[bucket]);
  bool found = false;
  for (unsigned lane = 0; lane < g->shape.lanes; lane++)
    found |= bucket_lane(&g->shape, value, lane) == entry;
  return found;
}

/* What is counted is copies of an entry in a lane: so a segment without entries has none. */
static const char *validate_duplicates(const struct cuckoo_geometry *g, const struct segment *segment,
                                   uint64_t *counted)
{
  const struct duplicate_table *copies = atomic_load_explicit(&segment->copies, memory_order_relaxed);
  for (size_t i = 0; copies && i <= copies->mask; i++) {
    uint32_t lower = (uint32_t) (copies->entries[i].key >> 32);
    uint64_t entry = copies->entries[i].key & bucket_lane_bits(&g->shape);
    if (entry && !stands_in_bucket(g, segment, lower, entry) &&
        !stands_in_bucket(g, segment, other_bucket(g, segment, lower, entry), entry))
      return "copies are counted of an entry that stands in no lane";
    *counted += copies->entries[i].count;
  }
  return NULL;
}

static const char *validate_segment(const struct cuckoo_geometry *g, const struct segment *segment,
                                    uint64_t *entries)
{
  uint64_t used = 0;
  for (uint32_t i = 0; i <= g->stripe_mask; i++) {
    struct stripe *stripe = &segment_stripes(segment)[i];
    if (stripe_held(stripe))
      return "a stripe is still locked";
    if (version_has_left(version_after(stripe)))
      return "a segment is in the directory that has left";
  }
  for (uint32_t i = 0; i < cuckoo_buckets(g); i++) {
    uint64_t value = word_load(&segment_words(g, segment)[i]);
    used += bucket_count(bucket_occupied(&g->shape, value));
    for (unsigned lane = 0; lane < g->shape.lanes; lane++) {
      uint64_t entry = bucket_lane(&g->shape, value, lane);
      if (entry && bucket_age(&g->shape, entry) > segment->depth)
        return "an entry is older than its segment is deep";
    }
  }
  if (used != tamis__segment_used(g, segment))
    return "stripes count other entries than there are";
  *entries += used;
  return NULL;
}

static const char *validate_generation(const struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  uint64_t entries = 0, copies = 0, segments = 0;
  for (uint64_t i = 0, step; i < cuckoo_directory_size(g); i += step) {
    directory_value value = directory_load(generation_directory_entry(generation, i));
    step = UINT64_C(1) << (g->depth_limit - directory_depth(value));
    for (uint64_t j = i; j < i + step; j++)
      if (directory_load(generation_directory_entry(generation, j)) != value)
        return "slots of one segment differ";
    const struct segment *segment = directory_segment(value);
    if (!segment)
      continue;
    segments++;
    if (segment->depth != directory_depth(value) ||
        cuckoo_top_bits(segment->prefix, g->depth_limit) != (i & ((1u << g->depth_limit) - 1)))
      return "a segment is in the wrong slot";
    const char *reason = validate_segment(g, segment, &entries);
    if (!reason)
      reason = validate_duplicates(g, segment, &copies);
    if (reason)
      return reason;
  }
  return entries != tamis__counter_sum(&generation->counters, ENTRIES)
             ? "counted entries are not those in buckets"
         : copies != tamis__counter_sum(&generation->counters, DUPLICATES)
             ? "counted copies are not those in side tables"
         : segments != atomic_load_explicit(&generation->segments, memory_order_relaxed)
             ? "counted segments are not those in the directory"
             : NULL;
}

bool tamis__cuckoo_validate(const tamis_filter *f, const char **reason)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  *reason = NULL;
  for (unsigned i = 0; i < cuckoo_generations(c) && !*reason; i++)
    *reason = validate_generation(c->generation[i]);
  return !*reason;
}
