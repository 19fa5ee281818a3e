/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the side table of a segment: how many more copies of an entry there are than lanes.
 *
 * A plain open-addressing table with linear probing.  It knows nothing of threads or of memory: its
 * owner locks it, and makes a larger one when it has no room.
 */
#ifndef TAMIS_LIB_COPIES_H
#define TAMIS_LIB_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct duplicate_count {
  uint64_t key;   /* 0: none */
  uint64_t count; /* at least 1 */
};

struct duplicate_table {
  size_t mask; /* number of places - 1; a power of two - 1 */
  size_t used;
  struct duplicate_count entries[];
};

/* The size in bytes of a table with room for n entries. */
size_t tamis__duplicates_bytes(size_t n);

/* Makes an empty table of zeroed memory of that size. */
void tamis__duplicates_init(struct duplicate_table *copies, size_t n);

/* NULL: not there.  A key is never 0. */
struct duplicate_count *tamis__duplicates_find(struct duplicate_table *copies, uint64_t key);

/* How many keys there is room for, in all; half of the places, so that chains stay short. */
static inline size_t tamis__duplicates_capacity(const struct duplicate_table *copies)
{
  return (copies->mask + 1) / 2;
}

/* Adds to the count of a key, which may be new if there is room. */
void tamis__duplicates_add(struct duplicate_table *copies, uint64_t key, uint64_t count);

/* Takes one from the count; an entry whose count is 0 then is gone. */
void tamis__duplicates_remove(struct duplicate_table *copies, struct duplicate_count *entry);

#endif
