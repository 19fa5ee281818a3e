/* SPDX-License-Identifier: MIT
 *
 * Layer 2: adds to a sliding window.
 */
#ifndef TAMIS_LIB_WINDOW_INSERT_H
#define TAMIS_LIB_WINDOW_INSERT_H

#include "base/filter.h"

struct window;
struct locked;

/* Makes moves for a key whose buckets are full, or opens a layer.  TAMIS_OK: another attempt may find
 * room.  The caller holds no lock. */
int tamis__window_make_room(struct window *w, const struct locked *locked);

int tamis__window_add(tamis_filter *f, uint64_t hash);
int tamis__window_add_unique(tamis_filter *f, uint64_t hash);

/* The same in a window of the cuckoo kind. */
int tamis__window_add_copy(tamis_filter *f, uint64_t hash);
int tamis__window_add_first_copy(tamis_filter *f, uint64_t hash);

/* Batches, in a window of any kind.  The keys of the first one are remembered for `periods`
 * periods; TAMIS_EINVAL: the window has fewer. */
int tamis__window_add_for(tamis_filter *f, const uint64_t *hashes, size_t n, unsigned periods,
                          bool unique, int *results);
void tamis__window_add_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);
void tamis__window_add_unique_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);

#endif
