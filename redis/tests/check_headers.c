/* SPDX-License-Identifier: MIT
 *
 * Whether what the module declares of its server's interface (server_api.h) is what a server's own
 * header says.  It only has to compile:
 *
 *    cc -fsyntax-only -Iinclude -Iredis -I SERVER/src redis/tests/check_headers.c
 *
 * with the sources of Redis (7.0 to 8) or Valkey (8, 9) in SERVER.  The servers' packages have no
 * headers, so the build does this only where TAMIS_SERVER_HEADERS is the folder SERVER/src.  Redis 7.0
 * lacks some functions that a server may lack.
 */
#include "server_api.h"

/* Valkey's header for modules of Redis maps most names to its own. */
#include "redismodule.h"

#define SAME(name, value) _Static_assert((name) == (value), #name)

SAME(SERVER_OK, REDISMODULE_OK);
SAME(SERVER_ERR, REDISMODULE_ERR);
SAME(SERVER_API_VERSION, REDISMODULE_APIVER_1);
SAME(KEY_READ, REDISMODULE_READ);
SAME(KEY_WRITE, REDISMODULE_WRITE);
SAME(KEY_TYPE_EMPTY, REDISMODULE_KEYTYPE_EMPTY);
SAME(LENGTH_LATER, REDISMODULE_POSTPONED_LEN);
SAME(OPTION_HANDLE_IO_ERRORS, REDISMODULE_OPTIONS_HANDLE_IO_ERRORS);
SAME(OPTION_NO_IMPLICIT_SIGNAL, REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED);
SAME(OPTION_HANDLE_ASYNC_LOAD, REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD);
SAME(CONTEXT_SLAVE, REDISMODULE_CTX_FLAGS_SLAVE);
SAME(CONTEXT_REPLICATED, REDISMODULE_CTX_FLAGS_REPLICATED);
SAME(CONTEXT_LOADING, REDISMODULE_CTX_FLAGS_LOADING);
SAME(CONTEXT_RESP3, REDISMODULE_CTX_FLAGS_RESP3);
SAME(CONTEXT_ASYNC_LOADING, REDISMODULE_CTX_FLAGS_ASYNC_LOADING);
SAME(NOTIFY_GENERIC, REDISMODULE_NOTIFY_GENERIC);
SAME(NOTIFY_MODULE, REDISMODULE_NOTIFY_MODULE);
SAME(CONFIG_SENSITIVE, REDISMODULE_CONFIG_SENSITIVE);
SAME(CONFIG_MEMORY, REDISMODULE_CONFIG_MEMORY);
SAME(BEGIN_AT_INDEX, REDISMODULE_KSPEC_BS_INDEX);
SAME(FIND_RANGE, REDISMODULE_KSPEC_FK_RANGE);
SAME(KEY_SPEC_RO, REDISMODULE_CMD_KEY_RO);
SAME(KEY_SPEC_RW, REDISMODULE_CMD_KEY_RW);
SAME(KEY_SPEC_ACCESS, REDISMODULE_CMD_KEY_ACCESS);
SAME(KEY_SPEC_UPDATE, REDISMODULE_CMD_KEY_UPDATE);
SAME(KEY_SPEC_INSERT, REDISMODULE_CMD_KEY_INSERT);
SAME(KEY_SPEC_DELETE, REDISMODULE_CMD_KEY_DELETE);

/* Of the methods, the module fills those of version 3, which stand first. */
#define SAME_PLACE(ours, member, theirs, their_member) \
  SAME(offsetof(ours, member), offsetof(theirs, their_member))

SAME_PLACE(server_type_methods, rdb_load, RedisModuleTypeMethods, rdb_load);
SAME_PLACE(server_type_methods, rdb_save, RedisModuleTypeMethods, rdb_save);
SAME_PLACE(server_type_methods, aof_rewrite, RedisModuleTypeMethods, aof_rewrite);
SAME_PLACE(server_type_methods, mem_usage, RedisModuleTypeMethods, mem_usage);
SAME_PLACE(server_type_methods, digest, RedisModuleTypeMethods, digest);
SAME_PLACE(server_type_methods, free, RedisModuleTypeMethods, free);
SAME_PLACE(server_type_methods, free_effort, RedisModuleTypeMethods, free_effort);
SAME_PLACE(server_type_methods, unlink, RedisModuleTypeMethods, unlink);
SAME_PLACE(server_type_methods, copy, RedisModuleTypeMethods, copy);
SAME_PLACE(server_type_methods, defrag, RedisModuleTypeMethods, defrag);
_Static_assert(sizeof(server_type_methods) <= sizeof(RedisModuleTypeMethods), "version 3");
SAME(sizeof(server_key_spec), sizeof(RedisModuleCommandKeySpec));
SAME_PLACE(server_key_spec, flags, RedisModuleCommandKeySpec, flags);
SAME_PLACE(server_key_spec, begin_search, RedisModuleCommandKeySpec, begin_search_type);
SAME_PLACE(server_key_spec, begin, RedisModuleCommandKeySpec, bs);
SAME_PLACE(server_key_spec, find_keys, RedisModuleCommandKeySpec, find_keys_type);
SAME_PLACE(server_key_spec, find, RedisModuleCommandKeySpec, fk);
SAME(sizeof(server_command_history), sizeof(RedisModuleCommandHistoryEntry));
SAME(sizeof(server_command_arg), sizeof(RedisModuleCommandArg));
SAME(sizeof(server_command_info), sizeof(RedisModuleCommandInfo));
SAME_PLACE(server_command_info, summary, RedisModuleCommandInfo, summary);
SAME_PLACE(server_command_info, arity, RedisModuleCommandInfo, arity);
SAME_PLACE(server_command_info, key_specs, RedisModuleCommandInfo, key_specs);

/* The header has each function that the module looks for. */
#define IS_THERE(result, name, parameters, optional) (void) sizeof(RedisModule_##name);
void check_functions(void);
void check_functions(void)
{
  SERVER_FUNCTIONS(IS_THERE)
}
