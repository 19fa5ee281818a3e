/* SPDX-License-Identifier: MIT */
#include "value.h"

#include "figures.h"
#include "memory.h"

static struct value *create(tamis_kind kind)
{
  struct value *v = memory_take(sizeof *v);
  if (!v)
    return NULL;
  *v = (struct value){.kind = kind};
  figures_begin(v);
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

struct traits value_traits_of_foreign(const struct foreign *f)
{
  struct traits traits = {0};
  if (f->kind == TAMIS_CUCKOO)
    traits.expansion = (uint32_t) f->expansion;
  else if (!(f->options & FOREIGN_NONSCALING))
    traits.expansion = (uint32_t) f->growth;
  traits.bucket_size = (uint8_t) f->bucket_size;
  traits.max_iterations = (uint16_t) f->max_iterations;
  traits.deleted = f->deleted;
  return traits;
}

struct value *value_of_foreign(struct foreign *foreign, tamis_filter *own)
{
  const struct traits traits = value_traits_of_foreign(foreign);
  tamis_stats stats = TAMIS_STATS_INIT;
  if (own)
    (void) tamis_get_stats(own, &stats);
  struct value *v = value_of_filter(foreign->kind, own, &traits, foreign_capacity(foreign),
                                    foreign->count + stats.count);
  if (!v) {
    foreign_free(foreign);
    return NULL;
  }
  figures_end(v);
  v->foreign = foreign;
  figures_begin(v);
  return v;
}

struct value *value_to_restore(tamis_kind kind)
{
  struct value *v = create(kind);
  if (!v)
    return NULL;
  v->chunks = memory_take(sizeof *v->chunks);
  if (v->chunks) {
    *v->chunks = (struct chunks){0};
    return v;
  }
  value_free(v);
  return NULL;
}

void value_free(void *value)
{
  struct value *v = value;
  if (!v)
    return;
  figures_end(v);
  tamis_destroy(v->filter);
  foreign_free(v->foreign);
  if (v->chunks)
    chunks_clear(v->chunks);
  memory_free(v->chunks);
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
  const size_t bytes = sizeof *v + (size_t) stats.bytes +
                       (v->chunks ? sizeof *v->chunks + chunks_memory(v->chunks) : 0) +
                       (v->foreign ? foreign_memory(v->foreign) : 0);
  figures_note_stats(&stats, bytes);
  return bytes;
}

bool value_is_whole(const struct value *v)
{
  return v->foreign ? foreign_is_whole(v->foreign) : v->filter != NULL;
}

bool value_has_image(const struct value *v)
{
  return v->foreign || v->filter;
}

uint64_t value_capacity_of_layers(const tamis_stats *stats)
{
  const unsigned doublings = stats->layers ? stats->layers - 1 : 0;
  return doublings < 62 && stats->capacity <= (uint64_t) INT64_MAX >> doublings
             ? stats->capacity << doublings
             : INT64_MAX;
}

uint64_t value_capacity(const struct value *v)
{
  uint64_t capacity = v->foreign ? foreign_capacity(v->foreign) : 0;
  tamis_stats stats = TAMIS_STATS_INIT;
  if (v->filter && tamis_get_stats(v->filter, &stats) == TAMIS_OK)
    capacity += value_capacity_of_layers(&stats);
  return capacity < INT64_MAX ? capacity : INT64_MAX;
}

bool value_contains(const struct value *v, const void *item, size_t size)
{
  return (v->filter && tamis_contains(v->filter, item, size)) ||
         (v->foreign && foreign_contains(v->foreign, item, size));
}

uint64_t value_count(const struct value *v, const void *item, size_t size)
{
  return v->foreign ? foreign_count(v->foreign, item, size) : tamis_count(v->filter, item, size);
}
