/* SPDX-License-Identifier: MIT */
#include "restore.h"

#include "bytes.h"
#include "foreign_data.h"
#include "image.h"

#include <string.h>

/* A saved filter is about as large as the filter itself.  The limit holds exactly when it is read;
 * here it only keeps chunks without end from filling the memory. */
static bool is_too_large(const struct value *v, size_t size, uint64_t limit)
{
  const uint64_t slack = UINT64_C(4) << 20;
  return limit && limit < UINT64_MAX / 4 && v->chunks->bytes + size > 2 * limit + slack;
}

static enum restore_result check(const struct value *v, const struct chunk *chunk, const void *data,
                                 uint64_t limit)
{
  const struct chunks *have = v->chunks;
  if (chunk->kind != v->kind)
    return RESTORE_OTHER_KIND;
  if (have->count && chunk->id != v->id)
    return RESTORE_OTHER_DUMP;
  if (chunk->number > have->count)
    return RESTORE_OUT_OF_ORDER;
  if (chunk->number == have->count)
    return is_too_large(v, chunk->size, limit) ? RESTORE_TOO_LARGE : RESTORE_GOES_ON;
  bool same = chunks_size_of(have, chunk->number) == chunk->size &&
              memcmp(have->chunk[chunk->number], data, CHUNK_HEAD + chunk->size) == 0;
  return same ? RESTORE_REPEATED : RESTORE_OTHER_DUMP;
}

static enum restore_result finish(struct value *v, uint64_t limit)
{
  struct chunks_reader reader = {.chunks = v->chunks};
  struct value *whole;
  int result = image_read(v->kind, limit, chunks_read, &reader, &whole);
  if (result == TAMIS_OK) {
    value_complete(v, whole);
    return RESTORE_DONE;
  }
  chunks_remove_last(v->chunks);
  return result == TAMIS_EFULL    ? RESTORE_TOO_LARGE
         : result == TAMIS_ENOMEM ? RESTORE_NO_MEMORY
                                  : RESTORE_NO_FILTER;
}

/* The id of a value that is whole: that of the last chunk that came. */
static uint64_t last_id(long long cursor, const void *data, size_t size)
{
  return sum_bytes(data, size, (uint64_t) cursor);
}

enum restore_result restore_chunk(struct value *v, const void *data, size_t size, uint64_t limit)
{
  struct chunk chunk;
  if (!chunk_parse(data, size, &chunk))
    return RESTORE_DAMAGED;
  enum restore_result result = check(v, &chunk, data, limit);
  if (result != RESTORE_GOES_ON)
    return result;
  if (!chunks_append(v->chunks, data, size))
    return RESTORE_NO_MEMORY;
  v->id = chunk.id;
  if (!chunk.last)
    return RESTORE_GOES_ON;
  result = finish(v, limit);
  v->id = result == RESTORE_DONE ? last_id(chunk_cursor(&chunk), data, size) : chunk.id;
  return result;
}

/* ---- dumps that RedisBloom made ---- */

struct value *restore_begin_foreign(tamis_kind kind, const void *data, size_t size, uint64_t limit,
                                    enum restore_result *result)
{
  struct foreign *f;
  struct value *v = NULL;
  switch (foreign_read_head(kind, data, size, limit, &f)) {
  case TAMIS_OK:
    v = value_of_foreign(f, NULL);
    *result = v ? RESTORE_GOES_ON : RESTORE_NO_MEMORY;
    return v;
  case TAMIS_EFULL:
    *result = RESTORE_TOO_LARGE;
    return NULL;
  case TAMIS_ENOMEM:
    *result = RESTORE_NO_MEMORY;
    return NULL;
  default:
    *result = RESTORE_DAMAGED;
    return NULL;
  }
}

enum restore_result restore_foreign_chunk(struct value *v, long long cursor, const void *data,
                                          size_t size)
{
  if (cursor == 1)
    return foreign_is_head(v->foreign, data, size) ? RESTORE_REPEATED : RESTORE_OTHER_DUMP;
  switch (foreign_take_chunk(v->foreign, cursor, data, size)) {
  case TAMIS_OK:
    v->id = last_id(cursor, data, size);
    return value_is_whole(v) ? RESTORE_DONE : RESTORE_GOES_ON;
  case TAMIS_PRESENT:
    return RESTORE_REPEATED;
  case TAMIS_ECORRUPT:
    return RESTORE_OTHER_DUMP;
  default:
    return RESTORE_OUT_OF_ORDER;
  }
}

bool restore_had(const struct value *v, long long cursor, const void *data, size_t size)
{
  return value_id(v) && value_id(v) == last_id(cursor, data, size);
}
