/* SPDX-License-Identifier: MIT
 *
 * Layer 1: writes the container of a saved filter.
 *
 * The writer empties its buffer only when a caller asks for room, so the user's function gets many
 * small blocks in one call.  A small file stays in the buffer to its end, and is packed there.
 */
#include "base/saved.h"

#include "base/memory.h"

#include <assert.h>
#include <errno.h>

enum {
  KEPT = SMALL(SAVED_CHUNK, SAVED_PACKED_MOST), /* from this size on, the buffer is flushed */
  BUFFER = KEPT + SAVED_CHUNK + 2 * SAVED_ARRAY_ALIGNMENT
};

/* ---- the buffer ---- */

static void flush(struct saved_writer *w)
{
  if (w->result != TAMIS_OK || !w->used)
    return;
  if (w->write(w->context, w->buffer, w->used) != 0) {
    w->error = errno;
    w->result = TAMIS_EIO;
    return;
  }
  w->used = 0;
}

/* Returns the address of `size` free bytes in the buffer, or NULL after an error. */
static unsigned char *make_room(struct saved_writer *w, size_t size)
{
  if (w->used >= KEPT || BUFFER - w->used < size)
    flush(w);
  assert(w->result != TAMIS_OK || BUFFER - w->used >= size);
  return w->result == TAMIS_OK ? w->buffer + w->used : NULL;
}

static void advance(struct saved_writer *w, size_t size)
{
  w->used += size;
  w->at += size;
}

/* Adds zeros up to the next multiple of `unit`, a power of two.  The buffer has room for them. */
static void pad(struct saved_writer *w, uint64_t unit)
{
  size_t zeros = (size_t) (-w->at & (unit - 1));
  memset(w->buffer + w->used, 0, zeros);
  advance(w, zeros);
}

/* ---- header and trailer ---- */

static void put_header(unsigned char *to, const struct saved_head *head)
{
#define PUT_32(at, member) saved_put32(to + (at), head->member);
#define PUT_64(at, member) saved_put64(to + (at), head->member);
#define PUT_REAL(at, member) saved_put64(to + (at), saved_of_double(head->member));
  memset(to, 0, SAVED_HEADER);
  /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): these are not strings */
  memcpy(to, SAVED_MAGIC, 8);
  saved_put32(to + 8, SAVED_VERSION);
  saved_put32(to + 12, SAVED_HEADER);
  saved_put32(to + 36, head->own_hash ? SAVED_HASH_OWN : SAVED_HASH_XXH3);
  saved_put32(to + 40, SAVED_MIXING);
  SAVED_FIELDS(PUT_32, PUT_64, PUT_REAL)
  for (unsigned i = 0; i < SAVED_GEOMETRY; i++)
    saved_put64(to + SAVED_GEOMETRY_AT + (size_t) i * 8, head->geometry[i]);
  saved_put64(to + SAVED_HEADER - 8, hash_sum(to, SAVED_HEADER - 8, 0));
}

void tamis__saved_begin(struct saved_writer *w, const struct saved_head *head)
{
  w->head = head;
  w->buffer = tamis__memory_allocate_cleared(&w->allocator, BUFFER, 0);
  if (!w->buffer) {
    w->result = TAMIS_ENOMEM;
    return;
  }
  /* Small pages, because the file of a small filter touches little of the buffer. */
  tamis__memory_use_small_pages(&w->allocator, w->buffer, BUFFER);
  put_header(w->buffer, head);
  w->digest = saved_next_digest(w->digest, saved_get64(w->buffer + SAVED_HEADER - 8));
  advance(w, SAVED_HEADER);
}

static void put_trailer(struct saved_writer *w)
{
  unsigned char *to = make_room(w, SAVED_UNIT);
  if (!to)
    return;
  /* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
  memcpy(to, SAVED_TRAILER_MAGIC, 8);
  saved_put64(to + 8, w->at + SAVED_UNIT);
  saved_put64(to + 16, w->blocks);
  for (unsigned i = 0; i < SAVED_TOTALS; i++)
    saved_put64(to + 24 + (size_t) i * 8, w->totals[i]);
  saved_put64(to + 48, w->digest);
  saved_put64(to + 56, hash_sum(to, 56, 0));
  advance(w, SAVED_UNIT);
}

static size_t zeros_at(const unsigned char *from, const unsigned char *end)
{
  size_t n = 0;
  while (from + n < end && !from[n])
    n++;
  return n;
}

/* Returns the number of bytes, at most 128, before the next three zeros in a row. */
static size_t literals_at(const unsigned char *from, const unsigned char *end)
{
  size_t n = 0;
  while (from + n < end && n < 128 && zeros_at(from + n, end) < 3)
    n++;
  return n;
}

/* Packs the file, all of which must be in the buffer. */
static void pack(struct saved_writer *w)
{
  enum { LEAD = 256 }; /* keeps `to` behind `from`, as 128 bytes may be packed as 129 */
  const unsigned char *from = w->buffer + LEAD, *end = from + w->used;
  unsigned char *to = w->buffer + 8;
  memmove(w->buffer + LEAD, w->buffer, w->used);
  /* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
  memcpy(w->buffer, SAVED_PACKED, 8);
  for (size_t n; from < end; from += n)
    if ((n = literals_at(from, end))) {
      *to++ = (unsigned char) (n - 1);
      memmove(to, from, n);
      to += n;
    } else {
      n = zeros_at(from, end);
      *to++ = (unsigned char) (128 | (n - 1) >> 8);
      *to++ = (unsigned char) (n - 1);
    }
  w->used = (size_t) (to - w->buffer);
}

int tamis__saved_end(struct saved_writer *w)
{
  put_trailer(w);
  if (w->result == TAMIS_OK && w->at == w->used && w->used <= SAVED_PACKED_MOST)
    pack(w);
  return tamis__saved_end_live(w);
}

int tamis__saved_end_live(struct saved_writer *w)
{
  flush(w);
  tamis__memory_release(&w->allocator, w->buffer, BUFFER);
  if (w->error)
    errno = w->error;
  return w->result;
}

/* ---- blocks ---- */

void *tamis__saved_block_room(struct saved_writer *w, size_t size)
{
  unsigned char *room = make_room(w, SAVED_UNIT + size + SAVED_UNIT);
  return room ? room + SAVED_UNIT : NULL;
}

void tamis__saved_block(struct saved_writer *w, uint32_t type,
                        const uint64_t meanings[SAVED_MEANINGS], size_t size)
{
  if (w->result != TAMIS_OK)
    return;
  unsigned char *head = w->buffer + w->used;
  saved_put32(head, type);
  saved_put32(head + 4, 0);
  saved_put64(head + 8, size);
  saved_put64(head + 16, w->blocks++);
  for (unsigned i = 0; i < SAVED_MEANINGS; i++)
    saved_put64(head + 24 + (size_t) i * 8, meanings[i]);
  uint64_t sum = saved_block_sum(head, head + SAVED_UNIT, size);
  saved_put64(head + 56, sum);
  w->digest = saved_next_digest(w->digest, sum);
  advance(w, SAVED_UNIT + size);
  pad(w, SAVED_UNIT);
}

/* ---- arrays ---- */

static void put_sums(struct saved_writer *w, uint64_t begin, uint64_t size,
                     const unsigned char *sums)
{
  const uint64_t bytes = saved_chunks(size) * 8;
  for (uint64_t done = 0; done < bytes; done += SAVED_CHUNK) {
    const size_t payload = saved_chunk(bytes, done);
    void *room = tamis__saved_block_room(w, payload);
    if (!room)
      return;
    memcpy(room, sums + done, payload);
    tamis__saved_block(w, SAVED_SUMS, (uint64_t[SAVED_MEANINGS]){begin, size, done / 8, 0},
                       payload);
  }
}

uint64_t tamis__saved_array(struct saved_writer *w, uint64_t size, saved_fill *fill, void *context)
{
  const uint64_t bytes = saved_chunks(size) * 8;
  assert(size && size % SAVED_UNIT == 0);
  if (!make_room(w, SAVED_ARRAY_ALIGNMENT))
    return 0;
  pad(w, SAVED_ARRAY_ALIGNMENT);
  const uint64_t begin = w->at;
  unsigned char *sums = tamis__memory_allocate_cleared(&w->allocator, bytes, 0);
  if (!sums)
    w->result = TAMIS_ENOMEM;
  for (uint64_t done = 0, number = 0; done < size && w->result == TAMIS_OK; done += SAVED_CHUNK) {
    const size_t n = saved_chunk(size, done);
    unsigned char *room = make_room(w, n);
    if (!room)
      break;
    fill(context, done, n, room);
    saved_put64(sums + number * 8, hash_sum(room, n, number));
    number++;
    advance(w, n);
  }
  put_sums(w, begin, size, sums);
  tamis__memory_release(&w->allocator, sums, bytes);
  return begin;
}
