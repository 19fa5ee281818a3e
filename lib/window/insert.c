/* SPDX-License-Identifier: MIT
 *
 * Layer 2: adds to a sliding window.
 *
 * An add first searches without stripes.  It has nothing to write if its key is remembered for as
 * long as the add wishes or, for a unique add that does not renew keys, if its key is remembered at
 * all.  Otherwise the add takes the stripes of the key in all layers: step 1 in table.h.
 *
 * In a window of the cuckoo kind a plain add of a key that is remembered adds a copy, and renews
 * all copies (copies.h): they are forgotten together, at the latest time that an add asked for.
 *
 * A window remembers keys for G periods.  A key that it is to remember for only n periods gets the
 * stamp of age G - n, as if it had been added G - n periods ago.
 *
 *    - An add never shortens a key's life: it changes only stamps that are older than its own.
 *    - If the stamp to write has an age above 0, a jump that is under way may not keep it.  The add
 *      then writes the oldest stamp that the jump keeps: [T] in table.h.  But if the lane has the
 *      wished stamp already, the add writes nothing, and the jump forgets the key.
 *    - After the second write of the lane (step 4), one more period may end, and make the stamp
 *      dead.  The writer holds the stripe, so the sweep comes afterwards, as [Q] requires.  The add
 *      has taken effect before this period ended.
 */
#include "window/operations.h"

#include "base/compiler.h"
#include "table/put.h"
#include "window/copies.h"
#include "window/evict.h"
#include "window/layers.h"
#include "window/pair.h"
#include "window/rooms.h"

struct wish {
  bool unique, renews;
  unsigned age; /* age, in periods, of the stamp that the add writes */
};

/* Whether a live entry is remembered for as long as the add wishes. */
FORCE_INLINE bool lasts(const struct window *w, const struct window_layer *layer,
                        const struct found *found, const struct wish *wish, uint64_t epoch)
{
  const unsigned stamp = window_stamp_of(&layer->geometry.shape, found->entry);
  return wish->age ? epoch_age(epoch, stamp, w->stamps) <= wish->age : stamp == epoch_now(epoch);
}

/* ---- adds without stripes ---- */

FORCE_INLINE bool is_settled_in(const struct window *w, const struct window_layer *layer,
                                uint64_t mixed, const struct wish *wish, uint64_t epoch, bool *live)
{
  const struct pair pair = pair_in((struct window_layer *) layer, mixed);
  const struct home home = home_in(&pair, epoch);
  HOOK(window_entry_seen);
  *live = home.live;
  return home.live && lasts(w, layer, &home.found, wish, epoch);
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

/* Whether an add that renews has nothing to write.  If the function misses an entry that is being
 * moved, the add searches again under the stripes.  Returns false in the cuckoo kind if there are
 * several layers: the add must find the key's home (pair.h). */
FORCE_INLINE bool is_settled(const struct window *w, uint64_t mixed, const struct wish *wish)
{
  const uint64_t epoch = epoch_read(&w->state->epoch);
  bool live, settled = epoch_has_grown(epoch)
                           ? !window_counts_copies(w) && is_settled_in_any(w, mixed, wish, epoch)
                           : is_settled_in(w, &w->first, mixed, wish, epoch, &live);
  return settled && epoch_read(&w->state->epoch) == epoch;
}

/* ---- adds under stripes: a caller of NAME_locked() must hold the stripes of all pairs ---- */

/* The stamp that an add writes in the period of `epoch`, and that a running jump keeps. */
FORCE_INLINE unsigned stamp_to_write(const struct window *w, const struct wish *wish,
                                     uint64_t epoch)
{
  if (__builtin_expect(!wish->age, 1))
    return epoch_now(epoch);
  const unsigned oldest = window_oldest_age(w, epoch);
  return epoch_stamp_of_age(epoch, wish->age < oldest ? wish->age : oldest, w->stamps);
}

/* Writes an entry with the stamp for `epoch`, which the caller has read under the stripes.  If that
 * period ends before the lane is written, writes the lane again: [P] in table.h. */
FORCE_INLINE void write_locked(struct window *w, const struct pair *pair, const struct found *at,
                               const struct wish *wish, uint64_t epoch)
{
  window_store(pair->layer, at->bucket, at->lane,
               pair->fingerprint | stamp_to_write(w, wish, epoch));
  HOOK(window_lane_written);
  const uint64_t again = epoch_read(&w->state->epoch);
  if (__builtin_expect(epoch_now(again) != epoch_now(epoch), 0))
    window_store(pair->layer, at->bucket, at->lane,
                 pair->fingerprint | stamp_to_write(w, wish, again));
}

/* Not inlined, as it is rare: its arguments would take registers in each add. */
static NEVER_INLINE void forget_dead_locked(struct window *w, const struct pair *pair,
                                            const struct found *at)
{
  window_forget_further(w, pair->layer, window_lane(pair->layer, at->bucket, at->lane));
}

/* Prepares the lane *at for another entry, which the caller must then write: counts an empty lane
 * as in use, and forgets the copies of a dead entry. */
FORCE_INLINE void take_lane_locked(struct window *w, const struct pair *pair,
                                   const struct found *at)
{
  if (!at->entry)
    window_use(window_stripe(w, pair->layer, at->bucket), 1);
  else if (pair->layer->planes)
    forget_dead_locked(w, pair, at);
}

/* Adds a key to the newest layer, in which the key has no live entry. */
FORCE_INLINE int insert_locked(struct window *w, const struct home *home, const struct wish *wish,
                               uint64_t epoch)
{
  struct found at;
  if (!find_lane(home, &at, epoch))
    return window_is_full(w, home->pair->layer, home->pair->place.lower, epoch) ? TAMIS_EFULL
                                                                                : NO_ROOM;
  take_lane_locked(w, home->pair, &at);
  write_locked(w, home->pair, &at, wish, epoch);
  return TAMIS_OK;
}

/* Renews a key in its present lane.  In the cuckoo kind, a plain add also adds a copy.  In a
 * counted table, it only adds a copy. */
static int renew_locked(struct window *w, const struct home *home, const struct wish *wish,
                        uint64_t epoch)
{
  const struct window_layer *layer = home->pair->layer;
  const struct found *at = &home->found;
  int result = TAMIS_OK;
  if (window_is_counted(w))
    return wish->unique ? TAMIS_OK : tamis__counted_add_locked(w, home->pair, at, 1);
  if (!wish->unique && window_counts_copies(w))
    result = tamis__window_add_further(w, layer, window_lane(layer, at->bucket, at->lane), 1);
  const bool stays = wish->age && lasts(w, layer, at, wish, epoch);
  if (result == TAMIS_OK && wish->renews && !stays)
    write_locked(w, home->pair, at, wish, epoch);
  return result;
}

/* Adds or renews a key, in the layer that "Layers" in table.h says.  `refused` says why no room
 * could be made in the newest layer, or is 0 if no call has tried to make room yet. */
static int put_locked(struct window *w, const struct locked *locked, const struct wish *wish,
                      int refused)
{
  uint64_t epoch = epoch_read(&w->state->epoch);
  HOOK(window_epoch_read_locked);
  if (!has_layers(locked, epoch))
    return OTHER_LAYERS;
  struct home home = find_home(locked, epoch);
  const bool present = home.live;
  if (present && home.pair != locked->pair && wish->renews && !refused && !window_counts_copies(w))
    home = home_in(locked->pair, epoch);
  int result = refused;
  if (home.live)
    result = renew_locked(w, &home, wish, epoch);
  else if (!refused)
    result = insert_locked(w, &home, wish, epoch);
  return result == TAMIS_OK && present && wish->unique ? TAMIS_PRESENT : result;
}

/* Provides the room or memory that put_locked() lacked, whose result is `lacks`.  Returns TAMIS_OK
 * if another call of put_locked() may succeed.  The caller must hold no lock. */
static NEVER_INLINE int provide(struct window *w, const struct locked *locked, int lacks)
{
  const struct pair *open = &locked->pair[0];
  int result = lacks;
  if (lacks == OTHER_LAYERS)
    return TAMIS_OK;
  if (lacks == NO_ROOM)
    result = tamis__window_evict(w, open->layer, &open->place, locked->epoch, false);
  if (result == TAMIS_ABSENT)
    result = tamis__window_grow(w, open->layer, &open->place, locked->epoch);
  return result < 0 && tamis__backlog_drain(&w->backlog, true) ? TAMIS_OK : result;
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

FORCE_INLINE int add(struct window *w, uint64_t mixed, const struct wish *wish)
{
  if (is_settled(w, mixed, wish))
    return wish->unique ? TAMIS_PRESENT : TAMIS_OK;
  return put(w, mixed, wish);
}

FORCE_INLINE int add_absent(tamis_filter *f, uint64_t hash, const struct wish *wish)
{
  struct window *w = window_of(f);
  return w->operations.contains(f, hash) ? TAMIS_PRESENT : put(w, window_mixed(w, hash), wish);
}

/* The wishes of adds for G periods.  The compiler makes separate code for each constant. */
static const struct wish plain = {false, true, 0}, first = {true, false, 0},
                         first_or_renewed = {true, true, 0};

int tamis__window_add(tamis_filter *f, uint64_t hash)
{
  return add(window_of(f), window_mixed(window_of(f), hash), &plain);
}

int tamis__window_add_copy(tamis_filter *f, uint64_t hash)
{
  return put(window_of(f), window_mixed(window_of(f), hash), &plain);
}

int tamis__window_add_unique(tamis_filter *f, uint64_t hash)
{
  struct window *w = window_of(f);
  return w->renews ? add(w, window_mixed(w, hash), &first_or_renewed) : add_absent(f, hash, &first);
}

int tamis__window_add_for(tamis_filter *f, const uint64_t *hashes, size_t n, unsigned periods,
                          bool unique, int *results)
{
  struct window *w = window_of(f);
  const struct wish wish = {unique, !unique || w->renews, w->spec.periods - periods};
  const bool copies = !unique && window_counts_copies(w);
  if (periods > w->spec.periods)
    return TAMIS_EINVAL;
  for (size_t i = 0; n > 1 && i < n; i++)
    tamis__window_prefetch(f, hashes[i]);
  for (size_t i = 0; i < n; i++)
    results[i] = !wish.renews ? add_absent(f, hashes[i], &wish)
                 : copies     ? put(w, window_mixed(w, hashes[i]), &wish)
                              : add(w, window_mixed(w, hashes[i]), &wish);
  return TAMIS_OK;
}
