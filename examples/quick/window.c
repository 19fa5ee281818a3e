/* SPDX-License-Identifier: MIT */
/* How do keys expire?  "Was this seen in the last hour?" */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000000; /* keys that are remembered at one time */
  options.fpp = 1e-6;
  options.window = 6; /* periods: a key is kept for 6 to 7 of them after its last add */
  tamis_filter *recent;
  if (tamis_create(&options, &recent) != TAMIS_OK)
    return 1;
  tamis_add(recent, "visitor", 7);
  for (int minutes = 10; minutes <= 70; minutes += 10) {
    tamis_advance(recent); /* your timer does this every ten minutes: a period ends */
    if (!tamis_contains(recent, "visitor", 7))
      printf("forgotten after %d minutes\n", minutes);
  }
  tamis_destroy(recent);
}
/* prints: forgotten after 70 minutes */
