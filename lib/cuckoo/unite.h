/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the union of two cuckoo filters that are in use.
 */
#ifndef TAMIS_LIB_CUCKOO_UNITE_H
#define TAMIS_LIB_CUCKOO_UNITE_H

#include "base/filter.h"

/* The member of struct filter_kind. */
int tamis__cuckoo_merge(tamis_filter *into, const tamis_filter *from);

#endif
