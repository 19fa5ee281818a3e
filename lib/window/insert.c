/* SPDX-License-Identifier: MIT
 *
 * Layer 2: adds to a sliding window.
 *
 * An add looks first, without stripes, whether it has anything to write.  It has not if its key has
 * the stamp of the running period; nor has a unique add if its key is remembered and need not be
 * renewed.  Otherwise the add takes the stripes of the key in all layers, and begins with 1 of
 * table.h.
 *
 * In a window of the cuckoo kind a plain add of a key that is remembered adds a copy, and renews
 * all of them: copies.h.  The copies of a key live as long as the last one.
 */
#include "window/insert.h"

#include "base/compiler.h"
#include "table/put.h"
#include "window/copies.h"
#include "window/evict.h"
#include "window/layers.h"
#include "window/pair.h"
#include "window/rooms.h"

/* ---- without stripes ---- */

FORCE_INLINE bool is_settled_in(struct window_layer *layer, uint64_t mixed, bool renews,
                                uint64_t epoch, bool *live)
{
  struct pair pair = pair_in(layer, mixed);
  struct view view = look_at(&pair);
  struct found found = find_entry(&pair, &view);
  HOOK(window_entry_seen);
  *live = is_live(layer, &found, epoch);
  return *live &&
         (!renews || window_stamp_of(&layer->geometry.shape, found.entry) == epoch_now(epoch));
}

static NEVER_INLINE bool is_settled_in_any(const struct window *w, uint64_t mixed, bool renews,
                                           uint64_t epoch)
{
  bool live = false, settled = false;
  struct window_reader reader = window_enter(epoch);
  for (struct window_layer *layer = window_newest(w, epoch); layer && !live;
       layer = window_next(layer, epoch))
    settled = is_settled_in(layer, mixed, renews, epoch, &live);
  window_leave(reader);
  return settled;
}

/* Whether an add has nothing to write.  (If this misses an entry that is being moved, the add goes
 * on under the stripes.)  `copies`, a compile-time constant: the window is of the cuckoo kind,
 * where an add renews the key's home (pair.h).  This function looks for no home, so for an add that
 * renews it answers no if there are several layers. */
FORCE_INLINE bool is_settled(const struct window *w, uint64_t mixed, bool renews, bool copies)
{
  uint64_t epoch = epoch_before(&w->state->epoch);
  if (copies && renews && epoch_has_grown(epoch))
    return false;
  bool live, settled = epoch_has_grown(epoch) ? is_settled_in_any(w, mixed, renews, epoch)
                                              : is_settled_in((struct window_layer *) &w->first,
                                                              mixed, renews, epoch, &live);
  return settled && epoch_after(&w->state->epoch) == epoch;
}

/* ---- under stripes ---- */

/* Writes an entry with the stamp of the epoch word that the caller has read, or of the next period:
 * [P] in table.h.  The caller of a function named _locked holds the stripes of all pairs. */
static void write_locked(struct window *w, const struct pair *pair, uint64_t bucket, unsigned lane,
                         uint64_t epoch)
{
  window_store(pair->layer, bucket, lane, pair->fingerprint | epoch_now(epoch));
  HOOK(window_lane_written);
  uint64_t again = epoch_locked(&w->state->epoch);
  if (epoch_now(again) != epoch_now(epoch))
    window_store(pair->layer, bucket, lane, pair->fingerprint | epoch_now(again));
}

/* Adds a key to the newest layer, in which it has no live lane. */
static int insert_locked(struct window *w, const struct home *home, uint64_t epoch,
                         struct window_memory *memory)
{
  struct found at = home->found;
  if (!find_lane(home->pair, &home->view, &at, epoch)) {
    const struct window_layer *layer = home->pair->layer;
    const fullness *full = &layer->full[window_mark_of(layer, home->pair->place.lower)];
    return fullness_is(full, FULLNESS_FULL, window_rooms(w, epoch)) ? TAMIS_EFULL : NO_ROOM;
  }
  take_lane_locked(home->pair, &at, memory);
  write_locked(w, home->pair, at.bucket, at.lane, epoch);
  return TAMIS_OK;
}

/* Renews a key in its present lane.  In the cuckoo kind a plain add also adds a copy.  If memory
 * for the copy is lacking, nothing is renewed. */
static int renew_locked(struct window *w, const struct home *home, bool unique, bool renews,
                        uint64_t epoch, struct window_memory *memory)
{
  const struct window_layer *layer = home->pair->layer;
  const struct found *at = &home->found;
  int result = TAMIS_OK;
  if (!unique && window_counts_copies(w))
    result = tamis__window_add_further(memory, layer, window_lane(layer, at->bucket, at->lane), 1);
  if (result == TAMIS_OK && renews)
    write_locked(w, home->pair, at->bucket, at->lane, epoch);
  return result;
}

/* In a window of the Bloom kind an add renews its key in the newest layer, so that older layers
 * become empty.  The key's entry in an older layer dies as if the key had not come again.  If no
 * room can be made in the newest layer, the add renews the older entry.
 *
 * `refused`: why no room could be made; 0: no call has tried to make room yet. */
static int put_locked(struct window *w, const struct locked *locked, bool unique, bool renews,
                      int refused, struct window_memory *memory)
{
  uint64_t epoch = epoch_locked(&w->state->epoch);
  HOOK(window_epoch_read_locked);
  if (!has_layers(locked, epoch))
    return OTHER_LAYERS;
  struct home home = find_home(locked, epoch);
  const bool present = home.live;
  if (present && renews && !refused && home.pair != locked->pair && !window_counts_copies(w))
    home = home_in(locked->pair, epoch);
  int result = refused;
  if (home.live)
    result = renew_locked(w, &home, unique, renews, epoch, memory);
  else if (!refused)
    result = insert_locked(w, &home, epoch, memory);
  return result == TAMIS_OK && present && unique ? TAMIS_PRESENT : result;
}

/* ---- the calls ---- */

int tamis__window_make_room(struct window *w, const struct locked *locked)
{
  const struct pair *open = &locked->pair[0];
  int result = tamis__window_evict(w, open->layer, &open->place, locked->epoch, false);
  return result == TAMIS_ABSENT ? tamis__window_grow(w, open->layer, &open->place, locked->epoch)
                                : result;
}

/* Provides what an attempt lacked, such as memory.  TAMIS_OK: another attempt may succeed.  The
 * caller holds no lock. */
static NEVER_INLINE int provide(struct window *w, const struct locked *locked,
                                struct window_memory *memory, int lacks)
{
  int result = lacks;
  if (lacks == NO_ROOM)
    result = tamis__window_make_room(w, locked);
  else if (lacks == NO_MEMORY)
    result = tamis__window_fetch_memory(memory);
  else if (lacks == OTHER_LAYERS)
    return TAMIS_OK;
  return result < 0 && tamis__backlog_hurry(&w->backlog) ? TAMIS_OK : result;
}

static NEVER_INLINE int put(struct window *w, uint64_t mixed, bool unique, bool renews)
{
  struct window_memory memory;
  int refused = window_join(w);
  if (refused != TAMIS_OK)
    return refused;
  window_memory_begin(&memory, w);
  for (;;) {
    struct locked locked;
    lock_pairs(w, mixed, &locked);
    int result = put_locked(w, &locked, unique, renews, refused, &memory);
    unlock_pairs(w, &locked);
    if (__builtin_expect(result >= NO_ROOM || result < 0, 0)) {
      const bool last = refused || locked.pairs == 1;
      result = refused = provide(w, &locked, &memory, result);
      if (result == TAMIS_OK || !last)
        continue;
    }
    window_release_memory(&memory);
    if (result < 0)
      tamis__counter_note(&w->counters, WINDOW_REFUSED);
    return result;
  }
}

static int add(struct window *w, uint64_t mixed)
{
  return is_settled(w, mixed, true, false) ? TAMIS_OK : put(w, mixed, false, true);
}

static int add_unique(struct window *w, uint64_t mixed)
{
  return is_settled(w, mixed, w->renews, false) ? TAMIS_PRESENT : put(w, mixed, true, w->renews);
}

/* In a window of the cuckoo kind each plain add writes: it adds a copy. */
static int add_copy(struct window *w, uint64_t mixed)
{
  return put(w, mixed, false, true);
}

static int add_first_copy(struct window *w, uint64_t mixed)
{
  return is_settled(w, mixed, w->renews, true) ? TAMIS_PRESENT : put(w, mixed, true, w->renews);
}

int tamis__window_add(tamis_filter *f, uint64_t hash)
{
  return add(window_of(f), window_mixed(window_of(f), hash));
}

int tamis__window_add_unique(tamis_filter *f, uint64_t hash)
{
  return add_unique(window_of(f), window_mixed(window_of(f), hash));
}

int tamis__window_add_copy(tamis_filter *f, uint64_t hash)
{
  return add_copy(window_of(f), window_mixed(window_of(f), hash));
}

int tamis__window_add_first_copy(tamis_filter *f, uint64_t hash)
{
  return add_first_copy(window_of(f), window_mixed(window_of(f), hash));
}

/* Fetches the memory of a group of keys in the newest layer, which most keys need. */
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

void tamis__window_add_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  uint64_t mixed[FILTER_GROUP];
  mix_and_prefetch(window_of(f), hashes, n, mixed);
  for (size_t i = 0; i < n; i++)
    results[i] = add(window_of(f), mixed[i]);
}

void tamis__window_add_unique_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  uint64_t mixed[FILTER_GROUP];
  mix_and_prefetch(window_of(f), hashes, n, mixed);
  for (size_t i = 0; i < n; i++)
    results[i] = add_unique(window_of(f), mixed[i]);
}

void tamis__window_add_copy_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  uint64_t mixed[FILTER_GROUP];
  mix_and_prefetch(window_of(f), hashes, n, mixed);
  for (size_t i = 0; i < n; i++)
    results[i] = add_copy(window_of(f), mixed[i]);
}

void tamis__window_add_first_copy_many(tamis_filter *f, const uint64_t *hashes, size_t n,
                                       int *results)
{
  uint64_t mixed[FILTER_GROUP];
  mix_and_prefetch(window_of(f), hashes, n, mixed);
  for (size_t i = 0; i < n; i++)
    results[i] = add_first_copy(window_of(f), mixed[i]);
}
