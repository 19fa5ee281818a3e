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
         get_u64(head + AT_SUM) == sum_of(head, out->size);
}

uint64_t chunk_id(const void *contents, size_t size)
{
  return sum_bytes(contents, size, 0);
}

long long chunk_cursor(const struct chunk *chunk)
{
  const uint64_t tag = chunk->id >> (64 - TAG_BITS) << CURSOR_BITS;
  const uint64_t next = chunk->last ? CURSOR_END : chunk->number + 1;
  return (long long) ((tag | next) | (uint64_t) CURSOR_FROM);
}

/* ---- records ---- */

enum { RECORD_HEAD = 8, UNIT = 64 };

static bool all_zero(const unsigned char *data, size_t size)
{
  uint64_t any = 0;
  if (size == UNIT) /* compilers make vectors of this */
    for (unsigned i = 0; i < UNIT; i += 8)
      any |= get_u64(data + i);
  else
    for (size_t i = 0; i < size; i++)
      any |= data[i];
  return !any;
}

static uint32_t get_u32(const unsigned char *from)
{
  return (uint32_t) get_number(from, 4);
}

/* Begins a record, for which there is room. */
static void open_record(struct cutter *c)
{
  unsigned char *head = c->buffer + CHUNK_HEAD + c->used;
  put_number(head, c->zeros, 4);
  put_number(head + 4, 0, 4);
  c->record = c->used + 1;
  c->used += RECORD_HEAD;
  c->zeros = 0;
}

/* Writes down the zeros that wait.  The room for that is always left. */
static void end_records(struct cutter *c)
{
  if (c->zeros)
    open_record(c);
  c->record = 0;
}

static void add_unit(struct cutter *c, const unsigned char *data, size_t size)
{
  c->looked += size;
  if (all_zero(data, size)) {
    c->record = 0;
    c->zeros += size;
    return;
  }
  if (!c->record)
    open_record(c);
  unsigned char *count = c->buffer + CHUNK_HEAD + c->record - 1 + 4;
  put_number(count, get_u32(count) + size, 4);
  memcpy(c->buffer + CHUNK_HEAD + c->used, data, size);
  c->used += size;
}

/* ---- cutting ---- */

bool cutter_begin(struct cutter *c, bool sparse, chunk_taker take, void *context)
{
  *c = (struct cutter){.take = take, .context = context, .sparse = sparse};
  c->buffer = memory_take(CHUNK_HEAD + CHUNK_BYTES);
  return c->buffer != NULL;
}

static int hand_over(struct cutter *c, bool last)
{
  end_records(c);
  const int result = c->take(c->context, c->buffer, c->used, last);
  c->used = 0;
  c->looked = 0;
  return result;
}

/* A chunk stands for a bounded number of bytes, which is the work of one SCANDUMP. */
static int write_sparse(struct cutter *c, const unsigned char *bytes, size_t size)
{
  enum { MOST_LOOKED = 32 << 20, MOST_OF_A_UNIT = RECORD_HEAD + UNIT + RECORD_HEAD };
  for (size_t part; size; bytes += part, size -= part) {
    part = size < UNIT ? size : UNIT;
    if (c->used + MOST_OF_A_UNIT > CHUNK_BYTES || c->looked >= MOST_LOOKED) {
      const int result = hand_over(c, false);
      if (result)
        return result;
    }
    add_unit(c, bytes, part);
  }
  return 0;
}

int cutter_write(void *cutter, const void *data, size_t size)
{
  struct cutter *c = cutter;
  const unsigned char *bytes = data;
  if (c->sparse)
    return write_sparse(c, bytes, size);
  while (size) {
    if (c->used == CHUNK_BYTES) {
      int result = hand_over(c, false);
      if (result)
        return result;
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
  if (result == TAMIS_OK && hand_over(c, true))
    result = TAMIS_EIO;
  memory_free(c->buffer);
  return result;
}

/* ---- chunks in memory ---- */

size_t chunks_size_of(const struct chunks *c, size_t number)
{
  return (size_t) get_u64(c->chunk[number] + AT_SIZE);
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

bool chunks_append(struct chunks *c, const void *data, size_t size)
{
  if (c->count == MOST_CHUNKS || !make_room(c))
    return false;
  unsigned char *copy = memory_take(size);
  if (!copy)
    return false;
  memcpy(copy, data, size);
  c->chunk[c->count++] = copy;
  c->bytes += size - CHUNK_HEAD;
  return true;
}

void chunks_remove_last(struct chunks *c)
{
  c->bytes -= chunks_size_of(c, c->count - 1);
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
  size_t bytes = memory_size(c->chunk, c->room * sizeof *c->chunk);
  for (size_t i = 0; i < c->count; i++)
    bytes += memory_size(c->chunk[i], CHUNK_HEAD + chunks_size_of(c, i));
  return bytes;
}

int chunks_take(void *chunks, unsigned char *with_head, size_t size, bool last)
{
  (void) last;
  put_u64(with_head + AT_SIZE, size);
  return chunks_append(chunks, with_head, CHUNK_HEAD + size) ? 0 : -1;
}

/* Goes to the next record.  1: there is one; 0: the end; less: these are no records. */
static int next_record(struct chunks_reader *r)
{
  while (r->number < r->chunks->count) {
    unsigned char **chunk = &r->chunks->chunk[r->number];
    const size_t left = chunks_size_of(r->chunks, r->number) - r->at;
    const unsigned char *at = *chunk + CHUNK_HEAD + r->at;
    if (left >= RECORD_HEAD) {
      r->zeros = get_u32(at);
      r->others = get_u32(at + 4);
      r->at += RECORD_HEAD;
      return r->others <= left - RECORD_HEAD && (r->zeros || r->others) ? 1 : -1;
    }
    if (left)
      return -1;
    if (r->consumes) {
      memory_free(*chunk);
      *chunk = NULL;
    }
    r->number++;
    r->at = 0;
  }
  return 0;
}

static void clear(unsigned char *data, size_t size)
{
  for (size_t part; size; data += part, size -= part) {
    part = size < UNIT ? size : UNIT;
    if (!all_zero(data, part))
      memset(data, 0, part);
  }
}

int64_t chunks_read(void *reader, void *data, size_t size)
{
  struct chunks_reader *r = reader;
  const int found = r->zeros || r->others ? 1 : next_record(r);
  if (found <= 0)
    return found;
  uint32_t *left = r->zeros ? &r->zeros : &r->others;
  const size_t part = *left < size ? *left : size;
  if (r->zeros) {
    clear(data, part);
  } else {
    memcpy(data, r->chunks->chunk[r->number] + CHUNK_HEAD + r->at, part);
    r->at += part;
  }
  *left -= (uint32_t) part;
  return (int64_t) part;
}
