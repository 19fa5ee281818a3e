/* SPDX-License-Identifier: MIT */
#include "foreign_data.h"

#include "bytes.h"
#include "memory.h"

enum {
  BLOOM_HEAD = 20,
  BLOOM_HEAD_1 = 16,                    /* without growth */
  VALKEY_HEAD = FOREIGN_SEED_BYTES + 8, /* after the head, of filters that valkey-bloom wrote */
  BLOOM_LAYER = 53,
  CUCKOO_HEAD = 38,
  CUCKOO_HEAD_2_2 = 46,
  PREFIX = 16, /* before the head in an image */
};

/* What filters of old encodings leave open. */
enum { OLD_GROWTH = 2 };
_Static_assert(BLOOM_LAYER <= BLOOM_HEAD + VALKEY_HEAD, "one piece of a head has room for any");

/* ---- numbers ---- */

static uint64_t get(const unsigned char **from, unsigned size)
{
  *from += size;
  return get_number(*from - size, size);
}

static double get_real(const unsigned char **from)
{
  return real_of(get(from, 8));
}

static void put(unsigned char **to, uint64_t number, unsigned size)
{
  put_number(*to, number, size);
  *to += size;
}

static void put_real(unsigned char **to, double real)
{
  uint64_t bits;
  memcpy(&bits, &real, sizeof bits);
  put(to, bits, 8);
}

/* ---- heads ---- */

static size_t more_of(const struct foreign *f)
{
  return f->options & FOREIGN_VALKEY ? VALKEY_HEAD : 0;
}

static int read_bloom_head(const unsigned char *at, size_t size, struct foreign *f)
{
  if (size < BLOOM_HEAD_1)
    return TAMIS_ECORRUPT;
  f->count = get(&at, 8);
  const uint64_t layers = get(&at, 4);
  f->options = get(&at, 4);
  const size_t more = more_of(f);
  const bool older = !more && size == BLOOM_HEAD_1 + layers * BLOOM_LAYER;
  if (!older && size != BLOOM_HEAD + more + layers * BLOOM_LAYER)
    return TAMIS_ECORRUPT;
  f->growth = older ? OLD_GROWTH : get(&at, 4);
  if (more) {
    memcpy(f->seed, at, FOREIGN_SEED_BYTES);
    at += FOREIGN_SEED_BYTES;
    f->tightening = get_real(&at);
  }
  for (uint64_t i = 0; i < layers; i++) {
    struct foreign_layer *l = foreign_open_layer(f);
    if (!l)
      return i < FOREIGN_MOST_LAYERS ? TAMIS_ENOMEM : TAMIS_ECORRUPT;
    l->bytes = get(&at, 8);
    l->bits = get(&at, 8);
    l->size = get(&at, 8);
    l->rate = get_real(&at);
    l->bits_per_entry = get_real(&at);
    l->hashes = get(&at, 4);
    l->entries = get(&at, 8);
    l->log2_bits = get(&at, 1);
  }
  return TAMIS_OK;
}

static int read_cuckoo_head(const unsigned char *at, size_t size, struct foreign *f)
{
  if (size != CUCKOO_HEAD && size != CUCKOO_HEAD_2_2)
    return TAMIS_ECORRUPT;
  f->count = get(&at, 8);
  f->buckets = get(&at, 8);
  f->deleted = get(&at, 8);
  const uint64_t tables = get(&at, 8);
  f->bucket_size = get(&at, 2);
  f->max_iterations = get(&at, 2);
  f->expansion = get(&at, 2);
  uint64_t buckets = f->buckets;
  for (uint64_t i = 0; i < tables; i++) {
    struct foreign_layer *l = buckets ? foreign_open_layer(f) : NULL;
    if (!l)
      return buckets && i < FOREIGN_MOST_TABLES ? TAMIS_ENOMEM : TAMIS_ECORRUPT;
    l->buckets = buckets;
    if (__builtin_mul_overflow(buckets, f->bucket_size, &l->bytes) ||
        __builtin_mul_overflow(buckets, f->expansion, &buckets))
      return TAMIS_ECORRUPT;
  }
  return TAMIS_OK;
}

/* What is known of a filter, whatever said it. */
static int check(struct foreign *f, uint64_t limit)
{
  if (!foreign_is_possible(f))
    return TAMIS_ECORRUPT;
  return limit && f->bytes > limit ? TAMIS_EFULL : TAMIS_OK;
}

static int finish(struct foreign *f, int result, struct foreign **out)
{
  if (result != TAMIS_OK) {
    foreign_free(f);
    f = NULL;
  }
  *out = f;
  return result;
}

int foreign_read_head(tamis_kind kind, const void *data, size_t size, uint64_t limit,
                      struct foreign **out)
{
  struct foreign *f = foreign_create(kind);
  if (!f)
    return finish(NULL, TAMIS_ENOMEM, out);
  int result =
      kind == TAMIS_CUCKOO ? read_cuckoo_head(data, size, f) : read_bloom_head(data, size, f);
  if (result == TAMIS_OK)
    result = check(f, limit);
  if (result == TAMIS_OK && !foreign_allocate(f))
    result = TAMIS_ENOMEM;
  return finish(f, result, out);
}

static size_t head_size(const struct foreign *f)
{
  return f->kind == TAMIS_CUCKOO ? CUCKOO_HEAD : BLOOM_HEAD + more_of(f) + f->layers * BLOOM_LAYER;
}

static void write_numbers(const struct foreign *f, unsigned char *to)
{
  put(&to, f->count, 8);
  if (f->kind == TAMIS_CUCKOO) {
    put(&to, f->buckets, 8);
    put(&to, f->deleted, 8);
    put(&to, f->layers, 8);
    put(&to, f->bucket_size, 2);
    put(&to, f->max_iterations, 2);
    put(&to, f->expansion, 2);
    return;
  }
  put(&to, f->layers, 4);
  put(&to, f->options, 4);
  put(&to, f->growth, 4);
  if (more_of(f)) {
    memcpy(to, f->seed, FOREIGN_SEED_BYTES);
    to += FOREIGN_SEED_BYTES;
    put_real(&to, f->tightening);
  }
}

static void write_layer(const struct foreign_layer *l, unsigned char *to)
{
  put(&to, l->bytes, 8);
  put(&to, l->bits, 8);
  put(&to, l->size, 8);
  put_real(&to, l->rate);
  put_real(&to, l->bits_per_entry);
  put(&to, l->hashes, 4);
  put(&to, l->entries, 8);
  put(&to, l->log2_bits, 1);
}

static void write_head(const struct foreign *f, unsigned char *to)
{
  write_numbers(f, to);
  for (size_t i = 0; i < f->layers && f->kind != TAMIS_CUCKOO; i++)
    write_layer(&f->layer[i], to + BLOOM_HEAD + more_of(f) + i * BLOOM_LAYER);
}

/* ---- chunks ---- */

/* It is compared with what the filter's own head would be, piece by piece: a chunk that only says again
 * what is known takes no memory, whatever it claims. */
bool foreign_is_head(const struct foreign *f, const void *data, size_t size)
{
  unsigned char own[BLOOM_HEAD + VALKEY_HEAD];
  const unsigned char *at = data;
  const size_t missing = head_size(f) - size;
  write_numbers(f, own);
  if (f->kind == TAMIS_CUCKOO)
    return (size == CUCKOO_HEAD || size == CUCKOO_HEAD_2_2) && memcmp(at, own, CUCKOO_HEAD) == 0;
  const bool older = missing == BLOOM_HEAD - BLOOM_HEAD_1 && f->growth == OLD_GROWTH && !more_of(f);
  const size_t numbers = older ? BLOOM_HEAD_1 : BLOOM_HEAD + more_of(f);
  bool same = (older || !missing) && memcmp(at, own, numbers) == 0;
  at += numbers;
  for (size_t i = 0; i < f->layers && same; i++, at += BLOOM_LAYER) {
    write_layer(&f->layer[i], own);
    same = memcmp(at, own, BLOOM_LAYER) == 0;
  }
  return same;
}

/* The layer that has this byte, and the byte's place in it. */
static struct foreign_layer *layer_at(const struct foreign *f, uint64_t *at)
{
  for (size_t i = 0; i < f->layers; i++) {
    if (*at < f->layer[i].bytes)
      return &f->layer[i];
    *at -= f->layer[i].bytes;
  }
  return NULL;
}

int foreign_take_chunk(struct foreign *f, long long cursor, const void *data, size_t size)
{
  if (!size || cursor < 1 || (uint64_t) cursor - 1 < size)
    return TAMIS_EINVAL;
  const uint64_t from = (uint64_t) cursor - 1 - size;
  uint64_t at = from;
  struct foreign_layer *l = layer_at(f, &at);
  if (from > f->arrived || !l || size > l->bytes - at)
    return TAMIS_EINVAL;
  if (from < f->arrived)
    return from + size <= f->arrived && memcmp(l->data + at, data, size) == 0 ? TAMIS_PRESENT
                                                                              : TAMIS_ECORRUPT;
  memcpy(l->data + at, data, size);
  f->arrived += size;
  return TAMIS_OK;
}

/* ---- images ---- */

/* Between two writes commands may run (dumps.h), so addresses are read anew.  Layers that they open are
 * left out.  A fingerprint that they move would be left out as well, so a cuckoo filter that has changed
 * is not written on. */
int foreign_write(const struct foreign *f, tamis_write_function write, void *context)
{
  enum { PART = 1 << 20 };
  const size_t size = PREFIX + head_size(f), layers = f->layers;
  const uint64_t count = f->count, deleted = f->deleted;
  unsigned char *head = memory_take(size);
  if (!head)
    return TAMIS_ENOMEM;
  put_u64(head, size - PREFIX);
  put_u64(head + 8, f->arrived);
  uint64_t left = f->arrived;
  write_head(f, head + PREFIX);
  bool failed = write(context, head, size) != 0;
  memory_free(head);
  for (size_t i = 0; i < layers; i++)
    for (uint64_t done = 0, part; left && done < f->layer[i].bytes && !failed; done += part) {
      part = f->layer[i].bytes - done < PART ? f->layer[i].bytes - done : PART;
      part = part < left ? part : left;
      failed = (f->kind == TAMIS_CUCKOO && (f->count != count || f->deleted != deleted)) ||
               write(context, f->layer[i].data + done, part) != 0;
      left -= part;
    }
  return failed ? TAMIS_EIO : TAMIS_OK;
}

static bool read_layers(struct foreign *f, uint64_t arrived, tamis_read_function read,
                        void *context)
{
  f->arrived = arrived;
  for (size_t i = 0; i < f->layers && arrived; i++) {
    const uint64_t part = f->layer[i].bytes < arrived ? f->layer[i].bytes : arrived;
    if (!bytes_read(read, context, f->layer[i].data, part))
      return false;
    arrived -= part;
  }
  return !arrived;
}

int foreign_read(tamis_kind kind, uint64_t limit, tamis_read_function read, void *context,
                 struct foreign **out)
{
  unsigned char prefix[PREFIX];
  *out = NULL;
  if (!bytes_read(read, context, prefix, PREFIX))
    return TAMIS_ECORRUPT;
  const uint64_t size = get_u64(prefix), arrived = get_u64(prefix + 8);
  if (size > BLOOM_HEAD + VALKEY_HEAD + FOREIGN_MOST_LAYERS * BLOOM_LAYER)
    return TAMIS_ECORRUPT;
  unsigned char *head = memory_take(size + 1);
  if (!head)
    return TAMIS_ENOMEM;
  int result = TAMIS_ECORRUPT;
  if (bytes_read(read, context, head, size))
    result = foreign_read_head(kind, head, size, limit, out);
  memory_free(head);
  if (result != TAMIS_OK)
    return result;
  /* There is one sequence of bytes for each filter. */
  if (size != head_size(*out) || !read_layers(*out, arrived, read, context))
    return finish(*out, TAMIS_ECORRUPT, out);
  return TAMIS_OK;
}

/* ---- RDB ---- */

void foreign_rdb_save(server_io *io, const struct foreign *f)
{
  const bool cuckoo = f->kind == TAMIS_CUCKOO;
  server.SaveUnsigned(io, cuckoo ? f->layers : f->count);
  server.SaveUnsigned(io, cuckoo ? f->buckets : f->layers);
  server.SaveUnsigned(io, cuckoo ? f->count : f->options);
  server.SaveUnsigned(io, cuckoo ? f->deleted : f->growth);
  if (cuckoo) {
    server.SaveUnsigned(io, f->bucket_size);
    server.SaveUnsigned(io, f->max_iterations);
    server.SaveUnsigned(io, f->expansion);
  }
  for (size_t i = 0; i < f->layers; i++) {
    const struct foreign_layer *l = &f->layer[i];
    if (cuckoo) {
      server.SaveUnsigned(io, l->buckets);
    } else {
      server.SaveUnsigned(io, l->entries);
      server.SaveDouble(io, l->rate);
      server.SaveUnsigned(io, l->hashes);
      server.SaveDouble(io, l->bits_per_entry);
      server.SaveUnsigned(io, l->bits);
      server.SaveUnsigned(io, l->log2_bits);
    }
    server.SaveStringBuffer(io, (const char *) l->data, l->bytes);
    if (!cuckoo)
      server.SaveUnsigned(io, l->size);
  }
}

static bool load_data(server_io *io, struct foreign_layer *l)
{
  size_t size = 0;
  if (server.IsIOError(io))
    return false;
  l->data = memory_adopt(server.LoadStringBuffer(io, &size));
  l->bytes = size;
  return !server.IsIOError(io) && l->data;
}

static void load_bloom_layer(server_io *io, struct foreign_layer *l)
{
  l->entries = server.LoadUnsigned(io);
  l->rate = server.LoadDouble(io);
  l->hashes = server.LoadUnsigned(io);
  l->bits_per_entry = server.LoadDouble(io);
  l->bits = server.LoadUnsigned(io);
  l->log2_bits = server.LoadUnsigned(io);
}

static uint64_t load_bloom_numbers(server_io *io, int version, uint64_t first, struct foreign *f)
{
  f->count = first;
  const uint64_t layers = server.LoadUnsigned(io);
  f->options = version >= 2 ? server.LoadUnsigned(io) : 0;
  f->growth = version >= 4 ? server.LoadUnsigned(io) : OLD_GROWTH;
  return layers;
}

static uint64_t load_cuckoo_numbers(server_io *io, uint64_t first, struct foreign *f)
{
  f->buckets = server.LoadUnsigned(io);
  f->count = server.LoadUnsigned(io);
  f->deleted = server.LoadUnsigned(io);
  f->bucket_size = server.LoadUnsigned(io);
  f->max_iterations = server.LoadUnsigned(io);
  f->expansion = server.LoadUnsigned(io);
  return first;
}

/* The hash functions have changed: that of cuckoo filters after encoding 3, and that of Bloom filters
 * after encoding 0, and after encoding 1 where the size is no power of two. */
static bool has_an_old_hash(const struct foreign *f, int version)
{
  return f->kind == TAMIS_CUCKOO
             ? version < 4
             : version < 1 || (version == 1 && !f->layer[f->layers - 1].log2_bits);
}

/* Reads a layer.  Its size is compared with what the limit leaves before it is read. */
static int load_layer(server_io *io, int version, uint64_t limit, struct foreign *f)
{
  const bool cuckoo = f->kind == TAMIS_CUCKOO;
  const uint64_t before = f->bytes;
  struct foreign_layer *l = server.IsIOError(io) ? NULL : foreign_open_layer(f);
  if (!l)
    return TAMIS_ECORRUPT;
  if (cuckoo)
    l->buckets = server.LoadUnsigned(io);
  else
    load_bloom_layer(io, l);
  if (server.IsIOError(io))
    return TAMIS_ECORRUPT;
  if (has_an_old_hash(f, version))
    return TAMIS_EUNSUPPORTED;
  const uint64_t left = limit > before ? limit - before : 0;
  if (limit &&
      (cuckoo ? l->buckets > left / (f->bucket_size + !f->bucket_size) : l->bits / 8 > left))
    return TAMIS_EFULL;
  if (!load_data(io, l))
    return TAMIS_ECORRUPT;
  f->bytes += l->bytes;
  if (!cuckoo)
    l->size = server.LoadUnsigned(io);
  return TAMIS_OK;
}

int foreign_rdb_load(server_io *io, int version, tamis_kind kind, uint64_t first, uint64_t limit,
                     struct foreign **out)
{
  const bool cuckoo = kind == TAMIS_CUCKOO;
  struct foreign *f = foreign_create(kind);
  if (!f)
    return finish(NULL, TAMIS_ENOMEM, out);
  if (cuckoo && has_an_old_hash(f, version))
    return finish(f, TAMIS_EUNSUPPORTED, out);
  const uint64_t layers =
      cuckoo ? load_cuckoo_numbers(io, first, f) : load_bloom_numbers(io, version, first, f);
  int result = TAMIS_OK;
  for (uint64_t i = 0; i < layers && result == TAMIS_OK; i++)
    result = load_layer(io, version, limit, f);
  if (result == TAMIS_OK)
    result = server.IsIOError(io) ? TAMIS_ECORRUPT : check(f, limit);
  f->arrived = f->bytes;
  return finish(f, result, out);
}
