/* SPDX-License-Identifier: MIT
 *
 * Layer 2: makes room in a full bucket pair of a window (table/search.h), and freezes segments.
 */
#include "window/evict.h"

#include "table/put.h"
#include "table/search.h"
#include "window/counted.h"
#include "window/layers.h"
#include "window/operations.h"
#include "window/pair.h"
#include "window/rooms.h"

/* ---- search of a path ---- */

/* The segment that a search reads.  The search numbers the segment's buckets from 0 on. */
struct searched_segment {
  struct searched searched;
  const struct window_layer *layer;
  uint64_t first;
  unsigned dead;
};

FORCE_INLINE uint64_t load_bucket(const struct searched *t, uint64_t bucket)
{
  const struct searched_segment *s = (const struct searched_segment *) t;
  return window_load(s->layer, s->first + bucket);
}

FORCE_INLINE uint64_t empty_lanes(const struct searched *t, uint64_t value)
{
  const struct searched_segment *s = (const struct searched_segment *) t;
  return window_free(&s->layer->geometry.shape, value, s->dead);
}

FORCE_INLINE uint64_t other(const struct searched *t, uint64_t bucket, uint64_t entry)
{
  const struct searched_segment *s = (const struct searched_segment *) t;
  return window_other_in_segment(&s->layer->geometry, bucket, entry);
}

static uint64_t first_of_segment(const struct window_layer *layer, uint64_t bucket)
{
  return bucket - bucket % window_segment_buckets(&layer->geometry);
}

static bool plan_path(const struct window_layer *layer, const struct window_buckets *place,
                      unsigned dead, struct cuckoo_path *path)
{
  static const struct search_kind segments = {load_bucket, empty_lanes, other};
  const struct window_geometry *g = &layer->geometry;
  const struct searched_segment s = {.searched = {.shape = &g->shape.lane,
                                                  .buckets = window_segment_buckets(g),
                                                  .most_buckets = SEARCH_MOST_BUCKETS,
                                                  .thorough = true},
                                     .layer = layer,
                                     .first = first_of_segment(layer, place->lower),
                                     .dead = dead};
  return search_plan(&segments, &s.searched, place->lower - s.first, place->upper - s.first, path);
}

/* ---- moves along the path ---- */

/* A segment's name: its number, and its layer's index, which is not 0 (names: [N] in table.h). */
static uint64_t segment_name(const struct window_layer *layer, uint64_t segment)
{
  return segment << 8 | layer->index;
}

/* The caller must hold a stripe of the segment.  The load is relaxed, because a thread that freezes
 * the segment names it in `frozen` before it takes all stripes of the segment. */
static bool is_frozen_locked(const struct window *w, const struct window_layer *layer,
                             uint64_t bucket)
{
  uint64_t name = atomic_load_explicit(&w->state->frozen, memory_order_relaxed);
  return name && name == segment_name(layer, bucket / window_segment_buckets(&layer->geometry));
}

/* Moves the count of an entry to the free lane `new`, which has a dead entry if `taken`.  The
 * caller must hold the stripes of both buckets. */
static int move_further_locked(struct window *w, const struct window_layer *layer,
                               struct window_lane old, struct window_lane new, bool taken)
{
  const uint64_t further = window_further(layer, old);
  if (taken)
    window_forget_further(w, layer, new);
  if (!further)
    return TAMIS_OK;
  int result = tamis__window_add_further(w, layer, new, further);
  if (result == TAMIS_OK)
    window_forget_further(w, layer, old);
  return result;
}

/* Counts a moved entry, and its further copies, in the target's stripe instead of the source's.
 * `taken`: the target lane had a dead entry, so it is counted already. */
static void count_move_locked(struct window *w, const struct window_layer *layer, uint64_t source,
                              uint64_t target, uint64_t entry, bool taken)
{
  struct window_stripe *from = window_stripe(w, layer, source),
                       *to = window_stripe(w, layer, target);
  window_use(from, -1);
  if (!taken)
    window_use(to, 1);
  if (window_is_counted(w)) {
    const uint64_t further = counted_further(&layer->geometry.shape, entry);
    window_count_copies(from, -further);
    window_count_copies(to, further);
  }
}

struct path_of_layer {
  struct window_layer *layer;
  uint64_t first; /* first bucket of the segment in which the moves are made */
  uint64_t epoch; /* the epoch word that named `layer` */
  struct cuckoo_path path;
};

/* Makes a move.  Returns TAMIS_OK also if the source lane is free already, and TAMIS_ABSENT if the
 * move has become impossible.  The caller must hold the stripes of both buckets.
 *
 * The lane must still have the fingerprint that the search has read, which determines the target.
 * The move writes the lane's present entry, because an add may have renewed the stamp since the
 * search.  If the entry is dead, or a jump drops it, only clears the lane: [T] in table.h. */
static int move_locked(struct window *w, const struct path_of_layer *of,
                       const struct cuckoo_move *move)
{
  struct window_layer *layer = of->layer;
  const uint64_t epoch = epoch_read(&w->state->epoch);
  if (!epoch_has_same_layers(of->epoch, epoch))
    return TAMIS_ABSENT; /* the layer may have left the list */
  const uint64_t source = of->first + move->from, target = of->first + move->to;
  const struct window_shape *s = &layer->geometry.shape;
  uint64_t from_value = window_load(layer, source), to_value = window_load(layer, target);
  uint64_t entry = lane_get(&s->lane, from_value, move->lane);
  uint64_t room = window_free(s, to_value, epoch_dead(epoch));
  if (is_frozen_locked(w, layer, source))
    return FROZEN;
  if (!entry) /* another thread has freed the lane */
    return TAMIS_OK;
  if (epoch_age(epoch, window_stamp_of(s, entry), w->stamps) > window_oldest_age(w, epoch)) {
    window_forget_further(w, layer, window_lane(layer, source, move->lane));
    window_store(layer, source, move->lane, 0);
    window_use(window_stripe(w, layer, source), -1);
    return TAMIS_OK;
  }
  if (window_fingerprint_of(s, entry) != window_fingerprint_of(s, move->entry) || !room)
    return TAMIS_ABSENT;
  unsigned lane = lanes_first(&s->lane, room);
  const bool taken = lane_get(&s->lane, to_value, lane);
  int result = move_further_locked(w, layer, window_lane(layer, source, move->lane),
                                   window_lane(layer, target, lane), taken);
  if (result != TAMIS_OK)
    return result;
  window_store(layer, target, lane, entry);
  HOOK(window_entry_copied);
  window_version_bump(window_version(w, entry << (64 - s->lane.width) & layer->geometry.top));
  HOOK(window_version_bumped);
  window_store(layer, source, move->lane, 0);
  fullness_reset(&layer->full[window_mark_of(layer, source)]);
  count_move_locked(w, layer, source, target, entry, taken);
  return TAMIS_OK;
}

/* Whether the layers are still those that `epoch` names, as readers must check: [L] in table.h. */
static bool has_layers_of(const struct window *w, uint64_t epoch)
{
  return epoch_has_same_layers(epoch, epoch_read(&w->state->epoch));
}

static int execute(struct window *w, const struct path_of_layer *of, const struct cuckoo_move *move)
{
  struct window_stripe *stripe[2];
  unsigned n = 0;
  struct window_reader reader = window_enter(of->epoch);
  if (has_layers_of(w, of->epoch))
    n = sort_stripes(stripe, window_stripe(w, of->layer, of->first + move->from),
                     window_stripe(w, of->layer, of->first + move->to));
  window_leave(reader);
  if (!n)
    return TAMIS_ABSENT;
  HOOK(window_move_wanted);
  lock_stripes(w, stripe, n);
  int result = move_locked(w, of, move);
  unlock_stripes(w, stripe, n);
  return result;
}

/* Whether a mark says that no moves make room.  Needs a read section or the lock `opening`. */
static bool has_no_path(const struct window *w, const struct window_layer *layer,
                        const struct window_buckets *place)
{
  const fullness *full = &layer->full[window_mark_of(layer, place->lower)];
  if (!fullness_has_no_path(full))
    return false;
  uint64_t rooms = window_rooms(w, epoch_read(&w->state->epoch));
  return fullness_is(full, FULLNESS_FULL, rooms) || fullness_is(full, FULLNESS_NO_PATH, rooms);
}

bool tamis__window_path_exists(const struct window *w, const struct window_layer *layer,
                               const struct window_buckets *place)
{
  struct cuckoo_path path;
  return plan_path(layer, place, epoch_dead(epoch_read(&w->state->epoch)), &path);
}

/* Plans a path.  Returns TAMIS_OK if there is a path, which may have no moves.  The caller must be
 * in a read section, and have found in it that the layers are those of of->epoch. */
static int plan_in_section(struct window *w, struct path_of_layer *of,
                           const struct window_buckets *place, bool thorough)
{
  of->first = first_of_segment(of->layer, place->lower);
  if (!thorough && has_no_path(w, of->layer, place))
    return TAMIS_ABSENT;
  if (plan_path(of->layer, place, epoch_dead(epoch_read(&w->state->epoch)), &of->path)) {
    fullness_found_room(&of->layer->full[window_mark_of(of->layer, place->lower)]);
    return TAMIS_OK;
  }
  tamis__counter_note(&w->counters, WINDOW_FAILED_SEARCHES);
  return TAMIS_ABSENT;
}

/* Waits until no segment is frozen.  A thread freezes a segment only while it holds `saving`.  So a
 * name that is in `frozen` when this thread gets the lock was left by a killed process. */
static void wait_for_thaw(struct window *w)
{
  (void) owned_lock(&w->state->saving, &w->owner);
  atomic_store_explicit(&w->state->frozen, 0, memory_order_relaxed);
  owned_unlock(&w->state->saving, &w->owner);
}

int tamis__window_evict(struct window *w, struct window_layer *layer,
                        const struct window_buckets *place, uint64_t epoch, bool thorough)
{
  struct path_of_layer of = {.layer = layer, .epoch = epoch};
  HOOK(window_room_wanted);
  struct window_reader reader = window_enter(epoch);
  int result = has_layers_of(w, epoch) ? plan_in_section(w, &of, place, thorough) : TAMIS_OK;
  window_leave(reader);
  if (result != TAMIS_OK)
    return result;
  HOOK(window_path_planned);
  for (unsigned i = 0; i < of.path.moves && result == TAMIS_OK; i++)
    result = execute(w, &of, &of.path.move[i]);
  if (of.path.moves && result >= 0)
    tamis__counter_note(&w->counters, WINDOW_EVICTIONS);
  if (result == FROZEN)
    wait_for_thaw(w);
  return result < 0 ? result : TAMIS_OK;
}

/* Finds room in a segment, or opens a layer, or sets the segment's full mark.  The caller must hold
 * `opening`.  As no call counts a segment's lanes in use, the function assumes that a segment
 * without room is nearly full, which is true unless keys were chosen to collide. */
static int grow_locked(struct window *w, struct window_layer *full,
                       const struct window_buckets *place)
{
  unsigned at = window_mark_of(full, place->lower);
  fullness *mark = &full->full[at];
  uint64_t rooms = window_rooms(w, epoch_read(&w->state->epoch));
  if (!has_no_path(w, full, place)) {
    fullness_begin_search(mark);
    HOOK(window_full_search_begins);
    if (tamis__window_path_exists(w, full, place))
      return TAMIS_OK;
  }
  int result = w->spec.growable ? tamis__window_open_layer(w, full) : TAMIS_EFULL;
  if (result != TAMIS_OK) /* TAMIS_ENOMEM does not set FULL, as memory may become free */
    fullness_mark(mark, &full->vacated[at],
                  result == TAMIS_EFULL ? FULLNESS_FULL : FULLNESS_NO_PATH, rooms, FULLNESS_NEARLY);
  return result;
}

int tamis__window_grow(struct window *w, struct window_layer *full,
                       const struct window_buckets *place, uint64_t epoch)
{
  lock_take(&w->opening);
  bool same = epoch_has_same_layers(epoch, epoch_read(&w->state->epoch));
  int result = same ? grow_locked(w, full, place) : TAMIS_OK;
  lock_release(&w->opening);
  return result;
}

/* ---- frozen segments ---- */

uint64_t tamis__window_freeze(struct window *w, uint64_t number, uint64_t segment,
                              const struct window_layer **found)
{
  tamis__window_lock_advancing(w);
  (void) owned_lock(&w->state->saving, &w->owner);
  const struct window_layer *layer = *found = window_find_layer(w, number);
  if (!layer)
    return epoch_read(&w->state->epoch);
  uint64_t words = window_segment_words(&layer->geometry), begin = segment * words;
  atomic_store_explicit(&w->state->frozen, segment_name(layer, segment), memory_order_relaxed);
  HOOK(window_freezing);
  uint64_t first = begin >> layer->block_shift, last = (begin + words - 1) >> layer->block_shift;
  for (uint64_t block = first; block <= last && block - first <= w->stripes.mask; block++) {
    window_lock(w, window_stripe_of_block(w, block));
    window_unlock(w, window_stripe_of_block(w, block));
  }
  return epoch_read(&w->state->epoch);
}

void tamis__window_thaw(struct window *w)
{
  atomic_store_explicit(&w->state->frozen, 0, memory_order_relaxed);
  owned_unlock(&w->state->saving, &w->owner);
  owned_unlock(&w->state->advancing, &w->owner);
}
