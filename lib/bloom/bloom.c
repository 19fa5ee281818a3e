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

/* The word layout needs no stripes, and layers share those of the layer before.  A filter of a few
 * lines gets no more stripes than lines: a thousand small filters should not take a thousand times
 * 8 KiB for locks. */
static struct sizes sizes_for(const struct bloom_plan *plan)
{
  const struct bloom_geometry *g = &plan->geometry;
  struct sizes s = {.shards = tamis__counter_shards(g->lines * LINE_BYTES),
                    .stripes = tamis__stripe_count()};
  unsigned lines = g->lines < 4096 ? (unsigned) g->lines : 4096;
  unsigned max = power_of_two_up(lines), wanted = plan->stripes_wanted;
  s.stripes = plan->shares_stripes || bloom_shape_is_word(g->shape) ? 0
              : wanted                                              ? power_of_two_up(wanted)
              : s.stripes < max                                     ? s.stripes
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

/* A filter that opens layers begins with its first one. */
static int plan_geometry(const tamis_options *options, struct bloom_geometry *out)
{
  tamis_layout layout = bloom_layout_for(options);
  if (options->kind == TAMIS_COUNTING_BLOOM && options->layout != TAMIS_LAYOUT_BLOCKED)
    return TAMIS_EUNSUPPORTED;
  return bloom_opens_layers(options)
             ? bloom_geometry_plan_layer(layout, 1, options->capacity, options->fpp, out)
             : bloom_geometry_plan(layout, options->capacity, options->fpp, out);
}

static int bytes_for(const tamis_options *options, uint64_t *bytes)
{
  struct bloom_plan plan = {.stripes_wanted = options->stripes};
  int result = plan_geometry(options, &plan.geometry);
  if (result != TAMIS_OK)
    return result;
  struct sizes s = sizes_for(&plan);
  *bytes = total_bytes(&s);
  return TAMIS_OK;
}

uint64_t tamis__bloom_bytes_beside(const struct bloom_plan *plan)
{
  struct sizes s = sizes_for(plan);
  return total_bytes(&s) - s.words_bytes;
}

static int fpp_for(const tamis_options *options, uint64_t bytes, double *fpp)
{
  /* With the same shape a lower rate needs more bytes, but at the border of two shapes it may need
   * fewer.  So each range of rates that has one shape is tried by itself, from the lowest range up.
   * The first range whose highest rate fits within the bytes contains the answer. */
  tamis_options candidate = *options;
  double low = 0x1p-64, share = bloom_opens_layers(options) ? bloom_geometry_share(1) : 1;
  int result = TAMIS_EFULL;
  for (unsigned range = 0; low < BLOOM_HIGHEST_RATE; range++) {
    double next = bloom_geometry_range(bloom_layout_for(options), range);
    if (range) /* the lowest range ends where another layout begins, whatever the share is */
      next = fmin(next / share, BLOOM_HIGHEST_RATE);
    double good = next * (1 - 0x1p-40), bad = low;
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

/* But for its words.  Also for a filter that is incomplete, because its creation failed. */
static void destroy_beside(struct bloom *b)
{
  tamis_allocator from = b->head.allocator;
  if (b->stripes.all && b->owns_stripes) {
    tamis__stripes_destroy(&b->stripes);
    tamis__memory_release(&from, b->stripes.all,
                          (b->stripes.mask + 1) * sizeof(struct padded_stripe));
  }
  tamis__memory_release(&from, b->counters.shards,
                        (b->counters.mask + 1) * sizeof(struct counter_shard));
  if (b->mapping.at && !b->older)
    tamis__memory_release(&from, (void *) operations_of(&b->head),
                          sizeof(struct filter_operations));
  tamis__memory_release(&from, b, sizeof *b);
}

void tamis__bloom_destroy_layer(struct bloom *b)
{
  if (!b->mapping.at)
    tamis__memory_release(&b->head.allocator, b->words, b->geometry.lines * LINE_BYTES);
  destroy_beside(b);
}

void tamis__bloom_destroy_layers(struct bloom *newest)
{
  for (struct bloom *older; newest; newest = older) {
    older = newest->older;
    tamis__bloom_destroy_layer(newest);
  }
}

static void destroy(tamis_filter *f)
{
  const struct saved_mapping mapping = bloom_of(f)->mapping;
  tamis__bloom_destroy_layers(newest_layer(bloom_of(f)));
  tamis__saved_unmap(&mapping);
}

/* The number of set bits from which on a filter that is not growable is full; at_capacity() checks
 * it. */
static double limit_of_bits(const struct bloom_geometry *g)
{
  double bits = bloom_geometry_usable_bits(g);
  double average = bloom_geometry_bits_set(g, (double) g->capacity);
  /* The limit is four standard deviations above the average of as many independent bits, but at
   * most all bits.  The number of set bits varies less than that, because each key sets nearly the
   * same number of them.  (With 10^4 keys in the blocked layout a quarter of that variance was
   * measured, so the limit is nearer to eight deviations.) */
  return fmin(bits, average + 4 * sqrt(average * (1 - average / bits)));
}

/* A mapped filter has operations of its own, and no stripes. */
static bool create_mapped(struct bloom *b)
{
  if (b->older)
    return true;
  struct filter_operations *own = tamis__memory_allocate(&b->head.allocator, sizeof *own);
  if (own)
    *own = tamis__read_only(&b->calls->alone);
  operations_begin(&b->head, own);
  b->bytes += sizeof *own;
  return own != NULL;
}

static bool create_stripes(struct bloom *b, const struct sizes *s)
{
  b->owns_stripes = s->stripes;
  if (b->older)
    b->stripes = b->older->stripes;
  if (!s->stripes)
    return true;
  b->stripes = (struct stripes){tamis__memory_allocate(&b->head.allocator, s->stripes_bytes),
                                s->stripes - 1};
  if (b->stripes.all)
    tamis__stripes_init(&b->stripes);
  return b->stripes.all != NULL;
}

/* What a plan says.  Relaxed: the filter is not shared yet. */
static void begin(struct bloom *b, const struct bloom_plan *plan)
{
  b->geometry = plan->geometry;
  b->stripes_wanted = plan->stripes_wanted;
  b->max_bytes = plan->max_bytes;
  b->cleared_from = plan->cleared_from <= UINT32_MAX ? (uint32_t) plan->cleared_from : 0;
  b->limited = plan->limited;
  atomic_store_explicit(&b->fullness, OPEN, memory_order_relaxed);
  b->max_bits = plan->max_bits > 0 ? plan->max_bits : limit_of_bits(&b->geometry);
  b->closes_at = plan->closes_at ? plan->closes_at : b->geometry.capacity;
  b->older = plan->older;
  b->number = plan->older ? plan->older->number + 1 : 1;
  b->calls = tamis__bloom_calls(b->geometry.shape, plan->limited);
}

struct bloom *tamis__bloom_create(const struct tamis_filter *head, const struct bloom_plan *plan,
                                  word *words, const struct saved_mapping *mapping)
{
  struct bloom *b = tamis__memory_allocate(&head->allocator, sizeof *b);
  if (!b)
    return NULL;
  struct sizes s = sizes_for(plan);
  begin(b, plan);
  b->head.keys = head->keys;
  b->head.hash = head->hash;
  b->head.hash_context = head->hash_context;
  b->head.allocator = head->allocator;
  operations_begin(&b->head, &b->calls->alone);
  b->words = words;
  b->bytes = mapping->at ? sizeof *b + s.shards_bytes : total_bytes(&s);
  b->mapping = *mapping;
  b->counters =
      (struct counters){tamis__memory_allocate(&head->allocator, s.shards_bytes), s.shards - 1};
  bool complete = b->counters.shards && (mapping->at ? create_mapped(b) : create_stripes(b, &s));
  if (complete) {
    if (!mapping->at)
      (void) tamis__bloom_watch(b);
    return b;
  }
  destroy_beside(b);
  return NULL;
}

static int refuse_rate(const struct refusal *why, const tamis_options *options)
{
  if (!why || !why->text) /* the word layout's lowest rate takes a while to find */
    return TAMIS_EUNSUPPORTED;
  bool counting = options->kind == TAMIS_COUNTING_BLOOM;
  if (counting && options->layout != TAMIS_LAYOUT_BLOCKED)
    return tamis__refuse(why, TAMIS_EUNSUPPORTED,
                         "layout is %d; of a counting Bloom filter it must be %d "
                         "(TAMIS_LAYOUT_BLOCKED)",
                         (int) options->layout, TAMIS_LAYOUT_BLOCKED);
  return tamis__refuse_rate(
      why, options,
      counting                               ? "a counting Bloom filter"
      : options->layout == TAMIS_LAYOUT_WORD ? "a Bloom filter of TAMIS_LAYOUT_WORD"
                                             : "a Bloom filter",
      bloom_geometry_lowest_rate(bloom_layout_for(options), options->capacity));
}

int tamis__bloom_create_empty(const struct tamis_filter *head, const struct bloom_plan *plan,
                              struct bloom **out)
{
  uint64_t words_bytes = plan->geometry.lines * LINE_BYTES;
  bool clear = plan->cleared_from && words_bytes >= plan->cleared_from;
  word *words =
      tamis__memory_allocate_cleared(&head->allocator, words_bytes, clear ? 0 : words_bytes);
  *out = words ? tamis__bloom_create(head, plan, words, &(struct saved_mapping){0}) : NULL;
  if (!*out)
    tamis__memory_release(&head->allocator, words, words_bytes);
  return *out ? TAMIS_OK : TAMIS_ENOMEM;
}

int tamis__bloom_create_like(const struct bloom *model, struct bloom **out)
{
  const struct bloom_plan plan = {.geometry = model->geometry,
                                  .stripes_wanted = model->stripes_wanted,
                                  .max_bytes = model->max_bytes,
                                  .limited = model->limited,
                                  .max_bits = model->max_bits,
                                  .cleared_from = model->cleared_from,
                                  .closes_at = model->closes_at};
  return tamis__bloom_create_empty(&model->head, &plan, out);
}

static int create(const tamis_options *options, const struct tamis_filter *head,
                  const struct refusal *why, tamis_filter **out)
{
  struct bloom_plan plan = {.stripes_wanted = options->stripes,
                            .max_bytes = options->max_bytes,
                            .limited = !options->growable,
                            .cleared_from = options->allocator ? options->cleared_from : 0};
  int result = plan_geometry(options, &plan.geometry);
  if (result == TAMIS_EINVAL)
    return tamis__refuse_capacity(why, options, bytes_for);
  if (result != TAMIS_OK)
    return refuse_rate(why, options);
  uint64_t words_bytes = plan.geometry.lines * LINE_BYTES;
  result = tamis__check_max_bytes(why, options, words_bytes + tamis__bloom_bytes_beside(&plan));
  if (result != TAMIS_OK || !out)
    return result;

  struct bloom *b;
  result = tamis__bloom_create_empty(head, &plan, &b);
  if (result != TAMIS_OK)
    return result;
  if (options->growable && bloom_shape_is_word(plan.geometry.shape))
    tamis__layers_limit_first(b);
  *out = &b->head;
  return TAMIS_OK;
}

/* ---- figures and validation ---- */

static uint64_t count_bits(const struct bloom *b, uint64_t line)
{
  uint64_t bits = 0, keys = bloom_geometry_key_bits(&b->geometry);
  for (unsigned i = 0; i < LINE_WORDS; i++) {
    uint64_t bits_of_word = word_load(&b->words[line * LINE_WORDS + i]) & keys;
    bits += (unsigned) __builtin_popcountll(
        bloom_positions_set(bits_of_word, b->geometry.shape.layout));
  }
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

/* The number of set bits, from a sample of the lines, if adds do not count them, or nobody adds.
 * All lines of a small filter are in the sample.  From 2^21 bits, of which half are set, follows
 * the number of keys with a standard deviation of 0.1 %. */
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

void tamis__bloom_estimate(const struct bloom_geometry *g, tamis_stats *out)
{
  out->estimated_count = bloom_geometry_keys(g, out->bits_set / bloom_shape_width(g->shape));
  out->load = out->estimated_count / (double) g->capacity;
  out->fpp_estimate = bloom_geometry_rate(g, out->estimated_count);
}

static uint64_t bits_set(const struct bloom *b)
{
  const struct bloom_shape shape = b->geometry.shape;
  bool counted = b->limited && !b->mapping.at && shape.layout != BLOOM_LAYOUT_COUNTING;
  return counted ? tamis__counter_sum(&b->counters, BITS)
                 : sample_bits_set(b) * bloom_shape_width(shape);
}

/* Of a layer. */
static uint64_t count_keys(const struct bloom *b)
{
  return b->geometry.shape.layout == BLOOM_LAYOUT_COUNTING
             ? tamis__counting_keys(b).copies
             : tamis__counter_sum_both(&b->counters, KEYS, UNITED);
}

/* What follows from the bits of several layers.  A key that an older layer hid came into none: of
 * the keys that were offered to a layer, those that are in it passed all layers before it. */
static void estimate_layers(const struct bloom *newest, const uint64_t *bits, tamis_stats *out)
{
  const struct bloom *layers[BLOOM_MOST_LAYERS];
  double none = 1; /* the probability that no layer so far finds a key that is not in */
  for (const struct bloom *layer = newest; layer; layer = layer->older)
    layers[layer->number - 1] = layer;
  for (unsigned i = 0; i < newest->number; i++) {
    tamis_stats s = {.bits_set = bits[i]};
    tamis__bloom_estimate(&layers[i]->geometry, &s);
    out->estimated_count += none > 0 ? s.estimated_count / none : 0;
    none *= 1 - s.fpp_estimate;
  }
  out->fpp_estimate = 1 - none;
  out->load = out->estimated_count / (double) layers[0]->geometry.capacity;
}

static void stats(const tamis_filter *f, tamis_stats *out)
{
  const struct bloom *first = const_bloom_of(f), *newest = newest_layer(first);
  const struct bloom_geometry *g = &first->geometry;
  uint64_t bits[BLOOM_MOST_LAYERS];
  const struct bloom *layer = newest;
  do {
    bits[layer->number - 1] = bits_set(layer);
    out->bytes += layer->bytes;
    out->bits += layer->geometry.lines * LINE_BITS;
    out->bits_set += bits[layer->number - 1];
    out->count += count_keys(layer);
    out->refused_adds += tamis__counter_sum(&layer->counters, REFUSED);
    layer = layer->older;
  } while (layer);
  if (newest == first)
    tamis__bloom_estimate(g, out);
  else
    estimate_layers(newest, bits, out);
  out->layout = bloom_geometry_public_layout(g);
  out->capacity = g->capacity;
  out->fpp = g->fpp;
  out->bits_per_key = bloom_geometry_bits_per_key(&newest->geometry);
  out->growths = newest->number - 1;
  out->layers = newest->number;
}

/* The counters must agree with the bits, and with each other. */
static const char *find_fault_of_bits(const struct bloom *b)
{
  uint64_t bits = 0, keys = tamis__counter_sum(&b->counters, KEYS);
  bool marks = false;
  int fullness = atomic_load_explicit(&b->fullness, memory_order_relaxed);
  for (uint64_t line = 0; line < b->geometry.lines; line++) {
    bits += count_bits(b, line);
    marks |= has_mark(b, line);
  }
  return b->limited && !b->mapping.at && bits != tamis__counter_sum(&b->counters, BITS)
             ? "counted bits are not the set bits"
         : keys > bits               ? "more keys than set bits"
         : marks && fullness != FULL ? "a word is marked, and the filter is not full"
                                     : NULL;
}

static const char *find_fault(const struct bloom *b)
{
  for (uint64_t i = 0; b->stripes.all && i <= b->stripes.mask; i++)
    if (stripe_held(&b->stripes.all[i].stripe))
      return "a stripe is still locked";
  return b->geometry.shape.layout == BLOOM_LAYOUT_COUNTING ? tamis__counting_fault(b)
                                                           : find_fault_of_bits(b);
}

static bool validate(const tamis_filter *f, const char **reason)
{
  const struct bloom *first = const_bloom_of(f), *newest = newest_layer(first);
  *reason = NULL;
  unsigned number = newest->number;
  for (const struct bloom *layer = newest; layer && !*reason; layer = layer->older) {
    int fullness = atomic_load_explicit(&layer->fullness, memory_order_relaxed);
    *reason = layer->number != number-- || (number == 0) != (layer == first)
                  ? "the layers are not in their order"
              : layer != newest && !layer->mapping.at && fullness < FULL
                  ? "a layer is not closed, and another one follows"
                  : find_fault(layer);
  }
  if (!*reason && newest != first && !first->mapping.at &&
      operations_of(f) != &tamis__bloom_layered)
    *reason = "there are layers that the operations do not know";
  return !*reason;
}

/* What both kinds have, and further members. */
#define KIND(of_kind, ...)                                                           \
  {                                                                                  \
    .kind = (of_kind), .name = #of_kind, .bytes_for = bytes_for, .fpp_for = fpp_for, \
    .create = create, .destroy = destroy, .stats = stats, .validate = validate,      \
    .describe = tamis__bloom_describe, .figures = tamis__bloom_figures,              \
    .bytes_beside = tamis__bloom_saved_beside, .save = tamis__bloom_save,            \
    .load = tamis__bloom_load, __VA_ARGS__                                           \
  }

const struct filter_kind tamis__bloom_kind =
    KIND(TAMIS_BLOOM, .features = SAVED_LAYERS, .merge = tamis__bloom_merge,
         .intersect = tamis__bloom_intersect, .similarity = tamis__bloom_similarity);

const struct filter_kind tamis__counting_bloom_kind =
    KIND(TAMIS_COUNTING_BLOOM, .merge = tamis__counting_merge);
