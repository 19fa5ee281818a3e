/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates and destroys generations.
 */
#ifndef TAMIS_LIB_CUCKOO_GENERATION_H
#define TAMIS_LIB_CUCKOO_GENERATION_H

#include "cuckoo/table.h"

/* The bytes behind a struct generation: struct slabs if `has_slabs`, and a single root's word. */
uint64_t tamis__generation_tail_bytes(const struct cuckoo_geometry *g, bool has_slabs);

/* Begins the first generation, without segments and, if it has several roots, without a directory.
 * `counters` is memory for a single shard, or NULL to allocate shards.  After an error, the caller
 * must still destroy the generation. */
int tamis__generation_begin_first(struct cuckoo *c, const struct cuckoo_geometry *g,
                                  struct counter_shard *counters);

int tamis__generation_provide_directory(struct cuckoo *c, struct generation *generation);

/* Creates the first generation's directory, and the segments that a new filter has: all if the
 * filter is fixed, one if it is growable and has a single root. */
int tamis__generation_complete_first(struct cuckoo *c);

/* Makes the directory of a fixed filter lead to its segments, which are in one block. */
void tamis__generation_use_block(struct cuckoo *c, void *block);

/* Creates an unpublished, empty later generation.  Returns NULL with the reason in *result. */
struct generation *tamis__generation_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                            int *result);

/* The bytes of all arrays of the generation's directory.  The caller need not be a reader. */
uint64_t tamis__directory_arrays_bytes(const struct cuckoo *c, const struct generation *generation);

/* Appends a generation to a filter of n generations, and gives the filter the operations of the
 * general path.  The caller must hold cuckoo.opening, unless no other thread uses the filter. */
void tamis__generation_append(struct cuckoo *c, struct generation *generation, unsigned n);

/* Opens a generation after `full`, unless another thread has done so.  The new generation has the
 * geometry `like`, unless that is NULL or does not fit the filter.
 *   TAMIS_OK      a generation after `full` is open
 *   TAMIS_EFULL   a limit is reached
 *   TAMIS_ENOMEM  memory was refused */
int tamis__generation_open(struct cuckoo *c, const struct generation *full,
                           const struct cuckoo_geometry *like);

/* Destroys a generation that no other thread uses. */
void tamis__generation_destroy(struct cuckoo *c, struct generation *generation);

/* Creates the struct cuckoo_growth if a growable filter lacks it.  Returns TAMIS_OK, TAMIS_EFULL or
 * TAMIS_ENOMEM.  If the struct is missing and other threads may use the filter, the caller must
 * hold cuckoo.own_growth.  (Two threads could otherwise exceed max_bytes, and both fail.) */
int tamis__growth_provide(struct cuckoo *c);

/* Destroys the struct cuckoo_growth, if it exists, after its backlog and generations. */
void tamis__growth_destroy(struct cuckoo *c);

#endif
