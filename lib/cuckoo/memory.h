/* SPDX-License-Identifier: MIT
 *
 * Layer 2: allocates the memory of a cuckoo filter, and keeps it within max_bytes.
 */
#ifndef TAMIS_LIB_CUCKOO_MEMORY_H
#define TAMIS_LIB_CUCKOO_MEMORY_H

#include "cuckoo/table.h"

enum { SMALL_PAGE = 4096 }; /* the least page size: the kernel zeroes memory by pages */

/* Allocates `size` zeroed bytes, or returns NULL with the reason in *result: TAMIS_EFULL or
 * TAMIS_ENOMEM.  If that fails, it drains the backlog and tries again. */
void *tamis__cuckoo_allocate(struct cuckoo *c, uint64_t size, int *result);

/* The same, but only the first `cleared` bytes are zeroed. */
void *tamis__cuckoo_allocate_cleared(struct cuckoo *c, uint64_t size, uint64_t cleared,
                                     int *result);

/* Whether the allocator returns zeroed blocks of this size (tamis_options.cleared_from). */
static inline bool cuckoo_block_comes_cleared(const struct cuckoo *c, uint64_t size)
{
  return c->cleared_bits && size >> c->cleared_bits;
}

/* `block` may be NULL. */
void tamis__cuckoo_release(struct cuckoo *c, void *block, uint64_t size);

/* Whether max_bytes allows so many further bytes at the moment. */
bool tamis__cuckoo_fits(const struct cuckoo *c, uint64_t size);

/* The same; if necessary, it first releases memory as tamis__cuckoo_allocate() does. */
bool tamis__cuckoo_makes_room(struct cuckoo *c, uint64_t size);

#endif
