/* SPDX-License-Identifier: MIT */
/* How long is a key remembered if threads read a clock before they add? */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <tamis/tamis.h>
#include <threads.h>
#include <time.h>

enum { WINDOW = 6, PERIOD_MS = 10, MESSAGES = 50, ROUNDS = 100 };
static tamis_filter *seen;
static _Atomic uint64_t worked[MESSAGES]; /* the period of the last work on each message */

/* The time of day, in periods.  So the time between a save and the next load counts, too. */
static uint64_t period_now(void)
{
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return ((uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000) / PERIOD_MS;
}

/* Messages come again and again.  The thread works on those that the window does not remember. */
static void *work(void *early)
{
  for (int i = 0; i < MESSAGES * ROUNDS; i++) {
    const int message = i % MESSAGES;
    const uint64_t now = period_now();
    tamis_advance_to(seen, now); /* first the clock, then the add */
    if (tamis_add_unique(seen, &message, sizeof message) == TAMIS_OK) {
      *(int *) early += period_now() <= worked[message] + WINDOW;
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
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
      if (pthread_create(&threads[i], NULL, work, &early[i]))
        return 1;
    for (int saves = 0; saves < 5; saves++) /* while the threads work */
      tamis_save_file(seen, "clock.tamis");
    for (int i = 0; i < 2; i++)
      pthread_join(threads[i], NULL);
    tamis_save_file(seen, "clock.tamis");
    tamis_destroy(seen); /* the program ends, and is started again */
    if (tamis_load_file(NULL, "clock.tamis", &seen) != TAMIS_OK)
      return 1;
  }
  printf("worked on again too early: %d\n", early[0] + early[1]);
  tamis_destroy(seen);
}
/* prints: worked on again too early: 0 */
