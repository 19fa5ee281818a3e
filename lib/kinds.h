/* SPDX-License-Identifier: MIT
 *
 * Layer 3: what the files of the API share.
 */
#ifndef TAMIS_LIB_KINDS_H
#define TAMIS_LIB_KINDS_H

#include "base/filter.h"

#include <stddef.h>

enum {
  /* No version's structs of options or figures are larger than this. */
  ABSURD_SIZE = 4096,
  /* As FIRST_OPTIONS_SIZE in tamis.c. */
  FIRST_STATS_SIZE = offsetof(tamis_stats, united_count) + sizeof(uint64_t)
};

/* The filters of a kind, with a sliding window or without.  NULL: there is no such kind, or it has
 * no windows. */
const struct filter_kind *tamis__find_kind(tamis_kind kind, bool window);

/* Fills all of *out. */
void tamis__fill_stats(const tamis_filter *f, tamis_stats *out);

/* Copies figures to a struct of the caller's, as far as both know them. */
void tamis__give_stats(tamis_stats *filled, tamis_stats *out);

/* Whether a pointer to an allocator can be used. */
static inline bool good_allocator(const tamis_allocator *a)
{
  return !a || (a->allocate && a->release);
}

/* The hash of a certain key, by which hash functions are told apart. */
static inline uint64_t filter_probe(const tamis_filter *f)
{
  static const char key[] = "tamis probe";
  return filter_hash(f, key, sizeof key - 1);
}

#endif
