/* SPDX-License-Identifier: MIT */
#include "validate.h"

#include "bloom/capacity.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "cuckoo/segment.h"
#include "table/count_codes.h"
#include "window/counted.h"
#include "window/create.h"
#include "window/save.h"

/* ---- counts of copies ---- */

bool counts_are_whole(const struct table_counts *d)
{
  size_t positions = counts_positions(d), live = 0;
  for (unsigned block = 0; block < counts_blocks(d->buckets); block++) {
    const struct count_block *b = d->block[block];
    if (!b)
      continue;
    const void *slots = slots_of(b, positions);
    size_t codes = 0;
    for (size_t i = 0; i < positions; i++)
      codes += code_get(b, i) != 0;
    for (size_t j = 0; j < b->exceptions; j++) {
      size_t i = slot_position(b, slots, j);
      if (i >= positions || (j > 0 && i <= slot_position(b, slots, j - 1)) || code_get(b, i) ||
          !slot_count(b, slots, j) || code_for(b, slot_count(b, slots, j)))
        return false;
    }
    if (!b->live || b->live != codes + b->exceptions || b->exceptions > slots_in(b, positions))
      return false;
    live += b->live;
  }
  return live == d->live;
}

/* ---- cuckoo filters ---- */

/* Checks that only lanes with an entry have a count. */
static const char *find_fault_in_duplicates(const struct cuckoo_geometry *g,
                                            const struct segment *segment, uint64_t *duplicates)
{
  const struct table_counts *d = plane_counts(&segment->duplicates);
  if (!d)
    return NULL;
  if (d->buckets != cuckoo_buckets(g) || d->lanes != g->shape.lanes || !d->live ||
      !counts_are_whole(d))
    return "duplicate counts are not whole";
  for (uint32_t i = 0; i < cuckoo_buckets(g); i++)
    for (unsigned lane = 0; lane < g->shape.lanes; lane++) {
      uint64_t count = tamis__counts_get(d, i, lane);
      if (count && !lane_get(&g->shape, word_load(&segment_words(g, segment)[i]), lane))
        return "copies are counted of a lane without an entry";
      *duplicates += count;
    }
  return NULL;
}

static const char *find_fault_in_stripes(const struct cuckoo_geometry *g,
                                         const struct segment *segment, uint64_t *entries)
{
  uint32_t used[CUCKOO_FIXED_STRIPES];
  const uint64_t *words = (const uint64_t *) (const void *) segment_words(g, segment);
  if (!tamis__check_words(g, words, cuckoo_most_age(g, segment->depth), used))
    return "an entry is older than its segment is deep";
  for (uint32_t i = 0; i <= g->stripe_mask; i++) {
    struct stripe *stripe = &segment_stripes(segment)[i];
    if (stripe_held(stripe))
      return "a stripe is still locked";
    if (version_has_left(version_after(&stripe->version)))
      return "a segment is in the directory that has left";
    if (g->shape.ages && stripe_used(stripe) != used[i])
      return "stripes count other entries than there are";
    *entries += used[i];
  }
  return NULL;
}

/* Checks that the segment has the right indices, and that all of them lead to the segment. */
static const char *find_fault_in_directory(const struct generation *generation,
                                           const struct segment *segment,
                                           const struct segment_cursor *cursor)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  directory_value value = directory_at(generation, cursor->first);
  for (uint64_t i = 0; i < cursor->count; i++)
    if (directory_at(generation, cursor->first + i) != value)
      return "directory entries of one segment differ";
  uint64_t root = cuckoo_root_of_index(g, cursor->first);
  return segment->depth == directory_depth(value) &&
                 cuckoo_index(g, root, segment->prefix, segment->class) == cursor->first
             ? NULL
             : "a segment has the wrong directory entry";
}

/* Checks a generation, but not the counts of a `mapped` filter, which are only in the file. */
static const char *find_fault_in_generation(const struct generation *generation, bool mapped)
{
  uint64_t entries = 0, duplicates = 0, segments = 0, after = 0;
  struct segment_cursor cursor = {0};
  const struct segment *segment;
  while ((segment = segment_next(generation, &cursor))) {
    segments++;
    const struct cuckoo_geometry *g = segment_geometry(generation, segment);
    after += !g->later && segment->depth > g->uneven_at;
    const char *reason = find_fault_in_directory(generation, segment, &cursor);
    reason = reason ? reason : find_fault_in_stripes(g, segment, &entries);
    reason = reason ? reason : find_fault_in_duplicates(g, segment, &duplicates);
    if (reason)
      return reason;
  }
  const struct counters counters = generation_counters(generation);
  return entries != tamis__counter_sum(&counters, ENTRIES)
             ? "counted entries are not those in buckets"
         : duplicates != tamis__counter_sum(&counters, DUPLICATES) && !mapped
             ? "counted duplicates are not those that segments count"
         : segments != atomic_load_explicit(&generation->segments, memory_order_relaxed)
             ? "counted segments are not those in the directory"
         : after != cuckoo_after_segments(generation)
             ? "counted segments of the uneven split are not those in the directory"
             : NULL;
}

static bool validate_cuckoo(const tamis_filter *f, const char **reason)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  *reason = NULL;
  for (unsigned i = 0; i < cuckoo_generations(c) && !*reason; i++)
    *reason = find_fault_in_generation(cuckoo_generation(c, i), cuckoo_mapped(c));
  return !*reason;
}

/* ---- windows ---- */

static const char *find_fault_in_window_layer(const struct window *w,
                                              const struct window_layer *layer, uint64_t *used)
{
  const struct window_geometry *g = &layer->geometry;
  const unsigned dead = epoch_dead(epoch_read(&w->state->epoch));
  for (uint64_t i = 0; i < window_words(g); i++) {
    const uint64_t value = word_load(&layer->words[i]);
    if (value & ~whole_lanes(&g->whole, value, w->stamps, dead))
      return "a lane is not empty, and has no entry with a live stamp";
    if (!lanes_are_alone(g, layer->words, i))
      return "two lanes of a pair have one fingerprint";
    *used += lanes_count(window_used(&g->whole, value));
  }
  return NULL;
}

/* Only lanes in use may have counts. */
static const char *find_fault_in_counts(const struct window_layer *layer, uint64_t *further)
{
  const struct window_geometry *g = &layer->geometry;
  for (unsigned i = 0; layer->planes && i < WINDOW_PLANES; i++) {
    const struct table_counts *counts = plane_counts(&layer->planes[i].counts);
    if (counts && (!counts->live || !counts_are_whole(counts)))
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

/* Two layers must not have the same index.  A first layer that has left the list must be empty. */
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
  const char *fault = first ? NULL : find_fault_in_window_layer(w, &w->first, &used);
  if (!first && !fault)
    fault = find_fault_in_counts(&w->first, &further);
  return !fault && used ? "a layer has left with entries" : fault;
}

static const char *find_fault_in_window(const struct window *w)
{
  uint64_t epoch = epoch_read(&w->state->epoch), used = 0, further = 0;
  const char *fault = find_fault_in_list(w, epoch);
  if (fault)
    return fault;
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    if (owned_held(&w->stripes.all[i].lock))
      return "a stripe is still locked";
  for (const struct window_layer *layer = window_newest(w, epoch); layer && !fault;
       layer = window_next(layer, epoch)) {
    fault = find_fault_in_window_layer(w, layer, &used);
    fault = fault ? fault : find_fault_in_counts(layer, &further);
    for (uint64_t i = 0; window_is_counted(w) && i < window_words(&layer->geometry); i++)
      further += counted_further(&layer->geometry.whole, word_load(&layer->words[i]));
  }
  if (fault)
    return fault;
  if (further != window_all_further(w))
    return "the copies are not those that are counted";
  return used != window_lanes_in_use(w) ? "the lanes in use are not those that are counted" : NULL;
}

static bool validate_window(const tamis_filter *f, const char **reason)
{
  *reason = find_fault_in_window(const_window_of(f));
  return !*reason;
}

/* ---- Bloom filters ---- */

/* Checks that the counted keys agree with the set bits. */
static const char *find_fault_of_bits(const struct bloom *b)
{
  const struct bloom_geometry g = bloom_geometry_of(b);
  uint64_t marks, bits = tamis__bloom_count_bits(&g, (const uint64_t *) b->words, &marks);
  uint64_t keys = bloom_counted(b, KEYS);
  return keys > bits            ? "more keys than set bits"
         : marks && !is_full(b) ? "a word is marked, and the filter is not full"
                                : NULL;
}

static const char *find_fault_in_bloom_layer(const struct bloom *b)
{
  for (unsigned i = 0; i < bloom_stripe_count(b); i++)
    if (stripe_held(bloom_stripe(b, i)))
      return "a stripe is still locked";
  if (!bloom_counts(b))
    return find_fault_of_bits(b);
  const struct bloom_geometry g = bloom_geometry_of(b);
  return tamis__bloom_counters_agree(&g, (const uint64_t *) b->words, bloom_sums_of(b))
             ? NULL
             : "counted copies are not the counters";
}

static bool validate_bloom(const tamis_filter *f, const char **reason)
{
  const struct bloom *first = const_bloom_of(f), *newest = newest_layer(first);
  *reason = NULL;
  unsigned number = newest->number;
  for (const struct bloom *layer = newest; layer && !*reason; layer = bloom_older(layer)) {
    *reason = layer->number != number-- || (number == 0) != (layer == first)
                  ? "the layers are not in their order"
              : layer != newest && !bloom_mapping(layer).at && !layer->live && !is_full(layer)
                  ? "a layer is not closed, and another one follows"
                  : find_fault_in_bloom_layer(layer);
  }
  if (!*reason && newest != first && !bloom_mapping(first).at && !first->live &&
      operations_of(f) != &tamis__bloom_layered)
    *reason = "there are layers that the operations do not know";
  return !*reason;
}

/* ---- all kinds ---- */

bool filter_validate(const tamis_filter *f, const char **reason)
{
  const struct filter_kind *kind = operations_of(f)->kind;
  return kind == &tamis__cuckoo_kind ? validate_cuckoo(f, reason)
         : kind == &tamis__bloom_kind || kind == &tamis__counting_bloom_kind
             ? validate_bloom(f, reason)
             : validate_window(f, reason);
}
