/* SPDX-License-Identifier: MIT */
#include "image.h"

#include "bytes.h"
#include "foreign_data.h"
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
  AT_FORM = 96,
  AT_RESERVED = 104,
  AT_SUM = 120,
  VERSION = 1
};

enum form { FORM_OWN, FORM_FOREIGN, FORM_FOREIGN_AND_OWN };

static const unsigned char magic[8] = {'T', 'A', 'M', 'I', 'S', 'K', 'E', 'Y'};

/* ---- writing ---- */

static enum form form_of(const struct value *v)
{
  if (!v->foreign)
    return FORM_OWN;
  return v->filter ? FORM_FOREIGN_AND_OWN : FORM_FOREIGN;
}

static void write_head(const struct value *v, unsigned char head[HEAD])
{
  const struct traits traits = value_traits(v);
  memset(head, 0, HEAD);
  memcpy(head, magic, sizeof magic);
  put_u64(head + AT_VERSION, VERSION);
  put_u64(head + AT_KIND, (uint64_t) v->kind);
  put_u64(head + AT_EXPANSION, traits.expansion);
  put_u64(head + AT_BUCKET_SIZE, traits.bucket_size);
  put_u64(head + AT_MAX_ITERATIONS, traits.max_iterations);
  put_u64(head + AT_MAX_BYTES, traits.max_bytes);
  put_u64(head + AT_DELETED, traits.deleted);
  put_u64(head + AT_WINDOW, traits.window);
  put_u64(head + AT_RENEWS, traits.renews);
  put_u64(head + AT_EVERY, traits.every);
  put_u64(head + AT_NEXT, traits.next);
  put_u64(head + AT_FORM, (uint64_t) form_of(v));
  put_u64(head + AT_SUM, sum_bytes(head, AT_SUM, 0));
}

static int write_image(const struct value *v, tamis_write_function write, void *context)
{
  unsigned char head[HEAD];
  write_head(v, head);
  int result = write(context, head, HEAD) ? TAMIS_EIO : TAMIS_OK;
  if (result == TAMIS_OK && v->foreign)
    result = foreign_write(v->foreign, write, context);
  return result == TAMIS_OK && v->filter ? tamis_save(v->filter, write, context) : result;
}

int image_cut(const struct value *v, bool sparse, chunk_taker take, void *context)
{
  struct cutter cutter;
  if (!cutter_begin(&cutter, sparse, take, context))
    return TAMIS_ENOMEM;
  return cutter_end(&cutter, write_image(v, cutter_write, &cutter));
}

/* ---- reading ---- */

static bool read_head(const unsigned char head[HEAD], tamis_kind kind, struct traits *out,
                      enum form *form)
{
  if (memcmp(head, magic, sizeof magic) != 0 ||
      get_u64(head + AT_SUM) != sum_bytes(head, AT_SUM, 0) ||
      get_u64(head + AT_VERSION) != VERSION || get_u64(head + AT_KIND) != (uint64_t) kind ||
      get_u64(head + AT_FORM) > (kind == TAMIS_CUCKOO ? FORM_FOREIGN : FORM_FOREIGN_AND_OWN))
    return false;
  *form = (enum form) get_u64(head + AT_FORM);
  for (unsigned i = AT_RESERVED; i < AT_SUM; i++)
    if (head[i])
      return false;
  const uint64_t expansion = get_u64(head + AT_EXPANSION), size = get_u64(head + AT_BUCKET_SIZE),
                 iterations = get_u64(head + AT_MAX_ITERATIONS), window = get_u64(head + AT_WINDOW),
                 renews = get_u64(head + AT_RENEWS);
  *out = (struct traits){.expansion = (uint32_t) expansion,
                         .bucket_size = (uint8_t) size,
                         .max_iterations = (uint16_t) iterations,
                         .max_bytes = get_u64(head + AT_MAX_BYTES),
                         .deleted = get_u64(head + AT_DELETED),
                         .window = window & 127,
                         .renews = renews & 1,
                         .every = get_u64(head + AT_EVERY),
                         .next = get_u64(head + AT_NEXT)};
  return window_is_possible(out) && expansion == out->expansion && size == out->bucket_size &&
         iterations == out->max_iterations && window == out->window && renews == out->renews &&
         out->deleted <= INT64_MAX;
}

/* Whether the filter is one of those that the head announces. */
static int check_filter(tamis_kind kind, const struct traits *traits, const tamis_stats *stats)
{
  return stats->kind == kind && stats->parts == traits->window + 1U ? TAMIS_OK : TAMIS_ECORRUPT;
}

static bool is_end(tamis_read_function read, void *context)
{
  unsigned char more;
  return read(context, &more, 1) == 0;
}

static int read_filter(tamis_kind kind, struct traits *traits, uint64_t max_bytes,
                       tamis_read_function read, void *context, struct value **out)
{
  struct memory_filter made;
  if (max_bytes && (!traits->max_bytes || traits->max_bytes > max_bytes))
    traits->max_bytes = max_bytes;
  /* 0: the filter's own limit stays */
  int result = memory_load_filter(max_bytes ? traits->max_bytes : 0, read, context, &made);
  if (result != TAMIS_OK)
    return result;
  tamis_stats stats = TAMIS_STATS_INIT;
  (void) tamis_get_stats(made.filter, &stats);
  result = check_filter(kind, traits, &stats);
  if (result != TAMIS_OK) {
    memory_destroy_filter(made);
    return result;
  }
  *out = value_of_filter(kind, made, traits, stats.capacity, stats.count);
  return *out ? TAMIS_OK : TAMIS_ENOMEM;
}

/* Reads no more than a number of bytes. */
struct bounded {
  tamis_read_function read;
  void *context;
  uint64_t left;
  bool ended; /* there was more */
};

static int64_t read_bounded(void *bounded, void *data, size_t size)
{
  struct bounded *b = bounded;
  if (!b->left) {
    b->ended = true;
    return -1;
  }
  const int64_t got = b->read(b->context, data, size < b->left ? size : (size_t) b->left);
  b->left -= got > 0 ? (uint64_t) got : 0;
  return got;
}

/* A filter that has no limit of its own later, as that on top of a foreign one (see add.c), and takes
 * `most` bytes at most; 0: any number.  Saved, a filter has few bytes beside those of its memory: what
 * has more is refused before all of it has been read. */
static int read_without_limit(tamis_kind kind, uint64_t most, tamis_read_function read,
                              void *context, struct value **out)
{
  enum { BESIDE = 64 << 10 };
  struct traits traits = {.expansion = 1};
  const bool bounds = most && most < UINT64_MAX / 2;
  struct bounded bounded = {read, context, bounds ? most + most / 8 + BESIDE : UINT64_MAX, false};
  int result = read_filter(kind, &traits, 0, read_bounded, &bounded, out);
  if (bounded.ended)
    return TAMIS_EFULL;
  if (result == TAMIS_OK && most && value_stats(*out).bytes > most) {
    value_free(*out);
    *out = NULL;
    return TAMIS_EFULL;
  }
  return result;
}

/* The two filters together obey the limit. */
static int read_both(tamis_kind kind, const struct traits *traits, enum form form,
                     uint64_t max_bytes, tamis_read_function read, void *context,
                     struct value **out)
{
  struct foreign *foreign;
  struct value *own = NULL;
  int result = foreign_read(kind, max_bytes, read, context, &foreign);
  if (result != TAMIS_OK)
    return result;
  const struct traits expected = value_traits_of_foreign(foreign);
  const uint64_t rest = max_bytes > foreign->bytes ? max_bytes - foreign->bytes : 1;
  if (memcmp(&expected, traits, sizeof expected) != 0 ||
      (form == FORM_FOREIGN_AND_OWN && !foreign_is_whole(foreign)))
    result = TAMIS_ECORRUPT;
  else if (form == FORM_FOREIGN_AND_OWN)
    result = read_without_limit(kind, max_bytes ? rest : 0, read, context, &own);
  if (result == TAMIS_OK) {
    *out = value_of_foreign(foreign, own);
    result = *out ? TAMIS_OK : TAMIS_ENOMEM;
  } else {
    foreign_free(foreign);
    value_free(own);
  }
  return result;
}

int image_read(tamis_kind kind, uint64_t max_bytes, tamis_read_function read, void *context,
               struct value **out)
{
  unsigned char head[HEAD];
  struct traits traits;
  enum form form;
  *out = NULL;
  if (!bytes_read(read, context, head, HEAD) || !read_head(head, kind, &traits, &form))
    return TAMIS_ECORRUPT;
  int result = form == FORM_OWN ? read_filter(kind, &traits, max_bytes, read, context, out)
                                : read_both(kind, &traits, form, max_bytes, read, context, out);
  if (result == TAMIS_OK && !is_end(read, context)) {
    value_free(*out);
    *out = NULL;
    result = TAMIS_ECORRUPT;
  }
  return result;
}

/* ---- copies ---- */

static struct value *copy_chunks(const struct value *v)
{
  struct value *copy = value_to_restore(v->kind);
  if (!copy)
    return NULL;
  copy->id = v->id;
  for (size_t i = 0; i < v->chunks->count; i++)
    if (!chunks_append(copy->chunks, v->chunks->chunk[i],
                       CHUNK_HEAD + chunks_size_of(v->chunks, i))) {
      value_free(copy);
      return NULL;
    }
  return copy;
}

struct value *image_copy(const struct value *v, uint64_t max_bytes, int *result)
{
  struct value *copy = NULL;
  if (!value_has_image(v)) {
    copy = copy_chunks(v);
    *result = copy ? TAMIS_OK : TAMIS_ENOMEM;
    return copy;
  }
  struct chunks chunks = {0};
  *result = image_cut(v, true, chunks_take, &chunks);
  *result = *result == TAMIS_EIO ? TAMIS_ENOMEM : *result; /* nothing else fails there */
  if (*result == TAMIS_OK) {
    struct chunks_reader reader = {.chunks = &chunks, .consumes = true};
    *result = image_read(v->kind, max_bytes, chunks_read, &reader, &copy);
  }
  chunks_clear(&chunks);
  return copy;
}

void image_renew(struct value *v)
{
  int result;
  const uint64_t id = value_id(v);
  struct value *copy = image_copy(v, 0, &result);
  if (copy)
    value_complete(v, copy);
  if (id)
    v->id = id;
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
