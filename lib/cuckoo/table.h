/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what the cuckoo filter is made of, shared by its files:
 *
 *    cuckoo.c         look-up, insert, unique insert, remove
 *    cuckoo_evict.c   makes room in a segment by moving entries
 *    cuckoo_growth.c  makes room by splitting a segment or opening a generation, and gives it back
 *    cuckoo_table.c   creates and takes down these structures
 *    cuckoo_slabs.c   where the segments of a large filter that grows have their memory
 *
 *    struct cuckoo ──► generation 0 ──► slots ──► segment ──► buckets (words of lanes)
 *                      generation 1 ──► slots      ├ stripes (lock, version)
 *                                                  └ copies
 */
#ifndef TAMIS_LIB_CUCKOO_TABLE_H
#define TAMIS_LIB_CUCKOO_TABLE_H

#include "cuckoo/duplicates.h"
#include "base/counter.h"
#include "cuckoo/geometry.h"
#include "base/filter.h"
#include "base/hook.h"
#include "base/reclaim.h"
#include "base/stripe.h"
#include "base/word.h"

/* Followed in memory by its stripes and its buckets.  What is plain here never changes after the
 * segment is published. */
struct segment {
  _Alignas(64) struct retired retired; /* first: see reclaim.h */
  uint64_t prefix; /* the first `depth` bits of the fingerprints, from bit 63 on */
  unsigned depth;
  /* NULL until a pair needs it.  Changed under duplicates_lock; see has_duplicates(). */
  _Atomic(struct duplicate_table *) copies;
  struct stripe duplicates_lock; /* taken after a pair's stripes */
  struct slab *slab;         /* in which it has its place; NULL: none.  (See cuckoo_slabs.c.) */
};

/* What the directory holds: a segment's address, plus its depth (it is aligned to 64), which saves
 * readers a look at the segment's head.  NULL: no segment yet. */
typedef char *directory_value;
typedef _Atomic(directory_value) slot;

enum { GROWTH_STRIPES = 16 };

enum generation_counter { ENTRIES, DUPLICATES }; /* lanes in use; copies in side tables */

struct generation {
  struct cuckoo_geometry geometry;
  slot *slots;          /* see generation_root_entry() */
  struct segment *slab; /* of a filter that does not grow: all segments in one block */
  struct counters counters;
  _Atomic uint64_t segments;
  /* Who changes the slots of a root holds one; taken before the stripes of segments. */
  struct stripe growth[GROWTH_STRIPES];
};

/* For a segment a root: what it grows to has no bearing on what it is to take at first. */
static inline unsigned cuckoo_shards(const struct cuckoo_geometry *g)
{
  return tamis__counter_shards(cuckoo_roots(g) * g->segment_bytes);
}

/* A sum over shards can be caught between an add in one and a remove in another. */
static inline uint64_t cuckoo_count(const struct generation *generation,
                                    enum generation_counter what)
{
  int64_t sum = (int64_t) tamis__counter_sum(&generation->counters, what);
  return sum > 0 ? (uint64_t) sum : 0;
}

/* Followed in memory by places for SLAB_SLOTS segments. */
struct slab {
  /* The neighbours among those with a free place, if it has one itself. */
  _Alignas(64) struct slab *next;
  struct slab *before;
  uint64_t number;      /* of the slabs taken before */
  struct retired *free; /* the places that were given back */
  unsigned used;        /* places */
  unsigned touched;     /* the first places, which were in use at some time */
};

struct slabs {
  struct stripe lock;   /* of what changes here and in the slabs; taken last, for a few steps */
  struct stripe making; /* who takes a slab from the allocator holds it; taken before the lock */
  struct slab *open;    /* those with a free place */
  uint64_t taken;       /* slabs so far */
  /* These do not change: */
  size_t slot_bytes; /* segments of this size, with so many stripes, have a place; 0: none have */
  uint32_t stripe_mask;
  uint64_t planned;   /* bytes of the filter, as promised */
  bool planned_large; /* slabs are to be part of these */
  uint64_t large;     /* beyond these: bytes from which on a filter takes slabs */
};

struct cuckoo {
  struct tamis_filter head;
  struct cuckoo_spec demand;
  uint64_t max_bytes;
  /* Only ever appended to; those below the count are complete. */
  struct generation *generation[CUCKOO_MAX_GENERATIONS];
  _Atomic unsigned generations;
  struct stripe opening; /* who appends holds it; taken after a growth stripe */
  _Atomic uint64_t bytes;
  _Atomic uint64_t splits, joins;
  struct slabs slabs;
  struct backlog backlog;
};

static inline struct cuckoo *cuckoo_of(tamis_filter *f)
{
  return (struct cuckoo *) f;
}

static inline const struct cuckoo *const_cuckoo_of(const tamis_filter *f)
{
  return (const struct cuckoo *) f;
}

/* ---- the directory ---- */

/* ORDER generations.load (seq_cst)
 *   pairs with     generations.publish
 *   makes visible  the generations below the count
 *   if weakened    acquire would keep that; but see directory.load
 *   checked by     negative/directory_published_relaxed, negative/generations_load_acquire */
static inline unsigned cuckoo_generations(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->generations, memory_order_seq_cst);
}

/* ORDER directory.load (seq_cst)
 *   pairs with     directory.publish
 *   makes visible  the segment's contents
 *   if weakened    acquire would keep that, but an add could be missed that another thread has
 *                  finished in a new segment: see word.put
 *   checked by     negative/segment_published_relaxed, negative/slot_load_acquire */
static inline directory_value directory_load(const slot *s)
{
  return atomic_load_explicit(s, memory_order_seq_cst);
}

/* ORDER directory.publish (seq_cst)
 *   pairs with     directory.load
 *   makes visible  the segment, filled
 *   if weakened    see there
 *   checked by     negative/segment_published_relaxed, negative/slot_publish_release */
static inline void directory_publish(slot *s,
                                directory_value value) /* NOLINT(readability-non-const-parameter) */
{
  atomic_store_explicit(s, value, memory_order_seq_cst);
}

/* The first slots of all roots stand together, then come the others, root by root: most look-ups read a first
 * one (see pair_at()), and these are few enough to stay in the cache. */
static inline slot *generation_root_entry(const struct cuckoo_geometry *g, const struct generation *generation,
                              uint64_t root, uint64_t of_root)
{
  uint64_t others = (UINT64_C(1) << g->depth_limit) - 1;
  return &generation->slots[of_root ? cuckoo_roots(g) + root * others + of_root - 1 : root];
}

static inline slot *generation_directory_entry(const struct generation *generation, uint64_t index)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  uint64_t root = cuckoo_root_of_index(g, index);
  return generation_root_entry(g, generation, root, index - (root << g->depth_limit));
}

static inline unsigned directory_depth(const char *value)
{
  return (uintptr_t) value & 63;
}

static inline struct segment *directory_segment(directory_value value)
{
  return (struct segment *) (value - directory_depth(value));
}

static inline directory_value directory_value_of(struct segment *segment)
{
  return (directory_value) segment + segment->depth;
}

/* ---- the parts of a segment ---- */

static inline word *segment_words(const struct cuckoo_geometry *g, const struct segment *segment)
{
  return (word *) ((char *) segment + g->words_offset);
}

static inline struct stripe *segment_stripes(const struct segment *segment)
{
  return (struct stripe *) (segment + 1);
}

static inline struct stripe *stripe_of_bucket(const struct cuckoo_geometry *g,
                                              const struct segment *segment, uint32_t bucket)
{
  return &segment_stripes(segment)[bucket & g->stripe_mask];
}

/* Lanes in use; exact when no writer runs. */
uint64_t tamis__segment_used(const struct cuckoo_geometry *g, const struct segment *segment);

/* The stripes of two buckets, in the order of their indices; once if it is the same one. */
static inline void segment_lock(const struct cuckoo_geometry *g, const struct segment *segment,
                                uint32_t a, uint32_t b)
{
  uint32_t first = a & g->stripe_mask, second = b & g->stripe_mask;
  struct stripe *stripes = segment_stripes(segment);
  stripe_lock(&stripes[first < second ? first : second]);
  if (first != second)
    stripe_lock(&stripes[first < second ? second : first]);
}

static inline void segment_unlock(const struct cuckoo_geometry *g, const struct segment *segment,
                                  uint32_t a, uint32_t b)
{
  stripe_unlock(stripe_of_bucket(g, segment, a));
  if (((a ^ b) & g->stripe_mask) != 0)
    stripe_unlock(stripe_of_bucket(g, segment, b));
}

/* Whether there may be copies of a pair whose stripes the caller holds.
 * Relaxed: copies of this pair were put there under its stripes, which the caller has taken since;
 * those of other pairs do not matter. */
static inline bool has_duplicates(const struct segment *segment)
{
  return atomic_load_explicit(&segment->copies, memory_order_relaxed) != NULL;
}

/* The other bucket of an entry that stands in `bucket`. */
static inline uint32_t other_bucket(const struct cuckoo_geometry *g, const struct segment *segment,
                                    uint32_t bucket, uint64_t entry)
{
  return bucket ^ cuckoo_other_mask(g, cuckoo_fingerprint(g, entry, segment->prefix, segment->depth));
}

/* ---- where a key belongs in one generation ---- */

struct bucket_pair {
  struct generation *generation;
  const slot *root; /* the root's first slot, which is looked at first */
  directory_value root_value;
  const slot *slot; /* the one that decides */
  directory_value seen;  /* what the slot held */
  struct segment *segment;
  uint64_t index; /* of the slot */
  uint64_t entry; /* what the key would be in the segment */
  uint32_t lower, upper;
};

/* The first slot of the root decides whether the root has one segment: then it is that one for all keys of
 * the root, whatever their own slots hold while a join or a split goes through them.  So as long as
 * nothing has split, look-ups share one slot of a root.
 *
 * A pair is as good as what its two slots held when the first one was read: from the moment in which a
 * segment is marked, before any slot is changed, until the first slot is, nobody can change what it
 * holds.
 *
 * With the generation's geometry; a caller that knows a part of it as a constant gets shorter code. */
static inline struct bucket_pair pair_at(const struct cuckoo_geometry *g, struct generation *generation,
                                  struct cuckoo_address place)
{
  struct bucket_pair pair = {.generation = generation,
                      .root = generation_root_entry(g, generation, place.root, 0),
                      .index = place.slot,
                      .lower = place.lower,
                      .upper = place.upper};
  pair.slot = pair.root;
  pair.seen = pair.root_value = directory_load(pair.root);
  if (directory_depth(pair.seen) > 0) {
    HOOK(cuckoo_root_read);
    pair.slot =
        generation_root_entry(g, generation, place.root, cuckoo_top_bits(place.fingerprint, g->depth_limit));
    pair.seen = directory_load(pair.slot);
  }
  pair.segment = directory_segment(pair.seen);
  pair.entry = bucket_entry(&g->shape, place.fingerprint << directory_depth(pair.seen));
  return pair;
}

static inline struct bucket_pair pair_find_with(const struct cuckoo_geometry *g,
                                         struct generation *generation, uint64_t hash)
{
  return pair_at(g, generation, cuckoo_address(g, hash));
}

static inline struct bucket_pair pair_find(struct generation *generation, uint64_t hash)
{
  return pair_find_with(&generation->geometry, generation, hash);
}

/* Whether the directory still leads where it did. */
static inline bool pair_is_current(const struct bucket_pair *pair)
{
  return directory_load(pair->root) == pair->root_value && directory_load(pair->slot) == pair->seen;
}

/* ---- cuckoo_table.c ---- */

/* Memory within max_bytes, counted; *result says why it is NULL. */
void *tamis__cuckoo_allocate(struct cuckoo *c, size_t size, int *result);
void tamis__cuckoo_release(struct cuckoo *c, void *block, size_t size);

/* An empty segment that nobody knows yet. */
struct segment *tamis__segment_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                      uint64_t prefix, unsigned depth, int *result);

/* Frees one that nobody has ever known, or takes one that has left the directory away from writers
 * at once and from readers after a grace period. */
void tamis__segment_destroy(struct cuckoo *c, const struct cuckoo_geometry *g,
                            struct segment *segment);
void tamis__segment_retire(struct cuckoo *c, const struct cuckoo_geometry *g,
                           struct segment *segment);

/* After the grace period: for backlog. */
backlog_release tamis__segment_reclaim;

/* The segment's side table gets room for `n` more entries.  With duplicates_lock, or before the segment is
 * known. */
int tamis__segment_reserve_duplicates(struct cuckoo *c, struct segment *segment, size_t n);

/* What a side table knows an entry by: with the pair it belongs to. */
static inline uint64_t duplicates_key(uint32_t lower, uint64_t entry)
{
  return (uint64_t) lower << 32 | entry;
}

/* Counts one copy more of an entry of a pair, a stripe of which the caller holds.  TAMIS_EFULL also if
 * that would be one entry more than `most` in the side table. */
int tamis__segment_add_duplicate(struct cuckoo *c, struct segment *segment, uint64_t key, size_t most);

struct generation *tamis__generation_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                            int *result);
void tamis__generation_destroy(struct cuckoo *c, struct generation *generation);

/* ---- cuckoo_slabs.c ---- */

/* What slabs take beyond the segments in them while a first generation takes what it was planned to. */
uint64_t tamis__slab_heads(const struct cuckoo_geometry *g);

/* Before a filter that grows, and is planned to take so many bytes, makes its first segment. */
void tamis__slabs_init(struct cuckoo *c, const struct cuckoo_geometry *g, uint64_t planned);

/* Cleared memory for a segment, in a slab or by itself; *result says why it is NULL. */
struct segment *tamis__segment_memory_allocate(struct cuckoo *c, const struct cuckoo_geometry *g, int *result);
void tamis__segment_memory_release(struct cuckoo *c, struct segment *segment, size_t size);

/* ---- cuckoo_evict.c ---- */

/* Moves entries along until one of the key's buckets has a free lane.  True: there was a way, and
 * unless somebody else was faster there is room now; false: there is none.  Takes two stripes at a
 * time; the caller holds none.  When the segment leaves the directory meanwhile, true. */
bool tamis__evict(const struct cuckoo_geometry *g, struct segment *segment, uint32_t lower,
                  uint32_t upper);

/* Whether there is a way at the moment. */
bool tamis__path_exists(const struct cuckoo_geometry *g, const struct segment *segment,
                        uint32_t lower, uint32_t upper);

/* Makes room where there is no way, by counting copies that stand in lanes: in all buckets that an
 * eviction would try.  TAMIS_EFULL: there are none.  The caller holds no stripe, and the segment cannot
 * go away meanwhile. */
int tamis__fold_duplicates(struct cuckoo *c, const struct bucket_pair *full);

/* ---- cuckoo_growth.c ---- */

/* There was no room at a pair: makes some, unless somebody else has.  TAMIS_OK: try again.  The caller
 * holds no stripe and is no reader. */
int tamis__grow(struct cuckoo *c, const struct bucket_pair *full);

/* Entries have left the segment of a pair: joins it with its sibling if both together are small, or
 * drops it if it is empty and old.  The caller holds no stripe and is no reader.  Fails in silence:
 * nothing hangs on it. */
void tamis__shrink(struct cuckoo *c, const struct bucket_pair *sparse);

#endif
