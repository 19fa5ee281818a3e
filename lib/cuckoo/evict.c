/* SPDX-License-Identifier: MIT
 *
 * Layer 2: room in a full bucket pair.
 *
 *    plan     Breadth first from both buckets: each entry of a full bucket leads to its other
 *             bucket, until a bucket has a free lane.  The search reads words without locks, so
 *             what it finds may be out of date.  Breadth first finds the shortest cuckoo path.
 *    execute  The moves of the path, the one into the free lane first.  Each move takes the stripes
 *             of its two buckets, and checks that the entry still stands in its lane and that the
 *             other bucket still has a free one.  Then it carries the count of copies along, copies
 *             the entry, bumps the version, and clears the lane.  So an entry is in at least one of
 *             its buckets at every instant, and a path that is given up half way has lost nothing.
 */
#include "cuckoo/evict.h"

#include "cuckoo/segment.h"

enum {
  /* Buckets that are searched before a segment counts as full.  More of them fill it better
   * (docs/cuckoo.md), but make the last inserts into a full segment slower.  A filter that grows
   * searches fewer: its searches run inside read sections, for which grace periods wait. */
  MAX_NODES = 512,
  MAX_NODES_GROWABLE = 256,
  /* A filter that does not grow looks so many steps further, in depth, where these nodes end (one
   * if a bucket has many lanes): it should give up late, and more nodes would take a large part of
   * a small stack. */
  STEPS_FURTHER = 2,
  /* Longer paths are rare: with two lanes a bucket, 512 buckets are 8 moves deep. */
  MAX_PATH_MOVES = 16
};

struct node {
  uint32_t bucket;
  uint16_t
      parent;    /* index of the node whose entry leads here; the first two are their own parents */
  uint16_t lane; /* of that entry in the parent's bucket */
  uint32_t entry; /* that entry, whatever stands in the lane by now */
};

struct search {
  unsigned count;
  struct node nodes[MAX_NODES + STEPS_FURTHER];
};

struct move {
  uint32_t from, to;
  unsigned lane;
  uint64_t entry;
};

struct cuckoo_path {
  unsigned moves;
  struct move move[MAX_PATH_MOVES]; /* in the order of execution */
};

static uint64_t load_bucket(const struct cuckoo_geometry *g, const struct segment *segment,
                            uint32_t bucket)
{
  return word_load(&segment_words(g, segment)[bucket]);
}

/* ---- plan ---- */

/* Looks for a bucket with a free lane one step further than nodes[parent], which is full.  Returns
 * it as a node at `at`, or NULL. */
static const struct node *look_one_step(const struct cuckoo_geometry *g,
                                        const struct segment *segment, struct node *nodes,
                                        unsigned parent, unsigned at)
{
  uint64_t value = load_bucket(g, segment, nodes[parent].bucket);
  for (unsigned lane = 0; lane < g->shape.lanes; lane++) {
    uint64_t entry = bucket_lane(&g->shape, value, lane);
    uint32_t other = other_bucket(g, segment, nodes[parent].bucket, entry);
    nodes[at] = (struct node){other, (uint16_t) parent, (uint16_t) lane, (uint32_t) entry};
    if (bucket_free(&g->shape, load_bucket(g, segment, other)))
      return &nodes[at];
  }
  return NULL;
}

/* The same two steps further.  The way there is at `at` and behind. */
static const struct node *look_two_steps(const struct cuckoo_geometry *g,
                                         const struct segment *segment, struct node *nodes,
                                         unsigned parent, unsigned at)
{
  uint64_t value = load_bucket(g, segment, nodes[parent].bucket);
  const struct node *room = NULL;
  for (unsigned lane = 0; lane < g->shape.lanes && !room; lane++) {
    uint64_t entry = bucket_lane(&g->shape, value, lane);
    uint32_t other = other_bucket(g, segment, nodes[parent].bucket, entry);
    nodes[at] = (struct node){other, (uint16_t) parent, (uint16_t) lane, (uint32_t) entry};
    room = bucket_free(&g->shape, load_bucket(g, segment, other))
               ? &nodes[at]
               : look_one_step(g, segment, nodes, at, at + 1);
  }
  return room;
}

/* From the first node on whose entries have not all been followed. */
static const struct node *look_further(const struct cuckoo_geometry *g,
                                       const struct segment *segment, struct search *search,
                                       unsigned first)
{
  bool two_steps = g->shape.lanes <= 3;
  const struct node *room = NULL;
  for (unsigned i = first; i < search->count && !room; i++)
    room = two_steps ? look_two_steps(g, segment, search->nodes, i, search->count)
                     : look_one_step(g, segment, search->nodes, i, search->count);
  return room;
}

/* Fills search->nodes with the buckets that it tries.  Returns the first one with a free lane, or
 * NULL. */
static const struct node *find_room(const struct cuckoo_geometry *g, const struct segment *segment,
                                    uint32_t lower, uint32_t upper, struct search *search)
{
  struct node *nodes = search->nodes;
  const struct node *room = NULL;
  unsigned count = 0, limit = g->shape.ages ? MAX_NODES_GROWABLE : MAX_NODES;
  if (cuckoo_buckets(g) < limit / 2)
    limit = (unsigned) cuckoo_buckets(g) * 2;
  nodes[count++] = (struct node){.bucket = lower, .parent = 0};
  nodes[count++] = (struct node){.bucket = upper, .parent = 1};
  unsigned followed = 0; /* nodes whose entries have all been followed */
  for (unsigned i = 0; i < count; i++) {
    uint64_t value = load_bucket(g, segment, nodes[i].bucket);
    if (bucket_free(&g->shape, value)) {
      room = &nodes[i];
      break;
    }
    for (unsigned lane = 0; lane < g->shape.lanes && count < limit; lane++) {
      uint64_t entry = bucket_lane(&g->shape, value, lane);
      uint32_t other = other_bucket(g, segment, nodes[i].bucket, entry);
      if (other == nodes[nodes[i].parent].bucket) /* not back to where the path came from */
        continue;
      __builtin_prefetch(&segment_words(g, segment)[other]);
      nodes[count++] = (struct node){other, (uint16_t) i, (uint16_t) lane, (uint32_t) entry};
    }
    followed += count < limit;
  }
  search->count = count;
  return room || g->shape.ages ? room : look_further(g, segment, search, followed);
}

/* The moves that lead to a node, from there back to one of the key's buckets.  False: too many. */
static bool trace_path(const struct node *nodes, unsigned last, struct cuckoo_path *path)
{
  HOOK(cuckoo_path_found);
  path->moves = 0;
  for (unsigned i = last; nodes[i].parent != i; i = nodes[i].parent) {
    if (path->moves == MAX_PATH_MOVES)
      return false;
    path->move[path->moves++] = (struct move){.from = nodes[nodes[i].parent].bucket,
                                              .to = nodes[i].bucket,
                                              .lane = nodes[i].lane,
                                              .entry = nodes[i].entry};
  }
  return true;
}

/* False: there is no path, or only one that is too long; search->nodes are the buckets that were
 * tried.  A path of no moves means that another thread has made room. */
static bool plan_path(const struct cuckoo_geometry *g, const struct segment *segment,
                      uint32_t lower, uint32_t upper, struct search *search,
                      struct cuckoo_path *path)
{
  const struct node *room = find_room(g, segment, lower, upper, search);
  return room && trace_path(search->nodes, (unsigned) (room - search->nodes), path);
}

bool tamis__path_exists(const struct cuckoo_geometry *g, const struct segment *segment,
                        uint32_t lower, uint32_t upper)
{
  struct search search;
  struct cuckoo_path path;
  return plan_path(g, segment, lower, upper, &search, &path);
}

/* ---- execute ---- */

/* Makes one move.  TAMIS_ABSENT: what was planned is not possible any more; TAMIS_EFULL,
 * TAMIS_ENOMEM: the copies of the entry could not be counted in its new lane.  The caller holds the
 * stripes of both buckets. */
static int move_entry_locked(struct cuckoo *c, const struct cuckoo_geometry *g,
                             struct segment *segment, const struct move *move, bool inside)
{
  word *words = segment_words(g, segment);
  struct stripe *stripe_from = stripe_of_bucket(g, segment, move->from);
  struct stripe *stripe_to = stripe_of_bucket(g, segment, move->to);
  uint64_t from = word_load(&words[move->from]), to = word_load(&words[move->to]);
  uint64_t room = bucket_free(&g->shape, to);
  if (!move->entry) /* the search met a lane that had just become free */
    return TAMIS_ABSENT;
  if (bucket_lane(&g->shape, from, move->lane) != move->entry || !room ||
      stripe_has_left(stripe_from))
    return TAMIS_ABSENT;
  struct lane old = {move->from, move->lane}, new = {move->to, bucket_first(&g->shape, room)};
  int result = TAMIS_OK;
  if (has_duplicates(segment))
    result = tamis__segment_move_copies(c, g, segment, old, new, 0, inside);
  if (result != TAMIS_OK)
    return result;
  word_store(&words[move->to], bucket_replace(&g->shape, to, new.lane, move->entry));
  HOOK(cuckoo_entry_copied);
  version_bump(stripe_from);
  word_store(&words[move->from], bucket_replace(&g->shape, from, move->lane, 0));
  stripe_use(stripe_to, 1);
  stripe_use(stripe_from, -1);
  fullness_reset(&segment->fullness);
  return TAMIS_OK;
}

int tamis__evict(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *segment,
                 uint32_t lower, uint32_t upper, bool inside)
{
  struct search search;
  struct cuckoo_path path;
  if (!plan_path(g, segment, lower, upper, &search, &path)) {
    cuckoo_note(c, FAILED_SEARCHES);
    return TAMIS_ABSENT;
  }
  HOOK(cuckoo_path_planned);
  if (path.moves)
    cuckoo_note(c, EVICTIONS);
  int result = TAMIS_OK;
  for (unsigned i = 0; i < path.moves && result == TAMIS_OK; i++) {
    const struct move *move = &path.move[i];
    if (!segment_lock(g, segment, move->from, move->to))
      return TAMIS_OK;
    result = move_entry_locked(c, g, segment, move, inside);
    segment_unlock(g, segment, move->from, move->to);
  }
  if (result == TAMIS_OK)
    fullness_found_room(&segment->fullness);
  return result == TAMIS_ABSENT ? TAMIS_OK : result;
}
