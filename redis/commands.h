/* SPDX-License-Identifier: MIT
 *
 * The commands.  Each is for both kinds of filters where its name does not begin with one.
 */
#ifndef TAMIS_REDIS_COMMANDS_H
#define TAMIS_REDIS_COMMANDS_H

#include "server_api.h"
#include "tamis/tamis.h"

/* Creates all of them, each with the prefix TAMIS. and, where no other module has BF.* or CF.*,
 * without it.  False: the server refuses. */
bool commands_create(server_ctx *ctx);

/* The name under which a command goes to replicas and files: without the prefix, if that is this
 * module's.  `name` has it. */
const char *command_name(tamis_kind kind, const char *name);

/* A handler's arguments, of which there are as many as the table says, and the kind that the command's
 * family has. */
#define HANDLER(name) int name(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)

HANDLER(command_reserve);
HANDLER(command_add);
HANDLER(command_addnx);
HANDLER(command_madd);
HANDLER(command_maddex);
HANDLER(command_insert);
HANDLER(command_insertnx);
HANDLER(command_exists);
HANDLER(command_mexists);
HANDLER(command_count);
HANDLER(command_del);
HANDLER(command_card);
HANDLER(command_compact);
HANDLER(command_info);
HANDLER(command_debug);
HANDLER(command_merge);
HANDLER(command_advance);
HANDLER(command_scandump);
HANDLER(command_loadchunk);
HANDLER(command_load);

#endif /* TAMIS_REDIS_COMMANDS_H */
