/* SPDX-License-Identifier: MIT
 *
 * The module with this file between it and a real server: functions of the server's can be missing,
 * refuse memory, move blocks, or say that a file is loaded.  The linker puts it there (--wrap), so
 * the module is as it is elsewhere.  TAMIS_LACKS names the functions that are missing, each between
 * spaces.  Commands for tests:
 *
 *    TEST.NUMBER NAME [NUMBER]        one of the numbers below: its value, and sets it
 *    TEST.VALUE KEY WHAT [NUMBER]     what is in a key, and does something to it
 */
#include "server_api.h"
#include "value.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct server_api real;
static int (*find_real)(const char *name, void *out);
static int (*replace_value)(server_key *key, server_type *type, void *value, void **old);
static int (*defrag)(server_defrag *ctx, server_string *key, void **value); /* that of all types */

static _Atomic long long blocks;     /* that have not been freed */
static long long refused_from = -1;  /* so many allocations from now on are granted; -1: all */
static long long moves;              /* memory that is defragmented moves */
static long long loads;              /* what comes is from the master, or from a file */
static long long advances;           /* calls that ended periods */
static long long bytes_loaded;       /* of strings that were read */
static volatile sig_atomic_t opened; /* pages that were read while they were closed */

/* ---- in place of the server's functions ---- */

static void *count(void *block)
{
  blocks += block != NULL;
  return block;
}

static bool refuses(size_t size)
{
  if (refused_from == 0 || size > (size_t) 1 << 26)
    return true;
  refused_from -= refused_from > 0;
  return false;
}

static void *Alloc(size_t size)
{
  return count(real.Alloc(size));
}

static void *Calloc(size_t n, size_t size)
{
  return count(real.Calloc(n, size));
}

static void *TryAlloc(size_t size)
{
  return refuses(size) ? NULL : count(real.TryAlloc(size));
}

static void *TryCalloc(size_t n, size_t size)
{
  return refuses(n * size) ? NULL : count(real.TryCalloc(n, size));
}

static void Free(void *block)
{
  blocks -= block != NULL;
  real.Free(block);
}

static char *LoadStringBuffer(server_io *io, size_t *size)
{
  char *string = count(real.LoadStringBuffer(io, size));
  bytes_loaded += string ? (long long) *size : 0;
  return string;
}

static void *DefragAlloc(server_defrag *ctx, void *block)
{
  (void) ctx;
  if (!moves)
    return NULL;
  const size_t size = real.MallocSize(block);
  void *moved = memcpy(real.Alloc(size), block, size);
  real.Free(block);
  return moved;
}

static int GetContextFlags(server_ctx *ctx)
{
  return real.GetContextFlags(ctx) | (loads ? CONTEXT_LOADING : 0);
}

static server_type *CreateDataType(server_ctx *ctx, const char *name, int version,
                                   const server_type_methods *methods)
{
  defrag = methods->defrag;
  return real.CreateDataType(ctx, name, version, methods);
}

#define REPLACED(name)                              \
  {                                                 \
    "RedisModule_" #name, &real.name, (void *) name \
  }
static const struct replaced {
  const char *name;
  void *real, *ours;
} replaced[] = {REPLACED(Alloc),           REPLACED(Calloc),      REPLACED(TryAlloc),
                REPLACED(TryCalloc),       REPLACED(Free),        REPLACED(LoadStringBuffer),
                REPLACED(GetContextFlags), REPLACED(DefragAlloc), REPLACED(CreateDataType)};

static int find(const char *name, void *out)
{
  const char *lacks = getenv("TAMIS_LACKS");
  char word[64];
  (void) snprintf(word, sizeof word, " %s ", name + strlen("RedisModule_"));
  if ((lacks && strstr(lacks, word)) || find_real(name, out) != SERVER_OK)
    return SERVER_ERR;
  if (strcmp(word, " MallocSize ") == 0)
    memcpy(&real.MallocSize, out, sizeof real.MallocSize);
  for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
    if (strcmp(name, replaced[i].name) == 0) {
      memcpy(replaced[i].real, out, sizeof replaced->real);
      memcpy(out, &replaced[i].ours, sizeof replaced->ours);
    }
  return SERVER_OK;
}

const char *__real_server_api_find(server_ctx *ctx);
const char *__wrap_server_api_find(server_ctx *ctx);
const char *__wrap_server_api_find(server_ctx *ctx)
{
  int (*const ours)(const char *, void *) = find;
  memcpy(&find_real, ctx, sizeof find_real);
  (void) find_real("RedisModule_ModuleTypeReplaceValue", &replace_value);
  memcpy(ctx, &ours, sizeof ours);
  const char *missing = __real_server_api_find(ctx);
  memcpy(ctx, &find_real, sizeof find_real);
  return missing;
}

int __real_tamis_advance(tamis_filter *f);
int __wrap_tamis_advance(tamis_filter *f);
int __wrap_tamis_advance(tamis_filter *f)
{
  advances++;
  return __real_tamis_advance(f);
}

int __real_tamis_advance_to(tamis_filter *f, uint64_t period);
int __wrap_tamis_advance_to(tamis_filter *f, uint64_t period);
int __wrap_tamis_advance_to(tamis_filter *f, uint64_t period)
{
  advances++;
  return __real_tamis_advance_to(f, period);
}

/* ---- commands ---- */

static bool is(const server_string *word, const char *name)
{
  return strcmp(server.StringPtrLen(word, NULL), name) == 0;
}

static int command_number(server_ctx *ctx, server_string **argv, int argc)
{
  static const struct {
    const char *name;
    long long *number;
  } numbers[] = {{"refused_from", &refused_from},
                 {"moves", &moves},
                 {"loads", &loads},
                 {"advances", &advances},
                 {"bytes_loaded", &bytes_loaded}};
  if (is(argv[1], "blocks"))
    return server.ReplyWithLongLong(ctx, blocks);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (is(argv[1], numbers[i].name)) {
      const long long before = *numbers[i].number;
      if (argc == 3)
        (void) server.StringToLongLong(argv[2], numbers[i].number);
      return server.ReplyWithLongLong(ctx, before);
    }
  return server.ReplyWithError(ctx, "ERR no such number");
}

static void open_page(int signal, siginfo_t *what, void *context)
{
  const uintptr_t size = (uintptr_t) sysconf(_SC_PAGESIZE);
  (void) signal, (void) context;
  opened++;
  if (mprotect((void *) ((uintptr_t) what->si_addr & ~(size - 1)), size, PROT_READ | PROT_WRITE))
    _exit(1);
}

/* Closes all whole pages of a foreign filter's bits, or opens them again. */
static long long protect_bits(const struct value *v, bool closes)
{
  static struct sigaction before;
  const struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
  const struct foreign_layer *layer = v->foreign->layer;
  const uintptr_t size = (uintptr_t) sysconf(_SC_PAGESIZE);
  unsigned char *begin = (unsigned char *) (((uintptr_t) layer->data + size - 1) & ~(size - 1));
  const size_t inside = (size_t) (layer->data + layer->bytes - begin) & ~(size - 1);
  (void) sigaction(SIGSEGV, closes ? &action : &before, closes ? &before : NULL);
  opened = closes ? 0 : opened;
  return mprotect(begin, inside, closes ? PROT_NONE : PROT_READ | PROT_WRITE) ? -1 : opened;
}

static int command_value(server_ctx *ctx, server_string **argv, int argc)
{
  long long number = 0;
  server_key *key = server.OpenKey(ctx, argv[1], KEY_READ | KEY_WRITE);
  void *moved = server.ModuleTypeGetValue(key);
  const struct value *v = moved;
  if (argc == 4)
    (void) server.StringToLongLong(argv[3], &number);
  if (is(argv[2], "defrag")) {
    (void) defrag(NULL, argv[1], &moved);
    number = moved != v;
    if (number)
      (void) replace_value(key, server.ModuleTypeGetType(key), moved, NULL);
  } else if (is(argv[2], "unwatched")) {
    number = v->unwatched;
  } else if (is(argv[2], "period")) {
    number = tamis_set_period(v->filter, (uint64_t) number);
  } else {
    number = protect_bits(v, is(argv[2], "close"));
  }
  server.CloseKey(key);
  return server.ReplyWithLongLong(ctx, number);
}

bool __real_commands_create(server_ctx *ctx);
bool __wrap_commands_create(server_ctx *ctx);
bool __wrap_commands_create(server_ctx *ctx)
{
  return server.CreateCommand(ctx, "test.number", command_number, "", 0, 0, 0) == SERVER_OK &&
         server.CreateCommand(ctx, "test.value", command_value, "", 1, 1, 1) == SERVER_OK &&
         __real_commands_create(ctx);
}
