/* SPDX-License-Identifier: MIT
 *
 * Layer 1: how many stripes and shards a filter has on this machine, so that two threads rarely
 * share a stripe or a shard.
 */
#ifndef TAMIS_LIB_PARTS_H
#define TAMIS_LIB_PARTS_H

#include <stdint.h>

enum { COUNTER_MOST_SHARDS = 256 };

/* The number of stripes that suits this machine: a power of two. */
unsigned tamis__stripe_count(void);

/* The number of shards that suits this machine and a filter of `bytes` bytes, of which the shards
 * should be a small part: a power of two from 2 to 256. */
unsigned tamis__counter_shards(uint64_t bytes);

#endif
