/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Guards the list, the references and the handles; never held in a call of the library. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct filter *filters;

struct filter *filter_own(tamis_filter *f)
{
  struct filter *filter = malloc(sizeof *filter);
  if (!filter) {
    tamis_destroy(f);
    return NULL;
  }
  *filter = (struct filter){.f = f, .references = 1};
  pthread_mutex_lock(&lock);
  filter->next = filters;
  filters = filter;
  pthread_mutex_unlock(&lock);
  return filter;
}

void filter_hold(struct filter *filter)
{
  pthread_mutex_lock(&lock);
  filter->references++;
  pthread_mutex_unlock(&lock);
}

static void unlink_locked(const struct filter *filter)
{
  struct filter **at = &filters;
  while (*at != filter)
    at = &(*at)->next;
  *at = filter->next;
}

void filter_release(struct filter *filter)
{
  pthread_mutex_lock(&lock);
  bool is_last = --filter->references == 0;
  if (is_last)
    unlink_locked(filter);
  pthread_mutex_unlock(&lock);
  if (is_last) {
    tamis_destroy(filter->f);
    free(filter);
  }
}

uint64_t filter_handle(struct filter *filter)
{
  pthread_mutex_lock(&lock);
  while (!filter->handle && getentropy(&filter->handle, sizeof filter->handle) == 0)
    ;
  uint64_t handle = filter->handle;
  pthread_mutex_unlock(&lock);
  return handle;
}

struct filter *filter_find(uint64_t handle)
{
  pthread_mutex_lock(&lock);
  struct filter *filter = handle ? filters : NULL;
  while (filter && filter->handle != handle)
    filter = filter->next;
  if (filter)
    filter->references++;
  pthread_mutex_unlock(&lock);
  return filter;
}
