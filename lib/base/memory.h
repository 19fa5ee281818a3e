/* SPDX-License-Identifier: MIT
 *
 * Layer 1: memory, cleared, from the user's allocator or from the system.
 */
#ifndef TAMIS_LIB_MEMORY_H
#define TAMIS_LIB_MEMORY_H

#include "tamis/tamis.h"

/* `size` zero bytes aligned to 64, or NULL.  Without a user's allocator (allocate == NULL) a large
 * block comes straight from mmap: its pages are cleared by the kernel when they are first touched,
 * and asked for as huge pages, which save a TLB miss on most accesses to a filter larger than the
 * TLB covers. */
void *tamis__memory_allocate(const tamis_allocator *from, size_t size);

/* Gives a block back; the size is the one it was asked for.  NULL is fine. */
void tamis__memory_release(const tamis_allocator *from, void *block, size_t size);

#endif
