/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the contents of segments that no other thread knows yet.  Publishing them makes their
 * contents visible.
 */
#ifndef TAMIS_LIB_CUCKOO_FILL_H
#define TAMIS_LIB_CUCKOO_FILL_H

#include "cuckoo/table.h"

/* Gives two segments, in which no bucket has a value yet, what a segment holds, and its counts of
 * copies: each gets the entries whose next fingerprint bit is its number, and then the counts of
 * the lanes in which it has one.  The caller holds all stripes of the parent, and destroys the
 * children after an error.
 *   Errors  TAMIS_EFULL, TAMIS_ENOMEM: there is no memory for counts */
int tamis__fill_split(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *parent,
                      struct segment *child[2]);

/* Gives an empty segment what its two children hold.  The caller holds all stripes of both.  False:
 * there is no room, or no memory for counts. */
bool tamis__fill_joined(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *child[2],
                        struct segment *parent);

#endif
