/* SPDX-License-Identifier: MIT */
#include "image.h"

#include "bytes.h"
#include "memory.h"
#include "window.h"

enum {
  HEAD = 128,
  AT_VERSION = 8,
  AT_KIND = 16,
  AT_EXPANSION = 24,
  AT_BUCKET_SIZE = 32,
  AT_MAX_ITERATIONS = 40,
  AT_MAX_BYTES = 48,
  AT_DELETED = 56,
  AT_WINDOW = 64,
  AT_RENEWS = 72,
  AT_EVERY = 80,
  AT_NEXT = 88,
  AT_RESERVED = 96,
  AT_SUM = 120,
  VERSION = 1
};

static const unsigned char magic[8] = {'T', 'A', 'M', 'I', 'S', 'K', 'E', 'Y'};

/* ---- writing ---- */

static void write_head(const struct value *v, unsigned char head[HEAD])
{
  memset(head, 0, HEAD);
  memcpy(head, magic, sizeof magic);
  put_u64(head + AT_VERSION, VERSION);
  put_u64(head + AT_KIND, (uint64_t) v->kind);
  put_u64(head + AT_EXPANSION, v->traits.expansion);
  put_u64(head + AT_BUCKET_SIZE, v->traits.bucket_size);
  put_u64(head + AT_MAX_ITERATIONS, v->traits.max_iterations);
  put_u64(head + AT_MAX_BYTES, v->traits.max_bytes);
  put_u64(head + AT_DELETED, v->traits.deleted);
  put_u64(head + AT_WINDOW, v->traits.window);
  put_u64(head + AT_RENEWS, v->traits.renews);
  put_u64(head + AT_EVERY, v->traits.every);
  put_u64(head + AT_NEXT, v->traits.next);
  put_u64(head + AT_SUM, sum_bytes(head, AT_SUM, 0));
}

int image_write(const struct value *v, tamis_write_function write, void *context)
{
  unsigned char head[HEAD];
  write_head(v, head);
  return write(context, head, HEAD) ? TAMIS_EIO : tamis_save(v->filter, write, context);
}

int image_cut(const struct value *v, chunk_taker take, void *context)
{
  struct cutter cutter;
  if (!cutter_begin(&cutter, take, context))
    return TAMIS_ENOMEM;
  return cutter_end(&cutter, image_write(v, cutter_write, &cutter));
}

int image_to_chunks(const struct value *v, struct chunks *out)
{
  int result = image_cut(v, chunks_take, out);
  if (result != TAMIS_OK)
    chunks_clear(out);
  return result == TAMIS_EIO ? TAMIS_ENOMEM : result; /* nothing else fails there */
}

/* ---- reading ---- */

static bool read_all(tamis_read_function read, void *context, unsigned char *data, size_t size)
{
  while (size) {
    int64_t part = read(context, data, size);
    if (part <= 0 || (uint64_t) part > size)
      return false;
    data += part;
    size -= (size_t) part;
  }
  return true;
}

static bool read_head(const unsigned char head[HEAD], tamis_kind kind, struct traits *out)
{
  if (memcmp(head, magic, sizeof magic) != 0 ||
      get_u64(head + AT_SUM) != sum_bytes(head, AT_SUM, 0) ||
      get_u64(head + AT_VERSION) != VERSION || get_u64(head + AT_KIND) != (uint64_t) kind)
    return false;
  for (unsigned i = AT_RESERVED; i < AT_SUM; i++)
    if (head[i])
      return false;
  *out = (struct traits){.expansion = get_u64(head + AT_EXPANSION),
                         .bucket_size = get_u64(head + AT_BUCKET_SIZE),
                         .max_iterations = get_u64(head + AT_MAX_ITERATIONS),
                         .max_bytes = get_u64(head + AT_MAX_BYTES),
                         .deleted = get_u64(head + AT_DELETED),
                         .window = get_u64(head + AT_WINDOW),
                         .renews = get_u64(head + AT_RENEWS),
                         .every = get_u64(head + AT_EVERY),
                         .next = get_u64(head + AT_NEXT)};
  return window_is_possible(out) && out->expansion <= INT64_MAX && out->bucket_size <= INT64_MAX &&
         out->max_iterations <= INT64_MAX && out->deleted <= INT64_MAX;
}

/* Whether the filter is one of those that the head announces. */
static int check_filter(tamis_kind kind, const struct traits *traits, const tamis_stats *stats)
{
  return stats->kind == kind && stats->parts == traits->window + 1 ? TAMIS_OK : TAMIS_ECORRUPT;
}

int image_read(tamis_kind kind, uint64_t max_bytes, tamis_read_function read, void *context,
               struct value **out)
{
  unsigned char head[HEAD], more;
  struct traits traits;
  tamis_filter *filter;
  *out = NULL;
  if (!read_all(read, context, head, HEAD) || !read_head(head, kind, &traits))
    return TAMIS_ECORRUPT;
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.allocator = memory_of_filters();
  options.cleared_from = MEMORY_CLEARED_FROM;
  if (max_bytes && (!traits.max_bytes || traits.max_bytes > max_bytes))
    traits.max_bytes = max_bytes;
  options.max_bytes = max_bytes ? traits.max_bytes : 0; /* 0: the filter's own limit stays */
  int result = tamis_load(&options, read, context, &filter);
  if (result != TAMIS_OK)
    return result;
  tamis_stats stats = TAMIS_STATS_INIT;
  (void) tamis_get_stats(filter, &stats);
  result = check_filter(kind, &traits, &stats);
  if (result == TAMIS_OK && read(context, &more, 1) != 0)
    result = TAMIS_ECORRUPT;
  if (result != TAMIS_OK) {
    tamis_destroy(filter);
    return result;
  }
  *out = value_of_filter(kind, filter, &traits, stats.capacity, stats.count);
  return *out ? TAMIS_OK : TAMIS_ENOMEM;
}

/* ---- copies ---- */

static struct value *copy_chunks(const struct value *v)
{
  struct value *copy = value_to_restore(v->kind);
  if (!copy)
    return NULL;
  copy->id = v->id;
  for (size_t i = 0; i < v->chunks.count; i++)
    if (!chunks_append(&copy->chunks, v->chunks.chunk[i],
                       CHUNK_HEAD + chunks_size_of(&v->chunks, i), false)) {
      value_free(copy);
      return NULL;
    }
  return copy;
}

struct value *image_copy(const struct value *v, uint64_t max_bytes, int *result)
{
  struct value *copy = NULL;
  if (!v->filter) {
    copy = copy_chunks(v);
    *result = copy ? TAMIS_OK : TAMIS_ENOMEM;
    return copy;
  }
  struct chunks chunks = {0};
  *result = image_to_chunks(v, &chunks);
  if (*result == TAMIS_OK) {
    struct chunks_reader reader = {.chunks = &chunks, .consumes = true};
    *result = image_read(v->kind, max_bytes, chunks_read, &reader, &copy);
  }
  chunks_clear(&chunks);
  return copy;
}

int image_lift_limit(struct value *v)
{
  int result;
  v->traits.max_bytes = 0;
  struct value *copy = image_copy(v, UINT64_MAX, &result);
  if (copy)
    value_complete(v, copy);
  return result;
}
