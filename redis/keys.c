/* SPDX-License-Identifier: MIT */
#include "keys.h"

#include "type.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum key_state key_find(server_ctx *ctx, server_string *name, int mode, tamis_kind kind,
                        struct value **out)
{
  enum key_state state = KEY_OTHER_TYPE;
  server_key *key = server.OpenKey(ctx, name, mode);
  const server_type *type = key ? server.ModuleTypeGetType(key) : NULL;
  *out = NULL;
  if (type && type_is_of(type, kind)) {
    *out = server.ModuleTypeGetValue(key);
    state = value_is_whole(*out) ? KEY_WHOLE : KEY_RESTORING;
  } else if (!key || server.KeyType(key) == KEY_TYPE_EMPTY) {
    state = KEY_EMPTY;
  }
  if (key)
    server.CloseKey(key); /* the value stays where it is as long as the command runs */
  return state;
}

void key_store(server_ctx *ctx, server_string *name, struct value *value)
{
  server_key *key = server.OpenKey(ctx, name, KEY_READ | KEY_WRITE);
  (void) server.ModuleTypeSetValue(key, type_of(value->kind), value);
  server.CloseKey(key);
}

void key_changed(server_ctx *ctx, server_string *name, const char *event)
{
  (void) server.SignalModifiedKey(ctx, name);
  (void) server.NotifyKeyspaceEvent(ctx, NOTIFY_MODULE, event, name);
}

int reply_state(server_ctx *ctx, enum key_state state)
{
  switch (state) {
  case KEY_EMPTY:
    return server.ReplyWithError(ctx, "ERR not found");
  case KEY_RESTORING:
    return server.ReplyWithError(
        ctx, "ERR the filter is being restored; LOADCHUNK has not had all chunks");
  case KEY_OTHER_TYPE:
    return server.ReplyWithError(
        ctx, "WRONGTYPE Operation against a key holding the wrong kind of value");
  default:
    return server.ReplyWithError(ctx, "ERR item exists");
  }
}

int reply_error(server_ctx *ctx, const char *format, ...)
{
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  /* clang-tidy 14 overlooks va_start: */
  (void) vsnprintf(text, sizeof text, format, arguments); /* NOLINT(*-valist.Uninitialized) */
  va_end(arguments);
  return server.ReplyWithError(ctx, text);
}

bool speaks_resp3(server_ctx *ctx)
{
  return (server.GetContextFlags(ctx) & CONTEXT_RESP3) != 0;
}

bool word_is(const server_string *word, const char *name)
{
  size_t size;
  const char *text = server.StringPtrLen(word, &size);
  return size == strlen(name) && strncasecmp(text, name, size) == 0;
}
