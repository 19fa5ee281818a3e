/* SPDX-License-Identifier: MIT */
/* How are duplicates dropped from a stream? */
#include <stdio.h>
#include <string.h>
#include <tamis/tamis.h>

int main(void)
{
  const char *stream[] = {"apple", "pear", "apple", "fig", "pear"};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000000; /* distinct keys expected; the filter grows if there are more */
  options.fpp = 1e-6;         /* one new key in a million is dropped wrongly */
  tamis_filter *seen;
  if (tamis_create(&options, &seen) != TAMIS_OK)
    return 1;
  for (int i = 0; i < 5; i++)
    if (tamis_add_unique(seen, stream[i], strlen(stream[i])) == TAMIS_OK) /* or TAMIS_PRESENT */
      puts(stream[i]);
  tamis_destroy(seen);
}
/* prints: apple */
/* prints: pear */
/* prints: fig */
