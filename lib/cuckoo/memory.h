/* SPDX-License-Identifier: MIT
 *
 * Layer 2: allocates the memory of a cuckoo filter, and keeps it within max_bytes.
 */
#ifndef TAMIS_LIB_CUCKOO_MEMORY_H
#define TAMIS_LIB_CUCKOO_MEMORY_H

#include "base/memory.h"
#include "cuckoo/table.h"

struct budget tamis__cuckoo_budget(struct cuckoo *c);

/* Allocates `size` zeroed bytes, or returns NULL with the reason in *result: TAMIS_EFULL or
 * TAMIS_ENOMEM.  If memory is refused, releases retired memory and tries once more. */
void *tamis__cuckoo_allocate(struct cuckoo *c, uint64_t size, int *result);

/* Does what tamis__cuckoo_allocate() does, but zeroes only the first `cleared` bytes. */
void *tamis__cuckoo_allocate_cleared(struct cuckoo *c, uint64_t size, uint64_t cleared,
                                     int *result);

/* Whether the allocator returns zeroed blocks of this size (tamis_options.cleared_from). */
static inline bool cuckoo_block_comes_cleared(const struct cuckoo *c, uint64_t size)
{
  return c->cleared_bits && size >> c->cleared_bits;
}

/* Releases a block, which may be NULL. */
void tamis__cuckoo_release(struct cuckoo *c, void *block, uint64_t size);

/* Whether max_bytes allows `size` more bytes. */
static inline bool cuckoo_fits(const struct cuckoo *c, uint64_t size)
{
  return memory_fits(&c->bytes, c->max_bytes, size);
}

/* ---- segments, in slabs if the filter is large: slabs.c ---- */

/* The bytes of struct slab in all slabs that a first generation is planned to fill. */
uint64_t tamis__slab_heads(const struct cuckoo_geometry *g);

void tamis__slabs_init(struct slabs *slabs, const struct cuckoo_geometry *g);
void tamis__slabs_destroy(struct slabs *slabs); /* `slabs` may be NULL */

/* Allocates zeroed memory for a segment, or returns NULL with the reason in *result. */
struct segment *tamis__segment_memory_allocate(struct cuckoo *c, struct generation *generation,
                                               int *result);
void tamis__segment_memory_release(struct cuckoo *c, struct segment *segment, uint64_t size);

#endif
