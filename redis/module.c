/* SPDX-License-Identifier: MIT
 *
 * tamis-redis: Bloom and cuckoo filters for Redis and Valkey, as the commands BF.* and CF.*
 *
 *    module.c            what happens when the server loads the module
 *    server_api.*        the part of the server's interface that is used
 *    settings.*          what the operator has set
 *    commands.*          the table of the commands
 *    *_commands.c        what the commands do; so do merge.c, and window.* for ADVANCE
 *    reservation.*, add.*       creating filters, adding items; growth.*: how far they grow
 *    keys.*              finding a key's value, and replies
 *    type.*              the types of keys: RDB, AOF, memory, copies
 *    value.*             what a key holds
 *    image.*, chunks.*   its bytes, and these cut into chunks
 *    restore.*           a filter from chunks
 *    foreign.*           filters that RedisBloom or valkey-bloom wrote; foreign_data.*,
 *                        valkey_dump.*: their bytes
 *    memory.*            the server's allocator
 *    figures.*           what INFO tells
 *
 * Only the server's main thread runs commands, and only it is in most of this code.  Values may be
 * freed by a thread of the server's, and a child of a fork saves them.
 */
#include "commands.h"
#include "figures.h"
#include "memory.h"
#include "settings.h"
#include "type.h"

#include <stdio.h>

enum { VERSION = TAMIS_VERSION_MAJOR * 10000 + TAMIS_VERSION_MINOR * 100 + TAMIS_VERSION_PATCH };

/* Where even the function that logs is missing, the server only says that the module did not
 * load. */
static int refuse(server_ctx *ctx, const char *reason, const char *what)
{
  if (server.Log)
    server.Log(ctx, "warning", "the module does not load: %s%s", reason, what);
  return SERVER_ERR;
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(server_ctx *ctx, server_string **argv,
                                                              int argc);

int RedisModule_OnLoad(server_ctx *ctx, server_string **argv, int argc)
{
  const char *missing = server_api_find(ctx);
  if (missing)
    return refuse(ctx, "this server lacks a function of its module interface: ", missing);
  if (server.IsModuleNameBusy("tamis"))
    return refuse(ctx, "it is loaded already", "");
  server.SetModuleAttribs(ctx, "tamis", VERSION, SERVER_API_VERSION);
  memory_init();
  server.SetModuleOptions(ctx, OPTION_HANDLE_IO_ERRORS | OPTION_NO_IMPLICIT_SIGNAL |
                                   OPTION_HANDLE_ASYNC_LOAD);
  if (!settings_read(ctx, argv, argc))
    return refuse(ctx, "its arguments are NAME VALUE ...", "");
  if (!types_create(ctx))
    return refuse(ctx, "its types could not be created", "");
  if (!commands_create(ctx))
    return refuse(
        ctx, "its commands could not be created; another module may have some of BF.* or CF.*", "");
  if (!figures_register(ctx))
    return refuse(ctx, "its figures were refused", "");
  return settings_register(ctx) ? SERVER_OK : refuse(ctx, "its settings were refused", "");
}
