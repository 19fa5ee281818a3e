/* SPDX-License-Identifier: MIT
 *
 * Layer 2: batches of look-ups in a cuckoo filter with one generation, eight keys at a time.
 *
 * The answers are those of lookup.c, because the same atomic loads read directory entries, versions
 * and words, one key after the other (base/vector.h).
 *
 *    vector_prepare_pairs()    does the steps of pair_find_with() and lookup_prepare()
 *    vector_lookup_pairs()     does the steps of lookup_finish()
 *
 * These steps serve the usual case.  A key is not in the usual case if an entry left a bucket
 * between the reads, or if its segment was marked or is missing.  With such a key, all eight
 * results are dropped, and the functions without vectors look the eight keys up in order.
 */
#ifndef TAMIS_LIB_CUCKOO_VECTORS_H
#define TAMIS_LIB_CUCKOO_VECTORS_H

#include "base/vector.h"
#include "cuckoo/lookup.h"

#ifdef TAMIS_VECTORS

struct cuckoo_keys {
  vector stripe, lower, upper; /* addresses: stripe of the upper bucket; words of both buckets */
  vector entry;                /* the entry that an add would write, repeated in each lane */
  vector_lanes absent;         /* the set of keys that have no segment */
  vector_lanes after;          /* the set of keys whose segment comes from the uneven split */
};

/* Look-ups of keys without a segment read this stripe and word.  No thread takes the stripe. */
static const struct {
  struct padded_stripe stripe;
  word value;
} nothing;

VECTOR_CODE FORCE_INLINE vector vector_other_mask(const struct cuckoo_geometry *g,
                                                  vector fingerprint)
{
  vector fixed = fingerprint >> g->fixed_shift >> 1;
  vector mixed = fixed * vector_of(CUCKOO_OTHER_MULTIPLIER);
  return (vector_of(UINT64_C(1) << 63) | mixed >> 1) >> (63 - g->pair_bits);
}

struct vector_shape {
  vector width, low, high;
};

/* The shapes of eight segments.  `after`: the keys whose segments come from the uneven split. */
VECTOR_CODE FORCE_INLINE struct vector_shape
vector_shape_of(const struct generation *first, const struct lane_shape *s, vector_lanes after)
{
  struct vector_shape shape = {vector_of(s->width), vector_of(s->low), vector_of(s->high)};
  if (after) {
    const struct lane_shape *other =
        &generation_geometry(first, first->geometry.uneven_at + 1U)->shape;
    shape.width = vector_replace(shape.width, after, other->width);
    shape.low = vector_replace(shape.low, after, other->low);
    shape.high = vector_replace(shape.high, after, other->high);
  }
  return shape;
}

/* Computes bucket_entry() for eight keys, repeated in each lane of a bucket. */
VECTOR_CODE FORCE_INLINE vector vector_entry(const struct vector_shape *s, bool ages,
                                             vector fingerprint)
{
  vector entry = fingerprint >> (vector_of(64) - s->width);
  entry = ages ? entry | 1 : vector_replace(entry, vector_zero_lanes(entry), 1);
  return entry * s->low;
}

/* NOLINTBEGIN(performance-no-int-to-ptr): a vector holds addresses as numbers. */

/* For each root that has split, replaces the root's value by the key's entry in the array. */
VECTOR_CODE static NEVER_INLINE vector vector_own_entries(const struct cuckoo_geometry *g,
                                                          vector fingerprint, vector values)
{
  for (unsigned lane = 0; lane < VECTOR_LANES; lane++) {
    unsigned bits;
    struct directory_array *array = directory_array_of((directory_value) values[lane], &bits);
    if (array)
      values[lane] = (uint64_t) directory_load(
          array_entry_of(array, bits, fingerprint[lane], cuckoo_class(g, fingerprint[lane])));
  }
  return values;
}

/* Returns the directory entries that lead to the segments of eight keys: see pair_at(). */
VECTOR_CODE FORCE_INLINE vector vector_directory(const struct generation *first, vector root,
                                                 vector fingerprint, bool growable)
{
  uint64_t value[VECTOR_LANES];
  UNROLL
  for (unsigned lane = 0; lane < VECTOR_LANES; lane++)
    value[lane] = (uint64_t) directory_load(&first->directory[root[lane]]);
  vector values = vector_from(value);
  bool split = growable && vector_zero_lanes(values % 16) != vector_first_lanes(VECTOR_LANES);
  return split ? vector_own_entries(&first->geometry, fingerprint, values) : values;
}

/* Prefetches the words only.  Stripes share few cache lines, which are mostly cached already. */
VECTOR_CODE FORCE_INLINE void vector_prefetch(const struct cuckoo_keys *keys)
{
  UNROLL
  for (unsigned lane = 0; lane < VECTOR_LANES; lane++) {
    __builtin_prefetch((const void *) keys->lower[lane]);
    __builtin_prefetch((const void *) keys->upper[lane]);
  }
}

VECTOR_CODE FORCE_INLINE void vector_prepare_pairs(const struct cuckoo *c, const uint64_t *hashes,
                                                   size_t n, struct cuckoo_keys *keys,
                                                   bool growable)
{
  const struct generation *first = cuckoo_generation(c, 0);
  const struct cuckoo_geometry g = cuckoo_first_geometry(&first->geometry, growable);
  vector spread = vector_spread(vector_mix(&c->head.keys, vector_load(hashes, n)));
  vector root = vector_upper_half(spread, g.first_roots), bits = spread * vector_of(g.first_roots);
  vector lower = bits >> 1 >> (63 - g.pair_bits), fingerprint = bits << g.pair_bits;
  vector upper = lower ^ vector_other_mask(&g, fingerprint);
  vector segment = vector_directory(first, root, fingerprint, growable), depth = segment % 16;
  keys->after = 0;
  if (growable) {
    vector uneven = (vector_of(g.uneven_at) - depth) >> 63; /* see cuckoo_prefix_bits() */
    keys->after = ~vector_zero_lanes(uneven) & vector_first_lanes(VECTOR_LANES);
    segment -= depth;
    fingerprint <<= depth - uneven;
  }
  const struct vector_shape shape = vector_shape_of(first, &g.shape, keys->after);
  keys->entry = vector_entry(&shape, g.shape.ages, fingerprint);
  keys->absent = vector_zero_lanes(segment);
  vector words = segment + vector_of(g.words_offset), stripes = segment + sizeof(struct segment);
  vector stripe = stripes + (upper & vector_of(g.stripe_mask)) * sizeof(struct stripe);
  keys->stripe = vector_replace(stripe, keys->absent, (uintptr_t) &nothing.stripe);
  keys->lower =
      vector_replace(words + lower * sizeof(word), keys->absent, (uintptr_t) &nothing.value);
  keys->upper =
      vector_replace(words + upper * sizeof(word), keys->absent, (uintptr_t) &nothing.value);
  vector_prefetch(keys);
}

VECTOR_CODE FORCE_INLINE vector vector_has_match(const struct vector_shape *s, bool ages,
                                                 vector value, vector entry)
{
  vector x = value | s->high, unknown = ages ? x ^ (x - s->low) : vector_of(0);
  vector differs = (value ^ entry) | unknown;
  return (differs - unknown - s->low) & ~differs & s->high;
}

/* Sets *in to the set of keys that are found.  Returns false if a key is not in the usual case. */
VECTOR_CODE FORCE_INLINE bool vector_lookup_pairs(const struct cuckoo *c,
                                                  const struct cuckoo_keys *keys, vector_lanes *in,
                                                  bool growable)
{
  const struct generation *first = cuckoo_generation(c, 0);
  const struct cuckoo_geometry g = cuckoo_first_geometry(&first->geometry, growable);
  const struct vector_shape shape = vector_shape_of(first, &g.shape, keys->after);
  uint64_t lower[VECTOR_LANES], upper[VECTOR_LANES];
  uint64_t changed = 0, versions = 0;
  UNROLL
  for (unsigned lane = 0; lane < VECTOR_LANES; lane++) {
    const struct stripe *stripe = (const struct stripe *) keys->stripe[lane];
    uint64_t version = version_before(&stripe->version);
    lower[lane] = word_load((const word *) keys->lower[lane]);
    upper[lane] = word_load((const word *) keys->upper[lane]);
    changed |= version_after(&stripe->version) ^ version;
    versions |= version;
  }
  *in = ~vector_zero_lanes(vector_has_match(&shape, growable, vector_from(lower), keys->entry) |
                           vector_has_match(&shape, growable, vector_from(upper), keys->entry));
  return !changed & !(growable && version_has_left(versions)) & !keys->absent;
}

#endif

/* NOLINTEND(performance-no-int-to-ptr) */

#endif
