/* SPDX-License-Identifier: MIT */
#include "schedule.h"

#include "base/hook.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_POINTS = 128 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* Two, so that a thread that has stopped sleeps while another one passes thousands of points. */
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER, let_go = PTHREAD_COND_INITIALIZER;
static struct {
  const char *stop_at;
  unsigned only; /* the number of the one thread that stops; 0: all of them */
  unsigned rests;
  struct {
    const char *name;
    unsigned count;
  } reached[MAX_POINTS];
} now;

static unsigned *reached(const char *point)
{
  unsigned i = 0;
  while (i < MAX_POINTS - 1 && now.reached[i].name && strcmp(now.reached[i].name, point) != 0)
    i++;
  now.reached[i].name = point;
  return &now.reached[i].count;
}

/* A thread that comes here returns, or waits for another one. */
static bool is_rest(const char *point)
{
  return !strcmp(point, "call_returned") || !strcmp(point, "stripe_wait") ||
         !strcmp(point, "bloom_layer_awaited");
}

static _Thread_local bool passes_by;

void schedule_pass_by(void)
{
  passes_by = true;
}

static void at_hook(const char *point)
{
  if (passes_by)
    return;
  pthread_mutex_lock(&mutex);
  unsigned n = ++*reached(point);
  bool may_stop = !now.only || n == now.only;
  now.rests += is_rest(point) || (may_stop && now.stop_at && !strcmp(now.stop_at, point));
  pthread_cond_broadcast(&arrived);
  while (may_stop && now.stop_at && strcmp(now.stop_at, point) == 0)
    pthread_cond_wait(&let_go, &mutex);
  pthread_mutex_unlock(&mutex);
}

void schedule_stop_at(const char *point)
{
  schedule_stop_at_nth(point, 0);
}

void schedule_stop_at_nth(const char *point, unsigned n)
{
  pthread_mutex_lock(&mutex);
  memset(&now, 0, sizeof now);
  now.stop_at = point;
  now.only = n;
  pthread_cond_broadcast(&let_go);
  pthread_mutex_unlock(&mutex);
  atomic_store_explicit(&tamis__hook, at_hook, memory_order_release);
}

void schedule_go(void)
{
  pthread_mutex_lock(&mutex);
  now.stop_at = NULL;
  pthread_cond_broadcast(&let_go);
  pthread_mutex_unlock(&mutex);
}

void schedule_wait_either(const char *point, unsigned n, const char *other, unsigned m)
{
  pthread_mutex_lock(&mutex);
  while (*reached(point) < n && *reached(other) < m)
    pthread_cond_wait(&arrived, &mutex);
  pthread_mutex_unlock(&mutex);
}

void schedule_wait(const char *point, unsigned n)
{
  schedule_wait_either(point, n, point, n);
}

unsigned schedule_reached(const char *point)
{
  pthread_mutex_lock(&mutex);
  unsigned n = *reached(point);
  pthread_mutex_unlock(&mutex);
  return n;
}

unsigned schedule_rests(void)
{
  pthread_mutex_lock(&mutex);
  unsigned n = now.rests;
  pthread_mutex_unlock(&mutex);
  return n;
}

void schedule_wait_rests(unsigned n)
{
  pthread_mutex_lock(&mutex);
  while (now.rests < n)
    pthread_cond_wait(&arrived, &mutex);
  pthread_mutex_unlock(&mutex);
}
