/* SPDX-License-Identifier: MIT
 *
 * Filters with a window, for the tests of windows.
 */
#ifndef TAMIS_TESTS_WINDOW_UNIT_H
#define TAMIS_TESTS_WINDOW_UNIT_H

#include "unit.h"

#include "tamis/tamis.h"
#include "window/layers.h"

/* A rate that every window has, and at which no key of a small test is found by chance. */
static const double low_rate = 3e-6;

static inline tamis_options window_options(tamis_kind kind, unsigned window, uint64_t capacity,
                                           double fpp, bool growable)
{
  tamis_options options = seeded_options(kind, capacity, fpp, growable);
  options.window = window;
  return options;
}

static inline void add(tamis_filter *f, uint64_t key, unsigned copies)
{
  for (unsigned i = 0; i < copies; i++)
    assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
}

/* ---- keys that come one after the other ---- */

static __attribute__((unused)) uint64_t next_key;

static inline void add_keys(tamis_filter *f, uint64_t n)
{
  for (; n; n--)
    assert_true(tamis_add_hash(f, next_key++ * HASH_MULTIPLIER) >= 0);
}

static inline int last_keys_are_in(const tamis_filter *f, uint64_t n)
{
  for (; n; n--)
    if (!tamis_contains_hash(f, (next_key - n) * HASH_MULTIPLIER))
      return 0;
  return 1;
}

/* What has left is released after a grace period, which nobody can hurry. */
static inline void await_release(tamis_filter *f, uint64_t n)
{
  (void) n;
  while (atomic_load(&window_of(f)->backlog.held)) {
    sched_yield();
    (void) stats_of(f);
  }
}

#endif
