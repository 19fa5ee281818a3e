/* SPDX-License-Identifier: MIT
 *
 * RESERVE, and the commands that add and remove items.
 */
#include "add.h"
#include "commands.h"
#include "keys.h"
#include "reservation.h"
#include "settings.h"
#include "window.h"

int command_reserve(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  bool bloom = kind == TAMIS_BLOOM;
  struct reservation w;
  struct value *v;
  reservation_init(&w, kind);
  const char *error = bloom ? reservation_read_rate(&w, argv[2]) : NULL;
  if (!error)
    error = reservation_read_capacity(&w, argv[bloom ? 3 : 2]);
  if (!error)
    error = reservation_read(&w, FORM_RESERVE, argv, argc, bloom ? 4 : 3);
  if (error)
    return reservation_reply_error(ctx, error);
  enum key_state state = key_find(ctx, argv[1], KEY_READ | KEY_WRITE, kind, &v);
  if (state != KEY_EMPTY)
    return reply_state(ctx, state);
  return reservation_create(ctx, argv[1], &w) ? server.ReplyWithSimpleString(ctx, "OK") : SERVER_OK;
}

/* ---- adding ---- */

/* The filter of a command that adds, created where there is none: as `w` says or, where that is NULL, as
 * the settings say.  NULL: the command was answered. */
static struct value *filter_to_fill(server_ctx *ctx, tamis_kind kind, server_string *key,
                                    struct reservation *w)
{
  struct value *v;
  struct reservation usual;
  enum key_state state = key_find(ctx, key, KEY_READ | KEY_WRITE, kind, &v);
  const bool usable = state == KEY_WHOLE || (state == KEY_EMPTY && w && !w->no_create);
  const char *error = w && usable ? window_refuses(v ? &v->traits : &w->traits, &w->life) : NULL;
  if (error) {
    server.ReplyWithError(ctx, error);
    return NULL;
  }
  if (state == KEY_WHOLE) {
    window_tick(ctx, key, v);
    return v;
  }
  if (!w)
    reservation_init(w = &usual, kind);
  if (state == KEY_EMPTY && !w->no_create)
    return reservation_create(ctx, key, w);
  reply_state(ctx, state);
  return NULL;
}

static int add_single(server_ctx *ctx, tamis_kind kind, server_string **argv, bool unique,
                      bool verbatim)
{
  int result;
  struct value *v = filter_to_fill(ctx, kind, argv[1], NULL);
  if (!v)
    return SERVER_OK;
  const struct add_mode mode = {.unique = unique, .stops = true, .verbatim = verbatim};
  add_items(ctx, argv[1], v, &argv[2], 1, &mode, &result);
  return result < 0 ? server.ReplyWithError(ctx, add_error(v, result))
                    : server.ReplyWithBool(ctx, result == TAMIS_OK);
}

int command_add(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  (void) argc;
  return add_single(ctx, kind, argv, kind == TAMIS_BLOOM, true);
}

int command_addnx(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  (void) argc;
  return add_single(ctx, kind, argv, true, false);
}

/* Of a cuckoo filter, -1 says that an item found no room.  Where items may be present already,
 * numbers are numbers in RESP3, too; elsewhere such an item gets false there. */
static void reply_added(server_ctx *ctx, const struct value *v, int result, bool unique)
{
  bool cuckoo = v->kind == TAMIS_CUCKOO;
  if (cuckoo && result == TAMIS_EFULL && (unique || !speaks_resp3(ctx)))
    server.ReplyWithLongLong(ctx, -1);
  else if (cuckoo && result == TAMIS_EFULL)
    server.ReplyWithBool(ctx, false);
  else if (result < 0)
    server.ReplyWithError(ctx, add_error(v, result));
  else if (cuckoo && unique)
    server.ReplyWithLongLong(ctx, result == TAMIS_OK);
  else
    server.ReplyWithBool(ctx, result == TAMIS_OK);
}

/* Of a part of the items.  Returns how many replies there are: a Bloom filter that is full stays full,
 * so the replies end with the error of the first item that found no room. */
static int number_of_replies(const struct value *v, const int *results, int tried)
{
  for (int i = 0; i < tried && v->kind == TAMIS_BLOOM; i++)
    if (results[i] < 0)
      return i + 1;
  return tried;
}

/* A server writes an array faster whose length it knows before. */
static int add_several(server_ctx *ctx, struct reservation *w, server_string *key,
                       server_string **items, int n, bool unique, bool verbatim)
{
  const bool at_once = n <= ADD_BATCH;
  struct add_mode mode = {unique, w->kind == TAMIS_BLOOM, verbatim && at_once, w->life.ends, 0};
  int results[ADD_BATCH], replies = 0, last = TAMIS_OK;
  struct value *v = filter_to_fill(ctx, w->kind, key, w);
  if (!v)
    return SERVER_OK;
  if (!n)
    return server.ReplyWithArray(ctx, 0);
  if (mode.ends)
    mode.periods = window_periods_of(&v->traits, &w->life);
  if (!at_once)
    server.ReplyWithArray(ctx, LENGTH_LATER);
  for (int done = 0, part; done < n && !(mode.stops && last < 0); done += part) {
    part = n - done < ADD_BATCH ? n - done : ADD_BATCH;
    const int tried = add_items(ctx, key, v, items + done, part, &mode, results);
    const int more = number_of_replies(v, results, tried);
    if (at_once)
      server.ReplyWithArray(ctx, more);
    for (int i = 0; i < more; i++)
      reply_added(ctx, v, results[i], unique);
    replies += more;
    last = results[more - 1];
  }
  if (!at_once)
    server.ReplySetArrayLength(ctx, replies);
  return SERVER_OK;
}

int command_madd(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct reservation w;
  reservation_init(&w, kind);
  return add_several(ctx, &w, argv[1], argv + 2, argc - 2, true, true);
}

/* MADDEX key seconds item ... */
int command_maddex(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct reservation w;
  reservation_init(&w, kind);
  const char *error = reservation_read_ex(&w, argv[2]);
  if (error)
    return server.ReplyWithError(ctx, error);
  return add_several(ctx, &w, argv[1], argv + 3, argc - 3, true, false);
}

static int insert(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc, bool unique)
{
  struct reservation w;
  reservation_init(&w, kind);
  const char *error = reservation_read(&w, FORM_INSERT, argv, argc, 2);
  if (!error && w.scale_to && !must_obey(ctx))
    error = reservation_refuses_scale(&w);
  if (error)
    return reservation_reply_error(ctx, error);
  return add_several(ctx, &w, argv[1], argv + w.items, argc - w.items, unique, false);
}

int command_insert(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  return insert(ctx, kind, argv, argc, kind == TAMIS_BLOOM);
}

int command_insertnx(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  return insert(ctx, kind, argv, argc, true);
}

/* ---- removing ---- */

int command_del(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  size_t size;
  (void) argc;
  enum key_state state = key_find(ctx, argv[1], KEY_READ | KEY_WRITE, kind, &v);
  if (state != KEY_WHOLE)
    return state == KEY_RESTORING ? reply_state(ctx, state)
                                  : server.ReplyWithError(ctx, "ERR Not found");
  window_tick(ctx, argv[1], v);
  const char *item = server.StringPtrLen(argv[2], &size);
  int result =
      v->foreign ? foreign_remove(v->foreign, item, size) : tamis_remove(v->filter, item, size);
  if (result < 0)
    return reply_error(ctx, "ERR %s", tamis_strerror(result));
  if (result == TAMIS_OK) {
    v->count -= v->count > 0;
    v->traits.deleted += v->traits.deleted < INT64_MAX; /* no image has more */
    server.ReplicateVerbatim(ctx);
    key_changed(ctx, argv[1], "cuckoo.del");
  }
  return server.ReplyWithBool(ctx, result == TAMIS_OK);
}

/* A filter that removes leave behind gives memory back by itself.  As in RedisBloom, removes are
 * counted from here on. */
int command_compact(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  (void) argc;
  enum key_state state = key_find(ctx, argv[1], KEY_READ | KEY_WRITE, kind, &v);
  if (state == KEY_RESTORING)
    return reply_state(ctx, state);
  if (state != KEY_WHOLE)
    return server.ReplyWithError(ctx, "ERR Cuckoo filter was not found");
  if (v->traits.deleted) {
    v->traits.deleted = 0;
    if (v->foreign)
      v->foreign->deleted = 0;
    server.ReplicateVerbatim(ctx);
    key_changed(ctx, argv[1], "cuckoo.compact");
  }
  return server.ReplyWithSimpleString(ctx, "OK");
}
