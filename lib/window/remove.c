/* SPDX-License-Identifier: MIT
 *
 * Layer 2: removes and counts of copies, in a sliding window of the cuckoo kind.
 *
 * Both take the stripes of the key's buckets in all layers, as an add does, and read the epoch word
 * under them.  What does not match the key, or has the dead stamp, is not there for them.
 *
 * [H] Which entry.  In one layer a key has one lane (bucket.h).  In several, entries may match it
 *     that came there for other keys.  All calls of the cuckoo kind take the entry in the oldest
 *     layer, the key's *home*.  While a key is remembered, its home stays the same:
 *
 *     - No older layer gets an entry that matches the key.  Entries are added to the newest layer
 *       only, and an older one was closed before.  (The first one is opened again only when it has
 *       left, empty; then it is the newest one.)  (An add that had read an older epoch word holds
 *       its stripes then, which are also those of each key that its entry matches.  An add of such
 *       a key to a newer layer comes after it and finds the entry; if it came before, the late add
 *       would have found another epoch word.)
 *     - The entry stays while copies of the key are counted in it, and its stamp is not older than
 *       the key's last add.
 *
 *     So each copy is counted in the entry that was the key's home when it was added, and a remove
 *     of the key takes it from there.  A remove never takes a copy of a key that does not match the
 *     entry.  If a later layer's entry were taken, it might be that of another key, which the older
 *     one does not stand for.
 *
 * [R] Counts.  The count of a lane belongs to the entry in it.  When the entry dies, its lane counts
 *     as free, and so nobody asks for its count: only what sets it to 0 does, before the lane has
 *     another entry (copies.h).
 *
 * A remove and a count take effect when the epoch word is read under the stripes, or just before
 * the next period begins: nobody changes the entry and its count meanwhile.
 */
#include "window/remove.h"

#include "window/copies.h"
#include "window/pair.h"

/* Finds the key's home, with all its stripes held. */
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

/* The caller holds the stripes of all pairs. */
static void remove_locked(const struct pair *pair, const struct found *at,
                          struct window_memory *memory)
{
  struct window_lane lane = window_lane(pair->layer, at->bucket, at->lane);
  if (tamis__window_further(pair->layer, lane)) {
    const uint64_t one_less = UINT64_MAX;
    (void) tamis__window_add_further(memory, pair->layer, lane, one_less);
    return; /* this needed no memory */
  }
  window_store(pair->layer, at->bucket, at->lane, 0);
  window_use(window_stripe(memory->w, pair->layer, at->bucket), -1);
  window_has_room(pair->layer, at->bucket);
}

int tamis__window_remove(tamis_filter *f, uint64_t hash)
{
  struct window_memory memory;
  window_memory_begin(&memory, window_of(f));
  struct locked locked;
  struct home home;
  lock_home(memory.w, window_mixed(memory.w, hash), &locked, &home);
  if (home.live)
    remove_locked(home.pair, &home.found, &memory);
  unlock_pairs(memory.w, &locked);
  window_release_memory(&memory);
  return home.live ? TAMIS_OK : TAMIS_ABSENT;
}

uint64_t tamis__window_count_copies(const tamis_filter *f, uint64_t hash)
{
  const struct window *w = const_window_of(f);
  struct locked locked;
  struct home home;
  if (!w->operations.contains(f, hash)) /* no lock for a key that is not in */
    return 0;
  lock_home(w, window_mixed(w, hash), &locked, &home);
  const struct window_layer *layer = home.pair->layer;
  struct window_lane lane = window_lane(layer, home.found.bucket, home.found.lane);
  uint64_t copies = home.live ? 1 + tamis__window_further(layer, lane) : 0;
  unlock_pairs(w, &locked);
  return copies;
}

void tamis__window_count_copies_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                     uint64_t *counts)
{
  bool found[FILTER_GROUP];
  const_window_of(f)->operations.contains_many(f, hashes, n, found); /* fetches their memory */
  for (size_t i = 0; i < n; i++)
    counts[i] = found[i] ? tamis__window_count_copies(f, hashes[i]) : 0;
}
