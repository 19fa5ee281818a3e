/* SPDX-License-Identifier: MIT */
#include "base/memory.h"

#include "base/cancel.h"
#include "base/fullness.h"
#include "base/hook.h"
#include "base/pages.h"
#include "base/reclaim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* bytes: a cache line */

/* From this size in bytes on, a block comes from calloc() or mmap(), which need not clear memory
 * that the kernel has cleared.  memset() would access each page: the first access takes 0.25 µs or,
 * on a virtual machine, up to 20 µs.  posix_memalign() could not reuse a freed block. */
static const size_t untouched = (size_t) 4 << 10;

/* Returns the first multiple of 64 after `start`, which calloc() has returned, aligned to 16 bytes.
 * A block begins at the result, and the word before the block holds `start`. */
static void **align_untouched(char *start)
{
  return (void **) (start + ALIGNMENT - (uintptr_t) start % ALIGNMENT);
}

static void *allocate_untouched(size_t size)
{
  char *start = calloc(1, size + ALIGNMENT);
  if (!start)
    return NULL;
  void **block = align_untouched(start);
  block[-1] = start;
  return block;
}

static void *grow_untouched(void *block, size_t size, size_t larger)
{
  char *start = ((void **) block)[-1];
  const size_t offset = (size_t) ((char *) block - start);
  start = realloc(start, larger + ALIGNMENT);
  if (!start)
    return NULL;
  void **grown = align_untouched(start);
  if ((char *) grown != start + offset)
    memmove(grown, start + offset, size);
  grown[-1] = start;
  return grown;
}

/* The user's allocator might contain cancellation points.  It can be called while locks are held,
 * but never in a read section, where a wait would hold up all grace periods. */
static void release_to(const tamis_allocator *from, void *block, size_t size)
{
  assert(tamis__read_sections == 0);
  int cancellation = cancellation_disable();
  from->release(from->context, block, ALIGNMENT, size);
  cancellation_restore(cancellation);
}

/* Refuses unaligned blocks: the library uses whole cache lines, and the low bits of addresses. */
static void *allocate_from(const tamis_allocator *from, size_t size)
{
  assert(tamis__read_sections == 0);
  void *block = UNCANCELLED(from->allocate(from->context, ALIGNMENT, size));
  if ((uintptr_t) block % ALIGNMENT == 0)
    return block;
  release_to(from, block, size);
  return NULL;
}

/* Refuses more than PTRDIFF_MAX bytes, so size_t can hold each size, and the sum of two sizes. */
void *tamis__memory_allocate_cleared(const tamis_allocator *from, uint64_t wanted, uint64_t cleared)
{
  const size_t size = (size_t) wanted;
  void *block;
  if (wanted > PTRDIFF_MAX)
    return NULL;
  if (!from->allocate && size >= untouched)
    return pages_hold(size) ? pages_map(size) : allocate_untouched(size);
  if (from->allocate)
    block = allocate_from(from, size);
  else if (posix_memalign(&block, ALIGNMENT, size))
    block = NULL;
  if (block)
    memset(block, 0, (size_t) cleared);
  return block;
}

void *tamis__memory_allocate(const tamis_allocator *from, uint64_t size)
{
  return tamis__memory_allocate_cleared(from, size, size);
}

/* A build that cannot move pages calls realloc(), which can often extend the block in place. */
void *tamis__memory_grow(const tamis_allocator *from, void *block, uint64_t size, uint64_t larger)
{
  if (!pages_hold(SIZE_MAX) && !from->allocate && block && size >= untouched &&
      larger <= PTRDIFF_MAX)
    return grow_untouched(block, (size_t) size, (size_t) larger);
  void *grown = tamis__memory_allocate_cleared(from, larger, 0);
  if (!grown || !block)
    return grown;
  if (!from->allocate && pages_hold((size_t) size) && pages_move(block, (size_t) size, grown))
    return grown;
  memcpy(grown, block, (size_t) size);
  tamis__memory_release(from, block, size);
  return grown;
}

/* Relaxed: no other data depends on the sum. */
bool tamis__memory_count(_Atomic uint64_t *bytes, uint64_t limit, uint64_t size)
{
  uint64_t before = atomic_load_explicit(bytes, memory_order_relaxed);
  do {
    if (limit && (size > limit || before > limit - size))
      return false;
  } while (!atomic_compare_exchange_weak_explicit(bytes, &before, before + size,
                                                  memory_order_relaxed, memory_order_relaxed));
  return true;
}

void tamis__memory_release(const tamis_allocator *from, void *block, uint64_t size)
{
  const size_t bytes = (size_t) size; /* size_t can hold the size of a block that exists */
  if (!block)
    return;
  if (from->release)
    release_to(from, block, bytes);
  else if (pages_hold(bytes))
    pages_unmap(block, bytes);
  else
    free(bytes >= untouched ? ((void **) block)[-1] : block);
}

void tamis__memory_use_small_pages(const tamis_allocator *from, void *block, uint64_t size)
{
  if (!from->allocate)
    pages_use_small(block, (size_t) size);
}

void *tamis__memory_allocate_dense(const tamis_allocator *from, uint64_t size)
{
  return from->allocate || size >= untouched ? tamis__memory_allocate(from, size)
                                             : calloc(1, (size_t) size);
}

static void *try_allocate(struct budget *b, uint64_t size, uint64_t cleared)
{
  b->result = TAMIS_EFULL;
  if (!tamis__memory_count(b->bytes, b->limit, size))
    return NULL;
  HOOK(memory_counted);
  void *block = b->dense ? tamis__memory_allocate_dense(b->from, size)
                         : tamis__memory_allocate_cleared(b->from, size, cleared);
  if (block)
    return block;
  b->result = TAMIS_ENOMEM;
  atomic_fetch_sub_explicit(b->bytes, size, memory_order_relaxed);
  return NULL;
}

static bool drain(const struct budget *b)
{
  return b->backlog && tamis__backlog_drain(b->backlog, true);
}

void *tamis__budget_allocate(struct budget *b, uint64_t size, uint64_t cleared)
{
  void *block = try_allocate(b, size, cleared);
  return block || !drain(b) ? block : try_allocate(b, size, cleared);
}

bool tamis__budget_fits(struct budget *b, uint64_t size)
{
  b->result = TAMIS_EFULL;
  return memory_fits(b->bytes, b->limit, size) ||
         (drain(b) && memory_fits(b->bytes, b->limit, size));
}

void tamis__budget_release(struct budget *b, void *block, uint64_t size)
{
  tamis__memory_release(b->from, block, size);
  atomic_fetch_sub_explicit(b->bytes, size, memory_order_relaxed);
  if (b->rooms)
    fullness_count(b->rooms);
}
