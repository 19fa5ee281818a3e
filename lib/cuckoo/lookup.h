/* SPDX-License-Identifier: MIT
 *
 * Layer 2: contains, the look-ups of a cuckoo filter.  lookup.c explains why their answers are
 * right.
 *
 * These functions are members of the tables of operations, and take hashes that are not mixed.
 * There is one for each sort of filter:  `any` is the general one, `growable` and `fixed` are for
 * filters whose first generation needs one hash.
 */
#ifndef TAMIS_LIB_CUCKOO_LOOKUP_H
#define TAMIS_LIB_CUCKOO_LOOKUP_H

#include "cuckoo/directory.h"

bool tamis__cuckoo_contains_any(const tamis_filter *f, uint64_t hash);
bool tamis__cuckoo_contains_growable(const tamis_filter *f, uint64_t hash);
bool tamis__cuckoo_contains_fixed(const tamis_filter *f, uint64_t hash);

size_t tamis__cuckoo_contains_many_any(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                       bool *found);
size_t tamis__cuckoo_contains_many_growable(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                            bool *found);
size_t tamis__cuckoo_contains_many_fixed(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                         bool *found);

/* The same for hashes that are mixed, for unique adds. */
bool tamis__contains_mixed_any(const struct cuckoo *c, uint64_t hash);
bool tamis__contains_mixed_growable(const struct cuckoo *c, uint64_t hash);
bool tamis__contains_mixed_fixed(const struct cuckoo *c, uint64_t hash);

/* ---- geometries of which parts are constants ----
 *
 * The straight-line versions of look-up and insert copy the geometry and overwrite what they know,
 * which the compiler then folds. */

/* Of the first generation, unless it needs two hashes. */
FORCE_INLINE struct cuckoo_geometry first_geometry(const struct generation *first, bool growable)
{
  struct cuckoo_geometry g = first->geometry;
  g.shape.ages = growable;
  g.needs_second_hash = false;
  g.unequal_roots = false;
  g.root_shift = 0;
  if (!growable)
    g.depth_limit = 0;
  return g;
}

/* Of a later generation, unless it needs two hashes. */
FORCE_INLINE struct cuckoo_geometry later_geometry(const struct generation *generation)
{
  struct cuckoo_geometry g = generation->geometry;
  g.shape.ages = true;
  g.needs_second_hash = false;
  g.unequal_roots = true;
  return g;
}

#endif
