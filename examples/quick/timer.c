/* SPDX-License-Identifier: MIT */
/* How long is a key remembered if a timer ends periods? */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <tamis/tamis.h>
#include <threads.h>
#include <time.h>

enum { WINDOW = 6, PERIOD_MS = 10, MESSAGES = 50, ROUNDS = 300 };
static tamis_filter *seen;
static atomic_bool stopped;

static int64_t milliseconds(void)
{
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Each tick ends one period, never two to catch up.  Ticks are a period apart, or more. */
static void *tick(void *unused)
{
  while (!stopped) {
    thrd_sleep(&(struct timespec){0, PERIOD_MS * 1000000}, NULL);
    tamis_advance(seen);
    tamis_save_file(seen, "timer.tamis"); /* however long this takes, no tick comes early */
  }
  return unused;
}

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000, options.fpp = 1e-6, options.window = WINDOW;
  if (tamis_load_file(NULL, "timer.tamis", &seen) !=
          TAMIS_OK && /* the time between two runs does not count */
      tamis_create(&options, &seen) != TAMIS_OK)
    return 1;
  pthread_t timer;
  if (pthread_create(&timer, NULL, tick, NULL))
    return 1;
  int64_t worked[MESSAGES] = {0};
  int early = 0;
  for (int i = 0; i < MESSAGES * ROUNDS; i++) { /* messages come again and again */
    const int message = i % MESSAGES;
    const int64_t now = milliseconds();
    if (tamis_add_unique(seen, &message, sizeof message) == TAMIS_OK) { /* it was forgotten */
      early += milliseconds() + 1 < worked[message] + WINDOW * PERIOD_MS;
      worked[message] = now;
    }
    if (message == 0)
      thrd_sleep(&(struct timespec){0, 1000000}, NULL);
  }
  stopped = true;
  pthread_join(timer, NULL);
  printf("worked on again too early: %d\n", early);
  tamis_destroy(seen);
}
/* prints: worked on again too early: 0 */
