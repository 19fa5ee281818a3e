/* SPDX-License-Identifier: MIT
 *
 * Layer 1: cleared memory, from the user's allocator or from the system.
 */
#ifndef TAMIS_LIB_MEMORY_H
#define TAMIS_LIB_MEMORY_H

#include "tamis/tamis.h"

#include <stdatomic.h>

/* Returns `size` zero bytes aligned to 64, or NULL.
 * Without a user's allocator (allocate == NULL) nothing of a block of 4 KiB or more is touched,
 * unless malloc() has it from an earlier use: the kernel clears its pages when they are first
 * touched, so creating a large filter costs nothing in advance.  Blocks from 2 MiB on come straight
 * from mmap.  The pages are requested as huge pages: in a filter larger than the TLB covers, these
 * save a TLB miss on most accesses. */
void *tamis__memory_allocate(const tamis_allocator *from, uint64_t size);

/* The same, but only the first `cleared` bytes need be zero: for a block that is too large to be
 * touched all at once. */
void *tamis__memory_allocate_cleared(const tamis_allocator *from, uint64_t size, uint64_t cleared);

/* The same, for a small block, of which there may be millions.  From the system it is aligned to 16
 * only: malloc() takes another hundred bytes for an alignment to 64, and the words of a line that
 * lie in two lines are soon in the cache. */
void *tamis__memory_allocate_dense(const tamis_allocator *from, uint64_t size);

/* Returns a larger block with the contents of `block`, which it releases; the bytes after them are
 * undefined.  NULL: there is no memory, and `block` is as it was.  `block` may be NULL, with a size
 * of 0.  Large blocks of the system are not copied: their pages move. */
void *tamis__memory_grow(const tamis_allocator *from, void *block, uint64_t size, uint64_t larger);

/* For a new block that gets its pages while other calls wait for them: a huge page is cleared at
 * once, which takes 0.1 ms, or 10 ms on a virtual machine whose host has yet to find the memory.
 * Does nothing to a block of 32 MiB or more, to which huge pages are worth that, nor to one of a
 * user's allocator. */
void tamis__memory_use_small_pages(const tamis_allocator *from, void *block, uint64_t size);

/* Adds `size` to the sum of a filter's bytes.  False: the sum would exceed `limit` (0: no limit),
 * and stays the same.  A filter counts a block from before it is allocated until it has been
 * released, so no two calls take the same room. */
bool tamis__memory_count(_Atomic uint64_t *bytes, uint64_t limit, uint64_t size);

/* Releases a block; `size` is the size that it was allocated with.  NULL is fine. */
void tamis__memory_release(const tamis_allocator *from, void *block, uint64_t size);

#endif
