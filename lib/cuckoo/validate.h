/* SPDX-License-Identifier: MIT
 *
 * Layer 2: whether a cuckoo filter's structure is whole, for tests.
 */
#ifndef TAMIS_LIB_CUCKOO_VALIDATE_H
#define TAMIS_LIB_CUCKOO_VALIDATE_H

#include "cuckoo/table.h"

/* Reads all memory of the filter, while no other call runs.  If something is wrong, *reason says
 * what. */
bool tamis__cuckoo_validate(const tamis_filter *f, const char **reason);

#endif
