/* SPDX-License-Identifier: MIT
 *
 * Layer 2: marks of full segments in a window, and a count of events that make room in it.
 */
#ifndef TAMIS_LIB_WINDOW_ROOMS_H
#define TAMIS_LIB_WINDOW_ROOMS_H

#include "window/table.h"

static inline unsigned window_mark_of(const struct window_layer *layer, uint64_t bucket)
{
  const struct window_geometry *g = &layer->geometry;
  return g->segments > 1 ? bucket / window_segment_buckets(g) % WINDOW_MARKS : 0;
}

/* Must be called after an entry has left `bucket`.  Removes a full mark that may be wrong now. */
static inline void window_has_room(struct window_layer *layer, uint64_t bucket)
{
  unsigned mark = window_mark_of(layer, bucket);
  if (__builtin_expect(fullness_state(&layer->full[mark]) != 0, 0))
    fullness_has_room(&layer->full[mark], &layer->vacated[mark],
                      (layer->geometry.segments / WINDOW_MARKS + 1) *
                          window_segment_buckets(&layer->geometry));
}

/* Counts a lane that has been cleared in a counted table.  The caller must hold the stripe.
 * ORDER stripe.vacated (release)
 *   pairs with     stripe.vacated_by_all
 *   makes visible  that the lane is free
 *   if weakened    a search for room might read the new count and not see the free lane.  It would
 *                  set a full mark with this count, and the mark would stay although there is room
 *   checked by     mutants/vacated_lanes_are_not_counted */
static inline void window_vacate(struct window_stripe *stripe)
{
  uint64_t vacated = atomic_load_explicit(&stripe->vacated, memory_order_relaxed);
  atomic_store_explicit(&stripe->vacated, vacated + 1, memory_order_release);
}

/* A number that grows by one whenever the removes of all processes have cleared enough lanes to
 * make another search for room worth while (fullness_has_room()).
 * ORDER stripe.vacated_by_all (acquire)
 *   pairs with     stripe.vacated, whose comment says why */
static inline uint64_t window_vacated(const struct window *w)
{
  const struct window_geometry *g = &w->first.geometry;
  const uint64_t enough = g->segments * window_segment_buckets(g) / FULLNESS_SEARCH;
  uint64_t sum = 0;
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    sum += atomic_load_explicit(&w->stripes.all[i].vacated, memory_order_acquire);
  return enough > 1 ? sum / enough : sum;
}

/* How many events, such as ends of periods, have made room: each makes full marks invalid. */
static inline uint64_t window_rooms(const struct window *w, uint64_t epoch)
{
  const uint64_t rooms = epoch_period(epoch) + fullness_counted(&w->rooms);
  return window_is_counted(w) ? rooms + window_vacated(w) : rooms;
}

/* Whether a full mark says that the segment of `bucket` has no room.  Calls window_rooms() last, as
 * this call takes long in a counted table. */
static inline bool window_is_full(const struct window *w, const struct window_layer *layer,
                                  uint64_t bucket, uint64_t epoch)
{
  const fullness *full = &layer->full[window_mark_of(layer, bucket)];
  return fullness_has_no_path(full) && fullness_is(full, FULLNESS_FULL, window_rooms(w, epoch));
}

#endif
