/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the calls on the keys of a Bloom filter whose keys have all their bits in one word.
 *
 *    hash ──────► word: 0 . . M . M . . M . M ...
 *                       │
 *                       └ bit 63: in filters that must not outgrow their capacity it is no key's,
 *                         but the mark, which says that nothing may change in this word any more
 *
 * One atomic access reads or changes all bits of a key.  So the state of a key is at every instant
 * either in or not in, and everything follows from the order in which a single word changes:
 *
 * [A] No false negative.  When an add returns, it has seen all bits of the key as 1, or has set
 *     them.  The bits of keys only change from 0 to 1.
 *
 * [B] One winner, without a lock.  Of all ORs of a key's bits, exactly one changes the word from
 *     lacking some of them to having all: the first one, unless other keys have set them before.
 *     The old value says which one it was.  The call that made it wins, and takes effect with it.
 *     Nobody waits for anybody, and each call has a bounded number of steps: a fetch-and-or is one
 *     step or, on processors without such an instruction, a loop that repeats only when the word
 *     has gained a bit, which happens at most 64 times.
 *
 *     The same OR counts the key.  So the count misses only keys that a false positive hid.
 *
 * [C] All or nothing.  In a filter that may not outgrow its capacity, TAMIS_EFULL from a unique add
 *     is final: the call that was refused may give its key to another filter, and then no unique
 *     add of that key may win here.  But another call may have found room before the filter became
 *     full, and be about to set the bits.  No reading of the filter's state can exclude that, as
 *     the two calls meet nowhere but in the word.  So they decide it there:
 *
 *        a call that found room          replaces the word by one with the key's bits, if the word
 *                                        has not changed since (compare-and-swap)
 *        a unique add that is refused    first sets the word's mark
 *
 *     No call changes a word with a mark.  If the mark comes first, the compare-and-swap of the
 *     other call fails.  That call reads the mark, and is refused as well.  If the bits come first,
 *     the OR that sets the mark returns a word that has them, and the call answers TAMIS_PRESENT.
 *     A refused call takes effect when its mark is in the word, or when it reads the mark.
 *
 *     Marks are set only once the filter is FULL, for good.  Look-ups and figures pass over them.
 *
 * [D] No call takes a lock, or waits.
 *
 * [F] Duplicates.  The add of a key that is in reads its word and writes nothing.
 */
#include "bloom/bloom.h"

#include "base/compiler.h"
#include "base/hook.h"
#include "bloom/capacity.h"

/* Where a key's bits are. */
struct place {
  word *at;
  uint64_t mask;
};

FORCE_INLINE struct place place_of(const struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  uint64_t mixed = hash_mix(&b->head.keys, hash);
  struct bloom_probes probes = bloom_probes_begin(&b->geometry, mixed, shape);
  struct bloom_probe probe = bloom_probes_next(&b->geometry, &probes, shape);
  return (struct place){&b->words[probe.word], probe.mask};
}

static inline bool lookup(struct place place)
{
  return !(place.mask & ~word_load(place.at));
}

/* ---- adds ----
 *
 * They return TAMIS_PRESENT for a key that was in.  `unique` says that TAMIS_EFULL has to be
 * final. */

/* A filter that refuses keys past its capacity. */
static int add_limited(struct bloom *b, struct place place, bool unique)
{
  uint64_t old, now = word_load(place.at);
  do {
    old = now;
    if (!(place.mask & ~old))
      return TAMIS_PRESENT;
    if (old & WORD_MARK)
      return TAMIS_EFULL;
    if (refuses(b)) {
      HOOK(bloom_word_refused);
      if (unique)
        old = word_or(place.at, WORD_MARK);
      return place.mask & ~old ? TAMIS_EFULL : TAMIS_PRESENT;
    }
    HOOK(bloom_word_has_room);
    now = word_replace(place.at, old, old | place.mask);
  } while (now != old);
  unsigned set = (unsigned) __builtin_popcountll(place.mask & ~old);
  count(b, (struct bits_set){set, set});
  return TAMIS_OK;
}

static inline int add_growable(struct bloom *b, struct place place)
{
  if (lookup(place))
    return TAMIS_PRESENT;
  HOOK(bloom_key_missed);
  if (!(place.mask & ~word_or(place.at, place.mask)))
    return TAMIS_PRESENT; /* overtaken */
  counter_add(&b->counters, KEYS, 1);
  return TAMIS_OK;
}

FORCE_INLINE int add(struct bloom *b, struct place place, bool unique, struct bloom_shape shape)
{
  return shape.layout == BLOOM_LAYOUT_MARKED ? add_limited(b, place, unique)
                                             : add_growable(b, place);
}

/* A plain add does not say whether the key was new. */
static inline int plain(int result)
{
  return result == TAMIS_PRESENT ? TAMIS_OK : result;
}

/* ---- batches: the same calls, with memory fetched before it is needed ---- */

/* Each key's word is fetched FILTER_AHEAD keys before it is read. */
FORCE_INLINE size_t contains_many(const struct bloom *b, const uint64_t *hashes, size_t n,
                                  bool *found, struct bloom_shape shape)
{
  struct place ahead[FILTER_AHEAD];
  size_t hits = 0;
  for (size_t i = 0; i < n + FILTER_AHEAD; i++) {
    struct place *place = &ahead[i % FILTER_AHEAD];
    if (i >= FILTER_AHEAD) {
      bool in = lookup(*place);
      hits += in;
      if (found)
        found[i - FILTER_AHEAD] = in;
    }
    if (i < n) {
      *place = place_of(b, hashes[i], shape);
      __builtin_prefetch(place->at);
    }
  }
  return hits;
}

FORCE_INLINE void add_many(struct bloom *b, const uint64_t *hashes, size_t n, int *results,
                           bool unique, struct bloom_shape shape)
{
  struct place places[FILTER_GROUP];
  for (size_t i = 0; i < n; i++) {
    places[i] = place_of(b, hashes[i], shape);
    __builtin_prefetch(places[i].at);
  }
  for (size_t i = 0; i < n; i++) {
    int result = add(b, places[i], unique, shape);
    results[i] = unique ? result : plain(result);
  }
}

/* ---- the same for each shape ---- */

#define OPERATIONS(name, shape)                                                                \
  static bool name##_contains(const tamis_filter *f, uint64_t hash)                            \
  {                                                                                            \
    return lookup(place_of(const_bloom_of(f), hash, shape));                                   \
  }                                                                                            \
  static size_t name##_contains_many(const tamis_filter *f, const uint64_t *hashes, size_t n,  \
                                     bool *found)                                              \
  {                                                                                            \
    return contains_many(const_bloom_of(f), hashes, n, found, shape);                          \
  }                                                                                            \
  static int name##_add(tamis_filter *f, uint64_t hash)                                        \
  {                                                                                            \
    return plain(add(bloom_of(f), place_of(bloom_of(f), hash, shape), false, shape));          \
  }                                                                                            \
  static int name##_add_unique(tamis_filter *f, uint64_t hash)                                 \
  {                                                                                            \
    return add(bloom_of(f), place_of(bloom_of(f), hash, shape), true, shape);                  \
  }                                                                                            \
  static void name##_add_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results) \
  {                                                                                            \
    add_many(bloom_of(f), hashes, n, results, false, shape);                                   \
  }                                                                                            \
  static void name##_add_unique_many(tamis_filter *f, const uint64_t *hashes, size_t n,        \
                                     int *results)                                             \
  {                                                                                            \
    add_many(bloom_of(f), hashes, n, results, true, shape);                                    \
  }                                                                                            \
  static const struct filter_operations name##_operations = {                                  \
      .kind = &tamis__bloom_kind,                                                              \
      .contains = name##_contains,                                                             \
      .contains_many = name##_contains_many,                                                   \
      .add = name##_add,                                                                       \
      .add_unique = name##_add_unique,                                                         \
      .add_many = name##_add_many,                                                             \
      .add_unique_many = name##_add_unique_many,                                               \
  };

#define WORD_SHAPE(bits) ((struct bloom_shape){TAMIS_LAYOUT_WORD, 1, bits})
#define MARKED_SHAPE(bits) ((struct bloom_shape){BLOOM_LAYOUT_MARKED, 1, bits})
#define WORD_OPERATIONS(bits)               \
  OPERATIONS(word_##bits, WORD_SHAPE(bits)) \
  OPERATIONS(marked_##bits, MARKED_SHAPE(bits))
BLOOM_WORD_SHAPES(WORD_OPERATIONS)

const struct filter_operations *tamis__bloom_word_operations(struct bloom_shape shape)
{
#define TABLES(bits) {&word_##bits##_operations, &marked_##bits##_operations},
  static const struct filter_operations *const tables[][2] = {BLOOM_WORD_SHAPES(TABLES)};
  return tables[shape.bits_per_probe - 1][shape.layout == BLOOM_LAYOUT_MARKED];
}
