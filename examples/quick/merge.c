/* SPDX-License-Identifier: MIT */
/* Two processes or machines have a filter each.  How do the two become one? */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000, options.fpp = 1e-9;
  options.seed = 0x8d2f51c07b94e36a; /* the same for both filters: choose a secret number */
  tamis_filter *monday, *tuesday;
  if (tamis_create(&options, &monday) != TAMIS_OK || tamis_create(&options, &tuesday) != TAMIS_OK)
    return 1;
  tamis_add(monday, "ann", 3);
  tamis_add(tuesday, "bob", 3);
  if (tamis_merge(monday, tuesday) != TAMIS_OK)
    return 1;
  printf("ann %d, bob %d\n", tamis_contains(monday, "ann", 3), tamis_contains(monday, "bob", 3));
  tamis_destroy(monday), tamis_destroy(tuesday);
}
/* prints: ann 1, bob 1 */
