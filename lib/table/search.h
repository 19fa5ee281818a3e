/* SPDX-License-Identifier: MIT
 *
 * Layer 2: makes room in a full bucket pair by moving entries along a cuckoo path.
 *
 *    plan     Searches breadth first, from the key's two buckets, for a bucket with an empty lane.
 *             Each entry of a full bucket leads to the entry's other bucket.  So the search finds a
 *             shortest path.  It takes no locks, so the path can be out of date before it is used.
 *    execute  Makes the moves of the path, beginning with the move into the empty lane.  Each move
 *             locks the stripes of its two buckets, and checks that the entry is still in its lane
 *             and that the other bucket still has an empty lane.  Then it copies the entry, bumps
 *             the version, and clears the old lane.  So an entry is always in one of its buckets.
 */
#ifndef TAMIS_LIB_SEARCH_H
#define TAMIS_LIB_SEARCH_H

#include "base/compiler.h"
#include "base/hook.h"
#include "table/lanes.h"

#include <stdbool.h>
#include <stddef.h>

enum {
  /* With more, a search would find room more often, but take longer (docs/internals/cuckoo.md). */
  SEARCH_MOST_BUCKETS = 512,
  /* How many steps further a thorough search goes after its search in breadth: only one if buckets
   * have more than SEARCH_FEW_LANES lanes. */
  SEARCH_STEPS_FURTHER = 2,
  SEARCH_FEW_LANES = 3,
  /* The most moves of a path.  (A search of 512 buckets with two lanes finds paths of 8 moves.) */
  SEARCH_MOST_MOVES = 16
};

/* The buckets of a segment, as a graph: the entries of a bucket lead to other buckets. */
struct searched {
  const struct lane_shape *shape;
  uint64_t buckets;
  unsigned most_buckets; /* limit of the search in breadth: up to SEARCH_MOST_BUCKETS */
  bool thorough;         /* if the search in breadth fails, search on in depth */
};

/* The functions that differ between kinds of tables.  Each kind passes a constant, so the compiler
 * makes separate code for each. */
struct search_kind {
  uint64_t (*load)(const struct searched *, uint64_t bucket);
  /* The lanes of a bucket into which an entry can be moved. */
  uint64_t (*empty)(const struct searched *, uint64_t value);
  uint64_t (*other)(const struct searched *, uint64_t bucket, uint64_t entry);
};

/* The buckets that a search has reached.  It reached each bucket by an entry of another bucket, the
 * *parent*.  The first two buckets, which are the key's own, are their own parents. */
struct search {
  unsigned count;
  uint32_t bucket[SEARCH_MOST_BUCKETS + SEARCH_STEPS_FURTHER];
  uint16_t via[SEARCH_MOST_BUCKETS + SEARCH_STEPS_FURTHER]; /* parent * SEARCH_LANES + lane */
};

enum { SEARCH_LANES = 8 /* the most lanes of a bucket: COUNTS_MAX_LANES */, SEARCH_NO_ROOM = -1 };

FORCE_INLINE unsigned search_parent(const struct search *search, unsigned at)
{
  return search->via[at] / SEARCH_LANES;
}

FORCE_INLINE void search_note(struct search *search, unsigned at, uint64_t bucket, unsigned parent,
                              unsigned lane)
{
  search->bucket[at] = (uint32_t) bucket;
  search->via[at] = (uint16_t) (parent * SEARCH_LANES + lane);
}

struct cuckoo_move {
  uint32_t from, to;
  uint32_t entry; /* as search_trace() read it; in a window, an add may renew the stamp later */
  unsigned lane;  /* lane of the bucket `from` */
};

struct cuckoo_path {
  unsigned moves;
  struct cuckoo_move move[SEARCH_MOST_MOVES]; /* in the order in which they must be made */
};

FORCE_INLINE bool search_has_room(const struct search_kind *k, const struct searched *t,
                                  uint64_t bucket)
{
  return k->empty(t, k->load(t, bucket)) != 0;
}

/* Looks for a bucket with an empty lane among those to which the entries of the full bucket number
 * `parent` lead.  Records that bucket as number `at`.  Returns `at`, or SEARCH_NO_ROOM. */
FORCE_INLINE int search_one_step(const struct search_kind *k, const struct searched *t,
                                 struct search *search, unsigned parent, unsigned at)
{
  uint64_t value = k->load(t, search->bucket[parent]);
  for (unsigned lane = 0; lane < t->shape->lanes; lane++) {
    uint64_t other = k->other(t, search->bucket[parent], lane_get(t->shape, value, lane));
    search_note(search, at, other, parent, lane);
    if (search_has_room(k, t, other))
      return (int) at;
  }
  return SEARCH_NO_ROOM;
}

/* Searches two steps beyond bucket `parent`, and records their buckets as `at` and `at` + 1. */
FORCE_INLINE int search_two_steps(const struct search_kind *k, const struct searched *t,
                                  struct search *search, unsigned parent, unsigned at)
{
  uint64_t value = k->load(t, search->bucket[parent]);
  int room = SEARCH_NO_ROOM;
  for (unsigned lane = 0; lane < t->shape->lanes && room < 0; lane++) {
    uint64_t other = k->other(t, search->bucket[parent], lane_get(t->shape, value, lane));
    search_note(search, at, other, parent, lane);
    room = search_has_room(k, t, other) ? (int) at : search_one_step(k, t, search, at, at + 1);
  }
  return room;
}

/* Searches in depth from number `first` on: the buckets whose entries were not all followed. */
FORCE_INLINE int search_further(const struct search_kind *k, const struct searched *t,
                                struct search *search, unsigned first)
{
  bool two_steps = t->shape->lanes <= SEARCH_FEW_LANES;
  int room = SEARCH_NO_ROOM;
  for (unsigned i = first; i < search->count && room < 0; i++)
    room = two_steps ? search_two_steps(k, t, search, i, search->count)
                     : search_one_step(k, t, search, i, search->count);
  return room;
}

/* Follows the entries of the full bucket number `at`, and records the buckets to which they lead,
 * until one has an empty lane.  Returns that bucket's number, or SEARCH_NO_ROOM. */
FORCE_INLINE int search_follow(const struct search_kind *k, const struct searched *t,
                               struct search *search, unsigned at, unsigned limit)
{
  const uint64_t bucket = search->bucket[at], before = search->bucket[search_parent(search, at)];
  uint64_t value = k->load(t, bucket);
  for (unsigned lane = 0; lane < t->shape->lanes && search->count < limit; lane++) {
    uint64_t other = k->other(t, bucket, lane_get(t->shape, value, lane));
    if (other == before) /* do not go back along the path */
      continue;
    search_note(search, search->count++, other, at, lane);
    if (search_has_room(k, t, other))
      return (int) search->count - 1;
  }
  return SEARCH_NO_ROOM;
}

/* Returns the number of the first bucket with an empty lane, or SEARCH_NO_ROOM. */
FORCE_INLINE int search_room(const struct search_kind *k, const struct searched *t, uint64_t lower,
                             uint64_t upper, struct search *search)
{
  unsigned limit = t->buckets < t->most_buckets / 2 ? (unsigned) t->buckets * 2 : t->most_buckets;
  unsigned followed = 0; /* the number of buckets whose entries have all been followed */
  search->count = 2;
  search_note(search, 0, lower, 0, 0);
  search_note(search, 1, upper, 1, 0);
  for (unsigned i = 0; i < 2; i++)
    if (search_has_room(k, t, search->bucket[i]))
      return (int) i;
  for (unsigned i = 0; i < search->count && search->count < limit; i++) {
    int room = search_follow(k, t, search, i, limit);
    if (room >= 0)
      return room;
    followed += search->count < limit;
  }
  return t->thorough ? search_further(k, t, search, followed) : SEARCH_NO_ROOM;
}

/* Writes the moves that lead to bucket number `room`, from that bucket back to one of the key's
 * buckets.  Reads the entries again: if one does not lead to the next bucket, the path gets no
 * moves.  Returns false if the path is too long. */
FORCE_INLINE bool search_trace(const struct search_kind *k, const struct searched *t,
                               const struct search *search, unsigned room, struct cuckoo_path *path)
{
  HOOK(path_found);
  path->moves = 0;
  for (unsigned i = room, parent; (parent = search_parent(search, i)) != i; i = parent) {
    const uint32_t from = search->bucket[parent], to = search->bucket[i];
    const unsigned lane = search->via[i] % SEARCH_LANES;
    const uint64_t entry = lane_get(t->shape, k->load(t, from), lane);
    if (path->moves == SEARCH_MOST_MOVES)
      return false;
    path->move[path->moves++] = (struct cuckoo_move){from, to, (uint32_t) entry, lane};
    if (k->other(t, from, entry) != to) {
      path->moves = 0;
      return true;
    }
  }
  return true;
}

/* Plans a path.  Returns false if there is no path, or if it is too long.  If the path has no
 * moves, another thread has made room or changed an entry on the path: try again. */
FORCE_INLINE bool search_plan(const struct search_kind *k, const struct searched *t, uint64_t lower,
                              uint64_t upper, struct cuckoo_path *path)
{
  struct search search;
  int room = search_room(k, t, lower, upper, &search);
  return room >= 0 && search_trace(k, t, &search, (unsigned) room, path);
}

#endif
