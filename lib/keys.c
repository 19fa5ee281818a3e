/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the public functions on keys.  Each checks its arguments, hashes the key, and calls a
 * function of the filter's operations.
 */
#include "kinds.h"

#include <string.h>

/* ---- single keys ---- */

uint64_t tamis_hash(const tamis_filter *f, const void *key, size_t len)
{
  return f && good_key(key, len) ? filter_hash(f, key, len) : 0;
}

/* Exported functions do not call each other: in a shared library such a call goes through the
 * symbol table, which costs more than the work of the function. */

static inline bool contains(const tamis_filter *f, uint64_t hash)
{
  return operations_of(f)->contains(f, hash);
}

static inline int add(tamis_filter *f, uint64_t hash)
{
  return operations_of(f)->add(f, hash);
}

static inline int add_unique(tamis_filter *f, uint64_t hash)
{
  return operations_of(f)->add_unique(f, hash);
}

static inline int remove_one(tamis_filter *f, uint64_t hash)
{
  const struct filter_operations *operations = operations_of(f);
  return operations->remove ? operations->remove(f, hash) : TAMIS_EUNSUPPORTED;
}

static inline uint64_t count(const tamis_filter *f, uint64_t hash)
{
  const struct filter_operations *operations = operations_of(f);
  return operations->count ? operations->count(f, hash) : operations->contains(f, hash);
}

/* Defines two public functions: of_key takes a key, and of_hash takes a hash. */
#define KEY_CALL(type, of_key, of_hash, call, filter, refused)                      \
  type of_hash(filter f, uint64_t hash)                                             \
  {                                                                                 \
    return f ? call(f, hash) : (refused);                                           \
  }                                                                                 \
  type of_key(filter f, const void *key, size_t len)                                \
  {                                                                                 \
    return f && good_key(key, len) ? call(f, filter_hash(f, key, len)) : (refused); \
  }
KEY_CALL(bool, tamis_contains, tamis_contains_hash, contains, const tamis_filter *, false)
KEY_CALL(int, tamis_add, tamis_add_hash, add, tamis_filter *, TAMIS_EINVAL)
KEY_CALL(int, tamis_add_unique, tamis_add_unique_hash, add_unique, tamis_filter *, TAMIS_EINVAL)
KEY_CALL(int, tamis_remove, tamis_remove_hash, remove_one, tamis_filter *, TAMIS_EINVAL)
KEY_CALL(uint64_t, tamis_count, tamis_count_hash, count, const tamis_filter *, 0)

/* ---- batches ---- */

/* In a batch of keys `hashes` is NULL, and in a batch of hashes `keys` is NULL. */
struct batch {
  const tamis_key *keys;
  const uint64_t *hashes;
  size_t n;
};

static inline size_t group_length(const struct batch *batch, size_t start)
{
  return batch->n - start < FILTER_GROUP ? batch->n - start : FILTER_GROUP;
}

/* Returns the hashes of a group: those in the batch, or those of its keys, computed into `room`. */
static const uint64_t *group_hashes(const tamis_filter *f, const struct batch *batch, size_t start,
                                    size_t length, uint64_t room[FILTER_GROUP])
{
  if (batch->hashes)
    return batch->hashes + start;
  hash_list(f, batch->keys + start, length, room);
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
    operations_of(f)->contains_many(f, group_hashes(f, &batch, start, length, hashes), length,
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

/* For a kind without batch functions: prefetches the memory that n single calls will read. */
static void fetch_group(const struct filter_operations *operations, const tamis_filter *f,
                        const uint64_t *hashes, size_t n)
{
  for (size_t i = 0; i < n; i++)
    operations->prefetch(f, hashes[i]);
}

static void count_group(const tamis_filter *f, const uint64_t *hashes, size_t n, uint64_t *counts)
{
  const struct filter_operations *operations = operations_of(f);
  bool found[FILTER_GROUP];
  if (operations->count_many) {
    operations->count_many(f, hashes, n, counts);
    return;
  }
  if (operations->count) {
    fetch_group(operations, f, hashes, n);
    for (size_t i = 0; i < n; i++)
      counts[i] = operations->count(f, hashes[i]);
    return;
  }
  operations->contains_many(f, hashes, n, found);
  for (size_t i = 0; i < n; i++)
    counts[i] = found[i];
}

static uint64_t count_batch(const tamis_filter *f, struct batch batch, uint64_t *counts)
{
  uint64_t sum = 0, room[FILTER_GROUP], group[FILTER_GROUP];
  for (size_t start = 0, length; start < batch.n; start += length) {
    length = group_length(&batch, start);
    count_group(f, group_hashes(f, &batch, start, length, room), length, group);
    for (size_t i = 0; i < length; i++) {
      if (batch.keys && !good_key(batch.keys[start + i].data, batch.keys[start + i].len))
        group[i] = 0;
      sum += group[i];
    }
    if (counts)
      memcpy(counts + start, group, length * sizeof *counts);
  }
  return sum;
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

/* How to add the keys of a batch.  `unique`: adds only absent keys. */
struct how {
  bool unique, ends;
  unsigned periods; /* if `ends` is true: how many periods the keys are remembered */
};

static const struct how plain = {.unique = false}, unique = {.unique = true};

static int add_group(tamis_filter *f, const uint64_t *hashes, size_t n, const struct how *how,
                     int *results)
{
  const struct filter_operations *operations = operations_of(f);
  if (how->ends)
    return operations->kind->add_for
               ? operations->kind->add_for(f, hashes, n, how->periods, how->unique, results)
               : TAMIS_EUNSUPPORTED;
  if (operations->add_many) {
    (how->unique ? operations->add_unique_many : operations->add_many)(f, hashes, n, results);
    return TAMIS_OK;
  }
  fetch_group(operations, f, hashes, n);
  for (size_t i = 0; i < n; i++)
    results[i] = (how->unique ? operations->add_unique : operations->add)(f, hashes[i]);
  return TAMIS_OK;
}

static int add_batch(tamis_filter *f, struct batch batch, const struct how *how, int *results)
{
  if (!good_batch(f, &batch))
    return TAMIS_EINVAL;
  int failure = how->ends ? add_group(f, NULL, 0, how, NULL) : TAMIS_OK;
  if (failure != TAMIS_OK)
    return failure;
  uint64_t room[FILTER_GROUP];
  int unwanted[FILTER_GROUP];
  for (size_t start = 0, length; start < batch.n; start += length) {
    length = group_length(&batch, start);
    const uint64_t *hashes = group_hashes(f, &batch, start, length, room);
    int *group = results ? results + start : unwanted;
    const int refused = add_group(f, hashes, length, how, group);
    if (refused != TAMIS_OK)
      return refused; /* never: the call above, with n = 0, has checked `how` */
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
  return f && hashes ? operations_of(f)->contains_many(f, hashes, n, found) : 0;
}

uint64_t tamis_count_many(const tamis_filter *f, const tamis_key *keys, size_t n, uint64_t *counts)
{
  return f && keys ? count_batch(f, (struct batch){.keys = keys, .n = n}, counts) : 0;
}

uint64_t tamis_count_many_hash(const tamis_filter *f, const uint64_t *hashes, size_t n,
                               uint64_t *counts)
{
  return f && hashes ? count_batch(f, (struct batch){.hashes = hashes, .n = n}, counts) : 0;
}

#define ADD_MANY(of_keys, of_hashes, how)                                           \
  int of_keys(tamis_filter *f, const tamis_key *keys, size_t n, int *results)       \
  {                                                                                 \
    return add_batch(f, (struct batch){.keys = keys, .n = n}, &(how), results);     \
  }                                                                                 \
  int of_hashes(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)    \
  {                                                                                 \
    return add_batch(f, (struct batch){.hashes = hashes, .n = n}, &(how), results); \
  }
ADD_MANY(tamis_add_many, tamis_add_many_hash, plain)
ADD_MANY(tamis_add_unique_many, tamis_add_unique_many_hash, unique)

/* ---- keys that a window remembers for fewer periods than usual ---- */

static int add_for(tamis_filter *f, uint64_t hash, unsigned periods, bool first)
{
  int result;
  int refused = add_group(f, &hash, 1, &(struct how){first, true, periods}, &result);
  return refused == TAMIS_OK ? result : refused;
}

#define ADD_FOR(of_key, of_hash, of_keys, of_hashes, unique)                                       \
  int of_hash(tamis_filter *f, uint64_t hash, unsigned periods)                                    \
  {                                                                                                \
    return f ? add_for(f, hash, periods, unique) : TAMIS_EINVAL;                                   \
  }                                                                                                \
  int of_key(tamis_filter *f, const void *key, size_t len, unsigned periods)                       \
  {                                                                                                \
    return f && good_key(key, len) ? add_for(f, filter_hash(f, key, len), periods, unique)         \
                                   : TAMIS_EINVAL;                                                 \
  }                                                                                                \
  int of_keys(tamis_filter *f, const tamis_key *keys, size_t n, unsigned periods, int *results)    \
  {                                                                                                \
    return add_batch(f, (struct batch){.keys = keys, .n = n},                                      \
                     &(struct how){unique, true, periods}, results);                               \
  }                                                                                                \
  int of_hashes(tamis_filter *f, const uint64_t *hashes, size_t n, unsigned periods, int *results) \
  {                                                                                                \
    return add_batch(f, (struct batch){.hashes = hashes, .n = n},                                  \
                     &(struct how){unique, true, periods}, results);                               \
  }
ADD_FOR(tamis_add_for, tamis_add_for_hash, tamis_add_for_many, tamis_add_for_many_hash, false)
ADD_FOR(tamis_add_unique_for, tamis_add_unique_for_hash, tamis_add_unique_for_many,
        tamis_add_unique_for_many_hash, true)
