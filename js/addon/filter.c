/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Guards the list, the references and the handles; never held in a call of the library. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct filter *with_handles;

struct filter *filter_own(tamis_filter *f)
{
  struct filter *filter = malloc(sizeof *filter);
  if (!filter) {
    tamis_destroy(f);
    return NULL;
  }
  *filter = (struct filter){.f = f, .references = 1};
  return filter;
}

void filter_hold(struct filter *filter)
{
  pthread_mutex_lock(&lock);
  filter->references++;
  pthread_mutex_unlock(&lock);
}

/* It has a handle. */
static void unlink_locked(const struct filter *filter)
{
  struct filter **at = &with_handles;
  while (*at != filter)
    at = &(*at)->next;
  *at = filter->next;
}

void filter_release(struct filter *filter)
{
  pthread_mutex_lock(&lock);
  bool is_last = --filter->references == 0;
  if (is_last && filter->handle)
    unlink_locked(filter);
  pthread_mutex_unlock(&lock);
  if (is_last) {
    tamis_destroy(filter->f);
    free(filter);
  }
}

static void give_handle_locked(struct filter *filter)
{
  while (!filter->handle)
    if (getentropy(&filter->handle, sizeof filter->handle) != 0)
      return;
  filter->next = with_handles;
  with_handles = filter;
}

uint64_t filter_handle(struct filter *filter)
{
  pthread_mutex_lock(&lock);
  if (!filter->handle)
    give_handle_locked(filter);
  uint64_t handle = filter->handle;
  pthread_mutex_unlock(&lock);
  return handle;
}

struct filter *filter_find(uint64_t handle)
{
  pthread_mutex_lock(&lock);
  struct filter *filter = handle ? with_handles : NULL;
  while (filter && filter->handle != handle)
    filter = filter->next;
  if (filter)
    filter->references++;
  pthread_mutex_unlock(&lock);
  return filter;
}
