/* SPDX-License-Identifier: MIT */
/* How does a filter outlive its process? */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000000;
  tamis_filter *filter, *again;
  if (tamis_create(&options, &filter) != TAMIS_OK)
    return 1;
  tamis_add(filter, "key", 3);
  /* Other threads may use the filter meanwhile.  A complete new file replaces the old one. */
  if (tamis_save_file(filter, "seen.tamis") != TAMIS_OK)
    return 1;
  tamis_destroy(filter);

  int result = tamis_load_file(NULL, "seen.tamis", &again); /* finds damage */
  if (result != TAMIS_OK) {
    fprintf(stderr, "seen.tamis: %s\n", tamis_strerror(result));
    return 1;
  }
  puts(tamis_contains(again, "key", 3) ? "still there" : "lost");
  tamis_destroy(again);
}
/* prints: still there */
