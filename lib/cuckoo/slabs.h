/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the memory of single segments, in slabs where the filter is large.  slabs.c explains
 * them.
 */
#ifndef TAMIS_LIB_CUCKOO_SLABS_H
#define TAMIS_LIB_CUCKOO_SLABS_H

#include "cuckoo/table.h"

/* The bytes that slabs take beyond the segments in them, while a first generation is as large as it
 * was planned. */
uint64_t tamis__slab_heads(const struct cuckoo_geometry *g);

/* Called before a generation creates its first segment. */
void tamis__slabs_init(struct slabs *slabs, const struct cuckoo_geometry *g);
void tamis__slabs_destroy(struct slabs *slabs); /* NULL is fine */

/* Tells those of the first generation, if there are any, how many bytes the filter takes by
 * plan. */
void tamis__slabs_plan(struct generation *first, uint64_t planned);

/* Memory for a segment, in a slab or in a block of its own, whose first `cleared` bytes are zero;
 * or NULL with the reason in *result. */
struct segment *tamis__segment_memory_allocate(struct cuckoo *c, struct generation *generation,
                                               uint64_t cleared, int *result);
void tamis__segment_memory_release(struct cuckoo *c, struct segment *segment, uint64_t size);

#endif
