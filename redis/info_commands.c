/* SPDX-License-Identifier: MIT
 *
 * The commands that tell the figures of a filter.
 */
#include "commands.h"
#include "keys.h"

#include <inttypes.h>
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

/* The statistics of the library's own filter; all zero where there is none. */
static tamis_stats stats_of(const struct value *v)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  if (v->filter)
    (void) tamis_get_stats(v->filter, &stats);
  return stats;
}

/* A cuckoo filter grows by generations, but with a window by layers. */
static long long filters_of(const struct value *v, const tamis_stats *stats)
{
  if (v->foreign)
    return (long long) (v->foreign->layers + stats->layers);
  return v->traits.window || v->kind != TAMIS_CUCKOO ? stats->layers : stats->generations;
}

enum { MOST_FIGURES = 8 };

static int figures_of(const struct value *v, struct figure *f)
{
  const tamis_stats stats = stats_of(v);
  const struct traits *t = &v->traits;
  const struct figure size = {"Size", "SIZE", (long long) value_memory(v), false};
  const struct figure items = {"Number of items inserted", "ITEMS", (long long) v->count, false};
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

static int reply_field(server_ctx *ctx, const struct figure *f, int n, const server_string *field)
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
  return server.ReplyWithError(ctx, "ERR Invalid information value");
}

int command_info(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct figure figures[MOST_FIGURES];
  struct value *v;
  if (argc != 2 && !(argc == 3 && kind == TAMIS_BLOOM))
    return server.WrongArity(ctx);
  enum key_state state = key_find(ctx, argv[1], KEY_READ, kind, &v);
  if (state != KEY_WHOLE)
    return reply_state(ctx, state);
  int n = figures_of(v, figures);
  if (argc == 3)
    return reply_field(ctx, figures, n, argv[2]);
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
  if (argc != 2)
    return server.WrongArity(ctx);
  enum key_state state = key_find(ctx, argv[1], KEY_READ, kind, &v);
  if (state == KEY_EMPTY)
    return server.ReplyWithLongLong(ctx, 0);
  return state == KEY_WHOLE ? server.ReplyWithLongLong(ctx, (long long) v->count)
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
  if (argc != 2)
    return server.WrongArity(ctx);
  enum key_state state = key_find(ctx, argv[1], KEY_READ, kind, &v);
  if (state != KEY_WHOLE)
    return reply_state(ctx, state);
  const tamis_stats stats = stats_of(v);
  if (kind == TAMIS_CUCKOO) {
    int size = snprintf(line, sizeof line,
                        "bktsize:%" PRIu64 " buckets:%lld items:%" PRIu64 " deletes:%" PRIu64
                        " filters:%lld max_iterations:%" PRIu64 " expansion:%" PRIu64,
                        v->traits.bucket_size, buckets_of(v), v->count, v->traits.deleted,
                        filters_of(v, &stats), v->traits.max_iterations, v->traits.expansion);
    return server.ReplyWithStringBuffer(ctx, line, (size_t) size);
  }
  const size_t layers = v->foreign ? v->foreign->layers : 0;
  server.ReplyWithArray(ctx, (long) (1 + layers + (v->filter ? 1 : 0)));
  int size = snprintf(line, sizeof line, "size:%" PRIu64, v->count);
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
