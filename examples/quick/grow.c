/* SPDX-License-Identifier: MIT */
/* How large is a filter if nobody knows how many keys will come? */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO, options.capacity = 1000,
  options.fpp = 0.001;           /* the filter grows, by default */
  options.max_bytes = 100 << 20; /* but not beyond 100 MiB: adds then get TAMIS_EFULL */
  tamis_filter *filter;
  if (tamis_create(&options, &filter) != TAMIS_OK)
    return 1;
  for (uint64_t key = 0; key < 1000000; key++)
    if (tamis_add(filter, &key, sizeof key) != TAMIS_OK)
      return 1;
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  printf("%g times its capacity, at the rate asked\n", stats.load);
  tamis_destroy(filter);
}
/* prints: 1000 times its capacity, at the rate asked */
