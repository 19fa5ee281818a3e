/* SPDX-License-Identifier: MIT */
#include "window/copies.h"

#include "base/memory.h"

struct count_place {
  struct window_plane *plane;
  struct plane_size size;
  uint64_t word; /* the word's index in the plane */
  unsigned lane;
};

static struct count_place place_of(const struct window_layer *layer, struct window_lane at)
{
  const struct window_geometry *g = &layer->geometry;
  const uint64_t most = UINT64_C(1) << layer->plane_shift, in_plane = at.index & (most - 1),
                 left = window_words(g) - (at.index - in_plane);
  return (struct count_place){.plane = window_plane_of(layer, at.index),
                              .size = {left < most ? left : most, g->whole.lane.lanes},
                              .word = in_plane,
                              .lane = at.lane};
}

void tamis__window_begin_planes(struct window_layer *layer, struct window_plane *planes)
{
  layer->planes = planes;
  while ((window_words(&layer->geometry) - 1) >> layer->plane_shift >= WINDOW_PLANES)
    layer->plane_shift++;
  for (unsigned i = 0; planes && i < WINDOW_PLANES; i++)
    lock_init(&planes[i].lock);
}

/* Memory of counts is allocated under stripes, so without draining the backlog. */
static struct budget budget_of(struct window *w)
{
  return (struct budget){.from = filter_allocator(&w->head),
                         .bytes = &w->bytes,
                         .limit = w->max_bytes,
                         .dense = true,
                         .rooms = &w->rooms,
                         .result = TAMIS_EFULL};
}

void tamis__window_destroy_planes(struct window *w, struct window_layer *layer)
{
  struct budget budget = budget_of(w);
  for (unsigned i = 0; layer->planes && i < WINDOW_PLANES; i++) {
    tamis__plane_clear(&layer->planes[i].counts, &budget);
    lock_destroy(&layer->planes[i].lock);
  }
}

uint64_t tamis__window_further(const struct window_layer *layer, struct window_lane lane)
{
  struct count_place at = place_of(layer, lane);
  lock_take(&at.plane->lock);
  uint64_t further = plane_get(&at.plane->counts, at.word, at.lane);
  lock_release(&at.plane->lock);
  return further;
}

int tamis__window_add_further(struct window *w, const struct window_layer *layer,
                              struct window_lane lane, uint64_t more)
{
  struct count_place at = place_of(layer, lane);
  int result = TAMIS_OK;
  lock_take(&at.plane->lock);
  if (!tamis__plane_step(&at.plane->counts, at.word, at.lane, more)) {
    struct budget budget = budget_of(w);
    const uint64_t sum = plane_get(&at.plane->counts, at.word, at.lane) + more;
    if (sum >= saved_most_copies ||
        !tamis__plane_set(&at.plane->counts, at.size, &budget, at.word, at.lane, sum))
      result = budget.result;
  }
  lock_release(&at.plane->lock);
  if (result == TAMIS_OK)
    window_count_copies(window_stripe_of_block(w, lane.index >> layer->block_shift), more);
  return result;
}

void tamis__window_set_no_further(struct window *w, const struct window_layer *layer,
                                  struct window_lane lane)
{
  struct count_place at = place_of(layer, lane);
  struct budget budget = budget_of(w);
  lock_take(&at.plane->lock);
  const uint64_t further = plane_get(&at.plane->counts, at.word, at.lane);
  (void) tamis__plane_set(&at.plane->counts, at.size, &budget, at.word, at.lane, 0);
  lock_release(&at.plane->lock);
  window_count_copies(window_stripe_of_block(w, lane.index >> layer->block_shift), -further);
}

/* Sets the counts of empty lanes to 0, and adds the others to the copies of their stripes. */
static void count_in_stripes(struct window *w, const struct window_layer *layer, uint64_t first,
                             uint64_t counts[COUNTS_POSITIONS])
{
  const struct lane_shape *s = &layer->geometry.whole.lane;
  for (unsigned i = 0; i < COUNTS_POSITIONS; i++) {
    if (!counts[i])
      continue;
    const struct window_lane lane = {(first + i) / s->lanes, (unsigned) ((first + i) % s->lanes)};
    struct window_stripe *stripe = window_stripe_of_block(w, lane.index >> layer->block_shift);
    if (!lane_get(s, word_load(&layer->words[lane.index]), lane.lane))
      counts[i] = 0;
    window_count_copies(stripe, counts[i]);
  }
}

int tamis__window_give_counts(struct window *w, const struct window_layer *layer,
                              const struct lane_counts *counts)
{
  const uint64_t in_plane = UINT64_C(1) << layer->plane_shift;
  const unsigned words = in_plane < COUNTS_BUCKETS ? (unsigned) in_plane : COUNTS_BUCKETS,
                 lanes = layer->geometry.whole.lane.lanes;
  struct budget budget = budget_of(w);
  struct lane_counts_reader r = lane_counts_read(counts, 0, 0);
  uint64_t first, all[COUNTS_POSITIONS];
  const struct counts_source from = {.array = all};
  while (tamis__image_next(&r, words * lanes, &first, all)) {
    const struct count_place at = place_of(layer, (struct window_lane){first / lanes, 0});
    count_in_stripes(w, layer, first, all);
    if (!tamis__plane_write(&at.plane->counts, at.size, &budget,
                            (unsigned) (at.word / COUNTS_BUCKETS), &from, false))
      return budget.result;
  }
  return TAMIS_OK;
}
