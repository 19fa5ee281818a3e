/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the struct filter_kind of Bloom filters: plans, figures and validation.
 */
#include "bloom/bloom.h"

#include <math.h>

/* ---- sizes ---- */

static bool layout_is_possible(const tamis_options *options)
{
  return options->kind != TAMIS_COUNTING_BLOOM || options->layout == TAMIS_LAYOUT_BLOCKED;
}

static int make_plan(const tamis_options *options, struct bloom_plan *plan)
{
  *plan = (struct bloom_plan){.number = 1,
                              .stripes_wanted = options->stripes,
                              .max_bytes = options->max_bytes,
                              .limited = !options->growable,
                              .has_allocator = options->allocator != NULL,
                              .own_hash = options->hash != NULL,
                              .cleared_from = options->allocator ? options->cleared_from : 0};
  if (!layout_is_possible(options))
    return TAMIS_EUNSUPPORTED;
  int result = tamis__bloom_plan(bloom_layout_for(options), bloom_opens_layers(options),
                                 options->capacity, options->fpp, &plan->geometry);
  plan->closes_early = options->growable && bloom_shape_is_word(plan->geometry.shape);
  return result;
}

static int bytes_for(const tamis_options *options, uint64_t *bytes)
{
  struct bloom_plan plan;
  int result = make_plan(options, &plan);
  if (result == TAMIS_OK)
    *bytes = tamis__bloom_bytes_for(&plan);
  return result;
}

/* Returns the upper end of the range of rates that begins at `low`.  Filters of the next range have
 * another shape, or their first layer gets only a share of the filter's rate
 * (bloom_geometry_shared_above()). */
static double end_of_range(const tamis_options *options, double low)
{
  tamis_layout layout = bloom_layout_for(options);
  double end = 1, share = 1;
  if (bloom_opens_layers(options)) {
    double shared_above = bloom_geometry_shared_above(options->capacity);
    if (low < shared_above)
      end = shared_above;
    else
      share = bloom_geometry_share(1);
  }
  return fmin(end, bloom_geometry_next_shape(layout, low * share) / share);
}

static int fpp_for(const tamis_options *options, uint64_t bytes, double *fpp)
{
  /* Within a range, a lower rate needs more bytes.  At the border of two ranges, it may need fewer.
   * So the loop tries range after range, from the lowest up.  The answer is in the first range
   * whose highest rate fits into `bytes`. */
  const double highest = 0.99;
  tamis_options candidate = *options;
  candidate.max_bytes = bytes;
  int result = TAMIS_EFULL;
  double low = 0x1p-64;
  while (low < highest) {
    double next = fmin(end_of_range(options, low), highest);
    double good = next * (1 - 0x1p-40), bad = low;
    candidate.fpp = good;
    uint64_t needed;
    result = bytes_for(&candidate, &needed);
    if (result == TAMIS_OK && needed <= bytes) {
      /* Bisects the logarithm of the rate.  If a rate cannot be planned, tries a higher rate. */
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
  return result == TAMIS_OK ? TAMIS_EFULL : result;
}

/* ---- creation ---- */

static void destroy(tamis_filter *f)
{
  const struct saved_mapping mapping = bloom_mapping(bloom_of(f));
  if (bloom_of(f)->live) {
    tamis__live_close(bloom_long_of(bloom_of(f))->shared);
    return;
  }
  tamis__bloom_destroy_layers(newest_layer(bloom_of(f)), NULL);
  tamis__saved_unmap(&mapping);
}

double tamis__bloom_lowest_rate(tamis_layout layout, uint64_t capacity)
{
  if (layout == TAMIS_LAYOUT_BLOCKED || layout == TAMIS_LAYOUT_CLASSIC)
    return hash_collision_rate(capacity);
  if (layout == BLOOM_LAYOUT_COUNTING)
    return fmax(hash_collision_rate(capacity), bloom_geometry_layout_begins(layout));
  /* Searches downwards from 0.0025, because rates of 0.0025 and more are never refused.  Below,
   * rates are possible and refused in turn, because the number of lines is a whole number.  The
   * message shows at most three digits, so the search tries only such rates. */
  struct bloom_geometry g;
  unsigned lowest = 2500, step = 10; /* both in millionths */
  while (step)
    if (bloom_geometry_plan(layout, capacity, (lowest - step) / 1e6, &g) == TAMIS_OK) {
      lowest -= step;
      step = lowest == 1000 ? 5 : step;
    } else {
      step = step == 5 ? 1 : 0;
    }
  return lowest / 1e6;
}

static int refuse_plan(const struct refusal *why, const tamis_options *options)
{
  if (!layout_is_possible(options))
    return tamis__refuse(why, TAMIS_EUNSUPPORTED,
                         "layout is %d; of a counting Bloom filter it must be %d "
                         "(TAMIS_LAYOUT_BLOCKED)",
                         (int) options->layout, TAMIS_LAYOUT_BLOCKED);
  if (!why || !why->text) /* without a text, skips the long search for the lowest rate */
    return TAMIS_EUNSUPPORTED;
  bool counting = options->kind == TAMIS_COUNTING_BLOOM;
  return tamis__refuse_rate(why, options,
                            counting ? "a counting Bloom filter"
                            : options->layout == TAMIS_LAYOUT_WORD
                                ? "a Bloom filter of the word layout"
                                : "a Bloom filter",
                            tamis__bloom_lowest_rate(bloom_layout_for(options), options->capacity));
}

static int create(const tamis_options *options, const struct tamis_filter *head,
                  const struct refusal *why, tamis_filter **out)
{
  struct bloom_plan plan;
  int result = make_plan(options, &plan);
  if (result == TAMIS_EINVAL)
    return tamis__refuse_capacity(why, options, bytes_for);
  if (result != TAMIS_OK)
    return refuse_plan(why, options);
  result = tamis__check_max_bytes(why, options, tamis__bloom_bytes_for(&plan));
  if (result != TAMIS_OK || !out)
    return result;

  struct bloom *b;
  result = tamis__bloom_create_empty(head, &plan, &b);
  if (result != TAMIS_OK)
    return result;
  if (plan.closes_early)
    tamis__layers_limit_first(b);
  *out = &b->head;
  return TAMIS_OK;
}

/* ---- figures and validation ---- */

static uint64_t count_bits(const struct bloom *b, uint64_t line)
{
  uint64_t bits = 0, keys = bloom_key_bits(b->layout);
  for (unsigned i = 0; i < LINE_WORDS; i++) {
    uint64_t bits_of_word = word_load(&b->words[line * LINE_WORDS + i]) & keys;
    bits += (unsigned) __builtin_popcountll(bloom_positions_set(bits_of_word, b->layout));
  }
  return bits;
}

/* A sample consists of RUNS runs.  A run is 1 line, or LONG_RUN consecutive lines. */
enum { RUNS = SMALL(4096, 256), LONG_RUN = SMALL(16, 4) };

/* Returns the number of set positions.  A large filter is sampled, in runs of `run` lines. */
static uint64_t sample_lines(const struct bloom *b, uint64_t run)
{
  uint64_t lines = b->word_count / LINE_WORDS, bits = 0;
  if (lines <= RUNS * run) {
    for (uint64_t line = 0; line < lines; line++)
      bits += count_bits(b, line);
    return bits;
  }
  for (uint64_t i = 0; i < RUNS; i++)
    for (uint64_t j = 0; j < run; j++)
      bits += count_bits(b, (uint64_t) ((uint128) i * lines / RUNS) + j);
  return (uint64_t) ((uint128) bits * lines / (RUNS * run));
}

static bool is_sampled(const struct bloom *b)
{
  return b->word_count > RUNS * LINE_WORDS;
}

/* Computes *bits from the counted keys: if they are few, a sample may contain no set bit.  Returns
 * false if a sample is better: in a filter with counters, after unions, which only estimate the
 * number of keys, or if over one key in a thousand may be hidden, and so not counted. */
static bool keys_tell_bits(const struct bloom *b, uint64_t *bits)
{
  const double most_hidden = 1e-3;
  const struct bloom_geometry g = bloom_geometry_of(b);
  double keys = (double) bloom_counted(b, KEYS);
  *bits = (uint64_t) (bloom_geometry_bits_set(&g, keys) + 0.5);
  return !bloom_counts(b) && !bloom_counted(b, UNITED) &&
         bloom_geometry_rate(&g, keys) <= most_hidden;
}

/* If half of the bits are set, a sample of 2^21 bits gives the number of keys with a standard
 * deviation of 0.5 % or less.  If fewer than one bit in 64 is set, the sample has longer runs. */
static uint64_t bits_set(const struct bloom *b)
{
  uint64_t bits;
  if (is_sampled(b) && keys_tell_bits(b, &bits))
    return bits;
  bits = sample_lines(b, 1);
  if (is_sampled(b) && bits < b->word_count)
    bits = sample_lines(b, LONG_RUN);
  return bits * bloom_shape_width(bloom_shape_of(b));
}

static uint64_t count_keys(const struct bloom *b)
{
  const struct counters counters = bloom_counters(b);
  return bloom_counts(b) ? bloom_sums_of(b).keys : tamis__counter_sum_both(&counters, KEYS, UNITED);
}

/* Adds the figures of a layer to those of the older layers.  The layer lacks keys that older layers
 * hide, so its number of keys is divided by the probability that no older layer hides a key. */
static void add_layer(const struct bloom *b, tamis_stats *out)
{
  const struct bloom_geometry g = bloom_geometry_of(b);
  const double none = 1 - out->fpp_estimate;
  tamis_stats s = {.bits_set = bits_set(b)};
  bloom_geometry_estimate(&g, &s);
  out->bytes += tamis__bloom_bytes(b);
  out->bits += b->word_count * 64;
  out->bits_set += s.bits_set;
  out->count += count_keys(b);
  out->united_count += bloom_counts(b) ? 0 : bloom_counted(b, UNITED);
  out->refused_adds += bloom_counted(b, REFUSED);
  out->estimated_count += none > 0 ? s.estimated_count / none : 0;
  out->fpp_estimate += none * s.fpp_estimate;
  out->bits_per_key = bloom_shape_bits_per_key(g.shape);
}

static void stats(const tamis_filter *f, tamis_stats *out)
{
  const struct bloom_geometry g = bloom_geometry_of(const_bloom_of(f));
  struct bloom *layers[BLOOM_MOST_LAYERS];
  out->layers = bloom_layers_of(const_bloom_of(f), layers);
  out->growths = out->layers - 1;
  for (unsigned i = 0; i < out->layers; i++)
    add_layer(layers[i], out);
  out->layout = bloom_geometry_public_layout(&g);
  out->capacity = g.capacity;
  out->fpp = g.fpp;
  out->load = out->estimated_count / (double) g.capacity;
}

static struct saved_mapping mapping_of(const tamis_filter *f)
{
  return bloom_mapping(const_bloom_of(f));
}

static int sync_live(const tamis_filter *f)
{
  const struct bloom *b = const_bloom_of(f);
  return b->live ? tamis__live_sync(b) : TAMIS_EUNSUPPORTED;
}

#define KIND(of_kind, ...)                                                                        \
  {                                                                                               \
    .kind = (of_kind), .name = #of_kind, .bytes_for = NOT_IN_READER(bytes_for),                   \
    .fpp_for = NOT_IN_READER(fpp_for), .create = NOT_IN_READER(create), .destroy = destroy,       \
    .stats = NOT_IN_READER(stats), .describe = NOT_IN_READER(tamis__bloom_describe),              \
    .read_info = tamis__bloom_read_info, .save = NOT_IN_READER(tamis__bloom_save),                \
    .load = tamis__bloom_load, .mapping = mapping_of, .merge = NOT_IN_READER(tamis__bloom_merge), \
    .includes = NOT_IN_READER(tamis__bloom_includes), __VA_ARGS__                                 \
  }

const struct filter_kind tamis__bloom_kind =
    KIND(TAMIS_BLOOM, .features = SAVED_LAYERS | SAVED_LIVE,
         .share_new = NOT_COMPACT(tamis__bloom_share_new),
         .share_open = NOT_COMPACT(tamis__bloom_share_open), .sync = NOT_COMPACT(sync_live),
         .intersect = NOT_IN_READER(tamis__bloom_intersect),
         .similarity = NOT_COMPACT(tamis__bloom_similarity));

const struct filter_kind tamis__counting_bloom_kind = KIND(TAMIS_COUNTING_BLOOM, .intersect = NULL);
