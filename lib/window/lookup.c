/* SPDX-License-Identifier: MIT
 *
 * Layer 2: look-ups in a sliding window.
 *
 *    hash ──► address (geometry.h) ──► lower bucket ┐ lanes with a fingerprint and a stamp;
 *                                 └──► upper bucket ┘ the entry is in either
 *
 * A look-up does this in each layer, with loads in the order of [A] in table.h.
 *
 * The straight path serves a filter that has only the first layer.  It is compiled for each shape,
 * both for tables of one segment and of several.  If the flag EPOCH_GROWN is set, or a version or
 * the epoch word has changed, the look-up begins again on the general path.
 */
#include "base/compiler.h"
#include "window/operations.h"
#include "window/table.h"

/* A copy of a geometry in which the shape's members are compile-time constants. */
FORCE_INLINE struct window_geometry shaped(const struct window_geometry *of, unsigned width,
                                           unsigned lanes, unsigned bucket_shift)
{
  struct window_geometry g = *of;
  uint64_t low = 0;
  UNROLL
  for (unsigned i = 0; i < lanes; i++)
    low |= UINT64_C(1) << i * width;
  g.shape.lane.width = (uint8_t) width;
  g.shape.lane.lanes = (uint8_t) lanes;
  g.shape.lane.low = low;
  g.shape.lane.high = low << (width - 1);
  g.bucket_shift = bucket_shift;
  return g;
}

struct look {
  uint64_t found;   /* not 0 if a lane matches */
  uint64_t changed; /* not 0 if an entry has been moved during the look-up */
};

FORCE_INLINE uint64_t look_at_bucket(const struct window_geometry *g, const word *words,
                                     uint64_t bucket, uint64_t pattern)
{
  uint64_t value = word_load(&words[window_word_of(g->bucket_shift, bucket)]);
  value >>= window_shift_of(g->bucket_shift, bucket);
  return window_has_live(&g->shape, value, pattern);
}

FORCE_INLINE struct look look(const struct window *w, const struct window_state *state,
                              const struct window_geometry *g, const word *words,
                              const struct window_place *place, unsigned dead)
{
  struct look look;
  const version_counter *version = &state->versions[place->top >> w->version_shift];
  uint64_t pattern = window_pattern(&g->shape, window_fingerprint(&g->shape, place), dead);
  uint64_t before = version_before(version);
  HOOK(window_version_read);
  look.found = look_at_bucket(g, words, place->lower, pattern);
  HOOK(window_lower_read);
  look.found |= look_at_bucket(g, words, place->upper, pattern);
  look.changed = version_after(version) ^ before;
  return look;
}

FORCE_INLINE enum window_answer find(const struct window *w, const struct window_layer *layer,
                                     const struct window_geometry *g, uint64_t mixed, unsigned dead,
                                     bool segmented)
{
  struct window_place place = window_place_of(g, mixed, segmented);
  struct look l = look(w, w->state, g, layer->words, &place, dead);
  return l.changed ? WINDOW_MOVED : l.found ? WINDOW_HIT : WINDOW_MISS;
}

/* Searches all layers.  Returns WINDOW_MOVED if a version or the epoch word has changed. */
static enum window_answer search(const struct window *w, uint64_t mixed)
{
  uint64_t epoch = epoch_read(&w->state->epoch);
  struct window_reader reader = window_enter(epoch);
  enum window_answer answer = WINDOW_MISS;
  HOOK(window_epoch_read);
  for (const struct window_layer *layer = window_newest(w, epoch); layer && answer == WINDOW_MISS;
       layer = window_next(layer, epoch))
    answer = layer->calls->find(w, layer, mixed, epoch_dead(epoch));
  window_leave(reader);
  return epoch_read(&w->state->epoch) == epoch ? answer : WINDOW_MOVED;
}

/* Repeats a look-up that the straight path could not answer, in all layers. */
static NEVER_INLINE bool contains_again(const struct window *w, uint64_t mixed)
{
  bool retry = !epoch_has_grown(epoch_read(&w->state->epoch));
  enum window_answer answer;
  do {
    if (retry)
      tamis__counter_note(&w->counters, WINDOW_LOOKUP_RETRIES);
    answer = search(w, mixed);
    retry = true;
  } while (answer == WINDOW_MOVED);
  return answer == WINDOW_HIT;
}

static void prefetch_in(const struct window_layer *layer, uint64_t mixed)
{
  const struct window_geometry *g = &layer->geometry;
  const struct window_place place = window_place_of(g, mixed, g->segments > 1);
  __builtin_prefetch(&layer->words[window_word_of(g->bucket_shift, place.lower)]);
  __builtin_prefetch(&layer->words[window_word_of(g->bucket_shift, place.upper)]);
}

static NEVER_INLINE void prefetch_layers(const struct window *w, uint64_t mixed)
{
  reader_token token = reader_enter();
  const uint64_t epoch = epoch_read(&w->state->epoch);
  for (const struct window_layer *layer = window_newest(w, epoch); layer;
       layer = window_next(layer, epoch))
    prefetch_in(layer, mixed);
  reader_leave(token);
}

void tamis__window_prefetch(const tamis_filter *f, uint64_t hash)
{
  const struct window *w = const_window_of(f);
  const uint64_t mixed = window_mixed(w, hash);
  if (epoch_has_grown(epoch_read(&w->state->epoch)))
    prefetch_layers(w, mixed);
  else
    prefetch_in(&w->first, mixed);
}

/* ---- the straight path: a filter that has only the first layer ---- */

FORCE_INLINE bool contains_at(const struct window *w, const struct window_geometry *g,
                              const struct window_place *place, uint64_t mixed)
{
  const struct window_state *state = w->state;
  uint64_t epoch = epoch_read(&state->epoch);
  HOOK(window_epoch_read);
  struct look l = look(w, state, g, w->first.words, place, epoch_dead(epoch));
  uint64_t changed = l.changed | (epoch_read(&state->epoch) ^ epoch) | (epoch & EPOCH_GROWN);
  return __builtin_expect(changed != 0, 0) ? contains_again(w, mixed) : l.found != 0;
}

FORCE_INLINE bool contains(const struct window *w, const struct window_geometry *g, uint64_t hash,
                           bool segmented)
{
  uint64_t mixed = window_mixed(w, hash);
  struct window_place place = window_place_of(g, mixed, segmented);
  return contains_at(w, g, &place, mixed);
}

FORCE_INLINE size_t contains_many(const struct window *w, const struct window_geometry *g,
                                  const uint64_t *hashes, size_t n, bool *found, bool segmented)
{
  size_t hits = 0;
  for (size_t start = 0, length; start < n; start += length) {
    struct window_place places[FILTER_GROUP];
    uint64_t mixed[FILTER_GROUP];
    length = n - start < FILTER_GROUP ? n - start : FILTER_GROUP;
    for (size_t i = 0; i < length; i++) {
      mixed[i] = window_mixed(w, hashes[start + i]);
      places[i] = window_place_of(g, mixed[i], segmented);
      __builtin_prefetch(&w->first.words[window_word_of(g->bucket_shift, places[i].lower)]);
      __builtin_prefetch(&w->first.words[window_word_of(g->bucket_shift, places[i].upper)]);
    }
    for (size_t i = 0; i < length; i++) {
      bool in = contains_at(w, g, &places[i], mixed[i]);
      hits += in;
      if (found)
        found[start + i] = in;
    }
  }
  return hits;
}

/* ---- the calls of each shape ---- */

#ifdef TAMIS_COMPACT

static enum window_answer find_in_any(const struct window *w, const struct window_layer *layer,
                                      uint64_t mixed, unsigned dead)
{
  return find(w, layer, &layer->geometry, mixed, dead, layer->geometry.segments > 1);
}

static bool contains_of_any(const tamis_filter *f, uint64_t hash)
{
  const struct window *w = const_window_of(f);
  return contains(w, &w->first.geometry, hash, w->first.geometry.segments > 1);
}

const struct window_calls *tamis__window_calls(const struct window_geometry *g)
{
  static const struct window_calls calls = {.contains = contains_of_any, .find = find_in_any};
  (void) g;
  return &calls;
}

#else

#define SHAPED(LAYER, WIDTH, LANES) \
  shaped(&(LAYER)->geometry, WIDTH, LANES, 64 / (WIDTH) / (LANES) -1)

#define FUNCTIONS(INDEX, WIDTH, LANES, SUFFIX, SEGMENTED)                                      \
  static enum window_answer find_##INDEX##SUFFIX(                                              \
      const struct window *w, const struct window_layer *layer, uint64_t mixed, unsigned dead) \
  {                                                                                            \
    const struct window_geometry g = SHAPED(layer, WIDTH, LANES);                              \
    return find(w, layer, &g, mixed, dead, SEGMENTED);                                         \
  }                                                                                            \
  static bool contains_##INDEX##SUFFIX(const tamis_filter *f, uint64_t hash)                   \
  {                                                                                            \
    const struct window *w = const_window_of(f);                                               \
    const struct window_geometry g = SHAPED(&w->first, WIDTH, LANES);                          \
    return contains(w, &g, hash, SEGMENTED);                                                   \
  }                                                                                            \
  static size_t contains_many_##INDEX##SUFFIX(const tamis_filter *f, const uint64_t *hashes,   \
                                              size_t n, bool *found)                           \
  {                                                                                            \
    const struct window *w = const_window_of(f);                                               \
    const struct window_geometry g = SHAPED(&w->first, WIDTH, LANES);                          \
    return contains_many(w, &g, hashes, n, found, SEGMENTED);                                  \
  }

#define FUNCTIONS_OF_SHAPE(INDEX, WIDTH, LANES) \
  FUNCTIONS(INDEX, WIDTH, LANES, _whole, false) \
  FUNCTIONS(INDEX, WIDTH, LANES, _segmented, true)

#define CALLS(INDEX, SUFFIX)                                                      \
  {                                                                               \
    contains_##INDEX##SUFFIX, contains_many_##INDEX##SUFFIX, find_##INDEX##SUFFIX \
  }
#define CALLS_OF_SHAPE(INDEX, WIDTH, LANES) {CALLS(INDEX, _whole), CALLS(INDEX, _segmented)},

WINDOW_FOR_ALL_SHAPES(FUNCTIONS_OF_SHAPE)

static const struct window_calls calls[WINDOW_SHAPES][2] = {WINDOW_FOR_ALL_SHAPES(CALLS_OF_SHAPE)};

const struct window_calls *tamis__window_calls(const struct window_geometry *g)
{
  return &calls[g->shape_index][g->segments > 1];
}

#endif
