/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the cuckoo filter.
 *
 *    hash ──► cuckoo_place() ──► slot ──► segment ──► lower bucket ┐ a word of lanes each;
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
 * [F] Copies beyond most_copies(), or for which there is no lane, are counted in the side table of the
 *     segment, with the matching entry that knows most.  A remove takes those first.
 *
 * Locks are taken in this order: a growth stripe, the opening stripe; bucket stripes by generation and
 * index; a copies lock; limbo's or the slabs'.  Nobody who holds bucket stripes waits for a growth
 * stripe.
 */
#include "cuckoo.h"

#include "cuckoo_table.h"
#include "hook.h"
#include "memory.h"

#include <math.h>

/* Not a result: there was no lane free. */
enum { NO_ROOM = 100, AGAIN = 101 };

/* How many lanes of a pair may match a key before further copies are counted instead: two keys of one
 * pair must be able to have theirs. */
static unsigned most_copies(const struct cuckoo_geometry *g)
{
  return g->shape.lanes < 3 ? g->shape.lanes : 3;
}

static const struct bucket_shape *shape_of(const struct spot *spot)
{
  return &spot->generation->geometry.shape;
}

static word *word_of(const struct spot *spot, uint32_t bucket)
{
  return &segment_words(&spot->generation->geometry, spot->segment)[bucket];
}

static struct stripe *stripe_of_spot(const struct spot *spot, uint32_t bucket)
{
  return stripe_of_bucket(&spot->generation->geometry, spot->segment, bucket);
}

/* ---- look-up ---- */

/* (g here and below: the geometry of the spot's generation, parts of which may be constants) */
static inline bool matches(const struct spot *spot, const struct cuckoo_geometry *g,
                           uint32_t bucket)
{
  uint64_t value = word_load(&segment_words(g, spot->segment)[bucket]);
  return bucket_has_match(&g->shape, value, spot->entry);
}

/* A look at the only generation, or the newest one: where, and for what. */
struct look {
  const struct stripe *stripe; /* of the upper bucket; NULL: there is no segment */
  const word *lower, *upper;
  uint64_t entry;
};

static inline struct look look_into(const struct cuckoo_geometry *g, const struct spot *spot)
{
  struct look look = {.stripe = NULL};
  if (!spot->segment)
    return look;
  const word *words = segment_words(g, spot->segment);
  look.stripe = stripe_of_bucket(g, spot->segment, spot->upper);
  look.lower = &words[spot->lower];
  look.upper = &words[spot->upper];
  look.entry = spot->entry;
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
struct finding {
  bool hit, moved;
  bool old; /* the segment had left the directory before, or there was none */
};

static inline struct finding look_end(const struct look *look, const struct cuckoo_geometry *g)
{
  if (!look->stripe)
    return (struct finding){.old = true};
  uint64_t version = version_before(look->stripe);
  HOOK(cuckoo_versions_read);
  uint64_t lower = word_load(look->lower);
  HOOK(cuckoo_lower_read);
  uint64_t upper = word_load(look->upper);
  bool moved = version_after(look->stripe) != version;
  return (struct finding){match_either(g, lower, upper, look->entry), moved,
                          version_has_left(version)};
}

/* What a generation that is not the newest held. */
struct seen {
  const slot *root, *slot;
  slot_value root_value, slot_value;
  const struct stripe *lower_stripe, *upper_stripe; /* and what follows: if there is a segment */
  uint64_t lower_version, upper_version;
  const word *lower_word, *upper_word;
  uint64_t lower, upper;
};

static inline bool look_at_older(const struct cuckoo_geometry *g, const struct spot *spot,
                                 struct seen *seen)
{
  *seen = (struct seen){.root = spot->root,
                        .root_value = spot->root_seen,
                        .slot = spot->slot,
                        .slot_value = spot->seen};
  HOOK(cuckoo_older_found);
  if (!spot->segment)
    return false;
  struct look look = look_into(g, spot);
  seen->lower_stripe = stripe_of_bucket(g, spot->segment, spot->lower);
  seen->upper_stripe = look.stripe;
  seen->lower_version = version_before(seen->lower_stripe);
  seen->upper_version = version_before(seen->upper_stripe);
  seen->lower_word = look.lower;
  seen->upper_word = look.upper;
  seen->lower = word_load(look.lower);
  HOOK(cuckoo_older_lower_read);
  seen->upper = word_load(look.upper);
  return match_either(g, seen->lower, seen->upper, spot->entry);
}

/* Whether it has held that all the time. */
static inline bool still_holds(const struct seen *seen)
{
  if (slot_load(seen->root) != seen->root_value || slot_load(seen->slot) != seen->slot_value)
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
static inline void fetch(const struct look *look)
{
  __builtin_prefetch(look->stripe);
  __builtin_prefetch(look->lower);
  __builtin_prefetch(look->upper);
}

/* The newest generation has the most keys, and may be large: its memory is fetched first and looked at last. */
static bool look_at_all(const struct cuckoo *c, unsigned n, uint64_t hash, bool *sure)
{
  struct seen seen[CUCKOO_MAX_GENERATIONS];
  struct generation *newest = c->generation[n - 1];
  struct spot spot = spot_find(newest, hash);
  struct look look = look_into(&newest->geometry, &spot);
  fetch(&look);
  for (unsigned i = 0; i + 1 < n; i++) {
    struct spot older = spot_find(c->generation[i], hash);
    if (look_at_older(&c->generation[i]->geometry, &older, &seen[i]))
      return true;
  }
  struct finding finding = look_end(&look, &newest->geometry);
  *sure = !finding.moved && spot_holds(&spot);
  for (unsigned i = 0; i + 1 < n; i++)
    *sure &= still_holds(&seen[i]);
  return finding.hit;
}

static bool look(const struct cuckoo *c, uint64_t hash)
{
  bool sure;
  do {
    unsigned n = cuckoo_generations(c);
    if (look_at_all(c, n, hash, &sure))
      return true;
    sure = sure && cuckoo_generations(c) == n;
  } while (!sure);
  return false;
}

/* The segments of a filter that does not grow stay for ever: no need to be a reader. */
static inline reader_pass enter(const struct cuckoo *c)
{
  return c->demand.growable ? reader_enter() : NULL;
}

static inline void leave(const struct cuckoo *c, reader_pass pass)
{
  if (c->demand.growable)
    reader_leave(pass);
}

static bool contains_any(const tamis_filter *f, uint64_t hash)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  reader_pass pass = enter(c);
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
FOR_EACH_SORT struct look look_begin(struct generation *first, uint64_t hash, bool growable)
{
  struct cuckoo_geometry g = first_geometry(first, growable);
  struct spot spot = spot_find_with(&g, first, hash);
  g = first_geometry(first, growable);
  return look_into(&g, &spot);
}

FOR_EACH_SORT struct finding look_finish(const struct generation *first, const struct look *look,
                                         bool growable)
{
  struct cuckoo_geometry g = first_geometry(first, growable);
  return look_end(look, &g);
}

FOR_EACH_SORT struct finding look_at_first(struct generation *first, uint64_t hash, bool growable)
{
  struct look look = look_begin(first, hash, growable);
  return look_finish(first, &look, growable);
}

/* The usual cases in a straight line: one generation or two, a known reader, and nothing has moved
 * meanwhile. */
static bool contains_two(const tamis_filter *f, uint64_t hash)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  struct generation *first = c->generation[0], *second = c->generation[1];
  reader_pass pass;
  struct seen seen;
  if (second->geometry.two_hashes || !(pass = known_reader_enter()))
    return contains_any(f, hash);
  struct cuckoo_string string = cuckoo_string(&first->geometry, hash);
  struct cuckoo_geometry g = later_geometry(second);
  struct spot spot = spot_at(&g, second, cuckoo_place_of(&g, string, hash));
  g = later_geometry(second);
  struct look look = look_into(&g, &spot);
  fetch(&look);
  g = first_geometry(first, true);
  struct spot older = spot_at(&g, first, cuckoo_place_of(&g, string, hash));
  g = first_geometry(first, true);
  bool found = look_at_older(&g, &older, &seen), sure = true;
  if (!found) {
    g = later_geometry(second);
    struct finding finding = look_end(&look, &g);
    found = finding.hit;
    sure = !finding.moved && spot_holds(&spot) && still_holds(&seen) && cuckoo_generations(c) == 2;
  }
  known_reader_leave(pass);
  return __builtin_expect(found | sure, 1) ? found : contains_any(f, hash);
}

static bool contains_growable(const tamis_filter *f, uint64_t hash)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  struct generation *first = c->generation[0];
  unsigned n = cuckoo_generations(c);
  reader_pass pass;
  if (n != 1 || !(pass = known_reader_enter()))
    return n == 2 ? contains_two(f, hash) : contains_any(f, hash);
  struct finding finding = look_at_first(first, hash, true);
  bool sure = finding.hit | (!finding.moved & (cuckoo_generations(c) == 1));
  known_reader_leave(pass);
  return __builtin_expect(sure, 1) ? finding.hit : contains_any(f, hash);
}

/* As above. */
static bool contains_fixed(const tamis_filter *f, uint64_t hash)
{
  struct finding finding = look_at_first(const_cuckoo_of(f)->generation[0], hash, false);
  bool sure = finding.hit | !finding.moved;
  return __builtin_expect(sure, 1) ? finding.hit : contains_any(f, hash);
}

/* ---- holding a key's buckets ---- */

static inline bool spot_lock(const struct spot *spot, const struct cuckoo_geometry *g)
{
  segment_lock(g, spot->segment, spot->lower, spot->upper);
  if (!stripe_has_left(stripe_of_bucket(g, spot->segment, spot->lower)))
    return true;
  segment_unlock(g, spot->segment, spot->lower, spot->upper);
  return false;
}

static inline void spot_unlock(const struct spot *spot, const struct cuckoo_geometry *g)
{
  segment_unlock(g, spot->segment, spot->lower, spot->upper);
}

/* A key's buckets in all generations, held. */
struct hold {
  unsigned n;
  struct spot spots[CUCKOO_MAX_GENERATIONS];
};

static void let_go(const struct hold *hold)
{
  for (unsigned i = hold->n; i-- > 0;)
    if (hold->spots[i].segment)
      spot_unlock(&hold->spots[i], &hold->spots[i].generation->geometry);
}

static void hold_all(const struct cuckoo *c, uint64_t hash, struct hold *hold)
{
  for (;;) {
    unsigned n = cuckoo_generations(c);
    HOOK(cuckoo_counted);
    for (hold->n = 0; hold->n < n; hold->n++) {
      struct spot *spot = &hold->spots[hold->n];
      *spot = spot_find(c->generation[hold->n], hash);
      if (spot->segment && !spot_lock(spot, &spot->generation->geometry))
        break;
    }
    HOOK(cuckoo_held);
    if (hold->n == n && cuckoo_generations(c) == n)
      return;
    let_go(hold);
  }
}

/* ---- insert ---- */

static inline void count(const struct spot *spot, enum generation_counter what, int change)
{
  counter_add(&spot->generation->counters, what, (uint64_t) (int64_t) change);
}

/* The entry that matches best, and how many do. */
struct best_match {
  unsigned matches;
  unsigned known; /* bits of the string, after root0 */
  uint32_t bucket;
  unsigned lane;
  uint64_t entry;
};

static void match_bucket(const struct spot *spot, uint32_t bucket, struct best_match *best)
{
  const struct cuckoo_geometry *g = &spot->generation->geometry;
  uint64_t value = word_load(word_of(spot, bucket));
  uint64_t set = bucket_match(&g->shape, value, spot->entry);
  for (; set; set &= set - 1) {
    unsigned lane = bucket_first(&g->shape, set);
    uint64_t entry = bucket_lane(&g->shape, value, lane);
    unsigned known = cuckoo_known_bits(g, entry, spot->segment->depth);
    best->matches++;
    if (known > best->known) {
      best->known = known;
      best->bucket = bucket;
      best->lane = lane;
      best->entry = entry;
    }
  }
}

static struct best_match match_spot(const struct spot *spot)
{
  struct best_match best = {0};
  match_bucket(spot, spot->lower, &best);
  match_bucket(spot, spot->upper, &best);
  return best;
}

static int add_copy(struct cuckoo *c, const struct spot *spot, uint64_t entry, size_t most)
{
  int result = tamis__segment_add_copy(c, spot->segment, copies_key(spot->lower, entry), most);
  if (result == TAMIS_OK)
    count(spot, COPIES, 1);
  return result;
}

/* How many entries of a side table may come from copies that were counted only for want of a lane, in a
 * filter that does not grow.  It is full at some point, and must not go on in its side tables, all the
 * less as keys that only seem to be present would. */
static size_t copies_for_want_of_room(const struct cuckoo *c, const struct cuckoo_geometry *g)
{
  return c->demand.growable ? SIZE_MAX : (size_t) (cuckoo_lanes(g) / 512 + 8);
}

/* One copy more of a key that is there, when it is not to have another lane.  TAMIS_EFULL: it is. */
static int put_copy(struct cuckoo *c, const struct spot *spot, bool room, bool cornered)
{
  const struct cuckoo_geometry *g = &spot->generation->geometry;
  struct best_match best = match_spot(spot);
  if (best.matches >= most_copies(g))
    return add_copy(c, spot, best.entry, SIZE_MAX);
  if (!room && cornered)
    return add_copy(c, spot, best.entry, copies_for_want_of_room(c, g));
  return TAMIS_EFULL;
}

/* With the spot held.  Into the emptier bucket, whose first free lane is lower: that leaves the most
 * choice to later keys.  Which one it is, is a matter of chance, so without a branch.  `cornered`: no
 * eviction will make room, so a key that is there already is counted. */
static inline int put(struct cuckoo *c, const struct spot *spot, const struct cuckoo_geometry *g,
                      bool cornered)
{
  const struct bucket_shape *s = &g->shape;
  word *words = segment_words(g, spot->segment);
  uint64_t lower = word_load(&words[spot->lower]), upper = word_load(&words[spot->upper]);
  uint64_t room_lower = bucket_free(s, lower), room_upper = bucket_free(s, upper);
  bool room = room_lower | room_upper;
  if (match_either(g, lower, upper, spot->entry)) {
    int result = put_copy(c, spot, room, cornered);
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
  uint32_t bucket = spot->lower ^ ((spot->lower ^ spot->upper) & (uint32_t) up);
  word_store(&words[bucket], bucket_replace(s, value, bucket_first(s, free), spot->entry));
  stripe_use(stripe_of_bucket(g, spot->segment, bucket), 1);
  count(spot, ENTRIES, 1);
  return TAMIS_OK;
}

/* Whose turn it is in a row of tries: the newest generation, or, after limits have been reached there,
 * the ones before it, where removes may have made room. */
struct turn {
  unsigned generations; /* when the turns began */
  unsigned older;       /* generations gone back */
  bool cornered;        /* there is no room, and no way to make it by an eviction */
};

static unsigned turn_generation(struct turn *turn, unsigned n)
{
  if (turn->generations != n)
    *turn = (struct turn){.generations = n};
  return n - 1 - turn->older;
}

/* After a try that found no room: AGAIN, or why not. */
static int make_room(struct cuckoo *c, const struct spot *full, struct turn *turn)
{
  int result = turn->older ? TAMIS_EFULL : tamis__grow(c, full);
  if (result == TAMIS_OK || cuckoo_generations(c) != turn->generations)
    return AGAIN;
  if (result != TAMIS_EFULL || turn->older + 1 == turn->generations)
    return result;
  turn->older++;
  return AGAIN;
}

/* Of a filter that had n generations when the spot was found.  A result, AGAIN or NO_ROOM. */
static inline int add_at(struct cuckoo *c, const struct spot *spot, const struct cuckoo_geometry *g,
                         unsigned n, bool cornered)
{
  HOOK(cuckoo_located);
  if (!spot_lock(spot, g))
    return AGAIN;
  /* Once a generation is open, no older one gets segments or entries by those who do not know yet. */
  int result = cuckoo_generations(c) == n ? put(c, spot, g, cornered) : AGAIN;
  spot_unlock(spot, g);
  return result;
}

/* The same, of a key that is only added if it is new, in a filter that has one generation. */
static inline int add_unique_at(struct cuckoo *c, const struct spot *spot,
                                const struct cuckoo_geometry *g)
{
  if (!spot_lock(spot, g))
    return AGAIN;
  HOOK(cuckoo_held);
  int result = AGAIN;
  if (cuckoo_generations(c) == 1) {
    bool present = matches(spot, g, spot->lower) || matches(spot, g, spot->upper);
    HOOK(cuckoo_unique_looked);
    result = present ? TAMIS_PRESENT : put(c, spot, g, false);
  }
  spot_unlock(spot, g);
  return result;
}

/* An add, as reader: a result, AGAIN or NO_ROOM. */
static int try_add(struct cuckoo *c, uint64_t hash, struct turn *turn, struct spot *spot)
{
  unsigned n = cuckoo_generations(c);
  *spot = spot_find(c->generation[turn_generation(turn, n)], hash);
  if (!spot->segment)
    return NO_ROOM;
  return add_at(c, spot, &spot->generation->geometry, n, turn->cornered);
}

static int try_add_unique(struct cuckoo *c, uint64_t hash, struct turn *turn, struct spot *spot)
{
  struct hold hold;
  hold_all(c, hash, &hold);
  *spot = hold.spots[turn_generation(turn, hold.n)];
  int result = spot->segment ? TAMIS_OK : NO_ROOM;
  for (unsigned i = 0; i < hold.n; i++)
    if (hold.spots[i].segment && match_spot(&hold.spots[i]).matches)
      result = TAMIS_PRESENT;
  HOOK(cuckoo_unique_looked);
  if (result == TAMIS_OK)
    result = put(c, spot, &spot->generation->geometry, turn->cornered);
  let_go(&hold);
  return result;
}

typedef int try_call(struct cuckoo *c, uint64_t hash, struct turn *turn, struct spot *spot);

static int insert(struct cuckoo *c, uint64_t hash, try_call *try)
{
  struct turn turn = {0};
  struct spot spot;
  int result;
  do {
    reader_pass pass = enter(c);
    do {
      result = try(c, hash, &turn, &spot);
      if (result == NO_ROOM && spot.segment && !turn.cornered) {
        turn.cornered =
            !tamis__evict(&spot.generation->geometry, spot.segment, spot.lower, spot.upper);
        result = AGAIN;
      }
    } while (result == AGAIN);
    turn.cornered = false;
    leave(c, pass);
    if (result == NO_ROOM)
      result = make_room(c, &spot, &turn);
  } while (result == AGAIN);
  return result;
}

/* The usual case in a straight line: one generation, a known reader, and there is room. */
FOR_EACH_SORT int insert_usually(tamis_filter *f, uint64_t hash, bool growable, bool unique)
{
  struct cuckoo *c = cuckoo_of(f);
  struct generation *first = c->generation[0];
  int result = NO_ROOM;
  reader_pass pass = NULL;
  if (!growable || (cuckoo_generations(c) == 1 && (pass = known_reader_enter()))) {
    HOOK(cuckoo_counted);
    const struct cuckoo_geometry g = first_geometry(first, growable);
    struct spot spot = spot_find_with(&g, first, hash);
    if (spot.segment)
      result = unique ? add_unique_at(c, &spot, &g) : add_at(c, &spot, &g, 1, false);
    if (growable)
      known_reader_leave(pass);
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
static bool take_copy(const struct spot *spot, uint64_t entry)
{
  struct segment *segment = spot->segment;
  if (!has_copies(segment))
    return false;
  stripe_lock(&segment->copies_lock);
  struct copies *copies = atomic_load_explicit(&segment->copies, memory_order_relaxed);
  struct copies_entry *found = tamis__copies_find(copies, copies_key(spot->lower, entry));
  if (found)
    tamis__copies_take(copies, found);
  stripe_unlock(&segment->copies_lock);
  if (found)
    count(spot, COPIES, -1);
  return found;
}

static void clear_entry(const struct spot *spot, const struct best_match *best)
{
  struct stripe *stripe = stripe_of_spot(spot, best->bucket);
  word *w = word_of(spot, best->bucket);
  version_bump(stripe);
  word_store(w, bucket_replace(shape_of(spot), word_load(w), best->lane, 0));
  stripe_use(stripe, -1);
  count(spot, ENTRIES, -1);
}

/* Now and then, when a stripe that has lost an entry holds little. */
static bool looks_sparse(const struct spot *spot, uint32_t bucket)
{
  const struct cuckoo_geometry *g = &spot->generation->geometry;
  uint64_t used = stripe_used(stripe_of_spot(spot, bucket));
  uint64_t lanes = cuckoo_lanes(g) / (g->stripe_mask + UINT64_C(1));
  return used <= lanes * 3 / 8 && (used % 8 == 0 || lanes < 128);
}

static int remove_held(const struct hold *hold, struct spot *sparse)
{
  const struct spot *spot = NULL;
  struct best_match best = {0};
  for (unsigned i = 0; i < hold->n; i++) {
    if (!hold->spots[i].segment)
      continue;
    struct best_match match = match_spot(&hold->spots[i]);
    if (match.matches && match.known > best.known) {
      best = match;
      spot = &hold->spots[i];
    }
  }
  if (!spot)
    return TAMIS_ABSENT;
  if (!take_copy(spot, best.entry)) {
    clear_entry(spot, &best);
    if (looks_sparse(spot, best.bucket))
      *sparse = *spot;
  }
  return TAMIS_OK;
}

static int remove_key(tamis_filter *f, uint64_t hash)
{
  struct cuckoo *c = cuckoo_of(f);
  struct hold hold;
  struct spot sparse = {.segment = NULL};
  reader_pass pass = enter(c);
  hold_all(c, hash, &hold);
  int result = remove_held(&hold, &sparse);
  let_go(&hold);
  leave(c, pass);
  if (sparse.segment)
    tamis__shrink(c, &sparse);
  return result;
}

/* ---- batches ---- */

static void fetch_place(struct generation *generation, struct cuckoo_place place)
{
  struct spot spot = spot_at(&generation->geometry, generation, place);
  struct look look = look_into(&generation->geometry, &spot);
  fetch(&look);
}

static void prefetch(const tamis_filter *f, const uint64_t *hashes, size_t n)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  unsigned generations = cuckoo_generations(c);
  for (size_t i = 0; i < n; i++)
    for (unsigned j = 0; j < generations; j++)
      fetch_place(c->generation[j], cuckoo_place(&c->generation[j]->geometry, hashes[i]));
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
enum { LOOKS_IN_A_ROW = 8 };

/* Some keys' spots are found, and their memory fetched. */
FOR_EACH_SORT void begin_some(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                              struct look *looks, bool growable)
{
  for (size_t i = 0; i < n; i++) {
    looks[i] = look_begin(c->generation[0], hash_mix(&c->head.keys, hashes[i]), growable);
    fetch(&looks[i]);
  }
}

/* FILTER_AHEAD keys later.  So a segment may have left the directory, or been made, perhaps before the turn of
 * the key before it, whose answer must not be the newer one: each key is a call of its own.  Such a key is
 * looked up anew. */
FOR_EACH_SORT size_t finish_some(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                 const struct look *looks, bool *found, bool growable)
{
  size_t hits = 0;
  for (size_t i = 0; i < n; i++) {
    struct finding finding = look_finish(c->generation[0], &looks[i], growable);
    bool hit = finding.hit;
    if (__builtin_expect((!hit & finding.moved) | (growable & finding.old), 0))
      hit = contains_any(&c->head, hash_mix(&c->head.keys, hashes[i]));
    hits += hit;
    if (found)
      found[i] = hit;
  }
  return hits;
}

static inline size_t in_a_row(size_t i, size_t n)
{
  return n - i < LOOKS_IN_A_ROW ? n - i : LOOKS_IN_A_ROW;
}

/* Misses hold if there is still one generation after the last look. */
FOR_EACH_SORT size_t look_at_many(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                  bool *found, bool growable)
{
  struct look ahead[FILTER_AHEAD];
  size_t hits = 0;
  for (size_t i = 0; i < n + FILTER_AHEAD; i += LOOKS_IN_A_ROW) {
    struct look *looks = &ahead[i % FILTER_AHEAD];
    size_t turn = i - FILTER_AHEAD;
    if (i >= FILTER_AHEAD)
      hits += finish_some(c, hashes + turn, in_a_row(turn, n), looks, found ? found + turn : NULL,
                          growable);
    if (i < n)
      begin_some(c, hashes + i, in_a_row(i, n), looks, growable);
  }
  return !growable || cuckoo_generations(c) == 1 ? hits
                                                 : contains_many_any(&c->head, hashes, n, found);
}

/* Keys of a batch that are looked up as one reader. */
enum { LOOKS_AT_ONCE = 512 };

typedef size_t many_call(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found);

static size_t some_growable(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  if (cuckoo_generations(c) != 1)
    return contains_many_any(f, hashes, n, found);
  reader_pass pass = reader_enter();
  size_t hits = look_at_many(c, hashes, n, found, true);
  reader_leave(pass);
  return hits;
}

/* In pieces, as grace periods go by quickly only while all readers are quick. */
static size_t in_pieces(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found,
                        many_call *call)
{
  size_t hits = 0;
  for (size_t start = 0, length; start < n; start += length) {
    length = n - start < LOOKS_AT_ONCE ? n - start : LOOKS_AT_ONCE;
    hits += call(f, hashes + start, length, found ? found + start : NULL);
  }
  return hits;
}

static size_t some_fixed(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found)
{
  return look_at_many(const_cuckoo_of(f), hashes, n, found, false);
}

static size_t contains_many_growable(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                     bool *found)
{
  return in_pieces(f, hashes, n, found, some_growable);
}

static size_t contains_many_fixed(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                  bool *found)
{
  return in_pieces(f, hashes, n, found, some_fixed);
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
  tamis__limbo_drain(
      (struct limbo *) &c->limbo); /* no filter is ever const: it comes from create */
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
    out->count += entries + cuckoo_count(generation, COPIES);
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
  tamis__limbo_destroy(&c->limbo);
  for (unsigned i = 0; i < cuckoo_generations(c); i++)
    tamis__generation_destroy(c, c->generation[i]);
  stripe_destroy(&c->opening);
  stripe_destroy(&c->slabs.lock);
  stripe_destroy(&c->slabs.making);
  tamis__memory_put(&from, c, sizeof *c);
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

static struct cuckoo_demand demand_of(const tamis_options *o)
{
  return (struct cuckoo_demand){
      .capacity = o->capacity, .fpp = o->fpp, .growable = o->growable, .stripes = o->stripes};
}

static uint64_t total_bytes(const struct cuckoo_geometry *g)
{
  return sizeof(struct cuckoo) + sizeof(struct generation) +
         cuckoo_shards(g) * sizeof(struct counter_shard) + cuckoo_slots(g) * sizeof(slot) +
         cuckoo_roots(g) * g->segment_bytes + tamis__slab_heads(g);
}

int tamis__cuckoo_bytes(const tamis_options *options, uint64_t *bytes)
{
  struct cuckoo_geometry g;
  struct cuckoo_demand demand = demand_of(options);
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

static int make_segments(struct cuckoo *c)
{
  struct generation *generation = c->generation[0];
  const struct cuckoo_geometry *g = &generation->geometry;
  if (!c->demand.growable || cuckoo_roots(g) > EARLY_SEGMENTS)
    return TAMIS_OK;
  for (uint64_t root = 0; root < cuckoo_roots(g); root++) {
    struct spot spot = {.generation = generation,
                        .index = root << g->depth_limit,
                        .slot = generation_slot(generation, root << g->depth_limit),
                        .root = generation_slot(generation, root << g->depth_limit)};
    int result = tamis__grow(c, &spot);
    if (result != TAMIS_OK)
      return result;
  }
  return TAMIS_OK;
}

static int fill(struct cuckoo *c, const struct cuckoo_geometry *g)
{
  int result = TAMIS_ENOMEM;
  if (!tamis__limbo_init(&c->limbo, tamis__segment_release, c, &c->bytes))
    return result;
  c->generation[0] = tamis__generation_create(c, g, &result);
  if (!c->generation[0])
    return result;
  atomic_store_explicit(&c->generations, 1, memory_order_relaxed); /* not shared yet */
  return make_segments(c);
}

int tamis__cuckoo_create_with(const tamis_options *options, const struct tamis_filter *head,
                              const struct cuckoo_geometry *g, tamis_filter **out)
{
  if (options->max_bytes && total_bytes(g) > options->max_bytes)
    return TAMIS_EFULL;
  struct cuckoo *c = tamis__memory_get(&head->allocator, sizeof *c);
  if (!c)
    return TAMIS_ENOMEM;
  c->head = *head;
  c->head.operations = operations_for(g);
  c->demand = demand_of(options);
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
  struct cuckoo_demand demand = demand_of(options);
  int result = cuckoo_geometry_plan(&demand, &g);
  return result == TAMIS_OK ? tamis__cuckoo_create_with(options, head, &g, out) : result;
}

/* ---- validation, for tests ---- */

static bool stands_in(const struct cuckoo_geometry *g, const struct segment *segment,
                      uint32_t bucket, uint64_t entry)
{
  uint64_t value = word_load(&segment_words(g, segment)[bucket]);
  bool found = false;
  for (unsigned lane = 0; lane < g->shape.lanes; lane++)
    found |= bucket_lane(&g->shape, value, lane) == entry;
  return found;
}

/* What is counted is copies of an entry in a lane: so a segment without entries has none. */
static const char *validate_copies(const struct cuckoo_geometry *g, const struct segment *segment,
                                   uint64_t *counted)
{
  const struct copies *copies = atomic_load_explicit(&segment->copies, memory_order_relaxed);
  for (size_t i = 0; copies && i <= copies->mask; i++) {
    uint32_t lower = (uint32_t) (copies->entries[i].key >> 32);
    uint64_t entry = copies->entries[i].key & bucket_lane_bits(&g->shape);
    if (entry && !stands_in(g, segment, lower, entry) &&
        !stands_in(g, segment, other_bucket(g, segment, lower, entry), entry))
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
  for (uint64_t i = 0, step; i < cuckoo_slots(g); i += step) {
    slot_value value = slot_load(generation_slot(generation, i));
    step = UINT64_C(1) << (g->depth_limit - slot_depth(value));
    for (uint64_t j = i; j < i + step; j++)
      if (slot_load(generation_slot(generation, j)) != value)
        return "slots of one segment differ";
    const struct segment *segment = slot_segment(value);
    if (!segment)
      continue;
    segments++;
    if (segment->depth != slot_depth(value) ||
        cuckoo_top_bits(segment->prefix, g->depth_limit) != (i & ((1u << g->depth_limit) - 1)))
      return "a segment is in the wrong slot";
    const char *reason = validate_segment(g, segment, &entries);
    if (!reason)
      reason = validate_copies(g, segment, &copies);
    if (reason)
      return reason;
  }
  return entries != tamis__counter_sum(&generation->counters, ENTRIES)
             ? "counted entries are not those in buckets"
         : copies != tamis__counter_sum(&generation->counters, COPIES)
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
