/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include <stdlib.h>

void shared_filter_init(struct shared_filter *shared)
{
  pthread_mutex_init(&shared->mutex, NULL);
  shared->current = NULL;
}

void shared_filter_destroy(struct shared_filter *shared)
{
  filter_replace(shared, NULL);
  pthread_mutex_destroy(&shared->mutex);
}

struct held_filter *filter_hold(struct shared_filter *shared)
{
  pthread_mutex_lock(&shared->mutex);
  struct held_filter *held = shared->current;
  if (held != NULL)
    held->references++;
  pthread_mutex_unlock(&shared->mutex);
  return held;
}

void filter_release(struct shared_filter *shared, struct held_filter *held)
{
  if (held == NULL)
    return;
  pthread_mutex_lock(&shared->mutex);
  bool last = --held->references == 0;
  pthread_mutex_unlock(&shared->mutex);
  if (last) {
    tamis_destroy(held->filter);
    free(held);
  }
}

bool filter_replace(struct shared_filter *shared, tamis_filter *filter)
{
  struct held_filter *held = NULL;
  if (filter != NULL) {
    held = malloc(sizeof *held);
    if (held == NULL) {
      tamis_destroy(filter);
      return false;
    }
    *held = (struct held_filter){.filter = filter, .references = 1};
  }
  pthread_mutex_lock(&shared->mutex);
  struct held_filter *old = shared->current;
  shared->current = held;
  pthread_mutex_unlock(&shared->mutex);
  filter_release(shared, old);
  return true;
}
