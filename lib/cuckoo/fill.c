/* SPDX-License-Identifier: MIT
 *
 * Layer 2: fills new segments by relaxed stores.  Publishing a segment makes its stores visible.
 */
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

/* Adds from->copying (segment.h) to to->copying: the flag, and the number divided by `part`. */
static void inherit_copying(const struct segment *from, struct segment *to, unsigned part)
{
  uint32_t copying = atomic_load_explicit(&from->copying, memory_order_relaxed);
  atomic_fetch_add_explicit(&to->copying, copying % COUNTS_COPIES / part, memory_order_relaxed);
  atomic_fetch_or_explicit(&to->copying, copying & COUNTS_COPIES, memory_order_relaxed);
}

/* Writes an entry and its duplicate count into an unpublished segment.  Returns NO_ROOM if no
 * eviction makes room; TAMIS_EFULL or TAMIS_ENOMEM if memory for the count was refused. */
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

/* Copies the entries of a segment, with their duplicate counts, into two children, or into a parent
 * (to[0] == to[1]).  Child to[i] gets the entries whose next fingerprint bit is i (in an uneven
 * split: whose class is i). */
static int copy_entries(struct cuckoo *c, const struct generation *generation,
                        const struct segment *from, struct segment *to[2])
{
  const struct cuckoo_geometry *g = segment_geometry(generation, from);
  const struct cuckoo_geometry *of_to = segment_geometry(generation, to[0]);
  const bool uneven = from->depth == generation->geometry.uneven_at;
  int result = TAMIS_OK;
  for (uint32_t i = 0; i < cuckoo_buckets(g) && result == TAMIS_OK; i++) {
    uint64_t value = word_load(&segment_words(g, from)[i]);
    for (uint64_t set = lanes_in_use(&g->shape, value); set && result == TAMIS_OK; set &= set - 1) {
      unsigned lane = lanes_first(&g->shape, set);
      uint64_t entry = lane_get(&g->shape, value, lane);
      uint64_t fingerprint = cuckoo_fingerprint(g, entry, from->prefix, from->depth);
      unsigned known = cuckoo_known_of_fingerprint(g, from->depth, bucket_age(&g->shape, entry));
      bool bit = fingerprint << cuckoo_prefix_bits(g, from->depth) >> 63;
      result = insert_private(c, of_to, to[uneven ? cuckoo_class(g, fingerprint) : bit], i,
                              cuckoo_entry(of_to, fingerprint, known, to[0]->depth),
                              segment_copies(from, (struct lane){i, lane}));
    }
  }
  return result;
}

/* Copies the buckets of a split.  The loop over thousands of buckets has no branch. */
static void copy_split_buckets(const struct cuckoo_geometry *g, struct segment *parent,
                               struct segment *child[2])
{
  const struct lane_shape s = g->shape;
  const uint64_t buckets = cuckoo_buckets(g);
  const word *from = segment_words(g, parent);
  for (uint64_t i = 0; i < buckets; i++) {
    uint64_t value = atomic_load_explicit(&from[i], memory_order_relaxed); /* under its stripes */
    uint64_t ones = bucket_ones(&s, value), zeros = lanes_in_use(&s, value) ^ ones;
    store_private(g, child[0], i, bucket_split(&s, value, 0));
    store_private(g, child[1], i, bucket_split(&s, value, 1));
    use_private(g, child[0], i, lanes_number(&s, zeros));
    use_private(g, child[1], i, lanes_number(&s, ones));
  }
}

int tamis__fill_split(struct cuckoo *c, const struct generation *generation, struct segment *parent,
                      struct segment *child[2])
{
  for (unsigned i = 0; i < 2; i++)
    inherit_copying(parent, child[i], 2);
  if (parent->depth == generation->geometry.uneven_at || has_duplicates(parent))
    return copy_entries(c, generation, parent, child);
  copy_split_buckets(segment_geometry(generation, parent), parent, child);
  return TAMIS_OK;
}

bool tamis__fill_joined(struct cuckoo *c, const struct generation *generation,
                        struct segment *child[2], struct segment *parent)
{
  struct segment *to[2] = {parent, parent};
  for (unsigned i = 0; i < 2; i++) {
    inherit_copying(child[i], parent, 1);
    if (copy_entries(c, generation, child[i], to) != TAMIS_OK)
      return false;
  }
  return true;
}
