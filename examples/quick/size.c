/* SPDX-License-Identifier: MIT */
/* How large is a filter for 10^9 keys, and which rate has one of 2 GiB?  (Nothing is allocated.) */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000000000, options.fpp = 0.01, options.growable = false;
  uint64_t bytes;
  double fpp;
  if (tamis_bytes_for(&options, &bytes) != TAMIS_OK ||
      tamis_fpp_for(&options, (uint64_t) 2 << 30, &fpp) != TAMIS_OK)
    return 1;
  printf("a rate of 1 %%: %.2f GB\n", (double) bytes / 1e9);
  printf("2 GiB: a rate of %.2f %%\n", 100 * fpp);
}
/* prints: a rate of 1 %: 1.28 GB */
/* prints: 2 GiB: a rate of 0.06 % */
