/* SPDX-License-Identifier: MIT */
#include "base/memory.h"

#include "base/cancel.h"
#include "base/reclaim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

/* The size of a huge page.  From this size on a block is mapped rather than malloc'ed. */
static const size_t huge = (size_t) 2 << 20;

/* From this size on a block is not cleared by hand.  (To touch a page for the first time takes a
 * quarter of a microsecond or, on a virtual machine, up to twenty.)  Nor is it aligned by
 * posix_memalign(): the C library searches for more than such a block takes, and so does not find
 * one of the same size that has been freed, such as a segment that was split. */
static const size_t untouched = (size_t) 4 << 10;

/* Below this size, small pages will do: the TLB of a processor covers 8 to 16 MiB of them. */
static const size_t small_pages = (size_t) 32 << 20;

/* Returns a mapping that starts on a huge page, or NULL.  The kernel aligns mappings to small pages
 * only, so this one maps a huge page more than it needs, and unmaps what is before and after the
 * block.  munmap() gets the block's size later, which need not be a multiple of the page size. */
static void *map_aligned(size_t size)
{
  if (size > SIZE_MAX - 2 * huge)
    return NULL;
  size_t page_size = (size_t) sysconf(_SC_PAGESIZE);
  size_t length = (size + page_size - 1) & ~(page_size - 1);
  char *start =
      mmap(NULL, length + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) { /* there may still be room for the block alone, unaligned */
    start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
  }
  size_t before = (huge - (uintptr_t) start % huge) % huge;
  if (before)
    munmap(start, before);
  munmap(start + before + length, huge - before);
#ifdef MADV_HUGEPAGE
  (void) madvise(start + before, length, MADV_HUGEPAGE); /* only advice: it may fail */
#endif
  return start + before;
}

/* Moves the pages of a mapping to the beginning of another one, which keeps its alignment. */
static bool move_pages(void *block, size_t size, void *larger)
{
  size_t page_size = (size_t) sysconf(_SC_PAGESIZE);
  size_t length = (size + page_size - 1) & ~(page_size - 1);
  return mremap(block, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, larger) == larger;
}

/* calloc() knows which of its memory is as the kernel gave it, and touches none of that.  But it
 * aligns to 16 only.  So where its block begins is noted before the one that it is to be. */
static void *allocate_untouched(size_t size)
{
  char *start = calloc(1, size + ALIGNMENT);
  if (!start)
    return NULL;
  void **block = (void **) (start + ALIGNMENT - (uintptr_t) start % ALIGNMENT);
  block[-1] = start;
  return block;
}

/* The user's functions may contain cancellation points, and are called with locks held.  But they
 * are not called in a read section: they may wait, and so would the grace periods of all filters. */
static void release_to(const tamis_allocator *from, void *block, size_t size)
{
  assert(tamis__read_sections == 0);
  int cancellation = cancellation_disable();
  from->release(from->context, block, ALIGNMENT, size);
  cancellation_restore(cancellation);
}

/* A block that is not aligned is of no use: fields are where the code for them expects whole cache
 * lines, and low bits of addresses mean something. */
static void *allocate_from(const tamis_allocator *from, size_t size)
{
  assert(tamis__read_sections == 0);
  int cancellation = cancellation_disable();
  void *block = from->allocate(from->context, ALIGNMENT, size);
  cancellation_restore(cancellation);
  if ((uintptr_t) block % ALIGNMENT == 0)
    return block;
  release_to(from, block, size);
  return NULL;
}

void *tamis__memory_allocate_cleared(const tamis_allocator *from, size_t size, size_t cleared)
{
  void *block;
  if (!from->allocate && size >= untouched)
    return size >= huge ? map_aligned(size) : allocate_untouched(size);
  if (from->allocate)
    block = allocate_from(from, size);
  else if (posix_memalign(&block, ALIGNMENT, size))
    block = NULL;
  if (block)
    memset(block, 0, cleared);
  return block;
}

void *tamis__memory_allocate(const tamis_allocator *from, size_t size)
{
  return tamis__memory_allocate_cleared(from, size, size);
}

void *tamis__memory_grow(const tamis_allocator *from, void *block, size_t size, size_t larger)
{
  void *grown = tamis__memory_allocate_cleared(from, larger, 0);
  if (!grown || !block)
    return grown;
  if (!from->allocate && size >= huge && move_pages(block, size, grown))
    return grown;
  memcpy(grown, block, size);
  tamis__memory_release(from, block, size);
  return grown;
}

void tamis__memory_release(const tamis_allocator *from, void *block, size_t size)
{
  if (!block)
    return;
  if (from->release)
    release_to(from, block, size);
  else if (size >= huge)
    munmap(block, size);
  else
    free(size >= untouched ? ((void **) block)[-1] : block);
}

void tamis__memory_use_small_pages(const tamis_allocator *from, void *block, size_t size)
{
#ifdef MADV_NOHUGEPAGE
  if (!from->allocate && size >= huge && size < small_pages)
    (void) madvise(block, size, MADV_NOHUGEPAGE); /* only advice, as above */
#endif
}

void *tamis__memory_allocate_dense(const tamis_allocator *from, size_t size)
{
  return from->allocate || size >= untouched ? tamis__memory_allocate(from, size) : calloc(1, size);
}
