/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates and takes down generations.
 */
#ifndef TAMIS_LIB_CUCKOO_GENERATION_H
#define TAMIS_LIB_CUCKOO_GENERATION_H

#include "cuckoo/table.h"

/* A generation that no other thread knows yet, or NULL with the reason in *result.  In a filter
 * that grows it has no segments; otherwise it has all of them. */
struct generation *tamis__generation_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                            int *result);

/* The same in two steps, for a filter that is loaded: without a directory and segments, and then
 * the directory, without any entries. */
struct generation *tamis__generation_begin(struct cuckoo *c, const struct cuckoo_geometry *g,
                                           int *result);
int tamis__generation_provide_directory(struct cuckoo *c, struct generation *generation);

/* Opens a generation after `full`, unless another thread has.  `like` is the geometry that it is to
 * have if that fits the filter, or NULL.
 *   TAMIS_OK      it is open
 *   TAMIS_EFULL   a limit is reached
 *   TAMIS_ENOMEM  memory was refused */
int tamis__generation_open(struct cuckoo *c, const struct generation *full,
                           const struct cuckoo_geometry *like);

/* No other thread knows it any more. */
void tamis__generation_destroy(struct cuckoo *c, struct generation *generation);

#endif
