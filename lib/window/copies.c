/* SPDX-License-Identifier: MIT */
#include "window/copies.h"

#include "base/memory.h"
#include "table/put.h"

#include <assert.h>
#include <string.h>

/* ---- where a count is ---- */

struct count_place {
  struct window_plane *plane;
  struct plane_size size;
  uint64_t word; /* index of the word in the plane */
  unsigned lane; /* lane in the word */
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

/* The number, within the plane, of the block of counts that has the word's counts. */
static unsigned block_of(const struct count_place *at)
{
  return (unsigned) (at->word / COUNTS_BUCKETS);
}

void tamis__window_begin_planes(struct window_layer *layer, struct window_plane *planes)
{
  layer->planes = planes;
  while ((window_words(&layer->geometry) - 1) >> layer->plane_shift >= WINDOW_PLANES)
    layer->plane_shift++;
  for (unsigned i = 0; planes && i < WINDOW_PLANES; i++)
    lock_init(&planes[i].lock);
}

/* ---- memory ---- */

/* The head of a piece of memory that is not in use. */
struct window_piece {
  struct window_piece *next;
  uint64_t size;
};

/* Says whether take() may succeed. counts.c calls this for a block that was refused memory, before
 * it computes what the block needs now.  Any fetched memory will do, because take() asks for
 * another size if necessary. */
static bool fits(void *context, uint64_t size)
{
  struct window_memory *m = context;
  if (!m->fetched)
    m->wanted = size;
  return m->fetched;
}

static void *take(void *context, uint64_t size)
{
  struct window_memory *m = context;
  struct window_piece **link = &m->pieces;
  while (*link && (*link)->size != size)
    link = &(*link)->next;
  struct window_piece *piece = *link;
  if (!piece) {
    m->wanted = size;
    return NULL;
  }
  *link = piece->next;
  return memset(piece, 0, (size_t) size);
}

static void keep(void *context, void *block, uint64_t size)
{
  struct window_memory *m = context;
  struct window_piece *piece = block;
  assert(size >= sizeof *piece);
  *piece = (struct window_piece){m->pieces, size};
  m->pieces = piece;
}

static struct counts_memory memory_of(struct window_memory *m)
{
  return (struct counts_memory){fits, take, keep, m};
}

static void release_pieces(struct window_memory *m)
{
  struct window *w = m->w;
  for (struct window_piece *piece = m->pieces, *next; piece; piece = next) {
    const uint64_t size = piece->size;
    next = piece->next;
    tamis__memory_release(filter_allocator(&w->head), piece, size);
    atomic_fetch_sub_explicit(&w->bytes, size, memory_order_relaxed);
    fullness_count(&w->rooms);
  }
  m->pieces = NULL;
}

int tamis__window_fetch_memory(struct window_memory *m)
{
  struct window *w = m->w;
  if (!tamis__memory_count(&w->bytes, w->max_bytes, m->wanted))
    return TAMIS_EFULL;
  HOOK(window_counts_wanted);
  void *piece = tamis__memory_allocate_dense(filter_allocator(&w->head), m->wanted);
  if (!piece) {
    atomic_fetch_sub_explicit(&w->bytes, m->wanted, memory_order_relaxed);
    return TAMIS_ENOMEM;
  }
  keep(m, piece, m->wanted);
  m->fetched = true;
  return TAMIS_OK;
}

/* Encodes the block again.  The caller holds the word's stripe. */
static void shrink_locked(struct window_memory *m, const struct window_layer *layer)
{
  struct counts_memory memory = memory_of(m);
  struct count_place at = place_of(layer, (struct window_lane){.index = m->index});
  lock_take(&at.plane->lock);
  tamis__plane_shrink(&at.plane->counts, &memory, block_of(&at));
  lock_release(&at.plane->lock);
}

/* Encodes a block of counts in less memory.  Without memory for that, the block stays as it is.  If
 * its layer has left, it has no counts.  If the layer is found, it stays in the list while the
 * stripe is held: [L] in table.h. */
static void shrink(struct window_memory *m)
{
  m->wanted = m->shrunk;
  if (tamis__window_fetch_memory(m) != TAMIS_OK)
    return;
  window_lock(m->w, m->stripe);
  const struct window_layer *layer = window_find_layer(m->w, m->number);
  if (layer)
    shrink_locked(m, layer);
  window_unlock(m->w, m->stripe);
}

void tamis__window_release_memory(struct window_memory *m)
{
  if (m->shrunk)
    shrink(m);
  m->shrunk = 0;
  release_pieces(m);
}

void tamis__window_destroy_planes(struct window *w, struct window_layer *layer)
{
  struct window_memory m;
  window_memory_begin(&m, w);
  struct counts_memory memory = memory_of(&m);
  for (unsigned i = 0; layer->planes && i < WINDOW_PLANES; i++) {
    tamis__plane_clear(&layer->planes[i].counts, &memory);
    lock_destroy(&layer->planes[i].lock);
  }
  release_pieces(&m);
}

/* ---- counts ---- */

uint64_t tamis__window_further(const struct window_layer *layer, struct window_lane lane)
{
  struct count_place at = place_of(layer, lane);
  /* The caller holds the stripe, as plane_counts() requires. */
  if (!plane_counts(&at.plane->counts))
    return 0;
  lock_take(&at.plane->lock);
  uint64_t further = plane_get(&at.plane->counts, at.word, at.lane);
  lock_release(&at.plane->lock);
  return further;
}

static struct window_stripe *
stripe_of_lane(const struct window *w, const struct window_layer *layer, struct window_lane lane)
{
  return window_stripe_of_block(w, lane.index >> layer->block_shift);
}

/* Sets a count.  The caller holds the plane's lock and the word's stripe. */
static int set_locked(struct window_memory *m, const struct window_layer *layer,
                      struct window_lane lane, const struct count_place *at, uint64_t further)
{
  struct counts_memory memory = memory_of(m);
  if (further >= saved_most_copies)
    return TAMIS_EFULL;
  m->wanted = 0;
  if (!tamis__plane_set(&at->plane->counts, at->size, &memory, at->word, at->lane, further))
    return NO_MEMORY;
  if (m->wanted) {
    m->shrunk = m->wanted;
    m->number = window_number(layer);
    m->index = lane.index;
    m->stripe = stripe_of_lane(m->w, layer, lane);
  }
  return TAMIS_OK;
}

int tamis__window_set_further(struct window_memory *m, const struct window_layer *layer,
                              struct window_lane lane, uint64_t further)
{
  struct count_place at = place_of(layer, lane);
  lock_take(&at.plane->lock);
  uint64_t old = plane_get(&at.plane->counts, at.word, at.lane);
  int result = set_locked(m, layer, lane, &at, further);
  lock_release(&at.plane->lock);
  if (result == TAMIS_OK)
    window_count_copies(stripe_of_lane(m->w, layer, lane), further - old);
  return result;
}

int tamis__window_add_further(struct window_memory *m, const struct window_layer *layer,
                              struct window_lane lane, uint64_t more)
{
  struct count_place at = place_of(layer, lane);
  int result = TAMIS_OK;
  lock_take(&at.plane->lock);
  if (!plane_step(&at.plane->counts, at.word, at.lane, more))
    result = set_locked(m, layer, lane, &at, plane_get(&at.plane->counts, at.word, at.lane) + more);
  lock_release(&at.plane->lock);
  if (result == TAMIS_OK)
    window_count_copies(stripe_of_lane(m->w, layer, lane), more);
  return result;
}

/* ---- all counts of a layer ---- */

struct given {
  struct window_memory *memory;
  const struct window_layer *layer;
};

static int give_counts(void *context, uint64_t first, uint64_t counts[COUNTS_POSITIONS])
{
  const struct given *to = context;
  const struct window_layer *layer = to->layer;
  const struct lane_shape *s = &layer->geometry.whole.lane;
  const struct count_place at = place_of(layer, (struct window_lane){first / s->lanes, 0});
  struct counts_memory memory = memory_of(to->memory);
  for (unsigned i = 0; i < COUNTS_POSITIONS; i++) {
    if (!counts[i])
      continue;
    const struct window_lane lane = {(first + i) / s->lanes, (unsigned) ((first + i) % s->lanes)};
    struct window_stripe *stripe = stripe_of_lane(to->memory->w, layer, lane);
    if (!lane_get(s, word_load(&layer->words[lane.index]), lane.lane))
      counts[i] = 0;
    window_lock(to->memory->w, stripe);
    window_count_copies(stripe, counts[i]);
    window_unlock(to->memory->w, stripe);
  }
  const struct counts_source from = counts_of_array(counts);
  int result = TAMIS_OK;
  while (result == TAMIS_OK &&
         !tamis__plane_write(&at.plane->counts, at.size, &memory, block_of(&at), &from, false))
    result = tamis__window_fetch_memory(to->memory);
  return result;
}

int tamis__window_give_counts(struct window_memory *m, const struct window_layer *layer,
                              const struct lane_counts *counts)
{
  const uint64_t in_plane = UINT64_C(1) << layer->plane_shift;
  const unsigned words = in_plane < COUNTS_BUCKETS ? (unsigned) in_plane : COUNTS_BUCKETS;
  struct given given = {m, layer};
  return tamis__image_give(lane_counts_read(counts, 0, 0), words * layer->geometry.whole.lane.lanes,
                           give_counts, &given);
}
