/* SPDX-License-Identifier: MIT
 *
 * Layer 2: fast look-ups in the first generation of a cuckoo filter.
 *
 * These look-ups are the *straight path*, for the usual case: one generation, a registered reader,
 * and no entry that moves meanwhile.  They leave other cases, and the proof, to lookup.c.
 */
#include "cuckoo/lookup.h"

#include "base/compiler.h"
#include "cuckoo/vectors.h"

/* A bit of lookup.entry, above the entry's 32 bits: the segment comes from the uneven split. */
static const uint64_t FROM_UNEVEN_SPLIT = UINT64_C(1) << 63;

/* Prepares a look-up.  Loads the geometry twice, and first_lookup_finish() loads it again:
 * otherwise the geometry would occupy many registers while the directory entry is read. */
FORCE_INLINE struct lookup first_lookup_prepare(struct generation *first, uint64_t hash,
                                                bool growable)
{
  struct cuckoo_geometry g = cuckoo_first_geometry(&first->geometry, growable);
  struct bucket_pair pair = pair_find_with(&g, first, hash);
  g = cuckoo_first_geometry(&first->geometry, growable);
  struct lookup lookup = lookup_prepare(&g, &pair);
  if (growable && pair.geometry != &first->geometry)
    lookup.entry |= FROM_UNEVEN_SPLIT;
  return lookup;
}

FORCE_INLINE struct lookup_result finish_after(const struct generation *first,
                                               const struct lookup *lookup)
{
  const struct cuckoo_geometry g = cuckoo_first_geometry(generation_geometry_after(first), true);
  struct lookup own = *lookup;
  own.entry ^= FROM_UNEVEN_SPLIT;
  return lookup_finish(&own, &g);
}

FORCE_INLINE struct lookup_result first_lookup_finish(const struct generation *first,
                                                      const struct lookup *lookup, bool growable)
{
  const struct cuckoo_geometry g = cuckoo_first_geometry(&first->geometry, growable);
  if (growable && __builtin_expect((lookup->entry & FROM_UNEVEN_SPLIT) != 0, 0))
    return finish_after(first, lookup);
  return lookup_finish(lookup, &g);
}

/* Looks up a key.  Shorter code compares entries at depth 0, where no entry has lost bits. */
FORCE_INLINE struct lookup_result first_lookup_growable(struct generation *first, uint64_t hash)
{
  struct cuckoo_geometry g = cuckoo_first_geometry(&first->geometry, true);
  struct bucket_pair pair = pair_find_with(&g, first, hash);
  if (directory_depth(pair.root_value) > 0) {
    g = cuckoo_first_geometry(pair.geometry, true);
    struct lookup lookup = lookup_prepare(&g, &pair);
    return lookup_finish(&lookup, &g);
  }
  g = cuckoo_first_geometry(&first->geometry, true);
  g.shape.ages = false;
  struct lookup lookup = lookup_prepare(&g, &pair);
  return lookup_finish(&lookup, &g);
}

FORCE_INLINE struct lookup_result first_lookup(struct generation *first, uint64_t hash,
                                               bool growable)
{
  if (growable)
    return first_lookup_growable(first, hash);
  struct lookup lookup = first_lookup_prepare(first, hash, false);
  return first_lookup_finish(first, &lookup, false);
}

FORCE_INLINE bool contains_growable(const struct cuckoo *c, uint64_t hash)
{
  struct generation *first = cuckoo_generation(c, 0);
  reader_token token = registered_reader_enter();
  if (!token)
    return tamis__contains_mixed_any(c, hash);
  struct lookup_result result = first_lookup(first, hash, true);
  uint64_t unsure = result.moved | (cuckoo_generations(c) ^ 1);
  registered_reader_leave(token);
  return __builtin_expect(unsure == 0, 1) ? result.hit
                                          : result.hit || tamis__contains_again(c, hash);
}

FORCE_INLINE bool contains_fixed(const struct cuckoo *c, uint64_t hash)
{
  struct lookup_result result = first_lookup(cuckoo_generation(c, 0), hash, false);
  bool sure = result.hit | (result.moved == 0);
  return __builtin_expect(sure, 1) ? result.hit : tamis__contains_again(c, hash);
}

#define CALLS(sort)                                                        \
  bool tamis__contains_mixed_##sort(const struct cuckoo *c, uint64_t hash) \
  {                                                                        \
    return contains_##sort(c, hash);                                       \
  }                                                                        \
  bool tamis__cuckoo_contains_##sort(const tamis_filter *f, uint64_t hash) \
  {                                                                        \
    return contains_##sort(const_cuckoo_of(f), hash_mix(&f->keys, hash));  \
  }
CALLS(growable)
CALLS(fixed)

/* ---- batches of look-ups ---- */

/* How many keys of a batch take a step before any takes the next step.  A loop for each step needs
 * fewer registers than one loop for all steps. */
enum { LOOKUP_GROUP = SMALL(8, 2) };

FORCE_INLINE void prepare_group(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                struct lookup *lookups, bool growable)
{
  for (size_t i = 0; i < n; i++) {
    lookups[i] =
        first_lookup_prepare(cuckoo_generation(c, 0), hash_mix(&c->head.keys, hashes[i]), growable);
    lookup_prefetch(&lookups[i]);
  }
}

/* Repeats the look-up of a key of a batch.  Counts a retry if the root has a segment. */
static NEVER_INLINE bool contains_late(const struct cuckoo *c, uint64_t hash)
{
  uint64_t mixed = hash_mix(&c->head.keys, hash);
  reader_token token = cuckoo_enter(c);
  bool missed = !pair_find(cuckoo_generation(c, 0), mixed).segment;
  cuckoo_leave(c, token);
  return missed ? tamis__contains_mixed_any(c, mixed) : tamis__contains_again(c, mixed);
}

/* Finishes look-ups that prepare_group() prepared FILTER_AHEAD keys earlier.  Looks a key up again
 * if its segment has left the directory, or its root had no segment (result.stale): otherwise the
 * answer could be older than the answer for the previous key. */
FORCE_INLINE size_t finish_group(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                 const struct lookup *lookups, bool *found, bool growable)
{
  size_t hits = 0;
  for (size_t i = 0; i < n; i++) {
    struct lookup_result result =
        first_lookup_finish(cuckoo_generation(c, 0), &lookups[i], growable);
    bool hit = result.hit;
    if (__builtin_expect((!hit & (result.moved != 0)) | (growable & result.stale), 0))
      hit = contains_late(c, hashes[i]);
    hits += hit;
    if (found)
      found[i] = hit;
  }
  return hits;
}

static inline size_t group_size(size_t i, size_t n)
{
  return n - i < LOOKUP_GROUP ? n - i : LOOKUP_GROUP;
}

/* Looks up a few keys.  The function needs less stack than contains_ahead(). */
FORCE_INLINE size_t contains_few(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                 bool *found, bool growable)
{
  size_t hits = 0;
  for (size_t i = 0; i < n; i += LOOKUP_GROUP) {
    const size_t length = group_size(i, n);
    struct lookup lookups[LOOKUP_GROUP];
    prepare_group(c, hashes + i, length, lookups, growable);
    hits += finish_group(c, hashes + i, length, lookups, found ? found + i : NULL, growable);
  }
  return hits;
}

FORCE_INLINE size_t contains_ahead(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                   bool *found, bool growable)
{
  struct lookup ahead[FILTER_AHEAD];
  size_t hits = 0;
  for (size_t i = 0; i < n + FILTER_AHEAD; i += LOOKUP_GROUP) {
    struct lookup *lookups = &ahead[i % FILTER_AHEAD];
    size_t turn = i - FILTER_AHEAD;
    if (i >= FILTER_AHEAD)
      hits += finish_group(c, hashes + turn, group_size(turn, n), lookups,
                           found ? found + turn : NULL, growable);
    if (i < n)
      prepare_group(c, hashes + i, group_size(i, n), lookups, growable);
  }
  return hits;
}

#ifdef TAMIS_VECTORS

static NEVER_INLINE size_t contains_without_vectors(const struct cuckoo *c, const uint64_t *hashes,
                                                    size_t n, bool *found, bool growable)
{
  return contains_few(c, hashes, n, found, growable);
}

VECTOR_CODE FORCE_INLINE size_t vector_contains_many(const struct cuckoo *c, const uint64_t *hashes,
                                                     size_t n, bool *found, bool growable)
{
  struct cuckoo_keys ahead[FILTER_AHEAD / VECTOR_LANES];
  size_t hits = 0;
  for (size_t i = 0; i < n + FILTER_AHEAD; i += VECTOR_LANES) {
    struct cuckoo_keys *keys = &ahead[i % FILTER_AHEAD / VECTOR_LANES];
    if (i >= FILTER_AHEAD) {
      size_t turn = i - FILTER_AHEAD, left = n - turn < VECTOR_LANES ? n - turn : VECTOR_LANES;
      bool *of_turn = found ? found + turn : NULL;
      vector_lanes in;
      hits += __builtin_expect(vector_lookup_pairs(c, keys, &in, growable), 1)
                  ? vector_found(in, left, of_turn)
                  : contains_without_vectors(c, hashes + turn, left, of_turn, growable);
    }
    if (i < n)
      vector_prepare_pairs(c, hashes + i, n - i, keys, growable);
  }
  return hits;
}

VECTOR_CODE static NEVER_INLINE size_t contains_by_vectors(const struct cuckoo *c,
                                                           const uint64_t *hashes, size_t n,
                                                           bool *found, bool growable)
{
  return growable ? vector_contains_many(c, hashes, n, found, true)
                  : vector_contains_many(c, hashes, n, found, false);
}

#else
#define contains_by_vectors contains_few
#endif

/* A few keys take less time without vectors.  The misses are final if there is still one generation
 * after the last look-up; otherwise the general path looks all keys up again. */
FORCE_INLINE size_t contains_many_in_first(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                                           bool *found, bool growable)
{
  const size_t hits = n <= VECTOR_LANES  ? contains_few(c, hashes, n, found, growable)
                      : vectors_usable() ? contains_by_vectors(c, hashes, n, found, growable)
                                         : contains_ahead(c, hashes, n, found, growable);
  return !growable || cuckoo_generations(c) == 1
             ? hits
             : tamis__cuckoo_contains_many_any(&c->head, hashes, n, found);
}

static size_t contains_some_growable(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                     bool *found)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  if (cuckoo_generations(c) != 1)
    return tamis__cuckoo_contains_many_any(f, hashes, n, found);
  reader_token token = reader_enter();
  size_t hits = contains_many_in_first(c, hashes, n, found, true);
  reader_leave(token);
  return hits;
}

size_t tamis__cuckoo_contains_many_growable(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                            bool *found)
{
  size_t hits = 0;
  for (size_t start = 0, length; start < n; start += length) {
    length = n - start < READER_BATCH ? n - start : READER_BATCH;
    hits += contains_some_growable(f, hashes + start, length, found ? found + start : NULL);
  }
  return hits;
}

size_t tamis__cuckoo_contains_many_fixed(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                         bool *found)
{
  return contains_many_in_first(const_cuckoo_of(f), hashes, n, found, false);
}
