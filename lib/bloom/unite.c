/* SPDX-License-Identifier: MIT
 *
 * Layer 2: union, intersection and comparison of two Bloom filters that are in use.
 *
 * Two filters fit together if each key has the same bits in both: they have the same seed and hash
 * function (which the caller has checked), shape and number of lines.  Both must be growable, or
 * both fixed.
 *
 * Union.  If a word of `into` lacks bits of the same word of `from`, one atomic OR sets them.  To
 * every other call this looks like the adds of many keys at once, which set their words in some
 * order.  So the essays in operations.c and word_layout.h hold, with these additions:
 *
 * [A] No false negative.  If the add of a key to `from` returned before the union began, all bits
 *     of the key are in `from`, and stay.  When the union returns, it has seen each of these bits
 *     in `into`, or has set it.  A call that then finds the key in `into` also sees what the adder
 *     did before the add: the union acquires by word_load() of `from`, and releases by word_or().
 *
 * [B] One winner.
 *
 *     Not two: of the unique adds of a key, at most one sets a bit in its last gap, whatever bits
 *     other calls set.  In the word layout, at most one OR sets the last bits of the key.
 *
 *     Not none, unless the union brought the key: a unique add returns TAMIS_PRESENT only when all
 *     bits of the key are set.  Each bit was set for a key that some call has added to `into` or to
 *     `from`.  If no unique add of the key has won, the union brought the key, or the key is a
 *     false positive, for which [B] promises no winner.
 *
 *     If the union sets the last bit of a winner's key, the winner takes effect at this instant,
 *     and the union adds the key just after.
 *
 * [C] Capacity.  A fixed filter that has no room for a union refuses it before a bit changes: the
 *     union first reads all words of both filters, which gives the exact number of bits afterwards.
 *     There is room if this number is at most bloom_geometry_most_bits(), and if at most `capacity`
 *     keys are certainly present.  Calls that run meanwhile may take that room.  So after each
 *     chunk, the union counts the keys whose bits it has set, and other calls see how much room is
 *     left.  If other calls leave too little room, the union stops with TAMIS_EFULL before the next
 *     chunk in which `into` lacks bits.
 *
 *     In the marked layout no call changes a word with a mark.  So the union replaces words by
 *     compare-and-swap, as adds do, and stops at a mark.
 *
 *     A union does not change KEYS, which never exceeds the number of keys that are present: with
 *     an estimate in KEYS, a filter could refuse keys before its capacity.  If the capacity has
 *     certainly been reached after a union, the filter becomes FULL.
 *
 *     The union of growable filters opens the layers that `into` lacks, and then unites layers with
 *     the same number, which have the same size.  A layer may get more keys than it was planned
 *     for, and then exceeds its share of the rate.  Later layers keep their shares.
 *
 * Union of counters.  The union adds the counters of each word of `from` to the same word of
 * `into`, line by line, under the stripe of the line (counting.h).  If `from` has a key all the
 * time, the union adds the key to `into` when it raises counters in the key's last word.  If `into`
 * is fixed, the union takes places for all copies of `from` before it changes a counter, or returns
 * TAMIS_EFULL if too few are left.  At the end, the union corrects this number by the copies that
 * `from` has gained or lost.
 *
 * The number of keys.  Numbers of set bits give estimates of numbers of keys: a for `into` before
 * the union, b for `from`, and u for `into` after the union.  The union adds to UNITED the number
 * of keys that `from` has counted, minus the a + b - u keys that are in both.  This number is exact
 * if `into` is empty, and always within the limits that the new bits give.
 * Source: Swamidass and Baldi, J. Chem. Inf. Model. 47 (2007), for a, b and u
 *
 * The union counts the bits of a word before and after its OR on the word.  So bits of adds that
 * run meanwhile are in both numbers or in neither.  These adds count their keys themselves.
 *
 * Intersection.  A key is found in the AND of two filters if and only if it is found in both.
 * Source: Broder and Mitzenmacher, Internet Math. 1 (2004), 2.3
 */
#include "bloom/bloom.h"

#include "base/compiler.h"
#include "base/hook.h"
#include "bloom/bits.h"
#include "bloom/capacity.h"
#include "bloom/counting.h"
#include "bloom/layers.h"

#include <math.h>

/* A union of fixed filters has about CHUNKS chunks, of at least CHUNK_LINES lines. */
enum { CHUNKS = 64, CHUNK_LINES = SMALL(64, 2) };

/* ---- set bits ---- */

struct census {
  uint64_t words;
  struct set_bits a, b;
  struct set_bits added; /* the bits of b that a lacks */
};

static inline void count_line(struct census *census, const uint64_t a[LINE_WORDS],
                              const uint64_t b[LINE_WORDS])
{
  uint64_t added[LINE_WORDS];
  for (unsigned j = 0; j < LINE_WORDS; j++)
    added[j] = b[j] & ~a[j];
  census->words += LINE_WORDS;
  set_bits_add(&census->a, a);
  set_bits_add(&census->b, b);
  set_bits_add(&census->added, added);
}

static inline void load_line(const struct bloom *b, uint64_t first, uint64_t line[LINE_WORDS])
{
  const uint64_t keys = bloom_key_bits(b->layout);
  for (unsigned j = 0; j < LINE_WORDS; j++)
    line[j] = word_load(&b->words[first + j]) & keys;
}

/* Counts the bits of all lines.  If `both` is not NULL, writes the bits that are in both filters to
 * `both`, a filter that no other thread has yet. */
static struct census census_of(const struct bloom *a, const struct bloom *b,
                               const struct bloom *both)
{
  struct census census = {0};
  for (uint64_t i = 0; i < a->word_count; i += LINE_WORDS) {
    uint64_t of_a[LINE_WORDS], of_b[LINE_WORDS];
    load_line(a, i, of_a);
    load_line(b, i, of_b);
    for (unsigned j = 0; both && j < LINE_WORDS; j++) /* relaxed: no other thread has `both` */
      atomic_store_explicit(&both->words[i + j], of_a[j] & of_b[j], memory_order_relaxed);
    count_line(&census, of_a, of_b);
  }
  return census;
}

/* The estimated numbers of keys: in each filter, in the union, and in the intersection. */
struct estimate {
  double a, b, united, common;
};

static double keys_of_bits(const struct bloom_geometry *g, const struct census *census,
                           uint64_t bits)
{
  return census->words
             ? bloom_geometry_keys(g, (uint64_t) ((uint128) bits * g->words / census->words))
             : 0;
}

static struct estimate estimate_keys(const struct bloom_geometry *g, const struct census *census)
{
  const uint64_t a = set_bits_sum(&census->a), added = set_bits_sum(&census->added);
  struct estimate e = {.a = keys_of_bits(g, census, a),
                       .b = keys_of_bits(g, census, set_bits_sum(&census->b)),
                       .united = keys_of_bits(g, census, a + added)};
  e.common = fmin(fmax(e.a + e.b - e.united, 0), fmin(e.a, e.b));
  return e;
}

/* ---- union ---- */

/* The keys that are certainly present: those counted before the union. */
struct certain {
  uint64_t into, from;
};

static uint64_t certain_after(const struct bloom *into, const struct certain *before,
                              uint64_t added)
{
  const unsigned of_key = bloom_shape_bits_per_key(bloom_shape_of(into));
  const uint64_t keys = before->into + (added + of_key - 1) / of_key;
  return keys > before->from ? keys : before->from;
}

static bool has_room(struct bloom *into, const struct certain *certain, const struct census *census)
{
  const struct bloom_geometry g = bloom_geometry_of(into);
  const uint64_t added = set_bits_sum(&census->added);
  return !refuses(into) && !at_capacity(into) &&
         (double) (set_bits_sum(&census->a) + added) <= bloom_geometry_most_bits(&g) &&
         certain_after(into, certain, added) <= bloom_capacity(into);
}

/* Sets bits in a word, and *old to the word before.  Returns false if a mark forbids that. */
FORCE_INLINE bool unite_word(word *w, uint64_t bits, bool marked, uint64_t *old)
{
  uint64_t now = word_load(w);
  *old = now;
  if (!(bits & ~now)) /* without a write, cores can go on sharing the cache line */
    return true;
  HOOK(bloom_union_word_read);
  if (!marked) {
    *old = word_or(w, bits);
    return true;
  }
  do {
    *old = now;
    if (bits & ~now && now & WORD_MARK)
      return false;
    now = word_replace(w, *old, *old | bits);
  } while (now != *old);
  return true;
}

FORCE_INLINE bool unite_line(struct bloom *into, const struct bloom *from, uint64_t first,
                             bool marked, struct census *census)
{
  const uint64_t keys = marked ? ~WORD_MARK : UINT64_MAX;
  uint64_t bits[LINE_WORDS], old[LINE_WORDS];
  bool room = true;
  for (unsigned j = 0; j < LINE_WORDS; j++) {
    bits[j] = word_load(&from->words[first + j]) & keys;
    bool united = unite_word(&into->words[first + j], bits[j], marked, &old[j]);
    old[j] &= keys;
    if (!united)
      bits[j] = 0;
    room &= united;
    HOOK(bloom_word_united);
  }
  count_line(census, old, bits);
  return room;
}

static uint64_t brought_keys(const struct bloom *into, const struct census *census,
                             uint64_t keys_from)
{
  const uint64_t bits = set_bits_sum(&census->added);
  if (!bits)
    return 0;
  const struct bloom_geometry g = bloom_geometry_of(into);
  struct estimate e = estimate_keys(&g, census);
  double added = (double) bits * (double) g.words / (double) census->words;
  double fewest = added / bloom_shape_bits_per_key(g.shape);
  /* e.b - keys_from is an error, which comes from pairs of keys of `from` with equal bits.  In the
   * fraction share^2 of these pairs, both are in `into`, too, so e.common has this part of the
   * error. */
  double share = e.b > 0 ? e.common / e.b : 0;
  double common = e.common - share * share * (e.b - (double) keys_from);
  double brought = fmin(fmax((double) keys_from - common, fewest), added);
  return (uint64_t) ceil(brought - 0.5);
}

/* ---- union of fixed filters ---- */

static bool chunk_lacks_bits(const struct bloom *into, const struct bloom *from, uint64_t first,
                             uint64_t end)
{
  const uint64_t keys = bloom_key_bits(into->layout);
  uint64_t missing = 0;
  for (uint64_t i = first; i < end; i++)
    missing |= word_load(&from->words[i]) & keys & ~word_load(&into->words[i]);
  return missing;
}

struct fixed_union {
  struct census census; /* the bits of the lines that were united so far */
  uint64_t keys_from;   /* the keys that `from` had counted at the start */
  uint64_t expected;    /* the keys that the union is expected to bring */
  uint64_t counted;     /* the keys that the union has brought and counted so far */
  uint64_t limit;       /* the most keys that `into` may have counted, by whatever calls */
};

/* Counts the keys that the union has brought with the words before `end`. */
static void count_brought(struct bloom *into, struct fixed_union *u, uint64_t end)
{
  const uint64_t all = brought_keys(into, &u->census, u->keys_from);
  const uint64_t brought = (uint64_t) ((uint128) all * end / into->word_count);
  bloom_count(into, UNITED, brought - u->counted); /* sums wrap, so a negative amount subtracts */
  u->counted = brought;
  (void) tamis__bloom_watch(into);
}

/* Returns false if other calls have taken the room that the union needs, or at a marked word. */
static bool unite_chunk(struct bloom *into, const struct bloom *from, uint64_t first, uint64_t end,
                        struct fixed_union *u)
{
  const bool marked = into->layout == BLOOM_LAYOUT_MARKED;
  bool room = counted_keys(into) - u->counted + u->expected <= u->limit ||
              !chunk_lacks_bits(into, from, first, end);
  for (uint64_t i = first; i < end && room; i += LINE_WORDS)
    room = marked ? unite_line(into, from, i, true, &u->census)
                  : unite_line(into, from, i, false, &u->census);
  count_brought(into, u, room ? end : first);
  return room;
}

static int merge_fixed(struct bloom *into, const struct bloom *from)
{
  const struct certain certain = {bloom_counted(into, KEYS), bloom_counted(from, KEYS)};
  const uint64_t keys_from = counted_keys(from), keys_into = counted_keys(into);
  const uint64_t words = into->word_count, part = words / LINE_WORDS / CHUNKS;
  const uint64_t chunk = (part > CHUNK_LINES ? part : CHUNK_LINES) * LINE_WORDS;
  const struct census before = census_of(into, from, NULL);
  const uint64_t added = set_bits_sum(&before.added);
  if (added && !has_room(into, &certain, &before))
    return TAMIS_EFULL;
  const struct bloom_geometry g = bloom_geometry_of(into);
  const double most = bloom_geometry_keys(&g, (uint64_t) bloom_geometry_most_bits(&g));
  struct fixed_union u = {.keys_from = keys_from,
                          .expected = brought_keys(into, &before, keys_from)};
  u.limit = (uint64_t) (most + 4 * sqrt(most)); /* the keys are estimates, and may be too high */
  if (u.limit < keys_into + u.expected)
    u.limit = keys_into + u.expected;
  bool room = true;
  for (uint64_t i = 0; i < words && room; i += chunk)
    room = unite_chunk(into, from, i, words - i < chunk ? words : i + chunk, &u);
  if (room && certain_after(into, &certain, added) >= bloom_capacity(into))
    raise_fullness(into, FULL);
  return room ? TAMIS_OK : TAMIS_EFULL;
}

/* ---- union of growable filters ---- */

static int open_layers(struct bloom *into[BLOOM_MOST_LAYERS], unsigned need)
{
  int result = TAMIS_OK;
  for (unsigned have; (have = bloom_layers_of(into[0], into)) < need && result == TAMIS_OK;)
    result = tamis__layers_open(into[0], into[have - 1], need);
  return result;
}

static int merge_growable(struct bloom *into_first, const struct bloom *from_first)
{
  struct bloom *into[BLOOM_MOST_LAYERS], *from[BLOOM_MOST_LAYERS];
  uint64_t keys[BLOOM_MOST_LAYERS];
  unsigned n = bloom_layers_of(from_first, from), have = bloom_layers_of(into_first, into);
  for (unsigned i = 0; i < n && i < have; i++)
    if (!bloom_fit_together(into[i], from[i]))
      return TAMIS_EINVAL;
  if (!tamis__layers_will_fit(into, have, from, n))
    return TAMIS_EINVAL; /* before open_layers(): a union that fails must open no layer */
  int result = open_layers(into, n);
  for (unsigned i = 0; i < n && result == TAMIS_OK; i++)
    keys[i] = counted_keys(from[i]);
  for (unsigned i = 0; i < n && result == TAMIS_OK; i++) {
    struct census census = {0};
    for (uint64_t at = 0; at < into[i]->word_count; at += LINE_WORDS)
      (void) unite_line(into[i], from[i], at, false, &census);
    bloom_count(into[i], UNITED, brought_keys(into[i], &census, keys[i]));
    (void) tamis__bloom_watch(into[i]);
  }
  return result;
}

/* ---- union of counters ---- */

static void unite_counters(word *w, uint64_t counters)
{
  uint64_t old, now = word_load(w);
  if (!counters)
    return;
  do {
    old = now;
    HOOK(counting_union_word_read);
    now = word_replace(w, old, counters_united(old, counters));
  } while (now != old);
  HOOK(counting_word_united);
}

static int merge_counters(struct bloom *into, const struct bloom *from)
{
  const struct bloom_sums counted = bloom_sums_of(from);
  struct counting_census census = {0};
  if (!count_copies(into, (int64_t) counted.keys, true))
    return TAMIS_EFULL;
  for (uint64_t first = 0; first < from->word_count; first += LINE_WORDS) {
    stripe_lock(stripe_of_line(into, first));
    for (uint64_t i = first; i < first + LINE_WORDS; i++) {
      uint64_t counters = word_load(&from->words[i]);
      counting_census_add(&census, counters);
      unite_counters(&into->words[i], counters);
    }
    stripe_unlock(stripe_of_line(into, first));
  }
  const struct bloom_sums brought = counting_read(bloom_shape_of(from), counted, &census);
  count_copies(into, (int64_t) (brought.keys - counted.keys), false);
  bloom_count(into, UNITED, brought.united);
  return TAMIS_OK;
}

int tamis__bloom_merge(tamis_filter *into_filter, const tamis_filter *from_filter)
{
  struct bloom *into = bloom_of(into_filter);
  const struct bloom *from = const_bloom_of(from_filter);
  if (!bloom_fit_together(into, from))
    return TAMIS_EINVAL;
  if (bloom_counts(into))
    return merge_counters(into, from);
  return into->limited ? merge_fixed(into, from) : merge_growable(into, from);
}

/* ---- intersection and similarity ---- */

/* Returns TAMIS_EUNSUPPORTED for a filter that has grown: its layers have different sizes. */
static int check_comparable(const struct bloom *a, const struct bloom *b)
{
  return !bloom_fit_together(a, b)                      ? TAMIS_EINVAL
         : newest_layer(a) != a || newest_layer(b) != b ? TAMIS_EUNSUPPORTED
                                                        : TAMIS_OK;
}

int tamis__bloom_intersect(const tamis_filter *a_filter, const tamis_filter *b_filter,
                           tamis_filter **out)
{
  const struct bloom *a = const_bloom_of(a_filter), *b = const_bloom_of(b_filter);
  struct bloom *both;
  int result = check_comparable(a, b);
  if (result == TAMIS_OK)
    result = tamis__bloom_create_like(a, &both);
  if (result != TAMIS_OK)
    return result;
  const struct census census = census_of(a, b, both);
  const struct bloom_geometry g = bloom_geometry_of(both);
  const double common = estimate_keys(&g, &census).common;
  const uint64_t bits = set_bits_sum(&census.b) - set_bits_sum(&census.added),
                 keys = (uint64_t) ceil(common - 0.5);
  bloom_count(both, UNITED, keys || !bits ? keys : 1); /* with 0 keys, bits_set() may return 0 */
  if (both->limited)
    bloom_set_most_keys(both, tamis__bloom_most_beside(&g, bits, keys));
  (void) tamis__bloom_watch(both);
  *out = &both->head;
  return TAMIS_OK;
}

/* Returns true if no bit, or no counter, is lower in `bits` than in `other`. */
static bool bits_include(const struct bloom *b, uint64_t bits, uint64_t other)
{
  if (!bloom_counts(b))
    return !(other & ~bits & bloom_key_bits(b->layout));
  for (; other; bits >>= 4, other >>= 4)
    if ((bits & 15) < (other & 15))
      return false;
  return true;
}

static bool layer_includes(const struct bloom *layer, const struct bloom *other)
{
  for (uint64_t i = 0; i < other->word_count; i++)
    if (!bits_include(other, layer ? word_load(&layer->words[i]) : 0, word_load(&other->words[i])))
      return false;
  return true;
}

/* A layer that `f` lacks counts as an empty layer. */
int tamis__bloom_includes(const tamis_filter *f, const tamis_filter *other_filter)
{
  struct bloom *layers[BLOOM_MOST_LAYERS], *others[BLOOM_MOST_LAYERS];
  const unsigned n = bloom_layers_of(const_bloom_of(f), layers),
                 of_other = bloom_layers_of(const_bloom_of(other_filter), others);
  for (unsigned i = 0; i < n && i < of_other; i++)
    if (!bloom_fit_together(layers[i], others[i]))
      return TAMIS_EINVAL;
  for (unsigned i = 0; i < of_other; i++)
    if (!layer_includes(i < n ? layers[i] : NULL, others[i]))
      return TAMIS_ABSENT;
  return TAMIS_OK;
}

int tamis__bloom_similarity(const tamis_filter *a_filter, const tamis_filter *b_filter,
                            tamis_similarity_stats *out)
{
  const struct bloom *a = const_bloom_of(a_filter), *b = const_bloom_of(b_filter);
  const int result = check_comparable(a, b);
  if (result != TAMIS_OK)
    return result;
  const struct census census = census_of(a, b, NULL);
  const struct bloom_geometry g = bloom_geometry_of(a);
  struct estimate e = estimate_keys(&g, &census);
  out->estimated_a = e.a;
  out->estimated_b = e.b;
  out->united = e.united;
  out->common = e.common;
  out->jaccard = e.united > 0 ? e.common / e.united : 0;
  return TAMIS_OK;
}
