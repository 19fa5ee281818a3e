/* SPDX-License-Identifier: MIT
 *
 * The commands that tell the figures of a filter.
 */
#include "commands.h"
#include "growth.h"
#include "keys.h"
#include "memory.h"
#include "settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

struct figure {
  const char *name;
  const char *field; /* BF.INFO key FIELD; NULL: there is none */
  long long value;
  bool missing;
};

/* RedisBloom's figures that hang on its structure: a bucket is what BUCKETSIZE says, and there are
 * about enough of them for the capacity, as a power of two. */
static long long buckets_of(const struct value *v)
{
  if (v->foreign)
    return (long long) v->foreign->buckets;
  uint64_t size = v->traits.bucket_size ? v->traits.bucket_size : 1, buckets = 1;
  while (buckets < v->capacity / size && buckets < UINT64_C(1) << 40)
    buckets *= 2;
  return (long long) buckets;
}

/* A cuckoo filter grows by generations, but with a window by layers. */
static long long filters_of(const struct value *v, const tamis_stats *stats)
{
  if (v->foreign)
    return (long long) v->foreign->layers + stats->layers;
  return v->traits.window || v->kind != TAMIS_CUCKOO ? stats->layers : stats->generations;
}

enum { MOST_FIGURES = 8 };

static int figures_of(const struct value *v, struct figure *f)
{
  const tamis_stats stats = value_stats(v);
  const struct traits traits = value_traits(v), *t = &traits;
  const struct figure size = {"Size", "SIZE", (long long) value_memory(v), false};
  const struct figure items = {"Number of items inserted", "ITEMS", (long long) value_items(v),
                               false};
  if (v->kind == TAMIS_CUCKOO) {
    f[0] = size;
    f[1] = (struct figure){"Number of buckets", NULL, buckets_of(v), false};
    f[2] = (struct figure){"Number of filters", NULL, filters_of(v, &stats), false};
    f[3] = items;
    f[4] = (struct figure){"Number of items deleted", NULL, (long long) t->deleted, false};
    f[5] = (struct figure){"Bucket size", NULL, (long long) t->bucket_size, false};
    f[6] = (struct figure){"Expansion rate", NULL, (long long) t->expansion, false};
    f[7] = (struct figure){"Max iterations", NULL, (long long) t->max_iterations, false};
    return 8;
  }
  f[0] = (struct figure){"Capacity", "CAPACITY", (long long) value_capacity(v), false};
  f[1] = size;
  f[2] = (struct figure){"Number of filters", "FILTERS", filters_of(v, &stats), false};
  f[3] = items;
  f[4] = (struct figure){"Expansion rate", "EXPANSION", (long long) t->expansion, !t->expansion};
  return 5;
}

static void reply_figure(server_ctx *ctx, const struct figure *f)
{
  if (f->missing)
    server.ReplyWithNull(ctx);
  else
    server.ReplyWithLongLong(ctx, f->value);
}

static bool is_of_valkey(const struct value *v)
{
  return v->foreign && v->foreign->options & FOREIGN_VALKEY;
}

/* The rate that was asked for.  In RedisBloom the first layer of a filter that grows has half of it. */
static double rate_of(const struct value *v, const tamis_stats *stats)
{
  if (!v->foreign)
    return stats->fpp;
  const double rate = v->foreign->layer[0].rate;
  return is_of_valkey(v) || v->foreign->options & FOREIGN_NONSCALING ? rate : 2 * rate;
}

static uint64_t most_capacity_of(const struct value *v, const tamis_stats *stats)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = stats->capacity;
  options.fpp = stats->fpp;
  options.max_bytes = v->traits.max_bytes;
  options.layout = TAMIS_LAYOUT_CLASSIC;
  options.allocator = memory_for_plans();
  options.cleared_from = MEMORY_CLEARED_FROM;
  options.stripes = 1;
  const uint64_t most = growth_capacity(&options, INT64_MAX), now = value_capacity(v);
  return most > now ? most : now;
}

/* Fields that only valkey-bloom has.  They come as there, which has neither array nor map. */
static int reply_valkey_field(server_ctx *ctx, const struct value *v, const server_string *field)
{
  const tamis_stats stats = value_stats(v);
  const bool grows = v->traits.expansion && !v->traits.window;
  if (word_is(field, "ERROR"))
    return server.ReplyWithDouble(ctx, rate_of(v, &stats));
  if (word_is(field, "MAXSCALEDCAPACITY") && grows && !v->foreign)
    return server.ReplyWithLongLong(ctx, (long long) most_capacity_of(v, &stats));
  if (word_is(field, "TIGHTENING") && grows && is_of_valkey(v))
    return server.ReplyWithDouble(ctx, v->foreign->tightening);
  if (word_is(field, "TIGHTENING") && grows)
    return server.ReplyWithError(ctx,
                                 "ERR the filter has no tightening ratio: its layers take parts "
                                 "of the rate by another rule");
  return server.ReplyWithError(ctx, "ERR Invalid information value");
}

static int reply_field(server_ctx *ctx, const struct value *v, const struct figure *f, int n,
                       const server_string *field)
{
  for (int i = 0; i < n; i++) {
    if (!f[i].field || !word_is(field, f[i].field))
      continue;
    if (speaks_resp3(ctx)) {
      server.ReplyWithMap(ctx, 1);
      server.ReplyWithSimpleString(ctx, f[i].name);
    } else {
      server.ReplyWithArray(ctx, 1);
    }
    reply_figure(ctx, &f[i]);
    return SERVER_OK;
  }
  return reply_valkey_field(ctx, v, field);
}

/* ---- advice ---- */

struct advice {
  server_ctx *ctx;
  long sentences;
};

static void advise(struct advice *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void advise(struct advice *a, const char *format, ...)
{
  char text[320];
  va_list arguments;
  va_start(arguments, format);
  /* clang-tidy 14 overlooks va_start: */
  int size = vsnprintf(text, sizeof text, format, arguments); /* NOLINT(*-valist.Uninitialized) */
  va_end(arguments);
  (void) server.ReplyWithStringBuffer(a->ctx, text, (size_t) size);
  a->sentences++;
}

static void advise_on_size(struct advice *a, const struct value *v, const tamis_stats *stats)
{
  enum { MANY_LAYERS = 4, WORTH_A_WORD = 64 << 10, ALMOST = 10 };
  const uint64_t capacity = value_capacity(v), bytes = value_memory(v);
  const uint64_t counted = stats->bytes + (v->foreign ? v->foreign->bytes : 0);
  const uint64_t limit = v->foreign ? (uint64_t) settings.max_bytes : v->traits.max_bytes;
  const bool fixed = !v->traits.expansion && !v->traits.window;
  const long long layers = filters_of(v, stats);
  if (v->kind != TAMIS_CUCKOO && layers >= MANY_LAYERS && !v->traits.window)
    advise(
        a,
        "The filter has grown to %lld layers, and a look-up searches all of them. A new one with "
        "BF.RESERVE for %" PRIu64 " items would have one.",
        layers, v->count + v->count / 4);
  if (!v->foreign && bytes > WORTH_A_WORD && v->count < v->capacity / 10)
    advise(a,
           "Less than a tenth of what was reserved is in use: %" PRIu64 " of %" PRIu64
           " items. A smaller capacity would save most of the %" PRIu64 " bytes.",
           v->count, v->capacity, bytes);
  if (fixed && v->count >= capacity)
    advise(a, "The filter is full, and does not grow: new items get errors.");
  else if (fixed && capacity - v->count < capacity / ALMOST)
    advise(a, "The filter does not grow, and has room for %" PRIu64 " more item%s.",
           capacity - v->count, capacity - v->count == 1 ? "" : "s");
  /* A further layer of a Bloom filter takes about as much as all before it, and the bytes of a cuckoo
   * filter rise and fall by as much while it grows. */
  if (v->traits.expansion && limit && (v->at_limit || counted > limit / 2))
    advise(a,
           "The filter has %" PRIu64 " of the %" PRIu64
           " bytes that it may take (%s). New items get errors when it cannot grow within them.",
           counted, limit, "MAXBYTES or tamis.max-bytes");
}

static void advise_on_rate(struct advice *a, const struct value *v, const tamis_stats *stats)
{
  const struct foreign *f = v->foreign;
  if (f && !is_of_valkey(v))
    advise(a,
           "RedisBloom wrote this filter, and its hash functions have seeds that everybody knows: "
           "whoever chooses items can make others collide. Where the items are still known, add "
           "them to a new filter.");
  if (f && f->kind == TAMIS_CUCKOO)
    advise(a, "Its rate of false positives is about %.2g with %zu table%s of bytes.",
           1 - pow(1 - 1.0 / 255, 2.0 * (double) f->count / (double) f->bytes *
                                      (double) f->bucket_size * (double) f->layers),
           f->layers, f->layers == 1 ? "" : "s");
  else if (!f && stats->fpp_estimate > 1.5 * stats->fpp)
    advise(a, "The rate of false positives is about %.2g, above the %.2g that was asked for.",
           stats->fpp_estimate, stats->fpp);
  if (v->traits.window && v->traits.every &&
      v->traits.next + 2 * v->traits.every < (uint64_t) server.Milliseconds())
    advise(a, "No item has come for more than two periods, so their ends are overdue: the filter "
              "forgets with the next add, or with ADVANCE.");
}

/* Sentences about what an operator may want to change, as MEMORY DOCTOR says of a server. */
static int reply_advice(server_ctx *ctx, const struct value *v)
{
  const tamis_stats stats = value_stats(v);
  struct advice a = {.ctx = ctx};
  server.ReplyWithArray(ctx, LENGTH_LATER);
  advise_on_size(&a, v, &stats);
  advise_on_rate(&a, v, &stats);
  if (!a.sentences)
    advise(&a, "There is nothing to say: the filter is as it should be.");
  server.ReplySetArrayLength(ctx, a.sentences);
  return SERVER_OK;
}

int command_info(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct figure figures[MOST_FIGURES];
  struct value *v;
  const bool advice = argc == 3 && word_is(argv[2], "ADVICE");
  if (argc > 3 || (argc == 3 && kind != TAMIS_BLOOM && !advice))
    return server.WrongArity(ctx);
  enum key_state state = key_find(ctx, argv[1], KEY_READ, kind, &v);
  if (state != KEY_WHOLE)
    return reply_state(ctx, state);
  if (advice)
    return reply_advice(ctx, v);
  int n = figures_of(v, figures);
  if (argc == 3)
    return reply_field(ctx, v, figures, n, argv[2]);
  server.ReplyWithMap(ctx, n);
  for (int i = 0; i < n; i++) {
    server.ReplyWithSimpleString(ctx, figures[i].name);
    reply_figure(ctx, &figures[i]);
  }
  return SERVER_OK;
}

int command_card(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  (void) argc;
  enum key_state state = key_find(ctx, argv[1], KEY_READ, kind, &v);
  if (state == KEY_EMPTY)
    return server.ReplyWithLongLong(ctx, 0);
  return state == KEY_WHOLE ? server.ReplyWithLongLong(ctx, (long long) value_items(v))
                            : reply_state(ctx, state);
}

static uint64_t foreign_capacity_of(const struct value *v)
{
  return v->foreign ? foreign_capacity(v->foreign) : 0;
}

/* As RedisBloom tells those of its layers. */
static void reply_foreign_layer(server_ctx *ctx, const struct foreign *f, size_t number)
{
  const struct foreign_layer *l = &f->layer[number];
  char line[256];
  int size = snprintf(line, sizeof line,
                      "bytes:%" PRIu64 " bits:%" PRIu64 " hashes:%" PRIu64
                      " hashwidth:%d capacity:%" PRIu64 " size:%" PRIu64 " ratio:%g",
                      l->bytes, l->bits, l->hashes, f->options & FOREIGN_HASH_64 ? 64 : 32,
                      l->entries, l->size, l->rate);
  server.ReplyWithStringBuffer(ctx, line, (size_t) size);
}

/* The figures of the filter itself, as lines of text.  Tests of client libraries compare them
 * before and after a dump. */
int command_debug(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  char line[256];
  (void) argc;
  enum key_state state = key_find(ctx, argv[1], KEY_READ, kind, &v);
  if (state != KEY_WHOLE)
    return reply_state(ctx, state);
  const tamis_stats stats = value_stats(v);
  if (kind == TAMIS_CUCKOO) {
    int size = snprintf(line, sizeof line,
                        "bktsize:%u buckets:%lld items:%" PRIu64 " deletes:%" PRIu64
                        " filters:%lld max_iterations:%u expansion:%" PRIu32,
                        v->traits.bucket_size, buckets_of(v), value_items(v), v->traits.deleted,
                        filters_of(v, &stats), v->traits.max_iterations, v->traits.expansion);
    return server.ReplyWithStringBuffer(ctx, line, (size_t) size);
  }
  const size_t layers = v->foreign ? v->foreign->layers : 0;
  server.ReplyWithArray(ctx, (long) (1 + layers + (v->filter ? 1 : 0)));
  int size = snprintf(line, sizeof line, "size:%" PRIu64, value_items(v));
  server.ReplyWithStringBuffer(ctx, line, (size_t) size);
  for (size_t i = 0; i < layers; i++)
    reply_foreign_layer(ctx, v->foreign, i);
  if (!v->filter)
    return SERVER_OK;
  size = snprintf(line, sizeof line,
                  "bytes:%" PRIu64 " bits:%" PRIu64
                  " hashes:%u hashwidth:64 layers:%u capacity:%lld size:%" PRIu64 " ratio:%g",
                  stats.bits / 8, stats.bits, stats.bits_per_key, stats.layers,
                  (long long) (value_capacity(v) - foreign_capacity_of(v)), stats.count, stats.fpp);
  return server.ReplyWithStringBuffer(ctx, line, (size_t) size);
}
