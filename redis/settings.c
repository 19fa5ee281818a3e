/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include "keys.h"
#include "reservation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* RedisBloom's defaults, where it has the setting.  The rate of cuckoo filters is the lowest that
 * its filters have, with a BUCKETSIZE of 1. */
static const struct settings defaults = {.max_bytes = 512LL << 20,
                                         .bf_initial_size = 100,
                                         .bf_expansion_factor = 2,
                                         .bf_error_rate = 0.01,
                                         .cf_initial_size = 1024,
                                         .cf_bucket_size = 2,
                                         .cf_max_iterations = 20,
                                         .cf_expansion_factor = 1,
                                         .cf_max_expansions = 32,
                                         .cf_error_rate = 0.0078};

struct settings settings;

static struct number {
  const char *name;
  const char *older;  /* what RedisBloom called it before version 8 */
  const char *valkey; /* what valkey-bloom calls it */
  long long *value;
  long long min, max;
  unsigned flags;
} numbers[] = {
    {"max-bytes", NULL, NULL, &settings.max_bytes, 0, INT64_MAX, CONFIG_MEMORY},
    {"bf-initial-size", "INITIAL_SIZE", "bloom-capacity", &settings.bf_initial_size, 1, 1LL << 40,
     0},
    {"bf-expansion-factor", NULL, "bloom-expansion", &settings.bf_expansion_factor, 0, 32768, 0},
    {"cf-initial-size", NULL, NULL, &settings.cf_initial_size, 2, 1LL << 40, 0},
    {"cf-bucket-size", NULL, NULL, &settings.cf_bucket_size, 1, 255, 0},
    {"cf-max-iterations", NULL, NULL, &settings.cf_max_iterations, 1, 65535, 0},
    {"cf-expansion-factor", NULL, NULL, &settings.cf_expansion_factor, 0, 32768, 0},
    {"cf-max-expansions", "CF_MAX_EXPANSIONS", NULL, &settings.cf_max_expansions, 1, 65535, 0},
    {"seed", NULL, NULL, &settings.seed, 0, INT64_MAX, CONFIG_SENSITIVE},
};

static struct rate {
  const char *name;
  const char *older;
  const char *valkey;
  double *value;
  server_string *text; /* what CONFIG GET was told last */
} rates[] = {
    {"bf-error-rate", "ERROR_RATE", "bloom-fp-rate", &settings.bf_error_rate, NULL},
    {"cf-error-rate", NULL, NULL, &settings.cf_error_rate, NULL},
};

enum { NUMBERS = sizeof numbers / sizeof *numbers, RATES = sizeof rates / sizeof *rates };

/* ---- arguments ---- */

static bool is_named(const server_string *word, const char *name, const char *older,
                     const char *valkey)
{
  return word_is(word, name) || (older && word_is(word, older)) ||
         (valkey && word_is(word, valkey));
}

/* A number of bytes may have a unit, as in redis.conf: kb, mb, gb. */
static bool read_number(const struct number *number, const server_string *word)
{
  static const struct {
    const char *name;
    long long bytes;
  } units[] = {{"kb", 1LL << 10}, {"mb", 1LL << 20}, {"gb", 1LL << 30}};
  long long value;
  size_t size;
  const char *text = server.StringPtrLen(word, &size);
  if (server.StringToLongLong(word, &value) != SERVER_OK) {
    char *end;
    value = -1;
    if ((number->flags & CONFIG_MEMORY) && size > 2 && size < 16)
      for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        long long times = strtoll(text, &end, 10);
        if (end == text + size - 2 && strncasecmp(end, units[i].name, 2) == 0 && times >= 0 &&
            times <= INT64_MAX / units[i].bytes)
          value = times * units[i].bytes;
      }
  }
  if (value < number->min || value > number->max)
    return false;
  *number->value = value;
  return true;
}

static bool read_rate(const struct rate *rate, const server_string *word)
{
  double value;
  if (server.StringToDouble(word, &value) != SERVER_OK || !(value > 0 && value < 1))
    return false;
  *rate->value = value;
  return true;
}

static bool read_setting(const server_string *name, const server_string *value)
{
  for (size_t i = 0; i < NUMBERS; i++)
    if (is_named(name, numbers[i].name, numbers[i].older, numbers[i].valkey))
      return read_number(&numbers[i], value);
  for (size_t i = 0; i < RATES; i++)
    if (is_named(name, rates[i].name, rates[i].older, rates[i].valkey))
      return read_rate(&rates[i], value);
  return false;
}

/* Whether commands can create filters with the settings as they are together; else why not. */
static bool are_possible(char *why, size_t size)
{
  static const struct {
    tamis_kind kind;
    const char *name;
  } kinds[] = {{TAMIS_BLOOM, "bf"}, {TAMIS_CUCKOO, "cf"}};
  char reason[256];
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!reservation_is_possible(kinds[i].kind, reason, sizeof reason)) {
      (void) snprintf(why, size, "no filter could be made with the settings %s-*: %s",
                      kinds[i].name, reason);
      return false;
    }
  return true;
}

/* A load that was refused may have left its arguments, as the file stays in the process. */
bool settings_read(server_ctx *ctx, server_string **argv, int argc)
{
  settings = defaults;
  for (int i = 0; i < argc; i += 2) {
    if (i + 1 < argc && read_setting(argv[i], argv[i + 1]))
      continue;
    server.Log(ctx, "warning", "unknown argument of the module, or a value out of its range: %s %s",
               server.StringPtrLen(argv[i], NULL),
               i + 1 < argc ? server.StringPtrLen(argv[i + 1], NULL) : "");
    return false;
  }
  return true;
}

/* ---- CONFIG ---- */

static long long get_number(const char *name, void *number)
{
  (void) name;
  return *((struct number *) number)->value;
}

static int set_number(const char *name, long long value, void *number, server_string **error)
{
  (void) name, (void) error;
  *((struct number *) number)->value = value;
  return SERVER_OK;
}

static server_string *get_rate(const char *name, void *rate)
{
  struct rate *r = rate;
  char text[32];
  (void) name;
  int size = snprintf(text, sizeof text, "%.15g", *r->value);
  if (r->text)
    server.FreeString(NULL, r->text);
  r->text = server.CreateString(NULL, text, (size_t) size);
  return r->text;
}

static int set_rate(const char *name, server_string *value, void *rate, server_string **error)
{
  static const char text[] = "the rate must be above 0 and below 1";
  (void) name;
  if (read_rate(rate, value))
    return SERVER_OK;
  *error = server.CreateString(NULL, text, sizeof text - 1);
  return SERVER_ERR;
}

/* The settings of a configuration file come one by one, and are checked when all are there. */
static bool is_loading;

/* After all settings of one CONFIG SET, which an error takes back. */
static int apply(server_ctx *ctx, void *unused, server_string **error)
{
  char why[320];
  (void) ctx, (void) unused;
  if (is_loading || are_possible(why, sizeof why))
    return SERVER_OK;
  *error = server.CreateString(NULL, why, strlen(why));
  return SERVER_ERR;
}

static bool check_all(server_ctx *ctx)
{
  char why[320];
  const bool possible = are_possible(why, sizeof why);
  if (!possible)
    server.Log(ctx, "warning", "arguments of the module: %s", why);
  return possible;
}

bool settings_register(server_ctx *ctx)
{
  char text[32];
  if (!server.RegisterNumericConfig || !server.RegisterStringConfig || !server.LoadConfigs)
    return check_all(ctx);
  for (size_t i = 0; i < NUMBERS; i++) {
    struct number *n = &numbers[i];
    if (server.RegisterNumericConfig(ctx, n->name, *n->value, n->flags, n->min, n->max, get_number,
                                     set_number, apply, n) != SERVER_OK)
      return false;
  }
  for (size_t i = 0; i < RATES; i++) {
    (void) snprintf(text, sizeof text, "%.15g", *rates[i].value);
    if (server.RegisterStringConfig(ctx, rates[i].name, text, 0, get_rate, set_rate, apply,
                                    &rates[i]) != SERVER_OK)
      return false;
  }
  is_loading = true;
  const bool loaded = server.LoadConfigs(ctx) == SERVER_OK;
  is_loading = false;
  return loaded && check_all(ctx);
}

/* ---- who is to obey ---- */

bool must_obey(server_ctx *ctx)
{
  return (server.GetContextFlags(ctx) &
          (CONTEXT_REPLICATED | CONTEXT_LOADING | CONTEXT_ASYNC_LOADING | CONTEXT_SLAVE)) != 0;
}

uint64_t limit_for(server_ctx *ctx)
{
  return must_obey(ctx) ? 0 : (uint64_t) settings.max_bytes;
}
