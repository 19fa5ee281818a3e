/* SPDX-License-Identifier: MIT
 *
 * Layer 1: reads the container of a saved filter.
 *
 * The reader never reads beyond the filter's last byte.  At least SAVED_UNIT bytes follow each
 * block, so one read takes a block's payload and SAVED_UNIT bytes more.
 */
#include "base/saved.h"

#include "base/memory.h"
#include "base/pages.h"

#include <errno.h>

enum {
  FIRST_PART = SMALL(1 << 16, 256), /* the buffer's first size, in bytes */
  MOST_STRIPES = 4096
};

/* ---- reading bytes ---- */

static int read_all(struct saved_reader *r, void *to, size_t size)
{
  for (size_t done = 0; done < size;) {
    int64_t got = r->read(r->context, (char *) to + done, size - done);
    if (got < 0 || (uint64_t) got > size - done) {
      r->error = got < 0 ? errno : EOVERFLOW;
      return TAMIS_EIO;
    }
    if (got == 0)
      return TAMIS_ECORRUPT;
    done += (size_t) got;
  }
  return TAMIS_OK;
}

static int read_run(struct saved_reader *r)
{
  unsigned char first, second = 0;
  int result = read_all(r, &first, 1);
  r->zeros = first >= 128;
  if (result == TAMIS_OK && r->zeros)
    result = read_all(r, &second, 1);
  r->run = 1 + (r->zeros ? (first & 127U) << 8 | second : first);
  return result;
}

static int unpack(struct saved_reader *r, unsigned char *to, size_t size)
{
  int result = size <= SAVED_PACKED_MOST - r->at ? TAMIS_OK : TAMIS_ECORRUPT;
  while (size && result == TAMIS_OK) {
    if (!r->run && (result = read_run(r)) != TAMIS_OK)
      return result;
    size_t n = r->run < size ? r->run : size;
    if (r->zeros)
      memset(to, 0, n);
    else
      result = read_all(r, to, n);
    to += n;
    size -= n;
    r->run -= (unsigned) n;
  }
  return result;
}

/* Skips `size` bytes of the mapping, and returns their address, or NULL if there are fewer. */
static const unsigned char *pass(struct saved_reader *r, uint64_t size)
{
  if (r->mapping_size - r->at < size)
    return NULL;
  r->at += size;
  return r->mapping + (r->at - size);
}

int tamis__saved_read_bytes(struct saved_reader *r, void *to, size_t size)
{
  if (!r->mapping) {
    int result = r->packed ? unpack(r, to, size) : read_all(r, to, size);
    r->at += result == TAMIS_OK ? size : 0;
    return result;
  }
  const unsigned char *from = pass(r, size);
  if (!from)
    return TAMIS_ECORRUPT;
  memcpy(to, from, size);
  return TAMIS_OK;
}

/* Reads `size` bytes, a multiple of SAVED_UNIT.  Begins with r->next if it holds unread bytes. */
static int take(struct saved_reader *r, unsigned char *to, size_t size)
{
  size_t ahead = r->have_next && size ? SAVED_UNIT : 0;
  memcpy(to, r->next, ahead);
  r->have_next = r->have_next && !ahead;
  return tamis__saved_read_bytes(r, to + ahead, size - ahead);
}

static uint64_t position(const struct saved_reader *r)
{
  return r->at - (r->have_next ? SAVED_UNIT : 0);
}

static void go_to(struct saved_reader *r, uint64_t at)
{
  r->at = at;
  r->have_next = false;
}

static int peek(struct saved_reader *r)
{
  if (r->have_next)
    return TAMIS_OK;
  int result = tamis__saved_read_bytes(r, r->next, SAVED_UNIT);
  r->have_next = result == TAMIS_OK;
  return result;
}

static bool all_zero(const unsigned char *bytes, size_t size)
{
  unsigned char any = 0;
  for (size_t i = 0; i < size; i++)
    any |= bytes[i];
  return !any;
}

/* ---- header ---- */

static int check_version(const unsigned char *header)
{
  if (memcmp(header, SAVED_MAGIC, 8) != 0 ||
      saved_get64(header + SAVED_HEADER - 8) != hash_sum(header, SAVED_HEADER - 8, 0))
    return TAMIS_ECORRUPT;
  if (saved_get32(header + 8) > SAVED_VERSION ||
      saved_get64(header + 16) & ~(SAVED_LAYERS | SAVED_WINDOW | SAVED_LIVE | SAVED_COUNTED))
    return TAMIS_EUNSUPPORTED;
  return saved_get32(header + 8) == SAVED_VERSION && saved_get32(header + 12) == SAVED_HEADER
             ? TAMIS_OK
             : TAMIS_ECORRUPT;
}

static bool options_are_possible(const tamis_options *o)
{
  return o->seed && o->capacity && o->fpp > 0 && o->fpp < 1 && o->stripes <= MOST_STRIPES &&
         (o->layout == TAMIS_LAYOUT_BLOCKED || o->layout == TAMIS_LAYOUT_CLASSIC ||
          o->layout == TAMIS_LAYOUT_WORD);
}

static int read_header(struct saved_reader *r, unsigned char header[SAVED_HEADER])
{
  enum { MAGIC = 8 };
  int result = tamis__saved_read_bytes(r, header, MAGIC);
  r->packed = result == TAMIS_OK && !r->mapping && memcmp(header, SAVED_PACKED, MAGIC) == 0;
  if (result != TAMIS_OK || !r->packed)
    return result == TAMIS_OK ? tamis__saved_read_bytes(r, header + MAGIC, SAVED_HEADER - MAGIC)
                              : result;
  r->at = 0;
  result = tamis__saved_read_bytes(r, header, SAVED_HEADER);
  /* a live filter is never packed */
  return result == TAMIS_OK && header[16] & SAVED_LIVE ? TAMIS_ECORRUPT : result;
}

int tamis__saved_read_header(struct saved_reader *r, struct saved_head *out)
{
#define GET_32(at, member) out->member = (__typeof__(out->member)) saved_get32(header + (at));
#define GET_64(at, member) out->member = (__typeof__(out->member)) saved_get64(header + (at));
#define GET_REAL(at, member) out->member = saved_to_double(saved_get64(header + (at)));
  unsigned char header[SAVED_HEADER];
  int result = read_header(r, header);
  if (result == TAMIS_OK)
    result = check_version(header);
  if (result != TAMIS_OK)
    return result;
  r->digest = saved_next_digest(r->digest, saved_get64(header + SAVED_HEADER - 8));
  r->live = saved_get64(header + 16) & SAVED_LIVE;
  const uint32_t hash = saved_get32(header + 36);
  *out = (struct saved_head){.options = {.struct_size = sizeof out->options},
                             .own_hash = hash == SAVED_HASH_OWN};
  SAVED_FIELDS(GET_32, GET_64, GET_REAL)
  out->figures.struct_size = sizeof out->figures;
  out->figures.layers = out->figures.parts = 1;
  out->figures.capacity = out->options.capacity;
  out->figures.fpp = out->options.fpp;
  out->figures.kind = out->options.kind;
  out->figures.layout = out->options.layout;
  out->figures.seed = out->options.seed;
  for (unsigned i = 0; i < SAVED_GEOMETRY; i++)
    out->geometry[i] = saved_get64(header + SAVED_GEOMETRY_AT + (size_t) i * 8);
  if (out->features & SAVED_WINDOW) {
    out->options.window = (unsigned) out->geometry[SAVED_WINDOW_PERIODS];
    out->options.window_renews = out->geometry[SAVED_WINDOW_RENEWS];
  }
  bool good = (hash == SAVED_HASH_OWN || hash == SAVED_HASH_XXH3) &&
              saved_get32(header + 40) == SAVED_MIXING &&
              saved_get32(header + SAVED_GROWABLE_AT) <= 1 && options_are_possible(&out->options) &&
              all_zero(header + SAVED_RESERVED_AT, SAVED_GEOMETRY_AT - SAVED_RESERVED_AT);
  return good ? TAMIS_OK : TAMIS_ECORRUPT;
}

/* ---- blocks ---- */

/* Reads `size` bytes into the buffer, which grows only as bytes come: `size` may be wrong. */
static int fill_buffer(struct saved_reader *r, size_t size)
{
  for (size_t done = 0; done < size;) {
    size_t part = done ? 2 * done : FIRST_PART;
    if (part > size)
      part = size;
    if (r->buffer_size < part) {
      void *larger = tamis__memory_grow(&r->allocator, r->buffer, r->buffer_size, part);
      if (!larger)
        return TAMIS_ENOMEM;
      r->buffer = larger;
      r->buffer_size = part;
    }
    int result = tamis__saved_read_bytes(r, r->buffer + done, part - done);
    if (result != TAMIS_OK)
      return result;
    done = part;
  }
  return TAMIS_OK;
}

static int read_payload(struct saved_reader *r, size_t size, const unsigned char **out)
{
  if (r->mapping) {
    *out = pass(r, size);
    return *out ? peek(r) : TAMIS_ECORRUPT;
  }
  int result = fill_buffer(r, size + SAVED_UNIT);
  if (result != TAMIS_OK)
    return result;
  memcpy(r->next, r->buffer + size, SAVED_UNIT);
  r->have_next = true;
  *out = r->buffer;
  return TAMIS_OK;
}

static int read_any_block(struct saved_reader *r, struct saved_block *out)
{
  unsigned char head[SAVED_UNIT];
  int result = take(r, head, sizeof head);
  if (result != TAMIS_OK)
    return result;
  uint64_t size = saved_get64(head + 8);
  if (r->jumped)
    r->blocks = saved_get64(head + 16);
  if (saved_get32(head + 4) || size > SAVED_CHUNK || saved_get64(head + 16) != r->blocks)
    return TAMIS_ECORRUPT;
  *out = (struct saved_block){.type = saved_get32(head), .size = (size_t) size};
  for (unsigned i = 0; i < SAVED_MEANINGS; i++)
    out->meanings[i] = saved_get64(head + 24 + (size_t) i * 8);
  size_t padding = -out->size % SAVED_UNIT;
  result = read_payload(r, out->size + padding, &out->payload);
  if (result != TAMIS_OK)
    return result;
  uint64_t sum = saved_block_sum(head, out->payload, out->size);
  if (sum != saved_get64(head + 56) || !all_zero(out->payload + out->size, padding))
    return TAMIS_ECORRUPT;
  r->blocks++;
  r->digest = saved_next_digest(r->digest, sum);
  return TAMIS_OK;
}

int tamis__saved_peek(struct saved_reader *r, uint32_t *type)
{
  struct saved_block passed;
  int result = peek(r);
  while (result == TAMIS_OK && (*type = saved_get32(r->next)) & SAVED_OPTIONAL) {
    result = read_any_block(r, &passed);
    if (result == TAMIS_OK)
      result = peek(r);
  }
  return result;
}

int tamis__saved_read_block(struct saved_reader *r, struct saved_block *out)
{
  uint32_t type;
  int result = tamis__saved_peek(r, &type);
  if (result != TAMIS_OK)
    return result;
  if (memcmp(r->next, SAVED_TRAILER_MAGIC, 8) == 0) {
    *out = (struct saved_block){.type = SAVED_END};
    return TAMIS_OK;
  }
  result = read_any_block(r, out);
  return result == TAMIS_OK && out->type == SAVED_END ? TAMIS_ECORRUPT : result;
}

/* ---- arrays ---- */

/* Doubles the memory, or takes the final size if m->limit would forbid another doubling. */
static int grow(struct saved_reader *r, struct saved_memory *m)
{
  uint64_t next = m->bytes ? 2 * m->bytes : SAVED_CHUNK;
  if (next > m->all || (m->limit && (m->limit < m->all || next > m->limit - m->all)))
    next = m->all;
  if (m->limit && next > m->limit - m->bytes)
    return TAMIS_EFULL;
  void *larger = tamis__memory_grow(&r->allocator, m->block, m->bytes, next);
  if (!larger)
    return TAMIS_ENOMEM;
  m->block = larger;
  m->bytes = next;
  return TAMIS_OK;
}

static bool reads_arrays(const struct saved_reader *r)
{
  return !r->mapping || r->check_all;
}

/* Reads the next bytes of an array.  *out becomes their address, in m->block or in the mapping. */
static int read_chunk(struct saved_reader *r, size_t size, struct saved_memory *m,
                      const unsigned char **out)
{
  int result = TAMIS_OK;
  if (r->mapping) {
    *out = pass(r, size);
    return *out ? TAMIS_OK : TAMIS_ECORRUPT;
  }
  while (result == TAMIS_OK && m->bytes < m->used + size)
    result = grow(r, m);
  if (result == TAMIS_OK)
    result = take(r, m->block + m->used, size);
  if (result != TAMIS_OK)
    return result;
  *out = m->block + m->used;
  m->used += size;
  return TAMIS_OK;
}

/* Reads the chunks of an array.  *digest becomes the digest of their sums. */
static int read_chunks(struct saved_reader *r, uint64_t size, struct saved_memory *m,
                       uint64_t *digest)
{
  int result = TAMIS_OK;
  for (uint64_t done = 0; done < size && result == TAMIS_OK; done += SAVED_CHUNK) {
    const unsigned char *chunk;
    const size_t n = saved_chunk(size, done);
    result = read_chunk(r, n, m, &chunk);
    if (result == TAMIS_OK && reads_arrays(r))
      *digest = saved_next_digest(*digest, hash_sum(chunk, n, done / SAVED_CHUNK));
  }
  return result;
}

/* Reads the sums of the array that begins at `begin`.  *digest becomes their digest. */
static int read_sums(struct saved_reader *r, uint64_t begin, uint64_t size, uint64_t *digest)
{
  uint64_t sums = saved_chunks(size);
  for (uint64_t done = 0; done < sums;) {
    struct saved_block block;
    int result = tamis__saved_read_block(r, &block);
    if (result != TAMIS_OK)
      return result;
    if (block.type != SAVED_SUMS || block.meanings[0] != begin || block.meanings[1] != size ||
        block.meanings[2] != done || block.meanings[3] ||
        block.size != saved_chunk(sums * 8, done * 8))
      return TAMIS_ECORRUPT;
    for (size_t i = 0; i < block.size; i += 8)
      *digest = saved_next_digest(*digest, saved_get64(block.payload + i));
    done += block.size / 8;
  }
  return TAMIS_OK;
}

static int read_padding(struct saved_reader *r)
{
  unsigned char padding[SAVED_ARRAY_ALIGNMENT];
  size_t size = (size_t) (-position(r) & (SAVED_ARRAY_ALIGNMENT - 1));
  int result = take(r, padding, size);
  return result == TAMIS_OK && !all_zero(padding, size) ? TAMIS_ECORRUPT : result;
}

int tamis__saved_read_array(struct saved_reader *r, uint64_t size, struct saved_memory *m)
{
  uint64_t digest = 0, expected = 0, used = m->used;
  int result = read_padding(r);
  m->begin = position(r);
  m->all = m->all ? m->all : size;
  if (r->mapping) /* r->next may hold the array's first bytes: they are read from the mapping */
    go_to(r, m->begin);
  if (result == TAMIS_OK)
    result = read_chunks(r, size, m, &digest);
  if (result == TAMIS_OK && !r->live) {
    result = read_sums(r, m->begin, size, &expected);
    if (result == TAMIS_OK && digest != expected && reads_arrays(r))
      result = TAMIS_ECORRUPT;
  }
  if (result == TAMIS_OK)
    m->array = r->mapping ? r->mapping + m->begin : m->block + used;
  return result;
}

/* ---- the trailer ---- */

static void release_buffer(struct saved_reader *r)
{
  tamis__memory_release(&r->allocator, r->buffer, r->buffer_size);
  r->buffer = NULL;
  r->buffer_size = 0;
}

/* Checks a trailer that ends at the offset `end`.  Its magic number has been checked. */
static bool trailer_is_right(const unsigned char *trailer, uint64_t end,
                             uint64_t totals[SAVED_TOTALS])
{
  for (unsigned i = 0; i < SAVED_TOTALS; i++)
    totals[i] = saved_get64(trailer + 24 + (size_t) i * 8);
  return saved_get64(trailer + 8) == end && saved_get64(trailer + 56) == hash_sum(trailer, 56, 0);
}

int tamis__saved_read_totals(const struct saved_reader *r, uint64_t totals[SAVED_TOTALS])
{
  const unsigned char *trailer = r->mapping + r->mapping_size - SAVED_UNIT;
  return trailer_is_right(trailer, r->mapping_size, totals) ? TAMIS_OK : TAMIS_ECORRUPT;
}

int tamis__saved_jump(struct saved_reader *r, uint64_t to)
{
  if (to > r->mapping_size || to % SAVED_UNIT)
    return TAMIS_ECORRUPT;
  go_to(r, to);
  r->jumped = true;
  return TAMIS_OK;
}

int tamis__saved_read_end(struct saved_reader *r, uint64_t totals[SAVED_TOTALS])
{
  unsigned char trailer[SAVED_UNIT];
  struct saved_block block;
  int result = tamis__saved_read_block(r, &block);
  release_buffer(r);
  if (result == TAMIS_OK)
    result = block.type == SAVED_END ? take(r, trailer, sizeof trailer) : TAMIS_ECORRUPT;
  if (result != TAMIS_OK)
    return result;
  if (!trailer_is_right(trailer, r->at, totals) || saved_get64(trailer + 16) != r->blocks ||
      (saved_get64(trailer + 48) != r->digest && !r->jumped) || r->run)
    return TAMIS_ECORRUPT;
  return TAMIS_OK;
}

void tamis__saved_close(struct saved_reader *r)
{
  release_buffer(r);
  if (r->error)
    errno = r->error;
}

/* ---- mapped filters ---- */

void tamis__saved_unmap(const struct saved_mapping *mapping)
{
  if (mapping->at && !mapping->borrowed)
    pages_unmap((void *) mapping->at, (size_t) mapping->size);
}

static int refuse(tamis_filter *f, uint64_t hash)
{
  (void) f, (void) hash;
  return TAMIS_EUNSUPPORTED;
}

struct filter_operations tamis__read_only(const struct filter_operations *operations)
{
  struct filter_operations changed = *operations;
  changed.add = changed.add_unique = refuse;
  changed.add_many = changed.add_unique_many = NULL;
  changed.remove = NULL;
  changed.read_only = true;
  return changed;
}
