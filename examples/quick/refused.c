/* SPDX-License-Identifier: MIT */
/* tamis_create refuses my options.  Why? */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000, options.stripes = 5000;
  tamis_filter *filter;
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK) {
    char why[200];
    tamis_options_check(&options, why, sizeof why);
    printf("%s: %s\n", tamis_strerror(result), why);
  }
}
/* prints: invalid argument: stripes is 5000; it must be from 0 to 4096 */
