/* SPDX-License-Identifier: MIT */
#include "schedule.h"

#include "base/hook.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { PLACES = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
  const char *stop_at;
  struct {
    const char *name;
    unsigned count;
  } reached[PLACES];
} now;

static unsigned *reached(const char *place)
{
  unsigned i = 0;
  while (i < PLACES - 1 && now.reached[i].name && strcmp(now.reached[i].name, place) != 0)
    i++;
  now.reached[i].name = place;
  return &now.reached[i].count;
}

static _Thread_local bool passes_by;

void schedule_pass_by(void)
{
  passes_by = true;
}

static void at_hook(const char *place)
{
  if (passes_by)
    return;
  pthread_mutex_lock(&mutex);
  ++*reached(place);
  pthread_cond_broadcast(&changed);
  while (now.stop_at && strcmp(now.stop_at, place) == 0)
    pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

void schedule_stop_at(const char *place)
{
  pthread_mutex_lock(&mutex);
  memset(&now, 0, sizeof now);
  now.stop_at = place;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  atomic_store_explicit(&tamis__hook, at_hook, memory_order_release);
}

void schedule_go(void)
{
  pthread_mutex_lock(&mutex);
  now.stop_at = NULL;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

void schedule_wait_either(const char *place, unsigned n, const char *other, unsigned m)
{
  pthread_mutex_lock(&mutex);
  while (*reached(place) < n && *reached(other) < m)
    pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

void schedule_wait(const char *place, unsigned n)
{
  schedule_wait_either(place, n, place, n);
}
