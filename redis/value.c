/* SPDX-License-Identifier: MIT */
#include "value.h"

#include "image.h"
#include "memory.h"

#include <string.h>

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

static struct value *copy_chunks(const struct value *v)
{
  struct value *copy = create(v->kind);
  if (!copy)
    return NULL;
  copy->id = v->id;
  for (size_t i = 0; i < v->chunks.count; i++)
    if (!chunks_append(&copy->chunks, v->chunks.chunk[i],
                       CHUNK_HEAD + chunks_size_of(&v->chunks, i), false)) {
      value_free(copy);
      return NULL;
    }
  return copy;
}

struct value *value_copy(const struct value *v, uint64_t max_bytes, int *result)
{
  struct value *copy = NULL;
  if (!v->filter) {
    copy = copy_chunks(v);
    *result = copy ? TAMIS_OK : TAMIS_ENOMEM;
    return copy;
  }
  struct chunks chunks = {0};
  *result = image_to_chunks(v, &chunks);
  if (*result == TAMIS_OK) {
    struct chunks_reader reader = {.chunks = &chunks, .consumes = true};
    *result = image_read(v->kind, max_bytes, chunks_read, &reader, &copy);
  }
  chunks_clear(&chunks);
  return copy;
}

int value_lift_limit(struct value *v)
{
  int result;
  v->traits.max_bytes = 0;
  struct value *copy = value_copy(v, UINT64_MAX, &result);
  if (copy)
    value_complete(v, copy);
  return result;
}

size_t value_memory(const struct value *v)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  if (v->filter)
    (void) tamis_get_stats(v->filter, &stats);
  return sizeof *v + (size_t) stats.bytes + chunks_memory(&v->chunks);
}
