/* SPDX-License-Identifier: MIT
 *
 * What the unit tests of the cuckoo filter share: filters with a fixed seed.
 */
#ifndef TAMIS_TESTS_CUCKOO_UNIT_H
#define TAMIS_TESTS_CUCKOO_UNIT_H

#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "cuckoo/generation.h"
#include "filter_unit.h"
#include "harness.h"

#include <math.h>

static inline tamis_options options_for(uint64_t capacity, double fpp)
{
  return seeded_options(TAMIS_CUCKOO, capacity, fpp, true);
}

static inline tamis_filter *make(uint64_t capacity, double fpp)
{
  tamis_options options = options_for(capacity, fpp);
  return make_with_options(&options);
}

/* What a growing filter for these keys is planned as. */
static inline struct cuckoo_geometry planned_geometry(uint64_t capacity, double fpp)
{
  const tamis_options spec = {.capacity = capacity, .fpp = fpp, .growable = true};
  struct cuckoo_geometry g;
  assert_int_equal(cuckoo_geometry_plan(&spec, &g), TAMIS_OK);
  return g;
}

static inline tamis_filter *make_with_geometry(const tamis_options *options,
                                               const struct cuckoo_geometry *g)
{
  const struct tamis_filter head = {.keys = hash_keys_from_seed(options->seed)};
  tamis_filter *f = NULL;
  assert_int_equal(tamis__cuckoo_create_with(options, &head, g, &f), TAMIS_OK);
  return f;
}

static inline void assert_same_contents(const tamis_stats *a, const tamis_stats *b)
{
  assert_int_equal(a->count, b->count);
  assert_int_equal(a->growths, b->growths);
  assert_int_equal(a->segments, b->segments);
  assert_int_equal(a->generations, b->generations);
  assert_true(a->occupancy == b->occupancy);
}

/* Asserts the rate for keys that were never added.  Different values of `from` give different
 * keys. */
static inline void assert_rate(const tamis_filter *f, double fpp, uint64_t from)
{
  uint64_t probes = (fpp < 1e-4 ? UINT64_C(1000000) : UINT64_C(200000)) / SCALE, hits = 0;
  for (uint64_t i = 0; i < probes; i++)
    hits += tamis_contains_hash(f, (UINT64_C(1) << 40) + from * probes + i);
  double expected = fpp * (double) probes;
  if ((double) hits > expected + 4 * sqrt(expected) + 1)
    fail_msg("%lu false positives of %lu, fpp %g", hits, probes, fpp);
}

/* 0 .. n-1 in random order; the caller frees it. */
static inline uint64_t *shuffled(uint64_t n, uint64_t seed)
{
  uint64_t *order = malloc(n * sizeof *order);
  assert_non_null(order);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t j = random_next(&seed) % (i + 1);
    order[i] = order[j];
    order[j] = i;
  }
  return order;
}

/* The filter counts the bytes that the bank has given. */
static inline void assert_bytes(const tamis_filter *f, const struct bank *bank)
{
  tamis_stats stats = stats_of(f); /* this call comes first: it may drain the backlog */
  assert_int_equal(stats.bytes, bank->bytes);
}

/* Later calls that retire something release what was retired before: makes such calls until the
 * filter takes no more than `limit` bytes, or for some seconds. */
static inline void settle(tamis_filter *f, uint64_t limit)
{
  const uint64_t few = 20000, base = UINT64_C(1) << 60;
  AWAIT(stats_of(f).bytes <= limit, add_range(f, base, base + few),
        remove_range(f, base, base + few));
  if (stats_of(f).bytes > limit)
    fail_msg("%lu bytes, not %lu", stats_of(f).bytes, limit);
}

/* ---- a filter with a bank, and its first segment ---- */

struct fixture {
  struct bank bank;
  tamis_filter *filter;
  struct cuckoo *c;
  struct segment *segment;
};

static inline void begin(struct fixture *x, uint64_t more_bytes)
{
  *x = (struct fixture){.bank = {.bytes = 0}};
  tamis_options options = options_for(1000, 0.01);
  options.allocator = allocator_of(&x->bank);
  options.max_bytes = planned_bytes(&options) + more_bytes;
  x->filter = make_with_options(&options);
  x->c = cuckoo_of(x->filter);
  x->c->max_bytes += sizeof(struct cuckoo_growth);
  assert_int_equal(tamis__growth_provide(x->c), TAMIS_OK);
  x->segment = directory_segment(directory_at(cuckoo_generation(x->c, 0), 0));
}

static inline void end(struct fixture *x)
{
  assert_int_equal(x->c->bytes, x->bank.bytes);
  tamis_destroy(x->filter);
  assert_int_equal(x->bank.bytes, 0);
}

#endif
