/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the directory of a generation, which leads from a root and a fingerprint to a segment;
 * and what a key finds there, its bucket pair.
 *
 *    index:    root · the first D bits of the fingerprint       (D: the generation's depth limit)
 *
 *    root r    000 001  010  011  100 101 110 111               D = 3
 *              └──┬──┘   │    │   └──────┬──────┘
 *     depth       2      3    3          1
 *
 * A segment of depth d fills 2^(D - d) directory entries.  The first entry of a root that has no
 * segment is NULL, and its others say nothing: they may never have been written.  The others of a
 * single root that has never split do not exist.
 */
#ifndef TAMIS_LIB_CUCKOO_DIRECTORY_H
#define TAMIS_LIB_CUCKOO_DIRECTORY_H

#include "base/hook.h"
#include "cuckoo/table.h"

/* ---- directory entries ---- */

static inline unsigned directory_depth(const char *value)
{
  return (uintptr_t) value % 16;
}

static inline struct segment *directory_segment(directory_value value)
{
  return (struct segment *) (value - directory_depth(value));
}

static inline directory_value directory_value_of(struct segment *segment)
{
  return (directory_value) segment + segment->depth;
}

/* ORDER directory.load (seq_cst)
 *   pairs with     directory.publish
 *   makes visible  the segment's contents
 *   if weakened    acquire would keep that, but an add could be missed that another thread has
 *                  finished in a new segment: see word.put
 *   checked by     mutants/segment_published_relaxed, mutants/directory_load_acquire */
static inline directory_value directory_load(const directory_entry *entry)
{
  return atomic_load_explicit(entry, memory_order_seq_cst);
}

/* ORDER directory.publish (seq_cst)
 *   pairs with     directory.load, which has the argument
 *   checked by     mutants/segment_published_relaxed, mutants/directory_publish_release */
static inline void
directory_publish(directory_entry *entry,
                  directory_value value) /* NOLINT(readability-non-const-parameter) */
{
  atomic_store_explicit(entry, value, memory_order_seq_cst);
}

/* NULL: see struct generation. */
static inline directory_entry *generation_others(const struct generation *generation)
{
  return atomic_load_explicit(&generation->others, memory_order_relaxed);
}

/* The first entries of all roots stand together.  The other entries stand elsewhere, root by root.
 * Most look-ups read a first entry (see pair_at()), and these are few enough to stay in the
 * cache. */
FORCE_INLINE directory_entry *generation_root_entry(const struct cuckoo_geometry *g,
                                                    const struct generation *generation,
                                                    uint64_t root, uint64_t of_root)
{
  uint64_t others = (UINT64_C(1) << g->depth_limit) - 1;
  return of_root ? &generation_others(generation)[root * others + of_root - 1]
                 : &generation->directory[root];
}

/* Without other entries, the first one stands for all. */
static inline directory_entry *generation_directory_entry(const struct generation *generation,
                                                          uint64_t index)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  uint64_t of_root = index & ((UINT64_C(1) << g->depth_limit) - 1);
  return generation_root_entry(g, generation, cuckoo_root_of_index(g, index),
                               generation_others(generation) ? of_root : 0);
}

static inline bool generation_has_one_root(const struct generation *generation)
{
  return cuckoo_roots(&generation->geometry) == 1;
}

/* Those of several roots. */
static inline struct stripe *generation_growth_stripes(struct generation *generation)
{
  return (struct stripe *) (generation + 1);
}

/* The growth stripe of a root, by any of the root's directory entries. */
static inline struct stripe *growth_stripe(struct generation *generation, uint64_t index)
{
  uint64_t root = cuckoo_root_of_index(&generation->geometry, index);
  return generation_has_one_root(generation)
             ? (struct stripe *) generation->own_growth
             : &generation_growth_stripes(generation)[root % GROWTH_STRIPES];
}

/* NULL: segments have no slots. */
static inline struct slabs *generation_slabs(const struct generation *generation)
{
  uint64_t before =
      generation_has_one_root(generation) ? 0 : GROWTH_STRIPES * sizeof(struct stripe);
  return generation->has_slabs ? (struct slabs *) ((char *) (generation + 1) + before) : NULL;
}

/* The directory entries of a segment. */
struct directory_range {
  uint64_t first, count;
};

/* Those of the segment of depth `depth` to which the entry `index` belongs. */
static inline struct directory_range directory_range_of(const struct cuckoo_geometry *g,
                                                        uint64_t index, unsigned depth)
{
  uint64_t count = UINT64_C(1) << (g->depth_limit - depth);
  return (struct directory_range){index & ~(count - 1), count};
}

/* ---- all segments of a generation ---- */

/* The marks follow the first entries of the roots: see cuckoo_mark_words(). */
static inline _Atomic uint64_t *generation_mark(const struct generation *generation, uint64_t root)
{
  _Atomic uint64_t *marks =
      (_Atomic uint64_t *) (void *) ((char *) generation->directory +
                                     cuckoo_roots(&generation->geometry) * DIRECTORY_ENTRY_BYTES);
  return &marks[root / (MARKED_ROOTS * 64)];
}

/* Before the root's first segment is published.  Relaxed: who has to find a segment knows of an add
 * that is over, and so of this, which came before it. */
static inline void generation_mark_root(const struct generation *generation, uint64_t root)
{
  if (cuckoo_mark_words(&generation->geometry))
    atomic_fetch_or_explicit(generation_mark(generation, root),
                             UINT64_C(1) << root / MARKED_ROOTS % 64, memory_order_relaxed);
}

/* The first index from this one on, which is a segment's first or a root's, whose root may have a
 * segment. */
static inline uint64_t generation_skip(const struct generation *generation, uint64_t index)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  uint64_t root = cuckoo_root_of_index(g, index), roots = cuckoo_roots(g);
  if (!cuckoo_mark_words(g))
    return index;
  while (root < roots &&
         !(atomic_load_explicit(generation_mark(generation, root), memory_order_relaxed) >>
               root / MARKED_ROOTS % 64 &
           1)) {
    root = (root / MARKED_ROOTS + 1) * MARKED_ROOTS;
    index = (root < roots ? root : roots) << g->depth_limit;
  }
  return index;
}

/* Where a traversal of a generation is.  It begins with an index of 0. */
struct segment_cursor {
  uint64_t index; /* of the next directory entry */
  uint64_t first; /* of the segment's entries */
  uint64_t count; /* of the segment's entries; where there is no segment, those of the root */
};

/* The next segment of a generation in the order of the directory, or NULL after the last one.  It
 * visits each segment once, as long as no segment is split or joined meanwhile. */
static inline struct segment *segment_next(const struct generation *generation,
                                           struct segment_cursor *cursor)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  while ((cursor->index = generation_skip(generation, cursor->index)) < cuckoo_directory_size(g)) {
    directory_value value = directory_load(generation_directory_entry(generation, cursor->index));
    cursor->first = cursor->index;
    cursor->count = UINT64_C(1) << (g->depth_limit - directory_depth(value));
    cursor->index += cursor->count;
    if (directory_segment(value))
      return directory_segment(value);
  }
  return NULL;
}

/* ---- a key's bucket pair in one generation ---- */

struct bucket_pair {
  struct generation *generation;
  const directory_entry *root_entry; /* the root's first entry, which is read first */
  directory_value root_value;
  const directory_entry *own_entry; /* the entry that decides */
  directory_value own_value;
  struct segment *segment; /* NULL: there is none */
  uint64_t index;          /* the key's, in the directory */
  uint64_t entry;          /* the entry that the key would have in the segment */
  uint32_t lower, upper;   /* the two buckets */
};

/* If the root's first directory entry leads to a segment of depth 0, all keys of the root belong
 * there, whatever the entries of the keys hold while a join or a split rewrites them.  So look-ups
 * share one entry of a root for as long as nothing has split there.
 *
 * What a pair says was true at one moment of the reading: when the deciding entry was read or,
 * while a join or a split rewrites the entries of the root, when the first one was.  A segment is
 * marked before any of its directory entries changes, and from the mark until the first change
 * nobody can change what the segment holds.
 *
 * `g` is the generation's geometry.  A caller that knows parts of it as constants gets shorter
 * code. */
FORCE_INLINE struct bucket_pair pair_at(const struct cuckoo_geometry *g,
                                        struct generation *generation,
                                        struct cuckoo_address address)
{
  struct bucket_pair pair = {.generation = generation,
                             .root_entry = generation_root_entry(g, generation, address.root, 0),
                             .index = address.index,
                             .lower = address.lower,
                             .upper = address.upper};
  pair.own_entry = pair.root_entry;
  pair.own_value = pair.root_value = directory_load(pair.root_entry);
  /* Where the compiler knows that no segment splits, it need not ask. */
  bool may_split = !__builtin_constant_p(g->depth_limit) || g->depth_limit > 0;
  unsigned depth = may_split ? directory_depth(pair.root_value) : 0;
  if (depth > 0) {
    HOOK(cuckoo_root_read);
    pair.own_entry = generation_root_entry(g, generation, address.root,
                                           cuckoo_top_bits(address.fingerprint, g->depth_limit));
    pair.own_value = directory_load(pair.own_entry);
    depth = directory_depth(pair.own_value);
  }
  pair.segment = (struct segment *) (pair.own_value - depth);
  pair.entry = bucket_entry(&g->shape, address.fingerprint << depth);
  return pair;
}

FORCE_INLINE struct bucket_pair pair_find_with(const struct cuckoo_geometry *g,
                                               struct generation *generation, uint64_t hash)
{
  return pair_at(g, generation, cuckoo_address(g, hash));
}

static inline struct bucket_pair pair_find(struct generation *generation, uint64_t hash)
{
  return pair_find_with(&generation->geometry, generation, hash);
}

/* Whether the directory still leads to the pair. */
static inline bool pair_is_current(const struct bucket_pair *pair)
{
  return directory_load(pair->root_entry) == pair->root_value &&
         directory_load(pair->own_entry) == pair->own_value;
}

#endif
