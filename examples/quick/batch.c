/* SPDX-License-Identifier: MIT */
/* I have many keys at once.  Is there a faster call?  (Yes, if the filter is larger than the
 * processor's cache: a batch fetches the memory of the next keys ahead.) */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000, options.fpp = 1e-9;
  tamis_filter *filter;
  if (tamis_create(&options, &filter) != TAMIS_OK)
    return 1;
  tamis_key keys[] = {{"one", 3}, {"two", 3}, {"one", 3}};
  int results[3];
  if (tamis_add_unique_many(filter, keys, 3, results) != TAMIS_OK)
    return 1;
  for (int i = 0; i < 3; i++)
    printf("%s: %s\n", (const char *) keys[i].data, results[i] == TAMIS_OK ? "new" : "seen");
  printf("%zu found\n", tamis_contains_many(filter, keys, 3, NULL));
  tamis_destroy(filter);
}
/* prints: one: new */
/* prints: two: new */
/* prints: one: seen */
/* prints: 3 found */
