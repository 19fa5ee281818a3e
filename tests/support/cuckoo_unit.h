/* SPDX-License-Identifier: MIT
 *
 * What the unit tests of the cuckoo filter share: filters with a fixed seed, and an allocator that
 * keeps a balance.
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
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = capacity;
  options.fpp = fpp;
  options.seed = 42;
  return options;
}

static inline tamis_filter *make_with(const tamis_options *options)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(options, &f), TAMIS_OK);
  assert_non_null(f);
  return f;
}

static inline tamis_filter *make(uint64_t capacity, double fpp)
{
  tamis_options options = options_for(capacity, fpp);
  return make_with(&options);
}

static inline void add_range(tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
}

static inline void remove_range(tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
}

static inline void assert_all_in(const tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    if (!tamis_contains_hash(f, i))
      fail_msg("key %lu is missing", i);
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

/* ---- an allocator that keeps a balance ---- */

/* It knows the size of each block, and gives dirty memory.  (For failures of all kinds see
 * test_faults.c.) */
struct bank {
  size_t bytes, blocks, most_bytes;
  unsigned calls, fail_at; /* fail_at: the call that is refused; 0: none */
  size_t refused_from;     /* blocks of this size and more are refused; 0: none */
  /* Called once, before a block is given: does what another thread might do meanwhile. */
  void (*meanwhile)(void *context);
  void *context;
};

enum { BANK_HEAD = 64 };

static inline void *bank_allocate(void *context, size_t alignment, size_t size)
{
  struct bank *bank = context;
  if (++bank->calls == bank->fail_at || (bank->refused_from && size >= bank->refused_from))
    return NULL;
  void (*meanwhile)(void *) = bank->meanwhile;
  bank->meanwhile = NULL;
  if (meanwhile)
    meanwhile(bank->context);
  char *block =
      aligned_alloc(alignment, BANK_HEAD + (size + alignment - 1) / alignment * alignment);
  assert_non_null(block);
  memset(block, 0xa5, BANK_HEAD + size);
  *(size_t *) block = size;
  bank->bytes += size;
  bank->blocks++;
  if (bank->bytes > bank->most_bytes)
    bank->most_bytes = bank->bytes;
  return block + BANK_HEAD;
}

static inline void bank_release(void *context, void *block, size_t alignment, size_t size)
{
  struct bank *bank = context;
  assert_int_equal(alignment, 64);
  assert_int_equal(*(size_t *) ((char *) block - BANK_HEAD), size);
  assert_true(bank->bytes >= size && bank->blocks > 0);
  bank->bytes -= size;
  bank->blocks--;
  free((char *) block - BANK_HEAD);
  errno = EBADMSG; /* as free() may do */
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
  double end = harness_seconds() + PATIENCE_SECONDS;
  uint64_t few = 20000, base = UINT64_C(1) << 60;
  while (stats_of(f).bytes > limit && harness_seconds() < end) {
    add_range(f, base, base + few);
    remove_range(f, base, base + few);
    usleep(1000);
  }
  if (stats_of(f).bytes > limit)
    fail_msg("%lu bytes, not %lu", stats_of(f).bytes, limit);
}

/* ---- a filter with a bank, and its first segment ---- */

struct fixture {
  struct bank bank;
  tamis_allocator allocator;
  tamis_filter *filter;
  struct cuckoo *c;
  struct segment *segment;
};

static inline void begin(struct fixture *x, uint64_t more_bytes)
{
  *x = (struct fixture){.allocator = {bank_allocate, bank_release, &x->bank}};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 1000;
  options.seed = 42;
  options.allocator = &x->allocator;
  uint64_t bytes;
  assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
  options.max_bytes = bytes + more_bytes;
  assert_int_equal(tamis_create(&options, &x->filter), TAMIS_OK);
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
