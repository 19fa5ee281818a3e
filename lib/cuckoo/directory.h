/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the directory of a generation, which leads from a key's root and fingerprint to a
 * segment.  With the directory, a call finds the key's bucket pair.
 *
 *    directory:  a word for each root:  NULL │ a segment of depth 0 │ an array of 2 × 2^k entries
 *
 *    array       00·0 00·1  01·0 01·1  10·0 10·1 11·0 11·1       k = 2
 *                └───┬───┘   │    │    └────────┬────────┘
 *    depth           2       3    3             1
 *
 * A key's entry in an array has a number of k + 1 bits: the first k bits of the key's fingerprint,
 * and the key's class (geometry.h).  Several entries lead to a segment that has split fewer than k
 * + 1 times.  As the filter grows and shrinks, arrays of twice or half the size replace arrays.
 *
 *    index:  root · the first D bits of the key's path   (D: the greatest depth; path: geometry.h)
 *
 * An index is a position in the directory that does not depend on the size of the root's array.
 * A segment of depth d has 2^(D - d) consecutive indices.
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
 *   if weakened    acquire would still make the contents visible.  But two threads could each add a
 *                  key to a new segment and then both miss the other's key (ORDER word.put)
 *   checked by     mutants/segment_published_relaxed, mutants/directory_load_acquire */
static inline directory_value directory_load(const directory_entry *entry)
{
  return atomic_load_explicit(entry, memory_order_seq_cst);
}

/* ORDER directory.publish (seq_cst)
 *   pairs with     directory.load, whose comment says why
 *   checked by     mutants/segment_published_relaxed, mutants/directory_publish_release */
static inline void
directory_publish(directory_entry *entry,
                  directory_value value) /* NOLINT(readability-non-const-parameter) */
{
  atomic_store_explicit(entry, value, memory_order_seq_cst);
}

/* ---- arrays ---- */

/* Returns a root's array, which has 2 × 2^*bits entries; without an array, NULL with *bits = 0. */
static inline struct directory_array *directory_array_of(directory_value root_value, unsigned *bits)
{
  *bits = directory_depth(root_value);
  return *bits ? (struct directory_array *) (void *) (root_value - *bits) : NULL;
}

static inline directory_value directory_value_of_array(struct directory_array *array, unsigned bits)
{
  return (char *) array + bits;
}

static inline uint64_t directory_array_bytes(unsigned bits)
{
  return sizeof(struct directory_array) + (UINT64_C(2) << bits) * DIRECTORY_ENTRY_BYTES;
}

FORCE_INLINE directory_entry *array_entry_of(struct directory_array *array, unsigned bits,
                                             uint64_t fingerprint, bool class)
{
  uint64_t prefix = fingerprint >> (-bits & 63);
  return &array->entry[prefix + prefix + class];
}

static inline directory_entry *root_entry(const struct generation *generation, uint64_t index)
{
  return &generation->directory[cuckoo_root_of_index(&generation->geometry, index)];
}

/* Returns the least k with which an array of 2 × 2^k entries can lead to segments of this depth. */
static inline unsigned directory_bits(const struct cuckoo_geometry *g, unsigned depth)
{
  unsigned bits = cuckoo_prefix_bits(g, depth);
  return bits > 1 ? bits : 1;
}

/* Makes an array, which may be published, lead to a segment: writes all entries of the segment's
 * keys.  A segment that comes from the uneven split has keys of only one class. */
static inline void directory_put(const struct cuckoo_geometry *g, struct directory_array *array,
                                 unsigned bits, struct segment *segment)
{
  const unsigned prefix_bits = cuckoo_prefix_bits(g, segment->depth);
  const bool one_class = segment->depth > g->uneven_at;
  uint64_t first = 2 * cuckoo_top_bits(segment->prefix, bits);
  uint64_t end = first + (UINT64_C(2) << (bits - prefix_bits));
  for (uint64_t i = first + segment->class; i < end; i += 1U + one_class) {
    directory_publish(&array->entry[i], directory_value_of(segment));
    HOOK(cuckoo_directory_published);
  }
}

/* Returns the directory entry of an index.  The caller of this or a later function must be in a
 * read section or hold a growth stripe of the index, unless no call changes the directory. */
static inline directory_value directory_at(const struct generation *generation, uint64_t index)
{
  unsigned bits;
  const struct cuckoo_geometry *g = &generation->geometry;
  directory_value value = directory_load(root_entry(generation, index));
  struct directory_array *array = directory_array_of(value, &bits);
  return array ? directory_load(array_entry_of(array, bits, cuckoo_prefix(g, index),
                                               cuckoo_class_of_index(g, index)))
               : value;
}

struct directory_range {
  uint64_t first, count;
};

/* Returns all indices that lead to the same segment as `index`.  The segment has this depth. */
static inline struct directory_range directory_range_of(const struct cuckoo_geometry *g,
                                                        uint64_t index, unsigned depth)
{
  return (struct directory_range){cuckoo_first_index(g, index, depth),
                                  UINT64_C(1) << (g->depth_limit - depth)};
}

/* ---- growth stripes ---- */

static inline struct slabs *generation_slabs(const struct generation *generation)
{
  return generation->has_slabs ? (struct slabs *) (generation + 1) : NULL;
}

static inline bool generation_has_one_root(const struct generation *generation)
{
  return cuckoo_roots(&generation->geometry) == 1;
}

/* The growth stripes that a call holds: `count` consecutive locks, taken in ascending order.
 * Before the filter has a struct cuckoo_growth, the lock cuckoo.own_growth replaces them. */
struct growth_stripes {
  struct lock *first;
  unsigned count;
};

/* Returns the growth stripes of the segment of depth `depth` to which `index` leads.  The first p
 * bits of a path (geometry.h) select one of a root's 2^p stripes; with many roots, p is 0. */
static inline struct growth_stripes growth_stripes_of(struct cuckoo *c,
                                                      const struct generation *generation,
                                                      uint64_t index, unsigned depth)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  struct cuckoo_growth *growth = cuckoo_has_growth(c);
  unsigned p = 0;
  if (!growth)
    return (struct growth_stripes){&c->first.own_growth, 1};
  while (p < g->depth_limit && cuckoo_roots(g) << (p + 1) <= GROWTH_STRIPES)
    p++;
  unsigned count = depth < p ? 1U << (p - depth) : 1;
  uint64_t number = index >> (g->depth_limit - p);
  return (struct growth_stripes){&growth->stripe[number % GROWTH_STRIPES & ~(count - 1)], count};
}

static inline void growth_unlock(struct growth_stripes held)
{
  for (unsigned i = 0; i < held.count; i++)
    lock_release(&held.first[i]);
}

/* Takes the locks that growth_stripes_of() returns.  If another call has created the struct
 * cuckoo_growth while this call waited for cuckoo.own_growth, takes growth stripes instead. */
static inline struct growth_stripes
growth_lock(struct cuckoo *c, const struct generation *generation, uint64_t index, unsigned depth)
{
  struct growth_stripes stripes = growth_stripes_of(c, generation, index, depth);
  if (stripes.first == &c->first.own_growth) {
    lock_take(stripes.first);
    if (!cuckoo_has_growth(c))
      return stripes;
    lock_release(stripes.first);
    stripes = growth_stripes_of(c, generation, index, depth);
  }
  for (unsigned i = 0; i < stripes.count; i++)
    lock_take(&stripes.first[i]);
  return stripes;
}

/* ---- all segments of a generation ---- */

/* Returns the word with the mark of a root's group (see MARKED_ROOTS in geometry.h). */
static inline _Atomic uint64_t *generation_mark(const struct generation *generation, uint64_t root)
{
  _Atomic uint64_t *marks =
      (_Atomic uint64_t *) (void *) &generation->directory[cuckoo_roots(&generation->geometry)];
  return &marks[root / (MARKED_ROOTS * 64)];
}

/* Sets the mark of a root's group.  Must be called before the root's first segment is published.
 * (Relaxed: a traversal may miss the segment until an add to the segment has returned.) */
static inline void generation_mark_root(const struct generation *generation, uint64_t root)
{
  if (cuckoo_mark_words(&generation->geometry))
    atomic_fetch_or_explicit(generation_mark(generation, root),
                             UINT64_C(1) << root / MARKED_ROOTS % 64, memory_order_relaxed);
}

/* Returns the first root, not before `root`, that may have a segment, or the number of roots. */
static inline uint64_t generation_skip(const struct generation *generation, uint64_t root)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  uint64_t roots = cuckoo_roots(g);
  if (!cuckoo_mark_words(g))
    return root;
  while (root < roots &&
         !(atomic_load_explicit(generation_mark(generation, root), memory_order_relaxed) >>
               root / MARKED_ROOTS % 64 &
           1))
    root = (root / MARKED_ROOTS + 1) * MARKED_ROOTS;
  return root < roots ? root : roots;
}

/* The state of a traversal of a generation's segments: zero at the start. */
struct segment_cursor {
  uint64_t index; /* the directory index at which the next segment begins */
  uint64_t first; /* the directory index at which the current segment begins */
  uint64_t count; /* how many indices the current segment has, or a root without a segment */
};

/* Returns the next segment of a generation, in the order of the directory, or NULL after the last.
 * Each segment is returned once if no segment splits or joins during the traversal. */
static inline struct segment *segment_next(const struct generation *generation,
                                           struct segment_cursor *cursor)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  while (cursor->index < cuckoo_directory_size(g)) {
    uint64_t root = cuckoo_root_of_index(g, cursor->index),
             next = generation_skip(generation, root);
    if (next != root) {
      cursor->index = next << g->depth_limit;
      continue;
    }
    directory_value value = directory_at(generation, cursor->index);
    struct directory_range range = directory_range_of(g, cursor->index, directory_depth(value));
    cursor->first = range.first; /* less than cursor->index if segments have just joined */
    cursor->count = range.count;
    cursor->index = range.first + range.count;
    if (directory_segment(value))
      return directory_segment(value);
  }
  return NULL;
}

/* ---- a key's bucket pair in one generation ---- */

struct bucket_pair {
  struct generation *generation;
  const directory_entry *root_entry;
  directory_value root_value;
  const directory_entry *own_entry; /* the key's entry in the root's array, or root_entry */
  directory_value own_value;
  struct segment *segment; /* NULL if the root has no segment */
  const struct cuckoo_geometry *geometry;
  uint64_t fingerprint; /* the key's fingerprint, from bit 63 down */
  uint64_t entry;       /* the entry that an add of the key would write into the segment */
  uint64_t lower, upper;
};

/* Finds a key's bucket pair.  To show: the directory led to this pair at one instant during this
 * call, the *moment* of the pair.
 *
 *    1. If the root still has its array when this call reads the entry, the moment is this read.
 *    2. Otherwise another thread has replaced the array since this call read the root's word.  A
 *       replaced array never changes, so its entry still leads to the segment to which it led when
 *       the array was replaced.  The moment is this replacement or, if it removed the segment, just
 *       before.
 *
 * Before the directory stops leading to a segment, the segment is marked and changes no more.
 *
 * `g` is the generation's geometry, perhaps a copy with constant members, for shorter code. */
FORCE_INLINE struct bucket_pair pair_at(const struct cuckoo_geometry *g,
                                        struct generation *generation,
                                        struct cuckoo_address address)
{
  struct bucket_pair pair = {.generation = generation,
                             .root_entry = &generation->directory[address.root],
                             .fingerprint = address.fingerprint,
                             .lower = address.lower,
                             .upper = address.upper};
  pair.own_entry = pair.root_entry;
  pair.own_value = pair.root_value = directory_load(pair.root_entry);
  pair.geometry = &generation->geometry;
  pair.segment = (struct segment *) pair.own_value;
  struct lane_shape shape = g->shape;
  shape.shift = g->fixed_shift; /* equal to g->shape.shift, but loaded earlier */
  pair.entry = bucket_entry(&shape, address.fingerprint);
  /* False only if the compiler knows that no segment splits. */
  bool may_split = !__builtin_constant_p(g->depth_limit) || g->depth_limit > 0;
  unsigned bits = 0;
  struct directory_array *array = may_split ? directory_array_of(pair.root_value, &bits) : NULL;
  if (array) {
    HOOK(cuckoo_root_read);
    pair.own_entry = array_entry_of(array, bits, address.fingerprint, address.class);
    pair.own_value = directory_load(pair.own_entry);
    unsigned depth = directory_depth(pair.own_value);
    unsigned prefix_bits = depth;
    pair.segment = (struct segment *) (pair.own_value - depth);
    if (!pair.segment)
      __builtin_unreachable(); /* all entries of an array lead to segments */
    if (depth > g->uneven_at) {
      if (!g->later)
        pair.geometry = generation_geometry_after(generation);
      prefix_bits = depth - 1; /* see cuckoo_prefix_bits() */
    }
    shape = pair.geometry->shape;
    shape.ages = true;
    pair.entry = bucket_entry(&shape, address.fingerprint << prefix_bits);
  }
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

static inline uint64_t pair_index(const struct bucket_pair *pair)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  return cuckoo_index(g, (uint64_t) (pair->root_entry - pair->generation->directory),
                      pair->fingerprint, cuckoo_class(g, pair->fingerprint));
}

/* Whether the directory still leads to the pair.  The caller must be in a read section, or hold a
 * growth stripe of the pair's index: then an unchanged root word leads to a live array. */
static inline bool pair_is_current(const struct bucket_pair *pair)
{
  return directory_load(pair->root_entry) == pair->root_value &&
         directory_load(pair->own_entry) == pair->own_value;
}

#endif
