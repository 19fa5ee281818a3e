/* SPDX-License-Identifier: MIT */
#include "value.h"

#include "memory.h"

static struct value *create(tamis_kind kind)
{
  struct value *v = memory_take(sizeof *v);
  if (v)
    *v = (struct value){.kind = kind};
  return v;
}

struct value *value_of_filter(tamis_kind kind, tamis_filter *filter, const struct traits *traits,
                              uint64_t capacity, uint64_t count)
{
  struct value *v = create(kind);
  if (!v) {
    tamis_destroy(filter);
    return NULL;
  }
  v->filter = filter;
  v->traits = *traits;
  v->capacity = capacity;
  v->count = count;
  return v;
}

struct value *value_to_restore(tamis_kind kind)
{
  return create(kind);
}

void value_free(void *value)
{
  struct value *v = value;
  if (!v)
    return;
  tamis_destroy(v->filter);
  chunks_clear(&v->chunks);
  memory_free(v);
}

void value_complete(struct value *v, struct value *whole)
{
  const struct value old = *v;
  *v = *whole;
  *whole = old;
  value_free(whole);
}

size_t value_memory(const struct value *v)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  if (v->filter)
    (void) tamis_get_stats(v->filter, &stats);
  return sizeof *v + (size_t) stats.bytes + chunks_memory(&v->chunks);
}
