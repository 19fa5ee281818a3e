/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the layers of a sliding window.
 *
 *    first (the filter)      layer 1           layer 2
 *    C keys                  2 C               4 C, ...
 *       ▲                       ▲                 ▲
 *       └──────── older ────────┴───── older ─────┘
 *                                                 └ newest
 *
 * Each layer in the list has a different index, which determines its share of the rate.  A new
 * layer takes the lowest free index.  When a layer leaves, its index is free again.
 *
 * After a burst of adds the newest layer may be *sparse*: its capacity is at least SPARSE times the
 * number of present keys.  If the layer is sparse at the ends of two periods, tamis_advance() opens
 * a smaller layer: the first layer again, if it has left and is large enough, and otherwise a new
 * layer.  (One period is not enough: keys may be removed at any time, so a filter that is empty at
 * the end of a period might have been full during it.)  The large layer gets no more keys.  When
 * its last keys have been forgotten, it leaves, and its memory is released.
 *
 * [S] A second burst finds as much room as the first, even while the large layer is in the list.
 *     For this, a smaller layer is opened only if it leaves an index, and room within max_bytes,
 *     for another layer as large as the largest.  After a full layer comes one of twice its size if
 *     that is at least the largest size or leaves such room, otherwise one of the largest size.
 *
 * Layers do not accumulate even if their keys stay, because a smaller layer is opened only if no
 * older layer is more than half as large as the sparse layer.
 */
#include "window/layers.h"

#include "base/memory.h"
#include "window/copies.h"
#include "window/operations.h"

#include <assert.h>

void tamis__window_prepare_layer(const struct window *w, struct window_layer *layer,
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
}

word *tamis__window_allocate_words(const tamis_allocator *from, uint64_t bytes,
                                   uint64_t cleared_from)
{
  const bool comes_cleared = cleared_from && bytes >= cleared_from;
  return tamis__memory_allocate_cleared(from, bytes, comes_cleared ? 0 : bytes);
}

/* ---- the list: it changes, and NAME_locked() is called, only under `opening` ---- */

static struct window_layer *newest_locked(const struct window *w)
{
  assert(lock_is_held((struct lock *) &w->opening));
  return window_layer_at(&w->newest);
}

static uint64_t indices_locked(const struct window *w)
{
  uint64_t used = 0;
  for (struct window_layer *layer = newest_locked(w); layer; layer = window_layer_at(&layer->older))
    used |= UINT64_C(1) << (layer->index - 1);
  return used;
}

static unsigned free_index(uint64_t indices)
{
  return (unsigned) __builtin_ctzll(~indices) + 1;
}

/* ORDER layer.opened (release)
 *   pairs with     layer.newest, whose comment says why
 *   checked by     mutants/window_layer_opened_relaxed */
static void link_layer(struct window_layer *_Atomic *link, struct window_layer *layer)
{
  atomic_store_explicit(link, layer, memory_order_release);
}

static void publish_list(struct window *w)
{
  bool grown = window_layer_at(&w->newest) != &w->first || window_layer_at(&w->first.older);
  uint64_t epoch = epoch_read(&w->state->epoch);
  w->changes++;
  while (!epoch_publish(&w->state->epoch, &epoch,
                        epoch_with_layers(epoch, w->changes, grown, w->stamps)))
    ;
}

static void append(struct window *w, struct window_layer *layer)
{
  struct window_layer *older = window_layer_at(&w->newest);
  atomic_fetch_add_explicit(&w->growths, 1, memory_order_relaxed);
  atomic_store_explicit(&layer->number, w->changes + 1, memory_order_relaxed);
  link_layer(&layer->older, older);
  link_layer(&w->newest, layer);
  HOOK(window_layer_linked);
  publish_list(w);
  HOOK(window_layer_published);
}

static void unlink_locked(struct window *w, const struct window_layer *layer)
{
  struct window_layer *_Atomic *link = &w->newest;
  while (window_layer_at(link) != layer)
    link = &window_layer_at(link)->older;
  link_layer(link, window_layer_at(&layer->older));
  publish_list(w);
  fullness_count(&w->rooms);
}

/* ---- memory of layers ---- */

static struct window_later_layer *later_of(struct window_layer *layer)
{
  return (struct window_later_layer *) (void *) ((char *) layer -
                                                 offsetof(struct window_later_layer, layer));
}

static void release_layer(struct window *w, struct window_layer *layer)
{
  const tamis_allocator *from = filter_allocator(&w->head);
  const uint64_t bytes = window_layer_takes(w, &layer->geometry);
  tamis__window_destroy_planes(w, layer); /* no call reads the counts any more */
  tamis__memory_release(from, layer->words, window_bytes(&layer->geometry));
  tamis__memory_release(from, later_of(layer), window_layer_bytes(window_counts_copies(w)));
  atomic_fetch_sub_explicit(&w->bytes, bytes, memory_order_relaxed);
}

void tamis__window_reclaim(void *owner, struct retired *block, uint64_t size)
{
  struct window *w = owner;
  (void) size;
  HOOK(window_layer_released);
  release_layer(w, &((struct window_later_layer *) (void *) block)->layer);
  fullness_count(&w->rooms);
}

int tamis__window_add_layer(struct window *w, const struct window_geometry *g, unsigned index,
                            word *words)
{
  const bool copies = window_counts_copies(w);
  const tamis_allocator *from = filter_allocator(&w->head);
  const uint64_t bytes = window_layer_takes(w, g);
  if (!tamis__memory_count(&w->bytes, w->max_bytes, bytes))
    return TAMIS_EFULL;
  HOOK(window_layer_wanted);
  struct window_later_layer *later = tamis__memory_allocate(from, window_layer_bytes(copies));
  if (later && !words)
    words = tamis__window_allocate_words(from, window_bytes(g), w->cleared_from);
  if (!later || !words) {
    tamis__memory_release(from, later, window_layer_bytes(copies));
    atomic_fetch_sub_explicit(&w->bytes, bytes, memory_order_relaxed);
    return TAMIS_ENOMEM;
  }
  tamis__window_prepare_layer(w, &later->layer, g,
                              copies ? (struct window_plane *) (later + 1) : NULL);
  later->layer.words = words;
  later->layer.index = index;
  append(w, &later->layer);
  return TAMIS_OK;
}

/* Plans a layer with the lowest index that is not in *indices, and adds the index to this set. */
static int plan_locked(const struct window *w, uint64_t *indices, uint64_t keys,
                       struct window_geometry *g)
{
  unsigned index = free_index(*indices);
  *indices |= UINT64_C(1) << (index - 1);
  return index >= WINDOW_MOST_LAYERS - 1 ? TAMIS_EFULL
                                         : window_geometry_plan_layer(&w->spec, index, keys, g);
}

static uint64_t largest_capacity_locked(const struct window *w)
{
  uint64_t largest = 0;
  for (struct window_layer *layer = newest_locked(w); layer; layer = window_layer_at(&layer->older))
    if (layer->geometry.capacity > largest)
      largest = layer->geometry.capacity;
  return largest;
}

/* Whether a layer as large as the largest could still be opened when `more` further bytes and all
 * of `indices` are in use ([S] above).  Retired memory counts as free. */
static bool leaves_room_locked(const struct window *w, uint64_t more, uint64_t indices)
{
  struct window_geometry g;
  /* relaxed: a statistic. */
  uint64_t held = atomic_load_explicit(&w->backlog.held, memory_order_relaxed);
  if (plan_locked(w, &indices, largest_capacity_locked(w), &g) != TAMIS_OK)
    return false;
  more += window_layer_takes(w, &g);
  return window_has_bytes(w, more > held ? more - held : 0);
}

/* Enlarges the plan (*next) to the size of the largest layer if [S] above requires this. */
static void plan_largest_locked(const struct window *w, struct window_geometry *next)
{
  uint64_t largest = largest_capacity_locked(w), indices = indices_locked(w);
  struct window_geometry g;
  if (next->capacity >= largest ||
      leaves_room_locked(w, window_layer_takes(w, next), indices | (indices + 1)))
    return;
  if (plan_locked(w, &indices, largest, &g) == TAMIS_OK &&
      window_has_bytes(w, window_layer_takes(w, &g)))
    *next = g;
}

int tamis__window_open_layer(struct window *w, const struct window_layer *full)
{
  struct window_geometry g;
  if (newest_locked(w) != full)
    return TAMIS_OK; /* another thread has opened the next layer */
  uint64_t indices = indices_locked(w);
  const unsigned index = free_index(indices);
  int result = plan_locked(w, &indices, 2 * full->geometry.capacity, &g);
  if (result != TAMIS_OK)
    return result;
  plan_largest_locked(w, &g);
  return tamis__window_add_layer(w, &g, index, NULL);
}

/* ---- a smaller layer after a burst ---- */

enum { SPARSE = 4 };

/* The capacity of a smaller layer: the user's if `most` keys fit, otherwise `most` plus 1/8. */
static uint64_t smaller_capacity(const struct window *w, uint64_t most)
{
  return most <= w->spec.capacity ? w->spec.capacity : most + most / 8;
}

static bool is_sparse(const struct window *w, uint64_t most)
{
  return most <= window_layer_at(&w->newest)->geometry.capacity / SPARSE;
}

/* Whether the first layer is not the newest, has room for `most` keys, and is as large as the
 * newest layer or, if the newest layer is sparse, smaller. */
static bool first_would_do(const struct window *w, uint64_t most)
{
  const struct window_layer *newest = window_layer_at(&w->newest);
  const uint64_t capacity = newest->geometry.capacity, first = w->first.geometry.capacity;
  return newest != &w->first && most <= first &&
         (first == capacity || (first < capacity && is_sparse(w, most)));
}

static bool first_is_free_locked(const struct window *w)
{
  return !window_find_layer(w, window_number(&w->first)) &&
         !(indices_locked(w) >> (w->first.index - 1) & 1);
}

static bool older_one_is_large_locked(const struct window *w)
{
  const struct window_layer *newest = newest_locked(w), *layer = newest;
  while ((layer = window_layer_at(&layer->older)) != NULL)
    if (layer->geometry.capacity > newest->geometry.capacity / 2)
      return true;
  return false;
}

static void open_smaller_locked(struct window *w, uint64_t most)
{
  struct window_geometry g;
  uint64_t indices = indices_locked(w), keys = smaller_capacity(w, most);
  if (older_one_is_large_locked(w))
    return;
  if (first_would_do(w, most) && first_is_free_locked(w)) {
    if (leaves_room_locked(w, 0, indices | UINT64_C(1) << (w->first.index - 1)))
      append(w, &w->first);
    return;
  }
  unsigned index = free_index(indices);
  if (is_sparse(w, most) && keys <= newest_locked(w)->geometry.capacity / 2 &&
      plan_locked(w, &indices, keys, &g) == TAMIS_OK &&
      leaves_room_locked(w, window_layer_takes(w, &g), indices))
    /* If there is no memory, a later advance tries again. */
    (void) tamis__window_add_layer(w, &g, index, NULL);
}

void tamis__window_open_smaller(struct window *w, uint64_t most)
{
  if (!w->spec.growable || !epoch_has_grown(epoch_read(&w->state->epoch)) ||
      !(is_sparse(w, most) || first_would_do(w, most)))
    return;
  lock_take(&w->opening);
  open_smaller_locked(w, most);
  lock_release(&w->opening);
}

/* Waits until no thread holds a stripe under which it read an older epoch word: [L] in table.h. */
static void wait_for_holders_of_stripes(struct window *w)
{
  for (uint64_t i = 0; i <= w->stripes.mask; i++) {
    window_lock(w, &w->stripes.all[i]);
    window_unlock(w, &w->stripes.all[i]);
  }
}

void tamis__window_let_leave(struct window *w, struct window_layer *const *empty, unsigned n)
{
  if (!n)
    return;
  lock_take(&w->opening);
  for (unsigned i = 0; i < n; i++)
    unlink_locked(w, empty[i]);
  lock_release(&w->opening);
  HOOK(window_layer_unlinked);
  wait_for_holders_of_stripes(w);
  for (unsigned i = 0; i < n; i++)
    if (empty[i] != &w->first)
      tamis__backlog_retire(&w->backlog, &later_of(empty[i])->retired,
                            window_layer_takes(w, &empty[i]->geometry), true);
}

void tamis__window_destroy_layers(struct window *w)
{
  struct window_layer *layer = window_layer_at(&w->newest), *older;
  for (; layer; layer = older) {
    older = window_layer_at(&layer->older);
    if (layer != &w->first)
      release_layer(w, layer);
  }
  tamis__backlog_destroy(&w->backlog);
}
