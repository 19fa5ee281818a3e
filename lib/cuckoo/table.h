/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the structures of a cuckoo filter.
 *
 *    struct cuckoo ──► generation 0 ──► directory ──► segment ──► buckets (words of lanes)
 *                      generation 1 ──► directory      ├ stripes (lock, version)
 *                                                      └ duplicate counts
 */
#ifndef TAMIS_LIB_CUCKOO_TABLE_H
#define TAMIS_LIB_CUCKOO_TABLE_H

#include "base/compiler.h"
#include "base/counter.h"
#include "base/filter.h"
#include "base/fullness.h"
#include "base/reclaim.h"
#include "base/saved.h"
#include "base/stripe.h"
#include "base/word.h"
#include "cuckoo/geometry.h"
#include "table/counts.h"

/* The stripes and then the buckets of a segment follow this struct in memory.  After the segment is
 * published, only `retired`, the lock and the atomic members change. */
struct segment {
  _Alignas(16) struct retired retired; /* first, as base/reclaim.h requires */
  uint64_t prefix; /* the fingerprint bits that all its keys have in common, from bit 63 down */
  uint8_t depth;   /* the number of splits between the root's first segment and this one */
  bool class;      /* after the uneven split (geometry.c): 0 or 1, the class of all its keys */
  fullness_vacated vacated; /* `vacated` and `fullness`: see base/fullness.h */
  fullness fullness;
  plane duplicates;
  /* LOCK cuckoo.duplicates_lock (order 4): protects the duplicate counts of a segment; held for a
   * change or a copy of them, and while memory for them is allocated.  (A split or a join reads the
   * counts under all stripes of the segment instead.) */
  _Alignas(8) struct lock duplicates_lock; /* the alignment gives `copying` a fixed offset */
  _Atomic uint32_t copying; /* the number of lanes taken by copies of keys, and a flag: segment.h */
  _Atomic uint64_t waiting; /* the number of calls that wait for a stripe of the segment */
  struct slab *slab;        /* NULL: the segment is not in a slab */
};

_Static_assert(sizeof(struct segment) == CUCKOO_SEGMENT_HEADER, "cache lines stay aligned");
_Static_assert(sizeof(struct stripe) == CUCKOO_STRIPE_BYTES, "the geometry counts with it");

/* The value of a directory entry: a segment's address, a multiple of 16, plus the segment's depth.
 * A root's word may instead be NULL, or the address of an array plus its k (directory.h). */
typedef char *directory_value;
typedef _Atomic(directory_value) directory_entry;
enum { DIRECTORY_ENTRY_BYTES = 8 }; /* on every machine, whatever the width of a pointer */

enum { GROWTH_STRIPES = 16 };

/* ENTRIES counts the lanes in use, and DUPLICATES the counted copies, of each generation.  The
 * other counters are statistics of the whole filter, in the first generation only. */
enum generation_counter {
  ENTRIES,
  DUPLICATES,
  EVICTIONS,
  FAILED_SEARCHES,
  REFUSED_ADDS,
  LOOKUP_RETRIES,
  LONGEST_GROWTH /* in nanoseconds */
};

/* A block of slots for segments.  The slots follow the struct in memory. */
struct slab {
  /* This slab's neighbours in the list of slabs that have a free slot. */
  _Alignas(64) struct slab *next;
  struct slab *previous;
  struct slabs *of;
  uint64_t number;      /* the number of slabs that were allocated before this one */
  struct retired *free; /* list of the slots that were given back */
  unsigned used;        /* the number of slots in use */
  unsigned touched;     /* the number of slots, from the first on, that were ever used */
};

struct slabs {
  /* LOCK cuckoo.slabs (order 5): protects the list and the slabs; held for a few steps. */
  struct lock lock;
  /* LOCK cuckoo.allocating (order 2): lets one thread at a time allocate a slab; held for that
   * allocation. */
  struct lock allocating;
  struct slab *open;  /* list of the slabs with a free slot */
  uint64_t allocated; /* the number of slabs that were ever allocated */
  /* The members below do not change after the first segment is created. */
  uint64_t slot_bytes;  /* the bytes of a segment */
  unsigned slots;       /* the number of slots in a slab */
  uint32_t stripe_mask; /* the number of stripes of each segment, minus 1 */
  /* The planned bytes of the whole filter (tamis_bytes_for()), or 0 if its plan has no slabs. */
  uint64_t planned;
  uint64_t large; /* a filter beyond its plan allocates slabs only from this many bytes on */
};

/* The directory entries of a root that has split: directory.h. */
struct directory_array {
  _Alignas(16) struct retired retired; /* first, as base/reclaim.h requires */
  uint64_t unused[2];                  /* padding: saved numbers include the struct's size */
  directory_entry entry[];
};

/* The size with which a block is retired says what the block is: a segment is retired with its
 * size, which is even; an array is retired with its size plus RETIRED_ARRAY, which is odd. */
enum { RETIRED_ARRAY = 1 };

/* In memory, a struct slabs follows if `has_slabs`; then, if there is one root, the root's word. */
struct generation {
  struct cuckoo_geometry geometry;
  WIDE directory_entry *directory; /* a word for each root */
  WIDE struct counter_shard *shards;
  _Atomic uint64_t segments;
  /* LOCK cuckoo.own_growth (order 1): in the first generation, replaces cuckoo.growth until there
   * is a struct cuckoo_growth; held like cuckoo.growth, and while the struct is created. */
  struct lock own_growth;
  uint8_t counter_mask; /* the number of shards, minus 1 */
  uint8_t number;       /* 0 for the first generation, 1 for the second, and so on */
  /* The greatest depth of a split's children.  Some unions lower this limit (unite_plan.c). */
  _Atomic uint8_t split_limit;
  bool has_slabs;
};

_Static_assert(sizeof(struct generation) == 88, "no byte is unused");

/* The additional data of a mapped filter, whose segments are in the file. */
struct mapped {
  struct saved_mapping file;
  struct filter_operations operations;
};

/* The *growth* of a filter: what a growable filter needs from its first growth on.
 * tamis__growth_provide() creates it.  A filter with several roots has it from the start. */
struct cuckoo_growth {
  /* If the filter has more than i generations, element i is complete and never changes.  Element 0
   * is unused, because the first generation is in struct cuckoo. */
  union {
    struct generation *generation[CUCKOO_MAX_GENERATIONS];
    /* makes the union equally large on all machines, as WIDE does for a member */
    uint64_t generation_room[CUCKOO_MAX_GENERATIONS];
  };
  /* LOCK cuckoo.growth (order 1): protects the directory, and keeps its segments and arrays alive;
   * held for a step of growth, or the copy of a segment.  Stripe i protects the roots whose number
   * modulo GROWTH_STRIPES is i or, in a generation with few roots, a part of a root.  A call that
   * changes the directory entries of a segment takes all stripes that protect these entries.  A
   * call that replaces an array takes all stripes of the array's root. */
  struct lock stripe[GROWTH_STRIPES];
  /* LOCK cuckoo.opening (order 2): protects the list of generations, and the excess of unions; held
   * while a generation is opened, or the first segment of a root is published. */
  struct lock opening;
  struct cuckoo_geometry after;    /* the geometry of generation 0 after the uneven split */
  _Atomic uint64_t after_segments; /* the number of segments with the geometry `after` */
  _Atomic uint64_t splits, joins;
  _Atomic bool put_off; /* a shrink was put off (shrink.c); relaxed: calls may see the value late */
  _Atomic bool united;  /* a union has begun: see is_skewed() in growth.c */
  /* The rate that unions have added beyond the plan (unite_plan.c).  It changes under `opening`. */
  _Atomic double excess;
  struct backlog backlog;
};

/* A small filter is a single block (create.c shows its parts), without the data that only growth
 * needs, because a server may keep a filter for each of a million users.  The *home* is the part of
 * that block for the filter's first segment; no later segment uses it. */
struct cuckoo {
  struct tamis_filter head;
  uint64_t capacity;
  double fpp;
  uint64_t max_bytes; /* 0 means no limit */
  _Atomic uint64_t bytes;
  union {
    WIDE _Atomic(struct cuckoo_growth *) growth; /* in a growable filter; see cuckoo_growth() */
    WIDE struct mapped *mapped;                  /* in a fixed filter; NULL if it is not mapped */
  };
  WIDE _Atomic(struct cuckoo_snapshot *) snapshots; /* a list that changes under snapshots_lock */
  _Atomic unsigned generations;
  fullness_rooms rooms; /* how often memory has become free: base/fullness.h */
  /* LOCK cuckoo.snapshots_lock (order 5): protects the list of snapshots, their cursors and their
   * notes of removed keys; held for a few steps. */
  struct lock snapshots_lock;
  bool growable;
  unsigned char cleared_bits; /* blocks of >= 2^cleared_bits bytes come zeroed; 0: no blocks do */
  _Atomic bool counts_copies; /* new segments count copies: segment.h */
  bool has_home;
  struct generation first; /* the last member, because data of the generation follow */
};

_Static_assert(sizeof(struct cuckoo) == 192, "no byte is unused");

static inline struct cuckoo *cuckoo_of(tamis_filter *f)
{
  return (struct cuckoo *) f;
}

static inline const struct cuckoo *const_cuckoo_of(const tamis_filter *f)
{
  return (const struct cuckoo *) f;
}

/* The growth of a growable filter, or NULL before tamis__growth_provide() has created it.
 * ORDER growth.load (acquire)
 *   pairs with     growth.publish
 *   makes visible  the locks, lists and counters that tamis__growth_provide() has initialized
 *   if weakened    a thread that finds a new struct could see its locks and lists uninitialized
 *   checked by     mutants/growth_published_relaxed, mutants/growth_loaded_relaxed */
static inline struct cuckoo_growth *cuckoo_growth(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->growth, memory_order_acquire);
}

/* The growth, or NULL if the filter is fixed, or has not grown yet. */
static inline struct cuckoo_growth *cuckoo_has_growth(const struct cuckoo *c)
{
  return c->growable ? cuckoo_growth(c) : NULL;
}

static inline const struct mapped *cuckoo_mapped(const struct cuckoo *c)
{
  return c->growable ? NULL : c->mapped;
}

/* The value of an atomic member of the filter's struct cuckoo_growth, or 0 without this struct.
 * (Relaxed: none of these members publishes other data.) */
#define cuckoo_growth_figure(c, member)                               \
  __extension__({                                                     \
    const struct cuckoo_growth *of = cuckoo_has_growth(c);            \
    of ? atomic_load_explicit(&of->member, memory_order_relaxed) : 0; \
  })

/* ---- generations ---- */

static inline const struct cuckoo *generation_cuckoo(const struct generation *first)
{
  return (const struct cuckoo *) (const void *) ((const char *) first -
                                                 offsetof(struct cuckoo, first));
}

/* The geometry of the first generation's segments after the uneven split.  (Relaxed: the caller has
 * found such a segment, or creates one, so it has already seen c->growth.) */
static inline const struct cuckoo_geometry *
generation_geometry_after(const struct generation *generation)
{
  const struct cuckoo *c = generation_cuckoo(generation);
  return &atomic_load_explicit(&c->growth, memory_order_relaxed)->after;
}

/* A statistic: how many segments come from an uneven split; counted only in generation 0. */
static inline uint64_t cuckoo_after_segments(const struct generation *generation)
{
  return generation->number > 0
             ? 0
             : cuckoo_growth_figure(generation_cuckoo(generation), after_segments);
}

static inline const struct cuckoo_geometry *generation_geometry(const struct generation *generation,
                                                                unsigned depth)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  return depth <= g->uneven_at || g->later ? g : generation_geometry_after(generation);
}

static inline const struct cuckoo_geometry *segment_geometry(const struct generation *generation,
                                                             const struct segment *segment)
{
  return generation_geometry(generation, segment->depth);
}

/* Returns generation i.  The caller must have read that there are more than i generations, or must
 * be appending generation i.  (Relaxed: the pointer became visible with that number.) */
static inline struct generation *cuckoo_generation(const struct cuckoo *c, unsigned i)
{
  return i == 0 ? (struct generation *) &c->first
                : atomic_load_explicit(&c->growth, memory_order_relaxed)->generation[i];
}

/* ORDER generations.load (seq_cst)
 *   pairs with     generations.publish
 *   makes visible  the generations below the number read
 *   if weakened    two threads could each miss the other's add, as if directory.load were weakened
 *   checked by     mutants/directory_published_relaxed, mutants/generations_load_acquire */
static inline unsigned cuckoo_generations(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->generations, memory_order_seq_cst);
}

static inline bool generation_is_newest(const struct cuckoo *c, const struct generation *generation)
{
  return generation->number == cuckoo_generations(c) - 1;
}

/* Relaxed: the limit publishes no other data. */
static inline unsigned generation_split_limit(const struct generation *generation)
{
  return atomic_load_explicit(&generation->split_limit, memory_order_relaxed);
}

static inline double generation_rate(const struct generation *generation, unsigned depth)
{
  return cuckoo_geometry_rate(&generation->geometry, depth);
}

static inline double cuckoo_rate_left(const struct cuckoo *c, unsigned generations)
{
  double left = c->fpp - cuckoo_growth_figure(c, excess);
  for (unsigned i = 0; i < generations; i++)
    left -=
        generation_rate(cuckoo_generation(c, i), generation_split_limit(cuckoo_generation(c, i)));
  return left;
}

FORCE_INLINE struct counters generation_counters(const struct generation *generation)
{
  return (struct counters){generation->shards, generation->counter_mask};
}

/* The number of shards of a generation's counters, chosen by the size of a table with one segment
 * at each root.  A later generation has at most 16 shards, 1 KiB together. */
static inline unsigned cuckoo_shards(const struct cuckoo_geometry *g)
{
  unsigned shards = usual_shards(cuckoo_roots(g) * cuckoo_segment_bytes(g));
  return g->later && shards > 16 ? 16 : shards;
}

/* Returns a counter's value: 0 if its shards' sum is negative, as it may be during changes. */
static inline uint64_t cuckoo_count(const struct generation *generation,
                                    enum generation_counter which)
{
  const struct counters counters = generation_counters(generation);
  int64_t sum = (int64_t) tamis__counter_sum(&counters, which);
  return sum > 0 ? (uint64_t) sum : 0;
}

FORCE_INLINE void cuckoo_count_change(const struct generation *generation,
                                      enum generation_counter which, int64_t change)
{
  if (counter_is_owned_by_mask(generation->counter_mask))
    counter_add_owned(generation->shards, which, (uint64_t) change);
  else
    tamis__counter_add_shared(&(struct counters){.shards = generation->shards}, which,
                              (uint64_t) change);
}

/* Counts an event of the whole filter.  Only slow calls count events. */
static inline void cuckoo_note(const struct cuckoo *c, enum generation_counter which)
{
  const struct counters counters = generation_counters(&c->first);
  tamis__counter_note(&counters, which);
}

/* ---- readers ---- */

/* Enters a read section.  A fixed filter needs none, because it never releases its segments. */
static inline reader_token cuckoo_enter(const struct cuckoo *c)
{
  return c->growable ? reader_enter() : NULL;
}

static inline void cuckoo_leave(const struct cuckoo *c, reader_token token)
{
  if (c->growable)
    reader_leave(token);
}

/* Returns the memory of the first segment in a small filter's block (its home), or NULL. */
static inline struct segment *cuckoo_home(const struct cuckoo *c)
{
  return c->has_home ? (struct segment *) ((char *) c - cuckoo_home_bytes(&c->first.geometry))
                     : NULL;
}

/* ---- the parts of a segment ---- */

static inline word *segment_words(const struct cuckoo_geometry *g, const struct segment *segment)
{
  return (word *) ((char *) segment + g->words_offset);
}

/* LOCK cuckoo.stripes (order 3): protect the buckets of a segment; calls take them in the order of
 * generations and, in a segment, in the order of indices (a join takes the stripes of child 0
 * first); held for a change of one or two buckets; a copy of a segment holds all its stripes. */
static inline struct stripe *segment_stripes(const struct segment *segment)
{
  return (struct stripe *) (segment + 1);
}

static inline struct stripe *stripe_of_bucket(const struct cuckoo_geometry *g,
                                              const struct segment *segment, uint64_t bucket)
{
  return &segment_stripes(segment)[bucket & g->stripe_mask];
}

/* Waits for a stripe, and takes it, as segment.h describes.  `inside` says whether the caller is in
 * a read section.  Returns false, without the stripe, if the segment has left the directory; then
 * the caller must not touch the segment again.  (No geometry is passed: the compiler could then
 * keep no part of the caller's copy in registers.) */
NEVER_INLINE bool tamis__segment_wait(bool inside, struct segment *segment, struct stripe *stripe);

/* Wait like tamis__segment_wait() for both stripes or, if the caller holds the first, for the
 * second.  If they return false, the caller holds no stripe. */
NEVER_INLINE bool tamis__segment_wait_both(bool inside, struct segment *segment,
                                           struct stripe *first, struct stripe *second);
NEVER_INLINE bool tamis__segment_wait_second(bool inside, struct stripe *first,
                                             struct stripe *second);

/* Takes the stripes of two buckets in ascending order, or the one stripe that the buckets share.
 * Returns false, without a stripe, if the segment has left the directory. */
FORCE_INLINE bool segment_lock(const struct cuckoo_geometry *g, struct segment *segment, uint64_t a,
                               uint64_t b)
{
  uint64_t i = a & g->stripe_mask, j = b & g->stripe_mask;
  uint64_t first = i < j ? i : j, second = i ^ j ^ first; /* `second` is the larger of i and j */
  struct stripe *stripes = segment_stripes(segment);
  if (__builtin_expect(!stripe_trylock(&stripes[first]), 0))
    return tamis__segment_wait_both(g->shape.ages, segment, &stripes[first], &stripes[second]);
  if (first != second && __builtin_expect(!stripe_trylock(&stripes[second]), 0))
    return tamis__segment_wait_second(g->shape.ages, &stripes[first], &stripes[second]);
  return true;
}

FORCE_INLINE void segment_unlock(const struct cuckoo_geometry *g, const struct segment *segment,
                                 uint64_t a, uint64_t b)
{
  stripe_unlock(stripe_of_bucket(g, segment, a));
  if (((a ^ b) & g->stripe_mask) != 0)
    stripe_unlock(stripe_of_bucket(g, segment, b));
}

static inline uint64_t other_bucket(const struct cuckoo_geometry *g, const struct segment *segment,
                                    uint64_t bucket, uint64_t entry)
{
  return bucket ^
         cuckoo_other_mask(g, cuckoo_fingerprint(g, entry, segment->prefix, segment->depth));
}

/* Adds `change` to a stripe's number of lanes in use.  The caller must hold the stripe.  (In a
 * fixed filter, stripes do not count lanes, because plain adds hold no stripe.) */
FORCE_INLINE void segment_use(const struct cuckoo_geometry *g, struct stripe *stripe,
                              int32_t change)
{
  if (g->shape.ages)
    stripe_use(stripe, change);
}

/* The number of a segment's lanes in use; exact while no writer runs. */
uint64_t tamis__segment_used(const struct cuckoo_geometry *g, const struct segment *segment);

static inline void segment_lock_all(const struct cuckoo_geometry *g, struct segment *segment)
{
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    stripe_lock(&segment_stripes(segment)[i]);
}

static inline void segment_unlock_all(const struct cuckoo_geometry *g, struct segment *segment)
{
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    stripe_unlock(&segment_stripes(segment)[i]);
}

/* If this returns false, no bucket whose stripe the caller holds has a duplicate count. */
static inline bool has_duplicates(const struct segment *segment)
{
  return plane_counts(&segment->duplicates) != NULL;
}

/* ---- full segments: base/fullness.h ---- */

/* Must be called after an entry has left a bucket.  Removes a full mark that may be wrong now. */
static inline void segment_has_room(const struct cuckoo_geometry *g, struct segment *segment)
{
  if (__builtin_expect(fullness_state(&segment->fullness) != 0, 0))
    fullness_has_room(&segment->fullness, &segment->vacated, cuckoo_buckets(g));
}

static inline bool segment_is_full(const struct cuckoo *c, const struct segment *segment)
{
  return fullness_is(&segment->fullness, FULLNESS_FULL, fullness_counted(&c->rooms));
}

/* Whether a copy that finds no free lane and cannot be counted is refused without a search. */
static inline bool segment_refuses_copies(const struct cuckoo *c, const struct segment *segment)
{
  return segment_is_full(c, segment) ||
         fullness_is(&segment->fullness, FULLNESS_COPIES, fullness_counted(&c->rooms));
}

#endif
