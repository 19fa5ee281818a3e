/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the kinds of windows (struct filter_kind): sizes, creation and statistics.
 */
#include "window/counted.h"
#include "window/create.h"
#include "window/operations.h"
#include "window/save.h"
#include "window/shared.h"

#include <math.h>

/* Windows of the Bloom kind have no word layout.  Other kinds ignore the layout. */
static bool layout_is_possible(const tamis_options *options)
{
  return options->kind != TAMIS_BLOOM || options->layout != TAMIS_LAYOUT_WORD;
}

static int bytes_for(const tamis_options *options, uint64_t *bytes)
{
  struct window_plan plan = tamis__window_plan_of(options);
  if (!layout_is_possible(options))
    return TAMIS_EUNSUPPORTED;
  int result = window_geometry_plan(&plan.spec, &plan.geometry);
  if (result == TAMIS_OK)
    *bytes = tamis__window_total_bytes(&plan);
  return result;
}

/* Tries each shape's lowest rate.  (A rate between two of them gives the filter of the lower.) */
static int fpp_for(const tamis_options *options, uint64_t bytes, double *fpp)
{
  tamis_options trial = *options;
  uint64_t needed;
  int result = TAMIS_EFULL;
  double least = fmax(window_geometry_lowest_rate(options->window, options->growable),
                      hash_collision_rate(options->capacity));
  for (unsigned i = 0; i < WINDOW_SHAPES; i++) {
    double rate = window_geometry_lowest_of_shape(options->window, options->growable, i);
    trial.fpp = fmax(rate, least) * (1 + 1e-9); /* above the limit in spite of rounding */
    if (rate > 0.99)
      continue;
    int possible = bytes_for(&trial, &needed);
    if (possible != TAMIS_OK)
      return possible;
    if (needed <= bytes && (result != TAMIS_OK || trial.fpp < *fpp)) {
      *fpp = trial.fpp;
      result = TAMIS_OK;
    }
  }
  return result;
}

/* Returns the lowest rate for the capacity or, if 64-bit hashes allow none, for any capacity. */
static double lowest_rate(const tamis_options *options)
{
  const struct window_plan plan = tamis__window_plan_of(options);
  double widest = window_geometry_lowest_rate(plan.spec.periods, options->growable);
  double equal_hashes = hash_collision_rate(options->capacity);
  return equal_hashes < 1 ? fmax(widest, equal_hashes) : widest;
}

static int create(const tamis_options *options, const struct tamis_filter *head,
                  const struct refusal *why, tamis_filter **out)
{
  struct window_plan plan = tamis__window_plan_of(options);
  if (!layout_is_possible(options))
    return tamis__refuse(why, TAMIS_EUNSUPPORTED,
                         "layout is word; with a window it must be blocked or classic");
  int result = window_geometry_plan(&plan.spec, &plan.geometry);
  if (result == TAMIS_EINVAL)
    return tamis__refuse_capacity(why, options, bytes_for);
  if (result != TAMIS_OK)
    return tamis__refuse_rate(why, options,
                              NOT_COMPACT(plan.counted) ? "a cuckoo filter that processes share"
                                                        : "a window",
                              lowest_rate(options));
  result = tamis__check_max_bytes(why, options, tamis__window_total_bytes(&plan));
  if (result != TAMIS_OK || !out)
    return result;
  struct window *w = tamis__window_create(head, &plan);
  if (!w)
    return TAMIS_ENOMEM;
  *out = &w->head;
  return TAMIS_OK;
}

/* Estimates a layer's live lanes, which no call counts, from a sample of its words. */
static uint64_t sample_lanes(const struct window_layer *layer, unsigned dead)
{
  enum { SAMPLE = 1 << 15 }; /* in words: 2^21 bits, as in a Bloom filter's sample */
  const struct window_shape *s = &layer->geometry.whole;
  uint64_t words = window_words(&layer->geometry), n = words < SAMPLE ? words : SAMPLE, lanes = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t at = (uint64_t) ((uint128) i * words / n);
    lanes += lanes_count(window_live(s, word_load(&layer->words[at]), dead));
  }
  return words > SAMPLE ? (uint64_t) ((uint128) lanes * words / SAMPLE) : lanes;
}

/* The false-positive rate of a look-up in all layers, which have `used` lanes in use together. */
static double rate_now(const struct window *w, uint64_t epoch, uint64_t used)
{
  const struct window_layer *layer = window_newest(w, epoch);
  bool alone = !window_next(layer, epoch);
  double none = 1;
  for (; layer; layer = window_next(layer, epoch)) {
    uint64_t here = alone ? used : sample_lanes(layer, epoch_dead(epoch));
    none *= 1 - fmin(1, window_geometry_rate(&layer->geometry, here));
  }
  return 1 - none;
}

static void stats(const tamis_filter *f, tamis_stats *out)
{
  const struct window *w = const_window_of(f);
  tamis__backlog_drain(&window_of((tamis_filter *) f)->backlog, false);
  uint64_t epoch = epoch_read(&w->state->epoch), period = epoch_period(epoch), lanes = 0;
  uint64_t used = window_lanes_in_use(w);
  struct window_reader reader = window_enter(epoch);
  const struct window_layer *layer = window_newest(w, epoch);
  out->fingerprint_bits = window_fingerprint_bits(&layer->geometry.shape);
  out->layers = 0;
  do {
    lanes += window_lanes(&layer->geometry);
    out->bits += window_words(&layer->geometry) * 64;
    out->layers++;
    layer = window_next(layer, epoch);
  } while (layer);
  out->fpp_estimate = rate_now(w, epoch, used);
  window_leave(reader);
  out->count = used + window_all_further(w);
  out->estimated_count = (double) out->count;
  out->capacity = w->spec.capacity;
  out->load = out->estimated_count / (double) w->spec.capacity;
  out->bytes = atomic_load_explicit(&w->bytes, memory_order_relaxed);
  out->fpp = w->spec.fpp;
  out->layout = TAMIS_LAYOUT_BLOCKED;
  out->growths = atomic_load_explicit(&w->growths, memory_order_relaxed);
  if (window_is_counted(w)) {
    out->generations = 1;
    out->segments = w->first.geometry.segments;
  } else {
    out->parts = w->spec.periods + 1;
    out->period = window_period(w);
    out->oldest_part_age = period < w->spec.periods ? period : w->spec.periods;
  }
  out->occupancy = (double) used / (double) lanes;
  out->evictions = tamis__counter_sum(&w->counters, WINDOW_EVICTIONS);
  out->failed_searches = tamis__counter_sum(&w->counters, WINDOW_FAILED_SEARCHES);
  out->refused_adds = tamis__counter_sum(&w->counters, WINDOW_REFUSED);
  out->lookup_retries = tamis__counter_sum(&w->counters, WINDOW_LOOKUP_RETRIES);
}

#define WINDOW_KIND(KIND_, ...)                                                              \
  {                                                                                          \
    .kind = (KIND_), .name = #KIND_, .bytes_for = NOT_IN_READER(bytes_for),                  \
    .fpp_for = NOT_IN_READER(fpp_for), .create = NOT_IN_READER(create),                      \
    .destroy = tamis__window_destroy, .stats = NOT_IN_READER(stats),                         \
                                                                                             \
    .describe = NOT_IN_READER(tamis__window_describe), .read_info = tamis__window_read_info, \
    .save = NOT_IN_READER(tamis__window_save), .load = tamis__window_load,                   \
    .merge = NOT_IN_READER(tamis__window_merge), __VA_ARGS__                                 \
  }

#define SHARED_KIND(KIND_, FEATURE, ...)                           \
  WINDOW_KIND(KIND_, .features = (FEATURE) | SAVED_LIVE,           \
              .share_new = NOT_COMPACT(tamis__window_share_new),   \
              .share_open = NOT_COMPACT(tamis__window_share_open), \
              .sync = NOT_COMPACT(tamis__window_sync), __VA_ARGS__)

#define WITH_PERIODS \
  .advance = NOT_IN_READER(tamis__window_advance), .add_for = NOT_IN_READER(tamis__window_add_for)

const struct filter_kind tamis__window_bloom_kind =
    SHARED_KIND(TAMIS_BLOOM, SAVED_WINDOW, WITH_PERIODS);
const struct filter_kind tamis__window_cuckoo_kind =
    WINDOW_KIND(TAMIS_CUCKOO, .features = SAVED_WINDOW, WITH_PERIODS);
const struct filter_kind tamis__window_counted_kind =
    SHARED_KIND(TAMIS_CUCKOO, SAVED_COUNTED, .advance = NULL);
