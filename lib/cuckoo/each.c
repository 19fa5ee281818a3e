/* SPDX-License-Identifier: MIT
 *
 * Layer 2: looks one key up in many cuckoo filters with the same seed and geometry.
 *
 *    hash ──► struct cuckoo_alike: root, entry, and the offsets of stripe and buckets in a segment
 *                ├─► filter 1: directory ──► segment ──► stripe, lower bucket, upper bucket
 *                ├─► filter 2: directory ──► segment ──► ...       (no filter waits for another)
 *                └─► ...
 *
 * The call first prefetches the memory of some filters.  Then each look-up reads the directory
 * again, the stripe, the buckets and, after a miss, the number of generations, in the order of
 * lookup_fast.c.  A filter of several generations has other operations, so it is not *alike*
 * (struct cuckoo_alike).  If a filter opens its second generation during the call, the general path
 * (lookup.c) repeats a look-up that missed.
 *
 * The look-ups in these filters share a read section, which is short and never waits.
 */
#include "cuckoo/lookup.h"

#include "base/compiler.h"

/* The data of a key that are the same in all filters that are *alike*: these have the same function
 * `contains`, the same seed, and the same geometry of the first generation. */
struct cuckoo_alike {
  bool (*contains)(const tamis_filter *f, uint64_t hash);
  uint64_t seed;
  uint64_t hash; /* the key's hash, before it is mixed with the seed */
  uint64_t mixed;
  struct cuckoo_geometry g;
  struct cuckoo_address address;
  uint64_t entry;                /* the key's new entry in a segment of depth 0 */
  uint64_t stripe, lower, upper; /* the byte offsets of stripe and buckets in a segment */
};

/* Whether the first generation has the geometry `g`, in all members that look-ups use here. */
FORCE_INLINE bool has_geometry(const struct cuckoo *c, const struct cuckoo_geometry *g)
{
  const struct cuckoo_geometry *own = &c->first.geometry;
  return own->shape.low == g->shape.low && own->first_roots == g->first_roots &&
         own->pair_bits == g->pair_bits && own->stripe_mask == g->stripe_mask;
}

/* Returns the only segment of a root, or NULL if the root has no segment or several. */
FORCE_INLINE char *whole_segment(const struct cuckoo *c, uint64_t root, bool growable)
{
  directory_value value = directory_load(&c->first.directory[root]);
  return growable && directory_depth(value) > 0 ? NULL : value;
}

static NEVER_INLINE void prefetch_split(const struct cuckoo *c, const struct cuckoo_alike *alike)
{
  reader_token token = reader_enter();
  const struct bucket_pair pair = pair_at(&alike->g, cuckoo_generation(c, 0), alike->address);
  pair_prefetch(&pair, pair.geometry, false);
  reader_leave(token);
}

/* Looks up a key whose root has no segment or several.  The caller must be in a read section. */
static NEVER_INLINE bool contains_split(const struct cuckoo *c, const struct cuckoo_alike *alike)
{
  const struct bucket_pair pair = pair_at(&alike->g, cuckoo_generation(c, 0), alike->address);
  const struct lookup lookup = lookup_prepare(pair.geometry, &pair);
  const struct lookup_result result = lookup_finish(&lookup, pair.geometry);
  const bool sure = result.hit | (!result.moved & !result.stale & (cuckoo_generations(c) == 1));
  return sure ? result.hit : alike->contains(&c->head, alike->hash);
}

FORCE_INLINE bool prefetch_alike(const tamis_filter *const *filters, const void *common, bool more,
                                 bool growable)
{
  enum { HEAD_BYTES = offsetof(struct cuckoo, first.directory) + sizeof(uint64_t) };
  const struct cuckoo_alike alike = *(const struct cuckoo_alike *) common;
  if (more)
    each_fetch_heads(filters + EACH_BLOCK, HEAD_BYTES);
  UNROLL
  for (unsigned i = 0; i < EACH_BLOCK; i++) {
    const tamis_filter *f = filters[i];
    const struct cuckoo *c = const_cuckoo_of(f);
    if (!each_is_alike(f, alike.seed, alike.contains) || !has_geometry(c, &alike.g))
      return false;
    const char *segment = whole_segment(c, alike.address.root, growable);
    if (growable && __builtin_expect(!segment, 0)) {
      prefetch_split(c, (const struct cuckoo_alike *) common);
      continue;
    }
    __builtin_prefetch(segment + alike.stripe);
    __builtin_prefetch(segment + alike.lower);
    __builtin_prefetch(segment + alike.upper);
  }
  return true;
}

/* Looks up the key.  `alike` is a local copy of *common, which can be kept in registers. */
FORCE_INLINE bool contains_alike(const struct cuckoo *c, const struct cuckoo_alike *alike,
                                 const void *common, bool growable)
{
  const char *segment = whole_segment(c, alike->address.root, growable);
  if (growable && __builtin_expect(!segment, 0))
    return contains_split(c, (const struct cuckoo_alike *) common);
  struct cuckoo_geometry g = cuckoo_first_geometry(&alike->g, growable);
  g.shape.ages = false; /* in a segment of depth 0 no entry has aged */
  const struct lookup lookup = {(const struct stripe *) (const void *) (segment + alike->stripe),
                                (const word *) (const void *) (segment + alike->lower),
                                (const word *) (const void *) (segment + alike->upper),
                                alike->entry};
  const struct lookup_result result = lookup_finish(&lookup, &g);
  const bool sure = result.hit | (!result.moved & (!growable || cuckoo_generations(c) == 1));
  return __builtin_expect(sure, 1) ? result.hit : tamis__contains_again(c, alike->mixed);
}

FORCE_INLINE size_t contains_each(const tamis_filter *const *filters, size_t n,
                                  struct wanted *wanted, bool *found, const struct each_way *way,
                                  bool growable)
{
  const struct cuckoo *c = const_cuckoo_of(filters[0]);
  struct cuckoo_alike alike = {.contains = growable ? tamis__cuckoo_contains_growable
                                                    : tamis__cuckoo_contains_fixed,
                               .seed = c->head.keys.seed,
                               .hash = wanted_hash(wanted, filters[0]),
                               .g = cuckoo_first_geometry(&c->first.geometry, growable)};
  alike.mixed = hash_mix(&c->head.keys, alike.hash);
  const struct cuckoo_address address = alike.address = cuckoo_address(&alike.g, alike.mixed);
  alike.entry = bucket_entry(&alike.g.shape, address.fingerprint);
  alike.stripe =
      sizeof(struct segment) + (address.upper & alike.g.stripe_mask) * sizeof(struct stripe);
  alike.lower = alike.g.words_offset + address.lower * sizeof(word);
  alike.upper = alike.g.words_offset + address.upper * sizeof(word);
  return tamis__each_search(filters, n, wanted, found, way, &alike);
}

FORCE_INLINE bool contains_block(const tamis_filter *const *filters, const void *common,
                                 bool *found, bool growable)
{
  const struct cuckoo_alike alike = *(const struct cuckoo_alike *) common;
  reader_token token = growable ? reader_enter() : NULL;
  UNROLL
  for (unsigned i = 0; i < EACH_BLOCK; i++)
    found[i] = contains_alike(const_cuckoo_of(filters[i]), &alike, common, growable);
  if (growable)
    reader_leave(token);
  return true;
}

#define CALLS(sort, growable)                                                              \
  static bool prefetch_each_##sort(const tamis_filter *const *filters, const void *common, \
                                   uint64_t places[EACH_BLOCK], bool more)                 \
  {                                                                                        \
    (void) places;                                                                         \
    return prefetch_alike(filters, common, more, growable);                                \
  }                                                                                        \
  static bool look_up_each_##sort(const tamis_filter *const *filters, const void *common,  \
                                  const uint64_t places[EACH_BLOCK], bool *found)          \
  {                                                                                        \
    (void) places;                                                                         \
    return contains_block(filters, common, found, growable);                               \
  }                                                                                        \
  size_t tamis__cuckoo_contains_each_##sort(const tamis_filter *const *filters, size_t n,  \
                                            struct wanted *wanted, bool *found)            \
  {                                                                                        \
    static const struct each_way way = {prefetch_each_##sort, look_up_each_##sort};        \
    return contains_each(filters, n, wanted, found, &way, growable);                       \
  }
CALLS(growable, true) /* NOLINT(readability-non-const-parameter) */
CALLS(fixed, false)   /* NOLINT(readability-non-const-parameter) */
