/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the layers of a sliding window.
 *
 *    first (the filter)      layer 1           layer 2
 *    C keys                  2 C               4 C, ...
 *       ▲                       ▲                 ▲
 *       └──────── older ────────┴───── older ─────┘
 *       └ oldest, in the epoch word                └ newest
 *
 * Of the layers that are searched, each has an index that no other one has, and with it a share of
 * the rate.  A new layer takes the lowest index that is free.  So when older layers have left,
 * their indices come back, and growth goes on.
 */
#include "window/layers.h"

#include "base/memory.h"
#include "window/copies.h"
#include "window/evict.h"
#include "window/lookup.h"

uint64_t tamis__window_prepare_layer(const struct window *w, struct window_layer *layer,
                                     const struct window_geometry *g, struct window_plane *planes)
{
  uint64_t words = window_words(g);
  layer->geometry = *g;
  layer->calls = tamis__window_calls(g);
  layer->block_shift = 3;
  _Static_assert(1 << 3 == WINDOW_LINE_WORDS, "no two stripes cover one line");
  while (layer->block_shift < WINDOW_MAX_BLOCK_SHIFT &&
         words >> layer->block_shift > w->stripes.mask)
    layer->block_shift++;
  tamis__window_begin_planes(layer, planes);
  return window_bytes(g);
}

struct window_layer *tamis__window_create_layer(const struct window *w,
                                                const struct window_geometry *g)
{
  const bool copies = window_counts_copies(w);
  struct window_layer *layer =
      tamis__memory_allocate(filter_allocator(&w->head), window_layer_bytes(copies));
  if (layer)
    (void) tamis__window_prepare_layer(w, layer, g,
                                       copies ? (struct window_plane *) (layer + 1) : NULL);
  return layer;
}

void tamis__window_destroy_layer(struct window *w, struct window_layer *layer)
{
  tamis__window_destroy_planes(w, layer);
  tamis__memory_release(filter_allocator(&w->head), layer->words, window_bytes(&layer->geometry));
  tamis__memory_release(filter_allocator(&w->head), layer,
                        window_layer_bytes(window_counts_copies(w)));
}

word *tamis__window_allocate_words(const tamis_allocator *from, uint64_t bytes, size_t cleared_from)
{
  const bool comes_cleared = cleared_from && bytes >= cleared_from;
  return tamis__memory_allocate_cleared(from, bytes, comes_cleared ? 0 : bytes);
}

/* The lowest index that no layer has which is searched now. */
static unsigned free_index(const struct window *w, uint64_t epoch)
{
  uint64_t used = 0;
  for (const struct window_layer *layer = window_newest(w, epoch); layer;
       layer = window_next(layer, epoch))
    used |= UINT64_C(1) << (layer->index - 1);
  return (unsigned) __builtin_ctzll(~used) + 1;
}

/* ORDER layer.opened (release)
 *   pairs with     layer.newest, which has the argument
 *   checked by     negative/window_layer_opened_relaxed */
static void link_layer(struct window *w, struct window_layer *layer)
{
  atomic_store_explicit(&w->newest, layer, memory_order_release);
}

void tamis__window_append(struct window *w, struct window_layer *layer)
{
  link_layer(w, layer);
  HOOK(window_layer_linked);
  uint64_t epoch = epoch_before(&w->epoch);
  while (!epoch_publish(&w->epoch, &epoch,
                        epoch_with_layers(epoch, epoch_oldest(epoch), layer->number, w->stamps)))
    ;
  HOOK(window_layer_published);
}

/* What the layer after `full` will be.  The caller holds `opening`. */
static int plan_locked(struct window *w, const struct window_layer *full, uint64_t epoch)
{
  struct window_next_plan *next = &w->next;
  unsigned index = free_index(w, epoch);
  if (next->number != full->number + 1 || next->index != index) {
    next->number = full->number + 1;
    next->index = index;
    next->result = next->number == WINDOW_MOST_LAYERS
                       ? TAMIS_EFULL
                       : window_geometry_plan_layer(&w->spec, index, 2 * full->geometry.capacity,
                                                    &next->geometry);
  }
  return next->result;
}

int tamis__window_open_layer(struct window *w, const struct window_layer *full)
{
  uint64_t epoch = epoch_before(&w->epoch);
  if (epoch_newest(epoch) != full->number)
    return TAMIS_OK; /* another thread has opened it */
  int result = plan_locked(w, full, epoch);
  if (result != TAMIS_OK)
    return result;
  const struct window_geometry *g = &w->next.geometry;
  uint64_t words = window_bytes(g), more = words + window_layer_bytes(window_counts_copies(w));
  uint64_t bytes = atomic_load_explicit(&w->bytes, memory_order_relaxed);
  if (w->max_bytes && (bytes > w->max_bytes || more > w->max_bytes - bytes))
    return TAMIS_EFULL;
  HOOK(window_layer_wanted);
  struct window_layer *layer = tamis__window_create_layer(w, g);
  if (layer)
    layer->words = tamis__window_allocate_words(filter_allocator(&w->head), words, w->cleared_from);
  if (!layer || !layer->words) {
    if (layer)
      tamis__window_destroy_layer(w, layer);
    return TAMIS_ENOMEM;
  }
  layer->older = (struct window_layer *) full;
  layer->number = w->next.number;
  layer->index = w->next.index;
  atomic_fetch_add_explicit(&w->bytes, more, memory_order_relaxed);
  tamis__window_append(w, layer);
  return TAMIS_OK;
}

/* The caller holds `opening`, without which nobody searches a segment for a mark.  How full a single
 * segment is, is not counted.  A search fails in one that is nearly full, unless somebody has chosen
 * keys for that. */
static int grow_locked(struct window *w, struct window_layer *full,
                       const struct window_place *place)
{
  unsigned at = window_mark_of(full, place->lower);
  fullness *mark = &full->full[at];
  uint64_t rooms = window_rooms(w, epoch_before(&w->epoch));
  if (!tamis__window_has_no_path(w, full, place)) {
    fullness_begin_search(mark);
    HOOK(window_full_search_begins);
    if (tamis__window_path_exists(w, full, place))
      return TAMIS_OK;
  }
  int result = w->spec.growable ? tamis__window_open_layer(w, full) : TAMIS_EFULL;
  if (result != TAMIS_OK) /* an allocator that refuses may have memory later */
    fullness_mark(mark, &full->vacated[at],
                  result == TAMIS_EFULL ? FULLNESS_FULL : FULLNESS_NO_PATH, rooms, FULLNESS_NEARLY);
  return result;
}

int tamis__window_grow(struct window *w, struct window_layer *full,
                       const struct window_place *place)
{
  stripe_lock(&w->opening);
  int result = grow_locked(w, full, place);
  stripe_unlock(&w->opening);
  return result;
}

void tamis__window_destroy_layers(struct window *w)
{
  struct window_layer *layer = atomic_load_explicit(&w->newest, memory_order_relaxed), *older;
  for (; layer != &w->first; layer = older) {
    older = layer->older;
    tamis__window_destroy_layer(w, layer);
  }
}
