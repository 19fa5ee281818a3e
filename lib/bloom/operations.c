/* SPDX-License-Identifier: MIT
 *
 * Layer 2: look-ups and adds of a Bloom filter.  All functions that take keys are built here.
 *
 *                      the key's probes (geometry.h)
 *   hash ──────► word 3: mask ┐
 *                word 6: mask ├─► line of 8 words: 0 . . M . . M .
 *                word 1: mask ┘
 *
 * Bits only ever change from 0 to 1.  All arguments follow from this fact:
 *
 * [A] No false negative.  When an add returns, it has seen each of the key's bits as 1, or has set
 *     it.  A bit that was 1 stays 1 for every later look-up (coherence of a single word).
 *
 * [D] No call takes a lock, and only an add that opens a layer may wait (layers.c).
 *
 * [B] One winner.  Before an add changes anything, it finds the words that lack bits of the key:
 *     the *gaps*.  Then it fills them one by one.  A unique add wins if its own OR sets a bit in
 *     its last gap.
 *
 *     At most one add of a key sets a bit in its last gap.  Suppose that the adds P and Q do: P in
 *     the word l, and Q in the word m.
 *     1. If l = m, the first OR on this word leaves no bit to the second: a contradiction.
 *     2. Otherwise P, when it fills l, has found m complete or has completed m.  So P's OR on l
 *        comes after Q's OR on m, which set a bit there.
 *     3. For the same reason Q's OR on m comes after P's OR on l: a contradiction.
 *
 *     At least one add sets a bit in its last gap, unless another key interferes.  Without other
 *     keys, each word of the key is either complete, or as it was before all adds of the key.  So
 *     all these adds put their gaps into the same order.  Let L be the last incomplete word in this
 *     order.  The add that completes L has seen L incomplete, so L was its last gap.
 *
 *     Another key interferes if its bits complete L: then perhaps no add wins, and the key is a
 *     kind of false positive.  (Bits of another key may also cause two concurrent adds of one key
 *     to order their gaps differently.)  Two rules make this rare:
 *
 *     - An add fills last the *widest* gap, in which most bits are missing.  If a key that another
 *       thread adds meanwhile has bits in this word, they fill a gap of one bit with a probability
 *       of about 1 / 30, of two bits with 1 / 1,000, and of three bits with 1 / 40,000.
 *     - Before an add fills any gap but the last, it reads the word of the last gap again.  If that
 *       word is complete by now, the add finds all gaps again.  (The bits that it has set belong to
 *       its key.)  So other keys can take the win only during the last two ORs.
 *
 *     Plain adds fill gaps in the same order as unique adds.  Otherwise a plain and a unique add
 *     could each fill the last gap of the other, and neither would count the key.
 *
 *     Linearization: a winner takes effect with the OR by which it wins.  This OR completes the
 *     key, as all other words are complete.  A call that does not win takes effect when it reads
 *     the last of the bits.  It sees what the winner did before, because it has read the word of
 *     the winner's last gap after the winner's OR.  (If it read the word earlier, it found a gap
 *     there, and filled it by an OR.  This OR came after the winner's, which would otherwise have
 *     set nothing.)
 *
 *     While a unique add runs, another layer may open, or the filter may become full.  So an add
 *     that has set a bit in its last gap checks whether the filter has changed: see layers.c.
 *
 * [C] All or nothing.  An add to a full filter is refused before it changes a bit.  [C] in layers.c
 *     has the only exceptions.
 *
 * [F] Duplicates.  The add of a present key reads words and writes nothing.
 *
 * Keys are counted without a lock: only the add that sets a bit in its last gap counts the key.  A
 * key that no add has counted is treated like a hidden key.
 */
#include "bloom/bloom.h"

#include "base/compiler.h"
#include "base/hook.h"
#include "bloom/capacity.h"
#include "bloom/counting.h"
#include "bloom/each.h"
#include "bloom/gaps.h"
#include "bloom/layers.h"
#include "bloom/live.h"
#include "bloom/vectors.h"
#include "bloom/word_layout.h"

/* ---- look-up ---- */

/* Reads all the words of a key: half of the branches after each word would be mispredicted. */
FORCE_INLINE bool lookup_section(const word *words, const struct bloom_probes *begin,
                                 struct bloom_shape shape)
{
  struct bloom_probes probes = *begin;
  uint64_t in = UINT64_MAX;
  UNROLL
  for (unsigned i = 0; i < shape.probes; i++) {
    struct bloom_probe probe = bloom_probes_next(&probes, shape);
    uint64_t set = bloom_positions_set(word_load(&words[probe.word]), shape.layout);
    in &= rotate_right(set, probe.rotation);
  }
  return bloom_pattern_matches(in, begin->hash, shape) & 1;
}

/* Each section costs a cache miss, so a look-up ends at the first section that lacks the key. */
FORCE_INLINE bool lookup_in(const word *words, uint64_t of_section, struct bloom_key key,
                            struct bloom_shape shape)
{
  if (bloom_shape_is_word(shape))
    return word_lookup(&words[key.first], bloom_word_mask(key.hash, shape));
  struct bloom_probes probes = bloom_probes_from(key.first, key.hash, shape);
  /* The loop counts down, as clang would otherwise keep a second counter. */
  for (unsigned left = shape.sections - 1; left; left--) {
    if (!lookup_section(words, &probes, shape))
      return false_at_exit();
    bloom_probes_next_section(of_section, &probes, shape);
  }
  return lookup_section(words, &probes, shape);
}

FORCE_INLINE bool lookup(const struct bloom *b, struct bloom_key key, struct bloom_shape shape)
{
  const word *words = b->words; /* a copy: the compiler would read b->words again after each load */
  return lookup_in(words, section_words(b, shape), key, shape);
}

FORCE_INLINE bool lookup_in_row(const struct bloom_row *row, uint64_t mixed,
                                struct bloom_shape shape)
{
  const struct bloom_key key = {mixed, bloom_first_word(row->section_words, mixed)};
  return lookup_in(row->words, row->section_words, key, shape);
}

/* Blocked shapes with one section and COMMON_BITS bits per probe differ only in their number of
 * probes, so they share a key's first probes.  COMMON_SHAPE has the most probes. */
enum { COMMON_BITS = 3 };
#define COMMON_SHAPE ((struct bloom_shape){TAMIS_LAYOUT_BLOCKED, 4, COMMON_BITS, 1})

/* Returns true if a layer has a key's bits in the words of its probes `begin` to `end` - 1. */
FORCE_INLINE bool row_matches(const struct bloom_row *row, const struct common *c, unsigned begin,
                              unsigned end)
{
  return common_matches(row->words, bloom_first_word(row->section_words, c->mixed), c, begin, end,
                        TAMIS_LAYOUT_BLOCKED);
}

/* Searches n layers; the first has the most probes.  Only one in sixty absent keys has all bits of
 * its first two words set in a layer, so most layers are done after two words. */
static bool find_in_common(const struct bloom_row *row, unsigned n, uint64_t mixed)
{
  const struct common c = common_of(mixed, COMMON_SHAPE);
  const struct bloom_row *end = row + n;
  for (; row < end && row->probes > 1; row++)
    if (row_matches(row, &c, 0, 2) && (row->probes < 3 || row_matches(row, &c, 2, 3)) &&
        (row->probes < 4 || row_matches(row, &c, 3, 4)))
      return true;
  for (; row < end; row++)
    if (row_matches(row, &c, 0, 1))
      return true;
  return false;
}

/* ---- add and unique add ---- */

FORCE_INLINE int add_in_word(struct bloom *b, uint64_t hash, struct bloom_key key, bool unique,
                             struct bloom_shape shape)
{
  word *at = &b->words[key.first];
  uint64_t mask = bloom_word_mask(key.hash, shape);
  if (shape.layout != BLOOM_LAYOUT_MARKED)
    return word_add_growable(b, at, mask, hash, unique);
  int result = word_add_limited(b, at, mask, unique);
  return result == TAMIS_PRESENT && !unique ? TAMIS_OK : result;
}

/* A function that calls counting_add_missing() with a constant shape. */
typedef int (*missing_adder)(struct bloom *b, struct bloom_key key);

/* Adds a key.  A unique add also returns whether it was first.
 *
 * There is no prefetch for writing.  It would make adds of new keys by two threads 9 % faster, but
 * adds of present keys 2.9 times slower, as cores could not share lines. */
FORCE_INLINE int add(struct bloom *b, uint64_t hash, struct bloom_key key, bool unique,
                     struct bloom_shape shape, missing_adder missing)
{
  const int present = unique ? TAMIS_PRESENT : TAMIS_OK;
  struct gaps gaps;
  enum filled filled;
  if (shape.layout == BLOOM_LAYOUT_COUNTING)
    return !unique                 ? counting_add(b, key, shape)
           : lookup(b, key, shape) ? TAMIS_PRESENT
                                   : missing(b, key);
  if (bloom_shape_is_word(shape))
    return add_in_word(b, hash, key, unique, shape);
  do {
    find_gaps(b, key, shape, &gaps);
    if (!gaps.any)
      return present;
    HOOK(bloom_key_missed);
    if (!is_far(b))
      return unique ? tamis__layered_add_unique(&b->head, hash)
                    : tamis__layered_add(&b->head, hash);
    HOOK(bloom_room_found);
    filled = fill_gaps(b, &gaps, shape);
  } while (filled == LOOK_AGAIN);
  if (filled == LOST)
    return present;
  return unique && !is_alone(b) ? tamis__layers_settle(b, hash) : count_key(b);
}

/* Sets a key's bits in one layer; a full layer takes a key only if `late` is set ([B] in layers.c).
 * Returns TAMIS_OK if this call has set a bit in its last gap.  Does not count the key. */
FORCE_INLINE int insert(struct bloom *b, struct bloom_key key, bool late, struct bloom_shape shape)
{
  struct gaps gaps;
  enum filled filled;
  do {
    find_gaps(b, key, shape, &gaps);
    if (!gaps.any)
      return TAMIS_PRESENT;
    if (!late && refuses(b))
      return TAMIS_EFULL;
    HOOK(bloom_room_found);
    filled = fill_gaps(b, &gaps, shape);
  } while (filled == LOOK_AGAIN);
  return filled == WON ? TAMIS_OK : TAMIS_PRESENT;
}

/* ---- batches: the same calls, but memory is fetched before it is needed ---- */

FORCE_INLINE void prepare_group(const struct bloom *b, const uint64_t *hashes, size_t n,
                                struct bloom_key *keys, struct bloom_shape shape, bool to_write)
{
  for (size_t i = 0; i < n; i++) {
    keys[i] = key_of(b, hashes[i], shape);
    prefetch_key(b, keys[i], shape, to_write);
  }
}

static void prefetch(const tamis_filter *f, uint64_t hash)
{
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_shape shape = bloom_shape_of(b);
  prefetch_key(b, key_of(b, hash, shape), shape, false);
}

/* The `prefetch` of struct each_way, for all shapes.  Sets places[i] to the key's first word. */
static bool prefetch_alike(const tamis_filter *const *filters, const void *alike,
                           uint64_t places[EACH_BLOCK], bool more)
{
  enum { HEAD_BYTES = offsetof(struct bloom, word_count) + sizeof(uint64_t) };
  const struct bloom_alike a = *(const struct bloom_alike *) alike;
  if (more)
    each_fetch_heads(filters + EACH_BLOCK, HEAD_BYTES);
  UNROLL
  for (unsigned i = 0; i < EACH_BLOCK; i++) {
    const struct bloom *b = const_bloom_of(filters[i]);
    if (!each_is_alike(filters[i], a.seed, a.contains))
      return false;
    places[i] = hash_to_range(a.product, b->word_count);
    __builtin_prefetch(&b->words[places[i]]);
  }
  return true;
}

FORCE_INLINE size_t lookup_group(const struct bloom *b, size_t n, const struct bloom_key *keys,
                                 bool *found, struct bloom_shape shape)
{
  size_t hits = 0;
  for (size_t i = 0; i < n; i++) {
    bool in = lookup(b, keys[i], shape);
    hits += in;
    if (found)
      found[i] = in;
  }
  return hits;
}

/* A loop prepares a group, another looks it up: a single loop would need too many registers. */
enum { LOOKUP_GROUP = SMALL(16, 4) };
_Static_assert(FILTER_AHEAD % LOOKUP_GROUP == 0, "the groups fill what is ahead");

static inline size_t group_size(size_t i, size_t n)
{
  return n - i < LOOKUP_GROUP ? n - i : LOOKUP_GROUP;
}

/* Looks up a batch.  Each key's memory is fetched FILTER_AHEAD keys before it is read. */
FORCE_INLINE size_t contains_many(const struct bloom *b, const uint64_t *hashes, size_t n,
                                  bool *found, struct bloom_shape shape)
{
  struct bloom_key ahead[FILTER_AHEAD];
  size_t hits = 0;
  for (size_t i = 0; i < n + FILTER_AHEAD; i += LOOKUP_GROUP) {
    struct bloom_key *keys = &ahead[i % FILTER_AHEAD];
    size_t turn = i - FILTER_AHEAD;
    if (i >= FILTER_AHEAD)
      hits += lookup_group(b, group_size(turn, n), keys, found ? found + turn : NULL, shape);
    if (i < n)
      prepare_group(b, hashes + i, group_size(i, n), keys, shape, false);
  }
  return hits;
}

/* A plain add to a filter with counters always writes.  Any other add writes only if its key is
 * absent, so lines are fetched for writing if one of the first two keys in the thread's last batch
 * of at least LARGE keys was absent. */
FORCE_INLINE void prepare_for_adds(const struct bloom *b, const uint64_t *hashes, size_t n,
                                   struct bloom_key *keys, bool unique, struct bloom_shape shape)
{
  enum { LARGE = SMALL(16, 4) };
  static _Thread_local bool to_write DIRECT_TLS = false;
  const bool always = shape.layout == BLOOM_LAYOUT_COUNTING && !unique;
  prepare_group(b, hashes, n, keys, shape, always || to_write);
  if (!always && n >= LARGE)
    to_write = !lookup(b, keys[0], shape) || !lookup(b, keys[1], shape);
}

typedef int (*adder)(struct bloom *b, uint64_t hash, struct bloom_key key, bool unique);

FORCE_INLINE void add_many(struct bloom *b, const uint64_t *hashes, size_t n, int *results,
                           bool unique, struct bloom_shape shape, adder add_key)
{
  struct bloom_key keys[FILTER_GROUP];
  prepare_for_adds(b, hashes, n, keys, unique, shape);
  for (size_t i = 0; i < n; i++)
    results[i] = add_key(b, hashes[i], keys[i], unique);
}

FORCE_INLINE void count_many(const struct bloom *b, const uint64_t *hashes, size_t n,
                             uint64_t *counts, struct bloom_shape shape)
{
  struct bloom_key keys[FILTER_GROUP];
  prepare_group(b, hashes, n, keys, shape, false);
  for (size_t i = 0; i < n; i++)
    counts[i] = counting_copies(b, keys[i], shape);
}

/* ---- the functions of each shape ----
 *
 * SHAPE() makes functions for one constant shape, such as blocked_2x3_contains, so that the
 * compiler makes straight-line code.  The compiler omits functions that are in no table.
 *
 * If a number of a constant shape is 0, it is read from the filter or from a layer's row:
 * `sections` if there are more than two, and in a compact build all numbers. */
FORCE_INLINE struct bloom_shape complete_shape(struct bloom_shape shape,
                                               struct bloom_shape of_filter)
{
  if (!shape.probes)
    return of_filter;
  shape.sections = shape.sections ? shape.sections : of_filter.sections;
  return shape;
}

FORCE_INLINE bool find_in_rows(const struct bloom_row *row, unsigned n, uint64_t mixed,
                               struct bloom_shape shape)
{
  for (; n; n--, row++)
    if (lookup_in_row(row, mixed, complete_shape(shape, bloom_shape_of_row(row))))
      return true;
  return false;
}

#define FUNCTION(type, name, parameters, ...) \
  static type name parameters                 \
  {                                           \
    __VA_ARGS__;                              \
  }

/* Defines a function whose body can use `shape`, and the filter `f` as `b`. */
#define CALL(type, name, of_shape, parameters, of, ...)                                  \
  FUNCTION(type, name, parameters, __typeof__(of(f)) b = of(f);                          \
           const struct bloom_shape shape = complete_shape(of_shape, bloom_shape_of(b)); \
           __VA_ARGS__)
#define HASH_OF (tamis_filter * f, uint64_t hash)
#define HASH_IN (const tamis_filter *f, uint64_t hash)
#define HASHES_OF (tamis_filter * f, const uint64_t *hashes, size_t n, int *results)
#define HASHES_IN(answers) (const tamis_filter *f, const uint64_t *hashes, size_t n, answers)

/* Batches with vector instructions.  Fewer than VECTOR_LANES keys are looked up one by one. */
#ifdef TAMIS_VECTORS
#define VECTORS(name)                                                  \
  VECTOR_CODE FUNCTION(size_t, name##_vectors, HASHES_IN(bool *found), \
                       return vector_contains_many(const_bloom_of(f), hashes, n, found, name))
#define HAS_VECTORS(name) (name##_is_few && !name##_counts)
#define MANY(name, n)                                                            \
  (HAS_VECTORS(name) && (n) >= VECTOR_LANES && vectors_usable() ? name##_vectors \
                                                                : name##_one_by_one)
#else
#define VECTORS(name)
#define MANY(name, n) name##_one_by_one
#endif

/* Defines the functions of one shape.  NEVER_INLINE keeps long, rare code apart: otherwise a unique
 * add of a present key, or a batch by vectors, would push registers at its entry. */
#define SHAPE(name, layout, probes, bits, sections)                                                \
  static const struct bloom_shape name = {layout, probes, bits, sections};                         \
  enum {                                                                                           \
    name##_counts = (layout) == BLOOM_LAYOUT_COUNTING,                                             \
    name##_is_one = (sections) == 1,                                                               \
    name##_is_few = (sections) == 1 || (sections) == 2,                                            \
    name##_is_common = (layout) == TAMIS_LAYOUT_BLOCKED && name##_is_one && +(bits) == COMMON_BITS \
  };                                                                                               \
  VECTORS(name)                                                                                    \
  CALL(bool, name##_contains, name, HASH_IN, const_bloom_of,                                       \
       return lookup(b, key_of(b, hash, shape), shape))                                            \
  CALL(NEVER_INLINE size_t, name##_one_by_one, name, HASHES_IN(bool *found), const_bloom_of,       \
       return contains_many(b, hashes, n, found, shape))                                           \
  FUNCTION(size_t, name##_contains_many, HASHES_IN(bool *found),                                   \
           return MANY(name, n)(f, hashes, n, found))                                              \
  CALL(bool, name##_live_contains, name, HASH_IN, const_bloom_of,                                  \
       return lookup(b, key_of(b, hash, shape), shape) ||                                          \
              (live_has_grown(b) && tamis__layered_contains(f, hash)))                             \
  FUNCTION(bool, name##_find, (const struct bloom_row *rows, unsigned n, uint64_t mixed),          \
           return find_in_rows(rows, n, mixed, name))                                              \
  FUNCTION(bool, name##_contains_alike,                                                            \
           (const tamis_filter *const *filters, const void *alike,                                 \
            const uint64_t places[EACH_BLOCK], bool *found),                                       \
           return bloom_contains_alike(filters, alike, places, found, name))                       \
  FUNCTION(size_t, name##_contains_each,                                                           \
           (const tamis_filter *const *filters, size_t n, struct wanted *wanted, bool *found),     \
           static const struct each_way way = {prefetch_alike, name##_contains_alike};             \
           return bloom_contains_each(filters, n, wanted, found, &way, name, name##_contains))     \
  CALL(int, name##_remove, name, HASH_OF, bloom_of,                                                \
       return counting_remove(b, key_of(b, hash, shape), shape))                                   \
  CALL(uint64_t, name##_count, name, HASH_IN, const_bloom_of,                                      \
       return counting_copies(b, key_of(b, hash, shape), shape))                                   \
  CALL(void, name##_count_many, name, HASHES_IN(uint64_t *counts), const_bloom_of,                 \
       count_many(b, hashes, n, counts, shape))                                                    \
  FUNCTION(NEVER_INLINE int, name##_missing, (struct bloom * b, struct bloom_key key),             \
           return counting_add_missing(b, key, complete_shape(name, bloom_shape_of(b))))           \
  FORCE_INLINE int name##_add_key(struct bloom *b, uint64_t hash, struct bloom_key key,            \
                                  bool unique)                                                     \
  {                                                                                                \
    const struct bloom_shape shape = complete_shape(name, bloom_shape_of(b));                      \
    return add(b, hash, key, unique, shape, name##_missing);                                       \
  }                                                                                                \
  CALL(int, name##_add, name, HASH_OF, bloom_of,                                                   \
       return name##_add_key(b, hash, key_of(b, hash, shape), false))                              \
  CALL(int, name##_add_unique, name, HASH_OF, bloom_of,                                            \
       return name##_add_key(b, hash, key_of(b, hash, shape), true))                               \
  CALL(void, name##_add_many, name, HASHES_OF, bloom_of,                                           \
       add_many(b, hashes, n, results, false, shape, name##_add_key))                              \
  CALL(void, name##_add_unique_many, name, HASHES_OF, bloom_of,                                    \
       add_many(b, hashes, n, results, true, shape, name##_add_key))                               \
  FUNCTION(int, name##_insert, (struct bloom * b, uint64_t mixed, bool late),                      \
           const struct bloom_shape shape = complete_shape(name, bloom_shape_of(b));               \
           return insert(b, key_of_mixed(b, mixed, shape), late, shape))

#define TABLE(name, counts)                                                              \
  {                                                                                      \
    .alone = {.kind = (counts) ? &tamis__counting_bloom_kind : &tamis__bloom_kind,       \
              .contains = name##_contains,                                               \
              .contains_many = NOT_COMPACT(name##_contains_many),                        \
              .prefetch = NOT_COMPACT(prefetch),                                         \
              .contains_each = NOT_COMPACT(name##_is_one ? name##_contains_each : NULL), \
              .add = NOT_IN_READER(name##_add),                                          \
              .add_unique = NOT_IN_READER(name##_add_unique),                            \
              .add_many = NOT_COMPACT(name##_add_many),                                  \
              .add_unique_many = NOT_COMPACT(name##_add_unique_many),                    \
              .remove = NOT_IN_READER((counts) ? name##_remove : NULL),                  \
              .count = NOT_IN_READER((counts) ? name##_count : NULL),                    \
              .count_many = NOT_COMPACT((counts) ? name##_count_many : NULL)},           \
    .live_contains = NOT_COMPACT((counts) ? NULL : name##_live_contains),                \
    .find = (counts)           ? NULL                                                    \
            : name##_is_common ? find_in_common                                          \
                               : name##_find,                                            \
    .insert = NOT_IN_READER((counts) ? NULL : name##_insert)                             \
  }

#ifdef TAMIS_COMPACT

SHAPE(any, 0, 0, 0, 0)

const struct bloom_calls *tamis__bloom_calls(struct bloom_shape shape)
{
  static const struct bloom_calls calls[] = {TABLE(any, false), TABLE(any, true)};
  return &calls[shape.layout == BLOOM_LAYOUT_COUNTING];
}

#else

/* USE_ALL has USE(name, layout, probes, bits_per_probe, sections) for each shape. */
#define USE_BLOCKED(p, n) USE(blocked_##p##x##n, TAMIS_LAYOUT_BLOCKED, p, n, 1)
#define USE_COUNTING(p, n) USE(counting_##p##x##n, BLOOM_LAYOUT_COUNTING, p, n, 1)
#define USE_WORD(n)                         \
  USE(word_##n, TAMIS_LAYOUT_WORD, 1, n, 1) \
  USE(marked_##n, BLOOM_LAYOUT_MARKED, 1, n, 1)
#define USE_ALL                                                        \
  BLOOM_BLOCKED_SHAPES(USE_BLOCKED)                                    \
  BLOOM_COUNTING_SHAPES(USE_COUNTING)                                  \
  BLOOM_WORD_SHAPES(USE_WORD)                                          \
  USE(two, TAMIS_LAYOUT_BLOCKED, SECTION_PROBES, SECTION_BITS, 2)      \
  USE(sections, TAMIS_LAYOUT_BLOCKED, SECTION_PROBES, SECTION_BITS, 0) \
  USE(classic, TAMIS_LAYOUT_CLASSIC, CLASSIC_PROBES, CLASSIC_BITS, 0)

#define USE(name, layout, probes, bits, sections) \
  SHAPE(name, layout, probes, bits, sections)     \
  static const struct bloom_calls name##_calls = TABLE(name, name##_counts);
USE_ALL
#undef USE

const struct bloom_calls *tamis__bloom_calls(struct bloom_shape shape)
{
  const bool few = shape.sections <= 2 && shape.layout != TAMIS_LAYOUT_CLASSIC;
#define KEY(layout, probes, bits, sections) \
  ((layout) << 8 | (probes) << 5 | (bits) << 2 | (sections))
#define USE(name, layout, probes, bits, sections) \
  case KEY(layout, probes, bits, sections):       \
    return &name##_calls;
  switch (KEY(shape.layout, shape.probes, shape.bits_per_probe, few ? shape.sections : 0)) {
    USE_ALL
  default:
    return NULL; /* no plan chooses such a shape, and no file has it */
  }
}

#endif
