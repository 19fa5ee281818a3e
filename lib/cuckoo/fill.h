/* SPDX-License-Identifier: MIT
 *
 * Layer 2: fills segments before they are published, which makes their contents visible.
 */
#ifndef TAMIS_LIB_CUCKOO_FILL_H
#define TAMIS_LIB_CUCKOO_FILL_H

#include "cuckoo/table.h"

/* Fills the two children of a split, whose buckets are uninitialized, with the entries of the
 * parent and their counts of copies.  Child i gets the entries whose next fingerprint bit, or whose
 * class, is i.  The caller holds all stripes of the parent, and destroys the children after an
 * error.
 *   Errors  TAMIS_EFULL, TAMIS_ENOMEM: memory for counts was refused; NO_ROOM: the entries do not
 *           fit in a child with wider lanes */
int tamis__fill_split(struct cuckoo *c, const struct generation *generation, struct segment *parent,
                      struct segment *child[2]);

/* Fills an empty segment with the entries of its two children.  The caller holds all stripes of
 * both children.  False: there is no room, or memory for counts was refused. */
bool tamis__fill_joined(struct cuckoo *c, const struct generation *generation,
                        struct segment *child[2], struct segment *parent);

#endif
