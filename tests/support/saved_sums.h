/* SPDX-License-Identifier: MIT
 *
 * What tests and the fuzzer of saved filters share: bytes that are written and read, in parts and
 * with failures, and sums that are made right again after a change.
 */
#ifndef TAMIS_TESTS_SAVED_SUMS_H
#define TAMIS_TESTS_SAVED_SUMS_H

#include "base/saved.h"

#include <errno.h>
#include <stdlib.h>

/* ---- bytes that are written ---- */

struct bytes {
  unsigned char *data;
  size_t size, room;
  unsigned calls, fail_at; /* the call that fails, from 1 on; 0: none */
};

static inline int write_bytes(void *context, const void *data, size_t size)
{
  struct bytes *b = context;
  if (++b->calls == b->fail_at) {
    errno = EDQUOT;
    return 1;
  }
  while (b->room < b->size + size) {
    b->room = b->room ? 2 * b->room : 1 << 16;
    b->data = realloc(b->data, b->room);
    if (!b->data)
      return 1;
  }
  memcpy(b->data + b->size, data, size);
  b->size += size;
  return 0;
}

/* Makes a packed file what it was before. */
static inline void unpack_bytes(struct bytes *b)
{
  struct bytes unpacked = {.data = NULL};
  static const unsigned char zeros[1 << 15];
  if (b->size < 8 || memcmp(b->data, SAVED_PACKED, 8) != 0)
    return;
  for (size_t at = 8, n; at < b->size; at += b->data[at] < 128 ? 1 + n : 2) {
    const unsigned char *run = b->data + at;
    n = 1 + (*run < 128 ? *run : (size_t) (*run & 127) << 8 | run[1]);
    (void) write_bytes(&unpacked, *run < 128 ? run + 1 : zeros, n);
  }
  free(b->data);
  unpacked.calls = b->calls;
  *b = unpacked;
}

/* Where the first block is, if an array of `array` bytes comes before it. */
static inline size_t first_block(size_t array)
{
  return array ? SAVED_ARRAY_ALIGNMENT + array : SAVED_HEADER;
}

/* Makes the sums right again, of an array's chunks too.  False: the blocks lead nowhere. */
static inline bool repair(const struct bytes *b, size_t array)
{
  unsigned char *data = b->data;
  uint64_t digest = 0, number = 0;
  saved_put64(data + SAVED_HEADER - 8, hash_sum(data, SAVED_HEADER - 8, 0));
  digest = saved_next_digest(digest, saved_get64(data + SAVED_HEADER - 8));
  size_t at = first_block(array);
  while (at + SAVED_UNIT <= b->size && memcmp(data + at, SAVED_TRAILER_MAGIC, 8) != 0) {
    unsigned char *payload = data + at + SAVED_UNIT;
    uint64_t size = saved_get64(data + at + 8);
    if (size > b->size - at - SAVED_UNIT)
      return false;
    if (saved_get32(data + at) == SAVED_SUMS && array)
      for (size_t i = 0; i < saved_chunks(array) && i < size / 8; i++) {
        size_t begin = i * SAVED_CHUNK, left = array - begin;
        saved_put64(payload + i * 8, hash_sum(data + SAVED_ARRAY_ALIGNMENT + begin,
                                              left < SAVED_CHUNK ? left : SAVED_CHUNK, i));
      }
    uint64_t sum = saved_block_sum(data + at, payload, (size_t) size);
    saved_put64(data + at + 56, sum);
    digest = saved_next_digest(digest, sum);
    number++;
    at += SAVED_UNIT + (((size_t) size + SAVED_UNIT - 1) & ~(size_t) (SAVED_UNIT - 1));
  }
  if (at + SAVED_UNIT > b->size)
    return false;
  saved_put64(data + at + 48, digest);
  saved_put64(data + at + 56, hash_sum(data + at, 56, 0));
  return number > 0;
}

/* ---- bytes that come ---- */

struct source {
  const unsigned char *data;
  size_t size, at;
  size_t most; /* bytes in one call; 0: all */
  unsigned calls, fail_at;
};

static inline int64_t read_source(void *context, void *data, size_t size)
{
  struct source *s = context;
  if (++s->calls == s->fail_at) {
    errno = EDQUOT;
    return -1;
  }
  size_t n = s->size - s->at < size ? s->size - s->at : size;
  if (s->most && n > s->most)
    n = s->most;
  memcpy(data, s->data + s->at, n);
  s->at += n;
  return (int64_t) n;
}

#endif
