/* SPDX-License-Identifier: MIT */
#include "table/plane.h"

void tamis__plane_clear(plane *p, const struct counts_memory *memory)
{
  struct table_counts *counts = plane_counts(p);
  if (!counts)
    return;
  tamis__counts_clear(counts, memory);
  memory->release(memory->context, counts, tamis__counts_bytes(counts->buckets));
  atomic_store_explicit(p, NULL, memory_order_relaxed); /* see plane_counts() */
}

/* Returns the plane's counts, which it creates if there are none, or NULL if memory is refused. */
static struct table_counts *provide(plane *p, struct plane_size size,
                                    const struct counts_memory *memory)
{
  struct table_counts *counts = plane_counts(p);
  if (counts)
    return counts;
  counts = memory->allocate(memory->context, tamis__counts_bytes(size.buckets));
  if (!counts)
    return NULL;
  tamis__counts_init(counts, size.buckets, size.lanes);
  atomic_store_explicit(p, counts, memory_order_relaxed); /* see plane_counts() */
  return counts;
}

static void release_if_empty(plane *p, const struct counts_memory *memory)
{
  const struct table_counts *counts = plane_counts(p);
  if (counts && !counts->live)
    tamis__plane_clear(p, memory);
}

bool tamis__plane_set(plane *p, struct plane_size size, const struct counts_memory *memory,
                      uint64_t bucket, unsigned lane, uint64_t count)
{
  uint64_t old = plane_get(p, bucket, lane);
  if (count == old)
    return true;
  struct table_counts *counts = provide(p, size, memory);
  bool set = counts && tamis__counts_change(counts, memory, bucket, lane, old, count);
  release_if_empty(p, memory);
  return set;
}

bool tamis__plane_write(plane *p, struct plane_size size, const struct counts_memory *memory,
                        unsigned block, const struct counts_source *from, bool spare)
{
  struct table_counts *counts = provide(p, size, memory);
  bool written = counts && tamis__counts_write(counts, memory, block, from, spare);
  release_if_empty(p, memory);
  return written;
}
