/* SPDX-License-Identifier: MIT
 *
 * Layer 2: room in a full bucket pair, by moving entries to their other buckets.
 *
 *    plan     breadth first from both buckets of the key: each entry of a full bucket leads to its
 *             other bucket, until one has a free lane.  Reads only, without locks: what it finds may
 *             be out of date.
 *    execute  the moves of the shortest way, the one into the free lane first.  Each takes the stripes
 *             of its two buckets, looks whether the entry still stands where it stood and the other
 *             bucket still has a free lane, and then copies first and clears afterwards: an entry is
 *             always in at least one of its buckets, and a way that is given up half done has lost
 *             nothing.
 */
#include "cuckoo/table.h"
#include "base/hook.h"

enum {
  /* Buckets looked at before a segment counts as full.  More fill it better (docs/cuckoo.md), but the
   * last inserts into a full segment take longer.  Fewer where segments split: a search is done as
   * reader, and grace periods go by quickly only while all readers are quick. */
  MAX_NODES = 512,
  MAX_NODES_GROWABLE = 256,
  MAX_PATH_MOVES =
      16 /* longer ones are rare: breadth first, two lanes a bucket are 512 buckets in 8 */
};

struct node {
  uint32_t bucket;
  uint16_t parent; /* index of the node whose entry leads here; of itself for the first two */
  uint16_t lane;   /* of that entry in the parent's bucket */
  uint32_t entry; /* that entry: `bucket` is its other bucket, whatever stands in the lane by now */
};

struct search {
  unsigned count;
  struct node nodes[MAX_NODES];
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

static uint64_t look(const struct cuckoo_geometry *g, const struct segment *segment,
                     uint32_t bucket)
{
  return word_load(&segment_words(g, segment)[bucket]);
}

/* The moves that lead to a node, from it back to one of the key's buckets.  False: too many. */
static bool trace(const struct node *nodes, unsigned last, struct cuckoo_path *way)
{
  HOOK(cuckoo_path_found);
  way->moves = 0;
  for (unsigned i = last; nodes[i].parent != i; i = nodes[i].parent) {
    if (way->moves == MAX_PATH_MOVES)
      return false;
    way->move[way->moves++] = (struct move){.from = nodes[nodes[i].parent].bucket,
                                            .to = nodes[i].bucket,
                                            .lane = nodes[i].lane,
                                            .entry = nodes[i].entry};
  }
  return true;
}

/* The search.  search->nodes are the buckets that were tried.  The first of them that has room, or NULL:
 * there is no way. */
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
  for (unsigned i = 0; i < count; i++) {
    uint64_t value = look(g, segment, nodes[i].bucket);
    if (bucket_free(&g->shape, value)) {
      room = &nodes[i];
      break;
    }
    for (unsigned lane = 0; lane < g->shape.lanes && count < limit; lane++) {
      uint64_t entry = bucket_lane(&g->shape, value, lane);
      uint32_t other = other_bucket(g, segment, nodes[i].bucket, entry);
      /* The two buckets of one pair lead to each other: not back to where it came from. */
      if (other == nodes[nodes[i].parent].bucket)
        continue;
      __builtin_prefetch(&segment_words(g, segment)[other]);
      nodes[count++] = (struct node){other, (uint16_t) i, (uint16_t) lane, (uint32_t) entry};
    }
  }
  search->count = count;
  return room;
}

/* False: there is no way, or only one that is too long; search->nodes are the buckets that were tried.
 * A way of no moves: somebody else has made room. */
static bool plan(const struct cuckoo_geometry *g, const struct segment *segment, uint32_t lower,
                 uint32_t upper, struct search *search, struct cuckoo_path *way)
{
  const struct node *room = find_room(g, segment, lower, upper, search);
  return room && trace(search->nodes, (unsigned) (room - search->nodes), way);
}

/* One move, with the stripes of both buckets.  False: what was planned is not possible any more. */
static bool move_entry(const struct cuckoo_geometry *g, struct segment *segment,
                       const struct move *move)
{
  word *words = segment_words(g, segment);
  struct stripe *stripe_from = stripe_of_bucket(g, segment, move->from);
  struct stripe *stripe_to = stripe_of_bucket(g, segment, move->to);
  uint64_t from = word_load(&words[move->from]), to = word_load(&words[move->to]);
  uint64_t room = bucket_free(&g->shape, to);
  if (bucket_lane(&g->shape, from, move->lane) != move->entry || !room ||
      stripe_has_left(stripe_from))
    return false;
  word_store(&words[move->to],
             bucket_replace(&g->shape, to, bucket_first(&g->shape, room), move->entry));
  HOOK(cuckoo_copied);
  version_bump(stripe_from);
  word_store(&words[move->from], bucket_replace(&g->shape, from, move->lane, 0));
  stripe_use(stripe_to, 1);
  stripe_use(stripe_from, -1);
  return true;
}

bool tamis__evict(const struct cuckoo_geometry *g, struct segment *segment, uint32_t lower,
                  uint32_t upper)
{
  struct search search;
  struct cuckoo_path way;
  if (!plan(g, segment, lower, upper, &search, &way))
    return false;
  HOOK(cuckoo_path_planned);
  for (unsigned i = 0; i < way.moves; i++) {
    const struct move *move = &way.move[i];
    segment_lock(g, segment, move->from, move->to);
    bool moved = move_entry(g, segment, move);
    segment_unlock(g, segment, move->from, move->to);
    if (!moved)
      break;
  }
  return true;
}

bool tamis__path_exists(const struct cuckoo_geometry *g, const struct segment *segment,
                        uint32_t lower, uint32_t upper)
{
  struct search search;
  struct cuckoo_path way;
  return plan(g, segment, lower, upper, &search, &way);
}

/* ---- copies ---- */

static unsigned equal_lanes(const struct bucket_shape *s, uint64_t value, uint64_t entry)
{
  unsigned equal = 0;
  for (unsigned lane = 0; lane < s->lanes; lane++)
    equal += bucket_lane(s, value, lane) == entry;
  return equal;
}

/* With the stripes of both buckets: counts one of the equal entries, and clears its lane. */
static int fold_one(struct cuckoo *c, const struct bucket_pair *pair, uint32_t bucket, uint64_t entry)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  uint32_t other = other_bucket(g, pair->segment, bucket, entry);
  word *w = &segment_words(g, pair->segment)[bucket];
  uint64_t value = word_load(w);
  unsigned lane = 0;
  while (bucket_lane(&g->shape, value, lane) != entry)
    lane++;
  uint64_t key = duplicates_key(bucket < other ? bucket : other, entry);
  int result = tamis__segment_add_duplicate(c, pair->segment, key, SIZE_MAX);
  if (result != TAMIS_OK)
    return result;
  struct stripe *stripe = stripe_of_bucket(g, pair->segment, bucket);
  version_bump(stripe);
  word_store(w, bucket_replace(&g->shape, value, lane, 0));
  stripe_use(stripe, -1);
  counter_add(&pair->generation->counters, ENTRIES, UINT64_MAX);
  counter_add(&pair->generation->counters, DUPLICATES, 1);
  return TAMIS_OK;
}

/* Folds the copies of an entry of a bucket until one lane is left of them; *folded counts. */
static int fold_entry(struct cuckoo *c, const struct bucket_pair *pair, uint32_t bucket, uint64_t entry,
                      unsigned *folded)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  uint32_t other = other_bucket(g, pair->segment, bucket, entry);
  int result = TAMIS_OK;
  segment_lock(g, pair->segment, bucket, other);
  unsigned here = equal_lanes(&g->shape, look(g, pair->segment, bucket), entry);
  unsigned there = equal_lanes(&g->shape, look(g, pair->segment, other), entry);
  for (; here > 0 && here + there > 1 && result == TAMIS_OK; here--) {
    result = fold_one(c, pair, bucket, entry);
    *folded += result == TAMIS_OK;
  }
  segment_unlock(g, pair->segment, bucket, other);
  return result;
}

int tamis__fold_duplicates(struct cuckoo *c, const struct bucket_pair *full)
{
  const struct cuckoo_geometry *g = &full->generation->geometry;
  struct search search;
  struct cuckoo_path way;
  unsigned folded = 0;
  int result = TAMIS_EFULL;
  if (plan(g, full->segment, full->lower, full->upper, &search, &way))
    return TAMIS_OK;
  for (unsigned i = 0; i < search.count; i++) {
    uint32_t bucket = search.nodes[i].bucket;
    uint64_t value = look(g, full->segment, bucket);
    for (unsigned lane = 0; lane < g->shape.lanes; lane++) {
      uint64_t entry = bucket_lane(&g->shape, value, lane);
      if (!entry)
        continue;
      uint32_t other = other_bucket(g, full->segment, bucket, entry);
      unsigned equal = equal_lanes(&g->shape, value, entry) +
                       equal_lanes(&g->shape, look(g, full->segment, other), entry);
      if (equal > 1 && fold_entry(c, full, bucket, entry, &folded) == TAMIS_ENOMEM)
        result = TAMIS_ENOMEM;
    }
  }
  /* Somebody else may have folded what was found, or removed it. */
  bool room = folded || tamis__path_exists(g, full->segment, full->lower, full->upper);
  return room ? TAMIS_OK : result;
}
