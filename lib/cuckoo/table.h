/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what a cuckoo filter consists of.
 *
 *    struct cuckoo ──► generation 0 ──► directory ──► segment ──► buckets (words of lanes)
 *                      generation 1 ──► directory      ├ stripes (lock, version)
 *                                                      └ duplicate counts
 *
 * The files of this folder, each of which includes only those above it:
 *
 *    bucket.h      layer 0: a bucket as the value of one word
 *    geometry.*    layer 0: sizes, and which root, buckets and fingerprint a hash has
 *    table.h       the structures
 *    directory.h   from a root and a fingerprint to a segment; a key's bucket pair
 *    memory.*      the filter's memory within max_bytes
 *    slabs.*       where the segments of a large filter that grows have their memory
 *    segment.*     creates, takes down and retires segments; their duplicate counts
 *    generation.*  creates, opens and takes down generations
 *    evict.*       makes room in a segment by moving entries
 *    fold.*        makes room in a segment by counting copies
 *    fill.*        fills the new segments of a split or a join
 *    snapshot.*    copies the segments of a filter that is in use, one after the other;
 *                  snapshot_mapped.c those of one that is mapped
 *    change.*      what one call changes in the directory
 *    growth.*, shrink.c  make room by splitting a segment or opening a generation; give it back
 *    pair.*        the stripes of a key's bucket pairs, and the entry there that matches best
 *    lookup.*      contains; lookup_fast.c: the same, faster, with one generation
 *    vectors.*     batches of contains on processors that can compute with vectors
 *    copies.*      count
 *    insert.*      add and unique add
 *    remove.*      remove
 *    unite_plan.*  whether two filters have a union, and what it costs of the rate
 *    unite.*       union with another filter
 *    validate.*    whether the structure is whole, for tests
 *    create.*      creates and takes down filters
 *    saved_head.c, save.*, saved_words.h, load.c  saved, loaded and mapped filters
 *    cuckoo.*      the kind: sizes, creation, figures
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
#include "table/plane.h"

/* A segment: its stripes and its buckets follow in memory.  The plain members but `retired` do not
 * change after the segment is published. */
struct segment {
  _Alignas(16) struct retired retired; /* first: see reclaim.h */
  uint64_t prefix; /* the first bits of all fingerprints in it, from bit 63 on */
  uint8_t depth;
  bool class;               /* of all its keys, if it comes from the uneven split */
  fullness_vacated vacated; /* this and the next: whether it is known to be full */
  fullness fullness;
  plane duplicates; /* changes under duplicates_lock */
  /* LOCK cuckoo.duplicates_lock (order 4): protects the duplicate counts of a segment; held for a
   * change or a copy of them, and while memory for them is allocated; but a split, a join or the
   * copy of a segment reads them under all of its stripes. */
  _Alignas(8) struct lock duplicates_lock; /* where files have it, on every machine */
  _Atomic uint32_t copying; /* how many copies have lanes, and whether they are counted: fold.h */
  _Atomic uint64_t waiting; /* calls that wait for a stripe */
  struct slab *slab;        /* the slab that the segment has a slot in; NULL: none */
};

_Static_assert(sizeof(struct segment) == CUCKOO_SEGMENT_HEADER, "cache lines stay aligned");
_Static_assert(sizeof(struct stripe) == CUCKOO_STRIPE_BYTES, "the geometry counts with it");

/* The value of a directory entry: a segment's address plus its depth, which fits in because
 * segments are aligned to 16 bytes; so readers need not read the segment for it.  That of a root
 * may be the address of an array plus its k (directory.h).  NULL: there is no segment. */
typedef char *directory_value;
typedef _Atomic(directory_value) directory_entry;
enum { DIRECTORY_ENTRY_BYTES = 8 }; /* that are allocated for it, on every machine: see WIDE */

enum { GROWTH_STRIPES = 16 };

/* ENTRIES: lanes in use.  DUPLICATES: copies that are counted.  The others are figures of the
 * filter, which the first generation counts (cuckoo_note()). */
enum generation_counter {
  ENTRIES,
  DUPLICATES,
  EVICTIONS,
  FAILED_SEARCHES,
  REFUSED_ADDS,
  LOOKUP_RETRIES,
  LONGEST_GROWTH /* nanoseconds */
};

/* The slots of segments follow in memory. */
struct slab {
  /* The neighbours in the list of slabs that have a free slot. */
  _Alignas(64) struct slab *next;
  struct slab *previous;
  struct slabs *of;
  uint64_t number;      /* slabs that were allocated before this one */
  struct retired *free; /* slots that were given back */
  unsigned used;        /* slots in use */
  unsigned touched;     /* slots, from the first on, that have been in use at some time */
};

/* Those of a generation. */
struct slabs {
  /* LOCK cuckoo.slabs (order 5): protects the list and the slabs; held for a few steps. */
  struct lock lock;
  /* LOCK cuckoo.allocating (order 2): gives one slab at a time to all who need one; held by the
   * thread that allocates it. */
  struct lock allocating;
  struct slab *open;  /* slabs with a free slot */
  uint64_t allocated; /* slabs so far */
  /* These do not change: */
  uint64_t slot_bytes;  /* of a segment */
  unsigned slots;       /* in a slab; 0: segments have no slots */
  uint32_t stripe_mask; /* of a segment */
  uint64_t planned; /* bytes of the filter, as tamis_bytes_for() says; 0 if it has outgrown them */
  bool planned_large; /* slabs are meant to be part of these */
  uint64_t large;     /* bytes from which on a filter that outgrows the plan allocates slabs */
};

/* The entries of a root whose segments have split: see directory.h. */
struct directory_array {
  _Alignas(16) struct retired retired; /* first: see reclaim.h */
  /* Segments that need an array of this size.  Relaxed: if there are none, the array is replaced by
   * a smaller one, under all growth stripes of the root. */
  _Atomic uint64_t deepest;
  directory_entry entry[];
};

/* An array is retired with a size that says so: its bytes and this.  Sizes of segments are even. */
enum { RETIRED_ARRAY = 1 };

/* The slabs follow in memory, if the generation has any; then the only root's word. */
struct generation {
  struct cuckoo_geometry geometry;
  WIDE directory_entry *directory; /* a word for each root */
  WIDE struct counter_shard *shards;
  _Atomic uint64_t segments;
  /* LOCK cuckoo.own_growth (order 1): that of the first generation is all of cuckoo.growth in a
   * filter that has no growth; held as that, and while the growth is made. */
  struct lock own_growth;
  uint8_t counter_mask; /* number of shards - 1 */
  uint8_t number;       /* of generations before it */
  /* How often segments may split: as the geometry says, or less after a union (unite_plan.c). */
  _Atomic uint8_t split_limit;
  bool has_slabs;
};

_Static_assert(sizeof(struct generation) == 88, "no byte is unused");

/* A filter whose segments are part of a file that is mapped: look-ups read them there. */
struct mapped {
  struct saved_mapping file;
  struct filter_operations operations;
};

/* What a filter that grows needs from its first growth on: tamis__growth_provide() makes it.  A
 * filter that is to have several roots has it from the start. */
struct cuckoo_growth {
  /* Generations are only ever appended.  Those below the count are complete.  The first one is
   * where struct cuckoo says. */
  union {
    struct generation *generation[CUCKOO_MAX_GENERATIONS];
    uint64_t generation_room[CUCKOO_MAX_GENERATIONS]; /* as much as on other machines: see WIDE */
  };
  /* LOCK cuckoo.growth (order 1): protects the directory, and keeps its segments and arrays; held
   * for a step of growth, or the copy of a segment.  A stripe protects the roots with its number
   * modulo GROWTH_STRIPES or, where there are few roots, a part of one.  Who changes what the
   * directory says of a segment holds all stripes of its part, and who replaces an array all of its
   * root. */
  struct lock stripe[GROWTH_STRIPES];
  /* LOCK cuckoo.opening (order 2): protects the list of generations, and what unions take of the
   * rate; held while a generation is opened, or the first segment of a root is published. */
  struct lock opening;
  /* That of the segments of the first generation which come from the uneven split, and how many
   * there are (a figure). */
  struct cuckoo_geometry after;
  _Atomic uint64_t after_segments;
  _Atomic uint64_t splits, joins;
  _Atomic bool
      put_off; /* there may be segments to join, or to drop; relaxed: a later call sees it */
  _Atomic uint32_t unions; /* under way, or ended too early: see is_skewed() in growth.c */
  /* The rate that unions have brought beyond that of other adds (unite_plan.c); changed with
   * `opening` held. */
  _Atomic double excess;
  struct backlog backlog;
};

/* A server may keep a filter for each of a million users.  So a small filter is one block (create.c
 * says of what), and what it does not need before it grows is not in it.
 *
 * Its *home* is the part of that block which holds its first segment, and nothing after that. */
struct cuckoo {
  struct tamis_filter head;
  uint64_t capacity;
  double fpp;
  uint64_t max_bytes; /* 0: no limit */
  _Atomic uint64_t bytes;
  union {
    WIDE _Atomic(struct cuckoo_growth *) growth; /* of a filter that grows; see cuckoo_growth() */
    WIDE struct mapped *mapped;                  /* of one that does not; NULL: it is not mapped */
  };
  WIDE _Atomic(struct cuckoo_snapshot *)
      snapshots; /* that are being taken; changed under the lock */
  _Atomic unsigned generations;
  fullness_rooms rooms; /* how often memory has come free */
  /* LOCK cuckoo.snapshots_lock (order 5): protects the list of snapshots, their cursors and notes;
   * held for a few steps. */
  struct lock snapshots_lock;
  bool growable;
  unsigned char cleared_bits; /* blocks of 2^so many bytes and more come cleared; 0: none do */
  _Atomic bool counts_copies; /* segments are folded because of many copies: see fold.h */
  bool has_home;
  struct generation first; /* last, as more of it follows in memory */
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

/* Of a filter that grows, and for which tamis__growth_provide() has been called.
 * ORDER growth.load (acquire)
 *   pairs with     growth.publish
 *   makes visible  what tamis__growth_provide() has written: locks, lists and figures
 *   if weakened    a lock or a list without a value is used
 *   checked by     mutants/growth_published_relaxed, mutants/growth_loaded_relaxed */
static inline struct cuckoo_growth *cuckoo_growth(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->growth, memory_order_acquire);
}

/* NULL: the filter does not grow, or has not grown yet. */
static inline struct cuckoo_growth *cuckoo_has_growth(const struct cuckoo *c)
{
  return c->growable ? cuckoo_growth(c) : NULL;
}

static inline const struct mapped *cuckoo_mapped(const struct cuckoo *c)
{
  return c->growable ? NULL : c->mapped;
}

/* Figures: relaxed. */
static inline uint64_t cuckoo_splits(const struct cuckoo *c)
{
  const struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return growth ? atomic_load_explicit(&growth->splits, memory_order_relaxed) : 0;
}

static inline uint64_t cuckoo_joins(const struct cuckoo *c)
{
  const struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return growth ? atomic_load_explicit(&growth->joins, memory_order_relaxed) : 0;
}

/* ---- generations ---- */

/* The geometry of segments of the first generation that come from the uneven split.  (Relaxed: the
 * caller knows of such a segment, or is to make one, and has seen the growth before.) */
static inline const struct cuckoo_geometry *
generation_geometry_after(const struct generation *generation)
{
  const struct cuckoo *c = (const struct cuckoo *) (const void *) ((const char *) generation -
                                                                   offsetof(struct cuckoo, first));
  return &atomic_load_explicit(&c->growth, memory_order_relaxed)->after;
}

/* That of segments of a depth. */
static inline const struct cuckoo_geometry *generation_geometry(const struct generation *generation,
                                                                unsigned depth)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  return depth <= g->uneven_at || g->later ? g : generation_geometry_after(generation);
}

/* How many segments with lanes of another width a generation may have.  (A figure.) */
static inline uint64_t cuckoo_after_segments(const struct generation *generation)
{
  const struct cuckoo *c = (const struct cuckoo *) (const void *) ((const char *) generation -
                                                                   offsetof(struct cuckoo, first));
  if (generation->number > 0)
    return 0;
  const struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return growth ? atomic_load_explicit(&growth->after_segments, memory_order_relaxed) : 0;
}

static inline const struct cuckoo_geometry *segment_geometry(const struct generation *generation,
                                                             const struct segment *segment)
{
  return generation_geometry(generation, segment->depth);
}

/* The caller has read a larger count of generations, or appends this one.  (Relaxed: the count has
 * made visible what precedes it.) */
static inline struct generation *cuckoo_generation(const struct cuckoo *c, unsigned i)
{
  return i == 0 ? (struct generation *) &c->first
                : atomic_load_explicit(&c->growth, memory_order_relaxed)->generation[i];
}

/* ORDER generations.load (seq_cst)
 *   pairs with     generations.publish
 *   makes visible  the generations below the count
 *   if weakened    acquire would keep that; but see directory.load
 *   checked by     mutants/directory_published_relaxed, mutants/generations_load_acquire */
static inline unsigned cuckoo_generations(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->generations, memory_order_seq_cst);
}

static inline bool generation_is_newest(const struct cuckoo *c, const struct generation *generation)
{
  return generation->number == cuckoo_generations(c) - 1;
}

/* Relaxed, both: limits of what comes later, on which no other data hangs. */
static inline unsigned generation_split_limit(const struct generation *generation)
{
  return atomic_load_explicit(&generation->split_limit, memory_order_relaxed);
}

static inline double cuckoo_excess(const struct cuckoo *c)
{
  const struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return growth ? atomic_load_explicit(&growth->excess, memory_order_relaxed) : 0;
}

static inline double generation_rate(const struct generation *generation, unsigned depth)
{
  return cuckoo_geometry_rate(&generation->geometry, depth);
}

/* The part of the promised rate that a filter with so many generations leaves. */
static inline double cuckoo_rate_left(const struct cuckoo *c, unsigned generations)
{
  double left = c->fpp - cuckoo_excess(c);
  for (unsigned i = 0; i < generations; i++)
    left -=
        generation_rate(cuckoo_generation(c, i), generation_split_limit(cuckoo_generation(c, i)));
  return left;
}

FORCE_INLINE struct counters generation_counters(const struct generation *generation)
{
  return (struct counters){generation->shards, generation->counter_mask};
}

/* The shards of a generation's counters, for a segment at each root: what the generation grows to
 * has no bearing on what it takes at first.  A later generation, to which few filters come, has no
 * more than 1 KiB. */
static inline unsigned cuckoo_shards(const struct cuckoo_geometry *g)
{
  unsigned shards = tamis__counter_shards(cuckoo_roots(g) * cuckoo_segment_bytes(g));
  return g->later && shards > 16 ? 16 : shards;
}

/* A sum over shards may be taken between an add in one shard and a remove in another: then it can
 * be negative. */
static inline uint64_t cuckoo_count(const struct generation *generation,
                                    enum generation_counter which)
{
  const struct counters counters = generation_counters(generation);
  int64_t sum = (int64_t) tamis__counter_sum(&counters, which);
  return sum > 0 ? (uint64_t) sum : 0;
}

FORCE_INLINE void cuckoo_count_change(const struct generation *generation,
                                      enum generation_counter which, int change)
{
  if (counter_is_owned_by_mask(generation->counter_mask))
    counter_add_owned(generation->shards, which, (uint64_t) (int64_t) change);
  else
    tamis__counter_add_shared(&(struct counters){.shards = generation->shards}, which,
                              (uint64_t) (int64_t) change);
}

/* Counts something that is slow anyway. */
static inline void cuckoo_note(const struct cuckoo *c, enum generation_counter which)
{
  const struct counters counters = generation_counters(&c->first);
  tamis__counter_note(&counters, which);
}

/* ---- readers ---- */

/* The segments of a filter that does not grow stay for ever, so it needs no read sections. */
static inline reader_token cuckoo_enter(const struct cuckoo *c)
{
  return c->growable ? reader_enter() : NULL;
}

static inline void cuckoo_leave(const struct cuckoo *c, reader_token token)
{
  if (c->growable)
    reader_leave(token);
}

/* ---- the home ---- */

/* NULL: there is none. */
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

/* LOCK cuckoo.stripes (order 3): protect the buckets of a segment, and are taken by generation, and
 * within a segment by index (a join takes those of child 0 first); held for a change of one or two
 * buckets, and all of a segment's for the time that copying it takes. */
static inline struct stripe *segment_stripes(const struct segment *segment)
{
  return (struct stripe *) (segment + 1);
}

static inline struct stripe *stripe_of_bucket(const struct cuckoo_geometry *g,
                                              const struct segment *segment, uint64_t bucket)
{
  return &segment_stripes(segment)[bucket & g->stripe_mask];
}

/* Takes a stripe that another thread holds (segment.h says how).  `inside`: the caller is in a read
 * section, which it is if the filter grows.  (The geometry is not passed: then the compiler could
 * not keep it in registers, and would not know what cuckoo_first_geometry() says of it.)  False:
 * the segment has left the directory, and it does not. */
NEVER_INLINE bool tamis__segment_wait(bool inside, struct segment *segment, struct stripe *stripe);

/* The same for two stripes, or for one that is named twice; in the second call, the caller holds
 * the first one.  False: it holds none. */
NEVER_INLINE bool tamis__segment_wait_both(bool inside, struct segment *segment,
                                           struct stripe *first, struct stripe *second);
NEVER_INLINE bool tamis__segment_wait_second(bool inside, struct stripe *first,
                                             struct stripe *second);

/* Takes a stripe.  False: it does not, as the segment has left the directory; and the caller must
 * not touch the segment any more. */
FORCE_INLINE bool segment_lock_one(const struct cuckoo_geometry *g, struct segment *segment,
                                   struct stripe *stripe)
{
  return __builtin_expect(stripe_trylock(stripe), 1) ||
         tamis__segment_wait(g->shape.ages, segment, stripe);
}

/* Takes the stripes of two buckets in the order of their indices, or the one stripe that both
 * have.  False: as above. */
FORCE_INLINE bool segment_lock(const struct cuckoo_geometry *g, struct segment *segment, uint64_t a,
                               uint64_t b)
{
  uint64_t i = a & g->stripe_mask, j = b & g->stripe_mask;
  uint64_t first = i < j ? i : j, second = i ^ j ^ first; /* without a branch */
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

/* The other bucket of an entry that stands in `bucket`. */
static inline uint64_t other_bucket(const struct cuckoo_geometry *g, const struct segment *segment,
                                    uint64_t bucket, uint64_t entry)
{
  return bucket ^
         cuckoo_other_mask(g, cuckoo_fingerprint(g, entry, segment->prefix, segment->depth));
}

/* Lanes in use.  Exact when no writer runs. */
static inline uint64_t segment_used(const struct cuckoo_geometry *g, const struct segment *segment)
{
  uint64_t used = 0;
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    used += stripe_used(&segment_stripes(segment)[i]);
  return used;
}

/* Takes all stripes of a segment. */
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

/* Whether a bucket whose stripe the caller holds may have duplicate counts. */
static inline bool has_duplicates(const struct segment *segment)
{
  return plane_counts(&segment->duplicates) != NULL;
}

/* ---- segments that are known to be full: base/fullness.h ---- */

/* Called after an entry has left a bucket. */
static inline void segment_has_room(const struct cuckoo_geometry *g, struct segment *segment)
{
  if (__builtin_expect(fullness_state(&segment->fullness) != 0, 0))
    fullness_has_room(&segment->fullness, &segment->vacated, cuckoo_buckets(g));
}

static inline bool segment_is_full(const struct cuckoo *c, const struct segment *segment)
{
  return fullness_is(&segment->fullness, FULLNESS_FULL, fullness_counted(&c->rooms));
}

/* Whether a copy that has no lane, and cannot be counted, is refused. */
static inline bool segment_refuses_copies(const struct cuckoo *c, const struct segment *segment)
{
  return segment_is_full(c, segment) ||
         fullness_is(&segment->fullness, FULLNESS_COPIES, fullness_counted(&c->rooms));
}

#endif
