/* SPDX-License-Identifier: MIT
 *
 * Layer 2: removes and counts of copies, in a sliding window of the cuckoo kind.
 *
 * A remove or a count takes the stripes of the key's buckets in all layers, as an add does, and
 * reads the epoch word under them.  Both ignore entries that are dead or do not match the key.
 *
 * [H] Which entry.  In one layer only one lane matches a key (bucket.h).  In several layers,
 *     entries may match that were added for other keys.  All calls take the matching entry in the
 *     oldest layer, the key's *home*.  While a key is remembered, its home stays the same:
 *
 *     - No older layer gets an entry that matches the key: entries are added to the newest layer
 *       only, and older layers are closed.  (The first layer is opened again only after it has
 *       left, empty; it is then the newest.  An add that has read an older epoch word may write an
 *       entry to a layer that has just been closed.  A second add, of a key that matches the entry,
 *       needs the stripes that this add holds.  If the second add, to a newer layer, gets them
 *       later, it finds the entry.  If it gets them earlier, the first add finds that the epoch
 *       word has changed.)
 *     - The entry stays while copies of the key are counted in it, and lives at least as long as
 *       any add of the key asked for.
 *
 *     So each copy is counted in the key's home, and a remove of the key takes the copy from there.
 *     A remove never takes a copy of a key that does not match the entry.  (An entry in a newer
 *     layer might be that of another key.)
 *
 * [R] Counts.  The count of a lane belongs to the entry in it.  When the entry dies, its lane
 *     counts as free, and no call uses the count.  The count is set to 0 before the lane gets
 *     another entry (copies.h).
 *
 * A remove and a count take effect when the epoch word is read under the stripes, or just before
 * the next period begins: no other call changes the entry or its count meanwhile.
 */
#include "window/operations.h"

#include "window/copies.h"
#include "window/pair.h"
#include "window/rooms.h"

/* Takes the stripes of a key, and finds its home. */
static void lock_home(const struct window *w, uint64_t mixed, struct locked *locked,
                      struct home *home)
{
  for (;;) {
    lock_pairs(w, mixed, locked);
    uint64_t epoch = epoch_locked(&w->state->epoch);
    HOOK(window_epoch_read_locked);
    if (has_layers(locked, epoch)) {
      *home = find_home(locked, epoch);
      HOOK(window_home_found);
      return;
    }
    unlock_pairs(w, locked);
  }
}

/* Removes a copy.  The caller must hold the stripes of all pairs. */
static void remove_locked(struct window *w, const struct pair *pair, const struct found *at)
{
  struct window_lane lane = window_lane(pair->layer, at->bucket, at->lane);
  if (tamis__window_further(pair->layer, lane)) {
    const uint64_t one_less = UINT64_MAX;
    (void) tamis__window_add_further(w, pair->layer, lane, one_less);
    return; /* cannot fail: a smaller count needs no memory */
  }
  window_store(pair->layer, at->bucket, at->lane, 0);
  window_use(window_stripe(w, pair->layer, at->bucket), -1);
  window_has_room(pair->layer, at->bucket);
}

int tamis__window_remove(tamis_filter *f, uint64_t hash)
{
  struct window *w = window_of(f);
  struct locked locked;
  struct home home;
  lock_home(w, window_mixed(w, hash), &locked, &home);
  if (home.live)
    remove_locked(w, home.pair, &home.found);
  unlock_pairs(w, &locked);
  return home.live ? TAMIS_OK : TAMIS_ABSENT;
}

uint64_t tamis__window_count_copies(const tamis_filter *f, uint64_t hash)
{
  const struct window *w = const_window_of(f);
  struct locked locked;
  struct home home;
  if (!w->operations.contains(f, hash)) /* an absent key needs no lock */
    return 0;
  lock_home(w, window_mixed(w, hash), &locked, &home);
  const struct window_layer *layer = home.pair->layer;
  struct window_lane lane = window_lane(layer, home.found.bucket, home.found.lane);
  uint64_t copies = home.live ? 1 + tamis__window_further(layer, lane) : 0;
  unlock_pairs(w, &locked);
  return copies;
}
