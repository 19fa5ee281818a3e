/* SPDX-License-Identifier: MIT */
/* How is a key removed?  Never remove a key that was not added, or more often than it was added:
 * the filter may then forget another key. */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO; /* the default, TAMIS_BLOOM, has no removes */
  options.capacity = 1000, options.fpp = 1e-6;
  tamis_filter *sessions;
  if (tamis_create(&options, &sessions) != TAMIS_OK)
    return 1;
  tamis_add(sessions, "alice", 5);
  tamis_add(sessions, "alice", 5); /* a second copy */
  tamis_remove(sessions, "alice", 5);
  printf("after one remove: %s\n", tamis_contains(sessions, "alice", 5) ? "in" : "not in");
  tamis_remove(sessions, "alice", 5);
  printf("after two: %s\n", tamis_contains(sessions, "alice", 5) ? "in" : "not in");
  tamis_destroy(sessions);
}
/* prints: after one remove: in */
/* prints: after two: not in */
