/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the contents of segments that no other thread knows yet.  Publishing them makes their
 * contents visible.
 */
#ifndef TAMIS_LIB_CUCKOO_FILL_H
#define TAMIS_LIB_CUCKOO_FILL_H

#include "cuckoo/table.h"

/* Gives two segments, in which no bucket has a value yet, what a segment holds, and its counts of
 * copies: each gets the entries whose next fingerprint bit, or whose class, is its number.  The
 * caller holds all stripes of the parent, and destroys the children after an error.
 *   Errors  TAMIS_EFULL, TAMIS_ENOMEM: there is no memory for counts; NO_ROOM: wider lanes have no
 *           room for all entries */
int tamis__fill_split(struct cuckoo *c, const struct generation *generation, struct segment *parent,
                      struct segment *child[2]);

/* Gives an empty segment what its two children hold.  The caller holds all stripes of both.  False:
 * there is no room, or no memory for counts. */
bool tamis__fill_joined(struct cuckoo *c, const struct generation *generation,
                        struct segment *child[2], struct segment *parent);

#endif
