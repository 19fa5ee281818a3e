/* SPDX-License-Identifier: MIT
 *
 * Layer 2: room in a full bucket pair of a sliding window, and segments in which nothing moves.
 *
 *    plan     Breadth first from both buckets, as in the cuckoo filter: each entry of a full bucket
 *             leads to its other bucket, until a bucket has a free lane, which may be a dead one.
 *             The search reads words without locks, so what it finds may be out of date.
 *    execute  The moves of the path, the one into the free lane first.  Each move takes the stripes
 *             of its two buckets, and checks that the entry still stands in its lane and that the
 *             other bucket still has a free one.  It writes the copy, bumps the version, and clears
 *             the lane, so the entry is in at least one of its buckets at every instant.
 */
#include "window/evict.h"

#include <assert.h>

enum {
  MAX_NODES = 512, /* buckets that are searched before a layer counts as full */
  MAX_PATH_MOVES = 16
};

struct node {
  uint64_t bucket;
  uint32_t entry; /* the one that leads here */
  uint16_t
      parent; /* index of the node in whose bucket that is; the first two are their own parents */
  uint16_t lane;
};

struct move {
  uint64_t from, to;
  unsigned lane;
  uint64_t entry;
};

/* ---- plan ---- */

/* The nodes that the entries of a full bucket lead to.  Returns their number, those before
 * included. */
static unsigned follow(const struct window_layer *layer, uint64_t value, struct node *nodes,
                       unsigned at, unsigned count)
{
  const struct window_geometry *g = &layer->geometry;
  for (unsigned lane = 0; lane < g->shape.lanes && count < MAX_NODES; lane++) {
    uint64_t entry = window_lane(&g->shape, value, lane);
    uint64_t other = window_other_bucket(g, nodes[at].bucket, entry);
    if (other == nodes[nodes[at].parent].bucket) /* not back to where the path came from */
      continue;
    __builtin_prefetch(window_word(layer, other));
    nodes[count++] = (struct node){other, (uint32_t) entry, (uint16_t) at, (uint16_t) lane};
  }
  return count;
}

/* Returns the first node with a free lane, or NULL. */
static const struct node *find_room(const struct window_layer *layer,
                                    const struct window_place *place, unsigned dead,
                                    struct node nodes[MAX_NODES])
{
  const struct window_shape *s = &layer->geometry.shape;
  unsigned count = 2;
  nodes[0] = (struct node){.bucket = place->lower, .parent = 0};
  nodes[1] = (struct node){.bucket = place->upper, .parent = 1};
  for (unsigned i = 0; i < count; i++) {
    uint64_t value = window_load(layer, nodes[i].bucket);
    if (window_free(s, value, dead))
      return &nodes[i];
    count = follow(layer, value, nodes, i, count);
  }
  return NULL;
}

/* The moves that lead to a node, from there back to one of the key's buckets.  Returns their
 * number; 0: another thread has made room. */
static unsigned trace_path(const struct node *nodes, const struct node *room,
                           struct move path[MAX_PATH_MOVES])
{
  unsigned moves = 0;
  for (const struct node *n = room; &nodes[n->parent] != n && moves < MAX_PATH_MOVES;
       n = &nodes[n->parent])
    path[moves++] = (struct move){
        .from = nodes[n->parent].bucket, .to = n->bucket, .lane = n->lane, .entry = n->entry};
  return moves;
}

/* ---- execute ---- */

/* The name of a segment, which is not 0. */
static uint64_t segment_name(const struct window_layer *layer, uint64_t segment)
{
  return (segment << 8 | layer->number) + 1;
}

/* Relaxed: whoever freezes a segment takes all its stripes after that, and the caller holds one. */
static bool is_frozen_locked(const struct window *w, const struct window_layer *layer,
                             uint64_t bucket)
{
  uint64_t name = atomic_load_explicit(&w->frozen, memory_order_relaxed);
  return name && name == segment_name(layer, bucket / window_segment_buckets(&layer->geometry));
}

enum moved { DONE, IMPOSSIBLE, FROZEN };

/* The caller holds the stripes of both buckets. */
static enum moved move_locked(struct window *w, struct window_layer *layer, const struct move *move)
{
  const struct window_shape *s = &layer->geometry.shape;
  uint64_t epoch = epoch_locked(&w->epoch);
  unsigned dead = epoch_dead(epoch);
  uint64_t from = window_load(layer, move->from), to = window_load(layer, move->to);
  uint64_t entry = window_lane(s, from, move->lane);
  uint64_t room = window_free(s, to, dead);
  if (epoch_newest(epoch) != layer->number)
    return IMPOSSIBLE;
  if (is_frozen_locked(w, layer, move->from))
    return FROZEN;
  if (!entry || window_stamp_of(s, entry) == dead) /* free by now */
    return DONE;
  if (window_fingerprint_of(s, entry) != window_fingerprint_of(s, move->entry) || !room)
    return IMPOSSIBLE;
  unsigned lane = window_first(s, room);
  bool was_used = window_lane(s, to, lane) != 0;
  window_store(layer, move->to, lane, entry);
  HOOK(window_entry_copied);
  window_version_bump(window_version(w, entry << (64 - s->width) & layer->geometry.top));
  HOOK(window_version_bumped);
  window_store(layer, move->from, move->lane, 0);
  fullness_reset(&layer->full[window_mark_of(layer, move->from)]);
  window_use(window_stripe(w, layer, move->from), -1);
  if (!was_used)
    window_use(window_stripe(w, layer, move->to), 1);
  return DONE;
}

static enum moved execute(struct window *w, struct window_layer *layer, const struct move *move)
{
  struct stripe *a = window_stripe(w, layer, move->from), *b = window_stripe(w, layer, move->to);
  struct stripe *first = a < b ? a : b, *second = a < b ? b : a;
  stripe_lock(first);
  if (second != first)
    stripe_lock(second);
  enum moved result = move_locked(w, layer, move);
  if (second != first)
    stripe_unlock(second);
  stripe_unlock(first);
  return result;
}

bool tamis__window_has_no_path(const struct window *w, struct window_layer *layer,
                               const struct window_place *place)
{
  const fullness *full = &layer->full[window_mark_of(layer, place->lower)];
  uint64_t rooms = window_rooms(w, epoch_before(&w->epoch));
  return fullness_is(full, FULLNESS_FULL, rooms) || fullness_is(full, FULLNESS_NO_PATH, rooms);
}

bool tamis__window_path_exists(const struct window *w, const struct window_layer *layer,
                               const struct window_place *place)
{
  struct node nodes[MAX_NODES];
  return find_room(layer, place, epoch_dead(epoch_locked(&w->epoch)), nodes);
}

int tamis__window_evict(struct window *w, struct window_layer *layer,
                        const struct window_place *place)
{
  struct node nodes[MAX_NODES];
  struct move path[MAX_PATH_MOVES];
  unsigned dead = epoch_dead(epoch_locked(&w->epoch));
  const struct node *room = find_room(layer, place, dead, nodes);
  if (!room) {
    tamis__counter_note(&w->counters, WINDOW_FAILED_SEARCHES);
    return TAMIS_EFULL;
  }
  unsigned moves = trace_path(nodes, room, path);
  HOOK(window_path_planned);
  if (moves)
    tamis__counter_note(&w->counters, WINDOW_EVICTIONS);
  enum moved result = DONE;
  for (unsigned i = 0; i < moves && result == DONE; i++)
    result = execute(w, layer, &path[i]);
  if (result == DONE)
    fullness_found_room(&layer->full[window_mark_of(layer, place->lower)]);
  if (result == FROZEN) {
    stripe_lock(&w->saving);
    stripe_unlock(&w->saving);
  }
  return TAMIS_OK;
}

/* ---- frozen segments ---- */

uint64_t tamis__window_freeze(struct window *w, const struct window_layer *layer, uint64_t segment)
{
  uint64_t words = window_segment_words(&layer->geometry), begin = segment * words;
  stripe_lock(&w->advancing);
  stripe_lock(&w->saving);
  atomic_store_explicit(&w->frozen, segment_name(layer, segment), memory_order_relaxed);
  HOOK(window_freezing);
  uint64_t first = begin >> layer->block_shift, last = (begin + words - 1) >> layer->block_shift;
  for (uint64_t block = first; block <= last && block - first <= w->stripes.mask; block++) {
    stripe_lock(window_stripe_of_block(w, block));
    stripe_unlock(window_stripe_of_block(w, block));
  }
  return epoch_locked(&w->epoch);
}

void tamis__window_thaw(struct window *w)
{
  atomic_store_explicit(&w->frozen, 0, memory_order_relaxed);
  stripe_unlock(&w->saving);
  stripe_unlock(&w->advancing);
}
