/* SPDX-License-Identifier: MIT */
#include "base/each.h"

#include <string.h>

/* ---- filters of any kinds ---- */

struct hashes {
  uint64_t of[EACH_BLOCK];
};

static size_t block_length(size_t start, size_t n)
{
  return n - start < EACH_BLOCK ? n - start : EACH_BLOCK;
}

static void prefetch(const tamis_filter *const *filters, size_t n, struct wanted *wanted,
                     struct hashes *hashes)
{
  for (size_t i = 0; i < n; i++)
    if (filters[i]) {
      hashes->of[i] = wanted_hash(wanted, filters[i]);
      operations_of(filters[i])->prefetch(filters[i], hashes->of[i]);
    }
}

static void look_up(const tamis_filter *const *filters, size_t n, const struct hashes *hashes,
                    bool *found)
{
  for (size_t i = 0; i < n; i++)
    found[i] = filters[i] && operations_of(filters[i])->contains(filters[i], hashes->of[i]);
}

static void search_any(const tamis_filter *const *filters, size_t n, struct wanted *wanted,
                       bool *found)
{
  enum { HEAD_BYTES = 64 }; /* bytes of most heads */
  struct hashes hashes[2];
  for (size_t i = 0, turn = 0; i < n + EACH_BLOCK; i += EACH_BLOCK, turn = !turn) {
    if (i + 2 * EACH_BLOCK <= n)
      each_fetch_heads(filters + i + EACH_BLOCK, HEAD_BYTES);
    if (i < n)
      prefetch(filters + i, block_length(i, n), wanted, &hashes[turn]);
    if (i >= EACH_BLOCK) {
      const size_t at = i - EACH_BLOCK;
      look_up(filters + at, block_length(at, n), &hashes[!turn], found + at);
    }
  }
}

/* ---- filters that are alike ---- */

/* Searches whole blocks, up to the first block whose filters are not alike.  Returns the number of
 * filters that it has searched. */
static size_t search_alike(const tamis_filter *const *filters, size_t n, bool *found,
                           const struct each_way *way, const void *common)
{
  uint64_t places[2][EACH_BLOCK], *now = places[0], *next = places[1];
  const tamis_filter *const *const end = filters + n, *const *at = filters;
  bool alike = n >= EACH_BLOCK && way->prefetch(at, common, now, n >= 2 * EACH_BLOCK);
  while (alike) {
    const size_t left = (size_t) (end - at) - EACH_BLOCK;
    alike =
        left >= EACH_BLOCK && way->prefetch(at + EACH_BLOCK, common, next, left >= 2 * EACH_BLOCK);
    if (!way->contains(at, common, now, found))
      break;
    uint64_t *const free = now;
    now = next, next = free;
    at += EACH_BLOCK, found += EACH_BLOCK;
  }
  return (size_t) (at - filters);
}

/* Counts the hits.  The multiplication sums eight bytes of 0 or 1 in the product's top byte. */
static size_t count(const bool *found, size_t n)
{
  size_t hits = 0, i = 0;
  for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t)) {
    uint64_t answers;
    memcpy(&answers, found + i, sizeof answers);
    hits += (size_t) (answers * UINT64_C(0x0101010101010101) >> 56);
  }
  for (; i < n; i++)
    hits += found[i];
  return hits;
}

size_t tamis__each_search(const tamis_filter *const *filters, size_t n, struct wanted *wanted,
                          bool *found, const struct each_way *way, const void *common)
{
  for (size_t i = 0; i < n; i += way ? block_length(i, n) : n) {
    i += way ? search_alike(filters + i, n - i, found + i, way, common) : 0;
    search_any(filters + i, way ? block_length(i, n) : n, wanted, found + i);
  }
  return count(found, n);
}
