/* SPDX-License-Identifier: MIT
 *
 * What tests share that change the parts of a saved filter, and try what they have made of them.
 */
#ifndef TAMIS_TESTS_PARTS_UNIT_H
#define TAMIS_TESTS_PARTS_UNIT_H

#include "fuzz/parts.h"
#include "saved_unit.h"

static struct parts parts;

static unsigned char joined[1 << 19];

static inline struct source join_with(unsigned repair)
{
  size_t size = parts_join(&parts, repair, joined, sizeof joined);
  assert_true(size > 0);
  return (struct source){.data = joined, .size = size};
}

static inline int load_joined(unsigned repair)
{
  return load_any(join_with(repair), UINT64_C(64) << 20, NULL);
}

static inline int map_joined(unsigned repair, bool check_all, tamis_filter **out)
{
  return map_source(join_with(repair), check_all, out);
}

static inline void insert(unsigned at, struct part part)
{
  memmove(&parts.part[at + 1], &parts.part[at], (parts.n++ - at) * sizeof *parts.part);
  parts.part[at] = part;
}

static inline void drop(unsigned at)
{
  memmove(&parts.part[at], &parts.part[at + 1], (--parts.n - at) * sizeof *parts.part);
}

#endif
