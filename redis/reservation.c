/* SPDX-License-Identifier: MIT */
#include "reservation.h"

#include "bytes.h"
#include "commands.h"
#include "growth.h"
#include "keys.h"
#include "memory.h"
#include "settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char reservation_wrong_arity[] = "";

void reservation_init(struct reservation *w, tamis_kind kind)
{
  *w = (struct reservation){.kind = kind, .seed = (uint64_t) settings.seed};
  w->traits.max_bytes = (uint64_t) settings.max_bytes;
  if (kind == TAMIS_CUCKOO) {
    w->rate = settings.cf_error_rate;
    w->capacity = settings.cf_initial_size;
    w->traits.expansion = (uint32_t) settings.cf_expansion_factor;
    w->traits.bucket_size = (uint8_t) settings.cf_bucket_size;
    w->traits.max_iterations = (uint16_t) settings.cf_max_iterations;
  } else {
    w->rate = settings.bf_error_rate;
    w->capacity = settings.bf_initial_size;
    w->traits.expansion = (uint32_t) settings.bf_expansion_factor;
  }
}

/* ---- options ---- */

static const long long MOST_CAPACITY = 1LL << 40;

const char *reservation_read_capacity(struct reservation *w, const server_string *word)
{
  if (server.StringToLongLong(word, &w->capacity) != SERVER_OK)
    return w->kind == TAMIS_CUCKOO || w->form == FORM_INSERT ? "ERR Bad capacity"
                                                             : "ERR bad capacity";
  if (w->capacity > MOST_CAPACITY)
    return "ERR (capacity should be at most 1099511627776, which is 2^40)";
  return w->capacity > 0 ? NULL : "ERR (capacity should be larger than 0)";
}

const char *reservation_read_rate(struct reservation *w, const server_string *word)
{
  if (server.StringToDouble(word, &w->rate) != SERVER_OK)
    return w->form == FORM_INSERT ? "ERR Bad error rate" : "ERR bad error rate";
  return w->rate > 0 && w->rate < 1 ? NULL : "ERR (0 < error rate range < 1)";
}

static bool read_number(const server_string *word, long long min, long long max, uint64_t *out)
{
  long long number;
  if (server.StringToLongLong(word, &number) != SERVER_OK || number < min || number > max)
    return false;
  *out = (uint64_t) number;
  return true;
}

/* What is wrong with a number, in the words of RedisBloom, which tells what is none from what is
 * out of its range. */
static const char *read_in_range(const server_string *word, long long min, long long max,
                                 uint64_t *out, const char *no_number, const char *out_of_range)
{
  long long unused;
  if (server.StringToLongLong(word, &unused) != SERVER_OK)
    return no_number;
  return read_number(word, min, max, out) ? NULL : out_of_range;
}

static const char *read_expansion(struct reservation *w, const server_string *word)
{
  uint64_t n = 0;
  w->expands = true;
  const char *error =
      w->kind == TAMIS_CUCKOO
          ? read_in_range(word, 0, 32768, &n, "ERR Couldn't parse EXPANSION",
                          "ERR EXPANSION: value must be in the range [0, 32768]")
          : read_in_range(word, 0, 32768, &n,
                          w->form == FORM_INSERT ? "ERR Bad expansion" : "ERR bad expansion",
                          "ERR expansion must be in the range [0, 32768]");
  w->traits.expansion = (uint32_t) n;
  return error;
}

static const char *read_bucket_size(struct reservation *w, const server_string *word)
{
  uint64_t n = 0;
  const char *error = read_in_range(word, 1, 255, &n, "ERR Couldn't parse BUCKETSIZE",
                                    "ERR BUCKETSIZE: value must be in the range [1, 255]");
  w->traits.bucket_size = (uint8_t) n;
  return error;
}

static const char *read_max_iterations(struct reservation *w, const server_string *word)
{
  uint64_t n = 0;
  const char *error = read_in_range(word, 1, 65535, &n, "ERR Couldn't parse MAXITERATIONS",
                                    "ERR MAXITERATIONS: value must be in the range [1, 65535]");
  w->traits.max_iterations = (uint16_t) n;
  return error;
}

static const char *read_max_bytes(struct reservation *w, const server_string *word)
{
  w->limits = true;
  return read_number(word, 0, INT64_MAX, &w->traits.max_bytes) ? NULL : "ERR bad MAXBYTES";
}

/* The errors of the two options that only valkey-bloom has are in its words. */
static const char *read_tightening(struct reservation *w, const server_string *word)
{
  double ratio;
  (void) w; /* the layers' parts of the rate are those of the library */
  if (server.StringToDouble(word, &ratio) != SERVER_OK)
    return "ERR bad tightening ratio";
  return ratio > 0 && ratio < 1 ? NULL : "ERR (0 < tightening ratio range < 1)";
}

static const char *read_scale_to(struct reservation *w, const server_string *word)
{
  if (!read_number(word, 0, INT64_MAX, &w->scale_to))
    return "ERR bad capacity";
  return w->scale_to ? NULL : "ERR (capacity should be larger than 0)";
}

/* A number, decimal or with 0x, or RANDOM.  A seed of 0 is one as any other here.  That of
 * valkey-bloom's INSERT is 32 bytes. */
static const char *read_seed(struct reservation *w, const server_string *word)
{
  static const uint64_t in_place_of_zero = UINT64_C(0x9e3779b97f4a7c15);
  enum { VALKEY_SEED = 32 };
  size_t size;
  const char *text = server.StringPtrLen(word, &size);
  char *end, digits[24];
  if (w->seeded)
    return "ERR only one SEED";
  w->seeded = true;
  w->seed = 0;
  if (word_is(word, "RANDOM"))
    return NULL;
  if (size == VALKEY_SEED && w->form == FORM_INSERT && w->kind == TAMIS_BLOOM) {
    w->seed = sum_bytes(text, size, 1) | 1;
    return NULL;
  }
  if (!size || size >= sizeof digits || text[0] < '0' || text[0] > '9')
    return "ERR bad seed";
  (void) snprintf(digits, sizeof digits, "%.*s", (int) size, text);
  bool hexadecimal = size > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  errno = 0;
  w->seed = strtoull(digits, &end, hexadecimal ? 16 : 10);
  if (errno || (size_t) (end - digits) != size)
    return "ERR bad seed";
  w->seed = w->seed ? w->seed : in_place_of_zero;
  return NULL;
}

static const char *read_window(struct reservation *w, const server_string *word)
{
  uint64_t n;
  if (!read_number(word, 1, MOST_PERIODS, &n))
    return "ERR WINDOW: value must be an integer between 1 and 64, inclusive.";
  w->traits.window = n & 127;
  return NULL;
}

static const char *read_every(struct reservation *w, const server_string *word)
{
  return read_number(word, 0, INT64_MAX / 4, &w->traits.every) ? NULL : "ERR bad EVERY";
}

static const char *read_next(struct reservation *w, const server_string *word)
{
  return read_number(word, 0, INT64_MAX / 2, &w->traits.next) ? NULL : "ERR bad NEXT";
}

static const char *read_ttl(struct reservation *w, const server_string *word)
{
  return read_number(word, 1, MOST_SECONDS, &w->ttl) ? NULL : "ERR invalid expire time in TTL";
}

const char *reservation_read_ex(struct reservation *w, const server_string *word)
{
  w->life.ends = true;
  return read_number(word, 1, MOST_SECONDS, &w->life.seconds) ? NULL
                                                              : "ERR invalid expire time in EX";
}

static const char *read_periods(struct reservation *w, const server_string *word)
{
  w->life = (struct life){.ends = true};
  return read_number(word, 0, MOST_PERIODS, &w->life.periods) ? NULL : "ERR bad number of periods";
}

static const char *set_renews(struct reservation *w, const server_string *unused)
{
  (void) unused;
  w->traits.renews = 1;
  return NULL;
}

static const char *set_nonscaling(struct reservation *w, const server_string *unused)
{
  (void) unused;
  w->nonscaling = true;
  return NULL;
}

static const char *set_no_create(struct reservation *w, const server_string *unused)
{
  (void) unused;
  w->no_create = true;
  return NULL;
}

static const struct option {
  const char *name;
  const char *(*read)(struct reservation *w, const server_string *word);
  bool has_value;
  unsigned bloom, cuckoo; /* in which forms */
} known_options[] = {
    {"CAPACITY", reservation_read_capacity, true, FORM_INSERT, FORM_INSERT},
    {"ERROR", reservation_read_rate, true, FORM_INSERT, FORM_RESERVE | FORM_INSERT},
    {"EXPANSION", read_expansion, true, FORM_RESERVE | FORM_INSERT, FORM_RESERVE},
    {"NONSCALING", set_nonscaling, false, FORM_RESERVE | FORM_INSERT, 0},
    {"BUCKETSIZE", read_bucket_size, true, 0, FORM_RESERVE},
    {"MAXITERATIONS", read_max_iterations, true, 0, FORM_RESERVE},
    {"NOCREATE", set_no_create, false, FORM_INSERT, FORM_INSERT},
    {"WINDOW", read_window, true, FORM_RESERVE | FORM_INSERT, FORM_RESERVE | FORM_INSERT},
    {"EVERY", read_every, true, FORM_RESERVE | FORM_INSERT, FORM_RESERVE | FORM_INSERT},
    {"NEXT", read_next, true, FORM_RESERVE, FORM_RESERVE},
    {"RENEWS", set_renews, false, FORM_RESERVE | FORM_INSERT, FORM_RESERVE | FORM_INSERT},
    {"TTL", read_ttl, true, FORM_RESERVE, FORM_RESERVE},
    {"EX", reservation_read_ex, true, FORM_INSERT, FORM_INSERT},
    {"PERIODS", read_periods, true, FORM_INSERT, FORM_INSERT},
    {"SEED", read_seed, true, FORM_RESERVE | FORM_INSERT, FORM_RESERVE | FORM_INSERT},
    {"MAXBYTES", read_max_bytes, true, FORM_RESERVE | FORM_INSERT, FORM_RESERVE | FORM_INSERT},
    {"TIGHTENING", read_tightening, true, FORM_INSERT, 0},
    {"VALIDATESCALETO", read_scale_to, true, FORM_INSERT, 0},
};

static const struct option *find_option(tamis_kind kind, enum reservation_form form,
                                        const server_string *word)
{
  for (size_t i = 0; i < sizeof known_options / sizeof *known_options; i++)
    if ((kind == TAMIS_CUCKOO ? known_options[i].cuckoo : known_options[i].bloom) & form &&
        word_is(word, known_options[i].name))
      return &known_options[i];
  return NULL;
}

/* Of an option that stands twice, RESERVE takes the first one, and INSERT the last one, as in
 * RedisBloom, which refuses a second SEED. */
static bool is_overlooked(struct reservation *w, const struct option *option)
{
  const uint64_t bit = UINT64_C(1) << (option - known_options);
  const bool seen = w->form == FORM_RESERVE && w->seen & bit && option->read != read_seed;
  w->seen |= bit;
  return seen;
}

static const char *missing_value(const struct option *option, const struct reservation *w,
                                 enum reservation_form form)
{
  bool expansion = option->read == read_expansion && w->kind == TAMIS_BLOOM && form == FORM_RESERVE;
  return expansion ? "ERR no expansion" : reservation_wrong_arity;
}

static const char *check_together(struct reservation *w)
{
  if (w->nonscaling && w->expands && w->traits.expansion && w->form == FORM_RESERVE)
    return "ERR Nonscaling filters cannot expand"; /* INSERT: NONSCALING holds */
  if (w->nonscaling)
    w->traits.expansion = 0;
  if (!window_is_possible(&w->traits))
    return "ERR EVERY, NEXT and RENEWS need a WINDOW, and NEXT needs EVERY";
  if (w->kind == TAMIS_CUCKOO && w->traits.bucket_size * 2 > w->capacity)
    return "ERR Capacity must be at least (BucketSize * 2)";
  if (w->scale_to && !w->traits.expansion)
    return "ERR cannot use NONSCALING and VALIDATESCALETO options together";
  return w->scale_to && w->traits.window ? "ERR VALIDATESCALETO needs a filter without a WINDOW"
                                         : NULL;
}

/* In valkey-bloom, BF.INSERT may just create the filter, and BF.RESERVE is replicated so. */
static bool may_lack_items(const struct reservation *w)
{
  return w->kind == TAMIS_BLOOM && !w->no_create && !w->life.ends;
}

/* BF.RESERVE overlooks a word that is no option, as RedisBloom's does: its clients may send some.
 * It takes three words after the capacity, which bounds what can be overlooked. */
enum { MOST_WORDS = 3 };

const char *reservation_read(struct reservation *w, enum reservation_form form,
                             server_string **argv, int argc, int from)
{
  w->form = form;
  for (int i = from; i < argc; i++) {
    if (form == FORM_INSERT && word_is(argv[i], "ITEMS")) {
      w->items = i + 1;
      break;
    }
    const struct option *option = find_option(w->kind, form, argv[i]);
    if (!option && w->kind == TAMIS_BLOOM && form == FORM_RESERVE) {
      if (argc - from > MOST_WORDS)
        return reservation_wrong_arity;
      continue;
    }
    if (!option) /* options of CF.RESERVE come in pairs there, which is looked at first */
      return w->kind == TAMIS_CUCKOO && form == FORM_RESERVE && i + 1 == argc
                 ? reservation_wrong_arity
                 : "ERR Unknown argument received";
    if (option->has_value && ++i == argc)
      return missing_value(option, w, form);
    const char *error = is_overlooked(w, option) ? NULL : option->read(w, argv[i]);
    if (error)
      return error;
  }
  if (form == FORM_INSERT && (w->items == argc || (!w->items && !may_lack_items(w))))
    return reservation_wrong_arity;
  w->items = w->items ? w->items : argc;
  return check_together(w);
}

int reservation_reply_error(server_ctx *ctx, const char *error)
{
  return error == reservation_wrong_arity ? server.WrongArity(ctx)
                                          : server.ReplyWithError(ctx, error);
}

/* ---- creation ---- */

static void replicate(server_ctx *ctx, server_string *key, const struct value *v,
                      const tamis_options *options)
{
  const struct traits traits = value_traits(v), *t = &traits;
  const bool cuckoo = v->kind == TAMIS_CUCKOO;
  char rate[32], seed[24], format[40];
  (void) snprintf(rate, sizeof rate, "%.17g", options->fpp);
  (void) snprintf(seed, sizeof seed, "%" PRIu64, options->seed);
  (void) snprintf(format, sizeof format, "%s%s%s", cuckoo ? "slclclclcccccl" : "sclclcccl",
                  t->window ? "clclcl" : "", t->renews ? "c" : "");
  if (cuckoo)
    server.Replicate(ctx, command_name(v->kind, "TAMIS.CF.RESERVE"), format, key,
                     (long long) options->capacity, "BUCKETSIZE", (long long) t->bucket_size,
                     "MAXITERATIONS", (long long) t->max_iterations, "EXPANSION",
                     (long long) t->expansion, "ERROR", rate, "SEED", seed, "MAXBYTES",
                     (long long) t->max_bytes, "WINDOW", (long long) t->window, "EVERY",
                     (long long) t->every, "NEXT", (long long) t->next, "RENEWS");
  else
    server.Replicate(ctx, command_name(v->kind, "TAMIS.BF.RESERVE"), format, key, rate,
                     (long long) options->capacity, "EXPANSION", (long long) t->expansion, "SEED",
                     seed, "MAXBYTES", (long long) t->max_bytes, "WINDOW", (long long) t->window,
                     "EVERY", (long long) t->every, "NEXT", (long long) t->next, "RENEWS");
}

/* It is drawn here, as the filter's figures, which would tell it, take a while. */
static uint64_t draw_seed(void)
{
  uint64_t seed = 0;
  while (!seed)
    server.GetRandomBytes((unsigned char *) &seed, sizeof seed);
  return seed;
}

/* valkey-bloom's names, as RedisBloom has no events. */
static const char *event_of(const struct reservation *w)
{
  if (w->kind != TAMIS_CUCKOO)
    return "bloom.reserve";
  return w->form == FORM_RESERVE ? "cuckoo.reserve" : "cuckoo.create";
}

static bool limit_is_legal(server_ctx *ctx, const struct reservation *w)
{
  uint64_t limit = limit_for(ctx), asked = w->traits.max_bytes;
  return !w->limits || !limit || (asked && asked <= limit);
}

/* Replicated as a moment, so that a replica that is late expires the key no later. */
static void expire(server_ctx *ctx, server_string *name, uint64_t seconds)
{
  const long long end = server.Milliseconds() + (long long) seconds * 1000;
  server_key *key = server.OpenKey(ctx, name, KEY_READ | KEY_WRITE);
  (void) server.SetAbsExpire(key, end);
  server.CloseKey(key);
  server.Replicate(ctx, "PEXPIREAT", "sl", name, end);
  (void) server.NotifyKeyspaceEvent(ctx, NOTIFY_GENERIC, "expire", name);
}

/* Why a filter could not be created, in the words that users of the module know. */
static void explain(const struct reservation *w, const tamis_options *options, int result,
                    char *why, size_t size)
{
  uint64_t bytes;
  if (result == TAMIS_EFULL && tamis_bytes_for(options, &bytes) == TAMIS_OK)
    (void) snprintf(why, size, "it would take %" PRIu64 " bytes, and %s is %" PRIu64, bytes,
                    w->limits ? "MAXBYTES" : "tamis.max-bytes", options->max_bytes);
  else if (tamis_options_check(options, why, size) == TAMIS_OK)
    (void) snprintf(why, size, "%s", tamis_strerror(result));
}

static tamis_options options_of(const struct reservation *w)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = w->kind;
  options.capacity = (uint64_t) w->capacity;
  options.fpp = w->rate;
  options.growable = w->traits.expansion != 0;
  options.window = w->traits.window;
  options.window_renews = w->traits.renews;
  options.max_bytes = w->traits.max_bytes;
  options.seed = w->seed ? w->seed : draw_seed();
  if (w->kind != TAMIS_CUCKOO) {
    options.stripes = 1; /* commands come one at a time */
    if (!w->traits.window)
      options.layout =
          TAMIS_LAYOUT_CLASSIC; /* a command takes longer than the memory that it saves */
  }
  options.allocator = memory_for_plans();
  options.cleared_from = MEMORY_CLEARED_FROM;
  return options;
}

bool reservation_is_possible(tamis_kind kind, char *why, size_t size)
{
  struct reservation w;
  reservation_init(&w, kind);
  const char *error = check_together(&w);
  if (error) {
    (void) snprintf(why, size, "%s", error + sizeof "ERR");
    return false;
  }
  const tamis_options options = options_of(&w);
  const int result = tamis_options_check(&options, NULL, 0);
  if (result != TAMIS_OK)
    explain(&w, &options, result, why, size);
  return result == TAMIS_OK;
}

const char *reservation_refuses_scale(const struct reservation *w)
{
  const tamis_options options = options_of(w);
  return growth_capacity(&options, w->scale_to) < w->scale_to
             ? "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit"
             : NULL;
}

struct value *reservation_create(server_ctx *ctx, server_string *key, struct reservation *w)
{
  const tamis_options options = options_of(w);
  struct memory_filter made;
  char why[256];
  if (!limit_is_legal(ctx, w)) {
    reply_error(ctx, "ERR MAXBYTES must be between 1 and %lld", settings.max_bytes);
    return NULL;
  }
  if (w->traits.every && !w->traits.next)
    w->traits.next = (uint64_t) server.Milliseconds() + w->traits.every;
  int result = memory_create_filter(&options, &made);
  if (result != TAMIS_OK) {
    explain(w, &options, result, why, sizeof why);
    reply_error(ctx, "ERR could not create filter: %s", why);
    return NULL;
  }
  struct value *v = value_of_filter(w->kind, made, &w->traits, options.capacity, 0);
  if (!v) {
    reply_error(ctx, "ERR could not create filter: %s", tamis_strerror(TAMIS_ENOMEM));
    return NULL;
  }
  key_store(ctx, key, v);
  replicate(ctx, key, v, &options);
  key_changed(ctx, key, event_of(w));
  if (w->ttl)
    expire(ctx, key, w->ttl);
  return v;
}
