/* SPDX-License-Identifier: MIT */
/* Workers are processes.  How does each worker know which sessions are open on all of them? */
#include <stdio.h>
#include <sys/wait.h>
#include <tamis/tamis.h>
#include <unistd.h>

static int serve(tamis_filter *open, int worker)
{
  char id[32];
  for (int i = 0; i < 100; i++) {
    size_t len = (size_t) snprintf(id, sizeof id, "session %d of %d", i, worker);
    if (tamis_add(open, id, len) != TAMIS_OK)
      return 1;
    if (i % 2 == 1 && tamis_remove(open, id, len) != TAMIS_OK) /* the session has ended */
      return 1;
  }
  return 0;
}

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO, options.growable = false;
  options.capacity = 1000, options.fpp = 1e-6;
  tamis_filter *open;
  if (tamis_open_shared(&options, NULL, &open) != TAMIS_OK) /* in memory that the children share */
    return 1;
  for (int worker = 0; worker < 4; worker++)
    if (fork() == 0)
      _exit(serve(open, worker));
  while (wait(NULL) > 0)
    ;
  printf("session 6 of 3: %s\n", tamis_contains(open, "session 6 of 3", 14) ? "open" : "unknown");
  printf("session 7 of 3: %s\n", tamis_contains(open, "session 7 of 3", 14) ? "open" : "unknown");
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(open, &stats);
  printf("%d are open\n", (int) stats.count);
  tamis_destroy(open);
}
/* prints: session 6 of 3: open */
/* prints: session 7 of 3: unknown */
/* prints: 200 are open */
