/* SPDX-License-Identifier: MIT
 *
 * Layer 2: fills segments before they are published, which makes their contents visible.
 */
#include "cuckoo/evict.h"
#include "cuckoo/fold.h"
#include "cuckoo/segment.h"
#include "table/put.h"

static void store_private(const struct cuckoo_geometry *g, struct segment *segment, uint64_t bucket,
                          uint64_t value)
{
  atomic_store_explicit(&segment_words(g, segment)[bucket], value, memory_order_relaxed);
}

static void use_private(const struct cuckoo_geometry *g, struct segment *segment, uint64_t bucket,
                        uint32_t entries)
{
  struct stripe *stripe = stripe_of_bucket(g, segment, bucket);
  atomic_store_explicit(&stripe->used, stripe_used(stripe) + entries, memory_order_relaxed);
}

/* ---- split ---- */

/* For each child and stripe, the number of entries in each lane, summed over the stripe's buckets.
 * A lane holds the sum over at most ROWS buckets. */
struct split_lanes {
  uint64_t lanes[2][CUCKOO_GROWING_STRIPES];
};

enum { ROWS = SMALL(128, 3) };

/* Adds the sums to the stripes, and clears the sums.  The first bucket of stripe i is bucket i. */
static void use_split(const struct cuckoo_geometry *g, struct segment *child[2],
                      struct split_lanes *counts)
{
  for (unsigned bit = 0; bit < 2; bit++)
    for (uint32_t i = 0; i <= g->stripe_mask; i++)
      for (unsigned lane = 0; lane < g->shape.lanes; lane++)
        use_private(g, child[bit], i, (uint32_t) lane_get(&g->shape, counts->lanes[bit][i], lane));
  *counts = (struct split_lanes){0};
}

/* A split copies thousands of buckets in one call, so the inner loop has no branch. */
static void copy_split_buckets(const struct cuckoo_geometry *g, struct segment *parent,
                               struct segment *child[2])
{
  const struct lane_shape s = g->shape;
  const uint64_t buckets = cuckoo_buckets(g), stripe_mask = g->stripe_mask;
  const word *from = segment_words(g, parent);
  word *to[2] = {segment_words(g, child[0]), segment_words(g, child[1])};
  struct split_lanes counts = {0};
  for (uint64_t i = 0, end; i < buckets; i = end) {
    uint64_t rows_end = i + ROWS * (stripe_mask + 1);
    end = rows_end < buckets ? rows_end : buckets;
    for (uint64_t j = i; j < end; j++) {
      uint64_t value = atomic_load_explicit(&from[j], memory_order_relaxed); /* under its stripes */
      uint64_t occupied = lanes_in_use(&s, value), ones = bucket_ones(&s, value);
      atomic_store_explicit(&to[0][j], bucket_split(&s, value, 0), memory_order_relaxed);
      atomic_store_explicit(&to[1][j], bucket_split(&s, value, 1), memory_order_relaxed);
      counts.lanes[0][j & stripe_mask] += (occupied ^ ones) >> (s.width - 1);
      counts.lanes[1][j & stripe_mask] += ones >> (s.width - 1);
    }
    use_split(g, child, &counts);
  }
}

static int fill_even_split(struct cuckoo *c, const struct cuckoo_geometry *g,
                           struct segment *parent, struct segment *child[2])
{
  copy_split_buckets(g, parent, child);
  int result = TAMIS_OK;
  for (unsigned bit = 0; bit < 2 && result == TAMIS_OK; bit++)
    result = tamis__segment_inherit_copies(c, g, parent, child[bit]);
  return result;
}

/* ---- entries one by one ---- */

static void clear_private(const struct cuckoo_geometry *g, struct segment *segment)
{
  for (uint32_t i = 0; i < cuckoo_buckets(g); i++)
    store_private(g, segment, i, 0);
}

/* Writes an entry and its count of copies into one of the entry's two buckets.  Returns NO_ROOM if
 * no path leads to a free lane, and TAMIS_EFULL or TAMIS_ENOMEM if the count got no memory. */
static int insert_private(struct cuckoo *c, const struct cuckoo_geometry *g,
                          struct segment *segment, uint64_t bucket, uint64_t entry, uint64_t copies)
{
  uint64_t both[2] = {bucket, other_bucket(g, segment, bucket, entry)};
  do {
    for (unsigned i = 0; i < 2; i++) {
      uint64_t value = word_load(&segment_words(g, segment)[both[i]]);
      uint64_t room = lanes_empty(&g->shape, value);
      if (room) {
        unsigned lane = lanes_first(&g->shape, room);
        store_private(g, segment, both[i], lane_put(&g->shape, value, lane, entry));
        use_private(g, segment, both[i], 1);
        return copies == 0 ? TAMIS_OK
                           : tamis__segment_add_copies(c, g, segment, (struct lane){both[i], lane},
                                                       copies, false);
      }
    }
  } while (tamis__evict(c, g, segment, both[0], both[1], false) == TAMIS_OK);
  return NO_ROOM;
}

/* for_each_entry() calls this for each entry of a segment, with its lane, until a call fails. */
typedef int put_entry(void *to, struct lane from, uint64_t entry);

static int for_each_entry(const struct cuckoo_geometry *g, const struct segment *segment,
                          put_entry *put, void *to)
{
  int result = TAMIS_OK;
  for (uint32_t i = 0; i < cuckoo_buckets(g) && result == TAMIS_OK; i++) {
    uint64_t value = word_load(&segment_words(g, segment)[i]);
    for (uint64_t set = lanes_in_use(&g->shape, value); set && result == TAMIS_OK; set &= set - 1) {
      unsigned lane = lanes_first(&g->shape, set);
      result = put(to, (struct lane){i, lane}, lane_get(&g->shape, value, lane));
    }
  }
  return result;
}

/* Converts an entry to lanes of another width.  In narrower lanes, a young entry loses bits. */
static uint64_t change_width(uint64_t entry, unsigned from, unsigned to)
{
  if (to >= from)
    return entry << (to - from);
  unsigned less = from - to;
  return entry >> less | ((entry & ((UINT64_C(1) << less) - 1)) != 0);
}

/* ---- the uneven split ---- */

struct uneven {
  struct cuckoo *c;
  const struct cuckoo_geometry *g, *after;
  struct segment *parent, **child;
};

static int put_in_child(void *to, struct lane from, uint64_t entry)
{
  struct uneven *u = to;
  struct segment *child = u->child[cuckoo_class(
      u->g, cuckoo_fingerprint(u->g, entry, u->parent->prefix, u->parent->depth))];
  return insert_private(u->c, u->after, child, from.bucket,
                        change_width(entry, u->g->shape.width, u->after->shape.width),
                        segment_copies(u->parent, from));
}

static int fill_uneven_split(struct cuckoo *c, const struct generation *generation,
                             struct segment *parent, struct segment *child[2])
{
  const struct cuckoo_geometry *g = &generation->geometry;
  struct uneven uneven = {c, g, segment_geometry(generation, child[0]), parent, child};
  clear_private(g, child[0]);
  clear_private(g, child[1]);
  return for_each_entry(g, parent, put_in_child, &uneven);
}

int tamis__fill_split(struct cuckoo *c, const struct generation *generation, struct segment *parent,
                      struct segment *child[2])
{
  tamis__inherit_fold_state(parent, child[0], 2);
  tamis__inherit_fold_state(parent, child[1], 2);
  return parent->depth == generation->geometry.uneven_at
             ? fill_uneven_split(c, generation, parent, child)
             : fill_even_split(c, segment_geometry(generation, parent), parent, child);
}

/* ---- join ---- */

struct joined {
  struct cuckoo *c;
  const struct cuckoo_geometry *g, *of_child;
  struct segment *parent, *child;
  unsigned bit;
};

static int put_in_parent(void *to, struct lane from, uint64_t entry)
{
  struct joined *j = to;
  entry = j->parent->depth == j->g->uneven_at
              ? change_width(entry, j->of_child->shape.width, j->g->shape.width)
              : bucket_rejuvenate(&j->g->shape, entry, j->bit);
  return insert_private(j->c, j->g, j->parent, from.bucket, entry, segment_copies(j->child, from));
}

bool tamis__fill_joined(struct cuckoo *c, const struct generation *generation,
                        struct segment *child[2], struct segment *parent)
{
  for (unsigned bit = 0; bit < 2; bit++) {
    struct joined joined = {c,
                            segment_geometry(generation, parent),
                            segment_geometry(generation, child[bit]),
                            parent,
                            child[bit],
                            bit};
    tamis__inherit_fold_state(child[bit], parent, 1);
    if (for_each_entry(joined.of_child, child[bit], put_in_parent, &joined) != TAMIS_OK)
      return false;
  }
  return true;
}
