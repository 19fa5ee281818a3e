/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the buckets of a key in all layers of a sliding window, and their stripes, for writers.
 */
#ifndef TAMIS_LIB_WINDOW_PAIR_H
#define TAMIS_LIB_WINDOW_PAIR_H

#include "base/compiler.h"
#include "window/copies.h"

struct pair {
  struct window_layer *layer;
  struct window_buckets place;
  uint64_t fingerprint;
};

static inline struct pair pair_in(struct window_layer *layer, uint64_t mixed)
{
  const struct window_geometry *g = &layer->geometry;
  const struct window_place place = window_place_of(g, mixed, g->segments > 1);
  return (struct pair){layer, {place.lower, place.upper}, window_fingerprint(&g->shape, &place)};
}

struct view {
  uint64_t lower, upper;
};

static inline struct view look_at(const struct pair *pair)
{
  const word *words = pair->layer->words;
  const unsigned shift = pair->layer->geometry.bucket_shift; /* read only once */
  const uint64_t lower = pair->place.lower, upper = pair->place.upper;
  const uint64_t of_lower = word_load(&words[window_word_of(shift, lower)]);
  const uint64_t of_upper = word_load(&words[window_word_of(shift, upper)]);
  return (struct view){of_lower >> window_shift_of(shift, lower),
                       of_upper >> window_shift_of(shift, upper)};
}

struct found {
  uint64_t entry; /* 0: the lane is empty, or no lane was found */
  uint64_t bucket;
  unsigned lane;
};

/* The lane that has the key's fingerprint, live or dead. */
static inline struct found find_entry(const struct pair *pair, const struct view *view)
{
  const struct window_shape *s = &pair->layer->geometry.shape;
  uint64_t in_lower = window_match(s, view->lower, pair->fingerprint);
  uint64_t in_upper = window_match(s, view->upper, pair->fingerprint);
  if (!(in_lower | in_upper))
    return (struct found){0};
  unsigned lane = lanes_first(&s->lane, in_lower ? in_lower : in_upper);
  return (struct found){lane_get(&s->lane, in_lower ? view->lower : view->upper, lane),
                        in_lower ? pair->place.lower : pair->place.upper, lane};
}

/* ---- the pairs of a key in all layers, under stripes ---- */

struct locked {
  uint64_t epoch; /* the epoch word that named the layers */
  unsigned pairs, stripes;
  struct pair pair[WINDOW_MOST_LAYERS]; /* the pair in the newest layer comes first */
  struct window_stripe *stripe[2 * WINDOW_MOST_LAYERS];
};

/* Adds a stripe to the list, which is sorted by address and has each stripe once. */
static inline void note_stripe(struct locked *locked, struct window_stripe *stripe)
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

/* Sorts two stripes, which may be the same, into stripe[].  Returns the number of stripes. */
static inline unsigned sort_stripes(struct window_stripe *stripe[2], struct window_stripe *a,
                                    struct window_stripe *b)
{
  stripe[0] = a < b ? a : b;
  stripe[1] = a < b ? b : a;
  return a == b ? 1 : 2;
}

static inline void lock_stripes(const struct window *w, struct window_stripe *const *stripe,
                                unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    window_lock(w, stripe[i]);
}

static inline void unlock_stripes(const struct window *w, struct window_stripe *const *stripe,
                                  unsigned n)
{
  for (unsigned i = n; i-- > 0;)
    window_unlock(w, stripe[i]);
}

static inline void note_pair(const struct window *w, struct window_layer *layer, uint64_t mixed,
                             struct locked *locked)
{
  struct pair *pair = &locked->pair[locked->pairs++];
  *pair = pair_in(layer, mixed);
  note_stripe(locked, window_stripe(w, layer, pair->place.lower));
  note_stripe(locked, window_stripe(w, layer, pair->place.upper));
}

/* Takes the stripes of a key in all layers.  Layers may leave while the thread waits for stripes,
 * so the caller must call has_layers() before it reads a layer. */
static inline void lock_pairs(const struct window *w, uint64_t mixed, struct locked *locked)
{
  uint64_t epoch = locked->epoch = epoch_read(&w->state->epoch);
  locked->pairs = locked->stripes = 0;
  if (epoch_has_grown(epoch)) {
    struct window_reader reader = window_enter(epoch);
    struct window_layer *layer = window_newest(w, epoch);
    do { /* the loop has a limit, because a list that changes meanwhile may seem to go on */
      note_pair(w, layer, mixed, locked);
      layer = window_next(layer, epoch);
    } while (layer && locked->pairs < WINDOW_MOST_LAYERS);
    window_leave(reader);
  } else {
    const struct pair *pair = &locked->pair[locked->pairs++];
    locked->pair[0] = pair_in((struct window_layer *) &w->first, mixed);
    locked->stripes = sort_stripes(locked->stripe, window_stripe(w, pair->layer, pair->place.lower),
                                   window_stripe(w, pair->layer, pair->place.upper));
  }
  HOOK(window_stripes_wanted);
  lock_stripes(w, locked->stripe, locked->stripes);
  HOOK(window_stripes_taken);
}

/* Whether *locked still has a pair for each layer.  `epoch` must be read under the stripes. */
static inline bool has_layers(const struct locked *locked, uint64_t epoch)
{
  return epoch_has_same_layers(locked->epoch, epoch);
}

static inline void unlock_pairs(const struct window *w, const struct locked *locked)
{
  unlock_stripes(w, locked->stripe, locked->stripes);
}

/* A key's home: its live entry in the oldest layer that has one.  [H] in remove.c says why. */
struct home {
  /* If false, the key has no home, and `found`, in the pair searched last, is empty or dead. */
  bool live;
  const struct pair *pair;
  struct view view;
  struct found found;
};

/* Searches one layer for a key's home.  Without the stripes, it may miss an entry that moves. */
FORCE_INLINE struct home home_in(const struct pair *pair, uint64_t epoch)
{
  struct home home = {.pair = pair, .view = look_at(pair)};
  home.found = find_entry(pair, &home.view);
  home.live = home.found.entry &&
              window_stamp_of(&pair->layer->geometry.shape, home.found.entry) != epoch_dead(epoch);
  return home;
}

/* Finds a key's home.  The caller must hold all the key's stripes, and read `epoch` under them. */
FORCE_INLINE struct home find_home(const struct locked *locked, uint64_t epoch)
{
  struct home home;
  unsigned i = locked->pairs;
  do
    home = home_in(&locked->pair[--i], epoch);
  while (!home.live && i);
  return home;
}

/* Finds a lane in home->pair for a key that has no live lane there.  Returns false if there is no
 * room.  A dead lane with the key's fingerprint comes first: window_has_live() says why. */
FORCE_INLINE bool find_lane(const struct home *home, struct found *at, uint64_t epoch)
{
  const struct pair *pair = home->pair;
  const struct view *view = &home->view;
  const struct window_shape *s = &pair->layer->geometry.shape;
  *at = home->found;
  if (at->entry)
    return true;
  uint64_t lower_free = window_free(s, view->lower, epoch_dead(epoch));
  uint64_t upper_free = window_free(s, view->upper, epoch_dead(epoch));
  if (!(lower_free | upper_free))
    return false;
  bool to_lower = lanes_number(&s->lane, lower_free) >= lanes_number(&s->lane, upper_free);
  at->bucket = to_lower ? pair->place.lower : pair->place.upper;
  at->lane = lanes_first(&s->lane, to_lower ? lower_free : upper_free);
  at->entry = lane_get(&s->lane, to_lower ? view->lower : view->upper, at->lane);
  return true;
}

#endif
