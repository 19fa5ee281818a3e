/* SPDX-License-Identifier: MIT
 *
 * The functions of layer 1 that decide on sizes, as in lib/: filters alone are laid out as others are.
 */
#include <unistd.h>

unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned least, unsigned most)
{
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned n = least;
  while (n < most && (long) n < (long) per_core * cores)
    n *= 2;
  return n;
}

unsigned tamis__stripe_count(void)
{
  return tamis__power_of_two_per_core(32, 64, 1024);
}
