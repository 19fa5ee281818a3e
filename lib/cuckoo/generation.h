/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates and takes down generations.
 */
#ifndef TAMIS_LIB_CUCKOO_GENERATION_H
#define TAMIS_LIB_CUCKOO_GENERATION_H

#include "cuckoo/table.h"

/* ---- the first generation, which is in the filter's block ---- */

/* The bytes that follow a generation in its block. */
uint64_t tamis__generation_tail_bytes(const struct cuckoo_geometry *g, bool has_slabs);

/* Begins it, without a directory (but for that of a single root) and segments.  `counters` is
 * memory for a single shard; NULL: it gets shards of its own.  Whatever the result, it can be
 * destroyed. */
int tamis__generation_begin_first(struct cuckoo *c, const struct cuckoo_geometry *g,
                                  struct counter_shard *counters);

/* Its directory, and all its segments if it does not grow, or that of its only root. */
int tamis__generation_complete_first(struct cuckoo *c);

/* ---- all generations ---- */

/* A later generation that no other thread knows yet, without segments; or NULL with the reason in
 * *result. */
struct generation *tamis__generation_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                            int *result);

/* The same in two steps, for a filter that is loaded: without a directory, and then the directory,
 * without any entries. */
struct generation *tamis__generation_begin(struct cuckoo *c, const struct cuckoo_geometry *g,
                                           int *result);
int tamis__generation_provide_directory(struct cuckoo *c, struct generation *generation);

/* An array whose k is `bits`, of which no entry has a value yet; or NULL with the reason in
 * *result. */
struct directory_array *tamis__directory_array_create(struct cuckoo *c, unsigned bits, int *result);

/* The bytes of all arrays.  The caller is no reader. */
uint64_t tamis__directory_arrays_bytes(const struct cuckoo *c, const struct generation *generation);

/* Appends a generation to a filter of n, with `opening` held or before the filter is shared. */
void tamis__generation_append(struct cuckoo *c, struct generation *generation, unsigned n);

/* Opens a generation after `full`, unless another thread has.  `like` is the geometry that it is to
 * have if that fits the filter, or NULL.  The filter has its growth.
 *   TAMIS_OK      it is open
 *   TAMIS_EFULL   a limit is reached
 *   TAMIS_ENOMEM  memory was refused */
int tamis__generation_open(struct cuckoo *c, const struct generation *full,
                           const struct cuckoo_geometry *like);

/* No other thread knows it any more. */
void tamis__generation_destroy(struct cuckoo *c, struct generation *generation);

/* ---- what a filter needs from its first growth on ---- */

/* Sees to it that a filter that grows has it: TAMIS_OK, TAMIS_EFULL or TAMIS_ENOMEM.  The caller
 * holds cuckoo.own_growth, unless there is growth, or no other thread knows the filter: of two
 * threads that both made it, each could be refused because of what the other one takes. */
int tamis__growth_provide(struct cuckoo *c);

/* Takes it down in two steps, if there is any: before the generations, and after them. */
void tamis__growth_settle(struct cuckoo *c);
void tamis__growth_destroy(struct cuckoo *c);

#endif
