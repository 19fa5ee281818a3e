/* SPDX-License-Identifier: MIT
 *
 * Layer 2: allocates memory for segments: in slabs if the filter is large.  slabs.c explains slabs.
 */
#ifndef TAMIS_LIB_CUCKOO_SLABS_H
#define TAMIS_LIB_CUCKOO_SLABS_H

#include "cuckoo/table.h"

/* The bytes of slabs that are not in segments, if a first generation has its planned size. */
uint64_t tamis__slab_heads(const struct cuckoo_geometry *g);

/* The caller must call this before the generation creates its first segment. */
void tamis__slabs_init(struct slabs *slabs, const struct cuckoo_geometry *g);
void tamis__slabs_destroy(struct slabs *slabs); /* `slabs` may be NULL */

/* Allocates zeroed memory for a segment, in a slab or as a separate block.  If memory is refused,
 * returns NULL with the reason in *result. */
struct segment *tamis__segment_memory_allocate(struct cuckoo *c, struct generation *generation,
                                               int *result);
void tamis__segment_memory_release(struct cuckoo *c, struct segment *segment, uint64_t size);

#endif
