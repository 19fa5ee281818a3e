/* SPDX-License-Identifier: MIT */
#include "copies.h"

#include "hash.h"

enum { LEAST_PLACES = 8 };

static size_t places_for(size_t n)
{
  size_t places = LEAST_PLACES;
  while (places / 2 < n)
    places *= 2;
  return places;
}

size_t tamis__copies_bytes(size_t n)
{
  return sizeof(struct copies) + places_for(n) * sizeof(struct copies_entry);
}

void tamis__copies_init(struct copies *copies, size_t n)
{
  copies->mask = places_for(n) - 1;
}

static size_t home(const struct copies *copies, uint64_t key)
{
  return hash_spread(hash_fold(key, 0, 0)) >> 32 & copies->mask;
}

/* Where the key is, or where it would be put. */
static struct copies_entry *seek(struct copies *copies, uint64_t key)
{
  size_t i = home(copies, key);
  while (copies->entries[i].key && copies->entries[i].key != key)
    i = (i + 1) & copies->mask;
  return &copies->entries[i];
}

struct copies_entry *tamis__copies_find(struct copies *copies, uint64_t key)
{
  struct copies_entry *entry = seek(copies, key);
  return entry->key ? entry : NULL;
}

void tamis__copies_add(struct copies *copies, uint64_t key, uint64_t count)
{
  struct copies_entry *entry = seek(copies, key);
  copies->used += entry->key == 0;
  entry->key = key;
  entry->count += count;
}

void tamis__copies_take(struct copies *copies, struct copies_entry *entry)
{
  if (--entry->count)
    return;
  copies->used--;
  /* Close the hole: what would not be found any more past it moves into it. */
  size_t hole = (size_t) (entry - copies->entries), i = hole;
  for (;;) {
    i = (i + 1) & copies->mask;
    struct copies_entry *next = &copies->entries[i];
    if (!next->key)
      break;
    size_t from_home = (i - home(copies, next->key)) & copies->mask;
    if (from_home >= ((i - hole) & copies->mask)) {
      copies->entries[hole] = *next;
      hole = i;
    }
  }
  copies->entries[hole] = (struct copies_entry){0};
}
