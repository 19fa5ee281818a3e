/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the public functions for several filters.  Each checks what means the same to all kinds,
 * and calls the filters' kind.
 */
#include "base/filter.h"

#include <stddef.h>
#include <string.h>

enum {
  /* The size of the struct in the first version with this soname. */
  FIRST_SIMILARITY_SIZE = offsetof(tamis_similarity_stats, jaccard) + sizeof(double)
};

void tamis_similarity_stats_init(tamis_similarity_stats *stats)
{
  const tamis_similarity_stats initial = TAMIS_SIMILARITY_STATS_INIT;
  if (!stats)
    return;
  memcpy(stats, &initial, FIRST_SIMILARITY_SIZE);
  stats->struct_size = FIRST_SIMILARITY_SIZE;
}

static const struct filter_kind *kind_of(const tamis_filter *f)
{
  return f->operations->kind;
}

/* Whether a key has the same hash string in both. */
static bool agree(const tamis_filter *a, const tamis_filter *b)
{
  return kind_of(a) == kind_of(b) && a->keys.seed == b->keys.seed &&
         a->hash == b->hash && a->hash_context == b->hash_context;
}

int tamis_merge(tamis_filter *into, const tamis_filter *from)
{
  if (!into || !from || into == from || !agree(into, from))
    return TAMIS_EINVAL;
  if (into->operations->read_only || !kind_of(into)->merge)
    return TAMIS_EUNSUPPORTED;
  return kind_of(into)->merge(into, from);
}

int tamis_intersect(const tamis_filter *a, const tamis_filter *b, tamis_filter **out)
{
  if (!out)
    return TAMIS_EINVAL;
  *out = NULL;
  if (!a || !b || !agree(a, b))
    return TAMIS_EINVAL;
  return kind_of(a)->intersect ? kind_of(a)->intersect(a, b, out) : TAMIS_EUNSUPPORTED;
}

int tamis_similarity(const tamis_filter *a, const tamis_filter *b, tamis_similarity_stats *out)
{
  if (!a || !b || !out || out->struct_size < FIRST_SIMILARITY_SIZE || !agree(a, b))
    return TAMIS_EINVAL;
  if (!kind_of(a)->similarity)
    return TAMIS_EUNSUPPORTED;
  tamis_similarity_stats filled = TAMIS_SIMILARITY_STATS_INIT;
  int result = kind_of(a)->similarity(a, b, &filled);
  if (result != TAMIS_OK)
    return result;
  /* A program that was built with another header knows fewer fields, or more. */
  if (filled.struct_size > out->struct_size)
    filled.struct_size = out->struct_size;
  memcpy(out, &filled, filled.struct_size);
  return TAMIS_OK;
}
