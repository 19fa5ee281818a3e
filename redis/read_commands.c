/* SPDX-License-Identifier: MIT
 *
 * The commands that look items up.  A key that is missing, or that holds something else, contains
 * none.
 */
#include "commands.h"
#include "keys.h"

enum { BATCH = 256 };

/* Whether the command goes on, with *out NULL if there is no filter. */
static bool filter_to_search(server_ctx *ctx, server_string *key, tamis_kind kind,
                             struct value **out)
{
  enum key_state state = key_find(ctx, key, KEY_READ, kind, out);
  if (state == KEY_RESTORING)
    reply_state(ctx, state);
  return state != KEY_RESTORING;
}

/* With WITHKEY, null says that there is no filter at the key. */
int command_exists(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  size_t size;
  const bool with_key = argc == 4 && word_is(argv[3], "WITHKEY");
  if (argc > 3 && !with_key)
    return server.WrongArity(ctx);
  if (!filter_to_search(ctx, argv[1], kind, &v))
    return SERVER_OK;
  if (!v && with_key)
    return server.ReplyWithNull(ctx);
  const char *item = server.StringPtrLen(argv[2], &size);
  return server.ReplyWithBool(ctx, v && value_contains(v, item, size));
}

static void look_up(server_ctx *ctx, const struct value *v, server_string **items, int n)
{
  tamis_key keys[BATCH];
  bool found[BATCH] = {false};
  for (int i = 0; v && i < n; i++)
    keys[i].data = server.StringPtrLen(items[i], &keys[i].len);
  if (v && !v->foreign)
    (void) tamis_contains_many(v->filter, keys, (size_t) n, found);
  for (int i = 0; v && v->foreign && i < n; i++)
    found[i] = value_contains(v, keys[i].data, keys[i].len);
  for (int i = 0; i < n; i++)
    server.ReplyWithBool(ctx, found[i]);
}

int command_mexists(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  if (!filter_to_search(ctx, argv[1], kind, &v))
    return SERVER_OK;
  server.ReplyWithArray(ctx, argc - 2);
  for (int i = 2; i < argc; i += BATCH)
    look_up(ctx, v, argv + i, argc - i < BATCH ? argc - i : BATCH);
  return SERVER_OK;
}

int command_count(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  size_t size;
  (void) argc;
  if (!filter_to_search(ctx, argv[1], kind, &v))
    return SERVER_OK;
  const char *item = server.StringPtrLen(argv[2], &size);
  return server.ReplyWithLongLong(ctx, v ? (long long) value_count(v, item, size) : 0);
}
