/* SPDX-License-Identifier: MIT */
#include "cuckoo/duplicates.h"

#include "base/hash.h"

enum { MIN_SLOTS = 8 };

static size_t places_for(size_t n)
{
  size_t places = MIN_SLOTS;
  while (places / 2 < n)
    places *= 2;
  return places;
}

size_t tamis__duplicates_bytes(size_t n)
{
  return sizeof(struct duplicate_table) + places_for(n) * sizeof(struct duplicate_count);
}

void tamis__duplicates_init(struct duplicate_table *copies, size_t n)
{
  copies->mask = places_for(n) - 1;
}

static size_t home(const struct duplicate_table *copies, uint64_t key)
{
  return hash_spread(hash_fold(key, 0, 0)) >> 32 & copies->mask;
}

/* Where the key is, or where it would be put. */
static struct duplicate_count *seek(struct duplicate_table *copies, uint64_t key)
{
  size_t i = home(copies, key);
  while (copies->entries[i].key && copies->entries[i].key != key)
    i = (i + 1) & copies->mask;
  return &copies->entries[i];
}

struct duplicate_count *tamis__duplicates_find(struct duplicate_table *copies, uint64_t key)
{
  struct duplicate_count *entry = seek(copies, key);
  return entry->key ? entry : NULL;
}

void tamis__duplicates_add(struct duplicate_table *copies, uint64_t key, uint64_t count)
{
  struct duplicate_count *entry = seek(copies, key);
  copies->used += entry->key == 0;
  entry->key = key;
  entry->count += count;
}

void tamis__duplicates_remove(struct duplicate_table *copies, struct duplicate_count *entry)
{
  if (--entry->count)
    return;
  copies->used--;
  /* Close the hole: what would not be found any more past it moves into it. */
  size_t hole = (size_t) (entry - copies->entries), i = hole;
  for (;;) {
    i = (i + 1) & copies->mask;
    struct duplicate_count *next = &copies->entries[i];
    if (!next->key)
      break;
    size_t from_home = (i - home(copies, next->key)) & copies->mask;
    if (from_home >= ((i - hole) & copies->mask)) {
      copies->entries[hole] = *next;
      hole = i;
    }
  }
  copies->entries[hole] = (struct duplicate_count){0};
}
