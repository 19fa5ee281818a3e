/* SPDX-License-Identifier: MIT
 *
 * SCANDUMP and LOADCHUNK, and valkey-bloom's LOAD.
 */
#include "commands.h"
#include "dumps.h"
#include "keys.h"
#include "restore.h"
#include "settings.h"
#include "valkey_dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- SCANDUMP ---- */

static int reply_no_cursor(server_ctx *ctx, tamis_kind kind)
{
  return server.ReplyWithError(ctx, kind == TAMIS_CUCKOO ? "ERR Invalid position"
                                                         : "ERR Second argument must be numeric");
}

/* The two families have different empty strings there. */
static int reply_end(server_ctx *ctx, tamis_kind kind)
{
  server.ReplyWithArray(ctx, 2);
  server.ReplyWithLongLong(ctx, 0);
  return kind == TAMIS_CUCKOO ? server.ReplyWithNull(ctx)
                              : server.ReplyWithStringBuffer(ctx, "", 0);
}

int command_scandump(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  long long cursor;
  (void) argc;
  if (server.StringToLongLong(argv[2], &cursor) != SERVER_OK ||
      (kind == TAMIS_CUCKOO && cursor < 0))
    return reply_no_cursor(ctx, kind);
  enum key_state state = key_find(ctx, argv[1], KEY_READ, kind, &v);
  if (state != KEY_WHOLE)
    return reply_state(ctx, state);
  /* As RedisBloom does: a cuckoo filter without items has no chunks, and numbers that are no
   * cursors are beyond the last one. */
  const bool ends = (cursor & CURSOR_END) == CURSOR_END;
  if (cursor ? ends || cursor < CURSOR_FROM : kind == TAMIS_CUCKOO && !v->count) {
    dumps_have_ended(v, cursor);
    return reply_end(ctx, kind);
  }
  return dumps_reply(ctx, v, cursor);
}

/* ---- LOADCHUNK ---- */

/* A chunk is refused in the words of RedisBloom, after which the reason stands, if there is more to
 * say. */
static int reply_bad(server_ctx *ctx, tamis_kind kind, const char *reason)
{
  const char *text = kind == TAMIS_CUCKOO ? "Couldn't load chunk!" : "received bad data";
  return reply_error(ctx, reason ? "ERR %s: %s" : "ERR %s", text, reason);
}

static int reply_out_of_order(server_ctx *ctx, tamis_kind kind, const struct value *v)
{
  char reason[128];
  if (v && v->foreign)
    (void) snprintf(reason, sizeof reason,
                    "a dump that RedisBloom made, of which the chunk that begins at byte %" PRIu64
                    " of %" PRIu64 " comes next",
                    v->foreign->arrived, v->foreign->bytes);
  else
    (void) snprintf(reason, sizeof reason, "chunk number %zu comes next, from 0",
                    v && value_chunks(v) ? v->chunks->count : 0);
  return reply_bad(ctx, kind, reason);
}

static int reply_refusal(server_ctx *ctx, tamis_kind kind, const struct value *v,
                         enum restore_result result)
{
  switch (result) {
  case RESTORE_OTHER_KIND:
    return reply_bad(ctx, kind, "a chunk of a filter of the other kind");
  case RESTORE_OTHER_DUMP:
    return reply_bad(ctx, kind, "a chunk of another dump; delete the key to begin again");
  case RESTORE_OUT_OF_ORDER:
    return reply_out_of_order(ctx, kind, v);
  case RESTORE_TOO_LARGE:
    return server.ReplyWithError(ctx, "ERR the filter has more bytes than tamis.max-bytes allows");
  case RESTORE_NO_MEMORY:
    return server.ReplyWithError(ctx, "ERR Insufficient memory");
  case RESTORE_NO_FILTER:
    return reply_bad(ctx, kind, "the chunks are no filter");
  default:
    return reply_bad(ctx, kind, NULL);
  }
}

/* What is wrong with a chunk, whatever the key has.  The cursor says again what the chunk says: a
 * client that has mixed them up learns of it. */
enum chunk_fault { CHUNK_SOUND, CHUNK_DAMAGED, CHUNK_OF_OTHER_CURSOR };

static enum chunk_fault fault_of(long long cursor, const char *data, size_t size)
{
  struct chunk chunk;
  if (!chunk_parse(data, size, &chunk))
    return CHUNK_DAMAGED;
  return cursor == chunk_cursor(&chunk) ? CHUNK_SOUND : CHUNK_OF_OTHER_CURSOR;
}

/* RedisBloom's cuckoo filters say more of a chunk that is none: whether there was a filter, and
 * whether the cursor is that of its first chunk, which is 1 there. */
static int reply_fault(server_ctx *ctx, tamis_kind kind, enum key_state state, long long cursor,
                       enum chunk_fault fault)
{
  if (fault == CHUNK_OF_OTHER_CURSOR)
    return reply_bad(ctx, kind, "the cursor is that of another chunk");
  if (cursor != 1 && state != KEY_WHOLE)
    return reply_bad(ctx, kind,
                     "it is none of this module's; of a dump that RedisBloom made, the chunk with "
                     "cursor 1 comes first");
  if (kind == TAMIS_CUCKOO && state == KEY_EMPTY)
    return server.ReplyWithError(ctx, "ERR Couldn't create filter!");
  if (kind == TAMIS_CUCKOO && state == KEY_WHOLE && cursor == 1)
    return reply_state(ctx, state);
  return reply_bad(ctx, kind, NULL);
}

/* A key that is empty gets a value from the first chunk of any dump. */
static struct value *begin(server_ctx *ctx, tamis_kind kind, enum chunk_fault fault,
                           const char *data, size_t size, enum restore_result *result)
{
  if (fault != CHUNK_SOUND)
    return restore_begin_foreign(kind, data, size, limit_for(ctx), result);
  struct value *v = value_to_restore(kind);
  *result = v ? restore_chunk(v, data, size, limit_for(ctx)) : RESTORE_NO_MEMORY;
  if (*result == RESTORE_GOES_ON || *result == RESTORE_DONE)
    return v;
  value_free(v);
  return NULL;
}

int command_loadchunk(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  long long cursor;
  size_t size;
  enum restore_result result;
  (void) argc;
  if (server.StringToLongLong(argv[2], &cursor) != SERVER_OK || (kind == TAMIS_CUCKOO && !cursor))
    return reply_no_cursor(ctx, kind);
  const char *data = server.StringPtrLen(argv[3], &size);
  const enum chunk_fault fault = fault_of(cursor, data, size);
  const enum key_state state = key_find(ctx, argv[1], KEY_READ | KEY_WRITE, kind, &v);
  if (state == KEY_WHOLE && restore_had(v, cursor, data, size))
    return server.ReplyWithSimpleString(ctx, "OK");
  if (state == KEY_OTHER_TYPE || (state == KEY_WHOLE && fault == CHUNK_SOUND))
    return reply_state(ctx, state);
  const bool foreign =
      state == KEY_RESTORING ? v->foreign != NULL : fault == CHUNK_DAMAGED && cursor == 1;
  if (state == KEY_WHOLE || (fault != CHUNK_SOUND && !foreign))
    return reply_fault(ctx, kind, state, cursor, fault);
  if (state == KEY_EMPTY) {
    struct value *made = begin(ctx, kind, fault, data, size, &result);
    if (made)
      key_store(ctx, argv[1], made);
  } else {
    result = foreign ? restore_foreign_chunk(v, cursor, data, size)
                     : restore_chunk(v, data, size, limit_for(ctx));
  }
  if (result == RESTORE_DAMAGED)
    return reply_fault(ctx, kind, state, cursor, fault);
  const bool taken = result == RESTORE_GOES_ON || result == RESTORE_DONE;
  if (!taken && result != RESTORE_REPEATED)
    return reply_refusal(ctx, kind, v, result);
  if (taken) {
    server.ReplicateVerbatim(ctx);
    key_changed(ctx, argv[1], kind == TAMIS_CUCKOO ? "cuckoo.loadchunk" : "bloom.loadchunk");
  }
  return server.ReplyWithSimpleString(ctx, "OK");
}

/* ---- LOAD ---- */

/* In the words of valkey-bloom, where it has some. */
static const char *load_error(int result)
{
  switch (result) {
  case TAMIS_EUNSUPPORTED:
    return "ERR bloom object decoding failed. Unsupported version";
  case TAMIS_EFULL:
    return "ERR operation exceeds bloom object memory limit";
  case TAMIS_ENOMEM:
    return "ERR Insufficient memory";
  default:
    return "ERR bloom object decoding failed";
  }
}

int command_load(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  struct foreign *f;
  size_t size;
  (void) argc;
  const enum key_state state = key_find(ctx, argv[1], KEY_READ | KEY_WRITE, kind, &v);
  if (state == KEY_OTHER_TYPE)
    return reply_state(ctx, state);
  if (state != KEY_EMPTY)
    return server.ReplyWithError(ctx, "BUSYKEY Target key name already exists.");
  const char *data = server.StringPtrLen(argv[2], &size);
  int result = valkey_dump_read(data, size, limit_for(ctx), &f);
  if (result == TAMIS_OK && !(v = value_of_foreign(f, NULL)))
    result = TAMIS_ENOMEM;
  if (result != TAMIS_OK)
    return server.ReplyWithError(ctx, load_error(result));
  key_store(ctx, argv[1], v);
  server.ReplicateVerbatim(ctx);
  key_changed(ctx, argv[1], "bloom.reserve");
  return server.ReplyWithSimpleString(ctx, "OK");
}
