/* SPDX-License-Identifier: MIT
 *
 * The table of the commands, and what the server is told of each.
 */
#include "commands.h"

#include <stdio.h>
#include <string.h>

/* What commands do with a key, and with what is in it: the server asks users for the rights to
 * that. */
enum {
  READS_FIGURES = KEY_SPEC_RO,
  READS = KEY_SPEC_RO | KEY_SPEC_ACCESS,
  INSERTS = KEY_SPEC_RW | KEY_SPEC_INSERT,
  REMOVES = KEY_SPEC_RW | KEY_SPEC_DELETE,
  UPDATES = KEY_SPEC_RW | KEY_SPEC_UPDATE
};

/* Each command: its family, its name as in command_NAME, the server's flags, the number of arguments
 * (-N: at least N), what it does with its key, a summary.  The names are in small letters, as in
 * RedisBloom and among the server's own commands: they stand so in ACL lists, in statistics, and in
 * errors.  RESERVE is the first of each family. */
#define COMMANDS(C)                                                                            \
  C(bf, reserve, "write deny-oom fast", -4, INSERTS, "Creates a Bloom filter")                 \
  C(bf, add, "write deny-oom fast", 3, INSERTS,                                                \
    "Adds an item to a Bloom filter, and says whether it was new")                             \
  C(bf, madd, "write deny-oom fast", -3, INSERTS,                                              \
    "Adds items to a Bloom filter, and says which were new")                                   \
  C(bf, maddex, "write deny-oom fast", -4, INSERTS,                                            \
    "Adds items to a Bloom filter with a window, for a number of seconds")                     \
  C(bf, insert, "write deny-oom fast", -3, INSERTS,                                            \
    "Adds items to a Bloom filter, which it creates as the options say")                       \
  C(bf, card, "readonly fast", 2, READS_FIGURES,                                               \
    "Says how many items were added to a Bloom filter")                                        \
  C(bf, load, "write deny-oom", 3, INSERTS, "Restores a Bloom filter that valkey-bloom wrote") \
  C(cf, reserve, "write deny-oom fast", -3, INSERTS, "Creates a cuckoo filter")                \
  C(cf, add, "write deny-oom", 3, INSERTS, "Adds an item to a cuckoo filter")                  \
  C(cf, addnx, "write deny-oom", 3, INSERTS,                                                   \
    "Adds an item to a cuckoo filter unless it is there, and says whether it was new")         \
  C(cf, insert, "write deny-oom", -4, INSERTS,                                                 \
    "Adds items to a cuckoo filter, which it creates as the options say")                      \
  C(cf, insertnx, "write deny-oom", -4, INSERTS,                                               \
    "Adds those items to a cuckoo filter that are not there")                                  \
  C(cf, del, "write fast", 3, REMOVES, "Removes one copy of an item from a cuckoo filter")     \
  C(cf, count, "readonly fast", 3, READS,                                                      \
    "Says how many copies of an item are in a cuckoo filter")                                  \
  C(cf, compact, "write fast", 2, UPDATES,                                                     \
    "Counts removes from a cuckoo filter anew; it gives memory back by itself")                \
  BOTH(C, exists, "readonly fast", -3, READS, "Says whether an item is in")                    \
  BOTH(C, mexists, "readonly fast", -3, READS, "Says which items are in")                      \
  BOTH(C, info, "readonly fast", -2, READS_FIGURES, "Tells the figures of")                    \
  BOTH(C, debug, "readonly fast", 2, READS_FIGURES, "Tells inner figures of")                  \
  BOTH(C, merge, "write deny-oom", -3, INSERTS, "Adds what others contain to")                 \
  BOTH(C, advance, "write fast", -2, REMOVES, "Ends a period of the sliding window of")        \
  BOTH(C, scandump, "readonly", 3, READS, "Gives out chunk by chunk")                          \
  BOTH(C, loadchunk, "write deny-oom", 4, INSERTS, "Restores chunk by chunk")

/* The same of both families; a summary goes on with the filter. */
#define BOTH(C, name, flags, arity, usage, summary)           \
  C(bf, name, flags, arity, usage, summary " a Bloom filter") \
  C(cf, name, flags, arity, usage, summary " a cuckoo filter")

static const tamis_kind bf = TAMIS_BLOOM, cf = TAMIS_CUCKOO;

static bool is_number_of_words(int argc, int arity)
{
  return arity < 0 ? argc >= -arity : argc == arity;
}

/* The server calls a handler with no more than the arguments, and a command may go by another name.
 * Where the server is not told the number of arguments, it is checked here. */
#define DEFINE_HANDLER(family, name, flags, arity, usage, summary)                   \
  static int family##_##name(server_ctx *ctx, server_string **argv, int argc)        \
  {                                                                                  \
    return is_number_of_words(argc, arity) ? command_##name(ctx, family, argv, argc) \
                                           : server.WrongArity(ctx);                 \
  }
COMMANDS(DEFINE_HANDLER)

/* Whether another module has the names of the family. */
static bool bf_taken, cf_taken;

#define PREFIX "tamis."

const char *command_name(tamis_kind kind, const char *name)
{
  return name + (kind == TAMIS_CUCKOO ? cf_taken : bf_taken ? 0 : sizeof PREFIX - 1);
}

static const struct command {
  const char *name;
  server_handler handler;
  const char *flags;
  int arity;
  uint64_t usage;
  const char *summary;
} commands[] = {
#define ROW(family, name, flags, arity, usage, summary) \
  {#family "." #name, family##_##name, flags, arity, usage, summary},
    COMMANDS(ROW)
#undef ROW
};

static bool is_merge(const struct command *c)
{
  return strcmp(c->name + 2, ".merge") == 0;
}

static server_key_spec keys_from(int first, int last, uint64_t usage)
{
  server_key_spec keys = {.flags = usage, .begin_search = BEGIN_AT_INDEX, .find_keys = FIND_RANGE};
  keys.begin.index.pos = first;
  keys.find.range.lastkey = last;
  keys.find.range.keystep = 1;
  return keys;
}

static bool describe(server_command *command, const struct command *c)
{
  static const server_command_info_version version = {
      1, sizeof(server_command_history), sizeof(server_key_spec), sizeof(server_command_arg)};
  server_key_spec keys[3] = {keys_from(1, 0, c->usage)};
  if (is_merge(c))
    keys[1] = keys_from(2, -1, READS);
  const server_command_info info = {.version = &version,
                                    .summary = c->summary,
                                    .since = "0.9.0",
                                    .arity = c->arity,
                                    .key_specs = keys};
  return server.SetCommandInfo(command, &info) == SERVER_OK;
}

/* The categories of the server's own follow from the flags: nobody who may not write may add.  Redis
 * before 7.2 has no way to say so. */
static bool categorize(server_command *command, const struct command *c, bool own)
{
  char names[64];
  const bool fast = strstr(c->flags, "fast") != NULL;
  (void) snprintf(names, sizeof names, "%s %s%s", c->usage & KEY_SPEC_RO ? "read" : "write",
                  fast ? "fast" : "slow",
                  !own                ? ""
                  : c->name[0] == 'b' ? " bloom"
                                      : " cuckoo");
  return !server.SetCommandACLCategories ||
         server.SetCommandACLCategories(command, names) == SERVER_OK;
}

static bool register_as(server_ctx *ctx, const struct command *c, const char *name)
{
  return server.CreateCommand(ctx, name, c->handler, c->flags, 1, is_merge(c) ? -1 : 1, 1) ==
         SERVER_OK;
}

static bool create(server_ctx *ctx, const struct command *c, const char *name, bool categories)
{
  if (!register_as(ctx, c, name))
    return false;
  server_command *command = server.GetCommand ? server.GetCommand(ctx, name) : NULL;
  if (command && server.SetCommandInfo && !describe(command, c))
    return false;
  return !command || categorize(command, c, categories);
}

bool commands_create(server_ctx *ctx)
{
  bool categories = server.AddACLCategory && server.SetCommandACLCategories &&
                    server.AddACLCategory(ctx, "bloom") == SERVER_OK &&
                    server.AddACLCategory(ctx, "cuckoo") == SERVER_OK;
  bf_taken = cf_taken = false;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    const struct command *c = &commands[i];
    bool *taken = c->name[0] == 'b' ? &bf_taken : &cf_taken;
    char name[32];
    (void) snprintf(name, sizeof name, PREFIX "%s", c->name);
    if (!create(ctx, c, name, categories))
      return false;
    if (*taken || create(ctx, c, c->name, categories))
      continue;
    if (strcmp(c->name + 2, ".reserve") != 0) /* the first of each family */
      return false;
    *taken = true;
    server.Log(ctx, "notice", "another module has %.2s.*: its commands here are %s%.2s.* only",
               c->name, PREFIX, c->name);
  }
  return true;
}
