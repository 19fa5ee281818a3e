/* SPDX-License-Identifier: MIT
 *
 * Layer 2: remove, which takes one copy of a key out.
 */
#ifndef TAMIS_LIB_CUCKOO_REMOVE_H
#define TAMIS_LIB_CUCKOO_REMOVE_H

#include "cuckoo/table.h"

int tamis__cuckoo_remove(tamis_filter *f, uint64_t hash);

/* The same for a mixed hash. */
int tamis__cuckoo_remove_mixed(struct cuckoo *c, uint64_t mixed);

#endif
