/* SPDX-License-Identifier: MIT */
#include "value.h"

#include "dumps.h"
#include "figures.h"

#include <string.h>

static size_t size_of(const struct value *v)
{
  return v->is_short ? (size_t) VALUE_SHORT_BYTES : sizeof *v;
}

struct value value_contents(const struct value *v)
{
  struct value all = {0};
  memcpy(&all, v, size_of(v));
  return all;
}

static struct value *create(const struct value *like)
{
  struct value *v = memory_take(size_of(like));
  if (!v)
    return NULL;
  memcpy(v, like, size_of(like));
  figures_begin(v);
  return v;
}

/* Takes over what the value holds. */
static struct value *create_or_release(const struct value *like)
{
  struct value *v = create(like);
  if (v)
    return v;
  memory_destroy_filter((struct memory_filter){like->filter, like->account});
  foreign_free(like->foreign);
  return NULL;
}

struct value *value_of_filter(tamis_kind kind, struct memory_filter made,
                              const struct traits *traits, uint64_t capacity, uint64_t count)
{
  return create_or_release(&(struct value){.kind = kind,
                                           .filter = made.filter,
                                           .account = made.account,
                                           .traits = *traits,
                                           .capacity = capacity,
                                           .count = count,
                                           .is_short = kind == TAMIS_BLOOM && !traits->window});
}

struct traits value_traits(const struct value *v)
{
  return value_contents(v).traits;
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

struct value *value_of_foreign(struct foreign *foreign, struct value *own)
{
  const struct traits traits = value_traits_of_foreign(foreign);
  struct value like = {.kind = foreign->kind,
                       .foreign = foreign,
                       .traits = traits,
                       .capacity = foreign_capacity(foreign),
                       .count = foreign->count};
  if (own) {
    like.count += value_stats(own).count;
    like.filter = own->filter, own->filter = NULL;
    like.account = own->account, own->account = NULL;
    value_free(own);
  }
  return create_or_release(&like);
}

struct value *value_to_restore(tamis_kind kind)
{
  struct value *v = create(&(struct value){.kind = kind});
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

/* What the value holds.  Its own block stays. */
static void release(const struct value *v)
{
  dumps_end(v);
  figures_end(v);
  memory_destroy_filter((struct memory_filter){v->filter, v->account});
  foreign_free(v->foreign);
  if (v->chunks)
    chunks_clear(v->chunks);
  memory_free(v->chunks);
}

void value_free(void *value)
{
  if (!value)
    return;
  const struct value all = value_contents(value);
  release(&all);
  memory_free(value);
}

void value_complete(struct value *v, struct value *whole)
{
  const struct value old = value_contents(v);
  struct value now = value_contents(whole);
  now.is_short = old.is_short; /* as its block is */
  memcpy(v, &now, size_of(&now));
  memory_free(whole);
  release(&old);
}

tamis_stats value_stats(const struct value *v)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  if (v->filter)
    (void) tamis_get_stats(v->filter, &stats);
  return stats;
}

size_t value_memory(const struct value *v)
{
  const tamis_stats stats = value_stats(v);
  const struct chunks *chunks = value_chunks(v);
  const size_t bytes = memory_size(v, size_of(v)) + memory_of_filter(v->account) +
                       (chunks ? memory_size(chunks, sizeof *chunks) + chunks_memory(chunks) : 0) +
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
  const tamis_stats stats = value_stats(v);
  const uint64_t capacity =
      (v->foreign ? foreign_capacity(v->foreign) : 0) + value_capacity_of_layers(&stats);
  return capacity < INT64_MAX ? capacity : INT64_MAX;
}

uint64_t value_items(const struct value *v)
{
  return v->traits.renews ? value_stats(v).count : v->count;
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
