/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the calls on the keys of a counted table, other than contains.
 */
#ifndef TAMIS_LIB_WINDOW_COUNTED_CALLS_H
#define TAMIS_LIB_WINDOW_COUNTED_CALLS_H

#include "base/filter.h"

struct window;
struct pair;
struct found;

/* Adds copies to those of an entry.  TAMIS_EFULL: there would be too many.  The caller holds the
 * stripes of the pair. */
int tamis__counted_add_locked(const struct window *w, const struct pair *pair,
                              const struct found *at, unsigned copies);

/* Members of the table of operations. */
int tamis__counted_add(tamis_filter *f, uint64_t hash);
int tamis__counted_add_unique(tamis_filter *f, uint64_t hash);
void tamis__counted_add_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);
void tamis__counted_add_unique_many(tamis_filter *f, const uint64_t *hashes, size_t n,
                                    int *results);
int tamis__counted_remove(tamis_filter *f, uint64_t hash);
uint64_t tamis__counted_count(const tamis_filter *f, uint64_t hash);

#endif
