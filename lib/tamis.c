/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the public functions.  Each checks its arguments, hashes the key, and calls the filter's
 * table of operations, or that of its kind.
 */
#include "base/cancel.h"
#include "base/filter.h"
#include "bloom/bloom.h"
#include "cuckoo/cuckoo.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *tamis_version(void)
{
  return TEXT(TAMIS_VERSION_MAJOR) "." TEXT(TAMIS_VERSION_MINOR) "." TEXT(TAMIS_VERSION_PATCH);
}

const char *tamis_strerror(int result)
{
  switch (result) {
  case TAMIS_OK:
    return "success";
  case TAMIS_PRESENT:
    return "the key is present";
  case TAMIS_ABSENT:
    return "the key is absent";
  case TAMIS_EINVAL:
    return "invalid argument";
  case TAMIS_ENOMEM:
    return "out of memory";
  case TAMIS_EFULL:
    return "the filter's capacity or memory limit is reached";
  case TAMIS_EUNSUPPORTED:
    return "not supported by this kind of filter or this version";
  default:
    return "unknown result";
  }
}

/* ---- kinds ---- */

static const struct filter_kind *const kinds[] = {&tamis__bloom_kind, &tamis__cuckoo_kind, NULL};

/* NULL: there is no such kind. */
static const struct filter_kind *find_kind(tamis_kind kind)
{
  for (const struct filter_kind *const *k = kinds; *k; k++)
    if ((*k)->kind == kind)
      return *k;
  return NULL;
}

/* ---- options ---- */

/* No version's options are larger than this. */
enum { ABSURD_SIZE = 4096 };

static bool all_zero(const unsigned char *bytes, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (bytes[i])
      return false;
  return true;
}

/* Fields that a newer header has added, and that this library does not know, may only be zero. */
static int check_struct(const tamis_options *o)
{
  if (!o || o->struct_size < sizeof *o || o->struct_size > ABSURD_SIZE)
    return TAMIS_EINVAL;
  if (!all_zero((const unsigned char *) o + sizeof *o, o->struct_size - sizeof *o))
    return TAMIS_EUNSUPPORTED;
  return TAMIS_OK;
}

enum { MAX_STRIPES = 4096 };

static int check_fields(const tamis_options *o)
{
  bool known_layout = o->layout == TAMIS_LAYOUT_BLOCKED || o->layout == TAMIS_LAYOUT_CLASSIC;
  bool complete_allocator = !o->allocator || (o->allocator->allocate && o->allocator->release);
  bool valid_fpp = o->fpp > 0 && o->fpp < 1; /* false for NaN */
  if (!find_kind(o->kind) || !known_layout || !complete_allocator || !valid_fpp ||
      o->capacity == 0 || o->stripes > MAX_STRIPES)
    return TAMIS_EINVAL;
  return TAMIS_OK;
}

static int check_options(const tamis_options *o)
{
  int result = check_struct(o);
  return result == TAMIS_OK ? check_fields(o) : result;
}

static int random_seed(uint64_t *seed)
{
  do {
    int cancellation = cancellation_disable();
    ssize_t got = getrandom(seed, sizeof *seed, 0);
    cancellation_restore(cancellation);
    if (got != (ssize_t) sizeof *seed && !(got < 0 && errno == EINTR))
      return TAMIS_EUNSUPPORTED; /* a kernel older than 3.17, or a sandbox that forbids it */
  } while (*seed == 0);
  return TAMIS_OK;
}

int tamis_create(const tamis_options *options, tamis_filter **out)
{
  if (!out)
    return TAMIS_EINVAL;
  *out = NULL;
  int result = check_options(options);
  if (result != TAMIS_OK)
    return result;
  uint64_t seed = options->seed;
  if (seed == 0 && (result = random_seed(&seed)) != TAMIS_OK)
    return result;
  struct tamis_filter head = {.keys = hash_keys_from_seed(seed),
                              .hash = options->hash,
                              .hash_context = options->hash_context};
  if (options->allocator)
    head.allocator = *options->allocator;
  return find_kind(options->kind)->create(options, &head, out);
}

void tamis_destroy(tamis_filter *filter)
{
  if (filter)
    filter->operations->kind->destroy(filter);
}

int tamis_bytes_for(const tamis_options *options, uint64_t *bytes)
{
  int result = check_options(options);
  if (result != TAMIS_OK)
    return result;
  if (!bytes)
    return TAMIS_EINVAL;
  return find_kind(options->kind)->bytes_for(options, bytes);
}

int tamis_fpp_for(const tamis_options *options, uint64_t bytes, double *fpp)
{
  int result = check_struct(options);
  if (result != TAMIS_OK)
    return result;
  tamis_options checked = *options;
  checked.fpp = 0.5; /* the caller's is not looked at */
  if ((result = check_fields(&checked)) != TAMIS_OK)
    return result;
  if (!fpp)
    return TAMIS_EINVAL;
  return find_kind(checked.kind)->fpp_for(&checked, bytes, fpp);
}

/* ---- single keys ---- */

static bool good_key(const void *key, size_t len)
{
  return key || len == 0;
}

static inline uint64_t key_hash(const tamis_filter *f, const void *key, size_t len)
{
  if (__builtin_expect(f->hash != NULL, 0))
    return f->hash(f->hash_context, key ? key : "", len, f->keys.seed);
  return hash_bytes(&f->keys, key, len);
}

uint64_t tamis_hash(const tamis_filter *f, const void *key, size_t len)
{
  return f && good_key(key, len) ? key_hash(f, key, len) : 0;
}

/* The exported functions do not call each other: in a shared library such a call goes through the
 * table of symbols, which costs more than the rest of the function. */

static inline bool contains(const tamis_filter *f, uint64_t hash)
{
  return f->operations->contains(f, hash);
}

static inline int add(tamis_filter *f, uint64_t hash)
{
  return f->operations->add(f, hash);
}

static inline int add_unique(tamis_filter *f, uint64_t hash)
{
  return f->operations->add_unique(f, hash);
}

static inline int remove_one(tamis_filter *f, uint64_t hash)
{
  return f->operations->remove ? f->operations->remove(f, hash) : TAMIS_EUNSUPPORTED;
}

bool tamis_contains_hash(const tamis_filter *f, uint64_t hash)
{
  return f && contains(f, hash);
}

bool tamis_contains(const tamis_filter *f, const void *key, size_t len)
{
  return f && good_key(key, len) && contains(f, key_hash(f, key, len));
}

int tamis_add_hash(tamis_filter *f, uint64_t hash)
{
  return f ? add(f, hash) : TAMIS_EINVAL;
}

int tamis_add(tamis_filter *f, const void *key, size_t len)
{
  return f && good_key(key, len) ? add(f, key_hash(f, key, len)) : TAMIS_EINVAL;
}

int tamis_add_unique_hash(tamis_filter *f, uint64_t hash)
{
  return f ? add_unique(f, hash) : TAMIS_EINVAL;
}

int tamis_add_unique(tamis_filter *f, const void *key, size_t len)
{
  return f && good_key(key, len) ? add_unique(f, key_hash(f, key, len)) : TAMIS_EINVAL;
}

int tamis_remove_hash(tamis_filter *f, uint64_t hash)
{
  return f ? remove_one(f, hash) : TAMIS_EINVAL;
}

int tamis_remove(tamis_filter *f, const void *key, size_t len)
{
  return f && good_key(key, len) ? remove_one(f, key_hash(f, key, len)) : TAMIS_EINVAL;
}

/* ---- batches ---- */

/* A batch is given either as keys or as hashes. */
struct batch {
  const tamis_key *keys;
  const uint64_t *hashes;
  size_t n;
};

static inline size_t group_length(const struct batch *batch, size_t start)
{
  return batch->n - start < FILTER_GROUP ? batch->n - start : FILTER_GROUP;
}

/* The hashes of a group of keys, which are written to `room`, or stand in the batch.  An invalid
 * key hashes like an empty one: only contains_many lets such a key come this far. */
static const uint64_t *group_hashes(const tamis_filter *f, const struct batch *batch, size_t start,
                                    size_t length, uint64_t room[FILTER_GROUP])
{
  if (batch->hashes)
    return batch->hashes + start;
  const tamis_key *keys = batch->keys + start;
  for (size_t i = 0; i < length; i++)
    room[i] = key_hash(f, keys[i].data, keys[i].data ? keys[i].len : 0);
  return room;
}

static size_t contains_keys(const tamis_filter *f, const tamis_key *keys, size_t n, bool *found)
{
  size_t hits = 0;
  uint64_t hashes[FILTER_GROUP];
  bool answers[FILTER_GROUP];
  struct batch batch = {.keys = keys, .n = n};
  for (size_t start = 0, length; start < n; start += length) {
    length = group_length(&batch, start);
    f->operations->contains_many(f, group_hashes(f, &batch, start, length, hashes), length,
                                 answers);
    for (size_t i = 0; i < length; i++) {
      answers[i] &= good_key(keys[start + i].data, keys[start + i].len);
      hits += answers[i];
    }
    if (found)
      memcpy(found + start, answers, length * sizeof *found);
  }
  return hits;
}

static bool good_batch(const tamis_filter *f, const struct batch *batch)
{
  if (!f || (batch->n && !batch->keys && !batch->hashes))
    return false;
  for (size_t i = 0; batch->keys && i < batch->n; i++)
    if (!good_key(batch->keys[i].data, batch->keys[i].len))
      return false;
  return true;
}

static int add_batch(tamis_filter *f, struct batch batch, bool unique, int *results)
{
  if (!good_batch(f, &batch))
    return TAMIS_EINVAL;
  int failure = TAMIS_OK;
  uint64_t room[FILTER_GROUP];
  int unwanted[FILTER_GROUP];
  for (size_t start = 0, length; start < batch.n; start += length) {
    length = group_length(&batch, start);
    const uint64_t *hashes = group_hashes(f, &batch, start, length, room);
    int *group = results ? results + start : unwanted;
    (unique ? f->operations->add_unique_many : f->operations->add_many)(f, hashes, length, group);
    for (size_t i = 0; i < length && failure == TAMIS_OK; i++)
      if (group[i] < 0)
        failure = group[i];
  }
  return failure;
}

size_t tamis_contains_many(const tamis_filter *f, const tamis_key *keys, size_t n, bool *found)
{
  return f && keys ? contains_keys(f, keys, n, found) : 0;
}

size_t tamis_contains_many_hash(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                bool *found)
{
  return f && hashes ? f->operations->contains_many(f, hashes, n, found) : 0;
}

int tamis_add_many(tamis_filter *f, const tamis_key *keys, size_t n, int *results)
{
  return add_batch(f, (struct batch){.keys = keys, .n = n}, false, results);
}

int tamis_add_many_hash(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  return add_batch(f, (struct batch){.hashes = hashes, .n = n}, false, results);
}

int tamis_add_unique_many(tamis_filter *f, const tamis_key *keys, size_t n, int *results)
{
  return add_batch(f, (struct batch){.keys = keys, .n = n}, true, results);
}

int tamis_add_unique_many_hash(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  return add_batch(f, (struct batch){.hashes = hashes, .n = n}, true, results);
}

/* ---- figures ---- */

int tamis_get_stats(const tamis_filter *f, tamis_stats *out)
{
  /* A later version appends fields, and a program that was built with this header knows the first
   * ones. */
  if (!f || !out || out->struct_size < sizeof(tamis_stats))
    return TAMIS_EINVAL;
  tamis_stats filled = TAMIS_STATS_INIT;
  filled.kind = f->operations->kind->kind;
  f->operations->kind->stats(f, &filled);
  filled.seed = f->keys.seed;
  memcpy(out, &filled, sizeof filled);
  return TAMIS_OK;
}
