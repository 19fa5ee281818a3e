/* SPDX-License-Identifier: MIT
 *
 * Layer 1: cleared memory, from the user's allocator or from the system.
 */
#ifndef TAMIS_LIB_MEMORY_H
#define TAMIS_LIB_MEMORY_H

#include "tamis/tamis.h"

#include <stdatomic.h>

/* Returns `size` zero bytes aligned to 64 bytes, or NULL.  Without a user's allocator (allocate ==
 * NULL), a large filter costs nothing in advance: the kernel clears each page of a block of 4 KiB
 * or more at the first access, unless malloc() reuses an earlier block.  Blocks of 2 MiB or more
 * come from mmap(), with huge pages if possible, which save most TLB misses. */
void *tamis__memory_allocate(const tamis_allocator *from, uint64_t size);

/* As tamis__memory_allocate(), but only the first `cleared` bytes are certain to be zero. */
void *tamis__memory_allocate_cleared(const tamis_allocator *from, uint64_t wanted,
                                     uint64_t cleared);

/* Does what tamis__memory_allocate() does, but the system's allocator aligns a small block only to
 * 16 bytes.  That saves a hundred bytes for each block, of which there may be millions.  A filter's
 * line can then lie in two cache lines, but both are cached after a few look-ups. */
void *tamis__memory_allocate_dense(const tamis_allocator *from, uint64_t size);

/* Returns a larger block with the contents of `block`, and releases `block`.  The additional bytes
 * are undefined.  If there is no memory, returns NULL, and leaves `block` as it was.  `block` may
 * be NULL, with size 0.  Blocks from mmap() are not copied: the kernel moves their pages. */
void *tamis__memory_grow(const tamis_allocator *from, void *block, uint64_t size, uint64_t larger);

/* Makes a new block use small pages.  The first access to a huge page clears it, which takes 0.1
 * ms, or 10 ms on a virtual machine whose host has yet to find the memory.  Does nothing to blocks
 * of a user's allocator, or of 32 MiB or more, for which huge pages are worth the wait. */
void tamis__memory_use_small_pages(const tamis_allocator *from, void *block, uint64_t size);

/* Adds `size` to the sum of a filter's bytes.  Returns false, and leaves the sum as it was, if the
 * sum would exceed `limit` (0: no limit).  A block is counted from before its allocation until
 * after its release, so no two calls use the same room below the limit. */
bool tamis__memory_count(_Atomic uint64_t *bytes, uint64_t limit, uint64_t size);

/* Whether a filter's sum of bytes may grow by `size`. */
static inline bool memory_fits(const _Atomic uint64_t *bytes, uint64_t limit, uint64_t size)
{
  const uint64_t sum = atomic_load_explicit(bytes, memory_order_relaxed);
  return !limit || (size <= limit && sum <= limit - size);
}

/* Releases a block that was allocated with `size` bytes.  `block` may be NULL. */
void tamis__memory_release(const tamis_allocator *from, void *block, uint64_t size);

/* ---- memory that counts towards a filter's limit ---- */

struct backlog;

struct budget {
  const tamis_allocator *from;
  _Atomic uint64_t *bytes; /* the sum of the filter's bytes */
  uint64_t limit;          /* of this sum; 0: no limit */
  struct backlog *backlog; /* is drained if memory is refused; may be NULL */
  bool dense;              /* allocates by tamis__memory_allocate_dense() */
  _Atomic uint32_t *rooms; /* counts releases of blocks (base/fullness.h); may be NULL */
  int result;              /* why memory was refused last: TAMIS_EFULL or TAMIS_ENOMEM */
};

/* Allocates a block of which at least the first `cleared` bytes are zero.  If memory is refused,
 * drains the backlog and, if that has released a block, tries once more.  Returns NULL if memory is
 * refused again. */
void *tamis__budget_allocate(struct budget *budget, uint64_t size, uint64_t cleared);

/* Whether the limit allows `size` more bytes.  May drain the backlog. */
bool tamis__budget_fits(struct budget *budget, uint64_t size);

void tamis__budget_release(struct budget *budget, void *block, uint64_t size);

#endif
