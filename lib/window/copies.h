/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the counts of copies in a window of the cuckoo kind.
 *
 * An entry itself is one copy of its key.  A plane (table/counts.h) counts further copies.
 *
 * A count belongs to the entry in its lane, live or dead; an empty lane has no count.  A move takes
 * the count along with the entry.  The count is set to 0 when an add puts another entry into a dead
 * lane, or a sweep clears the lane.  A remove clears a lane only if the count is 0.
 *
 * A thread that reads or changes the count of a lane holds the stripe of the lane's bucket.  The
 * thread also takes the plane's lock, because a block of counts serves lanes of several stripes.
 * It holds both locks while it allocates or releases the memory of a count.
 */
#ifndef TAMIS_LIB_WINDOW_COPIES_H
#define TAMIS_LIB_WINDOW_COPIES_H

#include "table/image.h"
#include "window/table.h"

struct window_lane {
  uint64_t index; /* the word's index in the layer */
  unsigned lane;
};

static inline struct window_lane window_lane(const struct window_layer *layer, uint64_t bucket,
                                             unsigned lane)
{
  const struct window_geometry *g = &layer->geometry;
  uint64_t index = window_word_of(g->bucket_shift, bucket);
  unsigned before = (unsigned) (bucket - (index << g->bucket_shift)) * g->shape.lane.lanes;
  return (struct window_lane){index, before + lane};
}

static inline struct window_plane *window_plane_of(const struct window_layer *layer, uint64_t index)
{
  return &layer->planes[index >> layer->plane_shift];
}

/* Whether lanes of a word may have counts.  The caller must hold the word's stripe. */
static inline bool window_has_counts(const struct window_layer *layer, uint64_t index)
{
  return layer->planes && plane_counts(&window_plane_of(layer, index)->counts);
}

/* Prepares the planes of a layer in zeroed memory.  `planes` is NULL if the layer has no planes. */
void tamis__window_begin_planes(struct window_layer *layer, struct window_plane *planes);

/* ---- calls by a holder of the stripe of the lane's word ---- */

/* The number of further copies of the entry in a lane that may have a count. */
uint64_t tamis__window_further(const struct window_layer *layer, struct window_lane lane);

/* The number of further copies of the entry in a lane, in a window of any kind. */
static inline uint64_t window_further(const struct window_layer *layer, struct window_lane lane)
{
  return window_has_counts(layer, lane.index) ? tamis__window_further(layer, lane) : 0;
}

/* Adds `more`, modulo 2^64, to the number of further copies of an entry.  If the number falls, no
 * memory is needed.  A refused increase changes nothing.
 *   Errors  TAMIS_EFULL: saved_most_copies or max_bytes is reached; TAMIS_ENOMEM */
int tamis__window_add_further(struct window *w, const struct window_layer *layer,
                              struct window_lane lane, uint64_t more);

/* Sets the count of a lane to 0, because its entry is forgotten or leaves the lane. */
void tamis__window_set_no_further(struct window *w, const struct window_layer *layer,
                                  struct window_lane lane);

static inline void window_forget_further(struct window *w, const struct window_layer *layer,
                                         struct window_lane lane)
{
  if (__builtin_expect(window_has_counts(layer, lane.index), 0))
    tamis__window_set_no_further(w, layer, lane);
}

/* Sets the counts of the lanes of a layer, except empty lanes.  The layer must have no counts yet,
 * and no other thread may use it.
 *   Errors  those of tamis__window_add_further() */
int tamis__window_give_counts(struct window *w, const struct window_layer *layer,
                              const struct lane_counts *counts);

void tamis__window_destroy_planes(struct window *w, struct window_layer *layer);

#endif
