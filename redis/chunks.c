/* SPDX-License-Identifier: MIT */
#include "chunks.h"

#include "bytes.h"
#include "memory.h"
#include "server_api.h"

enum {
  AT_VERSION = 8,
  AT_KIND = 16,
  AT_ID = 24,
  AT_NUMBER = 32,
  AT_LAST = 40,
  AT_SIZE = 48,
  AT_SUM = 56
};
enum { VERSION = 1 };

static const unsigned char magic[8] = {'T', 'A', 'M', 'I', 'S', 'C', 'H', 'K'};

/* ---- one chunk ---- */

static uint64_t sum_of(const unsigned char *data, size_t size)
{
  return sum_bytes(data + CHUNK_HEAD, size, sum_bytes(data, AT_SUM, 0));
}

void chunk_seal(unsigned char *data, const struct chunk *chunk)
{
  memcpy(data, magic, sizeof magic);
  put_u64(data + AT_VERSION, VERSION);
  put_u64(data + AT_KIND, (uint64_t) chunk->kind);
  put_u64(data + AT_ID, chunk->id);
  put_u64(data + AT_NUMBER, chunk->number);
  put_u64(data + AT_LAST, chunk->last);
  put_u64(data + AT_SIZE, chunk->size);
  put_u64(data + AT_SUM, sum_of(data, chunk->size));
}

bool chunk_parse(const void *data, size_t size, struct chunk *out)
{
  const unsigned char *head = data;
  if (size <= CHUNK_HEAD || size > CHUNK_HEAD + CHUNK_BYTES ||
      memcmp(head, magic, sizeof magic) != 0)
    return false;
  uint64_t kind = get_u64(head + AT_KIND);
  uint64_t last = get_u64(head + AT_LAST);
  *out = (struct chunk){.kind = kind == TAMIS_CUCKOO ? TAMIS_CUCKOO : TAMIS_BLOOM,
                        .id = get_u64(head + AT_ID),
                        .number = get_u64(head + AT_NUMBER),
                        .last = last == 1,
                        .size = size - CHUNK_HEAD};
  return get_u64(head + AT_VERSION) == VERSION && (kind == TAMIS_BLOOM || kind == TAMIS_CUCKOO) &&
         last <= 1 && out->number < MOST_CHUNKS && get_u64(head + AT_SIZE) == out->size &&
         (out->last || out->size == CHUNK_BYTES) &&
         get_u64(head + AT_SUM) == sum_of(head, out->size);
}

uint64_t chunk_id(const void *contents, size_t size, uint64_t before)
{
  return sum_bytes(contents, size, before);
}

long long chunk_cursor(uint64_t id, uint64_t number)
{
  const uint64_t tag = id >> (64 - TAG_BITS) << CURSOR_BITS;
  return (long long) ((tag | (number + 1)) | (uint64_t) CURSOR_FROM);
}

/* ---- cutting ---- */

bool cutter_begin(struct cutter *c, chunk_taker take, void *context)
{
  *c = (struct cutter){.take = take, .context = context};
  c->buffer = memory_take(CHUNK_HEAD + CHUNK_BYTES);
  return c->buffer != NULL;
}

int cutter_write(void *cutter, const void *data, size_t size)
{
  struct cutter *c = cutter;
  const unsigned char *bytes = data;
  while (size) {
    if (c->used == CHUNK_BYTES) {
      int result = c->take(c->context, c->buffer, c->used, false);
      if (result)
        return result;
      c->used = 0;
    }
    size_t part = CHUNK_BYTES - c->used < size ? CHUNK_BYTES - c->used : size;
    memcpy(c->buffer + CHUNK_HEAD + c->used, bytes, part);
    c->used += part;
    bytes += part;
    size -= part;
  }
  return 0;
}

int cutter_end(struct cutter *c, int result)
{
  if (result == TAMIS_OK && c->take(c->context, c->buffer, c->used, true))
    result = TAMIS_EIO;
  memory_free(c->buffer);
  return result;
}

/* ---- chunks in memory ---- */

/* A chunk that is not the last one is full; the last one's size is in its head, or follows. */
size_t chunks_size_of(const struct chunks *c, size_t number)
{
  bool last = c->complete && number == c->count - 1;
  return last ? (size_t) (c->bytes - (uint64_t) number * CHUNK_BYTES) : CHUNK_BYTES;
}

static bool make_room(struct chunks *c)
{
  if (c->count < c->room)
    return true;
  size_t room = c->room ? 2 * c->room : 1;
  unsigned char **larger = memory_take(room * sizeof *larger);
  if (!larger)
    return false;
  if (c->count)
    memcpy(larger, c->chunk, c->count * sizeof *larger);
  memory_free(c->chunk);
  c->chunk = larger;
  c->room = room;
  return true;
}

bool chunks_append(struct chunks *c, const void *data, size_t size, bool last)
{
  if (c->count == MOST_CHUNKS || !make_room(c))
    return false;
  unsigned char *copy = memory_take(size);
  if (!copy)
    return false;
  memcpy(copy, data, size);
  c->chunk[c->count++] = copy;
  c->bytes += size - CHUNK_HEAD;
  c->complete = last;
  return true;
}

void chunks_remove_last(struct chunks *c)
{
  c->bytes -= chunks_size_of(c, c->count - 1);
  c->complete = false;
  memory_free(c->chunk[--c->count]);
}

void chunks_clear(struct chunks *c)
{
  for (size_t i = 0; i < c->count; i++)
    memory_free(c->chunk[i]);
  memory_free(c->chunk);
  *c = (struct chunks){0};
}

size_t chunks_memory(const struct chunks *c)
{
  return (size_t) c->bytes + c->count * CHUNK_HEAD + c->room * sizeof *c->chunk;
}

int chunks_take(void *chunks, unsigned char *with_head, size_t size, bool last)
{
  return chunks_append(chunks, with_head, CHUNK_HEAD + size, last) ? 0 : -1;
}

void chunks_seal(struct chunks *c, tamis_kind kind)
{
  uint64_t id = 0;
  for (size_t i = 0; i < c->count; i++)
    id = chunk_id(c->chunk[i] + CHUNK_HEAD, chunks_size_of(c, i), id);
  for (size_t i = 0; i < c->count; i++) {
    const struct chunk head = {kind, id, i, c->complete && i == c->count - 1, chunks_size_of(c, i)};
    chunk_seal(c->chunk[i], &head);
  }
}

int64_t chunks_read(void *reader, void *data, size_t size)
{
  struct chunks_reader *r = reader;
  if (r->number == r->chunks->count)
    return 0;
  size_t left = chunks_size_of(r->chunks, r->number) - r->at;
  size_t part = left < size ? left : size;
  memcpy(data, r->chunks->chunk[r->number] + CHUNK_HEAD + r->at, part);
  r->at += part;
  if (part == left) {
    if (r->consumes) {
      memory_free(r->chunks->chunk[r->number]);
      r->chunks->chunk[r->number] = NULL;
    }
    r->number++;
    r->at = 0;
  }
  return (int64_t) part;
}
