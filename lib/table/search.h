/* SPDX-License-Identifier: MIT
 *
 * Layer 2: room in a full bucket pair, by moving entries along a cuckoo path.
 *
 *    plan     Breadth first from both buckets: each entry of a full bucket leads to its other
 *             bucket, until a bucket has an empty lane.  The search reads words without locks, so
 *             what it finds may be out of date.  Breadth first finds the shortest cuckoo path.
 *    execute  The moves of the path, the one into the empty lane first.  Each move takes the stripes
 *             of its two buckets, and checks that the entry still stands in its lane (in a window
 *             its fingerprint does: the stamp may have been renewed) and that the other bucket
 *             still has an empty one.  It copies what stands there now, bumps the version, and
 *             clears the lane.  So an entry is in at least one of its buckets at every instant, and
 *             a path that is given up half way has lost nothing.
 */
#ifndef TAMIS_LIB_SEARCH_H
#define TAMIS_LIB_SEARCH_H

#include "base/compiler.h"
#include "base/hook.h"
#include "table/lanes.h"

#include <stdbool.h>
#include <stddef.h>

enum {
  SEARCH_MOST_BUCKETS = 512, /* more of them fill a table better (docs/cuckoo.md), but take time */
  /* Where these end, a thorough search looks so many steps further, in depth (one if a bucket has
   * many lanes): it should give up late, and more buckets would take a large part of a small
   * stack. */
  SEARCH_STEPS_FURTHER = 2,
  SEARCH_FEW_LANES = 3,
  /* So many buckets are being fetched while the search goes on with those before them. */
  SEARCH_AHEAD = 4,
  /* Longer paths are rare: with two lanes a bucket, 512 buckets are 8 moves deep. */
  SEARCH_MOST_MOVES = 16
};

/* What is searched: the buckets of one segment, of which each leads to others. */
struct searched {
  const struct lane_shape *shape;
  uint64_t buckets;
  unsigned most_buckets; /* that are searched in breadth: up to SEARCH_MOST_BUCKETS */
  bool thorough;
};

/* The functions in which kinds of tables differ: constants, so that the compiler makes a search of
 * its own for each kind. */
struct search_kind {
  void (*prefetch)(const struct searched *, uint32_t bucket);
  uint64_t (*load)(const struct searched *, uint32_t bucket);
  /* The lanes of a bucket into which an entry can be moved. */
  uint64_t (*empty)(const struct searched *, uint64_t value);
  uint32_t (*other)(const struct searched *, uint32_t bucket, uint64_t entry);
};

struct search_node {
  uint32_t bucket;
  uint16_t parent; /* the node whose entry leads here; the first two are their own parents */
  uint16_t lane;   /* of that entry in the parent's bucket */
  uint32_t entry;  /* that entry, whatever stands in the lane by now */
};

struct search {
  unsigned count;
  struct search_node nodes[SEARCH_MOST_BUCKETS + SEARCH_STEPS_FURTHER];
};

struct cuckoo_move {
  uint32_t from, to;
  unsigned lane;  /* of `from` */
  uint64_t entry; /* that the search has read there: in a window its stamp may be old by now */
};

struct cuckoo_path {
  unsigned moves;
  struct cuckoo_move move[SEARCH_MOST_MOVES]; /* in the order of execution */
};

/* Looks for a bucket with an empty lane one step beyond nodes[parent], whose bucket is full.
 * Returns it as the node nodes[at]; NULL: there is none. */
FORCE_INLINE const struct search_node *search_one_step(const struct search_kind *k,
                                                       const struct searched *t,
                                                       struct search_node *nodes, unsigned parent,
                                                       unsigned at)
{
  uint64_t value = k->load(t, nodes[parent].bucket);
  for (unsigned lane = 0; lane < t->shape->lanes; lane++) {
    uint64_t entry = lane_get(t->shape, value, lane);
    uint32_t other = k->other(t, nodes[parent].bucket, entry);
    nodes[at] = (struct search_node){other, (uint16_t) parent, (uint16_t) lane, (uint32_t) entry};
    if (k->empty(t, k->load(t, other)))
      return &nodes[at];
  }
  return NULL;
}

/* Searches two steps beyond nodes[parent].  The path there is nodes[at], and nodes[at + 1] if it
 * takes both steps. */
FORCE_INLINE const struct search_node *search_two_steps(const struct search_kind *k,
                                                        const struct searched *t,
                                                        struct search_node *nodes, unsigned parent,
                                                        unsigned at)
{
  uint64_t value = k->load(t, nodes[parent].bucket);
  const struct search_node *room = NULL;
  for (unsigned lane = 0; lane < t->shape->lanes && !room; lane++) {
    uint64_t entry = lane_get(t->shape, value, lane);
    uint32_t other = k->other(t, nodes[parent].bucket, entry);
    nodes[at] = (struct search_node){other, (uint16_t) parent, (uint16_t) lane, (uint32_t) entry};
    room = k->empty(t, k->load(t, other)) ? &nodes[at] : search_one_step(k, t, nodes, at, at + 1);
  }
  return room;
}

/* Searches beyond the nodes from nodes[first] on, whose entries have not all been followed. */
FORCE_INLINE const struct search_node *search_further(const struct search_kind *k,
                                                      const struct searched *t,
                                                      struct search *search, unsigned first)
{
  bool two_steps = t->shape->lanes <= SEARCH_FEW_LANES;
  const struct search_node *room = NULL;
  for (unsigned i = first; i < search->count && !room; i++)
    room = two_steps ? search_two_steps(k, t, search->nodes, i, search->count)
                     : search_one_step(k, t, search->nodes, i, search->count);
  return room;
}

/* Adds the nodes that the entries of a full bucket lead to. */
FORCE_INLINE void search_follow(const struct search_kind *k, const struct searched *t,
                                struct search *search, unsigned at, uint64_t value, unsigned limit)
{
  struct search_node *nodes = search->nodes;
  for (unsigned lane = 0; lane < t->shape->lanes && search->count < limit; lane++) {
    uint64_t entry = lane_get(t->shape, value, lane);
    uint32_t other = k->other(t, nodes[at].bucket, entry);
    if (other == nodes[nodes[at].parent].bucket) /* not back to where the path came from */
      continue;
    k->prefetch(t, other);
    nodes[search->count++] =
        (struct search_node){other, (uint16_t) at, (uint16_t) lane, (uint32_t) entry};
  }
}

/* Fills search->nodes with the buckets that it tries.  Returns the first one with an empty lane;
 * NULL: there is none.  A bucket is asked for one soon after it has been found, and not only when the
 * search follows its entries: by then a multiple of the nodes has been found, of which no use is
 * made. */
FORCE_INLINE const struct search_node *search_room(const struct search_kind *k,
                                                   const struct searched *t, uint32_t lower,
                                                   uint32_t upper, struct search *search)
{
  unsigned limit = t->buckets < t->most_buckets / 2 ? (unsigned) t->buckets * 2 : t->most_buckets;
  unsigned followed = 0; /* nodes whose entries have all been followed */
  search->count = 2;
  search->nodes[0] = (struct search_node){.bucket = lower, .parent = 0};
  search->nodes[1] = (struct search_node){.bucket = upper, .parent = 1};
  for (unsigned i = 0, checked = 0; i < search->count; i++) {
    for (; checked <= i || checked + SEARCH_AHEAD < search->count; checked++)
      if (k->empty(t, k->load(t, search->nodes[checked].bucket)))
        return &search->nodes[checked];
    search_follow(k, t, search, i, k->load(t, search->nodes[i].bucket), limit);
    followed += search->count < limit;
  }
  return t->thorough ? search_further(k, t, search, followed) : NULL;
}

/* The moves that lead to a node, from there back to one of the key's buckets.  False: too many. */
static inline bool search_trace(const struct search *search, const struct search_node *room,
                                struct cuckoo_path *path)
{
  const struct search_node *nodes = search->nodes;
  HOOK(path_found);
  path->moves = 0;
  for (unsigned i = (unsigned) (room - nodes); nodes[i].parent != i; i = nodes[i].parent) {
    if (path->moves == SEARCH_MOST_MOVES)
      return false;
    path->move[path->moves++] = (struct cuckoo_move){.from = nodes[nodes[i].parent].bucket,
                                                     .to = nodes[i].bucket,
                                                     .lane = nodes[i].lane,
                                                     .entry = nodes[i].entry};
  }
  return true;
}

/* Plans a path.  False: there is none, or only one that is too long.  A path of no moves means that
 * another thread has made room. */
FORCE_INLINE bool search_plan(const struct search_kind *k, const struct searched *t, uint32_t lower,
                              uint32_t upper, struct cuckoo_path *path)
{
  struct search search;
  const struct search_node *room = search_room(k, t, lower, upper, &search);
  return room && search_trace(&search, room, path);
}

#endif
