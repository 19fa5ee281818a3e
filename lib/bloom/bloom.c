/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the Bloom filter as a kind: its sizes, creation, figures and validation.
 */
#include "bloom/bloom.h"

#include "base/memory.h"

#include <math.h>

/* ---- sizes ---- */

/* What is allocated beside the struct itself. */
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

/* The word layout needs no stripes.  A filter of a few lines gets no more stripes than lines: a thousand small filters should not take
 * a thousand times 8 KiB for locks. */
static struct sizes sizes_for(const tamis_options *options, const struct bloom_geometry *g)
{
  struct sizes s = {.shards = tamis__counter_shards(g->lines * LINE_BYTES),
                    .stripes = tamis__stripe_count()};
  unsigned lines = g->lines < 4096 ? (unsigned) g->lines : 4096;
  unsigned max = power_of_two_up(lines);
  s.stripes = bloom_shape_is_word(g->shape) ? 0
              : options->stripes            ? power_of_two_up(options->stripes)
              : s.stripes < max             ? s.stripes
                                            : max;
  s.words_bytes = g->lines * LINE_BYTES;
  s.stripes_bytes = s.stripes * sizeof(struct padded_stripe);
  s.shards_bytes = s.shards * sizeof(struct counter_shard);
  return s;
}

static uint64_t total_bytes(const struct sizes *s)
{
  return s->words_bytes + s->stripes_bytes + s->shards_bytes + sizeof(struct bloom);
}

/* What the filter's bits are laid out as. */
static tamis_layout layout_for(const tamis_options *options)
{
  return options->layout == TAMIS_LAYOUT_WORD && !options->growable ? BLOOM_LAYOUT_MARKED
                                                                    : options->layout;
}

static int bytes_for(const tamis_options *options, uint64_t *bytes)
{
  struct bloom_geometry g;
  int result = bloom_geometry_plan(layout_for(options), options->capacity, options->fpp, &g);
  if (result != TAMIS_OK)
    return result;
  struct sizes s = sizes_for(options, &g);
  *bytes = total_bytes(&s);
  return TAMIS_OK;
}

static int fpp_for(const tamis_options *options, uint64_t bytes, double *fpp)
{
  /* With the same shape a lower rate needs more bytes, but at the border of two shapes it may need
   * fewer.  So each range of rates that has one shape is tried by itself, from the lowest range up.
   * The first range whose highest rate fits within the bytes contains the answer. */
  tamis_options candidate = *options;
  double low = 0x1p-64;
  int result = TAMIS_EFULL;
  for (unsigned range = 0; low < BLOOM_HIGHEST_RATE; range++) {
    double next = bloom_geometry_range(layout_for(options), range);
    double good = nextafter(next, 0), bad = low;
    candidate.fpp = good;
    uint64_t needed;
    result = bytes_for(&candidate, &needed);
    if (result == TAMIS_OK && needed <= bytes) {
      /* Bisection of the logarithm.  A rate that is too low to be possible counts as too large. */
      while (good / bad > 1.005) {
        candidate.fpp = sqrt(good * bad);
        if (bytes_for(&candidate, &needed) == TAMIS_OK && needed <= bytes)
          good = candidate.fpp;
        else
          bad = candidate.fpp;
      }
      *fpp = good;
      return TAMIS_OK;
    }
    low = next;
  }
  /* Even the highest rate needs more bytes, or more than any address space holds. */
  return result == TAMIS_OK ? TAMIS_EFULL : result;
}

/* ---- creation ---- */

/* Also for a filter that is incomplete, because its creation failed. */
static void destroy(tamis_filter *f)
{
  struct bloom *b = bloom_of(f);
  tamis_allocator from = f->allocator;
  if (b->stripes.all)
    tamis__stripes_destroy(&b->stripes);
  tamis__memory_release(&from, b->words, b->geometry.lines * LINE_BYTES);
  tamis__memory_release(&from, b->stripes.all,
                        (b->stripes.mask + 1) * sizeof(struct padded_stripe));
  tamis__memory_release(&from, b->counters.shards,
                        (b->counters.mask + 1) * sizeof(struct counter_shard));
  tamis__memory_release(&from, b, sizeof *b);
}

/* Sets when a filter that is not growable is full; at_capacity() checks it. */
static void set_limits(struct bloom *b, bool growable)
{
  double bits = bloom_geometry_usable_bits(&b->geometry);
  double average = bloom_geometry_bits_set(&b->geometry, (double) b->geometry.capacity);
  /* The limit is four standard deviations above the average of as many independent bits, but at
   * most all bits.  The number of set bits varies less than that, because each key sets nearly the
   * same number of them.  (With 10^4 keys in the blocked layout a quarter of that variance was
   * measured, so the limit is nearer to eight deviations.) */
  b->limited = !growable;
  b->max_bits = fmin(bits, average + 4 * sqrt(average * (1 - average / bits)));
  if (tamis__bloom_near_capacity(b))
    atomic_store_explicit(&b->fullness, NEAR, memory_order_relaxed); /* not shared yet */
}

static int refuse_rate(const struct refusal *why, const tamis_options *options)
{
  if (!why || !why->text) /* the word layout's lowest rate takes a while to find */
    return TAMIS_EUNSUPPORTED;
  return tamis__refuse_rate(why, options,
                            options->layout == TAMIS_LAYOUT_WORD
                                ? "a Bloom filter of TAMIS_LAYOUT_WORD"
                                : "a Bloom filter",
                            bloom_geometry_lowest_rate(layout_for(options), options->capacity));
}

static int create_with(const struct tamis_filter *head, const struct bloom_geometry *g,
                       const struct sizes *s, bool growable, struct bloom **out)
{
  struct bloom *b = tamis__memory_allocate(&head->allocator, sizeof *b);
  if (!b)
    return TAMIS_ENOMEM;
  b->head = *head;
  b->head.operations = tamis__bloom_operations(g->shape);
  b->geometry = *g;
  b->bytes = total_bytes(s);
  if (s->stripes)
    b->stripes = (struct stripes){tamis__memory_allocate(&head->allocator, s->stripes_bytes),
                                  s->stripes - 1};
  b->counters =
      (struct counters){tamis__memory_allocate(&head->allocator, s->shards_bytes), s->shards - 1};
  b->words = tamis__memory_allocate(&head->allocator, s->words_bytes);
  if (b->stripes.all)
    tamis__stripes_init(&b->stripes);
  if (!b->words || (s->stripes && !b->stripes.all) || !b->counters.shards) {
    destroy(&b->head);
    return TAMIS_ENOMEM;
  }
  set_limits(b, growable);
  *out = b;
  return TAMIS_OK;
}

int tamis__bloom_create_like(const struct bloom *model, struct bloom **out)
{
  tamis_options options = {.stripes = model->stripes.all ? (unsigned) model->stripes.mask + 1 : 0};
  struct sizes s = sizes_for(&options, &model->geometry);
  return create_with(&model->head, &model->geometry, &s, !model->limited, out);
}

static int create(const tamis_options *options, const struct tamis_filter *head,
                  const struct refusal *why, tamis_filter **out)
{
  struct bloom_geometry g;
  int result = bloom_geometry_plan(layout_for(options), options->capacity, options->fpp, &g);
  if (result == TAMIS_EINVAL)
    return tamis__refuse_capacity(why, options, bytes_for);
  if (result != TAMIS_OK)
    return refuse_rate(why, options);
  struct sizes s = sizes_for(options, &g);
  result = tamis__check_max_bytes(why, options, total_bytes(&s));
  if (result != TAMIS_OK || !out)
    return result;
  struct bloom *b;
  result = create_with(head, &g, &s, options->growable, &b);
  if (result == TAMIS_OK)
    *out = &b->head;
  return result;
}

/* ---- figures and validation ---- */

static uint64_t count_bits(const struct bloom *b, uint64_t line)
{
  uint64_t bits = 0, keys = bloom_geometry_key_bits(&b->geometry);
  for (unsigned i = 0; i < LINE_WORDS; i++)
    bits += (unsigned) __builtin_popcountll(word_load(&b->words[line * LINE_WORDS + i]) & keys);
  return bits;
}

/* Whether the line has a word that is marked as full. */
static bool has_mark(const struct bloom *b, uint64_t line)
{
  uint64_t any = 0;
  for (unsigned i = 0; i < LINE_WORDS; i++)
    any |= word_load(&b->words[line * LINE_WORDS + i]);
  return any & ~bloom_geometry_key_bits(&b->geometry);
}

/* The number of set bits, from a sample of the lines, if adds do not count them.  All lines of a
 * small filter are in the sample.  From 2^21 bits, of which half are set, follows the number of
 * keys with a standard deviation of 0.1 %. */
static uint64_t sample_bits_set(const struct bloom *b)
{
  enum { SAMPLE = 4096 };
  uint64_t lines = b->geometry.lines, bits = 0;
  if (lines <= SAMPLE) {
    for (uint64_t line = 0; line < lines; line++)
      bits += count_bits(b, line);
    return bits;
  }
  for (uint64_t i = 0; i < SAMPLE; i++)
    bits += count_bits(b, (uint64_t) ((uint128) i * lines / SAMPLE));
  return (uint64_t) ((uint128) bits * lines / SAMPLE);
}

static void stats(const tamis_filter *f, tamis_stats *out)
{
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_geometry *g = &b->geometry;
  out->layout = bloom_shape_is_word(g->shape) ? TAMIS_LAYOUT_WORD : g->shape.layout;
  out->capacity = g->capacity;
  out->fpp = g->fpp;
  out->bytes = b->bytes;
  out->bits = bloom_geometry_bits(g);
  out->bits_per_key = bloom_geometry_bits_per_key(g);
  out->count = tamis__counter_sum(&b->counters, KEYS) + tamis__counter_sum(&b->counters, UNITED);
  out->bits_set = b->limited ? tamis__counter_sum(&b->counters, BITS) : sample_bits_set(b);
  out->estimated_count = bloom_geometry_keys(g, out->bits_set);
  out->load = out->estimated_count / (double) g->capacity;
  out->fpp_estimate = bloom_geometry_rate(g, out->estimated_count);
}

/* The counters must agree with the bits, and with each other. */
static bool validate(const tamis_filter *f, const char **reason)
{
  const struct bloom *b = const_bloom_of(f);
  uint64_t bits = 0, keys = tamis__counter_sum(&b->counters, KEYS);
  bool marks = false;
  for (uint64_t line = 0; line < b->geometry.lines; line++) {
    bits += count_bits(b, line);
    marks |= has_mark(b, line);
  }
  *reason = b->limited && bits != tamis__counter_sum(&b->counters, BITS)
                ? "counted bits are not the set bits"
            : keys > bits ? "more keys than set bits"
            : marks && atomic_load_explicit(&b->fullness, memory_order_relaxed) != FULL
                ? "a word is marked, and the filter is not full"
                : NULL;
  for (uint64_t i = 0; b->stripes.all && i <= b->stripes.mask; i++)
    if (stripe_held(&b->stripes.all[i].stripe))
      *reason = "a stripe is still locked";
  return !*reason;
}

const struct filter_kind tamis__bloom_kind = {
    .kind = TAMIS_BLOOM,
    .name = "TAMIS_BLOOM",
    .bytes_for = bytes_for,
    .fpp_for = fpp_for,
    .create = create,
    .destroy = destroy,
    .stats = stats,
    .validate = validate,
    .merge = tamis__bloom_merge,
    .intersect = tamis__bloom_intersect,
    .similarity = tamis__bloom_similarity,
};
