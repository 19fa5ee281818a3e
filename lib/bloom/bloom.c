/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the Bloom filter.
 *
 *                       touches of the key (bloom_geometry.h)
 *    hash ──────► word 3: mask ┐
 *                 word 6: mask ├─► line of 8 words: 0 . . M . . M .
 *                 word 1: mask ┘
 *
 * Bits only ever go from 0 to 1.  Everything else follows from that:
 *
 * [A] No false negative.  An add returns after each of the key's bits was seen as 1 or was set by
 *     it; a bit that was 1 stays 1 for everyone who looks later (coherence of a single word).
 *
 * [D] No lock in add and contains: one pass over a handful of words, for a new key two.
 *
 * [B] One winner.  Bits alone cannot name one: two threads that interleave over the words of one
 *     key both flip something.  So a unique add that finds the key missing takes the stripe of the
 *     key's hash and looks again.  All unique adds of a key meet at the same stripe; the first one
 *     that finds the key missing there sets all its bits before it lets go, and so every later one
 *     finds them.  A call that then has not set a single bit, because other adds set all of them
 *     after its second look, was overtaken: for it the key was present.  So every winner has
 *     written a word that those who find the key read, and what it did before is visible to them.
 *
 *     Linearization: a winner takes effect when the last of the key's bits becomes 1, whoever sets
 *     it; a call that loses, when it has seen the last bit.
 *
 * [C] An add that is refused (capacity) is refused before it touches a bit.
 *
 * [F] A key that is there costs a look; no counter and no word is written.
 *
 * Counting keys without a lock: several adds of one new key may each set some of its bits, but only
 * one may count it.  Each add notes, before it sets anything, which words lack bits of the key, and
 * then fills these gaps in the order of touches.  It counts the key if its OR on the last gap set
 * some bits.
 *
 *     Of all adds of a key at most one counts it.  Two with the same last gap: the first OR there
 *     sets all of the key's bits, and leaves none to the second.  P whose last gap is l and Q whose
 *     last gap is l' > l: P saw l' complete, so Q's OR there, if it set anything, came before; and
 *     before that Q had completed all words up to l', l among them.  P's OR on l comes after, and
 *     sets nothing.
 *
 * It may be that none does, if an add of another key happens to complete the last word in between:
 * such a key counts as one that was hidden.
 */
#include "bloom/bloom.h"

#include "bloom/geometry.h"
#include "base/counter.h"
#include "base/hook.h"
#include "base/memory.h"
#include "base/stripe.h"
#include "base/word.h"

#include <math.h>

enum bloom_counter { KEYS, BITS }; /* adds that set bits in their last gap; bits set */

/* Whether a filter that must not outgrow its capacity is near its end.  Only goes up. */
enum bloom_fullness { OPEN, NEAR, FULL };

/* How often, in keys of one shard, a filter that is OPEN looks whether it is NEAR. */
enum { WATCH_PERIOD = 64 };

struct bloom {
  struct tamis_filter head;
  struct bloom_geometry geometry;
  word *words;
  struct stripes stripes;
  struct counters counters;
  uint64_t bytes;
  bool limited;        /* not growable: refuse keys past capacity */
  double bits_at_most; /* so many bits mean that more than capacity distinct keys are in */
  _Alignas(64) _Atomic int fullness; /* in a line of its own: written at most twice */
};

static struct bloom *bloom_of(tamis_filter *f)
{
  return (struct bloom *) f;
}

static const struct bloom *const_bloom_of(const tamis_filter *f)
{
  return (const struct bloom *) f;
}

/* ---- the key's bits ---- */

/* The loop that follows is unrolled, however often the shape says that it runs. */
#define UNROLL _Pragma("GCC unroll 8")

/* Where the key's touches count from: its line, or, in the classic layout, the first word. */
static inline const word *line_of(const struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  return b->words + bloom_probes_begin(&b->geometry, hash, shape).line * LINE_WORDS;
}

FORCE_INLINE bool look_in(const struct bloom *b, const word *line, uint64_t hash,
                           struct bloom_shape shape)
{
  const struct bloom_geometry *g = &b->geometry;
  struct bloom_probes walk = bloom_probes_begin(g, hash, shape);
  uint64_t in = 1;
  UNROLL
  for (unsigned i = 0; i < shape.touches; i++) {
    struct bloom_probe touch = bloom_probes_next(g, &walk, shape);
    in &= bloom_probe_matches(word_load(&line[touch.offset]), touch, shape);
    /* In one line, going on is cheaper than a branch that is mispredicted half of the time; over
     * several lines each step is a cache miss. */
    if (shape.layout == TAMIS_LAYOUT_CLASSIC && !in)
      return false;
  }
  return in;
}

FORCE_INLINE bool look(const struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  return look_in(b, line_of(b, hash, shape), hash, shape);
}

/* What a key lacks: of each touch the bits that were unset when its word was looked at. */
struct gaps {
  struct bloom_probe at[BLOOM_MAX_PROBES]; /* mask: the bits that are missing */
  uint64_t any;
  unsigned last; /* the last touch that lacks something */
};

FORCE_INLINE void find_gaps(const struct bloom *b, uint64_t hash, struct bloom_shape shape,
                             struct gaps *gaps)
{
  struct bloom_probes walk = bloom_probes_begin(&b->geometry, hash, shape);
  gaps->any = 0;
  gaps->last = 0;
  UNROLL
  for (unsigned i = 0; i < shape.touches; i++) {
    struct bloom_probe touch = bloom_probes_next(&b->geometry, &walk, shape);
    touch.mask &= ~word_load(&b->words[touch.word]);
    gaps->at[i] = touch;
    gaps->any |= touch.mask;
    gaps->last = touch.mask ? i : gaps->last;
  }
}

struct bits_set {
  unsigned all;  /* how many bits this call has set */
  unsigned last; /* how many of them in the last gap */
};

/* Words that had all bits of the key cost no write, and stay shared between the cores. */
FORCE_INLINE struct bits_set fill_gaps(struct bloom *b, const struct gaps *gaps,
                                        struct bloom_shape shape)
{
  struct bits_set bits = {0, 0};
  UNROLL
  for (unsigned i = 0; i < shape.touches; i++) {
    uint64_t missing = gaps->at[i].mask;
    if (!missing)
      continue;
    /* Classic touches may fall on one bit; if it is the last one, its turn comes at the end. */
    const struct bloom_probe *last = &gaps->at[gaps->last];
    if (shape.layout == TAMIS_LAYOUT_CLASSIC && i < gaps->last && gaps->at[i].word == last->word)
      missing &= ~last->mask;
    uint64_t set = missing & ~word_or(&b->words[gaps->at[i].word], missing);
    bits.last = 0;
    for (unsigned j = 0; j < shape.bits_per_probe; j++, set &= set - 1) /* at most so many */
      bits.last += set != 0;
    bits.all += bits.last;
    HOOK(bloom_set_word);
  }
  return bits;
}

/* ---- capacity ---- */

/* The number of keys decides; it is never more than there are.  It can be less, as keys that a false
 * positive hid are not counted, but not by more than the bits allow. */
static bool at_capacity(const struct bloom *b)
{
  return tamis__counter_sum(&b->counters, KEYS) >= b->geometry.capacity ||
         (double) tamis__counter_sum(&b->counters, BITS) >= b->bits_at_most;
}

/* Whether the next WATCH_PERIOD keys of each shard might fill it. */
static bool near_capacity(const struct bloom *b)
{
  uint64_t keys = WATCH_PERIOD * (b->counters.mask + UINT64_C(1));
  double bits = (double) keys * bloom_geometry_bits_per_key(&b->geometry);
  return tamis__counter_sum(&b->counters, KEYS) + keys >= b->geometry.capacity ||
         (double) tamis__counter_sum(&b->counters, BITS) + bits >= b->bits_at_most;
}

/* Relaxed: OPEN when it is NEAR already only lets a few keys more in.  FULL is final for the unique
 * adds of a key because all of them look at it under the same stripe: who comes later sees what the
 * earlier one saw, or more (coherence, ordered by the stripe).
 * ORDER is argued here and not with a partner, as no other data is published by it. */
static inline bool refuses(struct bloom *b)
{
  if (!b->limited)
    return false;
  int fullness = atomic_load_explicit(&b->fullness, memory_order_relaxed);
  if (fullness == NEAR && at_capacity(b)) {
    atomic_store_explicit(&b->fullness, FULL, memory_order_relaxed);
    fullness = FULL;
  }
  return fullness == FULL;
}

static inline void count(struct bloom *b, struct bits_set bits)
{
  if (bits.all)
    counter_add(&b->counters, BITS, bits.all);
  if (!bits.last)
    return;
  uint64_t keys = counter_add(&b->counters, KEYS, 1);
  if (b->limited && keys % WATCH_PERIOD == 0 && near_capacity(b)) {
    int open = OPEN;
    atomic_compare_exchange_strong_explicit(&b->fullness, &open, NEAR, memory_order_relaxed,
                                            memory_order_relaxed);
  }
}

/* ---- the operations, once for all shapes ---- */

FORCE_INLINE int add(struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  struct gaps gaps;
  find_gaps(b, hash, shape, &gaps);
  if (!gaps.any)
    return TAMIS_OK;
  if (refuses(b))
    return TAMIS_EFULL;
  count(b, fill_gaps(b, &gaps, shape));
  return TAMIS_OK;
}

FORCE_INLINE int add_missing_locked(struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  assert(stripe_held(stripe_of(&b->stripes, hash)));
  struct gaps gaps;
  find_gaps(b, hash, shape, &gaps);
  if (!gaps.any)
    return TAMIS_PRESENT;
  HOOK(bloom_unique_looked_again);
  if (refuses(b))
    return TAMIS_EFULL;
  struct bits_set bits = fill_gaps(b, &gaps, shape);
  count(b, bits);
  return bits.all ? TAMIS_OK : TAMIS_PRESENT;
}

/* The key was missing a moment ago. */
FORCE_INLINE int add_missing(struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  struct stripe *stripe = stripe_of(&b->stripes, hash);
  stripe_lock(stripe);
  int result = add_missing_locked(b, hash, shape);
  stripe_unlock(stripe);
  return result;
}

FORCE_INLINE int add_unique(struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  if (look(b, hash, shape))
    return TAMIS_PRESENT;
  HOOK(bloom_unique_looked);
  return add_missing(b, hash, shape);
}

/* First looks at all, and fetches the stripes of the keys that are missing: another core has used
 * half of them last. */
FORCE_INLINE void add_unique_many(struct bloom *b, const uint64_t *hashes, size_t n, int *results,
                                   struct bloom_shape shape)
{
  for (size_t i = 0; i < n; i++) {
    results[i] = look(b, hashes[i], shape) ? TAMIS_PRESENT : TAMIS_ABSENT;
    if (results[i] == TAMIS_ABSENT)
      __builtin_prefetch(stripe_of(&b->stripes, hashes[i]), 1);
  }
  for (size_t i = 0; i < n; i++)
    if (results[i] == TAMIS_ABSENT)
      results[i] = add_missing(b, hashes[i], shape);
}

/* Classic fetches the first words only: a look-up that misses rarely gets further. */
enum { CLASSIC_PREFETCH = 4 };

FORCE_INLINE void prefetch_one(const struct bloom *b, const word *line, uint64_t hash,
                                struct bloom_shape shape)
{
  if (shape.layout == TAMIS_LAYOUT_BLOCKED) {
    __builtin_prefetch(line);
    return;
  }
  struct bloom_probes walk = bloom_probes_begin(&b->geometry, hash, shape);
  unsigned words = shape.touches < CLASSIC_PREFETCH ? shape.touches : CLASSIC_PREFETCH;
  while (words--)
    __builtin_prefetch(&line[bloom_probes_next(&b->geometry, &walk, shape).offset]);
}

FORCE_INLINE void prefetch(const struct bloom *b, const uint64_t *hashes, size_t n,
                            struct bloom_shape shape)
{
  for (size_t i = 0; i < n; i++)
    prefetch_one(b, line_of(b, hashes[i], shape), hashes[i], shape);
}

/* Each key's memory is fetched FILTER_AHEAD keys before its turn. */
FORCE_INLINE size_t look_many(const struct bloom *b, const uint64_t *hashes, size_t n, bool *found,
                               struct bloom_shape shape)
{
  struct {
    const word *line;
    uint64_t hash;
  } ahead[FILTER_AHEAD];
  size_t hits = 0;
  for (size_t i = 0; i < n + FILTER_AHEAD; i++) {
    size_t place = i % FILTER_AHEAD;
    if (i >= FILTER_AHEAD) {
      bool in = look_in(b, ahead[place].line, ahead[place].hash, shape);
      hits += in;
      if (found)
        found[i - FILTER_AHEAD] = in;
    }
    if (i < n) {
      ahead[place].hash = hash_mix(&b->head.keys, hashes[i]);
      ahead[place].line = line_of(b, ahead[place].hash, shape);
      prefetch_one(b, ahead[place].line, ahead[place].hash, shape);
    }
  }
  return hits;
}

static void stats(const tamis_filter *f, tamis_stats *out)
{
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_geometry *g = &b->geometry;
  out->kind = TAMIS_BLOOM;
  out->layout = g->shape.layout;
  out->capacity = g->capacity;
  out->fpp = g->fpp;
  out->bytes = b->bytes;
  out->bits = bloom_geometry_bits(g);
  out->bits_per_key = bloom_geometry_bits_per_key(g);
  out->count = tamis__counter_sum(&b->counters, KEYS);
  out->bits_set = tamis__counter_sum(&b->counters, BITS);
  out->estimated_count = bloom_geometry_keys(g, out->bits_set);
  out->load = out->estimated_count / (double) g->capacity;
  out->fpp_estimate = bloom_geometry_rate(g, out->estimated_count);
}

/* ---- creation ---- */

struct sizes {
  unsigned shards;
  unsigned stripes;
  size_t words_bytes, stripes_bytes, shards_bytes;
};

static unsigned power_of_two_up(unsigned n)
{
  unsigned power = 1;
  while (power < n)
    power *= 2;
  return power;
}

/* A filter of a few lines gets no more stripes than lines: a thousand small filters should not be a
 * thousand times 8 KiB of locks. */
static struct sizes sizes_for(const tamis_options *options, const struct bloom_geometry *g)
{
  struct sizes s = {.shards = tamis__counter_shards(g->lines * LINE_BYTES),
                    .stripes = tamis__stripe_count()};
  unsigned lines = g->lines < 4096 ? (unsigned) g->lines : 4096;
  unsigned most = power_of_two_up(lines);
  s.stripes = options->stripes   ? power_of_two_up(options->stripes)
              : s.stripes < most ? s.stripes
                                 : most;
  s.words_bytes = g->lines * LINE_BYTES;
  s.stripes_bytes = s.stripes * sizeof(struct padded_stripe);
  s.shards_bytes = s.shards * sizeof(struct counter_shard);
  return s;
}

static uint64_t total_bytes(const struct sizes *s)
{
  return s->words_bytes + s->stripes_bytes + s->shards_bytes + sizeof(struct bloom);
}

static void destroy(tamis_filter *f)
{
  struct bloom *b = bloom_of(f);
  tamis_allocator from = f->allocator;
  if (b->stripes.all)
    tamis__stripes_destroy(&b->stripes);
  tamis__memory_release(&from, b->words, b->geometry.lines * LINE_BYTES);
  tamis__memory_release(&from, b->stripes.all, (b->stripes.mask + 1) * sizeof(struct padded_stripe));
  tamis__memory_release(&from, b->counters.shards,
                    (b->counters.mask + 1) * sizeof(struct counter_shard));
  tamis__memory_release(&from, b, sizeof *b);
}

/* One thin set of functions for each shape: with the shape a constant, the compiler makes straight
 * code of the one body above. */
/* (blocked_3x2_contains and its like are made here) */
#define OPERATIONS(name, shape)                                                               \
  static bool name##_contains(const tamis_filter *f, uint64_t hash)                           \
  {                                                                                           \
    return look(const_bloom_of(f), hash, shape);                                              \
  }                                                                                           \
  static size_t name##_contains_many(const tamis_filter *f, const uint64_t *hashes, size_t n, \
                                     bool *found)                                             \
  {                                                                                           \
    return look_many(const_bloom_of(f), hashes, n, found, shape);                             \
  }                                                                                           \
  static int name##_add(tamis_filter *f, uint64_t hash)                                       \
  {                                                                                           \
    return add(bloom_of(f), hash, shape);                                                     \
  }                                                                                           \
  static int name##_add_unique(tamis_filter *f, uint64_t hash)                                \
  {                                                                                           \
    return add_unique(bloom_of(f), hash, shape);                                              \
  }                                                                                           \
  static void name##_add_unique_many(tamis_filter *f, const uint64_t *hashes, size_t n,       \
                                     int *results)                                            \
  {                                                                                           \
    add_unique_many(bloom_of(f), hashes, n, results, shape);                                  \
  }                                                                                           \
  static void name##_prefetch(const tamis_filter *f, const uint64_t *hashes, size_t n)        \
  {                                                                                           \
    prefetch(const_bloom_of(f), hashes, n, shape);                                            \
  }                                                                                           \
  static const struct filter_operations name##_operations = {                                 \
      .destroy = destroy,                                                                     \
      .contains = name##_contains,                                                            \
      .contains_many = name##_contains_many,                                                  \
      .add = name##_add,                                                                      \
      .add_unique = name##_add_unique,                                                        \
      .add_unique_many = name##_add_unique_many,                                              \
      .remove = NULL,                                                                         \
      .prefetch = name##_prefetch,                                                            \
      .stats = stats,                                                                         \
  };

#define BLOCKED_SHAPE(touches, bits) ((struct bloom_shape){TAMIS_LAYOUT_BLOCKED, touches, bits})
#define BLOCKED_OPERATIONS(touches, bits) \
  OPERATIONS(blocked_##touches##x##bits, BLOCKED_SHAPE(touches, bits))
BLOOM_BLOCKED_SHAPES(BLOCKED_OPERATIONS)
#define CLASSIC_SHAPE \
  ((struct bloom_shape){TAMIS_LAYOUT_CLASSIC, const_bloom_of(f)->geometry.shape.touches, 1})
OPERATIONS(classic, CLASSIC_SHAPE)

static const struct filter_operations *operations_for(struct bloom_shape shape)
{
#define CHOOSE(t, b)                                                                               \
  if (shape.layout == TAMIS_LAYOUT_BLOCKED && shape.touches == (t) && shape.bits_per_probe == (b)) \
    return &blocked_##t##x##b##_operations;
  BLOOM_BLOCKED_SHAPES(CHOOSE)
  return &classic_operations;
}

int tamis__bloom_bytes(const tamis_options *options, uint64_t *bytes)
{
  struct bloom_geometry g;
  int result = bloom_geometry_plan(options->layout, options->capacity, options->fpp, &g);
  if (result != TAMIS_OK)
    return result;
  struct sizes s = sizes_for(options, &g);
  *bytes = total_bytes(&s);
  return TAMIS_OK;
}

int tamis__bloom_fpp(const tamis_options *options, uint64_t bytes, double *fpp)
{
  /* Smaller rates need more bytes as long as the shape stays the same, but less where it changes:
   * so look at one range of rates after the other, from the lowest up. */
  tamis_options trial = *options;
  double low = 0x1p-64;
  int result = TAMIS_EFULL;
  for (unsigned range = 0; low < BLOOM_HIGHEST_RATE; range++) {
    double next = bloom_geometry_range(options->layout, range);
    double good = nextafter(next, 0), bad = low;
    trial.fpp = good;
    uint64_t needed;
    result = tamis__bloom_bytes(&trial, &needed);
    if (result == TAMIS_OK && needed <= bytes) {
      /* Bisection of the logarithm; a rate too low to be possible at all does not fit either. */
      while (good / bad > 1.005) {
        trial.fpp = sqrt(good * bad);
        if (tamis__bloom_bytes(&trial, &needed) == TAMIS_OK && needed <= bytes)
          good = trial.fpp;
        else
          bad = trial.fpp;
      }
      *fpp = good;
      return TAMIS_OK;
    }
    low = next;
  }
  /* Not even the highest rate: for want of bytes, or because no address space holds it. */
  return result == TAMIS_OK ? TAMIS_EFULL : result;
}

static void set_limits(struct bloom *b, bool growable)
{
  double bits = (double) bloom_geometry_bits(&b->geometry);
  double average = bloom_geometry_bits_set(&b->geometry, (double) b->geometry.capacity);
  /* Four standard deviations of as many independent bits, but not more than all of them.  Bits of a
   * filter vary less: each key sets nearly the same number of them.  (Measured, 10^4 keys in the
   * blocked layout: a quarter of that variance.  So this is nearer eight.) */
  b->limited = !growable;
  b->bits_at_most = fmin(bits, average + 4 * sqrt(average * (1 - average / bits)));
  if (near_capacity(b))
    atomic_store_explicit(&b->fullness, NEAR, memory_order_relaxed); /* not shared yet */
}

int tamis__bloom_create(const tamis_options *options, const struct tamis_filter *head,
                        tamis_filter **out)
{
  struct bloom_geometry g;
  int result = bloom_geometry_plan(options->layout, options->capacity, options->fpp, &g);
  if (result != TAMIS_OK)
    return result;
  struct sizes s = sizes_for(options, &g);
  if (options->max_bytes && total_bytes(&s) > options->max_bytes)
    return TAMIS_EFULL;

  struct bloom *b = tamis__memory_allocate(&head->allocator, sizeof *b);
  if (!b)
    return TAMIS_ENOMEM;
  b->head = *head;
  b->head.operations = operations_for(g.shape);
  b->geometry = g;
  b->bytes = total_bytes(&s);
  b->stripes =
      (struct stripes){tamis__memory_allocate(&head->allocator, s.stripes_bytes), s.stripes - 1};
  b->counters =
      (struct counters){tamis__memory_allocate(&head->allocator, s.shards_bytes), s.shards - 1};
  b->words = tamis__memory_allocate(&head->allocator, s.words_bytes);
  if (b->stripes.all)
    tamis__stripes_init(&b->stripes);
  if (!b->words || !b->stripes.all || !b->counters.shards) {
    destroy(&b->head);
    return TAMIS_ENOMEM;
  }
  set_limits(b, options->growable);
  *out = &b->head;
  return TAMIS_OK;
}

bool tamis__bloom_validate(const tamis_filter *f, const char **reason)
{
  const struct bloom *b = const_bloom_of(f);
  uint64_t bits = 0, keys = tamis__counter_sum(&b->counters, KEYS);
  for (uint64_t i = 0; i < b->geometry.lines * LINE_WORDS; i++)
    bits += (unsigned) __builtin_popcountll(word_load(&b->words[i]));
  *reason = bits != tamis__counter_sum(&b->counters, BITS) ? "counted bits are not the set bits"
            : keys > bits                                  ? "more keys than set bits"
            : bits > keys * bloom_geometry_bits_per_key(&b->geometry)
                ? "more set bits than the keys have"
                : NULL;
  for (uint64_t i = 0; i <= b->stripes.mask; i++)
    if (stripe_held(&b->stripes.all[i].stripe))
      *reason = "a stripe is still locked";
  return !*reason;
}
