/* SPDX-License-Identifier: MIT
 *
 * Layer 1: cleared memory, from the user's allocator or from the system.
 */
#ifndef TAMIS_LIB_MEMORY_H
#define TAMIS_LIB_MEMORY_H

#include "tamis/tamis.h"

#include <stdatomic.h>

/* Returns `size` zero bytes aligned to 64 bytes, or NULL.  Without a user's allocator (allocate ==
 * NULL), a block of 4 KiB or more is not touched, unless malloc() reuses an earlier block.  The
 * kernel clears each page at the first access, so a large filter costs nothing in advance.  Blocks
 * of 2 MiB or more come from mmap(), with huge pages if possible.  Huge pages save a TLB miss on
 * most accesses to a filter that the TLB does not cover. */
void *tamis__memory_allocate(const tamis_allocator *from, uint64_t size);

/* As tamis__memory_allocate(), but only the first `cleared` bytes are certain to be zero.  This is
 * for a block that is too large to be touched all at once. */
void *tamis__memory_allocate_cleared(const tamis_allocator *from, uint64_t size, uint64_t cleared);

/* As tamis__memory_allocate(), for small blocks, of which there may be millions.  The system's
 * allocator aligns such a block to 16 bytes only: alignment to 64 would cost a hundred bytes.  A
 * filter's line can then lie in two cache lines, but both are cached after a few look-ups. */
void *tamis__memory_allocate_dense(const tamis_allocator *from, uint64_t size);

/* Returns a larger block with the contents of `block`, and releases `block`.  The additional bytes
 * are undefined.  Returns NULL, and leaves `block` as it was, if there is no memory.  `block` may
 * be NULL, with size 0.  Large blocks from mmap() are not copied: the kernel moves their pages. */
void *tamis__memory_grow(const tamis_allocator *from, void *block, uint64_t size, uint64_t larger);

/* Makes a new block use small pages, so that calls wait less for the first access to a page: the
 * kernel clears a whole huge page, which takes 0.1 ms, or 10 ms on a virtual machine whose host has
 * yet to find the memory.  Does nothing to a block of 32 MiB or more, for which huge pages are
 * worth the wait, or to a block from a user's allocator. */
void tamis__memory_use_small_pages(const tamis_allocator *from, void *block, uint64_t size);

/* Adds `size` to the sum of a filter's bytes.  Returns false, and leaves the sum as it was, if the
 * sum would exceed `limit` (0: no limit).  A block is counted from before its allocation until
 * after its release, so no two calls use the same room below the limit. */
bool tamis__memory_count(_Atomic uint64_t *bytes, uint64_t limit, uint64_t size);

/* Releases a block, which may be NULL.  It must have been allocated with `size` bytes. */
void tamis__memory_release(const tamis_allocator *from, void *block, uint64_t size);

#endif
