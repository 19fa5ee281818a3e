/* SPDX-License-Identifier: MIT
 *
 * The part of the module interface of Redis and Valkey that this module uses.
 *
 * The servers' own header comes with no binary package, so what is needed of it is declared here.
 * It is an interface of names: when the server loads the module, it passes a context whose first
 * word is a function, and that finds every other function by its name.  Types of the server are
 * never looked into.  The structs that the module fills are versioned, and the server reads no more
 * of them than that version has.
 *
 * Functions marked OPTIONAL are missing in some servers.  They are NULL there, and what calls them
 * asks first.  Where another one is missing, the module does not load.
 */
#ifndef TAMIS_REDIS_SERVER_API_H
#define TAMIS_REDIS_SERVER_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct server_ctx server_ctx;
typedef struct server_key server_key;
typedef struct server_string server_string;
typedef struct server_io server_io;
typedef struct server_digest server_digest;
typedef struct server_type server_type;
typedef struct server_defrag server_defrag;
typedef struct server_command server_command;
typedef struct server_info server_info;

enum { SERVER_OK = 0, SERVER_ERR = 1, SERVER_API_VERSION = 1 };

/* OpenKey */
enum { KEY_READ = 1 << 0, KEY_WRITE = 1 << 1 };
enum { KEY_TYPE_EMPTY = 0 };
/* ReplyWithArray */
enum { LENGTH_LATER = -1 };
/* SetModuleOptions */
enum {
  OPTION_HANDLE_IO_ERRORS = 1 << 0,
  OPTION_NO_IMPLICIT_SIGNAL = 1 << 1,
  OPTION_HANDLE_ASYNC_LOAD = 1 << 2
};
/* GetContextFlags */
enum {
  CONTEXT_SLAVE = 1 << 3,
  CONTEXT_REPLICATED = 1 << 12,
  CONTEXT_LOADING = 1 << 13,
  CONTEXT_RESP3 = 1 << 22,
  CONTEXT_ASYNC_LOADING = 1 << 23
};
/* NotifyKeyspaceEvent */
enum { NOTIFY_GENERIC = 1 << 2, NOTIFY_MODULE = 1 << 13 };
/* RegisterNumericConfig, RegisterStringConfig */
enum { CONFIG_SENSITIVE = 1 << 1, CONFIG_MEMORY = 1 << 7 };

typedef int (*server_handler)(server_ctx *ctx, server_string **argv, int argc);
typedef void (*server_timer)(server_ctx *ctx, void *data);
typedef void (*server_tell)(server_info *info, int for_crash_report);

/* Version 3 of the methods of a type. */
typedef struct server_type_methods {
  uint64_t version;
  void *(*rdb_load)(server_io *io, int version);
  void (*rdb_save)(server_io *io, void *value);
  void (*aof_rewrite)(server_io *io, server_string *key, void *value);
  size_t (*mem_usage)(const void *value);
  void (*digest)(server_digest *digest, void *value);
  void (*free)(void *value);
  int (*aux_load)(server_io *io, int version, int when);
  void (*aux_save)(server_io *io, int when);
  int aux_save_triggers;
  size_t (*free_effort)(server_string *key, const void *value);
  void (*unlink)(server_string *key, const void *value);
  void *(*copy)(server_string *from, server_string *to, const void *value);
  int (*defrag)(server_defrag *ctx, server_string *key, void **value);
} server_type_methods;

enum { TYPE_METHODS_VERSION = 3 };

/* What is known of a command beside its name.  The arrays end with an element of zeros. */
enum { BEGIN_AT_INDEX = 2 }; /* how the first key is found: it has a fixed place */
enum { FIND_RANGE = 2 };     /* how the others are: up to a last one, at a step */

enum {
  KEY_SPEC_RO = 1 << 0,
  KEY_SPEC_RW = 1 << 1,
  KEY_SPEC_ACCESS = 1 << 4,
  KEY_SPEC_UPDATE = 1 << 5,
  KEY_SPEC_INSERT = 1 << 6,
  KEY_SPEC_DELETE = 1 << 7
};

typedef struct server_key_spec {
  const char *notes;
  uint64_t flags;
  int begin_search;
  union {
    struct {
      int pos;
    } index;
    struct {
      const char *keyword;
      int startfrom;
    } keyword;
  } begin;
  int find_keys;
  union {
    struct {
      int lastkey; /* from the first one on; -1: up to the last argument */
      int keystep;
      int limit;
    } range;
    struct {
      int keynumidx;
      int firstkey;
      int keystep;
    } keynum;
  } find;
} server_key_spec;

typedef struct server_command_history {
  const char *since;
  const char *changes;
} server_command_history;

typedef struct server_command_arg {
  const char *name;
  int type;
  int key_spec_index;
  const char *token;
  const char *summary;
  const char *since;
  int flags;
  const char *deprecated_since;
  struct server_command_arg *subargs;
  const char *display_text;
} server_command_arg;

typedef struct server_command_info_version {
  int version;
  size_t sizeof_history;
  size_t sizeof_key_spec;
  size_t sizeof_arg;
} server_command_info_version;

typedef struct server_command_info {
  const server_command_info_version *version;
  const char *summary;
  const char *complexity;
  const char *since;
  server_command_history *history;
  const char *tips;
  int arity;
  server_key_spec *key_specs;
  server_command_arg *args;
} server_command_info;

typedef long long (*server_get_number)(const char *name, void *data);
typedef int (*server_set_number)(const char *name, long long value, void *data,
                                 server_string **error);
typedef server_string *(*server_get_text)(const char *name, void *data);
typedef int (*server_set_text)(const char *name, server_string *value, void *data,
                               server_string **error);
typedef int (*server_apply)(server_ctx *ctx, void *data, server_string **error);

#define REQUIRED false
#define OPTIONAL true

/* Each function: its result, its name, its parameters, whether a server may lack it. */
#define SERVER_FUNCTIONS(F)                                                                        \
  F(void *, Alloc, (size_t size), REQUIRED)                                                        \
  F(void *, TryAlloc, (size_t size), OPTIONAL)                                                     \
  F(void *, TryCalloc, (size_t count, size_t size), OPTIONAL)                                      \
  F(void *, Calloc, (size_t count, size_t size), REQUIRED)                                         \
  F(void, Free, (void *block), REQUIRED)                                                           \
  F(size_t, MallocSize, (void *block), OPTIONAL)                                                   \
  F(int, RegisterInfoFunc, (server_ctx * ctx, server_tell tell), OPTIONAL)                         \
  F(int, InfoAddSection, (server_info * info, const char *name), OPTIONAL)                         \
  F(int, InfoAddFieldULongLong, (server_info * info, const char *name, unsigned long long number), \
    OPTIONAL)                                                                                      \
  F(int, InfoAddFieldCString, (server_info * info, const char *name, const char *text), OPTIONAL)  \
  F(void, SetModuleAttribs, (server_ctx * ctx, const char *name, int version, int api), REQUIRED)  \
  F(int, IsModuleNameBusy, (const char *name), REQUIRED)                                           \
  F(void, SetModuleOptions, (server_ctx * ctx, int options), REQUIRED)                             \
  F(int, GetContextFlags, (server_ctx * ctx), REQUIRED)                                            \
  F(server_ctx *, GetContextFromIO, (server_io * io), REQUIRED)                                    \
  F(void, Log, (server_ctx * ctx, const char *level, const char *format, ...), REQUIRED)           \
  F(void, LogIOError, (server_io * io, const char *level, const char *format, ...), REQUIRED)      \
  F(int, CreateCommand,                                                                            \
    (server_ctx * ctx, const char *name, server_handler handler, const char *flags, int first,     \
     int last, int step),                                                                          \
    REQUIRED)                                                                                      \
  F(server_command *, GetCommand, (server_ctx * ctx, const char *name), OPTIONAL)                  \
  F(int, SetCommandInfo, (server_command * command, const server_command_info *info), OPTIONAL)    \
  F(int, AddACLCategory, (server_ctx * ctx, const char *name), OPTIONAL)                           \
  F(int, SetCommandACLCategories, (server_command * command, const char *names), OPTIONAL)         \
  F(int, WrongArity, (server_ctx * ctx), REQUIRED)                                                 \
  F(int, ReplyWithLongLong, (server_ctx * ctx, long long number), REQUIRED)                        \
  F(int, ReplyWithDouble, (server_ctx * ctx, double number), REQUIRED)                             \
  F(int, ReplyWithBool, (server_ctx * ctx, int yes), REQUIRED)                                     \
  F(int, ReplyWithNull, (server_ctx * ctx), REQUIRED)                                              \
  F(int, ReplyWithError, (server_ctx * ctx, const char *text), REQUIRED)                           \
  F(int, ReplyWithSimpleString, (server_ctx * ctx, const char *text), REQUIRED)                    \
  F(int, ReplyWithStringBuffer, (server_ctx * ctx, const char *data, size_t size), REQUIRED)       \
  F(int, ReplyWithArray, (server_ctx * ctx, long length), REQUIRED)                                \
  F(void, ReplySetArrayLength, (server_ctx * ctx, long length), REQUIRED)                          \
  F(int, ReplyWithMap, (server_ctx * ctx, long length), REQUIRED)                                  \
  F(int, Replicate, (server_ctx * ctx, const char *command, const char *format, ...), REQUIRED)    \
  F(int, ReplicateVerbatim, (server_ctx * ctx), REQUIRED)                                          \
  F(int, NotifyKeyspaceEvent,                                                                      \
    (server_ctx * ctx, int class, const char *event, server_string *key), REQUIRED)                \
  F(int, SignalModifiedKey, (server_ctx * ctx, server_string * key), REQUIRED)                     \
  F(int, GetSelectedDb, (server_ctx * ctx), REQUIRED)                                              \
  F(const char *, StringPtrLen, (const server_string *string, size_t *size), REQUIRED)             \
  F(int, StringToLongLong, (const server_string *string, long long *out), REQUIRED)                \
  F(int, StringToDouble, (const server_string *string, double *out), REQUIRED)                     \
  F(server_string *, CreateString, (server_ctx * ctx, const char *data, size_t size), REQUIRED)    \
  F(void, FreeString, (server_ctx * ctx, server_string * string), REQUIRED)                        \
  F(server_key *, OpenKey, (server_ctx * ctx, server_string * name, int mode), REQUIRED)           \
  F(void, CloseKey, (server_key * key), REQUIRED)                                                  \
  F(int, KeyType, (server_key * key), REQUIRED)                                                    \
  F(int, SetAbsExpire, (server_key * key, long long milliseconds), REQUIRED)                       \
  F(server_type *, CreateDataType,                                                                 \
    (server_ctx * ctx, const char *name, int version, const server_type_methods *methods),         \
    REQUIRED)                                                                                      \
  F(server_type *, ModuleTypeGetType, (server_key * key), REQUIRED)                                \
  F(void *, ModuleTypeGetValue, (server_key * key), REQUIRED)                                      \
  F(int, ModuleTypeSetValue, (server_key * key, server_type * type, void *value), REQUIRED)        \
  F(void, SaveUnsigned, (server_io * io, uint64_t number), REQUIRED)                               \
  F(uint64_t, LoadUnsigned, (server_io * io), REQUIRED)                                            \
  F(void, SaveDouble, (server_io * io, double number), REQUIRED)                                   \
  F(double, LoadDouble, (server_io * io), REQUIRED)                                                \
  F(void, SaveStringBuffer, (server_io * io, const char *data, size_t size), REQUIRED)             \
  F(char *, LoadStringBuffer, (server_io * io, size_t * size), REQUIRED)                           \
  F(int, IsIOError, (server_io * io), REQUIRED)                                                    \
  F(void, EmitAOF, (server_io * io, const char *command, const char *format, ...), REQUIRED)       \
  F(void, DigestAddStringBuffer, (server_digest * digest, const char *data, size_t size),          \
    REQUIRED)                                                                                      \
  F(void, DigestEndSequence, (server_digest * digest), REQUIRED)                                   \
  F(void *, DefragAlloc, (server_defrag * ctx, void *block), OPTIONAL)                             \
  F(void, GetRandomBytes, (unsigned char *to, size_t size), REQUIRED)                              \
  F(long long, Milliseconds, (void), REQUIRED)                                                     \
  F(uint64_t, CreateTimer,                                                                         \
    (server_ctx * ctx, long long milliseconds, server_timer callback, void *data), REQUIRED)       \
  F(int, RegisterNumericConfig,                                                                    \
    (server_ctx * ctx, const char *name, long long initial, unsigned flags, long long min,         \
     long long max, server_get_number get, server_set_number set, server_apply apply, void *data), \
    OPTIONAL)                                                                                      \
  F(int, RegisterStringConfig,                                                                     \
    (server_ctx * ctx, const char *name, const char *initial, unsigned flags, server_get_text get, \
     server_set_text set, server_apply apply, void *data),                                         \
    OPTIONAL)                                                                                      \
  F(int, LoadConfigs, (server_ctx * ctx), OPTIONAL)

#define DECLARE_FUNCTION(result, name, parameters, optional) result(*name) parameters;
struct server_api {
  SERVER_FUNCTIONS(DECLARE_FUNCTION)
};
#undef DECLARE_FUNCTION

/* The functions of the server that has loaded the module. */
extern struct server_api server;

/* Finds them.  Returns NULL, or the name of one that is missing. */
const char *server_api_find(server_ctx *ctx);

#endif /* TAMIS_REDIS_SERVER_API_H */
