/* SPDX-License-Identifier: MIT
 *
 * Layer 2: adds to a sliding window.
 *
 * An add first finds out, without stripes, whether it has anything to write.  It has nothing to
 * write if its key is remembered for as long as the add wishes.  A unique add also has nothing to
 * write if its key is remembered and need not be renewed.  Otherwise the add takes the stripes of
 * the key in all layers, and begins with step 1 of table.h.
 *
 * In a window of the cuckoo kind a plain add of a key that is remembered adds a copy, and renews
 * all copies: copies.h.  All copies of a key are forgotten together, at their latest end.
 *
 * A key that is to be remembered for only n of G periods gets the stamp of age G - n, as if it had
 * been added G - n periods ago.  So it is forgotten when n + 1 periods have ended, the running one
 * included, and look-ups work as for other keys.
 *
 *    - An add never shortens a key's life: it does not change the stamp of a live entry that is as
 *      young as the add wishes, or younger.  So even the second stamp that an add may write (step 4
 *      in table.h) is younger than the stamp that was in the lane.
 *    - Not every jump keeps a stamp of an age above 0.  If a jump does not, an add during the jump
 *      writes the oldest stamp that the jump keeps: [T] in table.h.  If the add writes nothing, the
 *      key ends with the jump.
 *    - After the lane has been written for the second time, one more period may end, and make the
 *      stamp dead.  The writer holds the stripe, so the sweep comes afterwards, as [Q] requires.
 *      The add has taken effect before this period ended.
 */
#include "window/operations.h"

#include "base/compiler.h"
#include "table/put.h"
#include "window/copies.h"
#include "window/evict.h"
#include "window/layers.h"
#include "window/pair.h"
#include "window/rooms.h"

/* What an add has to do. */
struct wish {
  bool unique, renews;
  unsigned age; /* age, in periods, of the stamp that the add writes */
};

static unsigned age_of(const struct window *w, const struct window_layer *layer,
                       const struct found *found, uint64_t epoch)
{
  return epoch_age(epoch, window_stamp_of(&layer->geometry.shape, found->entry), w->stamps);
}

/* Whether a live entry is remembered for as long as the add wishes. */
FORCE_INLINE bool lasts(const struct window *w, const struct window_layer *layer,
                        const struct found *found, const struct wish *wish, uint64_t epoch)
{
  return wish->age ? age_of(w, layer, found, epoch) <= wish->age
                   : window_stamp_of(&layer->geometry.shape, found->entry) == epoch_now(epoch);
}

/* ---- adds without stripes ---- */

FORCE_INLINE bool is_settled_in(const struct window *w, struct window_layer *layer, uint64_t mixed,
                                const struct wish *wish, uint64_t epoch, bool *live)
{
  struct pair pair = pair_in(layer, mixed);
  struct view view = look_at(&pair);
  struct found found = find_entry(&pair, &view);
  HOOK(window_entry_seen);
  *live = is_live(layer, &found, epoch);
  return *live && (!wish->renews || lasts(w, layer, &found, wish, epoch));
}

static NEVER_INLINE bool is_settled_in_any(const struct window *w, uint64_t mixed,
                                           const struct wish *wish, uint64_t epoch)
{
  bool live = false, settled = false;
  struct window_reader reader = window_enter(epoch);
  for (struct window_layer *layer = window_newest(w, epoch); layer && !live;
       layer = window_next(layer, epoch))
    settled = is_settled_in(w, layer, mixed, wish, epoch, &live);
  window_leave(reader);
  return settled;
}

/* Whether an add has nothing to write.  (If this function misses an entry that is being moved, the
 * add tries again under the stripes.)  The compile-time constant `copies` says that the window is
 * of the cuckoo kind, where an add renews the key's home (pair.h).  This function does not search
 * for the home.  So if there are several layers, it returns false for an add that renews. */
FORCE_INLINE bool is_settled(const struct window *w, uint64_t mixed, const struct wish *wish,
                             bool copies)
{
  uint64_t epoch = epoch_before(&w->state->epoch);
  if (copies && wish->renews && epoch_has_grown(epoch))
    return false;
  bool live, settled = epoch_has_grown(epoch) ? is_settled_in_any(w, mixed, wish, epoch)
                                              : is_settled_in(w, (struct window_layer *) &w->first,
                                                              mixed, wish, epoch, &live);
  return settled && epoch_after(&w->state->epoch) == epoch;
}

/* ---- adds under stripes ---- */

/* The stamp that an add writes under this epoch word.  A jump under way keeps this stamp. */
FORCE_INLINE unsigned stamp_to_write(const struct window *w, const struct wish *wish,
                                     uint64_t epoch)
{
  if (__builtin_expect(!wish->age, 1))
    return epoch_now(epoch);
  const unsigned oldest = window_oldest_age(w, epoch);
  return epoch_stamp_of_age(epoch, wish->age < oldest ? wish->age : oldest, w->stamps);
}

/* Writes an entry with the stamp for the epoch word that the caller has read.  If the period of
 * that word has ended, writes the entry again with the stamp for the new word: [P] in table.h.  The
 * callers of functions whose names end with _locked must hold the stripes of all pairs. */
FORCE_INLINE void write_locked(struct window *w, const struct pair *pair, const struct found *at,
                               const struct wish *wish, uint64_t epoch)
{
  window_store(pair->layer, at->bucket, at->lane,
               pair->fingerprint | stamp_to_write(w, wish, epoch));
  HOOK(window_lane_written);
  const uint64_t again = epoch_locked(&w->state->epoch);
  if (__builtin_expect(epoch_now(again) != epoch_now(epoch), 0))
    window_store(pair->layer, at->bucket, at->lane,
                 pair->fingerprint | stamp_to_write(w, wish, again));
}

/* Adds a key to the newest layer, which has no live lane for the key. */
static int insert_locked(struct window *w, const struct home *home, const struct wish *wish,
                         uint64_t epoch)
{
  struct found at = home->found;
  if (!find_lane(home->pair, &home->view, &at, epoch))
    return window_is_full(w, home->pair->layer, home->pair->place.lower, epoch) ? TAMIS_EFULL
                                                                                : NO_ROOM;
  take_lane_locked(w, home->pair, &at);
  write_locked(w, home->pair, &at, wish, epoch);
  return TAMIS_OK;
}

/* Renews a key in its present lane.  In the cuckoo kind a plain add also adds a copy.  If there is
 * no memory for the copy, the key is not renewed. */
static int renew_locked(struct window *w, const struct home *home, const struct wish *wish,
                        uint64_t epoch)
{
  const struct window_layer *layer = home->pair->layer;
  const struct found *at = &home->found;
  int result = TAMIS_OK;
  if (!wish->unique && window_counts_copies(w))
    result = tamis__window_add_further(w, layer, window_lane(layer, at->bucket, at->lane), 1);
  const bool stays = wish->age && lasts(w, layer, at, wish, epoch);
  if (result == TAMIS_OK && wish->renews && !stays)
    write_locked(w, home->pair, at, wish, epoch);
  return result;
}

/* In a window of the Bloom kind an add renews its key in the newest layer, so that older layers
 * become empty.  The key's entry in an older layer dies as if the key had not been added again.  If
 * no room can be made in the newest layer, the add renews the older entry.
 *
 * `refused` says why no room could be made, or is 0 if no call has tried to make room yet. */
static int put_locked(struct window *w, const struct locked *locked, const struct wish *wish,
                      int refused)
{
  uint64_t epoch = epoch_locked(&w->state->epoch);
  HOOK(window_epoch_read_locked);
  if (!has_layers(locked, epoch))
    return OTHER_LAYERS;
  struct home home = find_home(locked, epoch);
  const bool present = home.live;
  if (present && wish->renews && !refused && home.pair != locked->pair && !window_counts_copies(w))
    home = home_in(locked->pair, epoch);
  int result = refused;
  if (home.live)
    result = renew_locked(w, &home, wish, epoch);
  else if (!refused)
    result = insert_locked(w, &home, wish, epoch);
  return result == TAMIS_OK && present && wish->unique ? TAMIS_PRESENT : result;
}

/* ---- the calls ---- */

int tamis__window_make_room(struct window *w, const struct locked *locked)
{
  const struct pair *open = &locked->pair[0];
  int result = tamis__window_evict(w, open->layer, &open->place, locked->epoch, false);
  return result == TAMIS_ABSENT ? tamis__window_grow(w, open->layer, &open->place, locked->epoch)
                                : result;
}

/* Provides the room or memory that an attempt with the result `lacks` lacked.  Returns TAMIS_OK if
 * another attempt may succeed.  The caller must hold no lock. */
static NEVER_INLINE int provide(struct window *w, const struct locked *locked, int lacks)
{
  int result = lacks;
  if (lacks == NO_ROOM)
    result = tamis__window_make_room(w, locked);
  else if (lacks == OTHER_LAYERS)
    return TAMIS_OK;
  return result < 0 && tamis__backlog_hurry(&w->backlog) ? TAMIS_OK : result;
}

static NEVER_INLINE int put(struct window *w, uint64_t mixed, const struct wish *wish)
{
  int refused = window_join(w);
  if (refused != TAMIS_OK)
    return refused;
  for (;;) {
    struct locked locked;
    lock_pairs(w, mixed, &locked);
    int result = put_locked(w, &locked, wish, refused);
    unlock_pairs(w, &locked);
    if (__builtin_expect(result >= NO_ROOM || result < 0, 0)) {
      const bool last = refused || locked.pairs == 1;
      result = refused = provide(w, &locked, result);
      if (result == TAMIS_OK || !last)
        continue;
    }
    if (result < 0)
      tamis__counter_note(&w->counters, WINDOW_REFUSED);
    return result;
  }
}

/* In a window of the cuckoo kind each plain add adds a copy, and so must write. */
FORCE_INLINE int add(struct window *w, uint64_t mixed, const struct wish *wish, bool copies)
{
  if ((wish->unique || !copies) && is_settled(w, mixed, wish, copies))
    return wish->unique ? TAMIS_PRESENT : TAMIS_OK;
  return put(w, mixed, wish);
}

/* Adds a key that is remembered for G periods.  (Constant wishes make these usual calls fast.) */
FORCE_INLINE int add_hash(tamis_filter *f, uint64_t hash, bool unique, bool copies)
{
  static const struct wish plain = {false, true, 0}, first = {true, false, 0},
                           first_or_renewed = {true, true, 0};
  struct window *w = window_of(f);
  const uint64_t mixed = window_mixed(w, hash);
  if (!unique)
    return add(w, mixed, &plain, copies);
  return w->renews ? add(w, mixed, &first_or_renewed, copies) : add(w, mixed, &first, copies);
}

int tamis__window_add(tamis_filter *f, uint64_t hash)
{
  return add_hash(f, hash, false, false);
}

int tamis__window_add_unique(tamis_filter *f, uint64_t hash)
{
  return add_hash(f, hash, true, false);
}

int tamis__window_add_copy(tamis_filter *f, uint64_t hash)
{
  return add_hash(f, hash, false, true);
}

int tamis__window_add_first_copy(tamis_filter *f, uint64_t hash)
{
  return add_hash(f, hash, true, true);
}

/* ---- batches ---- */

/* Mixes hashes, and prefetches their buckets in the newest layer, which most keys need. */
static void mix_and_prefetch(const struct window *w, const uint64_t *hashes, size_t n,
                             uint64_t mixed[FILTER_GROUP])
{
  uint64_t epoch = epoch_before(&w->state->epoch);
  struct window_reader reader = window_enter(epoch);
  struct window_layer *layer = window_newest(w, epoch);
  for (size_t i = 0; i < n; i++) {
    mixed[i] = window_mixed(w, hashes[i]);
    struct pair pair = pair_in(layer, mixed[i]);
    __builtin_prefetch(window_word(layer, pair.place.lower), 1);
    __builtin_prefetch(window_word(layer, pair.place.upper), 1);
  }
  window_leave(reader);
}

int tamis__window_add_for(tamis_filter *f, const uint64_t *hashes, size_t n, unsigned periods,
                          bool unique, int *results)
{
  struct window *w = window_of(f);
  const struct wish wish = {unique, !unique || w->renews, w->spec.periods - periods};
  uint64_t mixed[FILTER_GROUP];
  if (periods > w->spec.periods)
    return TAMIS_EINVAL;
  mix_and_prefetch(w, hashes, n, mixed);
  for (size_t i = 0; i < n; i++)
    results[i] = add(w, mixed[i], &wish, window_counts_copies(w));
  return TAMIS_OK;
}

void tamis__window_add_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  (void) tamis__window_add_for(f, hashes, n, window_of(f)->spec.periods, false, results);
}

void tamis__window_add_unique_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  (void) tamis__window_add_for(f, hashes, n, window_of(f)->spec.periods, true, results);
}
