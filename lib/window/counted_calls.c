/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the calls on the keys of a counted table, except contains.
 */
#include "window/operations.h"

#include "table/put.h"
#include "window/counted.h"
#include "window/lookup.h"
#include "window/pair.h"
#include "window/rooms.h"

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

/* ---- adds ---- */

/* Adds a key that is absent. */
static int insert_locked(const struct window *w, const struct home *home)
{
  struct window_layer *layer = home->pair->layer;
  struct found at = home->found;
  if (!find_lane(home->pair, &home->view, &at, counted_epoch()))
    return window_is_full(w, layer, home->pair->place.lower, counted_epoch()) ? TAMIS_EFULL
                                                                              : NO_ROOM;
  if (!at.entry)
    window_use(window_stripe(w, layer, at.bucket), 1);
  window_store(layer, at.bucket, at.lane, home->pair->fingerprint | COUNTED_NOW);
  HOOK(window_lane_written);
  return TAMIS_OK;
}

static int put_locked(const struct window *w, const struct locked *locked, bool unique)
{
  const struct home home = home_in(locked->pair, counted_epoch());
  HOOK(window_epoch_read_locked);
  if (!home.live)
    return insert_locked(w, &home);
  return unique ? TAMIS_PRESENT : tamis__counted_add_locked(w, home.pair, &home.found, 1);
}

static int put(struct window *w, uint64_t mixed, bool unique)
{
  struct locked locked;
  int result = window_join(w);
  if (result != TAMIS_OK)
    return result;
  do {
    lock_pairs(w, mixed, &locked);
    result = put_locked(w, &locked, unique);
    unlock_pairs(w, &locked);
  } while (result == NO_ROOM && (result = tamis__window_make_room(w, &locked)) == TAMIS_OK);
  if (result < 0)
    tamis__counter_note(&w->counters, WINDOW_REFUSED);
  return result;
}

int tamis__counted_add(tamis_filter *f, uint64_t hash)
{
  return put(window_of(f), window_mixed(window_of(f), hash), false);
}

/* Takes no stripe if the key is present. */
int tamis__counted_add_unique(tamis_filter *f, uint64_t hash)
{
  struct window *w = window_of(f);
  return w->operations.contains(f, hash) ? TAMIS_PRESENT : put(w, window_mixed(w, hash), true);
}

static void fetch(const tamis_filter *f, const uint64_t *hashes, size_t n)
{
  for (size_t i = 0; i < n; i++)
    tamis__window_prefetch(f, hashes[i]);
}

void tamis__counted_add_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  fetch(f, hashes, n);
  for (size_t i = 0; i < n; i++)
    results[i] = tamis__counted_add(f, hashes[i]);
}

void tamis__counted_add_unique_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  fetch(f, hashes, n);
  for (size_t i = 0; i < n; i++)
    results[i] = tamis__counted_add_unique(f, hashes[i]);
}

/* ---- removes ---- */

static void remove_locked(const struct window *w, const struct pair *pair, const struct found *at)
{
  struct window_stripe *stripe = window_stripe(w, pair->layer, at->bucket);
  if (counted_copies(&pair->layer->geometry.shape, at->entry) > 1) {
    change_copies(w, pair, at, -1);
    return;
  }
  window_store(pair->layer, at->bucket, at->lane, 0);
  HOOK(window_lane_written);
  window_use(stripe, -1);
  window_vacate(stripe);
  window_has_room(pair->layer, at->bucket);
}

int tamis__counted_remove(tamis_filter *f, uint64_t hash)
{
  struct window *w = window_of(f);
  struct locked locked;
  int result = window_join(w);
  if (result != TAMIS_OK)
    return result;
  lock_pairs(w, window_mixed(w, hash), &locked);
  const struct home home = home_in(locked.pair, counted_epoch());
  HOOK(window_home_found);
  if (home.live)
    remove_locked(w, home.pair, &home.found);
  unlock_pairs(w, &locked);
  return home.live ? TAMIS_OK : TAMIS_ABSENT;
}

/* ---- counts of copies, without locks ---- */

/* Reads in the order of a look-up: [A] in table.h.  A hit takes effect when the lane is read,
 * because one load reads the entry together with its count. */
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
