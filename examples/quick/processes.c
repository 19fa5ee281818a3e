/* SPDX-License-Identifier: MIT */
/* Several processes get the same messages.  How is each message handled once? */
#include <stdio.h>
#include <sys/wait.h>
#include <tamis/tamis.h>
#include <unistd.h>

static int consume(tamis_filter *seen)
{
  char id[32];
  int handled = 0;
  for (int i = 0; i < 200; i++) {
    size_t len = (size_t) snprintf(id, sizeof id, "message %d", i);
    if (tamis_add_unique(seen, id, len) == TAMIS_OK) /* exactly one process gets this */
      handled++;
  }
  return handled;
}

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 200, options.fpp = 1e-9;
  options.max_bytes = 1 << 20; /* the limit of the file, and of the address space for it */
  int handled = 0, status;
  for (int i = 0; i < 4; i++)
    if (fork() == 0) { /* each child opens the file; the first one creates it */
      tamis_filter *seen;
      _exit(tamis_open_shared(&options, "messages.tamis", &seen) == TAMIS_OK ? consume(seen) : 255);
    }
  while (wait(&status) > 0)
    handled += WEXITSTATUS(status);
  printf("%d of 800 handled\n", handled);
}
/* prints: 200 of 800 handled */
