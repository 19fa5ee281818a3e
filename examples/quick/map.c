/* SPDX-License-Identifier: MIT */
/* Many processes look up keys in one list.  How do they share its memory? */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000, options.fpp = 1e-9;
  tamis_filter *list, *mapped;
  if (tamis_create(&options, &list) != TAMIS_OK)
    return 1;
  tamis_add(list, "revoked token", 13);
  if (tamis_save_file(list, "revoked.tamis") != TAMIS_OK) /* or: tamis build tokens.txt -o ... */
    return 1;
  tamis_destroy(list);

  /* Mapping takes no time, whatever the size.  All processes that map the file share its memory. */
  if (tamis_map_file(NULL, "revoked.tamis", &mapped) != TAMIS_OK)
    return 1;
  puts(tamis_contains(mapped, "revoked token", 13) ? "refused" : "passed");
  puts(tamis_contains(mapped, "good token", 10) ? "refused" : "passed");
  tamis_destroy(mapped);
}
/* prints: refused */
/* prints: passed */
