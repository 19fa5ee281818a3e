/* SPDX-License-Identifier: MIT */
#include "base/parts.h"

#include "base/cores.h"

unsigned tamis__stripe_count(void)
{
  /* With 32 stripes for each core, two running threads rarely need the same stripe. */
  return tamis__power_of_two_per_core(32, 64, 1024);
}

enum { MIN_SHARDS = 2, USUAL_SHARDS = 64, BYTES_PER_SHARD = 512 };

/* Returns 16 shards for each core, from 32 to 64 shards, or 2 for each core if these are more.
 * (Many for each core, as threads that wait also own shards; but each sum reads all shards.) */
static unsigned shards_of_machine(void)
{
  unsigned usual = tamis__power_of_two_per_core(16, 32, USUAL_SHARDS);
  unsigned least = tamis__power_of_two_per_core(2, 32, COUNTER_MOST_SHARDS);
  return usual > least ? usual : least;
}

unsigned tamis__counter_shards(uint64_t bytes)
{
  unsigned n = shards_of_machine();
  while (n > MIN_SHARDS && n > bytes / BYTES_PER_SHARD)
    n /= 2;
  return n;
}
