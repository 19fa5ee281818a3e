/* SPDX-License-Identifier: MIT
 *
 * Layer 2: adds to a sliding window.
 *
 * An add looks first, without stripes, whether there is anything to write: a key that has the stamp of
 * the running period, or a unique add's key that is remembered and need not be renewed, is as it should
 * be.  Otherwise it takes the stripes of the key's buckets, in all layers, and begins with 1 of table.h.
 */
#include "window/insert.h"

#include "base/compiler.h"
#include "window/evict.h"
#include "window/layers.h"
#include "window/lookup.h"

#include <assert.h>

/* TAMIS_OK, TAMIS_PRESENT, or one of these. */
enum { MISSING = -100, NO_ROOM, OTHER_LAYERS };

/* ---- the two buckets of a key in a layer ---- */

struct pair {
  struct window_layer *layer;
  struct window_place place;
  uint64_t fingerprint;
};

static inline struct pair pair_in(struct window_layer *layer, uint64_t mixed)
{
  const struct window_geometry *g = &layer->geometry;
  struct pair pair = {.layer = layer, .place = window_place_of(g, mixed, g->segments > 1)};
  pair.fingerprint = window_fingerprint(&g->shape, &pair.place);
  return pair;
}

/* What the two buckets hold. */
struct view {
  uint64_t lower, upper;
};

static inline struct view look_at(const struct pair *pair)
{
  return (struct view){window_load(pair->layer, pair->place.lower),
                       window_load(pair->layer, pair->place.upper)};
}

/* A lane of the pair. */
struct found {
  uint64_t entry; /* 0: there is none */
  uint64_t bucket;
  unsigned lane;
};

/* The lane that has the key's fingerprint, with whatever stamp. */
static inline struct found find_entry(const struct pair *pair, const struct view *view)
{
  const struct window_shape *s = &pair->layer->geometry.shape;
  uint64_t in_lower = window_match(s, view->lower, pair->fingerprint);
  uint64_t in_upper = window_match(s, view->upper, pair->fingerprint);
  if (!(in_lower | in_upper))
    return (struct found){0};
  unsigned lane = window_first(s, in_lower ? in_lower : in_upper);
  return (struct found){window_lane(s, in_lower ? view->lower : view->upper, lane),
                        in_lower ? pair->place.lower : pair->place.upper, lane};
}

static inline bool is_live(const struct window_layer *layer, const struct found *found,
                           uint64_t epoch)
{
  return found->entry && window_stamp_of(&layer->geometry.shape, found->entry) != epoch_dead(epoch);
}

/* ---- without stripes ---- */

/* Whether the add has nothing to write.  (It may miss an entry that is being moved.  Then it goes on
 * under the stripes.) */
static bool is_settled(const struct window *w, uint64_t mixed, bool renews)
{
  uint64_t epoch = epoch_before(&w->epoch);
  for (struct window_layer *layer = window_newest(w, epoch); layer;
       layer = window_next(layer, epoch)) {
    struct pair pair = pair_in(layer, mixed);
    struct view view = look_at(&pair);
    struct found found = find_entry(&pair, &view);
    HOOK(window_entry_seen);
    if (is_live(layer, &found, epoch))
      return (!renews ||
              window_stamp_of(&layer->geometry.shape, found.entry) == epoch_now(epoch)) &&
             epoch_after(&w->epoch) == epoch;
  }
  return false;
}

/* ---- under stripes ---- */

struct locked {
  unsigned pairs, stripes;
  struct pair pair[WINDOW_MOST_LAYERS]; /* the newest layer's first */
  struct stripe *stripe[2 * WINDOW_MOST_LAYERS];
};

/* Keeps the stripes in the order of their addresses, and each once. */
static void note_stripe(struct locked *locked, struct stripe *stripe)
{
  unsigned at = locked->stripes;
  while (at && locked->stripe[at - 1] > stripe)
    at--;
  if (at && locked->stripe[at - 1] == stripe)
    return;
  for (unsigned i = locked->stripes++; i > at; i--)
    locked->stripe[i] = locked->stripe[i - 1];
  locked->stripe[at] = stripe;
}

static void lock_pairs(const struct window *w, uint64_t mixed, struct locked *locked)
{
  uint64_t epoch = epoch_before(&w->epoch);
  struct window_layer *layer = window_newest(w, epoch);
  locked->pairs = locked->stripes = 0;
  do {
    struct pair *pair = &locked->pair[locked->pairs++];
    *pair = pair_in(layer, mixed);
    note_stripe(locked, window_stripe(w, layer, pair->place.lower));
    note_stripe(locked, window_stripe(w, layer, pair->place.upper));
    layer = window_next(layer, epoch);
  } while (layer);
  HOOK(window_stripes_wanted);
  for (unsigned i = 0; i < locked->stripes; i++)
    stripe_lock(locked->stripe[i]);
  HOOK(window_stripes_taken);
}

static void unlock_pairs(const struct locked *locked)
{
  for (unsigned i = locked->stripes; i-- > 0;)
    stripe_unlock(locked->stripe[i]);
}

/* Writes an entry with the stamp of the epoch word that the caller has read, or of the next period: [P]
 * in table.h. */
static void write_locked(struct window *w, const struct pair *pair, uint64_t bucket, unsigned lane,
                         uint64_t epoch)
{
  window_store(pair->layer, bucket, lane, pair->fingerprint | epoch_now(epoch));
  HOOK(window_lane_written);
  uint64_t again = epoch_locked(&w->epoch);
  if (epoch_now(again) != epoch_now(epoch))
    window_store(pair->layer, bucket, lane, pair->fingerprint | epoch_now(again));
}

/* Adds a key to the newest layer, in which it has no live lane; `at` is a dead one that has its
 * fingerprint, if there is one.  That is used again: only one lane of a pair may have it. */
static int insert_locked(struct window *w, const struct pair *pair, const struct view *view,
                         struct found at, uint64_t epoch)
{
  const struct window_shape *s = &pair->layer->geometry.shape;
  if (!at.entry) {
    uint64_t lower_free = window_free(s, view->lower, epoch_dead(epoch));
    uint64_t upper_free = window_free(s, view->upper, epoch_dead(epoch));
    if (!(lower_free | upper_free))
      return NO_ROOM;
    bool to_lower = window_count(lower_free) >= window_count(upper_free);
    at.bucket = to_lower ? pair->place.lower : pair->place.upper;
    at.lane = window_first(s, to_lower ? lower_free : upper_free);
    if (!window_lane(s, to_lower ? view->lower : view->upper, at.lane))
      stripe_use(window_stripe(w, pair->layer, at.bucket), 1);
  }
  write_locked(w, pair, at.bucket, at.lane, epoch);
  return TAMIS_OK;
}

static int put_locked(struct window *w, const struct locked *locked, bool unique, bool renews)
{
  uint64_t epoch = epoch_locked(&w->epoch);
  HOOK(window_epoch_read_locked);
  if (epoch_newest(epoch) != locked->pair[0].layer->number)
    return OTHER_LAYERS;
  struct view newest = look_at(&locked->pair[0]), view = newest;
  struct found dead = {0};
  for (unsigned i = 0; i < locked->pairs; i++) {
    const struct pair *pair = &locked->pair[i];
    if (i)
      view = look_at(pair);
    struct found found = find_entry(pair, &view);
    if (is_live(pair->layer, &found, epoch)) {
      if (renews)
        write_locked(w, pair, found.bucket, found.lane, epoch);
      return unique ? TAMIS_PRESENT : TAMIS_OK;
    }
    if (!i)
      dead = found;
  }
  return insert_locked(w, &locked->pair[0], &newest, dead, epoch);
}

/* ---- the calls ---- */

static NEVER_INLINE int put(struct window *w, uint64_t mixed, bool unique, bool renews)
{
  for (;;) {
    struct locked locked;
    lock_pairs(w, mixed, &locked);
    int result = put_locked(w, &locked, unique, renews);
    unlock_pairs(&locked);
    if (result == NO_ROOM) {
      struct window_layer *full = locked.pair[0].layer;
      result = tamis__window_evict(w, full, &locked.pair[0].place);
      if (result == TAMIS_EFULL)
        result = tamis__window_open_layer(w, full);
      if (result == TAMIS_OK)
        continue;
      tamis__counter_note(&w->counters, WINDOW_REFUSED);
    }
    if (result != OTHER_LAYERS)
      return result;
  }
}

static int add(struct window *w, uint64_t mixed)
{
  return is_settled(w, mixed, true) ? TAMIS_OK : put(w, mixed, false, true);
}

static int add_unique(struct window *w, uint64_t mixed)
{
  return is_settled(w, mixed, w->renews) ? TAMIS_PRESENT : put(w, mixed, true, w->renews);
}

int tamis__window_add(tamis_filter *f, uint64_t hash)
{
  return add(window_of(f), window_mixed(window_of(f), hash));
}

int tamis__window_add_unique(tamis_filter *f, uint64_t hash)
{
  return add_unique(window_of(f), window_mixed(window_of(f), hash));
}

/* Fetches the memory of a group of keys in the newest layer, which most of them need. */
static void mix_and_prefetch(const struct window *w, const uint64_t *hashes, size_t n,
                             uint64_t mixed[FILTER_GROUP])
{
  struct window_layer *layer = window_newest(w, epoch_before(&w->epoch));
  for (size_t i = 0; i < n; i++) {
    mixed[i] = window_mixed(w, hashes[i]);
    struct pair pair = pair_in(layer, mixed[i]);
    __builtin_prefetch(window_word(layer, pair.place.lower), 1);
    __builtin_prefetch(window_word(layer, pair.place.upper), 1);
  }
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
