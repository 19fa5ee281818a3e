/* SPDX-License-Identifier: MIT */
#include <tamis/tamis.h>

#include <stdio.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  tamis_filter *filter;
  if (tamis_create(&options, &filter) != TAMIS_OK)
    return 1;
  int first = tamis_add_unique(filter, "key", 3), second = tamis_add_unique(filter, "key", 3);
  tamis_destroy(filter);
  printf("tamis %s: %s, then: %s\n", tamis_version(), tamis_strerror(first),
         tamis_strerror(second));
  return first == TAMIS_OK && second == TAMIS_PRESENT ? 0 : 1;
}
