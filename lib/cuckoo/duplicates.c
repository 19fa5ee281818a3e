/* SPDX-License-Identifier: MIT */
#include "cuckoo/duplicates.h"

#include "base/hash.h"

enum { MIN_SLOTS = 8 };

static size_t slots_for(size_t n)
{
  size_t slots = MIN_SLOTS;
  while (slots / 2 < n)
    slots *= 2;
  return slots;
}

size_t tamis__duplicates_bytes(size_t n)
{
  return sizeof(struct duplicate_table) + slots_for(n) * sizeof(struct duplicate_count);
}

void tamis__duplicates_init(struct duplicate_table *table, size_t n)
{
  table->mask = slots_for(n) - 1;
}

static size_t home(const struct duplicate_table *table, uint64_t key)
{
  return hash_spread(hash_fold(key, 0, 0)) >> 32 & table->mask;
}

/* The slot of the key, or the empty one that it would take. */
static struct duplicate_count *seek(struct duplicate_table *table, uint64_t key)
{
  size_t i = home(table, key);
  while (table->slots[i].key && table->slots[i].key != key)
    i = (i + 1) & table->mask;
  return &table->slots[i];
}

struct duplicate_count *tamis__duplicates_find(struct duplicate_table *table, uint64_t key)
{
  struct duplicate_count *entry = seek(table, key);
  return entry->key ? entry : NULL;
}

void tamis__duplicates_add(struct duplicate_table *table, uint64_t key, uint64_t count)
{
  struct duplicate_count *entry = seek(table, key);
  table->used += entry->key == 0;
  entry->key = key;
  entry->count += count;
}

void tamis__duplicates_remove(struct duplicate_table *table, struct duplicate_count *found)
{
  if (--found->count)
    return;
  table->used--;
  /* Close the hole: a key that could no longer be found beyond it moves into it. */
  size_t hole = (size_t) (found - table->slots), i = hole;
  for (;;) {
    i = (i + 1) & table->mask;
    struct duplicate_count *next = &table->slots[i];
    if (!next->key)
      break;
    size_t from_home = (i - home(table, next->key)) & table->mask;
    if (from_home >= ((i - hole) & table->mask)) {
      table->slots[hole] = *next;
      hole = i;
    }
  }
  table->slots[hole] = (struct duplicate_count){0};
}
