/* SPDX-License-Identifier: MIT
 *
 * Layer 2: filters that forget: sliding windows.  table.h has the essay.
 */
#ifndef TAMIS_LIB_WINDOW_H
#define TAMIS_LIB_WINDOW_H

#include "base/filter.h"

extern const struct filter_kind tamis__window_bloom_kind;
extern const struct filter_kind tamis__window_cuckoo_kind;

#endif
