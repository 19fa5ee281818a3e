/* SPDX-License-Identifier: MIT
 *
 * A module that has names which tamis-redis has, too, as a server has that comes with filters of its
 * own: some commands BF.*, and the type that RedisBloom's files name.
 */
#include "server_api.h"

#include <string.h>

static int say_other(server_ctx *ctx, server_string **argv, int argc)
{
  (void) argv, (void) argc;
  return server.ReplyWithSimpleString(ctx, "other");
}

static void *load(server_io *io, int version)
{
  (void) io, (void) version;
  return NULL;
}

static void save(server_io *io, void *value)
{
  (void) io, (void) value;
}

static void free_value(void *value)
{
  (void) value;
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(server_ctx *ctx, server_string **argv,
                                                              int argc);

int RedisModule_OnLoad(server_ctx *ctx, server_string **argv, int argc)
{
  static const char *const names[] = {"bf.reserve", "bf.add", "bf.exists", "bf.madd"};
  const server_type_methods methods = {
      .version = TYPE_METHODS_VERSION, .rdb_load = load, .rdb_save = save, .free = free_value};
  (void) argv, (void) argc;
  if (server_api_find(ctx))
    return SERVER_ERR;
  server.SetModuleAttribs(ctx, "bf", 1, SERVER_API_VERSION);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (server.CreateCommand(ctx, names[i], say_other, "write", 1, 1, 1) != SERVER_OK)
      return SERVER_ERR;
  return server.CreateDataType(ctx, "MBbloom--", 4, &methods) ? SERVER_OK : SERVER_ERR;
}
