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
 * [D] No lock in add and contains: one pass over a handful of words.
 *
 * [B] One winner.  Bits alone cannot name one: two threads that interleave over the words of one
 *     key both flip something.  So a unique add that finds the key missing takes the stripe of the
 *     key's hash and looks again.  All unique adds of a key meet at the same stripe; the first one
 *     that finds the key missing there sets all its bits before it lets go, and so every later one
 *     finds them.  A plain add of another key may complete the bits between the second look and the
 *     set; the call that set out to add the key is still the only winner.
 *
 *     Linearization: a call of add_unique that wins takes effect when the last of the key's bits
 *     becomes 1, whoever sets it; one that loses, when it has seen the last bit.
 *
 * [C] An add that is refused (capacity) is refused before it touches a bit.
 *
 * [F] A key that is there costs a look; no counter and no word is written.
 */
#include "bloom.h"

#include "bloom_geometry.h"
#include "counter.h"
#include "hook.h"
#include "memory.h"
#include "stripe.h"
#include "word.h"

#include <math.h>

enum bloom_counter { KEYS, BITS }; /* adds that set a bit; bits set */

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
  bool limited; /* not growable: refuse keys past capacity */
  /* Bits set when capacity distinct keys are in: four standard deviations round the average. */
  double bits_at_least, bits_at_most;
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

static inline bool look(const struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  const struct bloom_geometry *g = &b->geometry;
  struct bloom_walk walk = bloom_walk_begin(g, hash, shape);
  uint64_t missing = 0;
  for (unsigned i = 0; i < shape.touches; i++) {
    struct bloom_touch touch = bloom_walk_next(g, &walk, shape);
    missing |= touch.mask & ~word_load(&b->words[touch.word]);
    /* In one line, going on is cheaper than a branch that is mispredicted half of the time; over
     * several lines each step is a cache miss. */
    if (shape.layout == TAMIS_LAYOUT_CLASSIC && missing)
      return false;
  }
  return missing == 0;
}

/* Sets the key's bits and returns how many of them this call has set. */
static inline unsigned set(struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  const struct bloom_geometry *g = &b->geometry;
  struct bloom_walk walk = bloom_walk_begin(g, hash, shape);
  unsigned changed = 0;
  for (unsigned i = 0; i < shape.touches; i++) {
    struct bloom_touch touch = bloom_walk_next(g, &walk, shape);
    word *w = &b->words[touch.word];
    /* Bits that are 1 already cost no write, and leave the line shared between the cores. */
    uint64_t missing = touch.mask & ~word_load(w);
    if (missing)
      changed += (unsigned) __builtin_popcountll(missing & ~word_or(w, missing));
    HOOK(bloom_set_word);
  }
  return changed;
}

/* ---- capacity ---- */

/* The number of keys decides, and the bits have a veto both ways: adds of one key that run into each
 * other count it twice, and keys that a false positive hid are not counted. */
static bool at_capacity(const struct bloom *b)
{
  double bits = (double) tamis__counter_sum(&b->counters, BITS);
  if (bits < b->bits_at_least)
    return false;
  return bits >= b->bits_at_most || tamis__counter_sum(&b->counters, KEYS) >= b->geometry.capacity;
}

/* Whether so many bits are set that the next WATCH_PERIOD keys of each shard might fill it. */
static bool near_capacity(const struct bloom *b)
{
  double slack =
      (double) WATCH_PERIOD * (b->counters.mask + 1) * bloom_geometry_bits_per_key(&b->geometry);
  return (double) tamis__counter_sum(&b->counters, BITS) + slack >= b->bits_at_least;
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

static inline void count(struct bloom *b, unsigned bits)
{
  if (bits == 0)
    return;
  counter_add(&b->counters, BITS, bits);
  uint64_t keys = counter_add(&b->counters, KEYS, 1);
  if (b->limited && keys % WATCH_PERIOD == 0 && near_capacity(b)) {
    int open = OPEN;
    atomic_compare_exchange_strong_explicit(&b->fullness, &open, NEAR, memory_order_relaxed,
                                            memory_order_relaxed);
  }
}

/* ---- the operations, once for both layouts ---- */

static inline int add(struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  if (refuses(b))
    return look(b, hash, shape) ? TAMIS_OK : TAMIS_EFULL;
  count(b, set(b, hash, shape));
  return TAMIS_OK;
}

static inline int add_missing_locked(struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  assert(stripe_held(stripe_of(&b->stripes, hash)));
  if (look(b, hash, shape))
    return TAMIS_PRESENT;
  HOOK(bloom_unique_looked_again);
  if (refuses(b))
    return TAMIS_EFULL;
  count(b, set(b, hash, shape));
  return TAMIS_OK;
}

static inline int add_unique(struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  if (look(b, hash, shape))
    return TAMIS_PRESENT;
  HOOK(bloom_unique_looked);
  struct stripe *stripe = stripe_of(&b->stripes, hash);
  stripe_lock(stripe);
  int result = add_missing_locked(b, hash, shape);
  stripe_unlock(stripe);
  return result;
}

/* Classic fetches the first words only: a look-up that misses rarely gets further. */
enum { CLASSIC_PREFETCH = 4 };

static inline void prefetch(const struct bloom *b, const uint64_t *hashes, size_t n,
                            struct bloom_shape shape)
{
  const struct bloom_geometry *g = &b->geometry;
  for (size_t i = 0; i < n; i++) {
    struct bloom_walk walk = bloom_walk_begin(g, hashes[i], shape);
    unsigned words = shape.layout == TAMIS_LAYOUT_BLOCKED ? 1
                     : shape.touches < CLASSIC_PREFETCH   ? shape.touches
                                                          : CLASSIC_PREFETCH;
    while (words--)
      __builtin_prefetch(&b->words[bloom_walk_next(g, &walk, shape).word]);
  }
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

/* A filter of a few lines gets no more stripes and shards than lines: a thousand small filters
 * should not be a thousand times 8 KiB of locks. */
static struct sizes sizes_for(const tamis_options *options, const struct bloom_geometry *g)
{
  struct sizes s = {.shards = tamis__counter_shards(), .stripes = tamis__stripe_count()};
  unsigned lines = g->lines < 4096 ? (unsigned) g->lines : 4096;
  unsigned most = power_of_two_up(lines);
  s.shards = s.shards < most ? s.shards : most;
  s.stripes = options->stripes   ? power_of_two_up(options->stripes)
              : s.stripes < most ? s.stripes
                                 : most;
  s.words_bytes = g->lines * LINE_BYTES;
  s.stripes_bytes = s.stripes * sizeof(struct stripe);
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
  tamis__memory_put(&from, b->words, b->geometry.lines * LINE_BYTES);
  tamis__memory_put(&from, b->stripes.all, (b->stripes.mask + 1) * sizeof(struct stripe));
  tamis__memory_put(&from, b->counters.shards,
                    (b->counters.mask + 1) * sizeof(struct counter_shard));
  tamis__memory_put(&from, b, sizeof *b);
}

/* One thin set of functions for each shape: with the shape a constant, the compiler makes straight
 * code of the one body above. */
#define OPERATIONS(name, shape)                                                        \
  static bool name##_contains(const tamis_filter *f, uint64_t hash)                    \
  {                                                                                    \
    return look(const_bloom_of(f), hash, shape);                                       \
  }                                                                                    \
  static int name##_add(tamis_filter *f, uint64_t hash)                                \
  {                                                                                    \
    return add(bloom_of(f), hash, shape);                                              \
  }                                                                                    \
  static int name##_add_unique(tamis_filter *f, uint64_t hash)                         \
  {                                                                                    \
    return add_unique(bloom_of(f), hash, shape);                                       \
  }                                                                                    \
  static void name##_prefetch(const tamis_filter *f, const uint64_t *hashes, size_t n) \
  {                                                                                    \
    prefetch(const_bloom_of(f), hashes, n, shape);                                     \
  }                                                                                    \
  static const struct filter_operations name##_operations = {                          \
      .destroy = destroy,                                                              \
      .contains = name##_contains,                                                     \
      .add = name##_add,                                                               \
      .add_unique = name##_add_unique,                                                 \
      .remove = NULL,                                                                  \
      .prefetch = name##_prefetch,                                                     \
      .stats = stats,                                                                  \
  };

#define BLOCKED_SHAPE(touches, bits) ((struct bloom_shape){TAMIS_LAYOUT_BLOCKED, touches, bits})
#define BLOCKED_OPERATIONS(touches, bits) \
  OPERATIONS(blocked_##touches##x##bits, BLOCKED_SHAPE(touches, bits))
BLOOM_BLOCKED_SHAPES(BLOCKED_OPERATIONS)
OPERATIONS(classic, const_bloom_of(f)->geometry.shape)

static const struct filter_operations *operations_for(struct bloom_shape shape)
{
#define CHOOSE(t, b)                                                                               \
  if (shape.layout == TAMIS_LAYOUT_BLOCKED && shape.touches == (t) && shape.bits_per_touch == (b)) \
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

static void set_limits(struct bloom *b, bool growable)
{
  double bits = (double) bloom_geometry_bits(&b->geometry);
  b->limited = !growable;
  /* The indicators of set bits are negatively associated, so the variance of their sum is at most
   * that of as many independent ones, and that at most bits / 4. */
  double average = bloom_geometry_bits_set(&b->geometry, (double) b->geometry.capacity);
  b->bits_at_least = average - 4 * sqrt(bits / 4);
  b->bits_at_most = average + 4 * sqrt(bits / 4);
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

  struct bloom *b = tamis__memory_get(&head->allocator, sizeof *b);
  if (!b)
    return TAMIS_ENOMEM;
  b->head = *head;
  b->head.operations = operations_for(g.shape);
  b->geometry = g;
  b->bytes = total_bytes(&s);
  b->stripes =
      (struct stripes){tamis__memory_get(&head->allocator, s.stripes_bytes), s.stripes - 1};
  b->counters =
      (struct counters){tamis__memory_get(&head->allocator, s.shards_bytes), s.shards - 1};
  b->words = tamis__memory_get(&head->allocator, s.words_bytes);
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
    if (stripe_held(&b->stripes.all[i]))
      *reason = "a stripe is still locked";
  return !*reason;
}
