/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the duplicate table of a segment.  It says how many copies of an entry there are beyond
 * those that stand in lanes.
 *
 * It is a plain open-addressing table with linear probing, and knows nothing of threads or of
 * memory: its owner locks it, and makes a larger one when it is full.
 */
#ifndef TAMIS_LIB_CUCKOO_DUPLICATES_H
#define TAMIS_LIB_CUCKOO_DUPLICATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct duplicate_count {
  uint64_t key;   /* 0: the slot is empty */
  uint64_t count; /* at least 1 */
};

struct duplicate_table {
  size_t mask; /* number of slots - 1; a power of two - 1 */
  size_t used;
  struct duplicate_count slots[];
};

/* The size in bytes of a table with room for n keys. */
size_t tamis__duplicates_bytes(size_t n);

/* Makes an empty table of zeroed memory of that size. */
void tamis__duplicates_init(struct duplicate_table *table, size_t n);

/* NULL: the key is not in.  A key is never 0. */
struct duplicate_count *tamis__duplicates_find(struct duplicate_table *table, uint64_t key);

/* The number of keys that there is room for: half of the slots, so that probe sequences stay
 * short. */
static inline size_t tamis__duplicates_capacity(const struct duplicate_table *table)
{
  return (table->mask + 1) / 2;
}

/* Adds to the count of a key.  A new key needs room. */
void tamis__duplicates_add(struct duplicate_table *table, uint64_t key, uint64_t count);

/* Takes one from the count of a key that was found.  At 0 the key leaves the table. */
void tamis__duplicates_remove(struct duplicate_table *table, struct duplicate_count *found);

#endif
