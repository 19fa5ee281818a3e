/* SPDX-License-Identifier: MIT */
#include "restore.h"

#include "image.h"

#include <string.h>

/* A saved filter is about as large as the filter itself.  The limit holds exactly when it is read;
 * here it only keeps chunks without end from filling the memory. */
static bool is_too_large(const struct value *v, size_t size, uint64_t limit)
{
  const uint64_t slack = UINT64_C(4) << 20;
  return limit && limit < UINT64_MAX / 4 && v->chunks.bytes + size > 2 * limit + slack;
}

static enum restore_result check(const struct value *v, const struct chunk *chunk, const void *data,
                                 uint64_t limit)
{
  const struct chunks *have = &v->chunks;
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
  struct chunks_reader reader = {.chunks = &v->chunks};
  struct value *whole;
  int result = image_read(v->kind, limit, chunks_read, &reader, &whole);
  if (result == TAMIS_OK) {
    value_complete(v, whole);
    return RESTORE_DONE;
  }
  chunks_remove_last(&v->chunks);
  return result == TAMIS_EFULL    ? RESTORE_TOO_LARGE
         : result == TAMIS_ENOMEM ? RESTORE_NO_MEMORY
                                  : RESTORE_NO_FILTER;
}

enum restore_result restore_chunk(struct value *v, const void *data, size_t size, uint64_t limit)
{
  struct chunk chunk;
  if (!chunk_parse(data, size, &chunk))
    return RESTORE_DAMAGED;
  enum restore_result result = check(v, &chunk, data, limit);
  if (result != RESTORE_GOES_ON)
    return result;
  if (!chunks_append(&v->chunks, data, size, chunk.last))
    return RESTORE_NO_MEMORY;
  v->id = chunk.id;
  return chunk.last ? finish(v, limit) : RESTORE_GOES_ON;
}
