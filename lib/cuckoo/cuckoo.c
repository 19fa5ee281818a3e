/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the struct filter_kind of cuckoo filters: sizes, creation and statistics.
 */
#include "cuckoo/cuckoo.h"

#include "base/memo.h"
#include "base/reals.h"
#include "cuckoo/generation.h"
#include "cuckoo/growth.h"
#include "cuckoo/operations.h"
#include "cuckoo/save.h"

#include <math.h>
#include <string.h>

#define tamis__cuckoo_contains_each_any NULL
#define OPERATIONS(sort)                                                    \
  {                                                                         \
    .kind = &tamis__cuckoo_kind, .contains = tamis__cuckoo_contains_##sort, \
    .contains_many = NOT_COMPACT(tamis__cuckoo_contains_many_##sort),       \
    .prefetch = NOT_COMPACT(tamis__cuckoo_prefetch),                        \
    .contains_each = NOT_COMPACT(tamis__cuckoo_contains_each_##sort),       \
    .add = NOT_IN_READER(tamis__cuckoo_add_##sort),                         \
    .add_unique = NOT_IN_READER(tamis__cuckoo_add_unique_##sort),           \
    .add_many = NOT_COMPACT(tamis__cuckoo_add_many_##sort),                 \
    .add_unique_many = NOT_COMPACT(tamis__cuckoo_add_unique_many_##sort),   \
    .remove = NOT_IN_READER(tamis__cuckoo_remove_##sort),                   \
    .count = NOT_IN_READER(tamis__cuckoo_count),                            \
    .count_many = NOT_COMPACT(tamis__cuckoo_count_many),                    \
  }
const struct filter_operations tamis__cuckoo_growable = OPERATIONS(growable);
const struct filter_operations tamis__cuckoo_fixed = OPERATIONS(fixed);
const struct filter_operations tamis__cuckoo_any = OPERATIONS(any);

/* ---- sizes ---- */

static uint64_t more_bytes(const tamis_options *o)
{
  return tamis__cuckoo_more_bytes(o->allocator, o->hash);
}

/* Plans a filter, or takes the plan from a cache: a plan takes far longer than the rest of a small
 * filter's creation, and programs create thousands of filters with the same options. */
static int plan(const tamis_options *o, struct cuckoo_geometry *out)
{
  static struct memo memo;
  uint64_t question[MEMO_QUESTION] = {o->capacity, 0, o->growable, o->stripes};
  memcpy(&question[1], &o->fpp, sizeof question[1]);
  if (tamis__memo_recall(&memo, question, out, sizeof *out))
    return TAMIS_OK;
  int result = cuckoo_geometry_plan(o, out);
  if (result == TAMIS_OK) {
    tamis__memo_keep(&memo, question, out, sizeof *out);
    /* Only to make the first call of cuckoo_shards() now: that call reads system files about the
     * cores, and would later be the longest step of a small filter's growth. */
    (void) cuckoo_shards(out);
  }
  return result;
}
_Static_assert(sizeof(struct cuckoo_geometry) <= MEMO_ANSWER, "a memo holds a plan");

static int bytes_for(const tamis_options *options, uint64_t *bytes)
{
  struct cuckoo_geometry g;
  int result = plan(options, &g);
  if (result == TAMIS_OK)
    *bytes = tamis__cuckoo_total_bytes(&g, more_bytes(options));
  return result;
}

/* Finds the lowest rate for which a filter fits into `bytes`: tries the lowest rate of each lane
 * width, in ascending order.  (All rates are tried, because a filter with a higher rate may need
 * more bytes: it may split more often, and then has larger directories.) */
static int fpp_for(const tamis_options *options, uint64_t bytes, double *fpp)
{
  tamis_options trial = *options;
  int result = TAMIS_EFULL;
  double lowest = hash_collision_rate(options->capacity);
  double rate = 0;
  while ((rate = cuckoo_geometry_next_rate(rate, options->growable)) < 1) {
    uint64_t needed;
    /* Slightly above the lowest rate of this lane width, so that rounding does not exclude it. */
    trial.fpp = fmax(rate, lowest) * (1 + 1e-9);
    result = bytes_for(&trial, &needed);
    if (result == TAMIS_OK && needed <= bytes) {
      *fpp = trial.fpp;
      return TAMIS_OK;
    }
  }
  return result == TAMIS_OK ? TAMIS_EFULL : result;
}

int tamis__cuckoo_create_with(const tamis_options *options, const struct tamis_filter *head,
                              const struct cuckoo_geometry *g, tamis_filter **out)
{
  int result;
  struct cuckoo *c = tamis__cuckoo_begin(head, options, g, false, options->max_bytes, &result);
  if (!c)
    return result;
  result = tamis__generation_complete_first(c);
  if (result == TAMIS_OK)
    *out = &c->head;
  else
    tamis__cuckoo_destroy(&c->head);
  return result;
}

/* Returns the lowest rate for the capacity or, if 64-bit hashes allow none, for any capacity. */
static double lowest_rate(const tamis_options *o)
{
  double widest = cuckoo_geometry_next_rate(0, o->growable);
  double equal_hashes = hash_collision_rate(o->capacity);
  return equal_hashes < 1 ? fmax(widest, equal_hashes) : widest;
}

static int create(const tamis_options *options, const struct tamis_filter *head,
                  const struct refusal *why, tamis_filter **out)
{
  struct cuckoo_geometry g;
  int result = plan(options, &g);
  if (result == TAMIS_EINVAL)
    return tamis__refuse_capacity(why, options, bytes_for);
  if (result != TAMIS_OK)
    return tamis__refuse_rate(why, options,
                              options->growable ? "a cuckoo filter that grows"
                                                : "a cuckoo filter that does not grow",
                              lowest_rate(options));
  result = tamis__check_max_bytes(why, options, tamis__cuckoo_total_bytes(&g, more_bytes(options)));
  if (result != TAMIS_OK || !out)
    return result;
  return tamis__cuckoo_create_with(options, head, &g, out);
}

/* ---- figures ---- */

/* Returns the lanes in `segments` segments or, if `full`, the lanes in use when these are full. */
static double lanes_of(const struct generation *generation, uint64_t segments, bool full)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  const struct cuckoo_geometry after = cuckoo_geometry_after(g);
  double lanes = (double) cuckoo_lanes(g), of_after = (double) cuckoo_lanes(&after);
  uint64_t later = cuckoo_after_segments(generation);
  if (full && g->shape.ages) {
    lanes *= cuckoo_geometry_full_load(g);
    of_after *= cuckoo_geometry_full_load(&after);
  }
  later = later < segments ? later : segments; /* `segments` was read first, and may be less */
  return (double) (segments - later) * lanes + (double) later * of_after;
}

/* Estimates the present rate of a generation.  The planned rate assumes that all segments are full
 * and have split as often as they may.  The present rate is lower if there are fewer entries, if
 * they have lost fewer bits in splits, or if keys have no segment at their roots. */
static double rate_now(struct generation *generation, uint64_t entries, uint64_t segments)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  if (!segments || !entries)
    return 0;
  segments = segments > cuckoo_roots(g) ? segments : cuckoo_roots(g);
  double depth = fmin(real_log2((double) segments / (double) cuckoo_roots(g)), g->depth_limit);
  double low = cuckoo_geometry_rate(g, (unsigned) depth);
  double high = cuckoo_geometry_rate(g, (unsigned) ceil(depth));
  return (low + (depth - floor(depth)) * (high - low)) * (double) entries /
         lanes_of(generation, segments, true);
}

static void stats(const tamis_filter *f, tamis_stats *out)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  unsigned n = cuckoo_generations(c);
  if (cuckoo_has_growth(c)) {
    tamis__backlog_drain(&cuckoo_growth(c)->backlog, false);
    tamis__shrink_late((struct cuckoo *) c); /* the cast is valid: no filter is const */
  }
  out->capacity = c->capacity;
  out->fpp = c->fpp;
  out->bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
  out->growths = cuckoo_growth_figure(c, splits) + n - 1;
  out->joins = cuckoo_growth_figure(c, joins);
  out->generations = n;
  out->longest_growth_ns = cuckoo_count(cuckoo_generation(c, 0), LONGEST_GROWTH);
  out->evictions = cuckoo_count(cuckoo_generation(c, 0), EVICTIONS);
  out->failed_searches = cuckoo_count(cuckoo_generation(c, 0), FAILED_SEARCHES);
  out->refused_adds = cuckoo_count(cuckoo_generation(c, 0), REFUSED_ADDS);
  out->lookup_retries = cuckoo_count(cuckoo_generation(c, 0), LOOKUP_RETRIES);
  double lanes = 0;
  uint64_t entries_in_all = 0;
  for (unsigned i = 0; i < n; i++) {
    struct generation *generation = cuckoo_generation(c, i);
    uint64_t entries = cuckoo_count(generation, ENTRIES);
    uint64_t segments = atomic_load_explicit(&generation->segments, memory_order_relaxed);
    entries_in_all += entries;
    out->count += entries + cuckoo_count(generation, DUPLICATES);
    out->segments += segments;
    out->fpp_estimate += rate_now(generation, entries, segments);
    lanes += lanes_of(generation, segments, false);
    out->fingerprint_bits = generation->geometry.shape.width - generation->geometry.shape.ages;
  }
  out->fpp_estimate += cuckoo_growth_figure(c, excess);
  out->estimated_count = (double) out->count;
  out->load = out->estimated_count / (double) out->capacity;
  out->occupancy = lanes > 0 ? (double) entries_in_all / lanes : 0;
}

static struct saved_mapping mapping_of(const tamis_filter *f)
{
  return cuckoo_mapped(const_cuckoo_of(f))->file;
}

const struct filter_kind tamis__cuckoo_kind = {
    .kind = TAMIS_CUCKOO,
    .name = "TAMIS_CUCKOO",
    .bytes_for = NOT_IN_READER(bytes_for),
    .fpp_for = NOT_IN_READER(fpp_for),
    .create = NOT_IN_READER(create),
    .destroy = tamis__cuckoo_destroy,
    .stats = NOT_IN_READER(stats),
    .merge = NOT_IN_READER(tamis__cuckoo_merge),
    .describe = NOT_IN_READER(tamis__cuckoo_describe),
    .saves_estimates = true,
    .read_info = tamis__cuckoo_read_info,
    .mapping = mapping_of,
    .save = NOT_IN_READER(tamis__cuckoo_save),
    .load = tamis__cuckoo_load,
};
