/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a sliding window as a whole: creation, figures, validation.
 */
#include "window/window.h"

#include "base/compiler.h"
#include "base/memory.h"
#include "window/advance.h"
#include "window/copies.h"
#include "window/create.h"
#include "window/insert.h"
#include "window/layers.h"
#include "window/lookup.h"
#include "window/remove.h"
#include "window/save.h"
#include "window/unite.h"

#include <math.h>
#include <string.h>

/* ---- sizes ---- */

enum {
  MOST_VERSIONS = SMALL(256, 4),
  LEAST_VERSIONS = 2, /* a fingerprint is shifted by less than 64 bits */
  LINES_PER_STRIPE = SMALL(32, 1),
  LINES_PER_VERSION = SMALL(4, 1),
  LEAST_STRIPES = 2,
};

/* What lies beside the words of the first layer, in one block: stripes, shards, versions, and of
 * the cuckoo kind planes. */
struct sizes {
  unsigned stripes, shards, versions;
  uint64_t beside; /* bytes */
};

/* In a small filter all this is a small part of it, unless the user wants more stripes. */
static struct sizes sizes_for(const struct window_geometry *g, unsigned stripes_wanted, bool copies)
{
  uint64_t lines = window_words(g) / WINDOW_LINE_WORDS;
  struct sizes s = {.stripes = 1, .versions = MOST_VERSIONS};
  unsigned most = stripes_wanted ? stripes_wanted : tamis__stripe_count();
  uint64_t useful = stripes_wanted ? UINT64_MAX : lines / LINES_PER_STRIPE;
  while (s.stripes < most && (s.stripes < useful || (s.stripes < LEAST_STRIPES && !stripes_wanted)))
    s.stripes *= 2;
  while (s.versions > LEAST_VERSIONS && s.versions > lines / LINES_PER_VERSION)
    s.versions /= 2;
  s.shards = tamis__counter_shards(window_bytes(g) / 8);
  s.beside = s.stripes * sizeof(struct padded_stripe) + s.shards * sizeof(struct counter_shard) +
             s.versions * sizeof(version_counter) +
             (copies ? WINDOW_PLANES * sizeof(struct window_plane) : 0);
  return s;
}

uint64_t tamis__window_bytes_beside(const struct window_geometry *g, unsigned stripes_wanted,
                                    bool copies)
{
  return sizeof(struct window) + sizes_for(g, stripes_wanted, copies).beside;
}

static uint64_t total_bytes(const struct window_plan *plan)
{
  return tamis__window_bytes_beside(&plan->geometry, plan->stripes_wanted, plan->copies) +
         window_bytes(&plan->geometry);
}

/* The plan of a new filter, but for the geometry. */
static struct window_plan plan_of(const tamis_options *options)
{
  return (struct window_plan){.spec = {.periods = options->window,
                                       .capacity = options->capacity,
                                       .fpp = options->fpp,
                                       .growable = options->growable},
                              .index = 1,
                              .copies = options->kind == TAMIS_CUCKOO,
                              .renews = options->window_renews,
                              .stripes_wanted = options->stripes,
                              .max_bytes = options->max_bytes,
                              .cleared_from = options->allocator ? options->cleared_from : 0};
}

/* Only Bloom filters have layouts. */
static bool layout_is_possible(const tamis_options *options)
{
  return options->kind != TAMIS_BLOOM || options->layout != TAMIS_LAYOUT_WORD;
}

static int bytes_for(const tamis_options *options, uint64_t *bytes)
{
  struct window_plan plan = plan_of(options);
  if (!layout_is_possible(options))
    return TAMIS_EUNSUPPORTED;
  int result = window_geometry_plan(&plan.spec, &plan.geometry);
  if (result == TAMIS_OK)
    *bytes = total_bytes(&plan);
  return result;
}

/* The rate of each shape in turn: a lower one in between gets the same filter. */
static int fpp_for(const tamis_options *options, uint64_t bytes, double *fpp)
{
  tamis_options trial = *options;
  uint64_t needed;
  int result = TAMIS_EFULL;
  double least = fmax(window_geometry_lowest_rate(options->window, options->growable),
                      hash_collision_rate(options->capacity));
  for (unsigned i = 0; i < WINDOW_SHAPES; i++) {
    double rate = window_geometry_lowest_of_shape(options->window, options->growable, i);
    trial.fpp = fmax(rate, least) * (1 + 1e-9); /* so that it is not refused, as rounded below */
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

/* ---- creation and destruction ---- */

static uint64_t beside_bytes(const struct window *w)
{
  unsigned versions = 1u << (64 - w->version_shift);
  return (w->stripes.mask + 1) * sizeof(struct padded_stripe) +
         (w->counters.mask + UINT64_C(1)) * sizeof(struct counter_shard) +
         versions * sizeof(version_counter) +
         (window_counts_copies(w) ? WINDOW_PLANES * sizeof(struct window_plane) : 0);
}

/* Returns the planes of the first layer. */
static struct window_plane *set_beside(struct window *w, const struct sizes *s, bool copies,
                                       void *block)
{
  struct padded_stripe *stripes = block;
  struct counter_shard *shards = (struct counter_shard *) (stripes + s->stripes);
  struct window_plane *planes = (struct window_plane *) (shards + s->shards);
  w->stripes = (struct stripes){stripes, s->stripes - 1};
  w->counters = (struct counters){shards, s->shards - 1};
  w->versions = (version_counter *) (planes + (copies ? WINDOW_PLANES : 0));
  w->version_shift = 64 - (unsigned) __builtin_ctz(s->versions);
  for (unsigned i = 0; i < s->versions; i++)
    version_begin(&w->versions[i]);
  tamis__stripes_init(&w->stripes);
  stripe_init(&w->advancing);
  stripe_init(&w->opening);
  stripe_init(&w->saving);
  return copies ? planes : NULL;
}

static struct filter_operations operations_for(const struct window_calls *calls, bool copies)
{
  if (copies)
    return (struct filter_operations){.kind = &tamis__window_cuckoo_kind,
                                      .contains = calls->contains,
                                      .contains_many = calls->contains_many,
                                      .add = tamis__window_add_copy,
                                      .add_unique = tamis__window_add_first_copy,
                                      .add_many = tamis__window_add_copy_many,
                                      .add_unique_many = tamis__window_add_first_copy_many,
                                      .remove = tamis__window_remove,
                                      .count = tamis__window_count_copies,
                                      .count_many = tamis__window_count_copies_many};
  return (struct filter_operations){.kind = &tamis__window_bloom_kind,
                                    .contains = calls->contains,
                                    .contains_many = calls->contains_many,
                                    .add = tamis__window_add,
                                    .add_unique = tamis__window_add_unique,
                                    .add_many = tamis__window_add_many,
                                    .add_unique_many = tamis__window_add_unique_many};
}

struct window *tamis__window_create(const struct tamis_filter *head, const struct window_plan *plan)
{
  const tamis_allocator *from = filter_allocator(head);
  struct sizes s = sizes_for(&plan->geometry, plan->stripes_wanted, plan->copies);
  struct window *w = tamis__memory_allocate(from, sizeof *w);
  void *beside = w ? tamis__memory_allocate(from, s.beside) : NULL;
  bool ready = beside && (!plan->spec.growable ||
                          tamis__backlog_init(&w->backlog, tamis__window_reclaim, w, &w->bytes));
  word *words = plan->words;
  if (!words && ready)
    words = tamis__window_allocate_words(from, window_bytes(&plan->geometry), plan->cleared_from);
  if (!ready || !words) {
    tamis__memory_release(from, beside, s.beside);
    tamis__memory_release(from, w, sizeof *w);
    return NULL;
  }
  filter_begin(&w->head, head, &w->more, w->secret);
  struct window_plane *planes = set_beside(w, &s, plan->copies, beside);
  w->spec = plan->spec;
  w->renews = plan->renews;
  w->stripes_wanted = plan->stripes_wanted;
  w->max_bytes = plan->max_bytes;
  w->cleared_from = plan->cleared_from;
  w->stamps = window_stamps(plan->spec.periods);
  fullness_begin(&w->rooms);
  (void) tamis__window_prepare_layer(w, &w->first, &plan->geometry, planes);
  w->first.words = words;
  w->first.index = plan->index;
  w->used_before = UINT64_MAX; /* nothing is known */
  w->operations = operations_for(w->first.calls, plan->copies);
  operations_begin(&w->head, &w->operations);
  atomic_store_explicit(&w->bytes, total_bytes(plan),
                        memory_order_relaxed); /* this and the next: the filter is not shared yet */
  atomic_store_explicit(&w->newest, &w->first, memory_order_relaxed);
  atomic_store_explicit(&w->epoch, epoch_first(w->stamps), memory_order_relaxed);
  return w;
}

static void destroy(tamis_filter *f)
{
  struct window *w = window_of(f);
  const tamis_allocator from = *filter_allocator(&w->head);
  tamis__window_destroy_layers(w);
  tamis__window_destroy_planes(w, &w->first);
  tamis__stripes_destroy(&w->stripes);
  stripe_destroy(&w->advancing);
  stripe_destroy(&w->opening);
  stripe_destroy(&w->saving);
  tamis__memory_release(&from, w->first.words, window_bytes(&w->first.geometry));
  tamis__memory_release(&from, w->stripes.all, beside_bytes(w));
  tamis__memory_release(&from, w, sizeof *w);
}

static int refuse_layout(const struct refusal *why, const tamis_options *options)
{
  return tamis__refuse(why, TAMIS_EUNSUPPORTED,
                       "layout is %d; with a window it must be %d (TAMIS_LAYOUT_BLOCKED) or %d "
                       "(TAMIS_LAYOUT_CLASSIC)",
                       (int) options->layout, TAMIS_LAYOUT_BLOCKED, TAMIS_LAYOUT_CLASSIC);
}

/* The lowest rate for as many keys, or, if hashes cannot give that any rate, for any number. */
static double lowest_rate(const tamis_options *options)
{
  double widest = window_geometry_lowest_rate(options->window, options->growable);
  double equal_hashes = hash_collision_rate(options->capacity);
  return equal_hashes < 1 ? fmax(widest, equal_hashes) : widest;
}

static int create(const tamis_options *options, const struct tamis_filter *head,
                  const struct refusal *why, tamis_filter **out)
{
  struct window_plan plan = plan_of(options);
  if (!layout_is_possible(options))
    return refuse_layout(why, options);
  int result = window_geometry_plan(&plan.spec, &plan.geometry);
  if (result == TAMIS_EINVAL)
    return tamis__refuse_capacity(why, options, bytes_for);
  if (result != TAMIS_OK)
    return tamis__refuse_rate(why, options, "a window", lowest_rate(options));
  result = tamis__check_max_bytes(why, options, total_bytes(&plan));
  if (result != TAMIS_OK || !out)
    return result;
  struct window *w = tamis__window_create(head, &plan);
  if (!w)
    return TAMIS_ENOMEM;
  *out = &w->head;
  return TAMIS_OK;
}

/* ---- figures ---- */

/* The lanes of a layer that are in use, and not dead, from a sample of its words: how many each of
 * several layers has is not counted. */
static uint64_t sample_lanes(const struct window_layer *layer, unsigned dead)
{
  enum { SAMPLE = 1 << 15 }; /* 2^21 bits, as of a Bloom filter */
  const struct window_shape *s = &layer->geometry.whole;
  uint64_t words = window_words(&layer->geometry), n = words < SAMPLE ? words : SAMPLE, lanes = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t at = (uint64_t) ((uint128) i * words / n);
    lanes += lanes_count(window_live(s, word_load(&layer->words[at]), dead));
  }
  return words > SAMPLE ? (uint64_t) ((uint128) lanes * words / SAMPLE) : lanes;
}

/* Of a look-up in all layers, with `used` lanes in use in all of them. */
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
  tamis__backlog_drain(&window_of((tamis_filter *) f)->backlog);
  uint64_t epoch = epoch_before(&w->epoch), period = epoch_period(epoch), lanes = 0;
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
  out->parts = w->spec.periods + 1;
  out->oldest_part_age = period < w->spec.periods ? period : w->spec.periods;
  out->occupancy = (double) used / (double) lanes;
  out->evictions = tamis__counter_sum(&w->counters, WINDOW_EVICTIONS);
  out->failed_searches = tamis__counter_sum(&w->counters, WINDOW_FAILED_SEARCHES);
  out->refused_adds = tamis__counter_sum(&w->counters, WINDOW_REFUSED);
  out->lookup_retries = tamis__counter_sum(&w->counters, WINDOW_LOOKUP_RETRIES);
}

/* ---- validation ---- */

/* Of the lanes of a bucket and of the other bucket of each entry, only one has its fingerprint. */
static const char *find_fault_in_bucket(const struct window *w, const struct window_layer *layer,
                                        uint64_t bucket, uint64_t *used)
{
  const struct window_geometry *g = &layer->geometry;
  const struct window_shape *s = &g->shape;
  uint64_t value = window_load(layer, bucket);
  unsigned dead = epoch_dead(epoch_before(&w->epoch));
  for (unsigned lane = 0; lane < s->lane.lanes; lane++) {
    uint64_t entry = lane_get(&s->lane, value, lane), fingerprint = window_fingerprint_of(s, entry);
    unsigned stamp = window_stamp_of(s, entry);
    if (!entry)
      continue;
    ++*used;
    if (!fingerprint)
      return "an entry has no fingerprint";
    if (!stamp || stamp > w->stamps || stamp == dead)
      return "a stamp is none of a period that is remembered";
    uint64_t other = window_load(layer, window_other_bucket(g, bucket, entry));
    if (lanes_count(window_match(s, value, fingerprint)) != 1 ||
        window_match(s, other, fingerprint))
      return "two lanes of a pair have one fingerprint";
  }
  return NULL;
}

static const char *find_fault_in_layer(const struct window *w, const struct window_layer *layer,
                                       uint64_t *used)
{
  const struct window_geometry *g = &layer->geometry;
  uint64_t lanes = lanes_bits(&g->whole.lane, g->whole.lane.high);
  for (uint64_t i = 0; i < window_words(g); i++)
    if (word_load(&layer->words[i]) & ~lanes)
      return "there are bits beside the lanes";
  for (uint64_t bucket = 0; bucket < g->segments * window_segment_buckets(g); bucket++) {
    const char *fault = find_fault_in_bucket(w, layer, bucket, used);
    if (fault)
      return fault;
  }
  return NULL;
}

/* Only lanes in use have counts. */
static const char *find_fault_in_counts(const struct window_layer *layer, uint64_t *further)
{
  const struct window_geometry *g = &layer->geometry;
  for (unsigned i = 0; layer->planes && i < WINDOW_PLANES; i++) {
    const struct table_counts *counts = plane_counts(&layer->planes[i].counts);
    if (counts && (!counts->live || !tamis__counts_validate(counts)))
      return "counts of copies are not whole";
    for (uint64_t j = 0; counts && j < counts->buckets; j++) {
      uint64_t value = word_load(&layer->words[((uint64_t) i << layer->plane_shift) + j]);
      for (unsigned lane = 0; lane < g->whole.lane.lanes; lane++) {
        uint64_t count = tamis__counts_get(counts, j, lane);
        if (count && !lane_get(&g->whole.lane, value, lane))
          return "a count of copies has no entry";
        *further += count;
      }
    }
  }
  return NULL;
}

/* Each layer has an index of its own, and the first one has left without entries, if it has. */
static const char *find_fault_in_list(const struct window *w, uint64_t epoch)
{
  const struct window_layer *newest = window_layer_at(&w->newest);
  uint64_t indices = 0, used = 0, further = 0;
  bool first = false;
  for (const struct window_layer *layer = newest; layer; layer = window_layer_at(&layer->older)) {
    if (indices >> layer->index & 1)
      return "two layers have one index";
    indices |= UINT64_C(1) << layer->index;
    first |= layer == &w->first;
  }
  bool alone = newest == &w->first && !window_layer_at(&w->first.older);
  if (((w->changes ^ epoch_changes(epoch)) & EPOCH_CHANGES) != 0 ||
      epoch_has_grown(epoch) == alone || window_newest(w, epoch) != newest)
    return "the epoch word names other layers than there are";
  const char *fault = first ? NULL : find_fault_in_layer(w, &w->first, &used);
  if (!first && !fault)
    fault = find_fault_in_counts(&w->first, &further);
  return !fault && used ? "a layer has left with entries" : fault;
}

static const char *find_fault(const struct window *w)
{
  uint64_t epoch = epoch_before(&w->epoch), used = 0, further = 0;
  const char *fault = find_fault_in_list(w, epoch);
  if (fault)
    return fault;
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    if (stripe_held(&w->stripes.all[i].stripe))
      return "a stripe is still locked";
  for (const struct window_layer *layer = window_newest(w, epoch); layer && !fault;
       layer = window_next(layer, epoch)) {
    fault = find_fault_in_layer(w, layer, &used);
    fault = fault ? fault : find_fault_in_counts(layer, &further);
  }
  if (fault)
    return fault;
  if (further != window_all_further(w))
    return "the copies are not those that are counted";
  return used != window_lanes_in_use(w) ? "the lanes in use are not those that are counted" : NULL;
}

static bool validate(const tamis_filter *f, const char **reason)
{
  *reason = find_fault(const_window_of(f));
  return !*reason;
}

#define WINDOW_KIND(KIND_)                                                                         \
  {                                                                                                \
    .kind = (KIND_), .name = #KIND_, .bytes_for = bytes_for, .fpp_for = fpp_for, .create = create, \
    .destroy = destroy, .stats = stats, .validate = validate, .advance = tamis__window_advance,    \
    .features = SAVED_WINDOW, .describe = tamis__window_describe,                                  \
    .figures = tamis__window_figures, .bytes_beside = tamis__window_saved_beside,                  \
    .save = tamis__window_save, .load = tamis__window_load, .merge = tamis__window_merge           \
  }

const struct filter_kind tamis__window_bloom_kind = WINDOW_KIND(TAMIS_BLOOM);
const struct filter_kind tamis__window_cuckoo_kind = WINDOW_KIND(TAMIS_CUCKOO);
