/* SPDX-License-Identifier: MIT */
/* Several threads get the same messages.  How is each message handled once? */
#include <pthread.h>
#include <stdio.h>
#include <tamis/tamis.h>

static tamis_filter *seen; /* any number of threads may use it at the same time */

static void *consume(void *handled)
{
  char id[32];
  for (int i = 0; i < 10000; i++) {
    size_t len = (size_t) snprintf(id, sizeof id, "message %d", i);
    if (tamis_add_unique(seen, id, len) == TAMIS_OK) /* exactly one thread gets this */
      ++*(int *) handled;
  }
  return NULL;
}

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 10000, options.fpp = 1e-9; /* a wrong "yes" would lose a message */
  if (tamis_create(&options, &seen) != TAMIS_OK)
    return 1;
  pthread_t a, b;
  int by_a = 0, by_b = 0;
  pthread_create(&a, NULL, consume, &by_a), pthread_create(&b, NULL, consume, &by_b);
  pthread_join(a, NULL), pthread_join(b, NULL);
  printf("%d of 20000 handled\n", by_a + by_b);
  tamis_destroy(seen);
}
/* prints: 10000 of 20000 handled */
