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
 *       only, and an older one was closed before.  (An add that had read an older epoch word holds
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
 * [R] Records.  An entry and its record have the same stamp whenever nobody holds the stripes.  So
 *     when the entry dies, the record does, and counts as none.  By [Q] in table.h, a sweep clears
 *     both before the stamp is used again; it does not matter which one goes first, and whether the
 *     lane or the name is in use again by then.
 *
 * A remove and a count take effect when the epoch word is read under the stripes, or just before
 * the next period begins: nobody changes the entry and its record meanwhile.
 */
#include "window/remove.h"

#include "window/copies.h"
#include "window/pair.h"

/* Finds the key's home, with all its stripes held.  Returns the epoch word. */
static uint64_t lock_home(const struct window *w, uint64_t mixed, struct locked *locked,
                          struct home *home)
{
  for (;;) {
    lock_pairs(w, mixed, locked);
    uint64_t epoch = epoch_locked(&w->epoch);
    HOOK(window_epoch_read_locked);
    if (epoch_newest(epoch) == locked->pair[0].layer->number) {
      *home = find_home(locked, epoch);
      HOOK(window_home_found);
      return epoch;
    }
    unlock_pairs(locked);
  }
}

/* The records among which that of a key is, and the name that it has there. */
static struct window_copies *copies_at(const struct window *w, const struct pair *pair,
                                       struct window_name *name)
{
  *name = window_name(pair->layer, pair->place.lower, pair->fingerprint);
  return window_copies_of(w, pair->layer, pair->place.lower);
}

/* *sparse is set to the records that have too large a table after that, or NULL. */
static int remove_locked(struct window *w, const struct home *home, uint64_t epoch,
                         struct window_copies **sparse)
{
  const struct pair *pair = home->pair;
  struct window_name name;
  struct window_copies *c = copies_at(w, pair, &name);
  uint64_t further = tamis__window_further(c, &name, epoch_dead(epoch));
  if (further) {
    unsigned stamp = window_stamp_of(&pair->layer->geometry.shape, home->found.entry);
    (void) tamis__window_record(c, &name, stamp, further - 1); /* it has its slot */
    *sparse = tamis__window_is_too_large(c) ? c : NULL;
    return TAMIS_OK;
  }
  window_store(pair->layer, home->found.bucket, home->found.lane, 0);
  window_use(window_stripe(w, pair->layer, home->found.bucket), -1);
  window_has_room(pair->layer, home->found.bucket);
  return TAMIS_OK;
}

int tamis__window_remove(tamis_filter *f, uint64_t hash)
{
  struct window *w = window_of(f);
  struct locked locked;
  struct home home;
  struct window_copies *sparse = NULL;
  uint64_t epoch = lock_home(w, window_mixed(w, hash), &locked, &home);
  int result = home.live ? remove_locked(w, &home, epoch, &sparse) : TAMIS_ABSENT;
  unlock_pairs(&locked);
  if (sparse) /* without memory the table stays as it is */
    (void) tamis__window_fit_records(w, sparse, 0);
  return result;
}

uint64_t tamis__window_count_copies(const tamis_filter *f, uint64_t hash)
{
  const struct window *w = const_window_of(f);
  struct locked locked;
  struct home home;
  struct window_name name;
  if (!w->operations.contains(f, hash)) /* no lock for a key that is not in */
    return 0;
  uint64_t epoch = lock_home(w, window_mixed(w, hash), &locked, &home);
  const struct window_copies *c = copies_at(w, home.pair, &name);
  uint64_t copies = home.live ? 1 + tamis__window_further(c, &name, epoch_dead(epoch)) : 0;
  unlock_pairs(&locked);
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
