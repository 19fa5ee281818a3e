/* SPDX-License-Identifier: MIT
 *
 * RDB: a number that says what follows, then strings of at most 1 MiB, before each of them a 1 and
 * after the last one a 0.
 *
 *    1  a whole filter: its bytes (image.h), CHUNK_BYTES in each string but the last
 *    2  one that is being restored: the chunks that it has so far, with their heads
 *
 * There is one sequence of bytes for each value, so that a payload that is accepted is the one
 * that DUMP would give.
 *
 * RedisBloom's files and payloads name types of their own.  The server finds the type by that name
 * alone, and a key keeps the type under which it was read.  So this module has types of these names,
 * too, if no other module has them.  Under them it writes what RedisBloom would, and reads all that
 * RedisBloom has written; so the way back stays open.  Only a filter that has one of the library's
 * own on top is none of RedisBloom's any more: it is written as above, after a number of items that
 * no filter has, and RedisBloom refuses to read that.
 */
#include "type.h"

#include "commands.h"
#include "dumps.h"
#include "foreign_data.h"
#include "image.h"
#include "memory.h"
#include "restore.h"
#include "settings.h"

#include <string.h>

enum { RDB_VERSION = 1, STATE_WHOLE = 1, STATE_RESTORING = 2 };

static const uint64_t no_number_of_items = UINT64_MAX;

static server_type *bloom_type, *cuckoo_type;
static server_type *foreign_bloom_type, *foreign_cuckoo_type; /* NULL: another module has them */

server_type *type_of(tamis_kind kind)
{
  return kind == TAMIS_CUCKOO ? cuckoo_type : bloom_type;
}

bool type_is_of(const server_type *type, tamis_kind kind)
{
  const server_type *foreign = kind == TAMIS_CUCKOO ? foreign_cuckoo_type : foreign_bloom_type;
  return type == type_of(kind) || (foreign && type == foreign);
}

/* ---- RDB: writing ---- */

/* Hands out the bytes of the filter, if the value has one. */
static void cut(server_io *io, const struct value *v, bool sparse, chunk_taker take, void *context)
{
  if (!value_has_image(v))
    return;
  memory_begin_save();
  const int result = image_cut(v, sparse, take, context);
  memory_end_save();
  if (result != TAMIS_OK) /* no memory is refused here, so nothing is known that leads to this */
    server.LogIOError(io, "warning", "a filter could not be saved: %s", tamis_strerror(result));
}

static int save_piece(void *io, unsigned char *with_head, size_t size, bool last)
{
  (void) last;
  server.SaveUnsigned(io, 1);
  server.SaveStringBuffer(io, (const char *) with_head + CHUNK_HEAD, size);
  return 0;
}

static void rdb_save(server_io *io, void *value)
{
  const struct value *v = value;
  server.SaveUnsigned(io, value_has_image(v) ? STATE_WHOLE : STATE_RESTORING);
  cut(io, v, false, save_piece, io);
  for (size_t i = 0; value_chunks(v) && i < v->chunks->count; i++) {
    server.SaveUnsigned(io, 1);
    server.SaveStringBuffer(io, (const char *) v->chunks->chunk[i],
                            CHUNK_HEAD + chunks_size_of(v->chunks, i));
  }
  server.SaveUnsigned(io, 0);
}

static void rdb_save_foreign(server_io *io, void *value)
{
  const struct value *v = value;
  if (v->foreign && foreign_is_whole(v->foreign) && !v->filter) {
    foreign_rdb_save(io, v->foreign);
    return;
  }
  server.SaveUnsigned(io, no_number_of_items);
  rdb_save(io, value);
}

/* ---- RDB: reading ---- */

struct rdb_reader {
  server_io *io;
  char *piece;
  size_t size, at;
  bool short_piece; /* the last one: no other may follow */
  bool ended;
};

/* The next string.  1: there is one; 0: the end; less: an error. */
static int next_piece(struct rdb_reader *r)
{
  if (r->ended)
    return 0;
  server.Free(r->piece);
  r->piece = NULL;
  r->size = r->at = 0;
  uint64_t more = server.LoadUnsigned(r->io);
  if (server.IsIOError(r->io) || more > 1)
    return -1;
  r->ended = !more;
  if (!more)
    return 0;
  r->piece = server.LoadStringBuffer(r->io, &r->size);
  return server.IsIOError(r->io) || !r->piece ? -1 : 1;
}

static int64_t read_pieces(void *reader, void *data, size_t size)
{
  struct rdb_reader *r = reader;
  if (r->at == r->size) {
    int found = next_piece(r);
    if (found <= 0)
      return found;
    if (!r->size || r->size > CHUNK_BYTES || r->short_piece)
      return -1;
    r->short_piece = r->size < CHUNK_BYTES;
  }
  size_t part = r->size - r->at < size ? r->size - r->at : size;
  memcpy(data, r->piece + r->at, part);
  r->at += part;
  return (int64_t) part;
}

static struct value *load_chunks(tamis_kind kind, struct rdb_reader *r, uint64_t limit, int *result)
{
  struct value *v = value_to_restore(kind);
  *result = v ? TAMIS_OK : TAMIS_ENOMEM;
  int found = 0;
  while (*result == TAMIS_OK && (found = next_piece(r)) > 0)
    if (restore_chunk(v, r->piece, r->size, limit) != RESTORE_GOES_ON)
      *result = TAMIS_ECORRUPT;
  if (*result == TAMIS_OK && (found < 0 || !v->chunks->count))
    *result = TAMIS_ECORRUPT;
  if (*result == TAMIS_OK)
    return v;
  value_free(v);
  return NULL;
}

static void *load_failed(server_io *io, int result)
{
  server.LogIOError(io, "warning", "a filter could not be read: %s", tamis_strerror(result));
  return NULL;
}

static void *load(server_io *io, int version, tamis_kind kind)
{
  struct rdb_reader r = {.io = io};
  struct value *v = NULL;
  int result = TAMIS_EUNSUPPORTED;
  if (version == RDB_VERSION) {
    uint64_t limit = limit_for(server.GetContextFromIO(io));
    uint64_t state = server.LoadUnsigned(io);
    result = TAMIS_ECORRUPT;
    if (!server.IsIOError(io) && state == STATE_WHOLE)
      result = image_read(kind, limit, read_pieces, &r, &v);
    else if (!server.IsIOError(io) && state == STATE_RESTORING)
      v = load_chunks(kind, &r, limit, &result);
  }
  server.Free(r.piece);
  return v ? v : load_failed(io, result);
}

static void *load_foreign(server_io *io, int version, tamis_kind kind)
{
  struct value *v = NULL;
  struct foreign *f;
  if (version > FOREIGN_RDB_VERSION)
    return load_failed(io, TAMIS_EUNSUPPORTED);
  const uint64_t first = server.LoadUnsigned(io);
  if (server.IsIOError(io))
    return load_failed(io, TAMIS_ECORRUPT);
  if (first == no_number_of_items && kind == TAMIS_BLOOM)
    return load(io, RDB_VERSION, kind);
  int result =
      foreign_rdb_load(io, version, kind, first, limit_for(server.GetContextFromIO(io)), &f);
  if (result == TAMIS_OK && !(v = value_of_foreign(f, NULL)))
    result = TAMIS_ENOMEM;
  return v ? v : load_failed(io, result);
}

static void *load_foreign_bloom(server_io *io, int version)
{
  return load_foreign(io, version, TAMIS_BLOOM);
}

static void *load_foreign_cuckoo(server_io *io, int version)
{
  return load_foreign(io, version, TAMIS_CUCKOO);
}

static void *load_bloom(server_io *io, int version)
{
  return load(io, version, TAMIS_BLOOM);
}

static void *load_cuckoo(server_io *io, int version)
{
  return load(io, version, TAMIS_CUCKOO);
}

/* ---- AOF ---- */

struct aof_writer {
  server_io *io;
  server_string *key;
  tamis_kind kind;
  uint64_t id, number;
};

static void emit_chunk(const struct aof_writer *w, const unsigned char *chunk, size_t size,
                       bool last)
{
  const struct chunk head = {.id = w->id, .number = w->number, .last = last};
  const char *command =
      command_name(w->kind, w->kind == TAMIS_CUCKOO ? "TAMIS.CF.LOADCHUNK" : "TAMIS.BF.LOADCHUNK");
  server.EmitAOF(w->io, command, "slb", w->key, chunk_cursor(&head), (const char *) chunk, size);
}

static int emit_piece(void *writer, unsigned char *with_head, size_t size, bool last)
{
  struct aof_writer *w = writer;
  if (!w->number)
    w->id = chunk_id(with_head + CHUNK_HEAD, size);
  chunk_seal(with_head, &(struct chunk){w->kind, w->id, w->number, last, size});
  emit_chunk(w, with_head, CHUNK_HEAD + size, last);
  w->number++;
  return 0;
}

static void aof_rewrite(server_io *io, server_string *key, void *value)
{
  const struct value *v = value;
  struct aof_writer w = {.io = io, .key = key, .kind = v->kind, .id = value_id(v)};
  cut(io, v, true, emit_piece, &w);
  for (; value_chunks(v) && w.number < v->chunks->count; w.number++)
    emit_chunk(&w, v->chunks->chunk[w.number], CHUNK_HEAD + chunks_size_of(v->chunks, w.number),
               false);
}

/* ---- the rest ---- */

static size_t mem_usage(const void *value)
{
  return value_memory(value);
}

/* How many blocks there are to free, about.  The server frees in the background what has more than
 * 64. */
static size_t free_effort(server_string *key, const void *value)
{
  enum { BYTES = 4096 };
  (void) key;
  return 1 + value_memory(value) / BYTES;
}

static int add_to_digest(void *digest, unsigned char *with_head, size_t size, bool last)
{
  (void) last;
  server.DigestAddStringBuffer(digest, (const char *) with_head + CHUNK_HEAD, size);
  return 0;
}

static void digest(server_digest *out, void *value)
{
  const struct value *v = value;
  if (value_has_image(v))
    (void) image_cut(v, true, add_to_digest, out);
  for (size_t i = 0; value_chunks(v) && i < v->chunks->count; i++)
    server.DigestAddStringBuffer(out, (const char *) v->chunks->chunk[i],
                                 CHUNK_HEAD + chunks_size_of(v->chunks, i));
  server.DigestEndSequence(out);
}

static void *copy(server_string *from, server_string *to, const void *value)
{
  int result;
  (void) from, (void) to;
  return image_copy(value, 0, &result);
}

static void *move(void *ctx, void *block)
{
  return server.DefragAlloc ? server.DefragAlloc(ctx, block) : NULL;
}

/* No command runs meanwhile, so no block is in use.  Those of a foreign filter are moved.  The
 * library's own filters know theirs by address, but small ones, of which there are many, can be
 * made anew: that is done where the server moves the value, which was allocated together with the
 * filter.  Large ones have pages of their own, between which nothing lies idle. */
static int defrag(server_defrag *ctx, server_string *key, void **value)
{
  enum { SMALL_BYTES = 256 << 10 };
  (void) key;
  void *moved = move(ctx, *value);
  struct value *v = *value = moved ? moved : *value;
  if (dumps_are_open(v))
    return 0;
  if (v->foreign) {
    void *f = move(ctx, v->foreign);
    v->foreign = f ? f : v->foreign;
    foreign_move(v->foreign, move, ctx);
  }
  if (moved && v->filter && value_memory(v) <= SMALL_BYTES)
    image_renew(v);
  return 0;
}

bool types_create(server_ctx *ctx)
{
  server_type_methods methods = {.version = TYPE_METHODS_VERSION,
                                 .rdb_load = load_bloom,
                                 .rdb_save = rdb_save,
                                 .aof_rewrite = aof_rewrite,
                                 .mem_usage = mem_usage,
                                 .digest = digest,
                                 .free = value_free,
                                 .free_effort = free_effort,
                                 .copy = copy,
                                 .defrag = defrag};
  bloom_type = server.CreateDataType(ctx, "tamis--bf", RDB_VERSION, &methods);
  methods.rdb_load = load_cuckoo;
  cuckoo_type = server.CreateDataType(ctx, "tamis--cf", RDB_VERSION, &methods);
  methods.rdb_save = rdb_save_foreign;
  methods.rdb_load = load_foreign_bloom;
  foreign_bloom_type = server.CreateDataType(ctx, "MBbloom--", FOREIGN_RDB_VERSION, &methods);
  methods.rdb_load = load_foreign_cuckoo;
  foreign_cuckoo_type = server.CreateDataType(ctx, "MBbloomCF", FOREIGN_RDB_VERSION, &methods);
  if (!foreign_bloom_type || !foreign_cuckoo_type)
    server.Log(ctx, "notice", "another module has RedisBloom's types, and reads its files");
  return bloom_type && cuckoo_type;
}
