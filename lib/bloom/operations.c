/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the calls on the keys of a Bloom filter.
 *
 *                       the key's probes (geometry.h)
 *    hash ──────► word 3: mask ┐
 *                 word 6: mask ├─► line of 8 words: 0 . . M . . M .
 *                 word 1: mask ┘
 *
 * Bits only ever change from 0 to 1.  Everything else follows from that:
 *
 * [A] No false negative.  When an add returns, it has seen each of the key's bits as 1, or has set
 *     it.  A bit that was 1 stays 1 for every later look-up (coherence of a single word).
 *
 * [D] No call takes a lock, or waits.  A look-up reads a handful of words once; the add of a new key
 *     reads them and then changes them.
 *
 * [B] One winner.  Before an add changes anything, it notes which words lack bits of the key: the
 *     *gaps*.  Then it fills the gaps one by one.  A unique add wins if its own OR sets a bit in its
 *     last gap.
 *
 *     At most one of all the adds of a key sets a bit in its last gap, whatever their orders are.
 *     Say that P and Q do, in the words l and m.  When P fills l, it has found m complete or has
 *     completed it; so that is after the OR of Q on m, which set a bit there.  For the same reason
 *     the OR of Q on m comes after that of P on l.  (If l is m, the first OR there leaves nothing to
 *     the second.)
 *
 *     At least one does, unless another key interferes.  Without other keys, each word of the key
 *     is as it was before all adds of the key, or complete.  So all these adds put their gaps into
 *     the same order.  Let L be the word that is last in this order of those that were incomplete.
 *     Whoever completes L has seen it incomplete, and so it was the last gap of that call.
 *
 *     If bits of another key complete L meanwhile, nobody may win: the last bits that the key lacked
 *     came from another key while the key was added, which is a false positive that has met an add
 *     half-way.  (The same may happen where bits of another key change the order between two adds of
 *     one key that run at the same time.)  Two rules make this rare:
 *
 *     - An add fills last the gap that other keys are least likely to fill: the *widest* one, in
 *       which most bits are missing.  Let a key have p of the w words of a section.  A key that
 *       another thread adds meanwhile is in the word of the last gap with probability p / w, and has
 *       all of the bits that are missing there with about 1 / 30, 1 / 1,000 or 1 / 40,000, if these
 *       are one, two or three.  docs/internals/correctness.md has what follows from this.
 *     - Before it fills another gap, an add looks at the last one again.  If that has been completed
 *       meanwhile, the add looks at all words again, and so finds another last gap, or none.  What
 *       it has set before are bits of its own key, like those of a call that stops for good.  So of
 *       an add with several gaps, other keys take the win only while it does its last two ORs.
 *
 *     Plain adds take the same order as unique ones.  If they did not, each could take the other's
 *     last gap, and nobody would count the key.
 *
 *     Linearization: with the OR by which a call wins, the key is complete, as all of its other
 *     words are; the call takes effect then.  A call that does not win takes effect when it reads the
 *     last of the bits.  It has read the word of the winner's last gap after the OR of the winner
 *     there, so what the winner did before is visible to it: if it looked at that word before, it
 *     saw a gap there, which it has filled; and if it had done so before the OR of the winner, that
 *     would have set nothing.
 *
 *     Another layer may open meanwhile, or the filter may become full.  So a unique add that has set
 *     a bit in its last gap looks once more whether the filter is as it was.  layers.c goes on.
 *
 * [C] All or nothing.  An add that is refused for the capacity is refused before it changes a bit;
 *     layers.c has the exception.
 *
 * [F] Duplicates.  The add of a key that is in reads words and writes nothing.
 *
 * Keys are counted without a lock.  Several adds of one new key may each set some of its bits, but
 * only the one that sets a bit in its last gap counts the key.  A key that no add counts is treated
 * like one that a false positive hid.
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

/* Within one line it is cheaper to go on than to take a branch that is mispredicted half of the
 * time. */
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

/* Each section is a cache miss, so the look-up ends with the first one that has not got the key. */
FORCE_INLINE bool lookup_in(const word *words, uint64_t of_section, struct bloom_key key,
                            struct bloom_shape shape)
{
  if (bloom_shape_is_word(shape))
    return word_lookup(&words[key.first], bloom_word_mask(key.hash, shape));
  struct bloom_probes probes = bloom_probes_from(key.first, key.hash, shape);
  if (shape.sections == 1)
    return lookup_section(words, &probes, shape);
  unsigned left = shape.sections; /* counted down, as clang keeps a second counter otherwise */
  while (lookup_section(words, &probes, shape)) {
    if (!--left)
      return true;
    bloom_probes_next_section(of_section, &probes, shape);
  }
  return false_at_exit();
}

FORCE_INLINE bool lookup(const struct bloom *b, struct bloom_key key, struct bloom_shape shape)
{
  const word *words = b->words; /* a compiler would read it again after each atomic load */
  return lookup_in(words, section_words(b, shape), key, shape);
}

/* In one of several layers. */
FORCE_INLINE bool lookup_in_row(const struct bloom_row *row, uint64_t mixed,
                                struct bloom_shape shape)
{
  const struct bloom_key key = {mixed, bloom_first_word(row->section_words, mixed)};
  return lookup_in(row->words, row->section_words, key, shape);
}

/* The shape of the most probes of those that have a key's bits in common. */
enum { COMMON_BITS = 3 };
#define COMMON_SHAPE ((struct bloom_shape){TAMIS_LAYOUT_BLOCKED, 4, COMMON_BITS, 1})

/* Goes on to the first row with fewer probes; returns whether it has found the key before. */
FORCE_INLINE bool find_common(const struct bloom_row **row, const struct bloom_row *end,
                              const struct common *c, unsigned probes)
{
  for (; *row < end && (*row)->probes == probes; ++*row) {
    const word *words = (*row)->words;
    const uint64_t first = bloom_first_word((*row)->section_words, c->mixed);
    if (common_matches(words, first, c, probes, TAMIS_LAYOUT_BLOCKED))
      return true;
  }
  return false;
}

static bool find_in_common(const struct bloom_row *rows, unsigned n, uint64_t mixed)
{
  const struct common c = common_of(mixed, COMMON_SHAPE);
  const struct bloom_row *end = rows + n;
  return find_common(&rows, end, &c, 4) || find_common(&rows, end, &c, 3) ||
         find_common(&rows, end, &c, 2) || find_common(&rows, end, &c, 1);
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

/* Both adds do the same, but that a unique one asks whether it has been first. */
FORCE_INLINE int add(struct bloom *b, uint64_t hash, struct bloom_key key, bool unique,
                     struct bloom_shape shape, bool limited)
{
  const int present = unique ? TAMIS_PRESENT : TAMIS_OK;
  struct gaps gaps;
  enum filled filled;
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
    filled = fill_gaps(b, &gaps, shape, limited);
  } while (filled == LOOK_AGAIN);
  if (filled == LOST)
    return present;
  return unique && !is_alone(b) ? tamis__layers_settle(b, hash) : count_key(b);
}

/* Sets a key's bits in one layer, if that is not full, or if the call is late ([B] in layers.c).
 * TAMIS_OK: this call has set a bit in the last gap, and has not counted the key. */
FORCE_INLINE int insert(struct bloom *b, struct bloom_key key, bool late, struct bloom_shape shape,
                        bool limited)
{
  if (bloom_shape_is_word(shape))
    return word_insert(b, &b->words[key.first], bloom_word_mask(key.hash, shape), late);
  struct gaps gaps;
  enum filled filled;
  do {
    find_gaps(b, key, shape, &gaps);
    if (!gaps.any)
      return TAMIS_PRESENT;
    if (!late && refuses(b))
      return TAMIS_EFULL;
    HOOK(bloom_room_found);
    filled = fill_gaps(b, &gaps, shape, limited);
  } while (filled == LOOK_AGAIN);
  return filled == WON ? TAMIS_OK : TAMIS_PRESENT;
}

/* ---- batches: the same calls, with memory fetched before it is needed ---- */

FORCE_INLINE void prepare_group(const struct bloom *b, const uint64_t *hashes, size_t n,
                                struct bloom_key *keys, struct bloom_shape shape)
{
  for (size_t i = 0; i < n; i++) {
    keys[i] = key_of(b, hashes[i], shape);
    prefetch_key(b, keys[i], shape);
  }
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

/* Look-ups are prepared and finished in groups, each in a loop of its own: one loop for both would
 * run out of registers. */
enum { LOOKUP_GROUP = SMALL(16, 4) };
_Static_assert(FILTER_AHEAD % LOOKUP_GROUP == 0, "the groups fill what is ahead");

static inline size_t group_size(size_t i, size_t n)
{
  return n - i < LOOKUP_GROUP ? n - i : LOOKUP_GROUP;
}

/* Each key's memory is fetched FILTER_AHEAD keys before it is read. */
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
      prepare_group(b, hashes + i, group_size(i, n), keys, shape);
  }
  return hits;
}

typedef int (*adder)(struct bloom *b, uint64_t hash, struct bloom_key key, bool unique);

FORCE_INLINE void add_many(struct bloom *b, const uint64_t *hashes, size_t n, int *results,
                           bool unique, struct bloom_shape shape, adder add_key)
{
  struct bloom_key keys[FILTER_GROUP];
  prepare_group(b, hashes, n, keys, shape);
  for (size_t i = 0; i < n; i++)
    results[i] = add_key(b, hashes[i], keys[i], unique);
}

/* Of keys of a filter with counters. */
FORCE_INLINE void count_many(const struct bloom *b, const uint64_t *hashes, size_t n,
                             uint64_t *counts, struct bloom_shape shape)
{
  struct bloom_key keys[FILTER_GROUP];
  prepare_group(b, hashes, n, keys, shape);
  for (size_t i = 0; i < n; i++)
    counts[i] = counting_copies(b, keys[i], shape);
}

/* ---- the same for each shape ----
 *
 * With the shape a constant, the compiler makes straight code of the one body above:
 * blocked_2x3_contains and its like are made here.  Those of several sections read their number: a
 * shape may use `b`, the filter or the row of a layer. */
#define CALL(type, name, parameters, of, ...) \
  static type name parameters                 \
  {                                           \
    __typeof__(of(f)) b = of(f);              \
    __VA_ARGS__;                              \
  }
#define HASH_OF (tamis_filter * f, uint64_t hash)
#define HASH_IN (const tamis_filter *f, uint64_t hash)
#define HASHES_IN(answers) (const tamis_filter *f, const uint64_t *hashes, size_t n, answers)

#define LOOK_UPS(name, shape)                                                \
  CALL(bool, name##_contains, HASH_IN, const_bloom_of,                       \
       return lookup(b, key_of(b, hash, shape), shape))                      \
  CALL(size_t, name##_contains_many, HASHES_IN(bool *found), const_bloom_of, \
       return contains_many(b, hashes, n, found, shape))

#define LOOK_UPS_AND_FIND(name, shape)                                           \
  LOOK_UPS(name, shape)                                                          \
  CALL(bool, name##_live_contains, HASH_IN, const_bloom_of,                      \
       return lookup(b, key_of(b, hash, shape), shape) ||                        \
              (live_has_grown(b) && tamis__layered_contains(f, hash)))           \
  static bool name##_find(const struct bloom_row *b, unsigned n, uint64_t mixed) \
  {                                                                              \
    for (; n; n--, b++)                                                          \
      if (lookup_in_row(b, mixed, shape))                                        \
        return true;                                                             \
    return false;                                                                \
  }

/* Of those with one section. */
#define EACH(name, shape)                                                                    \
  static bool name##_contains_alike(const tamis_filter *const *filters, const void *alike,   \
                                    const uint64_t places[EACH_BLOCK], bool *found)          \
  {                                                                                          \
    return bloom_contains_alike(filters, alike, places, found, shape);                       \
  }                                                                                          \
  static size_t name##_contains_each(const tamis_filter *const *filters, size_t n,           \
                                     struct wanted *wanted, bool *found)                     \
  {                                                                                          \
    static const struct each_way way = {tamis__bloom_prefetch_alike, name##_contains_alike}; \
    return bloom_contains_each(filters, n, wanted, found, &way, shape, name##_contains);     \
  }
#define sections_contains_each NULL
#define classic_contains_each NULL

/* Batches for processors that can compute with vectors: the name of the function.  A few keys are
 * looked up faster one by one, without what a function that has vectors does first. */
#ifdef TAMIS_VECTORS
#define BY_VECTORS(name) name##_contains_many_by_vectors
#define VECTOR_LOOK_UPS(name, shape)                                                        \
  VECTOR_CODE static size_t name##_vectors(const tamis_filter *f, const uint64_t *hashes,   \
                                           size_t n, bool *found)                           \
  {                                                                                         \
    return vector_contains_many(const_bloom_of(f), hashes, n, found, shape);                \
  }                                                                                         \
  static size_t BY_VECTORS(name)(const tamis_filter *f, const uint64_t *hashes, size_t n,   \
                                 bool *found)                                               \
  {                                                                                         \
    return (n < VECTOR_LANES ? name##_contains_many : name##_vectors)(f, hashes, n, found); \
  }
#else
#define BY_VECTORS(name) name##_contains_many
#define VECTOR_LOOK_UPS(name, shape)
#endif

/* All look-ups of a shape with one section. */
#define ONE_SECTION(name, shape) \
  LOOK_UPS_AND_FIND(name, shape) \
  EACH(name, shape)              \
  VECTOR_LOOK_UPS(name, shape)

/* name##_add_key() adds a key. */
#define ADDS_OF(name, call, unique, shape)                                                    \
  CALL(int, call, HASH_OF, bloom_of,                                                          \
       return name##_add_key(b, hash, key_of(b, hash, shape), unique))                        \
  CALL(void, call##_many, (tamis_filter * f, const uint64_t *hashes, size_t n, int *results), \
       bloom_of, add_many(b, hashes, n, results, unique, shape, name##_add_key))
#define ADDS(name, shape)                 \
  ADDS_OF(name, name##_add, false, shape) \
  ADDS_OF(name, name##_add_unique, true, shape)

/* What differs between the kinds stands behind the names. */
#define ALONE(name, many, adds, ...)                                \
  .alone = {.contains = name##_contains,                            \
            .contains_many = NOT_COMPACT(many),                     \
            .prefetch = NOT_COMPACT(tamis__bloom_prefetch),         \
            .contains_each = NOT_COMPACT(name##_contains_each),     \
            .add = NOT_IN_READER(adds##_add),                       \
            .add_unique = NOT_IN_READER(adds##_add_unique),         \
            .add_many = NOT_COMPACT(adds##_add_many),               \
            .add_unique_many = NOT_COMPACT(adds##_add_unique_many), \
            __VA_ARGS__}

#define TABLE(name, many, adds, finder)                                       \
  {                                                                           \
    ALONE(name, many, adds, .kind = &tamis__bloom_kind),                      \
        .live_contains = NOT_COMPACT(name##_live_contains), .find = (finder), \
        .insert = NOT_IN_READER(adds##_insert)                                \
  }

/* `adds` names the adds to a filter that is limited, or that is not; its look-ups are those of
 * `name`, but for the batches of processors that can compute with vectors. */
#define CALLS_WITH(name, by_vectors, adds, shape, limited, finder)                      \
  FORCE_INLINE int adds##_add_key(struct bloom *b, uint64_t hash, struct bloom_key key, \
                                  bool unique)                                          \
  {                                                                                     \
    return add(b, hash, key, unique, shape, limited);                                   \
  }                                                                                     \
  ADDS(adds, shape)                                                                     \
  static int adds##_insert(struct bloom *b, uint64_t mixed, bool late)                  \
  {                                                                                     \
    return insert(b, key_of_mixed(b, mixed, shape), late, shape, limited);              \
  }                                                                                     \
  static const struct bloom_calls adds##_calls[] = {                                    \
      TABLE(name, name##_contains_many, adds, finder), TABLE(name, by_vectors, adds, finder)};

/* In both forms. */
#define CALLS(name, by_vectors, shape, finder)             \
  CALLS_WITH(name, by_vectors, name, shape, false, finder) \
  CALLS_WITH(name, by_vectors, limited_##name, shape, true, finder)

/* NEVER_INLINE: a call for a key that is in then saves no registers. */
#define COUNTING_CALLS_WITH(name, shape, ...)                                             \
  CALL(int, name##_remove, HASH_OF, bloom_of,                                             \
       return counting_remove(b, key_of(b, hash, shape), shape))                          \
  CALL(uint64_t, name##_count, HASH_IN, const_bloom_of,                                   \
       return counting_copies(b, key_of(b, hash, shape), shape))                          \
  CALL(void, name##_count_many, HASHES_IN(uint64_t *counts), const_bloom_of,              \
       count_many(b, hashes, n, counts, shape))                                           \
  static NEVER_INLINE int name##_missing(struct bloom *b, struct bloom_key key)           \
  {                                                                                       \
    return counting_add_missing(b, key, shape);                                           \
  }                                                                                       \
  FORCE_INLINE int name##_add_key(struct bloom *b, uint64_t hash, struct bloom_key key,   \
                                  bool unique)                                            \
  {                                                                                       \
    (void) hash;                                                                          \
    if (!unique)                                                                          \
      return counting_add(b, key, shape);                                                 \
    if (lookup(b, key, shape))                                                            \
      return TAMIS_PRESENT;                                                               \
    HOOK(bloom_key_missed);                                                               \
    return name##_missing(b, key);                                                        \
  }                                                                                       \
  LOOK_UPS(name, shape)                                                                   \
  __VA_ARGS__                                                                             \
  ADDS(name, shape)                                                                       \
  static const struct bloom_calls name##_calls = {                                        \
      ALONE(name, name##_contains_many, name, .kind = &tamis__counting_bloom_kind,        \
            .remove = NOT_IN_READER(name##_remove), .count = NOT_IN_READER(name##_count), \
            .count_many = NOT_COMPACT(name##_count_many))};

#ifdef TAMIS_COMPACT

/* Of a filter, or of the row of a layer. */
#define SHAPE_OF(b) \
  _Generic((b), struct bloom *                                                 \
           : bloom_shape_of, const struct bloom *                              \
           : bloom_shape_of, const struct bloom_row *                          \
           : bloom_shape_of_row)(b)
#define any_contains_each NULL
#define any_counting_contains_each NULL
LOOK_UPS_AND_FIND(any, SHAPE_OF(b))
CALLS(any, any_contains_many, SHAPE_OF(b), any_find)
COUNTING_CALLS_WITH(any_counting, SHAPE_OF(b), )

const struct bloom_calls *tamis__bloom_calls(struct bloom_shape shape, bool limited)
{
  if (shape.layout == BLOOM_LAYOUT_COUNTING)
    return &any_counting_calls;
  return limited ? limited_any_calls : any_calls;
}

#else

#define SHAPE(layout, probes, bits) ((struct bloom_shape){layout, probes, bits, 1})
#define BLOCKED_CALLS(probes, bits)                                                 \
  ONE_SECTION(blocked_##probes##x##bits, SHAPE(TAMIS_LAYOUT_BLOCKED, probes, bits)) \
  CALLS(blocked_##probes##x##bits, BY_VECTORS(blocked_##probes##x##bits),           \
        SHAPE(TAMIS_LAYOUT_BLOCKED, probes, bits),                                  \
        (bits) == COMMON_BITS ? find_in_common : blocked_##probes##x##bits##_find)
BLOOM_BLOCKED_SHAPES(BLOCKED_CALLS)
#define COUNTING_CALLS(probes, bits)                                          \
  COUNTING_CALLS_WITH(                                                        \
      counting_##probes##x##bits, SHAPE(BLOOM_LAYOUT_COUNTING, probes, bits), \
      EACH(counting_##probes##x##bits, SHAPE(BLOOM_LAYOUT_COUNTING, probes, bits)))
BLOOM_COUNTING_SHAPES(COUNTING_CALLS)
#define WORD_CALLS_OF(name, layout, bits, limited) \
  ONE_SECTION(name, SHAPE(layout, 1, bits))        \
  CALLS_WITH(name, BY_VECTORS(name), name, SHAPE(layout, 1, bits), limited, name##_find)
#define WORD_CALLS(bits)                                     \
  WORD_CALLS_OF(word_##bits, TAMIS_LAYOUT_WORD, bits, false) \
  WORD_CALLS_OF(marked_##bits, BLOOM_LAYOUT_MARKED, bits, true)
BLOOM_WORD_SHAPES(WORD_CALLS)
#define SECTIONS_CALLS(name, layout, probes, bits)                                             \
  LOOK_UPS_AND_FIND(name, ((struct bloom_shape){layout, probes, bits, b->sections}))           \
  CALLS(name, name##_contains_many, ((struct bloom_shape){layout, probes, bits, b->sections}), \
        name##_find)
SECTIONS_CALLS(sections, TAMIS_LAYOUT_BLOCKED, SECTION_PROBES, SECTION_BITS)
SECTIONS_CALLS(classic, TAMIS_LAYOUT_CLASSIC, CLASSIC_PROBES, CLASSIC_BITS)

const struct bloom_calls *tamis__bloom_calls(struct bloom_shape shape, bool limited)
{
#define WORD_TABLES(bits) {word_##bits##_calls, marked_##bits##_calls},
  static const struct bloom_calls *const words[][2] = {BLOOM_WORD_SHAPES(WORD_TABLES)};
  if (bloom_shape_is_word(shape))
    return words[shape.bits_per_probe - 1][shape.layout == BLOOM_LAYOUT_MARKED];
  if (shape.layout == TAMIS_LAYOUT_CLASSIC)
    return limited ? limited_classic_calls : classic_calls;
#define HAS(of_layout, p, b)                                                            \
  (shape.layout == (of_layout) && shape.probes == (p) && shape.bits_per_probe == (b) && \
   shape.sections == 1)
#define CHOOSE_BLOCKED(p, b)           \
  if (HAS(TAMIS_LAYOUT_BLOCKED, p, b)) \
    return limited ? limited_blocked_##p##x##b##_calls : blocked_##p##x##b##_calls;
#define CHOOSE_COUNTING(p, b)           \
  if (HAS(BLOOM_LAYOUT_COUNTING, p, b)) \
    return &counting_##p##x##b##_calls;
  BLOOM_BLOCKED_SHAPES(CHOOSE_BLOCKED)
  BLOOM_COUNTING_SHAPES(CHOOSE_COUNTING)
  return limited ? limited_sections_calls : sections_calls;
}

#endif

const struct bloom_calls *tamis__bloom_calls_by_vectors(struct bloom_shape shape, bool limited)
{
  const struct bloom_calls *calls = tamis__bloom_calls(shape, limited);
  return shape.layout == BLOOM_LAYOUT_COUNTING ? calls : calls + 1;
}
