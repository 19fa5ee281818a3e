/* SPDX-License-Identifier: MIT
 *
 * Layer 1: large blocks of memory from mmap(), in huge pages.  Without mmap()
 * (TAMIS_WITHOUT_SYSTEM), all blocks come from the C library.
 */
#ifndef TAMIS_LIB_PAGES_H
#define TAMIS_LIB_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef TAMIS_WITHOUT_SYSTEM

#define pages_hold(size) ((void) (size), false)
#define pages_map(size) ((void) (size), NULL)
#define pages_unmap(block, size) ((void) (block), (void) (size))
#define pages_move(block, size, larger) ((void) (block), (void) (size), (void) (larger), false)
#define pages_use_small(block, size) ((void) (block), (void) (size))

#else

#include <sys/mman.h>
#include <unistd.h>

static const size_t pages_huge = (size_t) 2 << 20;

static inline bool pages_hold(size_t size)
{
  return size >= pages_huge;
}

static inline size_t pages_round(size_t size)
{
  size_t page_size = (size_t) sysconf(_SC_PAGESIZE);
  return (size + page_size - 1) & ~(page_size - 1);
}

/* Returns a mapping, if possible aligned to huge pages, or NULL.  The kernel aligns only to small
 * pages, so this function maps one huge page too many, and unmaps the parts around the block. */
static inline void *pages_map(size_t size)
{
  if (size > SIZE_MAX - 2 * pages_huge)
    return NULL;
  size_t length = pages_round(size);
  char *start =
      mmap(NULL, length + pages_huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) { /* tries again for an unaligned block, without the extra page */
    start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
  }
  size_t before = (pages_huge - (uintptr_t) start % pages_huge) % pages_huge;
  if (before)
    munmap(start, before);
  munmap(start + before + length, pages_huge - before);
#ifdef MADV_HUGEPAGE
  (void) madvise(start + before, length, MADV_HUGEPAGE);
#endif
  return start + before;
}

static inline void pages_unmap(void *block, size_t size)
{
  munmap(block, size);
}

/* Moves the pages of a mapping to the beginning of a larger one. */
static inline bool pages_move(void *block, size_t size, void *larger)
{
  size_t length = pages_round(size);
  return mremap(block, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, larger) == larger;
}

/* Small pages cost little below 32 MiB: a processor's TLB covers 8 to 16 MiB of them. */
static inline void pages_use_small(void *block, size_t size)
{
#ifdef MADV_NOHUGEPAGE
  if (pages_hold(size) && size < (size_t) 32 << 20)
    (void) madvise(block, size, MADV_NOHUGEPAGE);
#else
  (void) block, (void) size;
#endif
}

#endif

#endif
