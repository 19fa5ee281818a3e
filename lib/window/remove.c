/* SPDX-License-Identifier: MIT
 *
 * Layer 2: removes and counts copies of a key, in windows of the cuckoo kind and counted tables.
 *
 * Like an add, both take the stripes of the key in all layers, and then read the epoch word.
 *
 * [H] Which entry a call uses.  In one layer only one lane matches a key (bucket.h).  In several
 *     layers, entries may match that were added for other keys.  All calls take the matching live
 *     entry in the oldest layer, the key's *home*.  A remembered key keeps its home:
 *
 *     1. No older layer gets an entry that matches the key, because entries are added to the newest
 *        layer only.  (The first layer may be opened again, but only after it has left, empty.)
 *     2. An add P that has read an older epoch word may write an entry to a layer that has just
 *        been closed, while an add Q of a key that matches this entry goes to the newer layer.  Q
 *        needs the stripes that P holds.  If Q gets them after P, Q finds the entry.  If Q gets
 *        them before P, P finds that the epoch word has changed.
 *     3. The entry stays while it counts copies of the key, at least as long as any add asked for.
 *
 *     So each copy is counted in the key's home, and a remove takes the copy from there.
 *
 * A remove and a count take effect when the epoch word is read under the stripes, or just before
 * the next period begins: no other call changes the entry or its count meanwhile.
 */
#include "window/operations.h"

#include "window/counted.h"
#include "window/pair.h"
#include "window/rooms.h"

FORCE_INLINE struct home lock_home(const struct window *w, uint64_t mixed, struct locked *locked)
{
  uint64_t epoch;
  for (;;) {
    lock_pairs(w, mixed, locked);
    epoch = epoch_read(&w->state->epoch);
    HOOK(window_epoch_read_locked);
    if (has_layers(locked, epoch))
      break;
    unlock_pairs(w, locked);
  }
  const struct home home = find_home(locked, epoch);
  HOOK(window_home_found);
  return home;
}

/* Adds `more`, which may be negative, to the copies of an entry in a counted table.  The entry's
 * stamp, in its lowest bits, is lower by one for each further copy. */
static void change_copies(const struct window *w, const struct pair *pair, const struct found *at,
                          int64_t more)
{
  window_store(pair->layer, at->bucket, at->lane, at->entry - (uint64_t) more);
  HOOK(window_lane_written);
  window_count_copies(window_stripe(w, pair->layer, at->bucket), (uint64_t) more);
}

int tamis__counted_add_locked(const struct window *w, const struct pair *pair,
                              const struct found *at, unsigned copies)
{
  if (counted_copies(&pair->layer->geometry.shape, at->entry) + copies > COUNTED_COPIES)
    return TAMIS_EFULL;
  change_copies(w, pair, at, copies);
  return TAMIS_OK;
}

/* Takes a further copy from an entry.  Returns false if there is none. */
static bool remove_further_locked(struct window *w, const struct pair *pair, const struct found *at)
{
  if (window_is_counted(w)) {
    const bool further = counted_copies(&pair->layer->geometry.shape, at->entry) > 1;
    if (further)
      change_copies(w, pair, at, -1);
    return further;
  }
  const struct window_lane lane = window_lane(pair->layer, at->bucket, at->lane);
  const bool further = window_further(pair->layer, lane) > 0;
  if (further)
    (void) tamis__window_add_further(w, pair->layer, lane, UINT64_MAX); /* needs no memory */
  return further;
}

/* Removes a copy.  The caller must hold the stripes of all pairs. */
static void remove_locked(struct window *w, const struct pair *pair, const struct found *at)
{
  struct window_stripe *stripe = window_stripe(w, pair->layer, at->bucket);
  if (remove_further_locked(w, pair, at))
    return;
  window_store(pair->layer, at->bucket, at->lane, 0);
  HOOK(window_lane_written);
  window_use(stripe, -1);
  if (window_is_counted(w))
    window_vacate(stripe);
  window_has_room(pair->layer, at->bucket);
}

int tamis__window_remove(tamis_filter *f, uint64_t hash)
{
  struct window *w = window_of(f);
  struct locked locked;
  const int result = window_join(w);
  if (result != TAMIS_OK)
    return result;
  const struct home home = lock_home(w, window_mixed(w, hash), &locked);
  if (home.live)
    remove_locked(w, home.pair, &home.found);
  unlock_pairs(w, &locked);
  return home.live ? TAMIS_OK : TAMIS_ABSENT;
}

uint64_t tamis__window_count_copies(const tamis_filter *f, uint64_t hash)
{
  const struct window *w = const_window_of(f);
  struct locked locked;
  if (!w->operations.contains(f, hash)) /* no lock is needed for an absent key */
    return 0;
  const struct home home = lock_home(w, window_mixed(w, hash), &locked);
  const struct window_layer *layer = home.pair->layer;
  struct window_lane lane = window_lane(layer, home.found.bucket, home.found.lane);
  uint64_t copies = home.live ? 1 + window_further(layer, lane) : 0;
  unlock_pairs(w, &locked);
  return copies;
}

/* Takes no lock, and reads in the order of a look-up: [A] in table.h.  A hit takes effect when one
 * load reads the entry together with its count. */
uint64_t tamis__counted_count(const tamis_filter *f, uint64_t hash)
{
  const struct window *w = const_window_of(f);
  const struct window_shape *s = &w->first.geometry.shape;
  const struct pair pair = pair_in((struct window_layer *) &w->first, window_mixed(w, hash));
  const version_counter *version = window_version(w, pair.fingerprint << (64 - s->lane.width));
  for (;;) {
    const uint64_t before = version_before(version);
    struct view view = {.lower = window_load(pair.layer, pair.place.lower)};
    HOOK(window_lower_read);
    view.upper = window_load(pair.layer, pair.place.upper);
    const struct found found = find_entry(&pair, &view);
    if (found.entry || version_after(version) == before)
      return counted_copies(s, found.entry);
    tamis__counter_note((struct counters *) &w->counters, WINDOW_LOOKUP_RETRIES);
  }
}
