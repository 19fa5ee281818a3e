/* SPDX-License-Identifier: MIT */
#include "base/cores.h"

#include <unistd.h>

unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned min, unsigned max)
{
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned n = min;
  while (n < max && (long) n < (long) per_core * cores)
    n *= 2;
  return n;
}
