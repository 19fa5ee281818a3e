/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the calls that look up keys in many filters.  base/each.h describes the search.
 */
#include "base/each.h"

#include "base/compiler.h"
#include "kinds.h"

#include <string.h>

/* The first filter's `contains_each` searches all filters: usually, they are alike (each.h). */
static size_t find_in_each(const tamis_filter *const *filters, size_t n, struct wanted *wanted,
                           bool *found)
{
  const tamis_filter *first = n >= EACH_BLOCK ? filters[0] : NULL;
  /* loaded once, as another thread may set operations without `contains_each` */
  const struct filter_operations *operations = first ? operations_of(first) : NULL;
  if (first && !filter_has_own_hash(first) && operations->contains_each)
    return operations->contains_each(filters, n, wanted, found);
  return tamis__each_search(filters, n, wanted, found, NULL, NULL);
}

/* If `found` is NULL, searches at most PART filters at a time: `part` has room for PART answers. */
static size_t contains_each(const tamis_filter *const *filters, size_t n, struct wanted *wanted,
                            bool *found)
{
  enum { PART = 32 * EACH_BLOCK };
  bool part[PART];
  size_t hits = 0;
  if (found)
    return find_in_each(filters, n, wanted, found);
  for (size_t start = 0; start < n; start += PART)
    hits += find_in_each(filters + start, n - start < PART ? n - start : PART, wanted, part);
  return hits;
}

static size_t nowhere(size_t n, bool *found)
{
  if (found)
    memset(found, 0, n * sizeof *found);
  return 0;
}

static size_t row_of_key(const tamis_filter *const *filters, size_t n, const tamis_key *key,
                         bool *found)
{
  struct wanted wanted = {.key = key};
  return good_key(key->data, key->len) ? contains_each(filters, n, &wanted, found)
                                       : nowhere(n, found);
}

size_t tamis_contains_each(const tamis_filter *const *filters, size_t n, const void *key,
                           size_t len, bool *found)
{
  const tamis_key wanted = {key, len};
  return filters ? row_of_key(filters, n, &wanted, found) : nowhere(n, found);
}

size_t tamis_contains_each_hash(const tamis_filter *const *filters, size_t n, uint64_t hash,
                                bool *found)
{
  struct wanted wanted = {.hash = hash};
  return filters ? contains_each(filters, n, &wanted, found) : nowhere(n, found);
}

/* ---- several keys ---- */

/* Looks up at most FILTER_GROUP keys in one filter.  An invalid key is not found. */
static size_t column_of_filter(const tamis_filter *f, const tamis_key *keys, const uint64_t *hashes,
                               size_t n_keys, bool *found, size_t n)
{
  bool in[FILTER_GROUP];
  size_t hits = 0;
  operations_of(f)->contains_many(f, hashes, n_keys, in);
  for (size_t k = 0; k < n_keys; k++) {
    in[k] &= good_key(keys[k].data, keys[k].len);
    hits += in[k];
    if (found)
      found[k * n] = in[k];
  }
  return hits;
}

static size_t columns(const tamis_filter *const *filters, size_t n, const tamis_key *keys,
                      size_t n_keys, bool *found)
{
  uint64_t hashes[FILTER_GROUP];
  const tamis_filter *hashed_by = NULL;
  size_t hits = 0;
  for (size_t i = 0; i < n; i++) {
    if (!filters[i]) {
      for (size_t k = 0; found && k < n_keys; k++)
        found[k * n + i] = false;
      continue;
    }
    if (!hashed_by || !hashed_alike(hashed_by, filters[i]))
      hash_list(filters[i], keys, n_keys, hashes);
    hashed_by = filters[i];
    hits += column_of_filter(filters[i], keys, hashes, n_keys, found ? found + i : NULL, n);
  }
  return hits;
}

/* Looks up a small group key by key, with prefetches for each block of filters (each.h), and a
 * larger group filter by filter, with prefetches for all its keys. */
size_t tamis_contains_each_many(const tamis_filter *const *filters, size_t n, const tamis_key *keys,
                                size_t n_keys, bool *found)
{
  size_t hits = 0;
  if (!filters || !keys)
    return nowhere(n * n_keys, found);
  for (size_t start = 0, length; start < n_keys; start += length) {
    bool *of_group = found ? found + start * n : NULL;
    length = n_keys - start < FILTER_GROUP ? n_keys - start : FILTER_GROUP;
    if (length < EACH_BLOCK)
      for (size_t k = 0; k < length; k++)
        hits += row_of_key(filters, n, &keys[start + k], found ? of_group + k * n : NULL);
    else
      hits += columns(filters, n, keys + start, length, of_group);
  }
  return hits;
}
