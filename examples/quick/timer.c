/* SPDX-License-Identifier: MIT */
/* How long is a key remembered where a timer ends periods? */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <tamis/tamis.h>
#include <threads.h>
#include <time.h>

enum { WINDOW = 6, PERIOD_MS = 10, MESSAGES = 50, ROUNDS = 100 };
static tamis_filter *seen;
static _Atomic uint64_t worked[MESSAGES]; /* when */
static atomic_bool stopped;

static uint64_t milliseconds(void)
{
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

/* One advance a tick, never two to catch up.  The next tick is a period after the return. */
static void *tick(void *unused)
{
  while (!stopped) {
    thrd_sleep(&(struct timespec){0, PERIOD_MS * 1000000}, NULL);
    tamis_advance(seen);
    tamis_save_file(seen, "timer.tamis"); /* however long it takes, no tick comes early */
  }
  return unused;
}

/* Messages come again and again.  One is worked on if it was not within the window. */
static void *work(void *early)
{
  for (int i = 0; i < MESSAGES * ROUNDS; i++) {
    const int message = i % MESSAGES;
    const uint64_t now = milliseconds();
    if (tamis_add_unique(seen, &message, sizeof message) == TAMIS_OK) {
      *(int *) early += milliseconds() + 1 < worked[message] + WINDOW * PERIOD_MS;
      worked[message] = now;
    }
    if (message == 0)
      thrd_sleep(&(struct timespec){0, 1000000}, NULL);
  }
  return NULL;
}

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000, options.fpp = 1e-6, options.window = WINDOW;
  if (tamis_create(&options, &seen) != TAMIS_OK)
    return 1;
  int early[2] = {0, 0};
  for (int starts = 0; starts < 3; starts++) {
    pthread_t timer, threads[2];
    stopped = false;
    if (pthread_create(&timer, NULL, tick, NULL))
      return 1;
    for (int i = 0; i < 2; i++)
      if (pthread_create(&threads[i], NULL, work, &early[i]))
        return 1;
    for (int i = 0; i < 2; i++)
      pthread_join(threads[i], NULL);
    stopped = true;
    pthread_join(timer, NULL);
    tamis_save_file(seen, "timer.tamis");
    tamis_destroy(seen); /* the program ends; the time until it is started again does not count */
    if (tamis_load_file(NULL, "timer.tamis", &seen) != TAMIS_OK)
      return 1;
  }
  printf("worked on again too early: %d\n", early[0] + early[1]);
  tamis_destroy(seen);
}
/* prints: worked on again too early: 0 */
