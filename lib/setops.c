/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the public functions on several filters.
 */
#include "kinds.h"

#include <stddef.h>
#include <string.h>

/* Bytes of tamis_similarity_stats in its first version (see FIRST_OPTIONS_SIZE in tamis.c). */
enum { FIRST_SIMILARITY_SIZE = offsetof(tamis_similarity_stats, jaccard) + sizeof(double) };

void tamis_similarity_stats_init(tamis_similarity_stats *stats)
{
  begin_struct(stats, &(const tamis_similarity_stats) TAMIS_SIMILARITY_STATS_INIT,
               FIRST_SIMILARITY_SIZE);
}

/* Returns true if kind, seed and hash of a and b are equal.  The kind checks all other options. */
static bool are_related(const tamis_filter *a, const tamis_filter *b)
{
  return operations_of(a)->kind == operations_of(b)->kind && a->keys.seed == b->keys.seed &&
         filter_probe(a) == filter_probe(b);
}

int tamis_merge(tamis_filter *into, const tamis_filter *from)
{
  if (!into || !from || into == from || !are_related(into, from))
    return TAMIS_EINVAL;
  const struct filter_operations *operations = operations_of(into);
  const struct filter_kind *kind = operations->kind;
  return kind->merge && !operations->read_only ? kind->merge(into, from) : TAMIS_EUNSUPPORTED;
}

int tamis_intersect(const tamis_filter *a, const tamis_filter *b, tamis_filter **out)
{
  if (!out)
    return TAMIS_EINVAL;
  *out = NULL;
  if (!a || !b || !are_related(a, b))
    return TAMIS_EINVAL;
  const struct filter_kind *kind = operations_of(a)->kind;
  return kind->intersect ? kind->intersect(a, b, out) : TAMIS_EUNSUPPORTED;
}

int tamis_includes(const tamis_filter *f, const tamis_filter *other)
{
  if (!f || !other || !are_related(f, other))
    return TAMIS_EINVAL;
  const struct filter_kind *kind = operations_of(f)->kind;
  return kind->includes ? kind->includes(f, other) : TAMIS_EUNSUPPORTED;
}

int tamis_similarity(const tamis_filter *a, const tamis_filter *b, tamis_similarity_stats *out)
{
  if (!a || !b || !out || out->struct_size < FIRST_SIMILARITY_SIZE || !are_related(a, b))
    return TAMIS_EINVAL;
  const struct filter_kind *kind = operations_of(a)->kind;
  if (!kind->similarity)
    return TAMIS_EUNSUPPORTED;
  tamis_similarity_stats filled = TAMIS_SIMILARITY_STATS_INIT;
  int result = kind->similarity(a, b, &filled);
  if (result == TAMIS_OK)
    give_struct(out, &filled);
  return result;
}
