/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the memory of a cuckoo filter, counted and kept within max_bytes.
 */
#ifndef TAMIS_LIB_CUCKOO_MEMORY_H
#define TAMIS_LIB_CUCKOO_MEMORY_H

#include "cuckoo/table.h"

enum { SMALL_PAGE = 4096 }; /* the kernel clears memory by pages of at least so many bytes */

/* `size` zero bytes, or NULL with the reason in *result:  TAMIS_EFULL or TAMIS_ENOMEM.  When they
 * are not to be had, memory that has waited for readers is released, and it tries again. */
void *tamis__cuckoo_allocate(struct cuckoo *c, uint64_t size, int *result);

/* The same, but only the first `cleared` bytes need be zero. */
void *tamis__cuckoo_allocate_cleared(struct cuckoo *c, uint64_t size, uint64_t cleared,
                                     int *result);

/* Whether a block of the allocator's comes cleared (tamis_options.cleared_from). */
static inline bool cuckoo_block_comes_cleared(const struct cuckoo *c, uint64_t size)
{
  return c->cleared_bits && size >> c->cleared_bits;
}

/* NULL is fine. */
void tamis__cuckoo_release(struct cuckoo *c, void *block, uint64_t size);

/* Whether max_bytes leaves so many bytes at the moment. */
bool tamis__cuckoo_fits(const struct cuckoo *c, uint64_t size);

/* The same, if need be after the release of what tamis__cuckoo_allocate() would release for them. */
bool tamis__cuckoo_makes_room(struct cuckoo *c, uint64_t size);

#endif
