/* SPDX-License-Identifier: MIT */
#include "fake_server.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What a server passes to most functions is not looked at. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* A function that only returns a value, or nothing. */
#define STUB(type, name, value, ...)   \
  static type fake_##name(__VA_ARGS__) \
  {                                    \
    return value;                      \
  }
#define NOTHING(name, ...)             \
  static void fake_##name(__VA_ARGS__) \
  {                                    \
  }

struct fake fake = {.refused_from = -1};

struct server_string {
  char *data;
  size_t size;
};

struct server_type {
  server_type_methods methods;
  int version;
};

struct server_key {
  server_string name;
  server_type *type; /* NULL: empty */
  void *value;
};

struct server_command {
  char name[24];
  server_handler handler;
  char categories[40];
};

struct server_ctx {
  int (*find)(const char *name, void *out);
};

enum { TYPES = 4, MOST_KEYS = 16, MOST_COMMANDS = 128, MOST_WORDS = 1024 };
static server_key keys[MOST_KEYS];
static server_type types[TYPES];
static unsigned types_count;
static server_command commands[MOST_COMMANDS];
static unsigned commands_count;
static server_ctx context;

/* ---- memory ---- */

static bool refuses(void)
{
  if (fake.refused_from < 0)
    return false;
  if (fake.refused_from == 0)
    return true;
  fake.refused_from--;
  return false;
}

static void *count(void *block)
{
  if (!block)
    abort(); /* as servers do */
  fake.blocks++;
  return block;
}

static void *fake_Alloc(size_t size)
{
  void *block = NULL;
  (void) posix_memalign(&block, 64, size ? size : 1);
  return memset(count(block), 0x5a, size);
}

STUB(void *, Calloc, memset(fake_Alloc(n *size), 0, n *size), size_t n, size_t size)
STUB(void *, TryAlloc, refuses() || size > (size_t) 1 << 26 ? NULL : fake_Alloc(size), size_t size)
STUB(void *, TryCalloc, refuses() || size > (size_t) 1 << 26 ? NULL : fake_Calloc(n, size),
     size_t n, size_t size)

static void fake_Free(void *block)
{
  fake.blocks -= block != NULL;
  free(block);
}

STUB(size_t, MallocSize, malloc_usable_size(block), void *block)

/* ---- INFO ---- */

STUB(int, RegisterInfoFunc, SERVER_OK, server_ctx *ctx, server_tell tell)
STUB(int, InfoAddSection, SERVER_OK, server_info *info, const char *name)
STUB(int, InfoAddFieldULongLong, SERVER_OK, server_info *info, const char *name,
     unsigned long long number)
STUB(int, InfoAddFieldCString, SERVER_OK, server_info *info, const char *name, const char *text)

/* ---- loading ---- */

NOTHING(SetModuleAttribs, server_ctx *ctx, const char *name, int version, int api)
STUB(int, IsModuleNameBusy, 0, const char *name)
NOTHING(SetModuleOptions, server_ctx *ctx, int options)
STUB(int, GetContextFlags, fake.loads ? CONTEXT_LOADING : 0, server_ctx *ctx)
STUB(server_ctx *, GetContextFromIO, &context, server_io *io)
NOTHING(Log, server_ctx *ctx, const char *level, const char *format, ...)
NOTHING(LogIOError, server_io *io, const char *level, const char *format, ...)

static int fake_CreateCommand(server_ctx *ctx, const char *name, server_handler handler,
                              const char *flags, int first, int last, int step)
{
  if (commands_count == MOST_COMMANDS)
    return SERVER_ERR;
  server_command *c = &commands[commands_count++];
  (void) snprintf(c->name, sizeof c->name, "%s", name);
  c->handler = handler;
  return SERVER_OK;
}

static server_command *fake_GetCommand(server_ctx *ctx, const char *name)
{
  for (unsigned i = 0; i < commands_count; i++)
    if (strcasecmp(commands[i].name, name) == 0)
      return &commands[i];
  return NULL;
}

STUB(int, SetCommandInfo, command && info->arity ? SERVER_OK : SERVER_ERR, server_command *command,
     const server_command_info *info)
STUB(int, AddACLCategory, SERVER_OK, server_ctx *ctx, const char *name)

static int fake_SetCommandACLCategories(server_command *command, const char *names)
{
  (void) snprintf(command->categories, sizeof command->categories, "%s", names);
  return SERVER_OK;
}

static int fake_RegisterNumericConfig(server_ctx *ctx, const char *name, long long initial,
                                      unsigned flags, long long min, long long max,
                                      server_get_number get, server_set_number set,
                                      server_apply apply, void *data)
{
  server_string *error = NULL;
  return initial >= min && initial <= max && get(name, data) == initial
             ? set(name, initial, data, &error)
             : SERVER_ERR;
}

STUB(int, RegisterStringConfig, SERVER_OK, server_ctx *ctx, const char *name, const char *initial,
     unsigned flags, server_get_text get, server_set_text set, server_apply apply, void *data)
STUB(int, LoadConfigs, SERVER_OK, server_ctx *ctx)

/* ---- replies ---- */

__attribute__((format(printf, 1, 2))) static int reply(const char *format, ...)
{
  size_t used = strlen(fake.reply);
  va_list arguments;
  va_start(arguments, format);
  (void) vsnprintf(fake.reply + used, sizeof fake.reply - used, format, arguments);
  va_end(arguments);
  return SERVER_OK;
}

STUB(int, WrongArity, reply("-ERR wrong number of arguments "), server_ctx *ctx)
STUB(int, ReplyWithLongLong, reply(":%lld ", number), server_ctx *ctx, long long number)
STUB(int, ReplyWithDouble, reply(",%g ", number), server_ctx *ctx, double number)
STUB(int, ReplyWithBool, fake_ReplyWithLongLong(ctx, yes != 0), server_ctx *ctx, int yes)
STUB(int, ReplyWithNull, reply("_ "), server_ctx *ctx)
STUB(int, ReplyWithError, reply("-%s ", text), server_ctx *ctx, const char *text)
STUB(int, ReplyWithSimpleString, reply("+%s ", text), server_ctx *ctx, const char *text)
STUB(int, ReplyWithStringBuffer, reply("$%zu ", size), server_ctx *ctx, const char *data,
     size_t size)
STUB(int, ReplyWithArray, reply("*%ld ", length), server_ctx *ctx, long length)

static void fake_ReplySetArrayLength(server_ctx *ctx, long length)
{
  (void) reply("=%ld ", length);
}

STUB(int, ReplyWithMap, reply("%%%ld ", length), server_ctx *ctx, long length)

STUB(int, Replicate, SERVER_OK, server_ctx *ctx, const char *command, const char *format, ...)
STUB(int, ReplicateVerbatim, SERVER_OK, server_ctx *ctx)
STUB(int, NotifyKeyspaceEvent, SERVER_OK, server_ctx *ctx, int class, const char *event,
     server_string *key)
STUB(int, SignalModifiedKey, SERVER_OK, server_ctx *ctx, server_string *key)
STUB(int, GetSelectedDb, 0, server_ctx *ctx)

/* ---- strings ---- */

static const char *fake_StringPtrLen(const server_string *string, size_t *size)
{
  if (size)
    *size = string->size;
  return string->data;
}

static int is_all(const server_string *string, const char *end)
{
  return string->size && end == string->data + string->size ? SERVER_OK : SERVER_ERR;
}

static int fake_StringToLongLong(const server_string *string, long long *out)
{
  char *end;
  *out = strtoll(string->data, &end, 10);
  return is_all(string, end);
}

static int fake_StringToDouble(const server_string *string, double *out)
{
  char *end;
  *out = strtod(string->data, &end);
  return is_all(string, end);
}

static server_string string_of(const void *data, size_t size)
{
  server_string s = {malloc(size + 1), size};
  memcpy(s.data, data, size);
  s.data[size] = '\0';
  return s;
}

static server_string *fake_CreateString(server_ctx *ctx, const char *data, size_t size)
{
  server_string *s = malloc(sizeof *s);
  *s = string_of(data, size);
  return s;
}

static void fake_FreeString(server_ctx *ctx, server_string *string)
{
  free(string->data);
  free(string);
}

/* ---- keys ---- */

static server_key *key_at(const char *name, size_t size)
{
  server_key *empty = NULL;
  for (unsigned i = 0; i < MOST_KEYS; i++)
    if (keys[i].name.data && keys[i].name.size == size &&
        memcmp(keys[i].name.data, name, size) == 0)
      return &keys[i];
    else if (!keys[i].name.data)
      empty = &keys[i];
  if (!empty)
    abort();
  empty->name = string_of(name, size);
  return empty;
}

static void empty_key(server_key *key)
{
  if (key->type)
    key->type->methods.free(key->value);
  key->type = NULL;
}

STUB(server_key *, OpenKey, key_at(name->data, name->size), server_ctx *ctx, server_string *name,
     int mode)
NOTHING(CloseKey, server_key *key)
STUB(int, KeyType, key->type ? 6 : KEY_TYPE_EMPTY, server_key *key)

static server_type *fake_CreateDataType(server_ctx *ctx, const char *name, int version,
                                        const server_type_methods *methods)
{
  server_type *type = &types[types_count++ % TYPES];
  type->methods = *methods;
  type->version = version;
  return strlen(name) == 9 ? type : NULL;
}

STUB(int, SetAbsExpire, SERVER_OK, server_key *key, long long milliseconds)
STUB(server_type *, ModuleTypeGetType, key->type, server_key *key)
STUB(void *, ModuleTypeGetValue, key->value, server_key *key)

static int fake_ModuleTypeSetValue(server_key *key, server_type *type, void *value)
{
  empty_key(key);
  key->type = type;
  key->value = value;
  return SERVER_OK;
}

/* ---- RDB, AOF, digests ---- */

static void put(server_io *io, const void *data, size_t size)
{
  io->data = realloc(io->data, io->size + size);
  memcpy(io->data + io->size, data, size);
  io->size += size;
}

static bool take(server_io *io, void *data, size_t size)
{
  io->failed = io->failed || io->size - io->at < size;
  if (io->failed)
    return false;
  memcpy(data, io->data + io->at, size);
  io->at += size;
  return true;
}

/* A number, which has a letter before it. */
#define NUMBER(name, type, letter)                                                            \
  static void fake_Save##name(server_io *io, type number)                                     \
  {                                                                                           \
    put(io, letter, 1);                                                                       \
    put(io, &number, sizeof number);                                                          \
  }                                                                                           \
  static type fake_Load##name(server_io *io)                                                  \
  {                                                                                           \
    char what = 0;                                                                            \
    type number = 0;                                                                          \
    io->failed = !take(io, &what, 1) || what != *letter || !take(io, &number, sizeof number); \
    return io->failed ? 0 : number;                                                           \
  }
NUMBER(Unsigned, uint64_t, "u")
NUMBER(Double, double, "d")

static void fake_SaveStringBuffer(server_io *io, const char *data, size_t size)
{
  put(io, "s", 1);
  put(io, &size, sizeof size);
  put(io, data, size);
}

static char *fake_LoadStringBuffer(server_io *io, size_t *size)
{
  char what = 0;
  *size = 0;
  io->failed = !take(io, &what, 1) || what != 's' || !take(io, size, sizeof *size) ||
               *size > io->size - io->at;
  if (io->failed)
    return NULL;
  char *data = fake_Alloc(*size);
  (void) take(io, data, *size);
  return data;
}

STUB(int, IsIOError, io->failed, server_io *io)

/* Only "slb" is used.  What is written is the command's name, the cursor and the data. */
static void fake_EmitAOF(server_io *io, const char *command, const char *format, ...)
{
  char words[64];
  va_list arguments;
  va_start(arguments, format);
  const server_string *key = va_arg(arguments, server_string *);
  long long cursor = va_arg(arguments, long long);
  const char *data = va_arg(arguments, char *);
  size_t size = va_arg(arguments, size_t);
  va_end(arguments);
  (void) snprintf(words, sizeof words, "%s %s %lld", command, key->data, cursor);
  fake_SaveStringBuffer(io, words, strlen(words) + 1);
  fake_SaveStringBuffer(io, data, size);
}

NOTHING(DigestAddStringBuffer, server_digest *digest, const char *data, size_t size)
NOTHING(DigestEndSequence, server_digest *digest)

static void *fake_DefragAlloc(server_defrag *ctx, void *block)
{
  const size_t size = malloc_usable_size(block);
  void *moved = fake.moves ? malloc(size) : NULL;
  if (!moved)
    return NULL;
  memcpy(moved, block, size);
  free(block);
  return moved;
}

static void fake_GetRandomBytes(unsigned char *to, size_t size)
{
  static unsigned char next = 1;
  for (size_t i = 0; i < size; i++)
    to[i] = next++;
}

STUB(long long, Milliseconds, 1000000, void)
STUB(uint64_t, CreateTimer, 0, server_ctx *ctx, long long milliseconds, server_timer callback,
     void *data)

/* ---- for tests ---- */

#define ROW(result, name, parameters, optional) {#name, (void *) fake_##name, optional},
const struct fake_function fake_functions[] = {SERVER_FUNCTIONS(ROW)};
#undef ROW
const unsigned fake_functions_count = sizeof fake_functions / sizeof *fake_functions;

static bool is_missing(const struct fake_function *f)
{
  char word[64];
  (void) snprintf(word, sizeof word, " %s ", f->name);
  return (fake.missing && strstr(fake.missing, word)) || (fake.lacks_all_optional && f->optional);
}

static int find(const char *name, void *out)
{
  for (unsigned i = 0; i < fake_functions_count; i++) {
    const struct fake_function *f = &fake_functions[i];
    if (strcmp(name + strlen("RedisModule_"), f->name) == 0 && !is_missing(f)) {
      memcpy(out, &f->function, sizeof f->function);
      return SERVER_OK;
    }
  }
  return SERVER_ERR;
}

static int split(const char *words, server_string *all[])
{
  int n = 0;
  while (*words && n < MOST_WORDS) {
    size_t size = strcspn(words, " ");
    all[n++] = fake_CreateString(NULL, words, size);
    words += size;
    words += strspn(words, " ");
  }
  return n;
}

int RedisModule_OnLoad(server_ctx *ctx, server_string **argv, int argc);

int fake_load(const char *arguments)
{
  server_string *argv[MOST_WORDS];
  int argc = split(arguments, argv);
  commands_count = types_count = 0;
  context.find = find;
  int result = RedisModule_OnLoad(&context, argv, argc);
  for (int i = 0; i < argc; i++)
    fake_FreeString(NULL, argv[i]);
  return result;
}

const char *fake_call_with(const char *words, const void *last, size_t size)
{
  static server_string *argv[MOST_WORDS + 1];
  int argc = split(words, argv);
  if (last)
    argv[argc++] = fake_CreateString(NULL, last, size);
  const server_command *command = fake_GetCommand(NULL, argv[0]->data);
  fake.reply[0] = '\0';
  (void) command->handler(&context, argv, argc);
  for (int i = 0; i < argc; i++)
    fake_FreeString(NULL, argv[i]);
  return fake.reply;
}

const char *fake_categories(const char *name)
{
  const server_command *command = fake_GetCommand(NULL, name);
  return command ? command->categories : "";
}

const char *fake_call(const char *words)
{
  return fake_call_with(words, NULL, 0);
}

static server_key *named(const char *key)
{
  return key_at(key, strlen(key));
}

bool fake_exists(const char *key)
{
  return named(key)->type != NULL;
}

void fake_dump(const char *key, server_io *out)
{
  const server_key *k = named(key);
  *out = (server_io){0};
  k->type->methods.rdb_save(out, k->value);
}

bool fake_restore(const char *key, const char *like, server_io *io)
{
  server_type *type = named(like)->type;
  io->at = 0;
  io->failed = false;
  void *value = type->methods.rdb_load(io, type->version);
  if (value)
    (void) fake_ModuleTypeSetValue(named(key), type, value);
  return value != NULL;
}

bool fake_retype(const char *key, unsigned number)
{
  server_io io = {0};
  if (number >= types_count)
    return false;
  server_type *type = &types[number];
  type->methods.rdb_save(&io, named(key)->value);
  void *value = type->methods.rdb_load(&io, type->version);
  free(io.data);
  (void) fake_ModuleTypeSetValue(named(key), type, value);
  return value != NULL;
}

unsigned fake_types(void)
{
  return types_count;
}

bool fake_rewrite(const char *key)
{
  server_io io = {0};
  server_key *k = named(key);
  k->type->methods.aof_rewrite(&io, &k->name, k->value);
  empty_key(k);
  bool good = true;
  while (io.at < io.size && good) {
    size_t size;
    char *words = fake_LoadStringBuffer(&io, &size), *data = fake_LoadStringBuffer(&io, &size);
    good = words && data && strcmp(fake_call_with(words, data, size), "+OK ") == 0;
    fake_Free(words);
    fake_Free(data);
  }
  free(io.data);
  return good;
}

size_t fake_memory_usage(const char *key)
{
  const server_key *k = named(key);
  return k->type->methods.mem_usage(k->value);
}

bool fake_copy(const char *from, const char *to)
{
  const server_key *k = named(from);
  server_type *type = k->type;
  void *value = type->methods.copy(NULL, NULL, k->value);
  if (value)
    (void) fake_ModuleTypeSetValue(named(to), type, value);
  return value != NULL;
}

const void *fake_value(const char *key)
{
  return named(key)->value;
}

void fake_defrag(const char *key)
{
  server_key *k = named(key);
  (void) k->type->methods.defrag(NULL, NULL, &k->value);
}

void fake_flush(void)
{
  for (unsigned i = 0; i < MOST_KEYS; i++) {
    empty_key(&keys[i]);
    free(keys[i].name.data);
    keys[i] = (server_key){0};
  }
}
