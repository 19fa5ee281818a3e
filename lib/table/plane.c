/* SPDX-License-Identifier: MIT */
#include "table/plane.h"

void tamis__plane_clear(plane *p, const struct duplicates_memory *memory)
{
  struct duplicates *counts = plane_counts(p);
  if (!counts)
    return;
  tamis__duplicates_clear(counts, memory);
  memory->release(memory->context, counts, tamis__duplicates_bytes(counts->buckets));
  atomic_store_explicit(p, NULL, memory_order_relaxed); /* see plane_counts() */
}

/* The object, made if there is none; NULL: memory was refused. */
static struct duplicates *provide(plane *p, struct plane_size size,
                                  const struct duplicates_memory *memory)
{
  struct duplicates *counts = plane_counts(p);
  if (counts)
    return counts;
  counts = memory->allocate(memory->context, tamis__duplicates_bytes(size.buckets));
  if (!counts)
    return NULL;
  tamis__duplicates_init(counts, size.buckets, size.lanes);
  atomic_store_explicit(p, counts, memory_order_relaxed); /* see plane_counts() */
  return counts;
}

static void release_if_empty(plane *p, const struct duplicates_memory *memory)
{
  const struct duplicates *counts = plane_counts(p);
  if (counts && !counts->live)
    tamis__plane_clear(p, memory);
}

bool tamis__plane_set(plane *p, struct plane_size size, const struct duplicates_memory *memory,
                      uint64_t bucket, unsigned lane, uint64_t count)
{
  uint64_t old = plane_get(p, bucket, lane);
  if (count == old)
    return true;
  struct duplicates *counts = provide(p, size, memory);
  bool set = counts && tamis__duplicates_change(counts, memory, bucket, lane, old, count);
  release_if_empty(p, memory);
  return set;
}

bool tamis__plane_write(plane *p, struct plane_size size, const struct duplicates_memory *memory,
                        unsigned block, const uint64_t counts[DUPLICATES_POSITIONS], bool spare)
{
  struct duplicates *all = provide(p, size, memory);
  bool written = all && tamis__duplicates_write(all, memory, block, counts, spare);
  release_if_empty(p, memory);
  return written;
}

void tamis__plane_shrink(plane *p, const struct duplicates_memory *memory, unsigned block)
{
  uint64_t counts[DUPLICATES_POSITIONS];
  struct duplicates *all = plane_counts(p);
  if (!all)
    return;
  tamis__duplicates_read(all, block, counts);
  (void) tamis__duplicates_write(all, memory, block, counts, false);
}
